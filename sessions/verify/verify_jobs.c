/* See verify_jobs.h. */
#include "sessions/verify/verify_jobs.h"

#include <stdlib.h>

#include "base/ids.h"
#include "base/array.h"

enum { PAGE = 16, WORTH_WAITING = 2 * PAGE };
#define MOST_KV_BYTES (INT64_C(2) << 30)
#define MOST_CTX (1 << 20)

/* ---- making ---- */

static int add(struct jobs *j, const struct job *job, struct err *e)
{
	if (j->n == 1 << 26 || !ARRAY_ROOM(j->job, j->cap, j->n + 1))
		return err_no_memory(e, "what is to be verified");
	j->job[j->n++] = *job;
	j->n_rows += job->n;
	return 0;
}

static bool is_wanted(const struct history_row *row, int64_t from, int64_t to)
{
	return history_computed(row) && row->step >= from && row->step <= to;
}

static int add_take(struct jobs *j, const struct history_request *r, int32_t request, int32_t take,
	int64_t from, int64_t to, struct err *e)
{
	const struct history_take *t = &r->take[take];
	struct job job = { .request = request, .take = take, .first = t->first, .n = t->n };

	while (job.n && !is_wanted(&r->row[job.first], from, to)) {
		job.first++;
		job.n--;
	}
	while (job.n && !is_wanted(&r->row[job.first + job.n - 1], from, to))
		job.n--;
	return job.n ? add(j, &job, e) : 0;
}

int jobs_make(struct jobs *j, const struct history *h, int64_t from, int64_t to, struct err *e)
{
	for (int32_t i = 0; i < h->n_requests; i++) {
		const struct history_request *r = &h->request[i];

		/* without a complete prompt nothing can be computed */
		if (!r->n_prompt || (r->broken[0] && !r->n_rows))
			continue;
		for (int32_t t = 0; t < r->n_takes; t++)
			if (add_take(j, r, i, t, from, to, e))
				return -1;
	}
	return 0;
}

void jobs_free(struct jobs *j)
{
	for (int32_t i = 0; i < j->n; i++)
		free(j->job[i].ids);
	free(j->job);
}

int32_t jobs_ctx(const struct history *h, int32_t n)
{
	n = n < 1 ? 1 : n;
	return h->ctx > n && h->ctx <= MOST_CTX ? (int32_t)h->ctx : n;
}

int jobs_size(struct jobs *j, struct history *h, struct engine_options *o, struct err *e)
{
	const struct history_request *whose = NULL;
	int64_t longest = 0, pages = 0, page_bytes = 1;
	const int64_t shape[] = { h->n_layers, h->n_kv_heads, h->head_dim };

	for (int32_t i = 0; i < j->n; i++) {
		const struct history_request *r = &h->request[j->job[i].request];
		const struct lossy_settings l = history_lossy(h, r);
		int64_t n = r->longest;

		if (lossy_put(&l, o, e)) /* it adds ranks where they round */
			return -1;
		whose = n > longest ? r : whose;
		longest = n > longest ? n : longest;
		pages += n / PAGE + 2;
	}
	for (int i = 0; i < 3; i++) /* as the file states: only the number of pages depends on it */
		page_bytes *= shape[i] < 1 ? 1 : shape[i] > 1 << 12 ? 1 << 12 : shape[i];
	page_bytes *= (int64_t)PAGE * 4;
	if (pages > MOST_KV_BYTES / page_bytes)
		pages = MOST_KV_BYTES / page_bytes;
	if (pages < longest / PAGE + 4)
		pages = longest / PAGE + 4;
	o->ctx = jobs_ctx(h, (int32_t)longest);
	o->pages = (int32_t)pages;
	o->page_size = PAGE;
	o->slots = JOBS_SLOTS;
	o->budget = JOBS_BUDGET;
	o->prefill_chunk = 0;
	o->prefix_cache = true;
	o->spec = "off";
	o->rule = "race";
	j->lossy = history_lossy(h, whose);
	return lossy_put(&j->lossy, o, e);
}

/* ---- running ---- */

static int materialise(struct job *job, const struct history *h, struct err *e)
{
	const struct history_request *r = &h->request[job->request];

	if (job->ids)
		return 0;
	job->ids = malloc((size_t)r->longest * sizeof *job->ids);
	if (!job->ids)
		return err_no_memory(e, "the tokens of a request");
	history_ids(r, job->take, job->ids);
	job->n_ids = r->row[job->first + job->n - 1].pos + 1;
	return 0;
}

/* A running job is about to compute a prefix of this one, which the prefix cache will then hold. */
static bool should_wait(const struct jobs *j, const struct history *h, const struct job *job)
{
	const struct history_request *r = &h->request[job->request];
	int32_t start = r->row[job->first].pos;

	if (r->kind == EV_REQUEST_KIND_score)
		return false;
	for (int32_t i = 0; i < j->n_under_way; i++) {
		const struct job *other = &j->job[j->under_way[i]];
		int32_t n = ids_common(job->ids, job->n_ids, other->ids, other->n_ids);

		n = n < start ? n : start;
		if (n - other->computed >= WORTH_WAITING)
			return true;
	}
	return false;
}

/* A diffusion model's answer depends on all its masks: it is decoded anew, to the recorded limit by
 * the recorded settings, as far as the job goes. */
static int decode_anew(struct history *h, const struct history_request *r, struct engine_request *q,
	struct engine *engine, struct err *e)
{
	static const char *const names[] = { "denoise", "denoise-steps", "denoise-block",
		"denoise-above" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const struct history_setting *s = history_setting(h, names[i], r->seq);

		if (s && *s->value && engine_set(engine, names[i], s->value, e))
			return -1;
	}
	q->kind = EV_REQUEST_KIND_run;
	q->n_ids = r->n_prompt;
	q->max_tokens = (int32_t)(r->longest - r->n_prompt);
	q->ignore_end = true;
	return 0;
}

static int submit(
	struct jobs *j, struct history *h, struct engine *engine, int32_t at, struct err *e)
{
	struct job *job = &j->job[at];
	const struct history_request *r = &h->request[job->request];
	struct engine_request q = { .kind = EV_REQUEST_KIND_verify,
		.ids = job->ids,
		.n_ids = job->n_ids,
		.params = r->params,
		.sample = r->sample,
		.text = "verify",
		.grammar = r->grammar,
		.adapter = r->adapter,
		.bound_from = r->bound_from,
		.n_prompt = r->row[job->first].pos };

	if (r->kind == EV_REQUEST_KIND_score || r->kind == EV_REQUEST_KIND_embed)
		q.kind = r->kind;
	q.pooling = 1 + (int)r->pooling;
	if (r->denoised && decode_anew(h, r, &q, engine, e))
		return -1;
	j->under_way[j->n_under_way++] = at;
	/* the number that engine_submit() will assign: a refusal is emitted before it returns */
	job->number = ++j->n_submitted;
	return engine_submit(engine, &q, e) < 0 ? -1 : 0;
}

int jobs_compute_as(struct jobs *j, struct history *h, const struct history_request *r,
	struct engine *e, struct err *err)
{
	const struct lossy_settings l = history_lossy(h, r);

	if (lossy_same(&l, &j->lossy))
		return 1;
	if (j->n_under_way)
		return 0;
	if (lossy_apply(&l, e, err))
		return -1;
	j->lossy = l;
	return 1;
}

int jobs_submit(struct jobs *j, struct history *h, struct engine *engine, struct err *e)
{
	int32_t waiting = 0, may;

	while (j->from < j->n && j->job[j->from].number)
		j->from++;
	for (int32_t i = j->from; i < j->n && waiting < JOBS_WINDOW && j->n_under_way < JOBS_SLOTS;
		 i++) {
		struct job *job = &j->job[i];

		if (job->number)
			continue;
		if (materialise(job, h, e))
			return -1;
		if (should_wait(j, h, job)) {
			waiting++;
			continue;
		}
		may = jobs_compute_as(j, h, &h->request[job->request], engine, e);
		if (may < 0)
			return -1;
		if (!may)
			break;
		if (submit(j, h, engine, i, e))
			return -1;
	}
	return j->n_under_way;
}

struct job *jobs_of(struct jobs *j, int64_t number)
{
	for (int32_t i = 0; i < j->n_under_way; i++)
		if (j->job[j->under_way[i]].number == number)
			return &j->job[j->under_way[i]];
	return NULL;
}

void jobs_done(struct jobs *j, struct job *job)
{
	int32_t at = (int32_t)(job - j->job);

	for (int32_t i = 0; i < j->n_under_way; i++)
		if (j->under_way[i] == at)
			j->under_way[i] = j->under_way[--j->n_under_way];
	j->n_compared += job->n_compared;
	job->number = -1;
	free(job->ids);
	job->ids = NULL;
}

int32_t jobs_row(const struct job *job, const struct history *h, int64_t pos)
{
	int64_t i = pos - h->request[job->request].row[job->first].pos;

	return i >= 0 && i < job->n ? job->first + (int32_t)i : -1;
}

/* See verify.h. Jobs are made in the order of the recording; a few run at a time; results are
 * reported in order. */
#include "sessions/verify/verify.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "sessions/session.h"
#include "sessions/verify/verify_jobs.h"

#define PROGRESS_NS 200000000LL

struct run {
	struct history *h;
	const struct verify_options *o;
	verify_report *report;
	verify_progress *progress;
	void *arg;
	struct verify_summary *sum;
	struct err *e;
	struct jobs jobs;
	struct session session;
	struct verify_result *result; /* [h->n_requests] */
	int32_t *open_jobs;           /* [h->n_requests] jobs that are not done */
	int32_t n_reported;           /* results reported, in order */
	int32_t odd_text;             /* the first token whose text is not the model's */
	int64_t last_progress_ns;
};

static bool is_stopped(const struct run *r)
{
	return r->o->stop && atomic_load(r->o->stop);
}

/* ---- comparing ---- */

static struct verify_difference *differ(
	struct verify_result *v, struct job *j, int32_t row, enum verify_what what)
{
	static struct verify_difference spare;
	struct verify_difference *d = &v->first;

	v->n_differ += !j->differs || j->differs_at != row;
	j->differs = true;
	j->differs_at = row;
	/* takes run in parallel: the earliest row counts */
	if (d->what != VERIFY_NOTHING && d->row <= row)
		return &spare;
	*d = (struct verify_difference){ .what = what,
		.take = j->take,
		.row = row,
		.recorded = EV_NULL_I,
		.computed = EV_NULL_I,
		.was = (double)NAN,
		.is = (double)NAN };
	return d;
}

static void differ_int(struct verify_result *v, struct job *j, int32_t row, enum verify_what what,
	int64_t recorded, int64_t computed)
{
	struct verify_difference *d;

	if (recorded == computed)
		return;
	d = differ(v, j, row, what);
	d->recorded = recorded;
	d->computed = computed;
}

/* slack: by how much another libm may change a logarithm. */
static void differ_real(struct verify_result *v, struct job *j, int32_t row, enum verify_what what,
	double was, double is, double slack)
{
	struct verify_difference *d;

	if (isnan(was) || fabs(was - is) <= slack * fmax(1, fabs(is)))
		return;
	d = differ(v, j, row, what);
	d->was = was;
	d->is = is;
}

/* Modified rejection draws by its own rule; at temperature 0 both choose the most probable
 * token. */
static bool is_raced(const struct history_request *q, const struct history_row *row)
{
	return row->source < EV_SOURCE_chosen && (!row->by_rejection || q->params.temperature == 0);
}

static void compare_token(struct run *r, struct job *j, const struct ev_token *t)
{
	struct verify_result *v = &r->result[j->request];
	const struct history_request *q = v->request;
	int32_t i = jobs_row(j, r->h, t->pos);
	const struct history_row *row = i < 0 ? NULL : &q->row[i];
	bool raced;

	if (!row || !history_computed(row))
		return;
	raced = is_raced(q, row);
	j->n_compared++;
	v->rows++;
	v->draws += raced;
	v->hash_alone += !raced;
	differ_int(v, j, i, VERIFY_HASH, row->hash, t->hash);
	if (!raced || row->hash != t->hash)
		return;
	differ_int(v, j, i, VERIFY_ID, row->id, t->id);
	if (row->id != t->id)
		return;
	differ_real(v, j, i, VERIFY_P, row->p, t->p, 0);
	differ_real(v, j, i, VERIFY_ENTROPY, row->entropy, t->entropy, 1e-9);
	if (row->by_rejection)
		return;
	differ_real(v, j, i, VERIFY_P_DRAW, row->p_draw, t->p_draw, 0);
	if (row->survivors != EV_NULL_I)
		differ_int(v, j, i, VERIFY_SURVIVORS, row->survivors, t->survivors);
}

/* A score, or a text's vector, which has no logp. */
static void compare_given(struct run *r, struct job *j, int32_t i, int64_t hash, double logp)
{
	struct verify_result *v = &r->result[j->request];
	const struct history_row *row = i < 0 ? NULL : &v->request->row[i];

	if (!row)
		return;
	j->n_compared++;
	v->rows++;
	differ_int(v, j, i, VERIFY_HASH, row->hash, hash);
	if (row->hash == hash)
		differ_real(v, j, i, VERIFY_LOGP, row->p, logp, 1e-9);
}

static void fail_job(struct run *r, struct job *j, struct ev_span why)
{
	int32_t row = j->first + (j->n_compared < j->n ? j->n_compared : j->n - 1);
	struct verify_difference *d = differ(&r->result[j->request], j, row, VERIFY_FAILED);

	ev_copy(d->why, sizeof d->why, why);
}

static void on_event(void *arg, const struct event *ev)
{
	struct run *r = arg;
	struct job *j;

	if (ev->kind == EV_token && (j = jobs_of(&r->jobs, ev->u.token.request)))
		compare_token(r, j, &ev->u.token);
	else if (ev->kind == EV_score && (j = jobs_of(&r->jobs, ev->u.score.request)))
		compare_given(r, j, jobs_row(j, r->h, ev->u.score.pos), ev->u.score.hash, ev->u.score.logp);
	else if (ev->kind == EV_embedding && (j = jobs_of(&r->jobs, ev->u.embedding.request)))
		compare_given(r, j, j->first, ev->u.embedding.hash, (double)NAN);
	else if (ev->kind == EV_batch && (j = jobs_of(&r->jobs, ev->u.batch.request)))
		j->computed = (int32_t)(ev->u.batch.pos + ev->u.batch.rows);
	else if (ev->kind == EV_finish && (j = jobs_of(&r->jobs, ev->u.finish.request))) {
		const bool denoised = r->h->request[j->request].denoised;

		/* an answer that is decoded anew may go on where the recorded one was stopped */
		if (ev->u.finish.reason != EV_FINISH_end && !(denoised && j->n_compared >= j->n))
			fail_job(r, j, ev->u.finish.why);
		r->open_jobs[j->request]--;
		jobs_done(&r->jobs, j);
	}
}

/* ---- telling ---- */

static void add_up(struct verify_summary *sum, const struct verify_result *v)
{
	const struct verify_difference *best = &sum->first.first, *d = &v->first;

	sum->rows += v->rows;
	sum->draws += v->draws;
	sum->hash_alone += v->hash_alone;
	sum->given += v->given;
	sum->n_requests++;
	sum->n_broken += v->request->broken[0] != '\0';
	sum->n_differ += d->what != VERIFY_NOTHING;
	if (d->what != VERIFY_NOTHING &&
		(best->what == VERIFY_NOTHING ||
			v->request->row[d->row].seq < sum->first.request->row[best->row].seq))
		sum->first = *v;
}

static void report_done(struct run *r)
{
	for (; r->n_reported < r->h->n_requests && !r->open_jobs[r->n_reported]; r->n_reported++) {
		add_up(r->sum, &r->result[r->n_reported]);
		if (r->report)
			r->report(r->arg, &r->result[r->n_reported]);
	}
}

static void report_progress(struct run *r)
{
	int64_t now = now_ns();

	if (!r->progress || now - r->last_progress_ns < PROGRESS_NS)
		return;
	r->last_progress_ns = now;
	r->progress(r->arg, r->jobs.n_compared, r->jobs.n_rows, NULL);
}

/* ---- running ---- */

/* What the file says that tokens decode to. */
static void compare_texts(struct run *r)
{
	const struct tokenizer *t = engine_tokenizer(r->session.engine);

	for (int32_t id = 0; id < r->h->vocab; id++) {
		const struct ev_text *was = ev_texts_get(&r->h->texts, id);
		const struct gguf_text is = was ? tokenizer_bytes(t, id) : (struct gguf_text){ 0 };

		if (!was || (was->size == is.size && !memcmp(was->bytes, is.data, is.size)))
			continue;
		if (!r->sum->texts++)
			r->odd_text = id;
	}
}

static int open_engine(struct run *r)
{
	struct session_options o = { .engine = r->o->engine, .sink = on_event, .arg = r };

	o.engine.abandon = r->o->stop;
	if (jobs_size(&r->jobs, r->h, &o.engine, r->e) || session_open(&r->session, &o, r->e))
		return -1;
	snprintf(
		r->sum->backend, sizeof r->sum->backend, "%s", engine_info(r->session.engine)->backend);
	snprintf(r->sum->isa, sizeof r->sum->isa, "%s", engine_info(r->session.engine)->isa);
	r->sum->threads = engine_info(r->session.engine)->threads;
	if (engine_info(r->session.engine)->vocab != r->h->vocab)
		return err_set(r->e, ERR_INPUT,
			"%s: a vocabulary of %lld was recorded, but this model has %d", r->h->path,
			(long long)r->h->vocab, engine_info(r->session.engine)->vocab);
	compare_texts(r);
	engine_observe(r->session.engine, false);
	if (session_begin(&r->session, NULL, NULL, r->e))
		return -1;
	return 0;
}

/* Answers that are decoded anew end where the recorded ones did. */
static void cut_short(struct run *r)
{
	for (int32_t i = 0; i < r->jobs.n_under_way; i++) {
		const struct job *j = &r->jobs.job[r->jobs.under_way[i]];

		if (r->h->request[j->request].denoised && j->n_compared >= j->n)
			engine_cancel(r->session.engine, j->number);
	}
}

static int run_jobs(struct run *r)
{
	while (jobs_submit(&r->jobs, r->h, r->session.engine, r->e) > 0) {
		if (is_stopped(r))
			return err_set(r->e, ERR_INTERRUPTED, "stopped");
		if (engine_step(r->session.engine, r->e) < 0)
			return -1;
		cut_short(r);
		report_done(r);
		report_progress(r);
	}
	return r->e->code ? -1 : 0;
}

/* Computes the next row after the token drawn here, in place of the file's: is its hash the
 * recorded one? */
struct next_row {
	int32_t pos;
	int64_t hash;
};

static void on_next(void *arg, const struct event *ev)
{
	struct next_row *n = arg;

	if (ev->kind == EV_score && ev->u.score.pos == n->pos)
		n->hash = ev->u.score.hash;
}

static int try_drawn(struct run *r, const struct history_request *q, const int32_t *ids)
{
	struct verify_summary *sum = r->sum;
	const struct verify_difference *d = &sum->first.first;
	int32_t next = d->row + 1;
	struct next_row n = { .pos = q->row[d->row].pos + 1, .hash = EV_NULL_I };
	struct engine_request s =
		engine_own_request(EV_REQUEST_KIND_score, ids, n.pos + 1, 0, "verify");

	if (next >= q->take[d->take].first + q->take[d->take].n || q->row[next].hash == EV_NULL_I)
		return 0;
	s.adapter = q->adapter;
	if (engine_add_sink(r->session.engine, on_next, &n) ||
		engine_submit(r->session.engine, &s, r->e) < 0)
		return -1;
	while (!engine_idle(r->session.engine))
		if (is_stopped(r) || engine_step(r->session.engine, r->e) < 0)
			return -1;
	if (n.hash != EV_NULL_I)
		sum->drawn_fits = n.hash == q->row[next].hash;
	return 0;
}

static void bisecting(void *arg, const char *what)
{
	struct run *r = arg;

	if (r->progress)
		r->progress(r->arg, 0, 0, what);
}

static int find_cause(struct run *r)
{
	const struct verify_result *v = &r->sum->first;
	const struct history_request *q = v->request;
	struct bisect_options o = { .engine = r->o->engine,
		.recorded_backend = r->h->backend,
		.recorded_isa = r->h->isa,
		.used_backend = r->sum->backend,
		.used_isa = r->sum->isa,
		.adapter = q->adapter,
		.stop = r->o->stop,
		.progress = bisecting,
		.arg = r };
	int32_t *ids = malloc((size_t)q->longest * sizeof *ids);
	int32_t pos = q->row[v->first.row].pos;
	int rc = 0;

	/* rows depend on masks that the answer no longer has; a text's vector is no row of logits */
	if (q->denoised || q->kind == EV_REQUEST_KIND_embed) {
		free(ids);
		return 0;
	}
	if (r->session.engine && jobs_compute_as(&r->jobs, r->h, q, r->session.engine, r->e) < 0)
		rc = -1;
	o.lossy = r->jobs.lossy;
	o.engine.ctx = jobs_ctx(r->h, pos + 1);
	if (!ids)
		return err_no_memory(r->e, "%d tokens", q->longest);
	history_ids(q, v->first.take, ids);
	if (!rc && v->first.what == VERIFY_ID) {
		ids[pos] = (int32_t)v->first.computed;
		rc = try_drawn(r, q, ids);
	} else if (!rc && v->first.what == VERIFY_HASH) {
		session_close(&r->session, NULL); /* one model in memory at a time */
		rc = bisect_run(&r->sum->bisect, &o, ids, pos, v->first.recorded, r->e);
	}
	free(ids);
	return rc;
}

static int conclude(struct run *r)
{
	const struct verify_summary *sum = r->sum;
	char text[300];

	if (sum->n_differ) {
		verify_describe(r->h, &sum->first, text, sizeof text);
		return err_set(r->e, ERR_DIFFERS, "%d of %d requests differ; first request %lld: %s",
			sum->n_differ, sum->n_requests, (long long)sum->first.request->number, text);
	}
	if (sum->texts)
		return err_set(r->e, ERR_DIFFERS,
			"%lld text%s of tokens in the file %s not the model's, first that of token %s",
			(long long)sum->texts, plural(sum->texts), sum->texts == 1 ? "is" : "are",
			ev_texts_quoted(&r->h->texts, r->odd_text, 60, text, sizeof text));
	if (r->h->n_orphans)
		return err_set(r->e, ERR_INPUT,
			"%s: %lld row%s of no request in the file cannot be computed again, first of request "
			"%lld; the rest is equal",
			r->h->path, (long long)r->h->n_orphans, plural(r->h->n_orphans),
			(long long)r->h->orphan);
	if (sum->n_broken)
		return err_set(r->e, ERR_INPUT,
			"%s: of %d requests not all rows are in the file, so what follows them cannot be "
			"computed again; the rest is equal",
			r->h->path, sum->n_broken);
	if (r->jobs.n || (r->h->n_requests && !r->o->from && r->o->to == INT64_MAX))
		return 0;
	return err_set(r->e, ERR_INPUT, "%s: %s: there is nothing to compute again", r->h->path,
		r->h->n_requests ? "no row is of that range" : "it has no request");
}

static int verify(struct run *r)
{
	int64_t start;

	if (verify_arith(r->h, r->e) || jobs_make(&r->jobs, r->h, r->o->from, r->o->to, r->e))
		return -1;
	for (int32_t i = 0; i < r->h->n_requests; i++) {
		const struct history_request *q = &r->h->request[i];

		r->result[i] = (struct verify_result){ .request = q };
		for (int32_t k = 0; k < q->n_rows; k++)
			r->result[i].given += !history_computed(&q->row[k]);
		r->result[i].outside = q->n_rows > r->result[i].given;
	}
	for (int32_t i = 0; i < r->jobs.n; i++) {
		r->open_jobs[r->jobs.job[i].request]++;
		r->result[r->jobs.job[i].request].outside = false;
	}
	if (r->jobs.n && open_engine(r))
		return -1;
	start = now_ns();
	if (r->jobs.n && run_jobs(r))
		return -1;
	report_done(r);
	r->sum->seconds = (double)(now_ns() - start) * 1e-9;
	if (r->sum->n_differ && find_cause(r))
		return -1;
	return conclude(r);
}

int verify_run(struct history *h, const struct verify_options *o, verify_report *report,
	verify_progress *progress, void *arg, struct verify_summary *sum, struct err *e)
{
	struct err own = { 0 };
	struct run r = { .h = h,
		.o = o,
		.report = report,
		.progress = progress,
		.arg = arg,
		.sum = sum,
		.e = e ? e : &own,
		.last_progress_ns = now_ns() };
	int rc = -1;

	*sum =
		(struct verify_summary){ .drawn_fits = -1, .recorded_seconds = (double)h->steps_ns * 1e-9 };
	r.result = calloc((size_t)h->n_requests + 1, sizeof *r.result);
	r.open_jobs = calloc((size_t)h->n_requests + 1, sizeof *r.open_jobs);
	if (!r.result || !r.open_jobs)
		err_set(r.e, ERR_MEMORY, "%s: no memory for %d requests", h->path, h->n_requests);
	else
		rc = verify(&r);
	session_close(&r.session, NULL);
	jobs_free(&r.jobs);
	free(r.result);
	free(r.open_jobs);
	return rc;
}

/* Prompts on ranks of their own: the engine's side. See handover_impl.h. A rank that is lost gets
 * no more prompts; what it had not computed is computed here. */
#include "engine/core/handover_impl.h"

#include <errno.h>

#include "base/clock.h"
#include "base/wait.h"

enum { WAIT_NS = 5000000 /* calls to the engine wait for so long, while nothing else runs */ };

/* ---- jobs ---- */

static bool has_news(const struct handover_job *j)
{
	return (j->done > j->taken && !j->nan_row) || j->state >= JOB_DONE;
}

/* The first job of the request; NULL: that has news. */
static struct handover_job *find_job(
	struct handover *h, const struct request *r, struct prefill_rank **rank)
{
	struct handover_job *j;

	for (*rank = h->rank; *rank < h->rank + h->n; ++*rank)
		TAILQ_FOREACH(j, &(*rank)->jobs, link)
			if (r ? j->r == r : has_news(j))
				return j;
	return NULL;
}

/* A rank that was lost meanwhile takes none: false, and the job is gone. */
static bool put_job(struct prefill_rank *p, struct handover_job *j)
{
	bool lost;

	j->asked_ns = now_ns();
	pthread_mutex_lock(&p->h->lock);
	lost = p->lost;
	if (!lost)
		TAILQ_INSERT_TAIL(&p->jobs, j, link);
	pthread_cond_broadcast(&p->h->wake);
	pthread_mutex_unlock(&p->h->lock);
	if (lost)
		handover_free_job(j);
	return !lost;
}

static bool *marks(struct prefill_rank *p, int32_t g)
{
	if (!p->has[g])
		p->has[g] = calloc((size_t)p->h->e->memory.pages[g].n_pages, sizeof *p->has[g]);
	return p->has[g];
}

/* Pages of blocks before the job's first row that the rank lacks. */
static bool list_pages(
	struct prefill_rank *p, struct handover_job *j, const struct request *r, int32_t n_blocks)
{
	const struct memory *m = &p->h->e->memory;
	const int32_t known = r->there_rank == p->number ? r->there / m->page_size : 0;

	j->give = calloc((size_t)(n_blocks * m->spec.n) + 1, sizeof *j->give);
	for (int32_t g = 0; j->give && g < m->spec.n; g++)
		for (int32_t b = known; b < n_blocks; b++) {
			const int32_t page = r->table.page[g][b];

			if (page >= 0 && !(p->has[g] && p->has[g][page]))
				j->give[j->has.n_give++] = (struct job_page){ g, page, m->pages[g].page_bytes };
		}
	return j->give;
}

/* Ids and block tables are copied: the request may go first. */
static bool copy_tables(struct handover_job *j, const struct request *r)
{
	const size_t blocks = (size_t)j->has.n_blocks;
	int32_t *at = j->room =
		malloc(((size_t)j->has.n + (size_t)j->n_groups * blocks) * sizeof *j->room);

	if (!at)
		return false;
	j->has.ids = memcpy(at, r->ids + j->has.first, (size_t)j->has.n * sizeof *at);
	at += j->has.n;
	for (int32_t g = 0; g < j->n_groups; g++, at += blocks)
		j->has.page[g] = memcpy(at, r->table.page[g], blocks * sizeof *at);
	return true;
}

static struct handover_job *make_job(struct prefill_rank *p, struct request *r, int32_t n)
{
	const struct engine *e = p->h->e;
	const int32_t size = e->memory.page_size;
	struct handover_job *j = calloc(1, sizeof *j);

	if (!j)
		return NULL;
	j->r = r;
	j->request = r->id;
	j->n_groups = e->memory.spec.n;
	j->has = (struct job_wire){ .first = r->computed,
		.n = n,
		.n_blocks = (r->computed + n + size - 1) / size,
		.chunk = e->sched.chunk };
	j->there = (int64_t)sizeof(int32_t) * (5 + n + j->n_groups * j->has.n_blocks);
	if (copy_tables(j, r) && list_pages(p, j, r, (r->computed + size - 1) / size))
		return j;
	handover_free_job(j);
	return NULL;
}

/* ---- whom, and back ---- */

static int64_t rows_before(struct prefill_rank *p)
{
	const struct handover_job *j;
	int64_t n = 0;

	TAILQ_FOREACH(j, &p->jobs, link)
		n += j->has.n - j->done;
	return n;
}

/* The one that has the request's pages already, or the one with the fewest rows before it. */
static struct prefill_rank *choose(struct handover *h, const struct request *r)
{
	struct prefill_rank *best = NULL;
	int64_t least = INT64_MAX;

	pthread_mutex_lock(&h->lock);
	for (struct prefill_rank *p = h->rank; p < h->rank + h->n; p++) {
		const int64_t rows = r->there && r->there_rank == p->number ? -1 : rows_before(p);

		if (p->lost || rows >= least)
			continue;
		best = p;
		least = rows;
	}
	pthread_mutex_unlock(&h->lock);
	return best;
}

bool handover_take(void *arg, struct request *r, int32_t n)
{
	struct handover *h = arg;
	struct prefill_rank *p = h->e->set.kv_cache ? choose(h, r) : NULL;
	struct handover_job *j = p ? make_job(p, r, n) : NULL;

	return j && put_job(p, j);
}

static int64_t session_ns(const struct engine *e, int64_t ns)
{
	return ns ? ns - (now_ns() - stream_now(&e->stream)) : EV_NULL_I;
}

static void emit(
	struct engine *e, const struct prefill_rank *p, const struct handover_job *j, const char *why)
{
	STREAM_EMIT(&e->stream, handover, .request = j->request, .rank = p->number, .pos = j->has.first,
		.tokens = j->has.n, .computed = j->done, .given = j->has.n_give, .there = j->there,
		.back = j->back, .asked_ns = session_ns(e, j->asked_ns),
		.start_ns = session_ns(e, j->start_ns), .first_ns = session_ns(e, j->first_ns),
		.end_ns = session_ns(e, j->end_ns ? j->end_ns : now_ns()), .equal = !j->differs,
		.why = ev_text(why));
}

/* From now on the worker does not touch its pages. */
void handover_recall(void *arg, struct request *r)
{
	struct handover *h = arg;
	struct prefill_rank *p;
	struct handover_job *j;

	r->there = 0;
	pthread_mutex_lock(&h->lock);
	j = r->where == REQUEST_AWAY ? find_job(h, r, &p) : NULL;
	if (j) {
		emit(h->e, p, j, "the request was called back");
		TAILQ_REMOVE(&p->jobs, j, link);
		j->dropped = true;
		if (j->state != JOB_RUNS)
			handover_free_job(j);
	}
	pthread_mutex_unlock(&h->lock);
}

/* ---- what came ---- */

/* Whole pages that the prefix cache keeps are the rank's, too, as long as it does. */
static void mark_pages(struct prefill_rank *p, const struct request *r)
{
	const struct memory *m = &p->h->e->memory;

	for (int32_t g = 0; g < m->spec.n; g++) {
		bool *has = marks(p, g);

		for (int32_t b = 0; has && b < r->computed / m->page_size; b++)
			if (r->table.page[g][b] >= 0 && m->pages[g].page[r->table.page[g][b]].cached)
				has[r->table.page[g][b]] = true;
	}
}

static void count_rows(struct engine *e, struct request *r, int32_t n)
{
	const struct plan_item item = { .r = r, .pos = r->computed, .n_rows = n };

	r->pairs += engine_pairs_of(e, &item);
	r->rows += n;
	r->computed += n;
	r->last_step = e->n_steps;
	sched_register(&e->sched, r);
}

static void end_job(struct engine *e, struct prefill_rank *p, struct handover_job *j)
{
	struct request *r = j->r;

	r->where = REQUEST_HERE;
	r->there = j->state == JOB_DONE ? r->computed : 0;
	r->there_rank = p->number;
	if (j->state == JOB_DONE)
		mark_pages(p, r);
	emit(e, p, j, j->state == JOB_FAILED ? j->why : NULL);
	if (j->nan_row)
		engine_finish(e, r, EV_FINISH_failed, engine_not_a_number);
}

/* What of the job is new; frees it when it has ended. Not with the lock held: pages change. */
static void take(struct engine *e, struct prefill_rank *p, struct handover_job *j)
{
	int32_t n;
	bool ended;

	pthread_mutex_lock(&e->handover->lock);
	n = j->nan_row ? 0 : j->done - j->taken;
	ended = j->state >= JOB_DONE;
	if (ended)
		TAILQ_REMOVE(&p->jobs, j, link);
	pthread_mutex_unlock(&e->handover->lock);
	j->taken += n;
	if (n)
		count_rows(e, j->r, n);
	if (!ended)
		return;
	if (j->r)
		end_job(e, p, j);
	handover_free_job(j);
}

void handover_begin(struct engine *e, void *state)
{
	struct handover_job *j;

	(void)state;
	do {
		struct prefill_rank *p;

		if (!e->handover)
			return;
		pthread_mutex_lock(&e->handover->lock);
		j = find_job(e->handover, NULL, &p);
		pthread_mutex_unlock(&e->handover->lock);
		if (j)
			take(e, p, j);
	} while (j);
}

/* No request got a row: waits for news, but not for long, since the engine's caller may have some.
 */
void handover_wait(struct engine *e, void *state)
{
	struct handover *h = e->handover;
	const int64_t end = now_ns() + WAIT_NS;
	struct prefill_rank *p;
	bool any = false;

	(void)state;
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	for (p = h->rank; p < h->rank + h->n; p++)
		any |= !TAILQ_EMPTY(&p->jobs);
	while (any && !find_job(h, NULL, &p) && wait_until(&h->moved, &h->lock, end) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&h->lock);
}

/* ---- settings and pages that change ---- */

int engine_handover_set(
	struct engine *e, const struct setting *s, const char *value, struct err *err)
{
	struct handover *h = e->handover;
	const size_t name = strlen(s->name) + 1, all = name + strlen(value) + 1;

	for (int32_t i = 0; h && engine_ranks_share(s) && i < h->n; i++) {
		struct handover_job *j = calloc(1, sizeof *j);

		if (!j || !(j->setting = malloc(all))) {
			free(j);
			return err_no_memory(err, "a setting of the prefill ranks");
		}
		memcpy(j->setting, s->name, name);
		memcpy(j->setting + name, value, all - name);
		j->setting_bytes = all;
		for (int32_t g = 0; g < e->memory.spec.n; g++)
			j->n_pages[g] = e->memory.pages[g].n_pages;
		put_job(&h->rank[i], j);
	}
	return 0;
}

void engine_handover_evicted(struct engine *e, int32_t group, int32_t page)
{
	for (int32_t i = 0; e->handover && i < e->handover->n; i++)
		if (e->handover->rank[i].has[group])
			e->handover->rank[i].has[group][page] = false;
}

void engine_handover_forget(struct engine *e)
{
	for (int32_t i = 0; e->handover && i < e->handover->n; i++)
		for (int32_t g = 0; g < MEMORY_GROUPS; g++) {
			free(e->handover->rank[i].has[g]);
			e->handover->rank[i].has[g] = NULL;
		}
}

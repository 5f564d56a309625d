/* See fleet.h. */
#include "simulate/fleet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/err.h"
#include "base/router.h"
#include "simulate/prompts.h"
#include "simulate/replica.h"

enum { MOST_STALLS = 1024, PROGRESS_EVERY = 4096 };

/* What is done at one moment, in this order. */
enum phase { STEP_ENDS, CHUNK_ENDS, ARRIVES, STEP_BEGINS };

struct moment {
	double at_s;
	enum phase phase;
	int64_t order; /* number of the replica, or of its prefill rank */
	void *what;
};

struct job { /* a request */
	struct arrival a;
	struct tally_request t;
	int32_t *ids; /* until its replica has it */
	int32_t replica;
};

struct result { /* of the step that runs */
	struct job *job;
	enum { DRAWN, ENDED, STARVED } what;
};

struct node {
	struct replica r;
	struct fleet *f;
	struct prompts prompts;
	int32_t index;      /* in the fleet */
	bool runs, planned; /* a step; its beginning is among the moments */
	struct job **inbox; /* to submit when the next step begins */
	int32_t n_inbox, cap_inbox;
	struct result *result;
	int32_t n_results, cap_results;
	int64_t n_admitted; /* requests, as far as was told */
	int32_t stalls;
};

struct fleet {
	const struct fleet_options *o;
	const struct fleet_source *source;
	struct tally *t;
	struct fleet_counts *c;
	struct node *node;
	int32_t n;
	struct router router;
	struct moment *heap;
	int32_t n_heap, cap_heap;
	double now_s;
	bool no_memory;
};

/* ---- moments ---- */

static bool before(const struct moment *a, const struct moment *b)
{
	if (a->at_s != b->at_s)
		return a->at_s < b->at_s;
	return a->phase != b->phase ? a->phase < b->phase : a->order < b->order;
}

static void push(struct fleet *f, struct moment m)
{
	int32_t i = f->n_heap;

	if (!ARRAY_ROOM(f->heap, f->cap_heap, f->n_heap + 1)) {
		f->no_memory = true;
		return;
	}
	f->n_heap++;
	for (; i && before(&m, &f->heap[(i - 1) / 2]); i = (i - 1) / 2)
		f->heap[i] = f->heap[(i - 1) / 2];
	f->heap[i] = m;
}

static struct moment pop(struct fleet *f)
{
	const struct moment top = f->heap[0], last = f->heap[--f->n_heap];
	int32_t i = 0;

	for (int32_t child; (child = 2 * i + 1) < f->n_heap; i = child) {
		if (child + 1 < f->n_heap && before(&f->heap[child + 1], &f->heap[child]))
			child++;
		if (!before(&f->heap[child], &last))
			break;
		f->heap[i] = f->heap[child];
	}
	f->heap[i] = last;
	return top;
}

/* ---- requests ---- */

static void job_free(struct job *j)
{
	if (j)
		free(j->ids);
	free(j);
}

static void plan_soon(struct fleet *f, struct node *n)
{
	if (n->runs || n->planned)
		return;
	n->planned = true;
	push(f, (struct moment){ f->now_s, STEP_BEGINS, n->index, n });
}

static void send(struct fleet *f, struct job *j)
{
	struct node *n;

	j->replica = router_send(&f->router,
		&(struct router_request){ .ids = j->ids, .n_ids = j->a.n_prompt, .number = j->a.number },
		NULL);
	n = &f->node[j->replica];
	if (!ARRAY_ROOM(n->inbox, n->cap_inbox, n->n_inbox + 1)) {
		f->no_memory = true;
		return;
	}
	n->inbox[n->n_inbox++] = j;
	plan_soon(f, n);
}

static void arrive(struct fleet *f, struct err *e)
{
	struct job *j = calloc(1, sizeof *j);

	if (!j || f->source->next(f->source->arg, &j->a, &j->ids, e) != 1) {
		free(j);
		f->no_memory = true;
		return;
	}
	f->now_s = j->a.at_s > f->now_s ? j->a.at_s : f->now_s;
	if (!f->o->as_logged)
		tally_arrived(f->t, &j->t, j->a.number, f->now_s);
	send(f, j);
}

static void end_job(struct fleet *f, struct job *j, bool failed)
{
	router_ended(&f->router, j->replica, j->a.n_prompt);
	j->t.n_prompt = j->a.n_prompt;
	j->t.user = j->a.user;
	tally_ended(f->t, &j->t, failed, f->now_s);
	if (f->source->ended)
		f->source->ended(f->source->arg, &j->a, f->now_s);
	job_free(j);
}

/* ---- a replica's step ---- */

static void on_plan(void *arg)
{
	struct node *n = arg;
	const struct sched *s = &n->r.sched;

	if (n->n_admitted == s->n_admitted)
		return;
	for_running(s, r) {
		struct job *j = r->owner_data;

		if (j->t.slot >= 0)
			continue;
		j->t.n_cached = r->hit;
		j->t.slot = r->slot;
		tally_admitted(n->f->t, &j->t, n->f->now_s);
	}
	n->n_admitted = s->n_admitted;
}

static void add_result(struct node *n, struct request *r, int what)
{
	if (!ARRAY_ROOM(n->result, n->cap_results, n->n_results + 1)) {
		n->f->no_memory = true;
		return;
	}
	n->result[n->n_results].job = r->owner_data;
	n->result[n->n_results++].what = what;
}

static void on_drawn(void *arg, struct request *r)
{
	add_result(arg, r, DRAWN);
}

static void on_end(void *arg, struct request *r)
{
	add_result(arg, r, r->out_of_pages ? STARVED : ENDED);
}

/* Counts a step, or a chunk on a prefill rank; seconds that it takes. */
static double step_takes(struct fleet *f, const struct step_shape *shape)
{
	const struct cost_ranks_step cost = cost_ranks_step(f->o->cost, &f->o->ranks, shape);

	f->c->steps++;
	f->c->rows += shape->rows;
	f->c->busy_s += cost.s;
	f->c->exchange_s += cost.exchange_s;
	f->c->bubble_s += cost.bubble_s;
	f->c->sent += cost.sent;
	return cost.s;
}

/* A rank sends what a layer stored before it goes on with the next one. */
static void chunk_begins(void *arg, struct prompt_rank *p, const struct step_shape *shape)
{
	struct node *n = arg;
	struct fleet *f = n->f;
	const int64_t bytes = shape->rows * f->o->cost->token_bytes;
	const double s = step_takes(f, shape) + (double)bytes / f->o->bandwidth;

	f->c->moved_bytes += bytes;
	push(f, (struct moment){ f->now_s + s, CHUNK_ENDS, ((int64_t)n->index << 16) + p->number, p });
}

static void chunk_ends(struct fleet *f, struct prompt_rank *p)
{
	struct node *n = p->of->arg;

	prompts_chunk_ended(p);
	plan_soon(f, n);
}

static int submit_all(struct fleet *f, struct node *n, struct err *e)
{
	for (int32_t i = 0; i < n->n_inbox; i++) {
		struct job *j = n->inbox[i];
		char user[16];
		const struct engine_request q = { .kind = EV_REQUEST_KIND_run,
			.ids = j->ids,
			.n_ids = j->a.n_prompt,
			.max_tokens = j->a.n_output,
			.user = user,
			.priority = j->a.priority };
		int rc;

		n->inbox[i] = NULL;
		snprintf(user, sizeof user, "%d", j->a.user);
		if (f->o->as_logged)
			tally_arrived(f->t, &j->t, j->a.number, f->now_s);
		rc = replica_submit(&n->r, &q, j, e);
		if (rc < 1)
			end_job(f, j, true);
		if (rc < 0)
			return -1;
		if (rc) {
			free(j->ids);
			j->ids = NULL;
		}
	}
	n->n_inbox = 0;
	return 0;
}

static int step_begins(struct fleet *f, struct node *n, struct err *e)
{
	struct step_shape shape;

	n->planned = false;
	if (submit_all(f, n, e))
		return -1;
	if (replica_idle(&n->r))
		return 0;
	shape = replica_step(&n->r);
	if (!shape.rows && !n->n_results && prompts_run(&n->prompts))
		return 0; /* the end of a chunk plans the next one */
	n->stalls = shape.rows ? 0 : n->stalls + 1;
	if (n->stalls > MOST_STALLS)
		return err_set(e, ERR_USAGE, "the requests cannot run with these settings");
	n->runs = true;
	push(f, (struct moment){
				f->now_s + (shape.rows ? step_takes(f, &shape) : 0), STEP_ENDS, n->index, n });
	return 0;
}

static void step_ends(struct fleet *f, struct node *n)
{
	n->runs = false;
	for (int32_t i = 0; i < n->n_results; i++) {
		struct job *j = n->result[i].job;

		if (n->result[i].what == DRAWN)
			tally_tokens(f->t, &j->t, 1, f->now_s);
		else
			end_job(f, j, n->result[i].what == STARVED);
	}
	n->n_results = 0;
	if (n->n_inbox || !replica_idle(&n->r))
		plan_soon(f, n);
}

/* ---- the run ---- */

static int do_next(struct fleet *f, struct err *e)
{
	const struct moment m = pop(f);

	f->now_s = m.at_s;
	switch (m.phase) {
	case STEP_ENDS: step_ends(f, m.what); return 0;
	case CHUNK_ENDS: chunk_ends(f, m.what); return 0;
	default: return step_begins(f, m.what, e);
	}
}

static int run(struct fleet *f, struct err *e)
{
	for (int64_t n = 1; !f->no_memory; n++) {
		const struct moment next = { f->source->when(f->source->arg), ARRIVES, 0, NULL };

		if (f->n_heap && !before(&next, &f->heap[0])) {
			if (do_next(f, e))
				return -1;
		} else if (isfinite(next.at_s)) {
			arrive(f, e);
		} else {
			return 0;
		}
		if (f->o->progress && n % PROGRESS_EVERY == 0 &&
			!f->o->progress(f->o->arg, f->t, f->now_s)) {
			f->c->stopped = true;
			return 0;
		}
	}
	return err_no_memory(e, "more requests");
}

static int open_node(struct fleet *f, struct node *node, struct err *e)
{
	const struct fleet_options *o = f->o;
	const struct memory_specs specs = memory_paged_specs(1, 1, 1); /* one group of keys and values
																	*/

	if (replica_open(&node->r, o->engine, &specs, e))
		return -1;
	node->f = f;
	node->index = f->n;
	node->r.planned = on_plan;
	node->r.drawn = on_drawn;
	node->r.ended = on_end;
	node->r.arg = node;
	node->prompts = (struct prompts){ .begins = chunk_begins, .arg = node };
	if (!prompts_open(&node->prompts, o->engine, &node->r.sched, e))
		return 0;
	replica_close(&node->r);
	return -1;
}

static int open_nodes(struct fleet *f, struct err *e)
{
	const struct fleet_options *o = f->o;

	f->node = calloc((size_t)o->replicas, sizeof *f->node);
	if (!f->node)
		return err_no_memory(e, "%d replicas", o->replicas);
	if (router_open(&f->router, o->router, o->replicas, o->engine->slots, o->seed, e))
		return -1;
	for (; f->n < o->replicas; f->n++)
		if (open_node(f, &f->node[f->n], e))
			return -1;
	return 0;
}

/* Jobs of results are freed where they ended; the others are in slots and queues. */
static void free_jobs(struct node *n)
{
	const struct sched *s = &n->r.sched;

	for (int32_t i = 0; i < n->n_inbox; i++)
		job_free(n->inbox[i]);
	for (int32_t i = 0; i < n->n_results; i++)
		if (n->result[i].what != DRAWN)
			job_free(n->result[i].job);
	for_running(s, r)
		job_free(r->owner_data);
	for_waiting(s, r)
		job_free(r->owner_data);
}

static void close_nodes(struct fleet *f)
{
	for (int32_t i = 0; i < f->n; i++) {
		struct node *n = &f->node[i];

		f->c->preempted += n->r.sched.n_preempted;
		free_jobs(n);
		free(n->inbox);
		free(n->result);
		replica_close(&n->r);
		prompts_close(&n->prompts);
	}
	router_close(&f->router);
	free(f->node);
}

int fleet_run(const struct fleet_options *o, const struct fleet_source *source, struct tally *t,
	struct fleet_counts *out, struct err *e)
{
	struct fleet f = { .o = o, .source = source, .t = t, .c = out };
	int rc;

	*out = (struct fleet_counts){ 0 };
	rc = open_nodes(&f, e) || run(&f, e);
	out->now_s = f.now_s;
	close_nodes(&f);
	free(f.heap);
	return rc ? -1 : 0;
}

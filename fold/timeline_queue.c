/* Part of the timeline: who waits and in which order, and how long requests of each user and of
 * each priority class waited. */
#include "fold/timeline_fold.h"

/* Whole entries. The requests need not be known: one that ended since may be gone. */
static bool order_makes_sense(struct ev_span s)
{
	struct ev_queued q;

	if (s.size % sizeof q || s.size > EV_QUEUE_MOST * sizeof q)
		return false;
	for (size_t i = 0; ev_item(s, i, &q, sizeof q); i++)
		if (q.request < 1)
			return false;
	return true;
}

bool tl_take_queue(struct timeline *t, const struct event *ev)
{
	const struct ev_queue *e = &ev->u.queue;
	struct tl_queue *q = &t->queue;

	if (e->step < 1 || e->waiting < 0 || !order_makes_sense(e->order))
		return false;
	*q = (struct tl_queue){ .seq = ev->seq, .step = e->step, .waiting = tl_int32(e->waiting) };
	q->n = (int32_t)ev_items(e->order, q->order, sizeof *q->order, EV_QUEUE_MOST);
	return true;
}

bool tl_fold_queue(struct timeline *t, const struct event *ev)
{
	return tl_take_queue(t, ev);
}

/* ---- waits ---- */

bool tl_same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

const struct tl_group *timeline_group_of(
	const struct timeline *t, const struct tl_request *r, bool by_user)
{
	const int64_t priority = r->params.priority == EV_NULL_I ? 0 : r->params.priority;
	const struct tl_group *g = by_user ? t->user : t->priority;
	const int32_t n = at_most(by_user ? t->n_users : t->n_priorities, TL_GROUPS - 1);
	int32_t i = 0;

	while (i < n && !(by_user ? tl_same_text(g[i].user, r->user) : g[i].priority == priority))
		i++;
	return &g[i];
}

static struct tl_group *group_of(struct timeline *t, const struct tl_request *r, bool by_user)
{
	return (struct tl_group *)timeline_group_of(t, r, by_user);
}

void tl_name_group(struct timeline *t, struct tl_group *g, const struct ev_request *e)
{
	g->user = tl_text(t, e->user);
	g->priority = e->priority == EV_NULL_I ? 0 : e->priority;
}

static void add_arrival(struct timeline *t, struct tl_group *g, int32_t *n, const struct event *ev)
{
	if (!g->seq) {
		g->seq = ev->seq;
		tl_name_group(t, g, &ev->u.request);
		++*n;
	}
	g->arrived++;
}

void tl_note_arrived(struct timeline *t, const struct tl_request *r, const struct event *ev)
{
	t->open.arrived++;
	if (!tl_waits_count(r))
		return;
	add_arrival(t, group_of(t, r, true), &t->n_users, ev);
	add_arrival(t, group_of(t, r, false), &t->n_priorities, ev);
}

/* A file's times may be any within the bounds; so are the sums. */
static int64_t bounded_sum(int64_t a, int64_t b)
{
	return at_most(a + b, TL_INT_MAX);
}

static void add_wait(struct tl_group *g, int64_t ns, int64_t steps)
{
	g->admitted++;
	g->ns = bounded_sum(g->ns, ns);
	g->steps = bounded_sum(g->steps, steps);
	g->most_ns = at_least(ns, g->most_ns);
	g->most_steps = at_least(steps, g->most_steps);
}

void tl_note_wait(struct timeline *t, const struct tl_request *r)
{
	const int64_t ns = r->admitted_ns > r->arrival_ns ? r->admitted_ns - r->arrival_ns : 0;
	const int64_t steps = r->admitted_step - r->arrived_step;

	add_wait(group_of(t, r, true), ns, steps);
	add_wait(group_of(t, r, false), ns, steps);
}

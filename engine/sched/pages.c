/* Pages of the scheduler: where they come from, and which request gives them up. See sched.h. */
#include "engine/sched/sched_impl.h"

/* It goes to place `at` of the queue. */
static void give_up(struct sched *s, struct request *r, const struct request *favour, int32_t at)
{
	int32_t pages = 0;

	for (int32_t g = 0; g < s->memory->spec.n; g++)
		pages += memory_held(&r->table, g, 0);
	STREAM_EMIT(s->stream, preempt, .request = r->id, .pages = pages, .tokens = r->computed,
		.favour = favour->id, .rank = sched_rank(s->policy->victim, s, r));
	sched_leave_slot(s, r);
	s->n_preempted++;
	sched_queue_insert(s, at, r); /* cannot fail: sched_add made room */
}

void sched_rest(struct sched *s, struct request *r)
{
	int32_t next = sched_next_waiting(s);

	give_up(s, r, next < 0 ? r : s->queue[next], s->n_queue);
	r->backed_off = true;
}

bool sched_is_planned(const struct plan *p, const struct request *r)
{
	for (int32_t i = 0; i < p->n_items; i++)
		if (p->item[i].r == r)
			return true;
	return false;
}

/* The request that the policy preempts, of those admitted after r and not in the plan (whose rows
 * are certain); the youngest among equals. */
static struct request *choose_victim(
	const struct sched *s, const struct plan *p, const struct request *r)
{
	struct request *best = NULL;
	int64_t best_rank = 0;

	for_running(s, v) {
		int64_t rank;

		if (v->admitted <= r->admitted || sched_is_planned(p, v))
			continue;
		rank = sched_rank(s->policy->victim, s, v);
		if (!best || rank > best_rank || (rank == best_rank && v->admitted > best->admitted)) {
			best = v;
			best_rank = rank;
		}
	}
	return best;
}

/* Makes a page of group g free, or has r share its own with one request less. False: only older or
 * planned requests have pages left. */
static bool make_room(struct sched *s, const struct plan *p, const struct request *r, int32_t g)
{
	struct request *v;

	if (s->memory->pages[g].n_free || prefix_evict(s->prefix, g, s->step))
		return true;
	v = choose_victim(s, p, r);
	if (v)
		give_up(s, v, r, 0);
	return v;
}

bool sched_ensure_pages(
	struct sched *s, const struct plan *p, struct request *r, int32_t pos, int32_t end)
{
	int32_t g;

	while ((g = memory_reserve(s->memory, &r->table, r->id, pos, end)) >= 0)
		if (!make_room(s, p, r, g))
			return false;
	return true;
}

void sched_denied(struct sched *s, const struct plan *p, struct request *r)
{
	if (s->n_running == 1 && !p->n_items)
		r->out_of_pages = true; /* the engine ends it after the plan */
	else
		give_up(s, r, p->n_items ? p->item[0].r : r, 0);
}

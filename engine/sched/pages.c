/* Pages of the scheduler: where they come from, and who gives them up. See sched.h. */
#include "engine/sched/sched_impl.h"

static void give_up(struct sched *s, struct request *r, const struct request *favour, int32_t at)
{
	struct event ev;

	ev_init(&ev, EV_preempt);
	ev.u.preempt.request = r->id;
	ev.u.preempt.pages = r->n_pages;
	ev.u.preempt.tokens = r->computed;
	ev.u.preempt.favour = favour->id;
	stream_emit(s->stream, &ev);
	sched_leave_slot(s, r);
	s->n_preempted++;
	sched_queue_insert(s, at, r); /* cannot fail: sched_add made room */
}

static void pages_preempt(struct sched *s, struct request *r, const struct request *favour)
{
	give_up(s, r, favour, 0);
}

void sched_rest(struct sched *s, struct request *r)
{
	int32_t next = sched_next_waiting(s);

	give_up(s, r, next < 0 ? r : s->queue[next], s->n_queue);
	r->resting = true;
}

static bool is_planned(const struct plan *p, const struct request *r)
{
	for (int32_t i = 0; i < p->n_items; i++)
		if (p->item[i].r == r)
			return true;
	return false;
}

/* Of those admitted after r and not in the plan (whose rows are promised), the one that the policy gives
 * up; the youngest among equals. */
static struct request *pages_victim(const struct sched *s, const struct plan *p, const struct request *r)
{
	struct request *best = NULL;
	int64_t best_rank = 0;

	for (int32_t i = 0; i < s->n_slots; i++) {
		struct request *v = s->slot[i];
		int64_t rank;

		if (!v || v->admitted <= r->admitted || is_planned(p, v))
			continue;
		rank = s->policy->victim(s, v);
		if (!best || rank > best_rank || (rank == best_rank && v->admitted > best->admitted)) {
			best = v;
			best_rank = rank;
		}
	}
	return best;
}

/* Makes one page free. False: none can be had without hurting an older or planned request. */
static bool pages_make_room(struct sched *s, const struct plan *p, const struct request *r)
{
	struct request *v;

	if (s->kv->n_free || prefix_evict(s->prefix, s->step))
		return true;
	while ((v = pages_victim(s, p, r))) {
		pages_preempt(s, v, r);
		if (s->kv->n_free || prefix_evict(s->prefix, s->step))
			return true;
	}
	return false;
}

bool sched_ensure_pages(struct sched *s, const struct plan *p, struct request *r, int32_t pos,
						int32_t end)
{
	int32_t size = s->kv->store.page_size, need = (end + size - 1) / size;

	for (int32_t b = pos / size; b < r->n_pages && b < need; b++)
		while (kv_writable(s->kv, &r->pages[b], r->id, b))
			if (!pages_make_room(s, p, r))
				return false;
	while (r->n_pages < need) {
		int32_t page = kv_alloc(s->kv, r->id, r->n_pages);
		if (page >= 0)
			r->pages[r->n_pages++] = page;
		else if (!pages_make_room(s, p, r))
			return false;
	}
	return true;
}

void sched_denied(struct sched *s, const struct plan *p, struct request *r)
{
	if (s->n_running == 1 && !p->n_items)
		r->starved = true; /* the engine ends it after the plan */
	else
		pages_preempt(s, r, p->n_items ? p->item[0].r : r);
}

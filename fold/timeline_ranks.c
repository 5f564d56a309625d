/* Part of the timeline: ranks, what each has, and what it did in the newest steps. */
#include "fold/timeline_fold.h"

void tl_split_add(struct tl_split *s, const struct ev_rank *r)
{
	const int32_t part = (int32_t)(tl_or_0(r->part) % TL_MOST_RANKS),
				  stage = (int32_t)(tl_or_0(r->stage) % TL_MOST_RANKS);

	if (r->rank >= s->ranks && r->rank < TL_MOST_RANKS)
		s->ranks = (int32_t)r->rank + 1;
	s->tensor = part >= s->tensor ? part + 1 : s->tensor;
	s->pipeline = stage >= s->pipeline ? stage + 1 : s->pipeline;
	s->sequence = s->ranks / (s->tensor * s->pipeline);
	s->sequence = at_least(s->sequence, 1);
}

struct tl_split timeline_split(const struct timeline *t)
{
	struct tl_split s = { 1, 1, 1, 1 };

	for (int32_t i = 0; i < t->n_ranks; i++)
		tl_split_add(&s, &t->rank[i].has);
	return s;
}

/* Ranks are told in order, and may be told again. */
bool tl_fold_rank(struct timeline *t, const struct event *ev)
{
	const struct ev_rank *e = &ev->u.rank;
	struct tl_rank *r;

	if (e->rank < 0 || e->rank > t->n_ranks || e->rank >= TL_MOST_RANKS)
		return false;
	r = &t->rank[e->rank];
	t->n_ranks += e->rank == t->n_ranks;
	r->has = *e;
	tl_settle(&r->has, EV_rank, 0);
	if (e->first_kv_head < 0)
		r->has.first_kv_head = EV_NULL_I;
	ev_copy(r->isa, sizeof r->isa, e->isa);
	ev_copy(r->transport, sizeof r->transport, e->transport);
	ev_copy(r->host, sizeof r->host, e->host);
	return true;
}

static bool lane_makes_sense(const struct ev_traffic *e)
{
	return e->lane.size <= TL_LANE * sizeof(uint32_t) && e->lane.size % sizeof(uint32_t) == 0 &&
		   (e->lane.data || !e->lane.size) &&
		   (e->start_ns == EV_NULL_I || (e->start_ns >= -TL_INT_MAX && e->start_ns <= TL_INT_MAX));
}

static void take_lane(struct timeline *t, struct tl_rank *r, const struct ev_traffic *e)
{
	uint32_t ns, *to;

	r->lane_step = e->step;
	r->lane_start_ns = e->start_ns;
	r->n_lane = 0;
	while (ev_item(e->lane, (size_t)r->n_lane, &ns, sizeof ns)) {
		to = tl_add(t, &r->lane, &r->n_lane, &r->cap_lane, sizeof *to);
		if (!to)
			return;
		*to = ns;
	}
}

bool tl_fold_traffic(struct timeline *t, const struct event *ev)
{
	const struct ev_traffic *e = &ev->u.traffic;
	struct tl_traffic *k;

	if (!is_index(e->rank, t->n_ranks) || !lane_makes_sense(e) || !tl_step_is_open(t, e->step))
		return false;
	k = tl_add(t, &t->traffic, &t->n_traffic, &t->cap_traffic, sizeof *k);
	if (!k)
		return true;
	*k = (struct tl_traffic){ .rank = e->rank,
		.steps = 1,
		.watched = e->lane.size > 0,
		.compute_ns = tl_or_0(e->compute_ns),
		.exchange_ns = tl_or_0(e->exchange_ns),
		.slowed_ns = tl_or_0(e->slowed_ns),
		.exchanges = tl_or_0(e->exchanges),
		.sent = tl_or_0(e->sent),
		.received = tl_or_0(e->received),
		.control = tl_or_0(e->control) };
	if (e->lane.size)
		take_lane(t, &t->rank[e->rank], e);
	return true;
}

/* All its numbers but the rank's. */
static void add_traffic(struct tl_traffic *sum, const struct tl_traffic *k)
{
	int64_t *to = &sum->steps;

	for (const int64_t *v = &k->steps; v <= &k->control; v++, to++)
		*to = at_most(*to + *v, TL_INT_MAX);
}

void tl_ranks_step(struct timeline *t, struct tl_step *s)
{
	s->n_traffic = t->n_traffic - s->traffic_at;
	for (int32_t i = s->traffic_at; i < t->n_traffic; i++) {
		struct tl_traffic *k = &t->traffic[i];

		k->rows = s->s.rows;
		add_traffic(&t->rank[k->rank].sum, k);
	}
}

void tl_drop_lanes(struct timeline *t, int64_t before)
{
	for (int32_t i = 0; i < t->n_ranks; i++) {
		struct tl_rank *r = &t->rank[i];

		if (!r->lane_step || r->lane_step > before)
			continue;
		free(r->lane);
		r->lane = NULL;
		r->n_lane = r->cap_lane = 0;
		r->lane_step = r->lane_start_ns = 0;
	}
}

struct tl_traffic timeline_traffic(const struct timeline *t, int32_t rank)
{
	struct tl_traffic sum[2] = { { .rank = rank }, { .rank = rank } }; /* plain, watched */

	for (int32_t i = t->n_steps; i-- > 0 && t->step[i].s.step > t->last_step - TL_SHARE;)
		for (int32_t k = 0; k < t->step[i].n_traffic; k++) {
			const struct tl_traffic *did = &t->traffic[t->step[i].traffic_at + k];

			if (did->rank == rank)
				add_traffic(&sum[did->watched], did);
		}
	return sum[sum[0].steps ? 0 : 1];
}

bool tl_fold_handover(struct timeline *t, const struct event *ev)
{
	const struct ev_handover *e = &ev->u.handover;
	struct tl_handover *h;
	int64_t *time;

	if (e->request < 1 || e->rank < 1)
		return false;
	h = tl_push(t->handover, &t->n_handovers, TL_HANDOVERS, sizeof *h);
	h->e = *e;
	tl_settle(&h->e, EV_handover, 0);
	h->e.equal = e->equal == 1;
	time = &h->e.asked_ns;
	for (const int64_t *was = &e->asked_ns; was <= &e->end_ns; was++, time++)
		*time = *was < 0 ? EV_NULL_I : *was;
	ev_copy(h->why, sizeof h->why, e->why);
	return true;
}

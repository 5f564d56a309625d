/* Prompts that somebody else computes (core/handover.h). See sched.h.
 *
 * A request that is away stays in its slot with its pages, and gets no rows. Pages for what it
 * lacks are taken without preempting anybody: where they are not free, it waits for another one
 * that is away, or is computed here. */
#include "engine/sched/sched_impl.h"

/* All rows of its prompt but the last, and none whose logits are needed. */
static int32_t rows_away(const struct request *r)
{
	const int32_t left = r->n_ids - r->how->given - r->computed - 1;
	const int32_t silent = sched_first_output(r) - r->computed;

	if (r->owner || r->how->plan || r->computed < r->n_input || request_wants_rows(r))
		return 0;
	return silent < left ? silent : left;
}

static bool reserve(struct sched *s, struct request *r, int32_t end)
{
	int32_t g;

	while ((g = memory_reserve(s->memory, &r->table, r->id, r->computed, end)) >= 0)
		if (!prefix_evict(s->prefix, g, s->step))
			return false;
	return true;
}

static bool any_away(const struct sched *s)
{
	for_running(s, r)
		if (r->where == REQUEST_AWAY)
			return true;
	return false;
}

void sched_hand_over(struct sched *s, struct request *r)
{
	int32_t n = rows_away(r);

	r->where = REQUEST_HERE;
	if (n < s->hand_least || n < 1)
		return;
	n = n < s->memory->most_rows ? n : s->memory->most_rows;
	if (reserve(s, r, r->computed + n)) {
		if (s->hand_over(s->hand_arg, r, n))
			r->where = REQUEST_AWAY;
	} else if (any_away(s)) {
		r->where = REQUEST_WAITS;
	}
}

void sched_recall(struct sched *s, struct request *r)
{
	if (s->recall)
		s->recall(s->hand_arg, r);
	r->where = REQUEST_HERE;
}

/* Part of the timeline: the newest busy periods, and who had which slot in them. It outlives the
 * steps and requests, which the timeline lets go of. */
#include "fold/timeline_fold.h"

static struct tl_run *newest(struct timeline *t)
{
	return t->n_runs ? &t->run[t->n_runs - 1] : NULL;
}

/* One request alone is a turn of a chat: only the newest of those is kept. */
static struct tl_run *begin(struct timeline *t)
{
	struct tl_run *r = newest(t);
	const char *policy = timeline_setting(t, "policy");

	if (!r || r->requests > 1)
		r = tl_push(t->run, &t->n_runs, TL_RUNS, sizeof *r);
	*r = (struct tl_run){ .first = t->last_step + 1 };
	ev_copy(r->policy, sizeof r->policy, ev_text(policy));
	return r;
}

void tl_run_arrived(struct timeline *t)
{
	struct tl_run *r = newest(t);

	if (!r || r->live < 1)
		r = begin(t);
	r->live++;
	r->requests++;
}

void tl_run_admitted(struct timeline *t, const struct tl_request *r)
{
	struct tl_stay *s = tl_push(t->stay, &t->n_stays, TL_STAYS, sizeof *s);

	*s = (struct tl_stay){ .request = r->id,
		.from = t->last_step + 1,
		.read = EV_NULL_I,
		.to = EV_NULL_I,
		.slot = r->slot };
}

static void end_stay(struct timeline *t, const struct tl_request *r, int64_t to, bool lost)
{
	for (int32_t i = t->n_stays; i-- > 0;) {
		struct tl_stay *s = &t->stay[i];

		if (s->request != r->id || s->to != EV_NULL_I)
			continue;
		s->to = at_least(to, s->from);
		s->read = r->first_step == EV_NULL_I ? EV_NULL_I : r->first_step + 1;
		s->lost = lost;
		return;
	}
}

void tl_run_preempted(struct timeline *t, const struct tl_request *r)
{
	struct tl_run *run = newest(t);

	end_stay(t, r, t->last_step, true);
	if (run)
		run->preempted++;
}

void tl_run_finished(struct timeline *t, const struct tl_request *r)
{
	struct tl_run *run = newest(t);

	end_stay(t, r, t->last_step + 1, false);
	if (run && run->live > 0)
		run->live--;
}

void tl_run_step(struct timeline *t, const struct tl_step *s)
{
	struct tl_run *r = newest(t);

	if (!r || !s->n_batch)
		return;
	r->last = s->s.step;
	r->steps++;
	r->members += s->n_batch;
}

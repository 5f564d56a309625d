/* Part of the timeline: steps, who was in their batches, and where their time went. */

#include "fold/timeline_fold.h"

/* The first event of a step that names it decides its number. */
bool tl_step_is_open(struct timeline *t, int64_t step)
{
	if (step < 1 || step <= t->last_step)
		return false;
	if (!t->open.s.step)
		t->open.s.step = step;
	return t->open.s.step == step;
}

bool tl_step_is_now(struct timeline *t, int64_t step)
{
	return (step > 0 && step == t->last_step) || tl_step_is_open(t, step);
}

static void touch_pages(struct timeline *t, const struct tl_request *r, int64_t step)
{
	for (int32_t i = 0; i < r->n_pages; i++)
		if (is_index(r->pages[i], t->n_pages))
			t->page[r->pages[i]].last_used_step = step;
}

bool tl_fold_batch(struct timeline *t, const struct event *ev)
{
	const struct ev_batch *e = &ev->u.batch;
	struct tl_request *r = tl_request_find(t, e->request);
	struct tl_batch *b;

	if (!r || !is_index(e->work, EV_N_work) || e->rows < 0 || e->pos < 0 ||
		!tl_step_is_open(t, e->step))
		return false;
	b = tl_add(t, &t->batch, &t->n_batch, &t->cap_batch, sizeof *b);
	if (!b)
		return true;
	*b = (struct tl_batch){ .request = e->request,
		.slot = tl_int32(e->slot),
		.rows = tl_int32(e->rows),
		.pos = tl_int32(e->pos),
		.work = (enum ev_code_work)e->work };
	r->computed = tl_int32(e->pos + e->rows);
	touch_pages(t, r, e->step);
	return true;
}

/* Whole entries, of stages that there are, each once. */
static bool stages_make_sense(struct ev_span stages)
{
	struct ev_stage_time s;
	bool seen[EV_N_stage] = { false };

	if (!stages.data || !stages.size || stages.size % sizeof s)
		return false;
	for (size_t i = 0; ev_item(stages, i, &s, sizeof s); i++) {
		if (s.stage >= EV_N_stage || seen[s.stage])
			return false;
		seen[s.stage] = true;
	}
	return true;
}

bool tl_fold_time(struct timeline *t, const struct event *ev)
{
	const struct ev_time *e = &ev->u.time;
	struct ev_stage_time s;

	if (!stages_make_sense(e->stages) || !tl_step_is_open(t, e->step))
		return false;
	t->open.timed = true;
	/* a number that no int64_t holds is as if absent */
	for (size_t i = 0; ev_item(e->stages, i, &s, sizeof s); i++)
		t->open.time[s.stage] = (struct tl_time){ tl_or_0((int64_t)s.ns), tl_or_0((int64_t)s.bytes),
			tl_or_0((int64_t)s.ops) };
	return true;
}

/* A new open step, with nothing in it yet. */
static void open_next(struct timeline *t)
{
	t->open = (struct tl_step){ .batch_at = t->n_batch,
		.draft_at = t->n_drafts,
		.window_at = t->n_windows,
		.ahead_at = t->n_aheads,
		.traffic_at = t->n_traffic };
}

bool tl_fold_step(struct timeline *t, const struct event *ev)
{
	const struct ev_step *e = &ev->u.step;
	struct tl_step *s;

	if (!tl_step_is_open(t, e->step)) {
		open_next(t); /* its members belong to no step: they are left out */
		return false;
	}
	s = tl_add(t, &t->step, &t->n_steps, &t->cap_steps, sizeof *s);
	if (!s)
		return true;
	*s = t->open;
	s->s = *e;
	tl_settle(&s->s, EV_step, 0); /* so that no view has to ask of each whether it is there */
	s->s.hold = is_index(e->hold, EV_N_hold) ? e->hold : EV_NULL_I;
	s->s.hold_first = e->hold_first > 0 ? e->hold_first : EV_NULL_I;
	s->drafters_known = e->drafters_ns >= 0;
	t->last_step = e->step;
	s->seq = ev->seq;
	s->t_ns = ev->t_ns;
	s->n_batch = t->n_batch - s->batch_at;
	s->n_draft = t->n_drafts - s->draft_at;
	s->n_window = t->n_windows - s->window_at;
	s->n_ahead = t->n_aheads - s->ahead_at;
	tl_ranks_step(t, s);
	open_next(t);
	tl_run_step(t, s);
	tl_slide(t, e->step);
	return true;
}

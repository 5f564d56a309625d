/* Part of the timeline: steps, who was in their batches, and where their time went. */
#include <string.h>

#include "tui/timeline_fold.h"

/* The first event of a step that names it decides its number. */
bool tl_step_is_open(struct timeline *t, int64_t step)
{
	if (step < 1 || (t->n_steps && step <= t->step[t->n_steps - 1].s.step))
		return false;
	if (!t->open.s.step)
		t->open.s.step = step;
	return t->open.s.step == step;
}

static void touch_pages(struct timeline *t, const struct tl_request *r, int64_t step)
{
	for (int32_t i = 0; i < r->n_pages; i++)
		if (r->pages[i] >= 0 && r->pages[i] < t->n_pages)
			t->page[r->pages[i]].last_used_step = step;
}

bool tl_fold_batch(struct timeline *t, const struct ev_batch *e)
{
	struct tl_request *r = tl_request_find(t, e->request);
	struct tl_batch *more;

	if (!r || e->work < 0 || e->work >= EV_N_work || e->rows < 0 || e->pos < 0 ||
		!tl_step_is_open(t, e->step))
		return false;
	more = tl_grow(t, t->batch, t->n_batch, &t->cap_batch, sizeof *more);
	if (!more)
		return true;
	t->batch = more;
	t->batch[t->n_batch++] = (struct tl_batch){ .request = e->request,
												.slot = tl_int32(e->slot),
												.rows = tl_int32(e->rows),
												.pos = tl_int32(e->pos),
												.work = (enum ev_code_work)e->work };
	r->computed = tl_int32(e->pos + e->rows);
	touch_pages(t, r, e->step);
	return true;
}

static int stage_by_name(struct ev_span name)
{
	static const char *const names[] = {
#define X(name, label, doc) #name,
		K_STAGES(X)
#undef X
	};

	for (int i = 0; i < K_N_STAGES; i++)
		if (name.data && name.size == strlen(names[i]) && !memcmp(name.data, names[i], name.size))
			return i;
	return -1;
}

static int64_t or_0(int64_t v)
{
	return v > 0 ? v : 0;
}

bool tl_fold_time(struct timeline *t, const struct ev_time *e)
{
	int stage = stage_by_name(e->stage);

	if (stage < 0 || !tl_step_is_open(t, e->step))
		return false;
	t->open.timed = true;
	t->open.time[stage] = (struct tl_time){ or_0(e->ns), or_0(e->bytes), or_0(e->ops) };
	return true;
}

/* What a view would have to ask of each number is settled here: absent is 0. */
static struct ev_step step_numbers(const struct ev_step *e)
{
	struct ev_step s = *e;
	int64_t *v = (int64_t *)(void *)&s;

	for (size_t i = 0; i < sizeof s / sizeof *v; i++)
		v[i] = or_0(v[i]);
	return s;
}

/* A new open step, with nothing in it yet. */
static void open_next(struct timeline *t)
{
	t->open = (struct tl_step){ .batch_at = t->n_batch, .draft_at = t->n_drafts };
}

bool tl_fold_step(struct timeline *t, const struct ev_step *e, int64_t seq, int64_t t_ns)
{
	struct tl_step *more, *s;

	if (!tl_step_is_open(t, e->step)) {
		open_next(t); /* its members belong to no step: they are left out */
		return false;
	}
	more = tl_grow(t, t->step, t->n_steps, &t->cap_steps, sizeof *more);
	if (!more)
		return true;
	t->step = more;
	s = &t->step[t->n_steps++];
	*s = t->open;
	s->s = step_numbers(e);
	s->seq = seq;
	s->t_ns = t_ns;
	s->n_batch = t->n_batch - s->batch_at;
	s->n_draft = t->n_drafts - s->draft_at;
	open_next(t);
	return true;
}

/* Part of the timeline: the answer of a diffusion model, position by position. */
#include <string.h>

#include "fold/timeline_fold.h"

enum { CELL_BYTES = 20 };

/* The cell of a position, with all before it; NULL: it is out of range, or there is no memory. */
static struct tl_cell *cell_at(struct timeline *t, struct tl_canvas *c, int64_t pos)
{
	if (pos < c->at || pos - c->at >= EV_DENOISED_MOST)
		return NULL;
	while (c->n_cells <= pos - c->at) {
		struct tl_cell *cell = tl_add(t, &c->cell, &c->n_cells, &c->cap_cells, sizeof *cell);

		if (!cell)
			return NULL;
		*cell = (struct tl_cell){ .id = -1, .p = 0, .entropy = 0 };
	}
	return &c->cell[pos - c->at];
}

static float float_at(const unsigned char *at)
{
	float x;

	memcpy(&x, at, sizeof x);
	return x;
}

static void fold_cell(struct timeline *t, struct tl_canvas *c, const unsigned char *at)
{
	struct tl_cell *cell = cell_at(t, c, tl_get32(at));
	const int32_t id = (int32_t)tl_get32(at + 4);

	if (!cell || cell->fixed)
		return;
	cell->changes += cell->id >= 0 && cell->id != id;
	cell->id = id;
	cell->p = float_at(at + 8);
	cell->entropy = float_at(at + 12);
	cell->fixed = tl_get32(at + 16) ? c->steps : 0;
}

bool tl_fold_denoise(struct timeline *t, const struct event *ev)
{
	const struct ev_denoise *e = &ev->u.denoise;
	struct tl_request *r = tl_request_find(t, e->request);
	struct tl_canvas *c = r ? &r->canvas : NULL;

	if (!c || !tl_step_is_now(t, e->step) || e->nth < 1 || e->nth > INT32_MAX ||
		e->cells.size % CELL_BYTES || e->masked < 0 || e->schedule < 0 ||
		e->schedule >= EV_N_schedule || e->first < r->n_prompt || e->end < e->first ||
		e->end > r->n_prompt + EV_DENOISED_MOST)
		return false;
	c->step = e->step;
	c->at = r->n_prompt;
	c->steps = tl_int32(e->nth);
	c->first = tl_int32(e->first);
	c->end = tl_int32(e->end);
	c->masked = tl_int32(e->masked);
	c->schedule = (enum ev_code_schedule)e->schedule;
	for (size_t i = 0; i < e->cells.size; i += CELL_BYTES)
		fold_cell(t, c, (const unsigned char *)e->cells.data + i);
	return true;
}

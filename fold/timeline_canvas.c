/* Part of the timeline: answers of diffusion models. */
#include "fold/timeline_fold.h"

static bool is_sound(const struct ev_denoise *e)
{
	if (e->pos < 0 || e->pos > INT32_MAX - EV_DENOISED_MOST || e->tokens < 1 ||
		e->tokens > EV_DENOISED_MOST)
		return false;
	return e->block_pos >= e->pos && e->block_pos <= e->block_end &&
		   e->block_end <= e->pos + e->tokens && e->nth >= 1 &&
		   is_index(e->schedule, EV_N_schedule) &&
		   e->cells.size % sizeof(struct ev_denoised) == 0 && (e->cells.data || !e->cells.size);
}

/* The canvas of a request with masks alone; false: there is no memory for it. */
static bool begin(struct timeline *t, struct tl_canvas *c, const struct ev_denoise *e)
{
	const int32_t n = (int32_t)e->tokens;
	struct tl_cell *cell = calloc((size_t)n, sizeof *cell);

	t->full |= !cell;
	if (!cell)
		return false;
	free(c->cell);
	*c = (struct tl_canvas){ .from = (int32_t)e->pos, .n = n, .cell = cell };
	for (int32_t i = 0; i < n; i++)
		cell[i].id = -1;
	return true;
}

static void put_cells(struct tl_canvas *c, const struct ev_denoise *e)
{
	struct ev_denoised d;

	for (size_t i = 0; ev_item(e->cells, i, &d, sizeof d); i++) {
		if ((int64_t)d.pos < e->pos || (int64_t)d.pos >= e->pos + e->tokens)
			continue;
		c->cell[d.pos - (uint32_t)c->from] = (struct tl_cell){ d.fixed ? (int32_t)e->nth : 0,
			d.id <= INT32_MAX ? (int32_t)d.id : -1, d.p, d.entropy };
	}
}

bool tl_fold_denoise(struct timeline *t, const struct event *ev)
{
	const struct ev_denoise *e = &ev->u.denoise;
	struct tl_request *r = tl_request_find(t, e->request);
	struct tl_canvas *c = r ? &r->canvas : NULL;

	if (!c || !is_sound(e) || !tl_step_is_open(t, e->step))
		return false;
	if ((!c->cell || c->from != e->pos || c->n != e->tokens) && !begin(t, c, e))
		return true;
	c->step = e->step;
	c->nth = tl_int32(e->nth);
	c->first = (int32_t)e->block_pos;
	c->end = (int32_t)e->block_end;
	c->fixed = tl_int32(e->fixed);
	c->masked = tl_int32(e->masked);
	c->steps = tl_int32(e->steps);
	c->block = tl_int32(e->block);
	c->above = tl_part(e->above);
	c->schedule = (uint8_t)e->schedule;
	put_cells(c, e);
	return true;
}

/* See schedule.h. */
#include "engine/diffuse/schedule.h"

#include "engine/diffuse/canvas.h"
#include "engine/sched/request.h"

enum ev_code_schedule schedule_code(const struct engine_options *o)
{
	return (enum ev_code_schedule)setting_choice(&engine_settings[ENGINE_AT_denoise], o);
}

void schedule_block(struct request *r)
{
	struct canvas *c = r->canvas;
	const int32_t n = r->limit - r->n_prompt, size = c->block ? c->block : n;
	int32_t at = 0;

	while (at < n && c->cell[at].fixed)
		at++;
	c->end = at / (size ? size : 1) * size + size;
	c->end = r->n_prompt + (c->end < n ? c->end : n);
	c->first = r->n_prompt + at;
}

/* Greater is surer. */
static double confidence(enum ev_code_schedule s, const struct canvas_cell *cell)
{
	return s == EV_SCHEDULE_entropy ? -cell->drawn.entropy : (double)cell->drawn.p;
}

/* How many a step fixes; 0: those above the threshold. */
static int32_t share(const struct canvas *c)
{
	const int32_t left = c->steps - c->n_steps;

	if (c->schedule == EV_SCHEDULE_threshold)
		return 0;
	if (!c->steps)
		return 1;
	return left > 1 ? (c->n_masked + left - 1) / left : c->n_masked;
}

static struct canvas_cell *best_of(const struct request *r)
{
	const struct canvas *c = r->canvas;
	struct canvas_cell *best = NULL;

	for (int32_t pos = c->first; pos < c->end; pos++) {
		struct canvas_cell *cell = &c->cell[pos - r->n_prompt];

		if (cell->fixed || cell->chosen || cell->drawn.id == c->mask)
			continue;
		if (!best || confidence(c->schedule, cell) > confidence(c->schedule, best))
			best = cell;
	}
	return best;
}

void schedule_choose(struct request *r)
{
	const int32_t most = share(r->canvas);
	struct canvas_cell *best;

	for (int32_t n = 0; (best = best_of(r)); n++) {
		if (most ? n >= most : n && best->drawn.p <= r->canvas->above)
			return;
		best->chosen = true;
	}
}

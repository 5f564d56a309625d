/* See measure.h: what steps cost (draft_cost.h, event cost), and what the machine can do. Thread: the engine's. */
#include "engine/measure.h"

#include <math.h>

#include "engine/engine_impl.h"

void engine_tell_cost(struct engine *e)
{
	struct event ev;

	for (int32_t i = 0; e->begun && i < e->measure.cost.n; i++) {
		const struct draft_cost_point *p = &e->measure.cost.point[i];

		ev_init(&ev, EV_cost);
		ev.u.cost = (struct ev_cost){ .rows = p->rows, .depth = p->depth, .ns = (int64_t)p->ns, .runs = p->runs };
		stream_emit(&e->stream, &ev);
	}
}

int engine_need_cost(struct engine *e, struct err *err)
{
	if (e->measure.cost.n)
		return 0;
	if (!e->model)
		return err_set(err, ERR_USAGE, "what steps cost is measured by a model, and there is none here");
	if (e->measure.counted)
		draft_cost_count(&e->measure.cost, e->measure.counted, (double)e->info.weight_bytes);
	else if (draft_cost_measure(&e->measure.cost, &e->forward, &e->memory, e->info.ctx, err))
		return -1;
	engine_tell_cost(e);
	return 0;
}

int engine_measure_cost(struct engine *e, bool anew, struct err *err)
{
	if (e->measure.counted || !e->measure.cost.n)
		return engine_need_cost(e, err);
	if (anew ? draft_cost_measure(&e->measure.cost, &e->forward, &e->memory, e->info.ctx, err)
			 : draft_cost_again(&e->measure.cost, &e->forward, &e->memory, e->info.ctx, err))
		return -1;
	engine_tell_cost(e);
	return 0;
}

double engine_counted_ns(const struct engine *e)
{
	return e->measure.cost.counted ? e->measure.cost.clock_ns : (double)NAN;
}

int engine_measure_rows(struct engine *e, int32_t rows, int32_t depth, double *ns, struct err *err)
{
	if (rows < 1 || rows > DRAFT_COST_ROWS || rows > e->forward.max_rows || depth < 0 ||
		depth > draft_cost_deepest(&e->memory, e->info.ctx, rows))
		return err_set(err, ERR_USAGE,
					   "a step of %d rows after %d tokens cannot be measured: see --ctx and --budget",
					   rows, depth);
	return draft_cost_run(&e->forward, &e->memory, rows, depth, ns, err);
}

double engine_measure_int(struct engine *e)
{
	return k_measure_int(e->kernels);
}

double engine_measure_read(struct engine *e, const void *data, size_t bytes)
{
	const struct model *m = e->model;

	return data ? k_read_rate(e->kernels, data, bytes)
				: k_read_rate(e->kernels, m->weights.arena, m->weights.used & ~(size_t)63);
}

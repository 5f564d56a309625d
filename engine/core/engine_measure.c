/* See measure.h: what steps cost (draft_cost.h, event cost), and what the machine can do. Thread:
 * the engine's. */
#include "engine/core/measure.h"

#include "engine/core/engine_impl.h"

static void emit_cost(struct engine *e, void *state)
{
	(void)state;
	for (int32_t i = 0; e->begun && i < e->measure.cost.n; i++) {
		const struct draft_cost_point *p = &e->measure.cost.point[i];

		STREAM_EMIT(&e->stream, cost, .rows = p->rows, .depth = p->depth, .ns = (int64_t)p->ns,
			.runs = p->runs);
	}
}

const struct step_hooks cost_hooks = { .name = "cost", .begun = emit_cost };

int engine_need_cost(struct engine *e, int32_t rows, struct err *err)
{
	if (e->measure.cost.rows >= rows)
		return 0;
	if (!e->model)
		return err_set(
			err, ERR_USAGE, "what steps cost is measured by a model, and there is none here");
	if (e->measure.counted)
		draft_cost_count(&e->measure.cost, e->measure.counted, (double)e->info.weight_bytes);
	else if (draft_cost_measure(&e->measure.cost, rows, &e->forward, &e->memory, e->info.ctx, err))
		return -1;
	emit_cost(e, NULL);
	return 0;
}

double engine_counted_ns(const struct engine *e)
{
	return e->measure.cost.counted ? e->measure.cost.clock_ns : (double)NAN;
}

double engine_measure_int(struct engine *e)
{
	return k_measure_int(e->kernels);
}

double engine_measure_float(struct engine *e)
{
	return k_measure_float(e->kernels);
}

double engine_measure_read(struct engine *e, const void *data, size_t bytes)
{
	const struct model *m = e->model;

	return data ? k_read_rate(e->kernels, data, bytes)
				: k_read_rate(e->kernels, m->weights.arena, m->weights.used & ~(size_t)63);
}

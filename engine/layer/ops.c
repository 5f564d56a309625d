/* See ops.h. */
#include "engine/layer/ops.h"

struct k_gated *layer_gated(struct forward *f, enum k_stage stage, const float *x, int32_t groups,
	int32_t group, struct k_acts out)
{
	struct k_op *op = program_add(&f->program, K_OP_gated, stage);

	op->u.gated = (struct k_gated){ .x = x,
		.x_stride = groups * group,
		.x_pitch = group,
		.groups = groups,
		.group = group,
		.eps = f->model->config.norm_eps,
		.out = out,
		.n = f->n_rows };
	return &op->u.gated;
}

struct k_gated *layer_gated_self(
	struct forward *f, enum k_stage stage, float *x, int32_t groups, int32_t group)
{
	return layer_gated(
		f, stage, x, groups, group, (struct k_acts){ .x = x, .dim = groups * group });
}

void layer_gated_norm(struct k_gated *g, const float *w, int32_t weights)
{
	g->norm = true;
	g->w = w;
	g->weights = weights;
}

void layer_gated_by(struct k_gated *g, const float *z, enum k_gate_by by)
{
	g->z = z;
	g->z_stride = g->x_stride;
	g->z_pitch = g->x_pitch;
	g->by = by;
}

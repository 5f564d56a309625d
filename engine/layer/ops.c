/* See ops.h. */
#include "engine/layer/ops.h"

#include "engine/model/model_tensors.h"

void layer_product(struct forward *f, enum k_stage stage, struct k_acts in,
	const struct k_matrix *w, const float *bias, float *out)
{
	program_part(program_matmul(&f->program, stage, in, f->n_rows), w, bias, NULL, out);
}

void layer_products(
	struct forward *f, enum k_stage stage, struct k_acts in, const struct layer_output *out)
{
	struct k_matmul *m = program_matmul(&f->program, stage, in, f->n_rows);

	for (; out->w; out++)
		program_part(m, out->w, NULL, NULL, out->to);
}

void layer_activate(
	struct forward *f, enum k_stage stage, const float *x, struct k_acts out, enum k_act act)
{
	program_add(&f->program, K_OP_activate, stage)->u.activate =
		(struct k_activate){ .x = x, .out = out, .act = act, .n = f->n_rows };
}

struct k_rope *layer_rope(struct forward *f, int32_t group, int32_t layer, int32_t n_heads,
	const struct model_rope *t, float *q, const float *k, const float *v)
{
	struct k_rope *a = &program_add(&f->program, K_OP_rope, K_STAGE_rope)->u.rope;

	*a = (struct k_rope){ .q = q,
		.k = k,
		.v = v,
		.scale = 1,
		.n_heads = n_heads,
		.layer = layer,
		LAYER_KV(f, group),
		.nan_row = f->nan_row,
		.also = f->also,
		.n_also = f->n_also };
	if (t) {
		a->cos = t->cos;
		a->sin = t->sin;
		a->rope_dim = t->dim;
		a->neox = t->halves;
	}
	return a;
}

struct k_attention *layer_attend(struct forward *f, int32_t group, int32_t layer, int32_t n_heads,
	const float *q, struct k_acts out, const struct k_range *ranges)
{
	struct k_attention *a =
		&program_add(&f->program, K_OP_attention, K_STAGE_attention)->u.attention;

	*a = (struct k_attention){ .q = q,
		.out = out,
		.n_heads = n_heads,
		.layer = layer,
		LAYER_KV(f, group),
		.ranges = ranges,
		.n_ranges = 1 };
	return a;
}

struct k_conv *layer_conv(struct forward *f, int32_t group, size_t at, int32_t taps, const float *x,
	const float *w, const float *bias, struct k_acts out)
{
	struct k_conv *a = &program_add(&f->program, K_OP_conv, K_STAGE_scan)->u.conv;

	*a = (struct k_conv){
		.x = x, .w = w, .bias = bias, .out = out, .taps = taps, LAYER_STATE(f, group), .at = at
	};
	return a;
}

struct k_linear *layer_linear(struct forward *f, int32_t group, size_t at, int32_t heads,
	int32_t keys, int32_t values, float *out)
{
	struct k_linear *a = &program_add(&f->program, K_OP_linear, K_STAGE_scan)->u.linear;

	*a = (struct k_linear){ .out = out,
		.room = f->own.room,
		.heads = heads,
		.key_heads = heads,
		.keys = keys,
		.values = values,
		LAYER_STATE(f, group),
		.at = at };
	return a;
}

float *layer_fixed_rates(struct model_loader *l, int32_t heads)
{
	float *rates = malloc((size_t)heads * 2 * sizeof *rates);

	if (!rates)
		err_no_memory(l->e, "%d heads", heads);
	for (int32_t i = 0; rates && i < 2 * heads; i++)
		rates[i] = 1;
	return rates;
}

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

/* ---- matrix states ---- */

static size_t matrix_floats(const struct matrix_states *s)
{
	return (size_t)s->inner * (size_t)s->n_states;
}

int states_memory(struct matrix_states *s, struct memory_specs *m, struct err *e)
{
	return memory_join_state(
		m, layer_conv_floats(states_mixed(s), s->taps) + matrix_floats(s), &s->group, &s->at, e);
}

void states_need(const struct matrix_states *s, struct forward_needs *n)
{
	forward_widen(&n->q, 2 * s->heads);
	forward_widen(&n->wide, states_mixed(s));
	forward_widen(&n->mixed.dim, states_mixed(s));
	n->mixed.x = true;
	forward_widen(&n->room, (int32_t)matrix_floats(s));
}

void states_conv(struct forward *f, const struct matrix_states *s)
{
	layer_conv(f, s->group, s->at, s->taps, f->own.up, s->conv, s->conv_bias,
		k_floats(f->own.mixed.x, states_mixed(s)));
}

struct k_linear *states_linear(struct forward *f, const struct matrix_states *s)
{
	const size_t at = s->at + layer_conv_floats(states_mixed(s), s->taps);
	struct k_linear *a =
		layer_linear(f, s->group, at, s->heads, s->n_states, s->inner / s->heads, f->own.up);

	a->key_heads = s->groups;
	a->rate = f->own.q;
	return a;
}

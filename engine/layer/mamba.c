/* Mamba: a causal convolution and a selective scan in place of attention (Gu and Dao 2023). See
 * layer.h. A sequence keeps a state of a fixed size: the convolution's last inputs and the scan's
 * sums. */
#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

static void mamba_load(struct model_loader *l, void *params)
{
	struct mamba *a = params;
	int64_t dim = l->config->dim, inner = a->inner;

	residual_load(l, &a->on, inner);
	LAYER_PARTS(l, "ssm_in.weight", dim, { &a->in_x, inner }, { &a->in_z, inner });
	a->conv = layer_floats(l, "ssm_conv1d.weight", a->taps, inner);
	a->conv_bias = layer_vector(l, "ssm_conv1d.bias", inner, false);
	LAYER_PARTS(l, "ssm_x.weight", inner, { &a->x_dt, a->rank }, { &a->x_b, a->n_states },
		{ &a->x_c, a->n_states });
	layer_narrow(l, &a->dt, "ssm_dt.weight", inner, a->rank);
	a->dt_norm = a->normed ? layer_vector(l, "ssm_dt_norm.weight", a->rank, true) : NULL;
	a->b_norm = a->normed ? layer_vector(l, "ssm_b_norm.weight", a->n_states, true) : NULL;
	a->c_norm = a->normed ? layer_vector(l, "ssm_c_norm.weight", a->n_states, true) : NULL;
	a->dt_bias = layer_vector(l, "ssm_dt.bias", inner, true);
	a->decay = layer_floats(l, "ssm_a", a->n_states, inner);
	a->skip = layer_vector(l, "ssm_d", inner, true);
	layer_matrix(l, &a->out, "ssm_out.weight", dim, inner);
}

STATE_MEMORY(mamba, layer_conv_floats(a->inner, a->taps) + (size_t)a->inner * (size_t)a->n_states)

static void mamba_need(const void *params, struct forward_needs *n)
{
	const struct mamba *a = params;

	n->ops += 8 + 3 * a->normed;
	residual_need(&a->on, 0, n);
	forward_widen(&n->q, a->rank);
	forward_widen(&n->kv, a->n_states);
	forward_widen(&n->wide, a->inner);
	forward_reads(&n->normed, &a->in_x);
	forward_reads(&n->mixed, &a->x_dt);
	forward_reads(&n->act, &a->out);
	n->mixed.x = n->act.x = true; /* the scan reads `mixed` and writes `act` */
}

static void add_scan(struct forward *f, const struct mamba *a, const float *x, struct k_acts out)
{
	struct k_op *op = program_add(&f->program, K_OP_scan, K_STAGE_scan);

	op->u.scan = (struct k_scan){ .x = x,
		.z = f->own.up,
		.delta = f->own.gate,
		.b = f->own.k,
		.c = f->own.v,
		.a = a->decay,
		.d = a->skip,
		.out = out,
		.n_states = a->n_states,
		LAYER_STATE(f, a->group),
		.at = a->at + layer_conv_floats(a->inner, a->taps) };
}

/* In place. */
static void add_norm(struct forward *f, const float *w, float *x, int32_t dim)
{
	if (w)
		layer_gated_norm(layer_gated_self(f, K_STAGE_norm, x, 1, dim), w, dim);
}

static void mamba_write(struct forward *f, const void *params)
{
	const struct mamba *a = params;
	struct k_acts x = program_acts_of(f->own.mixed, a->inner),
				  out = program_acts_of(f->own.act, a->inner);
	struct k_acts dt = { .x = f->own.q, .dim = a->rank };

	residual_enter(f, &a->on, false);
	LAYER_PRODUCTS(
		f, K_STAGE_qkv, f->own.normed, { &a->in_x, f->own.gate }, { &a->in_z, f->own.up });
	layer_conv(f, a->group, a->at, a->taps, f->own.gate, a->conv, a->conv_bias, x);
	LAYER_PRODUCTS(
		f, K_STAGE_qkv, x, { &a->x_dt, f->own.q }, { &a->x_b, f->own.k }, { &a->x_c, f->own.v });
	add_norm(f, a->dt_norm, f->own.q, a->rank);
	add_norm(f, a->b_norm, f->own.k, a->n_states);
	add_norm(f, a->c_norm, f->own.v, a->n_states);
	layer_product(f, K_STAGE_qkv, dt, &a->dt, a->dt_bias, f->own.gate);
	add_scan(f, a, x.x, out);
	residual_leave(f, &a->on, K_STAGE_out, out, &a->out, NULL);
}

const struct block_kind layer_mamba = BLOCK(mamba, "mamba", .memory = mamba_memory);

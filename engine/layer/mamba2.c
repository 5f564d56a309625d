/* Mamba-2: a causal convolution and a state matrix a head in place of attention (Dao and Gu 2024,
 * section 7). See layer.h. A sequence keeps the convolution's last inputs and the matrices. */
#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

static void mamba2_load(struct model_loader *l, void *params)
{
	struct mamba2 *a = params;
	const int64_t dim = l->config->dim, inner = a->s.inner, mixed = states_mixed(&a->s);

	residual_load(l, &a->on, 0);
	LAYER_PARTS(l, "ssm_in.weight", dim, { &a->in_z, inner }, { &a->in_x, mixed },
		{ &a->in_dt, a->s.heads });
	a->s.conv = layer_floats(l, "ssm_conv1d.weight", a->s.taps, mixed);
	a->s.conv_bias = layer_vector(l, "ssm_conv1d.bias", mixed, false);
	a->dt_bias = layer_vector(l, "ssm_dt.bias", a->s.heads, true);
	a->decay = layer_floats(l, "ssm_a", 1, a->s.heads);
	a->skip = layer_floats(l, "ssm_d", 1, a->s.heads);
	a->out_norm =
		a->normed ? layer_floats(l, "ssm_norm.weight", inner / a->s.groups, a->s.groups) : NULL;
	layer_matrix(l, &a->out, "ssm_out.weight", dim, inner);
}

static int mamba2_memory(void *params, struct memory_specs *m, struct err *e)
{
	return states_memory(&((struct mamba2 *)params)->s, m, e);
}

static void mamba2_need(const void *params, struct forward_needs *n)
{
	const struct mamba2 *a = params;

	n->ops += 7;
	residual_need(&a->on, 0, n);
	states_need(&a->s, n);
	forward_widen(&n->kv, a->s.heads);
	forward_reads(&n->normed, &a->in_x);
	forward_reads(&n->act, &a->out);
}

/* Of the convolution's result: keys, queries and values by turns; to f->own.up. */
static void add_states(struct forward *f, const struct mamba2 *a)
{
	const int32_t width = states_mixed(&a->s), keys = a->s.n_states;
	const float *x = f->own.mixed.x, *b = x + a->s.inner, *c = b + a->s.groups * keys;
	struct k_linear *l;

	program_add(&f->program, K_OP_rates, K_STAGE_scan)->u.rates = (struct k_rates){ .x = f->own.k,
		.stride = a->s.heads,
		.run = a->s.heads,
		.a = a->decay,
		.bias = a->dt_bias,
		.out = f->own.q,
		.heads = a->s.heads,
		.n = f->n_rows };
	l = states_linear(f, &a->s);
	l->q = (struct k_linear_part){ c, width, keys };
	l->k = (struct k_linear_part){ b, width, keys };
	l->v = (struct k_linear_part){ x, width, l->values };
	l->skip = a->skip;
}

static void add_gate(struct forward *f, const struct mamba2 *a, struct k_acts out)
{
	struct k_gated *g =
		layer_gated(f, K_STAGE_scan, f->own.up, a->s.groups, a->s.inner / a->s.groups, out);

	if (a->normed)
		layer_gated_norm(g, a->out_norm, a->s.inner);
	layer_gated_by(g, f->own.gate, K_GATE_silu);
	g->first = true;
}

static void mamba2_write(struct forward *f, const void *params)
{
	const struct mamba2 *a = params;
	struct k_acts out = program_acts_of(f->own.act, a->s.inner);

	residual_enter(f, &a->on, true);
	LAYER_PRODUCTS(f, K_STAGE_qkv, f->own.normed, { &a->in_z, f->own.gate },
		{ &a->in_x, f->own.up }, { &a->in_dt, f->own.k });
	states_conv(f, &a->s);
	add_states(f, a);
	add_gate(f, a, out);
	residual_leave(f, &a->on, K_STAGE_out, out, &a->out, NULL);
}

const struct block_kind layer_mamba2 = BLOCK(mamba2, "mamba-2", .memory = mamba2_memory);

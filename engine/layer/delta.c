/* Gated DeltaNet: a causal convolution and a state matrix a head in place of attention (Yang et al.
 * 2024; Hugging Face's modeling_qwen3_next.py). See layer.h. A sequence keeps the convolution's
 * last inputs and the matrices. */
#include <math.h>

#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

static void delta_load(struct model_loader *l, void *params)
{
	struct delta *a = params;
	const int64_t dim = l->config->dim;

	residual_load(l, &a->on, 0);
	layer_matrix(l, &a->qkv, "attn_qkv.weight", states_mixed(&a->s), dim);
	layer_matrix(l, &a->z, "attn_gate.weight", a->s.inner, dim);
	if (a->together) {
		layer_matrix(l, &a->alpha, "ssm_ba.weight", 2 * a->s.heads, dim);
	} else {
		layer_matrix(l, &a->alpha, "ssm_alpha.weight", a->s.heads, dim);
		layer_matrix(l, &a->beta, "ssm_beta.weight", a->s.heads, dim);
	}
	a->s.conv = layer_floats(l, "ssm_conv1d.weight", a->s.taps, states_mixed(&a->s));
	a->dt_bias = layer_vector(l, "ssm_dt.bias", a->s.heads, true);
	a->decay = layer_vector(l, "ssm_a", a->s.heads, true);
	a->out_norm = layer_vector(l, "ssm_norm.weight", a->s.inner / a->s.heads, true);
	layer_matrix(l, &a->out, "ssm_out.weight", dim, a->s.inner);
}

static int delta_memory(void *params, struct memory_specs *m, struct err *e)
{
	return states_memory(&((struct delta *)params)->s, m, e);
}

static void delta_need(const void *params, struct forward_needs *n)
{
	const struct delta *a = params;

	n->ops += 10;
	residual_need(&a->on, 0, n);
	states_need(&a->s, n);
	forward_widen(&n->kv, 2 * a->s.heads);
	forward_reads(&n->normed, &a->qkv);
	forward_reads(&n->normed, &a->z);
	forward_reads(&n->normed, &a->alpha);
	if (!a->together)
		forward_reads(&n->normed, &a->beta);
	forward_reads(&n->act, &a->out);
}

static void add_products(struct forward *f, const struct delta *a)
{
	LAYER_PRODUCTS(f, K_STAGE_qkv, f->own.normed, { &a->qkv, f->own.up }, { &a->z, f->own.gate },
		{ &a->alpha, f->own.k });
	if (!a->together)
		layer_product(f, K_STAGE_qkv, f->own.normed, &a->beta, NULL, f->own.v);
}

/* Makes the length of each head of x, a part of the convolution's result, `to`. */
static void add_length(struct forward *f, const struct delta *a, float *x, float to)
{
	const float n = (float)a->s.n_states;
	struct k_gated *g = layer_gated_self(f, K_STAGE_scan, x, a->s.groups, a->s.n_states);

	g->x_stride = g->out.dim = states_mixed(&a->s);
	g->eps = 1e-6f / n;
	g->factor = to / sqrtf(n);
	layer_gated_norm(g, NULL, 0);
}

/* Of alpha and beta; together they are, for each group, betas, then alphas. */
static void add_rates(struct forward *f, const struct delta *a)
{
	const int32_t run = a->together ? a->s.heads / a->s.groups : a->s.heads;

	program_add(&f->program, K_OP_rates, K_STAGE_scan)->u.rates =
		(struct k_rates){ .x = a->together ? f->own.k + run : f->own.k,
			.beta = a->together ? f->own.k : f->own.v,
			.stride = a->together ? 2 * a->s.heads : a->s.heads,
			.run = run,
			.pitch = 2 * run,
			.a = a->decay,
			.bias = a->dt_bias,
			.out = f->own.q,
			.heads = a->s.heads,
			.n = f->n_rows };
}

/* To f->own.up. */
static void add_states(struct forward *f, const struct delta *a)
{
	const int32_t width = states_mixed(&a->s), keys = a->s.groups * a->s.n_states;
	float *q = f->own.mixed.x, *k = q + keys, *v = k + keys;
	struct k_linear *l;

	add_length(f, a, q, 1.0f / sqrtf((float)a->s.n_states));
	add_length(f, a, k, 1.0f);
	l = states_linear(f, &a->s);
	l->q = (struct k_linear_part){ q, width, a->s.n_states };
	l->k = (struct k_linear_part){ k, width, a->s.n_states };
	l->v = (struct k_linear_part){ v, width, l->values };
	l->corrects = true;
	l->in_turn = a->in_turn;
}

static void add_gate(struct forward *f, const struct delta *a, struct k_acts out)
{
	const int32_t values = a->s.inner / a->s.heads;
	struct k_gated *g = layer_gated(f, K_STAGE_scan, f->own.up, a->s.heads, values, out);

	layer_gated_norm(g, a->out_norm, values);
	layer_gated_by(g, f->own.gate, K_GATE_silu);
}

static void delta_write(struct forward *f, const void *params)
{
	const struct delta *a = params;
	struct k_acts out = program_acts_of(f->own.act, a->s.inner);

	residual_enter(f, &a->on, !a->together); /* else two products read it */
	add_products(f, a);
	states_conv(f, &a->s);
	add_rates(f, a);
	add_states(f, a);
	add_gate(f, a, out);
	residual_leave(f, &a->on, K_STAGE_out, out, &a->out, NULL);
}

const struct block_kind layer_delta = BLOCK(delta, "gated delta rule", .memory = delta_memory);

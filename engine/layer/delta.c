/* Gated DeltaNet: a causal convolution and a state matrix a head in place of attention (Yang et al.
 * 2024; Hugging Face's modeling_qwen3_next.py). See layer.h. A sequence keeps the convolution's
 * last inputs and the matrices. */
#include <math.h>

#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

static int32_t keys_width(const struct delta *a)
{
	return a->groups * a->n_states;
}

static int32_t mixed_width(const struct delta *a)
{
	return 2 * keys_width(a) + a->inner;
}

static void delta_load(struct model_loader *l, void *params)
{
	struct delta *a = params;
	const int64_t dim = l->config->dim;

	residual_load(l, &a->on, 0);
	layer_matrix(l, &a->qkv, "attn_qkv.weight", mixed_width(a), dim);
	layer_matrix(l, &a->z, "attn_gate.weight", a->inner, dim);
	if (a->together) {
		layer_matrix(l, &a->alpha, "ssm_ba.weight", 2 * a->heads, dim);
	} else {
		layer_matrix(l, &a->alpha, "ssm_alpha.weight", a->heads, dim);
		layer_matrix(l, &a->beta, "ssm_beta.weight", a->heads, dim);
	}
	a->conv = layer_floats(l, "ssm_conv1d.weight", a->taps, mixed_width(a));
	a->dt_bias = layer_vector(l, "ssm_dt.bias", a->heads, true);
	a->decay = layer_vector(l, "ssm_a", a->heads, true);
	a->out_norm = layer_vector(l, "ssm_norm.weight", a->inner / a->heads, true);
	layer_matrix(l, &a->out, "ssm_out.weight", dim, a->inner);
}

static size_t matrix_floats(const struct delta *a)
{
	return (size_t)a->inner * (size_t)a->n_states;
}

static int delta_memory(void *params, struct memory_specs *m, struct err *e)
{
	struct delta *a = params;

	return memory_join_state(
		m, layer_conv_floats(mixed_width(a), a->taps) + matrix_floats(a), &a->group, &a->at, e);
}

static void delta_need(const void *params, struct forward_needs *n)
{
	const struct delta *a = params;

	n->ops += 10;
	residual_need(&a->on, 0, n);
	forward_widen(&n->q, 2 * a->heads);
	forward_widen(&n->kv, 2 * a->heads);
	forward_widen(&n->wide, mixed_width(a));
	forward_widen(&n->mixed.dim, mixed_width(a));
	n->mixed.x = true;
	forward_widen(&n->room, (int32_t)matrix_floats(a));
	forward_reads(&n->normed, &a->qkv);
	forward_reads(&n->normed, &a->z);
	forward_reads(&n->normed, &a->alpha);
	forward_reads(&n->act, &a->out);
}

static void add_products(struct forward *f, const struct delta *a)
{
	struct k_program *p = &f->program;
	struct k_matmul *m = program_matmul(p, K_STAGE_qkv, f->own.normed, f->n_rows);

	program_part(m, &a->qkv, NULL, NULL, f->own.up);
	program_part(m, &a->z, NULL, NULL, f->own.gate);
	program_part(m, &a->alpha, NULL, NULL, f->own.k);
	if (!a->together)
		program_part(program_matmul(p, K_STAGE_qkv, f->own.normed, f->n_rows), &a->beta, NULL, NULL,
			f->own.v);
}

static void add_conv(struct forward *f, const struct delta *a)
{
	program_add(&f->program, K_OP_conv, K_STAGE_scan)->u.conv = (struct k_conv){ .x = f->own.up,
		.w = a->conv,
		.out = { .x = f->own.mixed.x, .dim = mixed_width(a) },
		.taps = a->taps,
		LAYER_STATE(f, a->group),
		.at = a->at };
}

/* Makes the length of each head of x, a part of the convolution's result, `to`. */
static void add_length(struct forward *f, const struct delta *a, float *x, float to)
{
	const float n = (float)a->n_states;
	struct k_gated *g = layer_gated_self(f, K_STAGE_scan, x, a->groups, a->n_states);

	g->x_stride = g->out.dim = mixed_width(a);
	g->eps = 1e-6f / n;
	g->factor = to / sqrtf(n);
	layer_gated_norm(g, NULL, 0);
}

/* Of alpha and beta; together they are, for each group, betas, then alphas. */
static void add_rates(struct forward *f, const struct delta *a)
{
	const int32_t run = a->together ? a->heads / a->groups : a->heads;

	program_add(&f->program, K_OP_rates, K_STAGE_scan)->u.rates =
		(struct k_rates){ .x = a->together ? f->own.k + run : f->own.k,
			.beta = a->together ? f->own.k : f->own.v,
			.stride = a->together ? 2 * a->heads : a->heads,
			.run = run,
			.pitch = 2 * run,
			.a = a->decay,
			.bias = a->dt_bias,
			.out = f->own.q,
			.heads = a->heads,
			.n = f->n_rows };
}

/* To f->own.up. */
static void add_states(struct forward *f, const struct delta *a)
{
	const int32_t width = mixed_width(a), values = a->inner / a->heads;
	float *q = f->own.mixed.x, *k = q + keys_width(a), *v = k + keys_width(a);

	add_length(f, a, q, 1.0f / sqrtf((float)a->n_states));
	add_length(f, a, k, 1.0f);
	program_add(&f->program, K_OP_linear, K_STAGE_scan)->u.linear =
		(struct k_linear){ .q = { q, width, a->n_states },
			.k = { k, width, a->n_states },
			.v = { v, width, values },
			.rate = f->own.q,
			.out = f->own.up,
			.room = f->own.room,
			.heads = a->heads,
			.key_heads = a->groups,
			.keys = a->n_states,
			.values = values,
			.corrects = true,
			.in_turn = a->in_turn,
			LAYER_STATE(f, a->group),
			.at = a->at + layer_conv_floats(width, a->taps) };
}

static void add_gate(struct forward *f, const struct delta *a, struct k_acts out)
{
	const int32_t values = a->inner / a->heads;
	struct k_gated *g = layer_gated(f, K_STAGE_scan, f->own.up, a->heads, values, out);

	layer_gated_norm(g, a->out_norm, values);
	layer_gated_by(g, f->own.gate, K_GATE_silu);
}

static void delta_write(struct forward *f, const void *params)
{
	const struct delta *a = params;
	struct k_acts out = program_acts_of(f->own.act, a->inner);

	residual_enter(f, &a->on, !a->together); /* else two products read it */
	add_products(f, a);
	add_conv(f, a);
	add_rates(f, a);
	add_states(f, a);
	add_gate(f, a, out);
	residual_leave(f, &a->on, K_STAGE_out, out, &a->out, NULL);
}

const struct block_kind layer_delta = BLOCK(delta, "gated delta rule", .memory = delta_memory);

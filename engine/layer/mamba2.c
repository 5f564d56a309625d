/* Mamba-2: a causal convolution and a state matrix a head in place of attention (Dao and Gu 2024,
 * section 7). See layer.h. A sequence keeps the convolution's last inputs and the matrices. */
#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

/* Values that the convolution mixes: inputs, keys and queries. */
static int32_t mixed_width(const struct mamba2 *a)
{
	return a->inner + 2 * a->groups * a->n_states;
}

static void mamba2_load(struct model_loader *l, void *params)
{
	struct mamba2 *a = params;
	const int64_t dim = l->config->dim, inner = a->inner, mixed = mixed_width(a);
	const int64_t all = inner + mixed + a->heads;

	residual_load(l, &a->on, 0);
	layer_rows(l, &a->in_z, "ssm_in.weight", (struct row_slice){ 0, inner, all }, dim);
	layer_rows(l, &a->in_x, "ssm_in.weight", (struct row_slice){ inner, mixed, all }, dim);
	layer_rows(
		l, &a->in_dt, "ssm_in.weight", (struct row_slice){ inner + mixed, a->heads, all }, dim);
	a->conv = layer_floats(l, "ssm_conv1d.weight", a->taps, mixed);
	a->conv_bias = layer_vector(l, "ssm_conv1d.bias", mixed, false);
	a->dt_bias = layer_vector(l, "ssm_dt.bias", a->heads, true);
	a->decay = layer_floats(l, "ssm_a", 1, a->heads);
	a->skip = layer_floats(l, "ssm_d", 1, a->heads);
	a->out_norm =
		a->normed ? layer_floats(l, "ssm_norm.weight", inner / a->groups, a->groups) : NULL;
	layer_matrix(l, &a->out, "ssm_out.weight", dim, inner);
}

static size_t matrix_floats(const struct mamba2 *a)
{
	return (size_t)a->inner * (size_t)a->n_states;
}

static int mamba2_memory(void *params, struct memory_specs *m, struct err *e)
{
	struct mamba2 *a = params;

	return memory_join_state(
		m, layer_conv_floats(mixed_width(a), a->taps) + matrix_floats(a), &a->group, &a->at, e);
}

static void mamba2_need(const void *params, struct forward_needs *n)
{
	const struct mamba2 *a = params;

	n->ops += 7;
	residual_need(&a->on, 0, n);
	forward_widen(&n->q, 2 * a->heads);
	forward_widen(&n->kv, a->heads);
	forward_widen(&n->wide, mixed_width(a));
	forward_widen(&n->mixed.dim, mixed_width(a));
	n->mixed.x = true;
	forward_widen(&n->room, (int32_t)matrix_floats(a));
	forward_reads(&n->normed, &a->in_x);
	forward_reads(&n->act, &a->out);
}

static void add_conv(struct forward *f, const struct mamba2 *a)
{
	program_add(&f->program, K_OP_conv, K_STAGE_scan)->u.conv = (struct k_conv){ .x = f->own.up,
		.w = a->conv,
		.bias = a->conv_bias,
		.out = { .x = f->own.mixed.x, .dim = mixed_width(a) },
		.taps = a->taps,
		LAYER_STATE(f, a->group),
		.at = a->at };
}

/* Of the convolution's result: keys, queries and values by turns; to f->own.up. */
static void add_states(struct forward *f, const struct mamba2 *a)
{
	const int32_t width = mixed_width(a), keys = a->n_states;
	const float *x = f->own.mixed.x, *b = x + a->inner, *c = b + a->groups * keys;

	program_add(&f->program, K_OP_rates, K_STAGE_scan)->u.rates = (struct k_rates){ .x = f->own.k,
		.stride = a->heads,
		.run = a->heads,
		.a = a->decay,
		.bias = a->dt_bias,
		.out = f->own.q,
		.heads = a->heads,
		.n = f->n_rows };
	program_add(&f->program, K_OP_linear, K_STAGE_scan)->u.linear =
		(struct k_linear){ .q = { c, width, keys },
			.k = { b, width, keys },
			.v = { x, width, a->inner / a->heads },
			.rate = f->own.q,
			.skip = a->skip,
			.out = f->own.up,
			.room = f->own.room,
			.heads = a->heads,
			.key_heads = a->groups,
			.keys = keys,
			.values = a->inner / a->heads,
			LAYER_STATE(f, a->group),
			.at = a->at + layer_conv_floats(width, a->taps) };
}

static void add_gate(struct forward *f, const struct mamba2 *a, struct k_acts out)
{
	struct k_gated *g =
		layer_gated(f, K_STAGE_scan, f->own.up, a->groups, a->inner / a->groups, out);

	if (a->normed)
		layer_gated_norm(g, a->out_norm, a->inner);
	layer_gated_by(g, f->own.gate, K_GATE_silu);
	g->first = true;
}

static void mamba2_write(struct forward *f, const void *params)
{
	const struct mamba2 *a = params;
	struct k_acts out = program_acts_of(f->own.act, a->inner);
	struct k_program *p = &f->program;
	struct k_matmul *m;

	residual_enter(f, &a->on, true);
	m = program_matmul(p, K_STAGE_qkv, f->own.normed, f->n_rows);
	program_part(m, &a->in_z, NULL, NULL, f->own.gate);
	program_part(m, &a->in_x, NULL, NULL, f->own.up);
	program_part(m, &a->in_dt, NULL, NULL, f->own.k);
	add_conv(f, a);
	add_states(f, a);
	add_gate(f, a, out);
	residual_leave(f, &a->on, K_STAGE_out, out, &a->out, NULL);
}

const struct block_kind layer_mamba2 = BLOCK(mamba2, "mamba-2", .memory = mamba2_memory);

/* Lightning attention: a state matrix a head that forgets at a rate of its own, in place of softmax
 * attention (Qin et al. 2024; MiniMax-01: arXiv 2501.08313). See layer.h. */
#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"
#include "kernels/arith.h"

static int32_t width(const struct lightning *a)
{
	return a->heads * a->head_dim;
}

/* The decay of each head: e^-s with s = 2^(-8 (h + 1) / heads) by the layer's share. */
static void fill_rates(struct model_loader *l, struct lightning *a)
{
	const double ln2 = 0x1.62e42fefa39efp-1;

	a->rates = layer_fixed_rates(l, a->heads);
	for (int32_t h = 0; a->rates && h < a->heads; h++)
		a->rates[2 * h] = (float)k_exp64(-k_exp64(-8 * ln2 * (h + 1) / a->heads) * a->share);
}

static void lightning_load(struct model_loader *l, void *params)
{
	struct lightning *a = params;
	const int64_t dim = l->config->dim;

	fill_rates(l, a);
	residual_load(l, &a->on, 0);
	a->out_norm = layer_vector(l, "attn_norm_2.weight", width(a), true);
	layer_matrix(l, &a->qkv, "attn_qkv.weight", 3 * width(a), dim);
	layer_matrix(l, &a->z, "attn_gate.weight", width(a), dim);
	layer_matrix(l, &a->out, "attn_output.weight", dim, width(a));
}

STATE_MEMORY(lightning, (size_t)width(a) * (size_t)a->head_dim)

static void lightning_need(const void *params, struct forward_needs *n)
{
	const struct lightning *a = params;

	n->ops += 7;
	residual_need(&a->on, 0, n);
	forward_widen(&n->q, width(a));
	forward_widen(&n->wide, 3 * width(a));
	forward_widen(&n->room, width(a) * a->head_dim);
	forward_reads(&n->normed, &a->qkv);
	forward_reads(&n->normed, &a->z);
	forward_reads(&n->act, &a->out);
}

/* x = silu(x), of f->own.gate. */
static void add_silu(struct forward *f, const struct lightning *a)
{
	layer_gated_by(layer_gated_self(f, K_STAGE_scan, f->own.gate, 3 * a->heads, a->head_dim),
		f->own.gate, K_GATE_sigmoid);
}

/* From f->own.gate, where each head has its query, key and value, to f->own.q. */
static void add_states(struct forward *f, const struct lightning *a)
{
	const int32_t stride = 3 * width(a), pitch = 3 * a->head_dim;
	const float *q = f->own.gate, *k = q + a->head_dim, *v = k + a->head_dim;
	struct k_linear *l =
		layer_linear(f, a->group, a->at, a->heads, a->head_dim, a->head_dim, f->own.q);

	l->q = (struct k_linear_part){ q, stride, pitch };
	l->k = (struct k_linear_part){ k, stride, pitch };
	l->v = (struct k_linear_part){ v, stride, pitch };
	l->fixed = a->rates;
}

static void add_gate(struct forward *f, const struct lightning *a, struct k_acts out)
{
	struct k_gated *g = layer_gated(f, K_STAGE_scan, f->own.q, 1, width(a), out);

	layer_gated_norm(g, a->out_norm, width(a));
	layer_gated_by(g, f->own.up, K_GATE_sigmoid);
}

static void lightning_write(struct forward *f, const void *params)
{
	const struct lightning *a = params;
	struct k_acts out = program_acts_of(f->own.act, width(a));

	residual_enter(f, &a->on, true);
	LAYER_PRODUCTS(f, K_STAGE_qkv, f->own.normed, { &a->qkv, f->own.gate }, { &a->z, f->own.up });
	add_silu(f, a);
	add_states(f, a);
	add_gate(f, a, out);
	residual_leave(f, &a->on, K_STAGE_out, out, &a->out, NULL);
}

const struct block_kind layer_lightning = BLOCK(lightning, "lightning attention",
	.memory = lightning_memory, .owns = offsetof(struct lightning, rates));

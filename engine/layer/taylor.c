/* Linear attention by Taylor's terms of exp, in place of softmax attention (BASED: Arora et al.
 * 2024). See layer.h. A norm of each head is in the place of the denominator: the sum of a row's
 * weights is a factor of the head, which the norm takes out again. */
#include <math.h>

#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

static int32_t width(const struct taylor *a)
{
	return a->heads * a->head_dim;
}

static int32_t features(const struct taylor *a)
{
	return k_taylor_features(a->feature);
}

static size_t state_floats(const struct taylor *a)
{
	return (size_t)width(a) * (size_t)features(a);
}

static void taylor_load(struct model_loader *l, void *params)
{
	struct taylor *a = params;
	const int64_t dim = l->config->dim, narrow = (int64_t)a->heads * a->feature;

	a->rates = layer_fixed_rates(l, a->heads); /* nothing is forgotten */
	residual_load(l, &a->on, 0);
	a->out_norm = layer_vector(l, "attn_norm_2.weight", width(a), true);
	layer_matrix(l, &a->q, "attn_q.weight", narrow, dim);
	layer_matrix(l, &a->k, "attn_k.weight", narrow, dim);
	layer_matrix(l, &a->v, "attn_v.weight", width(a), dim);
	layer_matrix(l, &a->z, "attn_gate.weight", width(a), dim);
	layer_matrix(l, &a->out, "attn_output.weight", dim, width(a));
}

STATE_MEMORY(taylor, state_floats(a))

static void taylor_need(const void *params, struct forward_needs *n)
{
	const struct taylor *a = params;

	n->ops += 8;
	residual_need(&a->on, 0, n);
	forward_widen(&n->q, a->heads * features(a));
	forward_widen(&n->kv, a->heads * features(a));
	forward_widen(&n->kv, width(a)); /* the values; features may be fewer */
	forward_widen(&n->wide, width(a));
	forward_widen(&n->wide, a->heads * a->feature);
	forward_widen(&n->mixed.dim, width(a));
	n->mixed.x = true;
	forward_widen(&n->room, (int32_t)state_floats(a));
	forward_reads(&n->normed, &a->q);
	forward_reads(&n->normed, &a->k);
	forward_reads(&n->normed, &a->v);
	forward_reads(&n->normed, &a->z);
	forward_reads(&n->act, &a->out);
}

static void add_features(struct forward *f, const struct taylor *a, const float *x, float *out)
{
	program_add(&f->program, K_OP_taylor, K_STAGE_scan)->u.taylor = (struct k_taylor){ .x = x,
		.out = out,
		.factor = 1.0f / sqrtf(sqrtf((float)a->feature)),
		.dim = a->feature,
		.heads = a->heads,
		.n = f->n_rows };
}

/* From features of queries and keys in f->own.q and f->own.k and values in f->own.v to f->own.gate.
 */
static void add_states(struct forward *f, const struct taylor *a)
{
	const int32_t n = features(a), stride = a->heads * n;
	struct k_linear *l = layer_linear(f, a->group, a->at, a->heads, n, a->head_dim, f->own.gate);

	l->q = (struct k_linear_part){ f->own.q, stride, n };
	l->k = (struct k_linear_part){ f->own.k, stride, n };
	l->v = (struct k_linear_part){ f->own.v, width(a), a->head_dim };
	l->fixed = a->rates;
}

static void add_gate(struct forward *f, const struct taylor *a, struct k_acts out)
{
	struct k_gated *g = layer_gated(f, K_STAGE_scan, f->own.gate, a->heads, a->head_dim, out);

	layer_gated_norm(g, a->out_norm, width(a));
	layer_gated_by(g, f->own.mixed.x, K_GATE_sigmoid);
}

static void taylor_write(struct forward *f, const void *params)
{
	const struct taylor *a = params;
	struct k_acts out = program_acts_of(f->own.act, width(a));

	residual_enter(f, &a->on, true);
	LAYER_PRODUCTS(f, K_STAGE_qkv, f->own.normed, { &a->q, f->own.gate }, { &a->k, f->own.up },
		{ &a->v, f->own.v });
	layer_product(f, K_STAGE_qkv, f->own.normed, &a->z, NULL, f->own.mixed.x);
	add_features(f, a, f->own.gate, f->own.q);
	add_features(f, a, f->own.up, f->own.k);
	add_states(f, a);
	add_gate(f, a, out);
	residual_leave(f, &a->on, K_STAGE_out, out, &a->out, NULL);
}

const struct block_kind layer_taylor = BLOCK(
	taylor, "linear attention", .memory = taylor_memory, .owns = offsetof(struct taylor, rates));

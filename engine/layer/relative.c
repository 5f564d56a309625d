/* Attention of an encoder-decoder model: in the encoder over the whole input, in the decoder first
 * over its own positions and then over what the encoder gave (cross-attention). See layer.h.
 *
 * A decoder's layer keeps both in the same pages, as one layer of its memory group: at positions of
 * the input the keys and values of cross-attention, after them its own. */
#include <stdio.h>

#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

static void relative_load(struct model_loader *l, void *params)
{
	struct relative *a = params;
	const int64_t dim = l->config->dim, q = (int64_t)a->n_heads * a->head_dim;

	residual_load(l, &a->on, q);
	layer_matrix(l, &a->q, "attn_q.weight", q, dim);
	layer_matrix(l, &a->k, "attn_k.weight", q, dim);
	layer_matrix(l, &a->v, "attn_v.weight", q, dim);
	layer_matrix(l, &a->out, "attn_o.weight", dim, q);
	a->bias =
		a->like ? a->like->bias : layer_floats(l, "attn_rel_b.weight", a->n_heads, a->n_buckets);
	if (!a->decodes)
		return;
	residual_load(l, &a->cross_on, q);
	layer_matrix(l, &a->cross_q, "cross_attn_q.weight", q, dim);
	layer_matrix(l, &a->cross_out, "cross_attn_o.weight", dim, q);
}

static int relative_memory(void *params, struct memory_specs *m, struct err *e)
{
	struct relative *a = params;
	const struct memory_spec spec = { .kind = &memory_paged,
		.kv = { .n_kv_heads = a->n_heads, .head_dim = a->head_dim } };

	return memory_join(m, &spec, &a->group, &a->kv_layer, NULL, e);
}

static void relative_need(const void *params, struct forward_needs *n)
{
	const struct relative *a = params;
	const int32_t q = a->n_heads * a->head_dim;

	n->ops += 14;
	residual_need(&a->on, q, n);
	forward_widen(&n->heads, a->n_heads);
	forward_widen(&n->kv_heads, a->n_heads);
	forward_widen(&n->q, q);
	forward_widen(&n->kv, q);
	forward_sees(n, 0);
	forward_reads(&n->normed, &a->q);
	forward_reads(&n->normed, &a->k);
	forward_reads(&n->normed, &a->v);
	forward_reads(&n->mixed, &a->out);
	n->mixed.x = true; /* attention writes floats in any case */
	if (!a->decodes)
		return;
	residual_need(&a->cross_on, q, n);
	forward_reads(&n->normed, &a->cross_q);
	forward_reads(&n->mixed, &a->cross_out);
}

/* Stores f->own.k and f->own.v of the step's rows. */
static void add_store(struct forward *f, const struct relative *a)
{
	layer_rope(f, a->group, a->kv_layer, a->n_heads, NULL, f->own.q, f->own.k, f->own.v);
}

static struct k_acts add_attention(
	struct forward *f, const struct relative *a, const struct k_range *ranges, bool cross)
{
	const struct k_acts mixed = program_acts_of(f->own.mixed, a->n_heads * a->head_dim);
	struct k_attention *op =
		layer_attend(f, a->group, a->kv_layer, a->n_heads, f->own.q, mixed, ranges);

	op->relative = true;
	op->adds = cross;
	op->bias = cross ? NULL : a->bias;
	op->bucket = a->bucket;
	return mixed;
}

static void relative_write(struct forward *f, const void *params)
{
	const struct relative *a = params;
	struct k_acts mixed;

	residual_enter(f, &a->on, false);
	LAYER_PRODUCTS(f, K_STAGE_qkv, f->own.normed, { &a->q, f->own.q }, { &a->k, f->own.k },
		{ &a->v, f->own.v });
	add_store(f, a);
	mixed = add_attention(
		f, a, a->decodes ? f->part[FORWARD_OWN].ranges : forward_mask(f, 0)->ranges, false);
	if (f->n_observed)
		forward_add_sparse(f, mixed, 0, false);
	residual_leave(f, &a->on, K_STAGE_out, mixed, &a->out, NULL);
	if (!a->decodes)
		return;
	residual_enter(f, &a->cross_on, false);
	layer_product(f, K_STAGE_qkv, f->own.normed, &a->cross_q, NULL, f->own.q);
	mixed = add_attention(f, a, f->part[FORWARD_INPUT].ranges, true);
	residual_leave(f, &a->cross_on, K_STAGE_out, mixed, &a->cross_out, NULL);
}

const struct block_kind layer_relative =
	BLOCK(relative, "relative attention", .memory = relative_memory);

/* ---- from the encoder to the decoder ---- */

static void bridge_load(struct model_loader *l, void *params)
{
	struct bridge *b = params;
	const int64_t dim = l->config->dim, width = (int64_t)b->width;
	char name[64];

	b->k = calloc((size_t)b->n * 2, sizeof *b->k);
	if (!b->k) {
		err_no_memory(l->e, "%d layers", b->n);
		return;
	}
	b->v = b->k + b->n;
	b->norm = model_vector(l, "enc.output_norm.weight", dim, true);
	for (int32_t i = 0; i < b->n && !l->e->code; i++) {
		snprintf(name, sizeof name, "dec.blk.%d.cross_attn_k.weight", i);
		model_matrix(l, &b->k[i], name, width, dim);
		snprintf(name, sizeof name, "dec.blk.%d.cross_attn_v.weight", i);
		model_matrix(l, &b->v[i], name, width, dim);
	}
}

static void bridge_need(const void *params, struct forward_needs *n)
{
	const struct bridge *b = params;

	n->ops += 1 + 2 * b->n;
	for (int32_t i = 0; i < b->n; i++) {
		forward_reads(&n->normed, &b->k[i]);
		forward_reads(&n->normed, &b->v[i]);
	}
}

/* The keys and values that the decoder's layers have of the input. */
static void bridge_write(struct forward *f, const void *params)
{
	const struct bridge *b = params;
	struct k_op *op = forward_add_norm(f, f->x, NULL, b->norm, NULL, f->own.normed, f->n_rows);

	op->u.norm.kept = true;
	for (int32_t i = 0; i < b->n; i++) {
		LAYER_PRODUCTS(
			f, K_STAGE_qkv, f->own.normed, { &b->k[i], f->own.k }, { &b->v[i], f->own.v });
		add_store(f, b->decoder[i].mixer.params);
	}
}

const struct block_kind layer_bridge = BLOCK(bridge, "bridge", .owns = offsetof(struct bridge, k));

/* A gated short convolution in place of attention. See layer.h. A sequence keeps the last inputs of
 * the convolution. */
#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

static void short_conv_load(struct model_loader *l, void *params)
{
	struct short_conv *a = params;
	const int64_t dim = l->config->dim;

	residual_load(l, &a->on, 0);
	a->conv = layer_floats(l, "shortconv.conv.weight", a->taps, dim);
	LAYER_PARTS(l, "shortconv.in_proj.weight", dim, { &a->b, dim }, { &a->c, dim }, { &a->u, dim });
	layer_matrix(l, &a->out, "shortconv.out_proj.weight", dim, dim);
}

STATE_MEMORY(short_conv, ((size_t)a->dim * (size_t)a->taps))

static void short_conv_need(const void *params, struct forward_needs *n)
{
	const struct short_conv *a = params;

	n->ops += 4;
	residual_need(&a->on, 0, n);
	forward_widen(&n->q, a->dim);
	forward_widen(&n->wide, a->dim);
	forward_reads(&n->normed, &a->b);
	forward_reads(&n->act, &a->out);
}

static void short_conv_write(struct forward *f, const void *params)
{
	const struct short_conv *a = params;
	struct k_acts out = program_acts_of(f->own.act, a->dim);
	struct k_conv *c;

	residual_enter(f, &a->on, true);
	LAYER_PRODUCTS(f, K_STAGE_qkv, f->own.normed, { &a->b, f->own.gate }, { &a->c, f->own.q },
		{ &a->u, f->own.up });
	c = layer_conv(f, a->group, a->at, a->taps, f->own.up, a->conv, NULL, out);
	c->in = f->own.gate;
	c->end = f->own.q;
	c->linear = true;
	residual_leave(f, &a->on, K_STAGE_out, out, &a->out, NULL);
}

const struct block_kind layer_short_conv =
	BLOCK(short_conv, "short convolution", .memory = short_conv_memory);

/* The gated feed-forward. See layer.h. */
#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

static void feed_forward_load(struct model_loader *l, void *params)
{
	struct feed_forward *w = params;
	int64_t dim = l->config->dim;

	residual_load(l, &w->on, w->width);
	if (!w->fused && !w->plain)
		layer_matrix(l, &w->gate, "ffn_gate.weight", w->width, dim);
	w->gate_bias = w->plain ? NULL : layer_vector(l, "ffn_gate.bias", w->width, false);
	if (w->fused)
		LAYER_PARTS(l, "ffn_up.weight", dim, { &w->gate, w->width }, { &w->up, w->width });
	else
		layer_matrix(l, &w->up, "ffn_up.weight", w->width, dim);
	w->up_bias = layer_vector(l, "ffn_up.bias", w->width, false);
	layer_matrix(l, &w->down, "ffn_down.weight", dim, w->width);
	w->down_bias = layer_vector(l, "ffn_down.bias", dim, false);
}

static void feed_forward_need(const void *params, struct forward_needs *n)
{
	const struct feed_forward *w = params;

	n->ops += 5;
	residual_need(&w->on, w->width, n);
	forward_widen(&n->wide, w->width);
	if (!w->plain)
		forward_reads(&n->normed, &w->gate);
	forward_reads(&n->normed, &w->up);
	forward_reads(&n->act, &w->down);
	n->act.x = true; /* to be counted, or normalised */
	forward_widen(&n->masked, w->width);
}

static void add_expansion(struct forward *f, const struct feed_forward *w, struct k_acts act)
{
	struct k_matmul *m = program_matmul(&f->program, K_STAGE_gate_up, f->own.normed, f->n_rows);

	if (!w->plain)
		program_part(m, &w->gate, w->gate_bias, NULL, f->own.gate);
	program_part(m, &w->up, w->up_bias, NULL, f->own.up);
	if (!w->plain)
		program_glu(&f->program, w->act, f->own.gate, f->own.up, act, f->n_rows);
	else
		layer_activate(f, K_STAGE_act, f->own.up, act, w->act);
}

static void feed_forward_write(struct forward *f, const void *params)
{
	const struct feed_forward *w = params;
	struct k_acts act = program_acts_of(f->own.act, w->width);
	const bool counted = f->least != 0 || f->n_observed;
	const bool columns =
		f->least != 0 && !f->rewriter[FORWARD_FLOATS].fn && !f->adapted && w->down_columns.data;

	forward_keep_sparse(f, &act, true);
	residual_enter(f, &w->on, false);
	if (!counted && !f->rewriter[FORWARD_FLOATS].fn && !w->on.inner &&
		!program_wants_floats(&w->down))
		act.x = NULL;
	add_expansion(f, w, act);
	if (counted)
		forward_add_sparse(f, act, f->least, true);
	residual_leave(f, &w->on, K_STAGE_down, residual_inner(f, &w->on, act),
		columns ? &w->down_columns : &w->down, w->down_bias);
}

const struct block_kind layer_feed_forward = BLOCK(feed_forward, "feed-forward", .memory = NULL);

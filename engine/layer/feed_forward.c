/* The gated feed-forward. See layer.h. */
#include "engine/run/forward.h"
#include "engine/model/model_tensors.h"

static void feed_forward_load(struct model_loader *l, void *params)
{
	struct feed_forward *w = params;
	int64_t dim = l->config->dim;

	w->norm = layer_vector(l, "ffn_norm.weight", dim, true);
	w->post_norm = w->post ? layer_vector(l, w->post, dim, true) : NULL;
	if (w->fused) {
		layer_rows(
			l, &w->gate, "ffn_up.weight", (struct row_slice){ 0, w->width, 2 * w->width }, dim);
		layer_rows(l, &w->up, "ffn_up.weight",
			(struct row_slice){ w->width, w->width, 2 * w->width }, dim);
	} else {
		layer_matrix(l, &w->gate, "ffn_gate.weight", w->width, dim);
		layer_matrix(l, &w->up, "ffn_up.weight", w->width, dim);
	}
	layer_matrix(l, &w->down, "ffn_down.weight", dim, w->width);
}

static void feed_forward_need(const void *params, struct forward_needs *n)
{
	const struct feed_forward *w = params;

	n->ops += 5 + (w->post != NULL);
	n->added |= w->post != NULL;
	forward_widen(&n->wide, w->width);
	forward_reads(&n->normed, &w->gate);
	forward_reads(&n->normed, &w->up);
	forward_reads(&n->act, &w->down);
	n->act.x = true; /* to be counted */
	forward_widen(&n->masked, w->width);
}

static void feed_forward_write(struct forward *f, const void *params)
{
	const struct feed_forward *w = params;
	struct k_acts act = program_acts_of(f->act, w->width);
	const bool counted = f->least > 0 || f->n_observed;
	struct k_program *p = &f->program;
	struct k_matmul *m;

	program_norm(p, f->x, NULL, w->norm, f->model->config.norm_eps, f->normed, f->n_rows);
	m = program_matmul(p, K_STAGE_gate_up, f->normed, f->n_rows);
	program_part(m, &w->gate, NULL, NULL, f->gate);
	program_part(m, &w->up, NULL, NULL, f->up);
	if (!counted && !f->floats && !program_wants_floats(&w->down))
		act.x = NULL;
	program_glu(p, w->act, f->gate, f->up, act, f->n_rows);
	if (counted)
		forward_add_sparse(f, act, f->least, true);
	forward_add_product(f, K_STAGE_down, act,
		f->least > 0 && !f->floats ? &w->down_columns : &w->down, NULL, w->post_norm);
}

const struct block_kind layer_feed_forward = {
	.name = "feed-forward",
	.size = sizeof(struct feed_forward),
	.load = feed_forward_load,
	.need = feed_forward_need,
	.write = feed_forward_write,
};

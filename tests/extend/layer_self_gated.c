/* The example of docs/extend.md, "a mixer or a feed-forward": a feed-forward that gates itself,
 * down(silu(up x) * up x), as in a file without ffn_gate. */
#include "engine/run/forward.h"
#include "engine/model/model_tensors.h"

struct self_gated {
	int32_t width;
	struct residual on;
	struct k_matrix up, down;
};

static void self_gated_load(struct model_loader *l, void *params)
{
	struct self_gated *w = params;
	int64_t dim = l->config->dim;

	w->on.pre = "ffn_norm.weight";
	residual_load(l, &w->on, 0);
	layer_matrix(l, &w->up, "ffn_up.weight", w->width, dim);
	layer_matrix(l, &w->down, "ffn_down.weight", dim, w->width);
}

static void self_gated_need(const void *params, struct forward_needs *n)
{
	const struct self_gated *w = params;

	n->ops += 2; /* product, glu */
	residual_need(&w->on, 0, n);
	forward_widen(&n->wide, w->width);
	forward_reads(&n->normed, &w->up);
	forward_reads(&n->act, &w->down);
}

static void self_gated_write(struct forward *f, const void *params)
{
	const struct self_gated *w = params;
	struct k_acts act = program_acts_of(f->own.act, w->width);
	struct k_program *p = &f->program;

	residual_enter(f, &w->on, false);
	program_part(program_matmul(p, K_STAGE_gate_up, f->own.normed, f->n_rows), &w->up, NULL, NULL,
		f->own.up);
	program_glu(p, K_ACT_silu, f->own.up, f->own.up, act, f->n_rows);
	residual_leave(f, &w->on, K_STAGE_down, act, &w->down, NULL);
}

static const struct block_kind layer_self_gated = {
	.name = "self-gated",
	.size = sizeof(struct self_gated),
	.load = self_gated_load,
	.need = self_gated_need,
	.write = self_gated_write,
};

/* A mixture of feed-forwards. See layer.h. Which experts a row has is data: the op of their
 * products reads it, so the program stays a function of the step's shape. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/run/forward.h"
#include "engine/model/model_tensors.h"

static void load_each(struct model_loader *l, struct k_matrix *w, const char *part,
	const struct experts *x, int64_t rows, int64_t cols)
{
	for (int32_t i = 0; i < x->n && !l->e->code; i++)
		layer_rows(l, &w[i], part, (struct row_slice){ i * rows, rows, x->n * rows }, cols);
}

static void experts_load(struct model_loader *l, void *params)
{
	struct experts *x = params;
	int64_t dim = l->config->dim;

	x->gate = calloc((size_t)x->n * 3, sizeof *x->gate);
	if (!x->gate) {
		err_set(l->e, ERR_MEMORY, "no memory for %d experts", x->n);
		return;
	}
	x->up = x->gate + x->n;
	x->down = x->up + x->n;
	residual_load(l, &x->on, 0);
	layer_matrix(l, &x->router, "ffn_gate_inp.weight", x->n, dim);
	load_each(l, x->gate, "ffn_gate_exps.weight", x, x->width, dim);
	load_each(l, x->up, "ffn_up_exps.weight", x, x->width, dim);
	load_each(l, x->down, "ffn_down_exps.weight", x, dim, x->width);
}

/* A slot is a row of the wide buffers: `used` of them a row. */
static void experts_need(const void *params, struct forward_needs *n)
{
	const struct experts *x = params;
	int32_t dim = x->router.n_cols, widest = x->width > dim ? x->width : dim;

	n->ops += 8;
	residual_need(&x->on, 0, n);
	forward_widen(&n->q, x->n);
	forward_widen(&n->kv, x->used);
	forward_widen(&n->wide, x->used * widest);
	forward_reads(&n->normed, &x->router);
	forward_reads(&n->normed, &x->gate[0]);
	forward_reads(&n->normed, &x->up[0]);
	forward_reads(&n->act, &x->down[0]);
	forward_widen(&n->act.dim, x->used * x->width);
}

static void add_experts(struct forward *f, const struct experts *x, enum k_stage stage,
	struct k_acts in, const struct k_matrix *w, float *out, bool each)
{
	struct k_op *op = program_add(&f->program, K_OP_experts, stage);

	op->u.experts = (struct k_experts){ .in = in,
		.w = w,
		.ids = (const int32_t *)(const void *)f->k,
		.out = out,
		.n_experts = x->n,
		.k = x->used,
		.n = f->n_rows,
		.each = each };
}

static void experts_write(struct forward *f, const void *params)
{
	const struct experts *x = params;
	struct k_acts act = program_acts_of(f->act, x->width);
	struct k_program *p = &f->program;
	int32_t *ids = (int32_t *)(void *)f->k; /* no keys are needed here any more */
	struct k_op *op;

	residual_enter(f, &x->on, true);
	program_part(
		program_matmul(p, K_STAGE_route, f->normed, f->n_rows), &x->router, NULL, NULL, f->q);
	op = program_add(p, K_OP_route, K_STAGE_route);
	op->u.route = (struct k_route){
		.logits = f->q, .ids = ids, .weights = f->v, .n_experts = x->n, .k = x->used, .n = f->n_rows
	};
	add_experts(f, x, K_STAGE_gate_up, f->normed, x->gate, f->gate, false);
	add_experts(f, x, K_STAGE_gate_up, f->normed, x->up, f->up, false);
	program_glu(p, x->act, f->gate, f->up, act, f->n_rows * x->used);
	add_experts(f, x, K_STAGE_down, act, x->down, f->gate, true);
	op = program_add(p, K_OP_combine, K_STAGE_route);
	op->u.combine = (struct k_combine){ .y = f->gate,
		.weights = f->v,
		.x = f->x,
		.scale = x->on.scale,
		.dim = f->model->config.dim,
		.k = x->used,
		.n = f->n_rows };
}

static void experts_close(void *params)
{
	free(((struct experts *)params)->gate);
}

const struct block_kind layer_experts = {
	.name = "experts",
	.size = sizeof(struct experts),
	.load = experts_load,
	.need = experts_need,
	.write = experts_write,
	.close = experts_close,
};

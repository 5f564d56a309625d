/* A mixture of feed-forwards. See layer.h. Which experts a row has is data: the op of their
 * products reads it, so the program stays a function of the step's shape. */
#include <stdlib.h>

#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

static void load_each(struct model_loader *l, struct k_matrix *w, const char *part,
	const struct experts *x, int64_t rows, int64_t cols)
{
	for (int32_t i = 0; i < x->n && !l->e->code; i++)
		layer_rows(l, &w[i], part, (struct row_slice){ i * rows, rows, x->n * rows }, cols);
}

static const float *load_bias(struct model_loader *l, const char *part, int64_t cols, int64_t n)
{
	return layer_has(l, part) ? layer_floats(l, part, cols, n) : NULL;
}

static void load_shared(struct model_loader *l, struct experts *x, int64_t dim)
{
	layer_matrix(l, &x->shared_gate, "ffn_gate_shexp.weight", x->shared_width, dim);
	layer_matrix(l, &x->shared_up, "ffn_up_shexp.weight", x->shared_width, dim);
	layer_matrix(l, &x->shared_down, "ffn_down_shexp.weight", dim, x->shared_width);
	if (layer_has(l, "ffn_gate_inp_shexp.weight"))
		layer_matrix(l, &x->shared_weight, "ffn_gate_inp_shexp.weight", 1, dim);
}

static void experts_load(struct model_loader *l, void *params)
{
	struct experts *x = params;
	int64_t dim = l->config->dim;

	x->gate = calloc((size_t)x->n * 3, sizeof *x->gate);
	if (!x->gate) {
		err_no_memory(l->e, "%d experts", x->n);
		return;
	}
	x->up = x->gate + x->n;
	x->down = x->up + x->n;
	residual_load(l, &x->on, 0);
	layer_matrix(l, &x->router, "ffn_gate_inp.weight", x->n, dim);
	x->router_bias = layer_vector(l, "ffn_gate_inp.bias", x->n, false);
	x->choice_bias = layer_vector(l, "exp_probs_b.bias", x->n, false);
	load_each(l, x->gate, "ffn_gate_exps.weight", x, x->width, dim);
	load_each(l, x->up, "ffn_up_exps.weight", x, x->width, dim);
	load_each(l, x->down, "ffn_down_exps.weight", x, dim, x->width);
	x->gate_bias = load_bias(l, "ffn_gate_exps.bias", x->width, x->n);
	x->up_bias = load_bias(l, "ffn_up_exps.bias", x->width, x->n);
	x->down_bias = load_bias(l, "ffn_down_exps.bias", dim, x->n);
	if (x->shared_width)
		load_shared(l, x, dim);
}

static void shared_need(const struct experts *x, struct forward_needs *n)
{
	n->ops += 3;
	n->added = true; /* holds its result */
	forward_widen(&n->q, x->n + 1);
	forward_widen(&n->wide, x->shared_width);
	forward_reads(&n->normed, &x->shared_gate);
	forward_reads(&n->normed, &x->shared_up);
	forward_reads(&n->act, &x->shared_down);
	if (x->shared_weight.data)
		forward_reads(&n->normed, &x->shared_weight);
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
	if (x->shared_width)
		shared_need(x, n);
}

static void add_experts(struct forward *f, const struct experts *x, enum k_stage stage,
	struct k_acts in, const struct k_matrix *w, const float *bias, float *out)
{
	struct k_op *op = program_add(&f->program, K_OP_experts, stage);

	op->u.experts = (struct k_experts){ .in = in,
		.w = w,
		.bias = bias,
		.ids = (const int32_t *)(const void *)f->own.k,
		.out = out,
		.n_experts = x->n,
		.k = x->used,
		.n = f->n_rows,
		.each = stage == K_STAGE_down };
}

/* Where the logits of the shared expert's weights are: after those of the router. */
static float *shared_logits(const struct forward *f, const struct experts *x)
{
	return f->own.q + (size_t)f->n_rows * (size_t)x->n;
}

/* Of rows that are normed: their experts, to f->own.k, and these' weights, to f->own.v. */
static void add_route(struct forward *f, const struct experts *x)
{
	struct k_matmul *m = program_matmul(&f->program, K_STAGE_route, f->own.normed, f->n_rows);

	program_part(m, &x->router, x->router_bias, NULL, f->own.q);
	if (x->shared_weight.data)
		program_part(m, &x->shared_weight, NULL, NULL, shared_logits(f, x));
	program_add(&f->program, K_OP_route, K_STAGE_route)->u.route =
		(struct k_route){ .logits = f->own.q,
			.ids = (int32_t *)(void *)f->own.k, /* no keys are needed here any more */
			.weights = f->own.v,
			.n_experts = x->n,
			.k = x->used,
			.n = f->n_rows,
			.kind = x->route,
			.norm = x->norm_weights,
			.scale = x->scale,
			.bias = x->choice_bias,
			.n_groups = x->n_groups,
			.used_groups = x->used_groups };
}

static void add_shared(struct forward *f, const struct experts *x)
{
	struct k_acts act = program_acts_of(f->own.act, x->shared_width);

	LAYER_PRODUCTS(f, K_STAGE_gate_up, f->own.normed, { &x->shared_gate, f->own.gate },
		{ &x->shared_up, f->own.up });
	program_glu(&f->program, x->act, f->own.gate, f->own.up, act, f->n_rows);
	layer_product(f, K_STAGE_down, act, &x->shared_down, NULL, f->own.added);
}

static void experts_write(struct forward *f, const void *params)
{
	const struct experts *x = params;
	struct k_acts act = program_acts_of(f->own.act, x->width);
	struct k_program *p = &f->program;

	residual_enter(f, &x->on, true);
	add_route(f, x);
	if (x->shared_width)
		add_shared(f, x);
	add_experts(f, x, K_STAGE_gate_up, f->own.normed, x->gate, x->gate_bias, f->own.gate);
	add_experts(f, x, K_STAGE_gate_up, f->own.normed, x->up, x->up_bias, f->own.up);
	program_glu(p, x->act, f->own.gate, f->own.up, act, f->n_rows * x->used);
	add_experts(f, x, K_STAGE_down, act, x->down, x->down_bias, f->own.gate);
	program_add(p, K_OP_combine, K_STAGE_route)->u.combine = (struct k_combine){ .y = f->own.gate,
		.weights = f->own.v,
		.shared = x->shared_width ? f->own.added : NULL,
		.gate = x->shared_weight.data ? shared_logits(f, x) : NULL,
		.x = f->x,
		.scale = x->on.scale,
		.dim = f->model->config.dim,
		.k = x->used,
		.n = f->n_rows };
}

const struct block_kind layer_experts =
	BLOCK(experts, "experts", .owns = offsetof(struct experts, gate));

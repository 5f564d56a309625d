/* The residual stream, as blocks read it and add to it. See layer.h. */
#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

#include <stdio.h>
#include <string.h>

/* "attn_norm.weight" has "attn_norm.bias" beside it, if it has one. */
static const float *load_bias(struct model_loader *l, const char *weight, int64_t dim)
{
	const int n = (int)(strlen(weight) - strlen("weight"));
	char name[48];

	snprintf(name, sizeof name, "%.*sbias", n, weight);
	return layer_vector(l, name, dim, false);
}

void residual_load(struct model_loader *l, struct residual *r, int64_t inner)
{
	const int64_t dim = l->config->dim;

	r->norm = r->pre ? layer_vector(l, r->pre, dim, true) : NULL;
	r->norm_bias = r->pre && l->config->centred ? load_bias(l, r->pre, dim) : NULL;
	r->inner_norm = r->inner ? layer_vector(l, r->inner, inner, true) : NULL;
	r->post_norm = r->post ? layer_vector(l, r->post, dim, true) : NULL;
}

/* The stream becomes its norm, times a factor. */
static void add_renewal(struct forward *f, const struct residual *r)
{
	const int32_t dim = f->model->config.dim;
	struct k_gated *g = layer_gated_self(f, K_STAGE_norm, f->x, 1, dim);

	layer_gated_norm(g, r->norm, dim);
	g->factor = r->normed;
}

void residual_need(const struct residual *r, int32_t inner, struct forward_needs *n)
{
	n->ops += 2 + (r->normed != 0) + (r->inner != NULL) + (r->post || r->scale != 0);
	n->added |= r->post || r->scale != 0 || r->aside;
	if (r->inner)
		forward_widen(&n->inner, inner);
}

void residual_enter(struct forward *f, const struct residual *r, bool kept)
{
	struct k_op *op;

	if (r->norm) {
		op = forward_add_norm(f, f->x, NULL, r->norm, r->norm_bias, f->own.normed, f->n_rows);
		if (op->kind == K_OP_norm)
			op->u.norm.kept = kept || r->normed != 0;
		if (r->normed != 0)
			add_renewal(f, r);
		return;
	}
	layer_activate(f, K_STAGE_norm, f->x, f->own.normed, K_ACT_none);
}

void residual_shift(struct forward *f, const struct residual *r, struct k_shift shift)
{
	const struct k_acts normed = k_floats(f->own.normed_x, f->model->config.dim);

	forward_add_norm(f, f->x, NULL, r->norm, r->norm_bias, normed, f->n_rows);
	shift.x = f->own.normed_x;
	program_add(&f->program, K_OP_shift, K_STAGE_scan)->u.shift = shift;
}

struct k_acts residual_inner(struct forward *f, const struct residual *r, struct k_acts in)
{
	struct k_acts out = in;

	if (!r->inner_norm)
		return in;
	out.x = f->own.inner;
	program_norm(&f->program, in.x, NULL, r->inner_norm, f->model->config.norm_eps, out, f->n_rows);
	return out;
}

void residual_leave(struct forward *f, const struct residual *r, enum k_stage stage,
	struct k_acts in, const struct k_matrix *w, const float *bias)
{
	const bool apart = r->post_norm || r->scale != 0;
	struct k_acts x = { .x = f->x, .dim = f->model->config.dim };
	float *out = apart || r->aside ? f->own.added : f->x, *to = r->joins ? f->own.added : f->x;

	to = apart ? NULL : to;
	if (w->by_column)
		forward_add_columns(f, stage, in, w, to, out);
	else
		program_part(program_matmul(&f->program, stage, in, f->n_rows), w, bias, to, out);
	if (r->post_norm)
		program_norm(
			&f->program, f->own.added, NULL, r->post_norm, f->model->config.norm_eps, x, f->n_rows)
			->residual = f->x;
	else if (apart)
		program_add(&f->program, K_OP_add, stage)->u.add = (struct k_add){
			.y = f->own.added, .x = f->x, .scale = r->scale, .dim = x.dim, .n = f->n_rows
		};
}

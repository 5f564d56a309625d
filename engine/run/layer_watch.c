/* See layer_watch.h. */
#include "engine/run/layer_watch.h"

#include <string.h>

#include "engine/run/forward.h"

enum { MOST_BYTES = 64 << 20 };

/* Floats that op tells of a row; 0: nothing. */
static size_t told(const struct k_op *op)
{
	switch (op->kind) {
	case K_OP_route: return (size_t)op->u.route.n_experts + 2 * (size_t)op->u.route.k;
	case K_OP_rates: return 2 * (size_t)op->u.rates.heads;
	case K_OP_scan: return op->u.scan.delta ? (size_t)op->u.scan.out.dim : 0;
	default: return 0;
	}
}

int layer_watch_open(struct layer_watch *w, struct forward *f, struct err *e)
{
	const struct k_program *p = forward_program_of_one(f);

	*w = (struct layer_watch){ .kernels = f->model->kernels };
	for (int32_t i = 0; i < p->n_ops; i++)
		w->row += (told(&p->op[i]) + 15) / 16 * 16;
	w->rows = f->max_rows;
	if (!w->row)
		return 0;
	w->rows = (int32_t)(MOST_BYTES / sizeof *w->base / w->row);
	w->rows = w->rows > f->max_rows ? f->max_rows : w->rows < 1 ? 1 : w->rows;
	w->base = k_alloc(w->kernels, (size_t)w->rows * w->row * sizeof *w->base, K_SHARED,
		"watching layers; try --watch-layers off", e);
	return w->base ? 0 : -1;
}

void layer_watch_close(struct layer_watch *w)
{
	k_free(w->kernels, w->base);
	memset(w, 0, sizeof *w);
}

/* The product before op i that writes to `from` writes to `to`. */
static void aim_product(struct k_program *p, int32_t i, const float *from, float *to)
{
	while (i-- > 0)
		for (int32_t k = 0; p->op[i].kind == K_OP_matmul && k < p->op[i].u.matmul.n_parts; k++)
			if (p->op[i].u.matmul.part[k].out == from) {
				p->op[i].u.matmul.part[k].out = to;
				return;
			}
}

static void aim_route(struct k_program *p, int32_t i, float *at)
{
	struct k_route *a = &p->op[i].u.route;
	const struct k_route was = *a;

	a->logits = at;
	a->weights = at + (size_t)a->n * (size_t)a->n_experts;
	a->ids = (int32_t *)(void *)(a->weights + (size_t)a->n * (size_t)a->k);
	aim_product(p, i, was.logits, a->logits);
	for (int32_t j = i + 1; j < p->n_ops && p->op[j].layer == p->op[i].layer; j++) {
		struct k_op *op = &p->op[j];

		if (op->kind == K_OP_experts && op->u.experts.ids == was.ids)
			op->u.experts.ids = a->ids;
		else if (op->kind == K_OP_combine && op->u.combine.weights == was.weights)
			op->u.combine.weights = a->weights;
	}
}

static void aim_rates(struct k_program *p, int32_t i, float *at)
{
	const float *was = p->op[i].u.rates.out;

	p->op[i].u.rates.out = at;
	while (++i < p->n_ops)
		if (p->op[i].kind == K_OP_linear && p->op[i].u.linear.rate == was) {
			p->op[i].u.linear.rate = at;
			return;
		}
}

static void rewrite(const void *arg, struct k_program *p, int32_t n)
{
	const struct layer_watch *w = arg;
	float *at = w->base;

	if (!at || n > w->rows)
		return;
	for (int32_t i = 0; i < p->n_ops; i++) {
		if (p->op[i].kind == K_OP_route) {
			aim_route(p, i, at);
		} else if (p->op[i].kind == K_OP_rates) {
			aim_rates(p, i, at);
		} else if (p->op[i].kind == K_OP_scan && told(&p->op[i])) {
			aim_product(p, i, p->op[i].u.scan.delta, at);
			p->op[i].u.scan.delta = at;
		}
		at += (size_t)n * ((told(&p->op[i]) + 15) / 16 * 16);
	}
}

void layer_watch_use(struct forward *f, const struct layer_watch *w)
{
	forward_set_rewriter(f, FORWARD_WATCH, (struct forward_rewriter){ w ? rewrite : NULL, w });
}

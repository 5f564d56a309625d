/* See floats.h. */
#include "engine/run/floats.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

struct copy {
	const struct k_matrix *of;
	struct k_matrix is;
};
struct floats {
	struct k_ctx *kernels;
	struct copy *copy; /* [n], in the order of the program */
	int32_t n, cap, n_inputs;
	enum k_round_to to;
	float *largest; /* [n_inputs] */
};

static bool in_layers(const struct k_op *op)
{
	return op->kind == K_OP_matmul && op->layer >= 0;
}

/* ---- the copies ---- */

static int add_copy(struct floats *s, const struct k_matrix *m, struct err *e)
{
	struct copy *c;
	float *raw;

	if (!ARRAY_ROOM(s->copy, s->cap, s->n + 1))
		return err_set(e, ERR_MEMORY, "no memory for weights as floats");
	c = &s->copy[s->n++];
	*c = (struct copy){ m, { .type = K_F32, .n_rows = m->n_rows, .n_cols = m->n_cols } };
	c->is.data = k_alloc(s->kernels, k_matrix_bytes(s->kernels, &c->is), K_WEIGHTS,
		"weights as floats; try --activations model", e);
	raw = c->is.data ? program_read_matrix(s->kernels, m, e) : NULL;
	if (raw)
		k_pack(s->kernels, &c->is, raw);
	free(raw);
	return raw ? 0 : -1;
}

static int add_products(struct floats *s, const struct k_program *p, struct err *e)
{
	for (int32_t i = 0; i < p->n_ops; i++) {
		const struct k_op *op = &p->op[i];

		if (op->kind == K_OP_experts)
			return err_set(e, ERR_USAGE,
				"activations: this model's layers have experts, of which each row reads other weights");
		if (!in_layers(op))
			continue;
		s->n_inputs++;
		for (int32_t k = 0; k < op->u.matmul.n_parts; k++)
			if (add_copy(s, op->u.matmul.part[k].w, e))
				return -1;
	}
	return 0;
}

int floats_open(struct floats **out, struct forward *f, struct err *e)
{
	struct floats *s = calloc(1, sizeof *s);

	*out = NULL;
	if (!s)
		return err_set(e, ERR_MEMORY, "no memory for weights as floats");
	s->kernels = f->model->kernels;
	if (!k_is_host(s->kernels))
		err_set(e, ERR_USAGE,
			"activations: only the CPU's kernels can set them apart from the weights (--backend cpu)");
	else
		add_products(s, forward_program_of_one(f), e);
	s->largest = calloc((size_t)s->n_inputs + 1, sizeof *s->largest);
	if (!e->code && !s->largest)
		err_set(e, ERR_MEMORY, "no memory for weights as floats");
	if (e->code) {
		floats_close(s);
		return -1;
	}
	*out = s;
	return 0;
}

void floats_close(struct floats *s)
{
	if (!s)
		return;
	for (int32_t i = 0; i < s->n; i++)
		k_free(s->kernels, s->copy[i].is.data);
	free(s->copy);
	free(s->largest);
	free(s);
}

void floats_round(struct floats *s, enum k_round_to to, const float *largest, int32_t n)
{
	s->to = to;
	assert(!largest || n == s->n_inputs);
	if (largest)
		memcpy(s->largest, largest, (size_t)s->n_inputs * sizeof *largest);
}

/* ---- the program ---- */

static const struct k_matrix *copy_of(const struct floats *s, const struct k_matrix *m, int32_t *at)
{
	while (s->copy[*at].of != m)
		*at = (*at + 1) % s->n;
	return &s->copy[*at].is;
}

static void put_round(
	const struct floats *s, struct k_op *to, const struct k_op *product, int32_t i)
{
	*to = (struct k_op){ .kind = K_OP_round, .stage = product->stage, .layer = product->layer };
	to->u.round = (struct k_round){ .x = product->u.matmul.in.x,
		.dim = product->u.matmul.in.dim,
		.n = product->u.matmul.n,
		.to = s->to,
		.largest = s->largest[i] };
}

/* From the last op to the first, so that nothing is overwritten before it was moved. */
void floats_rewrite(const struct floats *s, struct k_program *p)
{
	const int32_t was = p->n_ops;
	int32_t n = 0, at = 0, to;

	for (int32_t i = 0; i < was; i++)
		n += in_layers(&p->op[i]);
	p->n_ops = to = was + n;
	for (int32_t i = was; i-- > 0;) {
		const bool mine = in_layers(&p->op[i]);
		struct k_op *op = &p->op[--to];

		*op = p->op[i];
		for (int32_t k = 0; mine && k < op->u.matmul.n_parts; k++)
			op->u.matmul.part[k].w = copy_of(s, op->u.matmul.part[k].w, &at);
		if (mine)
			put_round(s, &p->op[--to], op, --n);
	}
}

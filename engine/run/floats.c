/* See floats.h. */
#include "engine/run/floats.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "kernels/format/encode.h"

struct copy {
	const struct k_matrix *of;
	struct k_matrix is;
};
struct floats {
	struct k_ctx *kernels;
	struct copy *copy;             /* [n], in the order of the program */
	const struct quant_form *form; /* while it is opened */
	int32_t n, cap, n_inputs;      /* n 0: the products decode the model's own weights */
	enum k_round_to to;
	float *largest; /* [n_inputs] */
};

static bool in_layers(const struct k_op *op)
{
	return op->kind == K_OP_matmul && op->layer >= 0;
}

/* ---- the copies ---- */

/* Each row of w [rows, cols] becomes what a file of that form would hold. */
static int round_rows(
	const struct quant_form *form, float *w, int32_t rows, int32_t cols, struct err *e)
{
	const struct k_type_info *type = &k_types[form->type];
	uint8_t *row = malloc((size_t)(cols / type->block) * (size_t)type->block_bytes);
	struct form_scales scales = { 0 };

	if (cols % type->block)
		err_set(e, ERR_USAGE, "weights %s: a matrix has rows of %d weights, no whole blocks of %d",
			type->name, cols, type->block);
	else if (!row)
		err_no_memory(e, "weights as floats");
	else
		form_scales_make(form, &scales, w, rows, cols, e);
	for (int32_t r = 0; !e->code && r < rows; r++, w += cols) {
		form_row(form, &scales, r, w, cols, row);
		k_decode(form->type, row, cols, w);
	}
	free(scales.unit);
	free(row);
	return e->code ? -1 : 0;
}

static int add_copy(struct floats *s, const struct k_matrix *m, struct err *e)
{
	struct copy *c;
	float *raw;

	if (!ARRAY_ROOM(s->copy, s->cap, s->n + 1))
		return err_no_memory(e, "weights as floats");
	c = &s->copy[s->n++];
	*c = (struct copy){ m, { .type = K_F32, .n_rows = m->n_rows, .n_cols = m->n_cols } };
	c->is.data = k_alloc(s->kernels, k_matrix_bytes(s->kernels, &c->is), K_WEIGHTS,
		"weights as floats; try --weights model", e);
	raw = c->is.data ? program_read_matrix(s->kernels, m, e) : NULL;
	if (raw && !round_rows(s->form, raw, m->n_rows, m->n_cols, e))
		k_pack(s->kernels, &c->is, raw);
	free(raw);
	return e->code ? -1 : 0;
}

/* The heads of latent attention are experts to the kernels, and none to the model. */
static int refuse_experts(const struct model *m, struct err *e)
{
	for (int32_t i = 0; i < m->config.n_layers; i++)
		if (m->layer[i].ffn.kind == &layer_experts)
			return err_set(e, ERR_USAGE,
				"weights, activations: this model's layers have experts, of which each row reads "
				"other weights");
	return err_set(e, ERR_USAGE,
		"weights, activations: latent attention multiplies each head by its own matrix");
}

static int add_products(
	struct floats *s, const struct model *m, const struct k_program *p, struct err *e)
{
	for (int32_t i = 0; i < p->n_ops; i++) {
		const struct k_op *op = &p->op[i];

		if (op->kind == K_OP_experts)
			return refuse_experts(m, e);
		if (!in_layers(op))
			continue;
		s->n_inputs++;
		for (int32_t k = 0; s->form && k < op->u.matmul.n_parts; k++)
			if (add_copy(s, op->u.matmul.part[k].w, e))
				return -1;
	}
	return 0;
}

/* A product by floats reads whole rows, so the layout by columns is not what it replaces. */
static void add_all_products(struct floats *s, struct forward *f, struct err *e)
{
	const float least = f->least;

	f->least = 0;
	add_products(s, f->model, forward_program_of_one(f), e);
	f->least = least;
}

int floats_open(
	struct floats **out, struct forward *f, const struct quant_form *form, struct err *e)
{
	struct floats *s = calloc(1, sizeof *s);

	*out = NULL;
	if (!s)
		return err_no_memory(e, "weights as floats");
	s->kernels = f->model->kernels;
	s->form = form;
	if (f->model->adapters)
		err_set(e, ERR_USAGE, "weights, activations: not with adapters (--lora)");
	else if (!k_is_host(s->kernels))
		err_set(e, ERR_USAGE,
			"only the CPU's kernels can set weights and activations apart (--backend cpu)");
	else
		add_all_products(s, f, e);
	s->largest = calloc((size_t)s->n_inputs + 1, sizeof *s->largest);
	if (!e->code && !s->largest)
		err_no_memory(e, "weights as floats");
	if (e->code) {
		floats_close(s);
		return -1;
	}
	s->form = NULL;
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
	assert(to == K_ROUND_int8_tensor ? n == s->n_inputs : !largest);
	if (largest)
		memcpy(s->largest, largest, (size_t)s->n_inputs * sizeof *largest);
}

enum k_round_to floats_rounding(const struct floats *s)
{
	return s->to;
}

/* ---- the program ---- */

static const struct k_matrix *copy_of(const struct floats *s, const struct k_matrix *m, int32_t *at)
{
	while (s->copy[*at].of != m)
		*at = (*at + 1) % s->n;
	return &s->copy[*at].is;
}

/* What the input of a product is rounded to; f32: it is not. */
static enum k_round_to round_of(const struct floats *s, const struct k_op *product)
{
	if (s->to != K_N_ROUNDS)
		return s->to;
	return program_wants_floats(product->u.matmul.part[0].w) ? K_ROUND_f32 : K_ROUND_int8_block;
}

static bool is_rounded(const struct floats *s, const struct k_op *op)
{
	return in_layers(op) && round_of(s, op) != K_ROUND_f32;
}

/* LLM.int8(): the model's own quantised weights are multiplied by integers, and again, as floats,
 * by the values that stayed. */
static bool by_integers(const struct floats *s, const struct k_op *product)
{
	return s->to == K_ROUND_llm_int8 && !s->n && !program_wants_floats(product->u.matmul.part[0].w);
}

static void put_round(const struct floats *s, struct k_op *to, const struct k_op *product,
	enum k_round_to round, int32_t i)
{
	*to = (struct k_op){ .kind = K_OP_round, .stage = product->stage, .layer = product->layer };
	to->u.round = (struct k_round){ .x = product->u.matmul.in.x,
		.dim = product->u.matmul.in.dim,
		.n = product->u.matmul.n,
		.to = round,
		.largest = s->largest[i] };
	if (by_integers(s, product)) {
		to->u.round.q = product->u.matmul.in.q;
		to->u.round.d = product->u.matmul.in.d;
		to->u.round.sx = product->u.matmul.in.sx;
	}
}

/* From the last op to the first, so that nothing is overwritten before it was moved. */
static void rewrite(const void *arg, struct k_program *p, int32_t rows)
{
	const struct floats *s = arg;
	const int32_t was = p->n_ops;
	int32_t n = 0, at = 0, to = was;

	(void)rows;
	for (int32_t i = 0; i < was; i++) {
		n += in_layers(&p->op[i]);
		to += is_rounded(s, &p->op[i]);
	}
	p->n_ops = to;
	for (int32_t i = was; i-- > 0;) {
		const bool mine = in_layers(&p->op[i]);
		const enum k_round_to round = mine ? round_of(s, &p->op[i]) : K_ROUND_f32;
		struct k_op *op = &p->op[--to];

		*op = p->op[i];
		n -= mine;
		if (mine && by_integers(s, op))
			op->u.matmul.above = K_OUTLIER;
		else if (mine)
			op->u.matmul.as_floats = true;
		for (int32_t k = 0; mine && s->n && k < op->u.matmul.n_parts; k++)
			op->u.matmul.part[k].w = copy_of(s, op->u.matmul.part[k].w, &at);
		if (round != K_ROUND_f32)
			put_round(s, &p->op[--to], op, round, n);
	}
}

void floats_use(struct forward *f, const struct floats *s)
{
	forward_set_rewriter(f, FORWARD_FLOATS, (struct forward_rewriter){ s ? rewrite : NULL, s });
}

/* See program.h. */
#include "engine/run/program.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct k_op *program_add(struct k_program *p, enum k_kind kind, enum k_stage stage)
{
	struct k_op *op = &p->op[p->n_ops++];

	memset(op, 0, sizeof *op);
	op->kind = kind;
	op->stage = stage;
	op->layer = p->layer;
	return op;
}

struct k_embed *program_embed(
	struct k_program *p, const struct k_matrix *w, const int32_t *ids, float *x, int32_t n)
{
	struct k_op *op = program_add(p, K_OP_embed, K_STAGE_embed);

	op->u.embed = (struct k_embed){ .w = w, .ids = ids, .x = x, .n = n };
	return &op->u.embed;
}

struct k_norm *program_norm(struct k_program *p, const float *x, const int32_t *pick,
	const float *w, float eps, struct k_acts out, int32_t n)
{
	struct k_op *op = program_add(p, K_OP_norm, K_STAGE_norm);

	op->u.norm = (struct k_norm){ .x = x, .pick = pick, .w = w, .eps = eps, .out = out, .n = n };
	return &op->u.norm;
}

struct k_matmul *program_matmul(
	struct k_program *p, enum k_stage stage, struct k_acts in, int32_t n)
{
	struct k_op *op = program_add(p, K_OP_matmul, stage);

	op->u.matmul = (struct k_matmul){ .in = in, .n = n };
	return &op->u.matmul;
}

void program_part(struct k_matmul *m, const struct k_matrix *w, const float *bias,
	const float *residual, float *out)
{
	assert(m->n_parts < K_MAX_PARTS);
	m->part[m->n_parts].w = w;
	m->part[m->n_parts].bias = bias;
	m->part[m->n_parts].residual = residual;
	m->part[m->n_parts++].out = out;
}

void program_glu(struct k_program *p, enum k_act act, const float *gate, const float *up,
	struct k_acts out, int32_t n)
{
	struct k_op *op = program_add(p, K_OP_glu, K_STAGE_act);

	op->u.glu = (struct k_glu){ .gate = gate, .up = up, .out = out, .act = act, .n = n };
}

void program_stats(
	struct k_program *p, const float *logits, int32_t vocab, int32_t n, struct k_logit_stats *out)
{
	struct k_op *op = program_add(p, K_OP_stats, K_STAGE_stats);

	op->u.stats = (struct k_stats){ .logits = logits, .vocab = vocab, .n = n, .out = out };
}

void program_ask(struct k_program *p, const struct k_draw_request *ask, struct k_draw_reply *reply,
	struct k_draw_entry *list)
{
	struct k_stats *a = &p->op[p->n_ops - 1].u.stats;

	a->ask = ask;
	a->reply = reply;
	a->list = list;
}

struct k_program program_slice(const struct k_program *p, int32_t first, int32_t end)
{
	struct k_program some = *p;

	some.op += first;
	some.n_ops = end - first;
	return some;
}

void *program_cut(struct cutter *c, size_t count, size_t size)
{
	void *p = c->base ? c->base + c->used : NULL;

	c->used += (count * size + 63) & ~(size_t)63;
	return p;
}

struct k_acts program_cut_acts(struct cutter *c, size_t rows, int32_t dim, bool x, bool q)
{
	size_t n = rows * (size_t)dim;
	struct k_acts a = { .dim = dim };

	if (x)
		CUT(c, a.x, n);
	if (q) {
		a.q = program_cut(c, n, 1);
		CUT(c, a.d, n / K_QBLOCK);
		CUT(c, a.sx, n / K_QBLOCK);
	}
	return a;
}

struct k_acts program_acts_of(struct k_acts a, int32_t dim)
{
	a.dim = dim;
	return a;
}

struct k_acts program_acts_from(struct k_acts a, int32_t row)
{
	size_t at = (size_t)row * (size_t)a.dim;

	if (a.x)
		a.x += at;
	if (a.q) {
		a.q += at;
		a.d += at / K_QBLOCK;
		a.sx += at / K_QBLOCK;
	}
	return a;
}

bool program_wants_floats(const struct k_matrix *w)
{
	return k_types[w->type].block == 1;
}

float *program_read_matrix(struct k_ctx *kernels, const struct k_matrix *m, struct err *e)
{
	int32_t *ids = malloc((size_t)m->n_rows * sizeof *ids);
	float *out = malloc((size_t)m->n_rows * (size_t)m->n_cols * sizeof *out);
	struct k_op op = { .kind = K_OP_embed };
	struct k_program p = { .op = &op, .n_ops = 1, .version = k_new_version() };

	if (!ids || !out)
		err_no_memory(e, "weights as floats");
	for (int32_t i = 0; ids && i < m->n_rows; i++)
		ids[i] = i;
	op.u.embed = (struct k_embed){ .w = m, .ids = ids, .x = out, .n = m->n_rows };
	if (e->code || k_run(kernels, &p, e)) {
		free(out);
		out = NULL;
	}
	free(ids);
	return out;
}

/* Mixtures, by rows of each expert or by experts. See split.h. */
#include "engine/ranks/split.h"

static bool is_mixture(const struct k_program *p, int32_t at)
{
	const struct k_op *op = &p->op[at];

	return at + 3 < p->n_ops && op[0].kind == K_OP_experts && !op[0].u.experts.each &&
		   op[1].kind == K_OP_experts && op[2].kind == K_OP_glu && op[3].kind == K_OP_experts &&
		   op[3].u.experts.each && op[3].u.experts.in.q == op[2].u.glu.out.q;
}

/* Rows of each expert; by_expert: those of this rank's own. */
static bool cut_experts(
	const struct splitting *s, struct k_experts *a, struct ranks_span rows, bool by_expert)
{
	const struct k_matrix *own = ranks_part_of(s->k, a->w, a->n_experts, rows, by_expert);

	a->w = own ? own : a->w;
	return own;
}

/* Biases lie expert by expert: such mixtures are split by experts, or not at all. */
static bool can_cut_experts(const struct splitting *s, const struct k_op *op, int32_t width)
{
	return width >= s->k->n * UNIT && width % UNIT == 0 && !op[0].u.experts.bias &&
		   !op[1].u.experts.bias && !op[3].u.experts.bias &&
		   op[3].u.experts.w->n_rows >= s->k->n * UNIT;
}

static void split_rows(struct splitting *s)
{
	struct k_op *op = &s->p->op[s->at];
	struct k_experts *down = &op[3].u.experts;
	const int32_t width = op[2].u.glu.out.dim, dim = down->w->n_rows;
	const struct ranks_span rows = split_span(width, UNIT, s->k->rank, s->k->n),
							outputs = split_span(dim, UNIT, s->k->rank, s->k->n);
	struct ranks_exchange *x;

	if (!can_cut_experts(s, op, width) || !cut_experts(s, &op[0].u.experts, rows, false) ||
		!cut_experts(s, &op[1].u.experts, rows, false) || !cut_experts(s, down, outputs, false))
		return;
	op[2].u.glu.out = split_acts(s, s->at + 2, op[2].u.glu.out, op[2].u.glu.n, UNIT);
	s->local = 0;
	x = split_exchange(s, s->at + 4, down->n * down->k);
	x->x = true;
	x->to = k_floats(down->out, dim);
	split_columns(s->k, x, UNIT);
	down->out = ranks_local(s->k, x).x;
	split_keep_local(s, x);
	s->at += 3;
}

/* ---- by experts ---- */

static bool own_experts(const struct splitting *s, struct k_experts *a)
{
	return cut_experts(s, a, (struct ranks_span){ 0, a->w->n_rows }, true);
}

static void split_experts(struct splitting *s)
{
	struct k_op *op = &s->p->op[s->at];
	struct k_experts *down = &op[3].u.experts;
	struct ranks_exchange *x;

	if (down->n_experts < s->k->n || !own_experts(s, &op[0].u.experts) ||
		!own_experts(s, &op[1].u.experts) || !own_experts(s, down))
		return;
	x = split_exchange(s, s->at + 4, down->n * down->k);
	x->x = true;
	x->to = k_floats(down->out, down->w->n_rows);
	x->ids = down->ids;
	x->n_experts = down->n_experts;
	s->at += 3;
}

void split_mixture(struct splitting *s)
{
	if (!is_mixture(s->p, s->at))
		return;
	if (s->k->by_expert)
		split_experts(s);
	else
		split_rows(s);
}

/* See forward.h: values that are near zero are counted, or made 0 so that their columns need not be
 * read. */
#include "engine/run/forward.h"
#include "kernels/format/columns.h"

/* The bits of a layer's inner values. */
static uint32_t *mask_of(const struct forward *f, int32_t layer)
{
	return f->observed.mask + (size_t)layer * (size_t)(f->n_rows * (f->needs.masked / 32));
}

void forward_keep_sparse(struct forward *f, struct k_acts *a, bool masked)
{
	struct forward_late *l = &f->observed.late[masked];

	if (!l->x || !f->n_observed || f->n_rows > FORWARD_LATE_ROWS || f->least != 0 ||
		f->rewriter[FORWARD_FLOATS].fn || f->program.layer < 0)
		return;
	a->x = l->x + l->used;
	l->used += (size_t)f->n_rows * (size_t)a->dim;
}

/* Whether a layer's values are the next after those of the op that waits. */
static bool follows(const struct forward_late *l, const struct k_sparse *a, int32_t layer)
{
	const struct k_sparse *of = &l->op.u.sparse;
	const size_t row = (size_t)of->n * (size_t)of->a.dim;

	return l->waits && of->a.dim == a->a.dim && layer == l->op.layer + of->layers &&
		   a->a.x == of->a.x + (size_t)of->layers * row &&
		   (!a->mask || a->mask == of->mask + (size_t)of->layers * row / 32);
}

void forward_add_late(struct forward *f)
{
	for (int masked = 0; masked < 2; masked++) {
		struct forward_late *l = &f->observed.late[masked];

		if (l->waits) {
			*program_add(&f->program, K_OP_sparse, l->op.stage) = l->op;
			l->waits = false;
		}
		l->used = 0;
	}
}

float forward_mark(float least)
{
	return least > 0 ? least : least < 0 ? 0 : FORWARD_MARK;
}

void forward_add_sparse(struct forward *f, struct k_acts a, float least, bool masked)
{
	struct forward_late *l = &f->observed.late[masked];
	const bool late = l->x && a.x >= l->x && a.x < l->x + l->used;
	const struct k_op op = { .kind = K_OP_sparse,
		.stage = masked ? K_STAGE_act : K_STAGE_attention,
		.layer = f->program.layer,
		.u.sparse = { .a = a,
			.least = least,
			.mark = forward_mark(least),
			.rows = f->rows,
			.mask = masked ? mask_of(f, f->program.layer) : NULL,
			.n = f->n_rows,
			.layers = 1 } };

	if (late && follows(l, &op.u.sparse, op.layer)) {
		l->op.u.sparse.layers++;
		return;
	}
	if (!late || l->waits)
		*program_add(&f->program, K_OP_sparse, op.stage) = late ? l->op : op;
	if (late) {
		l->op = op;
		l->waits = true;
	}
}

void forward_add_columns(struct forward *f, enum k_stage stage, struct k_acts in,
	const struct k_matrix *w, const float *residual, float *out)
{
	struct k_columns *c = &program_add(&f->program, K_OP_columns, stage)->u.columns;

	*c = k_columns_of(w);
	c->in = in;
	c->skip = f->least > 0; /* else all are exact, and so is a block of zeros beside a NaN */
	c->mask = mask_of(f, f->program.layer);
	c->residual = residual;
	c->out = out;
	c->n = f->n_rows;
}

void forward_aim_sparse(const struct forward *f, struct k_op *op)
{
	int32_t *near_zero = op->u.sparse.mask ? f->observed.inner_near : f->observed.mixed_near;

	op->u.sparse.n_observed = f->n_observed;
	op->u.sparse.near_zero = near_zero + (size_t)(op->layer * f->n_observed * K_NEAR);
}

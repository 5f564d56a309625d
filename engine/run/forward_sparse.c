/* See forward.h: values that are near zero are counted, or made 0 so that their columns need not be
 * read. */
#include "engine/run/forward.h"
#include "kernels/format/columns.h"

/* The bits of a layer's inner values. */
static uint32_t *mask_of(const struct forward *f, int32_t layer)
{
	return f->mask + (size_t)layer * (size_t)(f->n_rows * (f->needs.masked / 32));
}

void forward_add_sparse(struct forward *f, struct k_acts a, float least, bool masked)
{
	struct k_op *op =
		program_add(&f->program, K_OP_sparse, masked ? K_STAGE_act : K_STAGE_attention);

	op->u.sparse = (struct k_sparse){ .a = a,
		.least = least,
		.mark = least > 0 ? least : FORWARD_MARK,
		.rows = f->rows,
		.mask = masked ? mask_of(f, op->layer) : NULL,
		.n = f->n_rows };
}

void forward_add_columns(struct forward *f, enum k_stage stage, struct k_acts in,
	const struct k_matrix *w, const float *residual, float *out)
{
	struct k_columns *c = &program_add(&f->program, K_OP_columns, stage)->u.columns;

	*c = k_columns_of(w);
	c->in = in;
	c->skip = true;
	c->mask = mask_of(f, f->program.layer);
	c->residual = residual;
	c->out = out;
	c->n = f->n_rows;
}

void forward_aim_sparse(const struct forward *f, struct k_op *op)
{
	int32_t *near_zero = op->u.sparse.mask ? f->inner_near : f->mixed_near;

	op->u.sparse.near_zero = near_zero + (size_t)(op->layer * f->n_observed * K_NEAR);
}

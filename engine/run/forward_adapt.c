/* Adapters in the program of a step: kernels/op/adapter.h after each product that they change. A
 * step whose rows have none has the program of a model without. See forward.h. */
#include <string.h>

#include "engine/run/forward.h"

bool forward_is_adapted(const struct forward *f)
{
	for (int32_t r = 0; f->model->adapters && r < f->n_rows; r++)
		if (f->rows[r].adapter)
			return true;
	return false;
}

/* Of the matrices of a product those that adapters change. */
static int32_t adapted_parts(
	const struct forward *f, const struct k_matmul *m, struct k_adapted of[K_ADAPTED])
{
	int32_t changed = 0;

	_Static_assert((int)K_ADAPTED == (int)K_MAX_PARTS, "as of a product");
	memset(of, 0, K_ADAPTED * sizeof *of);
	for (int32_t i = 0; m->n == f->n_rows && i < m->n_parts; i++) {
		const struct k_adapted *is = adapters_of(f->model->adapters, m->part[i].w);

		of[i].width = m->part[i].w->n_rows;
		if (is) {
			of[i] = *is;
			changed++;
		}
	}
	return changed;
}

static bool is_adapted(const struct forward *f, const struct k_op *op)
{
	struct k_adapted of[K_ADAPTED];

	return op->kind == K_OP_matmul && op->layer >= 0 && adapted_parts(f, &op->u.matmul, of);
}

static struct k_op op_after(const struct k_op *product, enum k_kind kind)
{
	return (struct k_op){ .kind = kind, .stage = K_STAGE_adapter, .layer = product->layer };
}

/* The two ops after a product. */
static void put_both(const struct forward *f, const struct k_op *product, struct k_op *to)
{
	const struct k_matmul *m = &product->u.matmul;
	struct k_shrink *s = &to[0].u.shrink;
	struct k_expand *x = &to[1].u.expand;

	to[0] = op_after(product, K_OP_shrink);
	to[1] = op_after(product, K_OP_expand);
	adapted_parts(f, m, s->of);
	memcpy(x->of, s->of, sizeof x->of);
	s->in = m->in;
	s->floats = program_wants_floats(m->part[0].w);
	x->t = s->t = f->own.shrunk;
	x->n_of = s->n_of = m->n_parts;
	x->most = s->most = f->model->adapters->most;
	x->n = s->n = m->n;
	x->rows = s->rows = f->rows;
	for (int32_t i = 0; i < m->n_parts; i++)
		x->y[i] = m->part[i].out;
}

/* From the last op to the first, so that nothing is overwritten before it was moved. The norm in
 * front of such a product is read once more, so a GPU does not compute it inside the product. */
void forward_add_adapters(struct forward *f)
{
	struct k_program *p = &f->program;
	const int32_t was = p->n_ops;
	int32_t to = was;

	for (int32_t i = 0; i < was; i++)
		to += is_adapted(f, &p->op[i]) ? 2 : 0;
	p->n_ops = to;
	for (int32_t i = was; i-- > 0;) {
		const struct k_op op = p->op[i];

		if (is_adapted(f, &op)) {
			to -= 2;
			put_both(f, &op, &p->op[to]);
			if (i > 0 && p->op[i - 1].kind == K_OP_norm)
				p->op[i - 1].u.norm.kept = true;
		}
		p->op[--to] = op;
	}
}

int forward_check_adapters(struct forward *f, struct err *e)
{
	const struct adapters *a = f->model->adapters;
	const struct k_program *p;
	struct k_adapted of[K_ADAPTED];
	int32_t changed = 0;

	if (!a)
		return 0;
	p = forward_program_of_one(f);
	for (int32_t i = 0; i < p->n_ops; i++)
		if (is_adapted(f, &p->op[i]))
			changed += adapted_parts(f, &p->op[i].u.matmul, of);
	if (changed == a->n_matrices)
		return 0;
	return err_set(e, ERR_INPUT,
		"lora: %d of the %d matrices that the adapters change are in no product that adapters can "
		"change, such as the embedding, the output matrix, experts or an encoder",
		a->n_matrices - changed, a->n_matrices);
}

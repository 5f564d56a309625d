/* Zeros, one by one: by magnitude (of a whole matrix; Han et al. 2015), or by Wanda (Sun et al.
 * 2023, "A simple and effective pruning approach for large language models"): |w| times the norm of
 * its input, compared within a row. --pattern 2:4 (Mishra et al. 2021) compares within each four
 * columns. Thread: any one. */
#include <math.h>

#include "lab/prune_impl.h"

/* ---- the plan ---- */

static int choose_type(struct prune *p, struct change_tensor *t, struct err *e)
{
	const enum k_type given = p->o->to, from = t->from->type;
	const enum k_type to = given < K_N_TYPES ? given : prune_holds_zero(from) ? from : K_F16;

	if (!prune_holds_zero(to))
		return err_set(e, ERR_USAGE,
			"no weight of %s can be exactly zero, since its blocks have a minimum of their own or "
			"no zero among their values: choose another --format, such as q8_0, q4_0 or f16",
			k_types[to].name);
	t->to.type = to;
	p->r->n_converted += to != from;
	return change_check_blocks(t, "choose another --format", e);
}

static int plan_tensor(struct prune *p, struct change_tensor *t, struct err *e)
{
	const int32_t of = p->o->of;

	if (t->layer < 0 || !change_is_matrix(t->from))
		return 0;
	if (of && t->from->dim[0] % of)
		return err_set(e, ERR_USAGE, "tensor %s has rows of %lld weights, which %d do not divide",
			t->from->name, (long long)t->from->dim[0], of);
	if ((size_t)t->from->dim[0] * (2 * sizeof(float) + 1) > K_SCRATCH_BYTES)
		return err_set(e, ERR_INPUT, "tensor %s has rows of %lld weights, which is too many",
			t->from->name, (long long)t->from->dim[0]);
	t->changed = true;
	p->r->n_weights += gguf_tensor_weights(t->from);
	return choose_type(p, t, e);
}

static int plan(struct prune *p, struct err *e)
{
	const struct prune_options *o = p->o;

	if (o->of ? o->of > 64 || o->keep < 1 || o->keep >= o->of
			  : !(o->sparsity > 0 && o->sparsity < 1))
		return err_set(e, ERR_USAGE,
			"--sparsity is a share of the weights, above 0 and below 1; "
			"--pattern N:M keeps N of each M columns, of at most 64");
	for (int32_t i = 0; i < p->c->plan.n; i++)
		if (plan_tensor(p, &p->c->plan.tensor[i], e))
			return -1;
	if (!p->r->n_weights)
		return err_set(e, ERR_USAGE, "%s has no matrix in a layer", gguf_path(p->c->g));
	if (o->of)
		snprintf(p->r->what, sizeof p->r->what, "%s %d:%d", o->method->name, o->keep, o->of);
	else
		snprintf(p->r->what, sizeof p->r->what, "%s %.4g%%", o->method->name, 100 * o->sparsity);
	return 0;
}

/* ---- a matrix ---- */

struct zeros_job {
	struct layer_part *part;
	const double *squares; /* [cols] of the input; NULL: all are 1 */
	int32_t unit, least;   /* of so many columns so many become zero */
};

static void zero_row(void *arg, int64_t r, void *scratch)
{
	const struct zeros_job *j = arg;
	const int32_t cols = j->part->cols;
	float *w = j->part->w + r * cols, *score = scratch, *more = score + cols;
	bool *gone = (bool *)(more + cols);

	for (int32_t k = 0; k < cols; k++)
		score[k] = (float)(fabs((double)w[k]) * (j->squares ? sqrt(j->squares[k]) : 1));
	for (int32_t at = 0; at < cols; at += j->unit)
		prune_least(score + at, j->unit, j->least, gone + at, more);
	for (int32_t k = 0; k < cols; k++)
		w[k] = gone[k] ? 0 : w[k];
}

static int zero_rows(struct prune *p, struct layer_part *part, const double *squares)
{
	const struct prune_options *o = p->o;
	struct zeros_job j = { .part = part,
		.squares = squares,
		.unit = o->of ? o->of : part->cols,
		.least = o->of ? o->of - o->keep : (int32_t)(o->sparsity * part->cols) };

	k_deal(p->c->kernels, part->rows, zero_row, &j);
	return 0;
}

static int zero_matrix(struct prune *p, struct layer_part *part, struct err *e)
{
	const int64_t n = part->rows * part->cols;
	float *score = calloc((size_t)n * 2, sizeof *score);
	bool *gone = malloc((size_t)n * sizeof *gone);

	if (!score || !gone) {
		free(score);
		free(gone);
		return err_no_memory(e, "tensor %s", part->t->from->name);
	}
	for (int64_t i = 0; i < n; i++)
		score[i] = fabsf(part->w[i]);
	prune_least(score, n, (int64_t)(p->o->sparsity * (double)n), gone, score + n);
	for (int64_t i = 0; i < n; i++)
		part->w[i] = gone[i] ? 0 : part->w[i];
	free(score);
	free(gone);
	return 0;
}

static int by_magnitude(
	struct prune *p, struct layer_part *part, const struct quant_input *in, struct err *e)
{
	(void)in;
	return p->o->of ? zero_rows(p, part, NULL) : zero_matrix(p, part, e);
}

/* A matrix that reads none of the inputs that were collected goes by magnitude, within a row. */
static int by_wanda(
	struct prune *p, struct layer_part *part, const struct quant_input *in, struct err *e)
{
	const bool known = part->input >= 0 && in[part->input].n == part->cols;

	(void)e;
	return zero_rows(p, part, known ? in[part->input].sum_squares : NULL);
}

const struct prune_method prune_magnitude = {
	.name = "magnitude", .kind = PRUNE_ZEROS, .plan = plan, .zeros = by_magnitude
};
const struct prune_method prune_wanda = {
	.name = "wanda", .kind = PRUNE_ZEROS, .reads = true, .plan = plan, .zeros = by_wanda
};

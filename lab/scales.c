/* See scales.h. */
#include "lab/scales.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/arith.h"
#include "kernels/format/encode.h"

enum { ALPHAS = 20 };

static double power(double x, double y)
{
	return y == 0 ? 1 : x > 0 ? k_exp64(y * k_log64(x)) : 0;
}

/* ---- SmoothQuant ---- */

static float greatest_weight(
	const struct quant_reader *readers, int32_t n_readers, int32_t n, int32_t column)
{
	float most = 0;

	for (int32_t i = 0; i < n_readers; i++)
		for (int64_t r = 0; r < readers[i].rows; r++) {
			const float w = fabsf(readers[i].w[r * n + column]);

			most = w > most ? w : most;
		}
	return most;
}

void smooth_scales(const struct quant_input *in, const struct quant_reader *readers,
	int32_t n_readers, double alpha, float *s)
{
	for (int32_t j = 0; j < in->n; j++) {
		const double x = (double)in->max_abs[j],
					 w = (double)greatest_weight(readers, n_readers, in->n, j);

		s[j] = x > 0 && w > 0 ? (float)(power(x, alpha) / power(w, 1 - alpha)) : 1;
	}
}

/* ---- AWQ ---- */

/* What the output of one reader loses: the sum over its rows of d H transpose(d), d being what
 * rounding changes in a row. */
struct trial {
	const struct quant_input *in;
	const struct quant_reader *reader;
	const float *s;
	float *change, *product; /* [rows, n] */
	double *of_row;          /* [rows] */
};

static void change_task(void *arg, int64_t r, void *scratch)
{
	const struct trial *t = arg;
	const int32_t n = t->in->n;
	const float *w = t->reader->w + r * n;
	float *x = scratch, *y = x + n, *d = t->change + r * n;
	uint8_t *bytes = (uint8_t *)(y + n);

	for (int32_t j = 0; j < n; j++)
		x[j] = w[j] * t->s[j];
	form_row(t->reader->form, &(struct form_scales){ 0 }, r, x, n, bytes);
	k_decode(t->reader->form->type, bytes, n, y);
	for (int32_t j = 0; j < n; j++)
		d[j] = y[j] / t->s[j] - w[j];
}

static void sum_task(void *arg, int64_t r, void *scratch)
{
	const struct trial *t = arg;
	const int32_t n = t->in->n;
	double sum = 0;

	(void)scratch;
	for (int32_t j = 0; j < n; j++)
		sum += (double)t->change[r * n + j] * (double)t->product[r * n + j];
	t->of_row[r] = sum;
}

static int try_scales(
	struct k_ctx *kernels, struct trial *t, const struct k_matrix *h, double *error, struct err *e)
{
	struct k_op op = { .kind = K_OP_matmul,
		.u.matmul = { .in = { .x = t->change, .dim = t->in->n },
			.part = { { .w = h, .out = t->product } },
			.n_parts = 1,
			.n = (int32_t)t->reader->rows } };
	struct k_program p = { .op = &op, .n_ops = 1, .version = k_new_version() };

	k_deal(kernels, t->reader->rows, change_task, t);
	if (k_run(kernels, &p, e))
		return -1;
	k_deal(kernels, t->reader->rows, sum_task, t);
	for (int64_t r = 0; r < t->reader->rows; r++)
		*error += t->of_row[r];
	return 0;
}

/* Normalised as in the paper's code: the greatest times the least is 1. */
static void scales_of(const struct quant_input *in, double alpha, float *s)
{
	double low = INFINITY, high = 0;

	for (int32_t j = 0; j < in->n; j++) {
		double v = power(in->sum_abs[j] / (double)in->rows, alpha);

		v = v > 1e-4 ? v : 1e-4;
		low = v < low ? v : low;
		high = v > high ? v : high;
		s[j] = (float)v;
	}
	for (int32_t j = 0; j < in->n; j++)
		s[j] = (float)((double)s[j] / sqrt(low * high));
}

static int search(struct k_ctx *kernels, struct trial *t, const struct k_matrix *h,
	const struct quant_reader *readers, int32_t n_readers, float *s, struct awq_found *found,
	struct err *e)
{
	const size_t bytes = (size_t)t->in->n * sizeof *s;
	float *tried = malloc(bytes);

	if (!tried)
		return err_no_memory(e, "%d factors", t->in->n);
	found->error = INFINITY;
	t->s = tried;
	for (int i = 0; i < ALPHAS && !e->code; i++) {
		double sum = 0;

		scales_of(t->in, (double)i / ALPHAS, tried);
		for (int32_t k = 0; k < n_readers && !e->code; k++) {
			t->reader = &readers[k];
			try_scales(kernels, t, h, &sum, e);
		}
		if (!i)
			found->plain = sum;
		if (sum < found->error) {
			found->error = sum;
			found->alpha = (double)i / ALPHAS;
			memcpy(s, tried, bytes);
		}
	}
	free(tried);
	return e->code ? -1 : 0;
}

int awq_scales(struct k_ctx *kernels, const struct quant_input *in,
	const struct quant_reader *readers, int32_t n_readers, float *s, struct awq_found *found,
	struct err *e)
{
	struct k_matrix h = { .type = K_F32, .n_rows = in->n, .n_cols = in->n };
	struct trial t = { .in = in };
	int64_t most = 0;
	int rc = -1;

	for (int32_t i = 0; i < n_readers; i++)
		most = readers[i].rows > most ? readers[i].rows : most;
	t.change = malloc((size_t)(most * in->n) * sizeof *t.change);
	t.product = malloc((size_t)(most * in->n) * sizeof *t.product);
	t.of_row = malloc((size_t)most * sizeof *t.of_row);
	h.data = k_alloc(kernels, k_packed_bytes(kernels, K_F32, in->n, in->n), K_WORK,
		"a Hessian; try fewer threads", e);
	if (h.data && t.change && t.product && t.of_row) {
		k_pack(kernels, &h, in->hessian);
		rc = search(kernels, &t, &h, readers, n_readers, s, found, e);
	} else {
		err_no_memory(e, "the outputs of %lld rows", (long long)most);
	}
	k_free(kernels, h.data);
	free(t.change);
	free(t.product);
	free(t.of_row);
	return rc;
}

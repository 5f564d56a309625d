/* See gptq.h. All sums are in double and in an order that threads do not change. */
#include "lab/gptq.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/format/encode.h"

enum {
	PANEL = 32, /* rows of the factor that are subtracted from the others at once */
	ROWS = 16,  /* of a matrix that a thread rounds side by side, so that the factor is read once */
	TRIES = 24, /* doublings of the damping */
};

/* ---- the factor ---- */

struct panel {
	double *a; /* [n, n] */
	int32_t n, first, end;
};

/* Subtracts the panel's rows from row i, right of the diagonal. */
static void subtract(const struct panel *p, int32_t i, int32_t from, int32_t to)
{
	double *row = p->a + (size_t)i * (size_t)p->n;

	for (int32_t k = from; k < to; k++) {
		const double *u = p->a + (size_t)k * (size_t)p->n;
		const double f = u[i];

		for (int32_t j = i; j < p->n; j++)
			row[j] -= f * u[j];
	}
}

static void subtract_task(void *arg, int64_t i, void *scratch)
{
	const struct panel *p = arg;

	(void)scratch;
	subtract(p, p->end + (int32_t)i, p->first, p->end);
}

/* Cholesky: a = transpose(u) u; u takes the upper triangle's place. False: a is not positive. */
static bool factorise(struct k_ctx *kernels, double *a, int32_t n)
{
	for (int32_t at = 0; at < n; at += PANEL) {
		struct panel p = { a, n, at, at + PANEL < n ? at + PANEL : n };

		for (int32_t i = at; i < p.end; i++) {
			double *row = a + (size_t)i * (size_t)n, d;

			subtract(&p, i, at, i);
			if (!(row[i] > 0) || !isfinite(row[i]))
				return false;
			d = sqrt(row[i]);
			for (int32_t j = i; j < n; j++)
				row[j] /= d;
		}
		k_deal(kernels, n - p.end, subtract_task, &p);
	}
	return true;
}

struct inverting {
	const double *r; /* [n, n] upper */
	double *u;       /* [n, n] its inverse */
	int32_t n;
};

/* Row i of the inverse, of which what is left of the diagonal is 0. */
static void invert_task(void *arg, int64_t at, void *scratch)
{
	const struct inverting *v = arg;
	const int32_t n = v->n, i = (int32_t)at;
	double *row = v->u + (size_t)i * (size_t)n;

	(void)scratch;
	memset(row, 0, (size_t)n * sizeof *row);
	row[i] = 1;
	for (int32_t k = i; k < n; k++) {
		const double *r = v->r + (size_t)k * (size_t)n, f = row[k] / r[k];

		row[k] = f;
		for (int32_t j = k + 1; j < n; j++)
			row[j] -= f * r[j];
	}
}

/* H in the order of rounding, backwards (H = R transpose(R) with R upper is Cholesky from the last
 * row on), damped. */
static void load(const struct gptq *g, const float *h, double damping, double *a)
{
	const int32_t n = g->n;
	double mean = 0;

	for (int32_t i = 0; i < n; i++)
		mean += g->dead[i] ? 1 : (double)h[(size_t)i * (size_t)n + (size_t)i];
	mean /= n;
	for (int32_t i = 0; i < n; i++)
		for (int32_t j = i; j < n; j++) {
			const int32_t p = g->order[n - 1 - i], q = g->order[n - 1 - j];
			double v = (double)h[(size_t)p * (size_t)n + (size_t)q];

			if (i == j)
				v = (g->dead[p] ? 1 : v) + damping * mean;
			a[(size_t)i * (size_t)n + (size_t)j] = v;
		}
}

/* R from the factor of the reversed matrix: both triangles' orders turn round. */
static void turn(const double *a, double *r, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		for (int32_t j = i; j < n; j++)
			r[(size_t)i * (size_t)n + (size_t)j] =
				a[(size_t)(n - 1 - j) * (size_t)n + (size_t)(n - 1 - i)];
}

static int fill(struct gptq *g, const float *h, double damping, struct err *e)
{
	const size_t bytes = (size_t)g->n * (size_t)g->n * sizeof *g->u;
	double *r = malloc(bytes);
	int tries = 0;

	if (!r)
		return err_no_memory(e, "a Hessian of %d columns", g->n);
	load(g, h, damping, g->u);
	while (!factorise(g->kernels, g->u, g->n) && tries++ < TRIES) {
		damping = damping > 0 ? 2 * damping : 1e-6;
		load(g, h, damping, g->u);
	}
	turn(g->u, r, g->n);
	k_deal(g->kernels, g->n, invert_task, &(struct inverting){ r, g->u, g->n });
	free(r);
	return tries <= TRIES ? 0
						  : err_set(e, ERR_INPUT,
								"the inputs of a matrix are not finite, or too alike: try another "
								"calibration text, or a larger --damping");
}

struct by_input {
	double size;
	int32_t column;
};

static int compare_inputs(const void *a, const void *b)
{
	const struct by_input *x = a, *y = b;

	return x->size != y->size ? (x->size < y->size) - (x->size > y->size) : x->column - y->column;
}

static int order_columns(struct gptq *g, const float *h, bool act_order, struct err *e)
{
	struct by_input *by = malloc((size_t)g->n * sizeof *by);

	if (!by)
		return err_no_memory(e, "%d columns", g->n);
	for (int32_t i = 0; i < g->n; i++) {
		by[i] = (struct by_input){ (double)h[(size_t)i * (size_t)g->n + (size_t)i], i };
		g->dead[i] = !(by[i].size > 0);
	}
	if (act_order)
		qsort(by, (size_t)g->n, sizeof *by, compare_inputs);
	for (int32_t i = 0; i < g->n; i++)
		g->order[i] = by[i].column;
	free(by);
	return 0;
}

int gptq_open(struct gptq *g, struct k_ctx *kernels, const float *h, int32_t n, double damping,
	bool act_order, struct err *e)
{
	*g = (struct gptq){ .n = n,
		.kernels = kernels,
		.u = malloc((size_t)n * (size_t)n * sizeof *g->u),
		.order = malloc((size_t)n * sizeof *g->order),
		.dead = calloc((size_t)n, sizeof *g->dead) };
	if (!g->u || !g->order || !g->dead)
		err_no_memory(e, "a Hessian of %d columns", n);
	if (!e->code && !order_columns(g, h, act_order, e) && !fill(g, h, damping, e))
		return 0;
	gptq_close(g);
	return -1;
}

void gptq_close(struct gptq *g)
{
	free(g->u);
	free(g->order);
	free(g->dead);
}

/* ---- rounding ---- */

struct rounding {
	const struct gptq *g;
	const struct quant_form *f;
	const struct form_scales *s;
	const float *w;
	int64_t rows;
	uint8_t *out;
	size_t row_bytes;
	int32_t unit, units; /* columns; of a row */
	bool ordered;        /* columns go out of their order: units are fitted beforehand */
};

/* One row while it is rounded: its weights in the order of rounding, and its units. */
struct row {
	double *w;
	struct form_unit *unit;
	uint8_t *out;
	int64_t nth;
};

static void fit_unit(const struct rounding *r, struct row *row, int32_t at, const float *x)
{
	const int32_t i = at / r->unit;
	struct form_unit *u = &row->unit[i];

	u->block = row->out + (size_t)i * (size_t)k_types[r->f->type].block_bytes;
	if (r->s->n)
		*u = r->s->unit[r->s->n == 1 ? 0 : row->nth * r->units + i];
	else
		form_fit(r->f, u, x, r->g->n - at < r->unit ? r->g->n - at : r->unit);
}

static void begin_row(const struct rounding *r, struct row *row, float *x)
{
	const float *w = r->w + (size_t)row->nth * (size_t)r->g->n;

	for (int32_t j = 0; j < r->g->n; j++) {
		const int32_t c = r->g->order[j];

		row->w[j] = r->g->dead[c] ? 0 : (double)w[c];
		x[c] = (float)row->w[j];
	}
	for (int32_t at = 0; r->ordered && at < r->g->n; at += r->unit)
		fit_unit(r, row, at, x + at);
}

/* Rounds the j-th column of the order, and moves its error to those after it. */
static void round_column(const struct rounding *r, struct row *row, int32_t j, float *x)
{
	const int32_t c = r->g->order[j], bytes = k_types[r->f->type].block_bytes;
	const double *u = r->g->u + (size_t)j * (size_t)r->g->n;
	float value;
	double error;

	if (!r->ordered && c % r->unit == 0) {
		for (int32_t k = 0; k < r->unit && j + k < r->g->n; k++)
			x[k] = (float)row->w[j + k];
		fit_unit(r, row, c, x);
	}
	value = form_round(r->f, &row->unit[c / r->unit], c % r->unit, (float)row->w[j]);
	if (r->f->bits)
		k_encode(r->f->type, &value, 1, row->out + (size_t)c * (size_t)bytes);
	error = (row->w[j] - (double)value) / u[j];
	for (int32_t k = j + 1; k < r->g->n; k++)
		row->w[k] -= error * u[k];
}

static void round_task(void *arg, int64_t i, void *scratch)
{
	const struct rounding *r = arg;
	const int64_t first = i * ROWS, end = first + ROWS < r->rows ? first + ROWS : r->rows;
	const size_t n = (size_t)r->g->n;
	double *w = scratch;
	struct form_unit *unit = (struct form_unit *)(void *)(w + ROWS * n);
	float *x = (float *)(void *)(unit + ROWS * r->units);
	struct row row[ROWS];

	for (int64_t k = 0; k < end - first; k++) {
		row[k] = (struct row){ w + (size_t)k * n, unit + k * r->units,
			r->out + (size_t)(first + k) * r->row_bytes, first + k };
		begin_row(r, &row[k], x);
	}
	for (int32_t j = 0; j < r->g->n; j++)
		for (int64_t k = 0; k < end - first; k++)
			round_column(r, &row[k], j, x);
}

int gptq_round(const struct gptq *g, const struct quant_form *f, const struct form_scales *s,
	const float *w, int64_t rows, uint8_t *out, struct err *e)
{
	struct rounding r = { .g = g, .f = f, .s = s, .w = w, .rows = rows, .out = out };

	r.unit = form_unit(f, g->n);
	r.units = form_units(r.unit, g->n);
	r.row_bytes = (size_t)(g->n / k_types[f->type].block) * (size_t)k_types[f->type].block_bytes;
	for (int32_t j = 0; j < g->n; j++)
		r.ordered |= g->order[j] != j;
	if ((size_t)g->n * (ROWS * (sizeof *g->u + sizeof(struct form_unit)) + sizeof(float)) >
		K_SCRATCH_BYTES)
		return err_set(e, ERR_INPUT, "a matrix of %d columns is too wide for GPTQ", g->n);
	k_deal(g->kernels, (rows + ROWS - 1) / ROWS, round_task, &r);
	return 0;
}

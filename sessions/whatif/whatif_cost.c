/* The cost of a step: least squares over the recorded ones, twice, the second time without outliers
 * (other load on the machine). A model of four numbers, fitted to this session alone and valid
 * within it; its error is reported. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sessions/whatif/whatif_impl.h"

enum { N = 4, FEW = 12 };

static void features(double rows, double prefill, double kv, double x[N])
{
	x[0] = 1;
	x[1] = rows;
	x[2] = prefill;
	x[3] = kv;
}

/* Gaussian elimination with pivots; columns without information get 0. */
static void solve(double a[N][N + 1], double out[N])
{
	for (int c = 0; c < N; c++) {
		int best = c;

		for (int r = c + 1; r < N; r++)
			if (fabs(a[r][c]) > fabs(a[best][c]))
				best = r;
		for (int k = 0; k <= N; k++) {
			double swap = a[c][k];
			a[c][k] = a[best][k];
			a[best][k] = swap;
		}
		for (int r = 0; r < N; r++) {
			double f = r == c || fabs(a[c][c]) < 1e-9 ? 0 : a[r][c] / a[c][c];
			for (int k = c; k <= N; k++)
				a[r][k] -= f * a[c][k];
		}
	}
	for (int c = 0; c < N; c++)
		out[c] = fabs(a[c][c]) < 1e-9 ? 0 : a[c][N] / a[c][c];
}

/* Fits the rows whose error is at most `most` times the prediction. Minimises relative errors, so
 * that short steps count as much as long ones. */
static void fit(struct cost *c, const struct recorded *r, double most)
{
	double a[N][N + 1], x[N];
	const struct cost before = *c;

	memset(a, 0, sizeof a);
	for (int32_t i = 0; i < r->n_cost; i++) {
		const struct cost_row *row = &r->cost[i];
		double y = row->ns, p = cost_of(&before, row->rows, row->prefill, row->kv), w;

		if (!(y > 0) || (most > 0 && fabs(y - p) > most * p))
			continue;
		w = 1 / (y * y);
		features(row->rows, row->prefill, row->kv, x);
		for (int j = 0; j < N; j++) {
			for (int k = 0; k < N; k++)
				a[j][k] += w * x[j] * x[k];
			a[j][N] += w * x[j] * y;
		}
	}
	for (int j = 0; j < N; j++) { /* scales all columns alike, for the choice of pivots */
		double d = a[j][j] > 0 ? 1 / a[j][j] : 0;
		for (int k = 0; k <= N; k++)
			a[j][k] *= d;
	}
	solve(a, c->k);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, int32_t n)
{
	qsort(v, (size_t)n, sizeof *v, by_value);
	return n ? v[n / 2] : 0;
}

double cost_of(const struct cost *c, double rows, double prefill, double kv)
{
	double x[N], sum = 0;

	features(rows, prefill, kv, x);
	for (int i = 0; i < N; i++)
		sum += c->k[i] * x[i];
	return sum > c->least ? sum : c->least;
}

void cost_fit(struct cost *c, const struct recorded *r, struct whatif *out)
{
	double *v = malloc(((size_t)r->n_cost + 1) * sizeof *v), sum = 0, predicted = 0;
	int32_t n = 0;

	memset(c, 0, sizeof *c);
	if (!v)
		return;
	for (int32_t i = 0; i < r->n_cost; i++)
		if (r->cost[i].ns > 0)
			v[n++] = r->cost[i].ns;
	c->k[0] = median(v, n);
	if (n >= FEW) {
		c->least = v[0];
		fit(c, r, 0);
		fit(c, r, 1);
		fit(c, r, 0.5);
	}
	n = 0;
	for (int32_t i = 0; i < r->n_cost; i++) {
		double p = cost_of(c, r->cost[i].rows, r->cost[i].prefill, r->cost[i].kv);

		if (r->cost[i].ns > 0)
			v[n++] = fabs(p / r->cost[i].ns - 1);
		sum += r->cost[i].ns;
		predicted += p;
	}
	out->predicted = predicted * 1e-9;
	out->step_error = median(v, n);
	out->time_error = sum > 0 ? predicted / sum - 1 : 0;
	free(v);
}

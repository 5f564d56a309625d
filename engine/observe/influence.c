/* See importance.h. */
#include "engine/observe/influence.h"

#include <math.h>
#include <stddef.h>

double influence_sum(const float *before, const float *after, int64_t rows, int32_t dim)
{
	double sum = 0;

	for (int64_t r = 0; r < rows; r++) {
		const float *x = before + r * dim, *y = after + r * dim;
		double xy = 0, xx = 0, yy = 0;

		for (int32_t i = 0; i < dim; i++) {
			xy += (double)x[i] * (double)y[i];
			xx += (double)x[i] * (double)x[i];
			yy += (double)y[i] * (double)y[i];
		}
		sum += xx > 0 && yy > 0 ? 1 - xy / sqrt(xx * yy) : xx > 0 || yy > 0;
	}
	return sum;
}

double columns_importance(const float *w, int64_t rows, int32_t cols, int32_t at, int32_t n,
	const float *h, int32_t stride)
{
	double sum = 0;

	for (int64_t r = 0; r < rows; r++) {
		const float *x = w + r * cols + at;

		for (int32_t i = 0; i < n; i++) {
			const float *row = h + (size_t)i * (size_t)stride;
			float of_row = 0;

			for (int32_t j = 0; j < n; j++)
				of_row += row[j] * x[j];
			sum += (double)x[i] * (double)of_row;
		}
	}
	return sum;
}

/* Layer norm (Ba et al. 2016): the row minus its mean, over its standard deviation, times w, plus b
 * (rule 7). A unit is a row. */
#pragma once

#include "kernels/op/gated.h"

struct k_centre {
	const float *x;      /* [.., out.dim] */
	const int32_t *pick; /* [n] rows of x; NULL: the first n */
	const float *w, *b;  /* [out.dim]; b NULL: none */
	float eps;
	struct k_acts out; /* [n, dim] */
	int32_t n;
};
#define K_INPUTS_centre(PLAIN, a) PLAIN(a->pick, a->n)
K_COUNT(centre, a->n, a->out.dim, 8, 7)
K_RESULT(centre, a->out)
K_UNITS(centre, a->n)

K_UNIT_FN void k_centre_unit(const struct k_centre *a, int64_t unit)
{
	const int32_t dim = a->out.dim, row = a->pick ? a->pick[unit] : (int32_t)unit;
	const float *x = a->x + (size_t)row * (size_t)dim;
	const struct k_gated_group g = { x, NULL, 1 };
	const float mean = k_row_sum(NULL, &g, dim, false, 0) / (float)dim;
	const float r = 1.0f / sqrtf(k_row_sum(NULL, &g, dim, true, mean) / (float)dim + a->eps);

	K_WARPS(b, k_pieces(dim, 32)) {
		const int32_t at = b * 32, count = k_min(dim - at, 32);
		float y[K_OWN];

		K_LANES(c, count) {
			const int32_t i = at + c;

			y[K_AT(c)] = (x[i] - mean) * r * a->w[i] + (a->b ? a->b[i] : 0.0f);
		}
		k_put(&a->out, (int32_t)unit, at, y, count);
	}
}

/* Features of queries and keys whose product is Taylor's beginning of exp (BASED: Arora et al.
 * 2024, section 4.1): with s = (factor x)'(factor y), f(x)'f(y) = 1 + s + s^2 / 2. Of each head, in
 * this order: 1; t = factor x; t_i t_i / sqrt 2 and then t_i t_j for j > i, i by i. A unit is a
 * head of a row. */
#pragma once

#include "kernels/op/op.h"

enum { K_TAYLOR_DIM = 32 }; /* most of a head */

struct k_taylor {
	const float *x; /* [n, heads, dim] */
	float *out;     /* [n, heads, k_taylor_features(dim)] */
	float factor;
	int32_t dim, heads, n;
};
#define K_INPUTS_taylor(PLAIN, a)

K_INLINE int32_t k_taylor_features(int32_t dim)
{
	return 1 + dim + dim * (dim + 1) / 2;
}

K_COUNT(taylor, a->n, a->heads *k_taylor_features(a->dim), 4, 2)
K_RESULT(taylor, k_floats(a->out, a->heads *k_taylor_features(a->dim)))
K_UNITS(taylor, (int64_t)a->n * a->heads)

K_UNIT_FN void k_taylor_unit(const struct k_taylor *a, int64_t unit)
{
	const float *x = a->x + (size_t)unit * (size_t)a->dim;
	float *out = a->out + (size_t)unit * (size_t)k_taylor_features(a->dim);

	K_LANES(j, a->dim) {
		const float t = a->factor * x[j];
		float *to = out + 1 + a->dim + j; /* column j of a triangle; row i begins with column i */

		if (j == 0)
			out[0] = 1;
		out[1 + j] = t;
		for (int32_t i = 0; i < j; i++, to += a->dim - i)
			*to = (a->factor * x[i]) * t;
		*to = (t * t) * 0x1.6a09e6p-1f; /* 1 / sqrt 2 */
	}
}

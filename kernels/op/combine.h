/* Adds the weighted results of a row's experts, and of one that all rows share, to the residual
 * stream (rule 17). */
#pragma once

#include "kernels/op/op.h"

struct k_combine {
	const float *y;       /* [n, k, dim] */
	const float *weights; /* [n, k] */
	const float *shared;  /* [n, dim] or NULL */
	const float *gate;    /* [n] logits of its weight; NULL: that is 1 */
	float *x;             /* [n, dim], added to */
	float scale;          /* factor of the sum; 0: none */
	int32_t dim, k, n;
};
#define K_INPUTS_combine(PLAIN, a)
K_COUNT(combine, a->n * a->k, a->dim, 4, 2)
K_RESULT(combine, k_floats(a->x, a->dim))

K_INLINE float k_combine_value(const struct k_combine *a, int32_t r, int32_t i)
{
	const size_t at = k_index(r, a->dim, i);
	const float weight = a->gate ? k_sigmoid(a->gate[r]) : 1.0f;
	float sum = 0;

	for (int32_t s = 0; s < a->k; s++) {
		const size_t slot = k_index(r, a->k, s);

		sum = k_fma(a->weights[slot], a->y[slot * (size_t)a->dim + (size_t)i], sum);
	}
	if (a->shared)
		sum = k_fma(weight, a->shared[at], sum);
	return k_fma(a->scale != 0 ? a->scale : 1.0f, sum, a->x[at]);
}
K_VALUE_UNITS(combine, a->n, a->dim)

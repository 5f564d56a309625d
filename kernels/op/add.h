/* Adds what a block gave to a stream, times a factor: x = fmaf(scale, y, x). */
#pragma once

#include "kernels/op/op.h"

struct k_add {
	const float *y; /* [n, dim] */
	float *x;       /* [n, dim] */
	float scale;
	int32_t dim, n;
};
#define K_INPUTS_add(PLAIN, a)
K_COUNT(add, a->n, a->dim, 12, 2)
K_RESULT(add, k_floats(a->x, a->dim))

K_INLINE float k_add_value(const struct k_add *a, int32_t r, int32_t i)
{
	const size_t at = k_index(r, a->dim, i);

	return k_fma(a->scale, a->y[at], a->x[at]);
}
K_VALUE_UNITS(add, a->n, a->dim)

/* Adds what a block gave to a stream, times a factor: x = fmaf(scale, y, x). A unit is 32 columns
 * of a row. */
#ifndef CUTAWAY_KERNELS_OP_ADD_H
#define CUTAWAY_KERNELS_OP_ADD_H

#include "kernels/op/op.h"

struct k_add {
	const float *y; /* [n, dim] */
	float *x;       /* [n, dim] */
	float scale;
	int32_t dim, n;
};
#define K_ADD_INPUTS(PLAIN, a)

K_INLINE struct k_count k_add_count(const struct k_add *a)
{
	return k_count_values(a->n, a->dim, 12, 2);
}

K_INLINE struct k_acts k_add_result(const struct k_add *a)
{
	return k_floats(a->x, a->dim);
}

K_INLINE int64_t k_add_units(const struct k_add *a)
{
	return (int64_t)a->n * ((a->dim + 31) / 32);
}

K_INLINE void k_add_unit(const struct k_add *a, int64_t unit)
{
	const int32_t blocks = (a->dim + 31) / 32, first = (int32_t)(unit % blocks) * 32,
				  end = first + 32 < a->dim ? first + 32 : a->dim;
	const size_t row = (size_t)(unit / blocks) * (size_t)a->dim;

	for (int32_t i = first; i < end; i++)
		a->x[row + (size_t)i] = k_fma(a->scale, a->y[row + (size_t)i], a->x[row + (size_t)i]);
}

#endif

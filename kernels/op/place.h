/* Learned positions (Radford et al. 2019): adds to a row of the stream the row of its position. A
 * unit is a row. */
#ifndef CUTAWAY_KERNELS_OP_PLACE_H
#define CUTAWAY_KERNELS_OP_PLACE_H

#include "kernels/op/op.h"

struct k_place {
	const float *table; /* [positions, dim] */
	float *x;           /* [n, dim] */
	int32_t dim, n;
	const struct k_row *rows; /* [n] */
};
#define K_PLACE_INPUTS(PLAIN, a) PLAIN(a->rows, a->n)

K_INLINE struct k_count k_place_count(const struct k_place *a)
{
	return k_count_values(a->n, a->dim, 12, 1);
}

K_INLINE struct k_acts k_place_result(const struct k_place *a)
{
	return k_floats(a->x, a->dim);
}

K_INLINE int64_t k_place_units(const struct k_place *a)
{
	return a->n;
}

K_INLINE void k_place_unit(const struct k_place *a, int64_t unit)
{
	const float *from = a->table + (size_t)a->rows[unit].pos * (size_t)a->dim;
	float *x = a->x + (size_t)unit * (size_t)a->dim;

	for (int32_t i = 0; i < a->dim; i++)
		x[i] += from[i];
}

#endif

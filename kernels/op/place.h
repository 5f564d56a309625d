/* Learned positions (Radford et al. 2019): adds to a row of the stream the row of its position. */
#pragma once

#include "kernels/op/op.h"

struct k_place {
	const float *table; /* [positions, dim] */
	float *x;           /* [n, dim] */
	int32_t dim, n;
	const struct k_row *rows; /* [n] */
};
#define K_INPUTS_place(PLAIN, a) PLAIN(a->rows, a->n)
K_COUNT(place, a->n, a->dim, 12, 1)
K_RESULT(place, k_floats(a->x, a->dim))

K_INLINE float k_place_value(const struct k_place *a, int32_t r, int32_t i)
{
	return a->x[k_index(r, a->dim, i)] + a->table[k_index(a->rows[r].pos, a->dim, i)];
}
K_VALUE_UNITS(place, a->n, a->dim)

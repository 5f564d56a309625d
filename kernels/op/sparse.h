/* Which of a row's activations matter (Liu et al. 2023, "Deja Vu"; Lee et al. 2024, "CATS"): those
 * of at least a share of the row's largest. Smaller ones become 0 where `least` says so, so that a
 * product by columns need not read their columns; without, they are only counted. A unit is a
 * row. Vectors of 8 have a kernel of their own for it. */
#ifndef CUTAWAY_KERNELS_OP_SPARSE_H
#define CUTAWAY_KERNELS_OP_SPARSE_H

#include "kernels/op/op.h"

enum { K_NEAR = 4 }; /* thresholds that are counted: a tenth to a ten-thousandth of the largest */

struct k_sparse {
	struct k_acts a;          /* [n, dim], x filled; where least > 0 written again in its forms */
	float least;              /* share of a row's largest below which a value becomes 0 */
	float mark;               /* share from which a bit of `mask` is set */
	const struct k_row *rows; /* [n]; with observe < 0 nothing is counted */
	uint32_t *mask;           /* [n, dim / 32] bit i % 32: value i counts; NULL: not wanted */
	int32_t *near_zero; /* [n_observed, K_NEAR] values below 10^-1, 10^-2 … of the largest */
	int32_t n;
};
#define K_SPARSE_INPUTS(PLAIN, a) PLAIN(a->rows, a->n)

K_INLINE struct k_count k_sparse_count(const struct k_sparse *a)
{
	return k_count_values(a->n, a->a.dim, 8, 4);
}

K_INLINE struct k_acts k_sparse_result(const struct k_sparse *a)
{
	return a->a;
}

K_INLINE int64_t k_sparse_units(const struct k_sparse *a)
{
	return a->n;
}

K_INLINE float k_near_share(int k)
{
	const float share[K_NEAR] = { 1e-1f, 1e-2f, 1e-3f, 1e-4f };

	return share[k];
}

K_INLINE void k_count_near_zero(const float *x, int32_t n, float largest, int32_t count[K_NEAR])
{
	for (int k = 0; k < K_NEAR; k++) {
		const float least = k_near_share(k) * largest;

		count[k] = 0;
		for (int32_t i = 0; i < n; i++)
			count[k] += k_float(k_bits(x[i]) & 0x7fffffffu) < least;
	}
}

K_UNIT_FN void k_sparse_unit(const struct k_sparse *a, int64_t unit)
{
	const int32_t dim = a->a.dim, r = (int32_t)unit, observe = a->rows[r].observe;
	float *x = a->a.x + (size_t)r * (size_t)dim;
	uint32_t *mask = a->mask ? a->mask + (size_t)r * (size_t)(dim / 32) : (uint32_t *)0;
	float largest;

	if (!(a->least > 0) && observe < 0)
		return;
	largest = k_largest(x, dim);
	if (observe >= 0)
		k_count_near_zero(x, dim, largest, a->near_zero + (size_t)observe * K_NEAR);
	for (int32_t at = 0; at < dim; at += 32) {
		uint32_t bits = 0;

		for (int32_t i = 0; i < 32; i++) {
			const float size = k_float(k_bits(x[at + i]) & 0x7fffffffu);

			bits |= (uint32_t) !(size < a->mark * largest) << i;
			if (size < a->least * largest)
				x[at + i] = 0;
		}
		if (mask)
			mask[at / 32] = bits;
		if (a->least > 0)
			k_put(&a->a, r, at, x + at, 32);
	}
}

#endif

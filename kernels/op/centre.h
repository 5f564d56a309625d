/* Layer norm (Ba et al. 2016): the row minus its mean, over its standard deviation, times w, plus b
 * (rule 7). A unit is a row. */
#ifndef CUTAWAY_KERNELS_OP_CENTRE_H
#define CUTAWAY_KERNELS_OP_CENTRE_H

#include "kernels/op/op.h"

struct k_centre {
	const float *x;      /* [.., out.dim] */
	const int32_t *pick; /* [n] rows of x; NULL: the first n */
	const float *w, *b;  /* [out.dim]; b NULL: none */
	float eps;
	struct k_acts out; /* [n, dim] */
	int32_t n;
};
#define K_CENTRE_INPUTS(PLAIN, a) PLAIN(a->pick, a->n)

enum { K_CENTRE_LANES = 32 };

K_INLINE struct k_count k_centre_count(const struct k_centre *a)
{
	return k_count_values(a->n, a->out.dim, 8, 7);
}

K_INLINE struct k_acts k_centre_result(const struct k_centre *a)
{
	return a->out;
}

K_INLINE int64_t k_centre_units(const struct k_centre *a)
{
	return a->n;
}

K_INLINE void k_centre_unit(const struct k_centre *a, int64_t unit)
{
	const int32_t dim = a->out.dim, row = a->pick ? a->pick[unit] : (int32_t)unit;
	const float *x = a->x + (size_t)row * (size_t)dim;
	float lane[K_CENTRE_LANES] = { 0 }, mean, r, y[K_QBLOCK];

	for (int32_t i = 0; i < dim; i++)
		lane[i % K_CENTRE_LANES] += x[i];
	mean = k_tree_sum(lane, K_CENTRE_LANES) / (float)dim;
	for (int32_t i = 0; i < K_CENTRE_LANES; i++)
		lane[i] = 0;
	for (int32_t i = 0; i < dim; i++)
		lane[i % K_CENTRE_LANES] = k_fma(x[i] - mean, x[i] - mean, lane[i % K_CENTRE_LANES]);
	r = 1.0f / sqrtf(k_tree_sum(lane, K_CENTRE_LANES) / (float)dim + a->eps);
	for (int32_t i = 0; i < dim; i += K_QBLOCK) {
		const int32_t n = dim - i < K_QBLOCK ? dim - i : K_QBLOCK;

		for (int32_t k = 0; k < n; k++)
			y[k] = (x[i + k] - mean) * r * a->w[i + k] + (a->b ? a->b[i + k] : 0.0f);
		k_put(&a->out, (int32_t)unit, i, y, n);
	}
}

#endif

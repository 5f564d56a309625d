/* What follows the state matrices of RWKV-7 (Peng et al. 2025, section 4): a layer norm of each
 * head (rule 7), plus the row's own value by the sum of q k weight, times a gate. A unit is a row.
 */
#ifndef CUTAWAY_KERNELS_OP_BONUS_H
#define CUTAWAY_KERNELS_OP_BONUS_H

#include "kernels/op/op.h"

struct k_bonus {
	const float *x, *q, *k, *v, *gate; /* [n, heads, size] */
	const float *w, *b, *weight;       /* [heads, size]: the norm's two, the sum's */
	float eps;
	int32_t heads, size, n;
	struct k_acts out; /* [n, heads * size] */
};
#define K_BONUS_INPUTS(PLAIN, a)

K_INLINE struct k_count k_bonus_count(const struct k_bonus *a)
{
	return k_count_values(a->n, a->out.dim, 24, 14);
}

K_INLINE struct k_acts k_bonus_result(const struct k_bonus *a)
{
	return a->out;
}

K_INLINE int64_t k_bonus_units(const struct k_bonus *a)
{
	return a->n;
}

/* Of a head: mean and scale of its norm, and the factor of its value. */
struct k_bonus_head {
	float mean, scale, own;
};

K_INLINE float k_bonus_mean(const float *x, int32_t size)
{
	float lane[32] = { 0 };

	for (int32_t i = 0; i < size; i++)
		lane[i % 32] += x[i];
	return k_tree_sum(lane, 32) / (float)size;
}

/* at: of the head in x, q, k; column: in the weights. */
K_INLINE struct k_bonus_head k_bonus_head(const struct k_bonus *a, size_t at, size_t column)
{
	const float *x = a->x + at, *q = a->q + at, *k = a->k + at, *weight = a->weight + column;
	float lane[32] = { 0 }, own[32] = { 0 };
	struct k_bonus_head h;

	h.mean = k_bonus_mean(x, a->size);
	for (int32_t i = 0; i < a->size; i++) {
		lane[i % 32] = k_fma(x[i] - h.mean, x[i] - h.mean, lane[i % 32]);
		own[i % 32] = k_fma(q[i] * k[i], weight[i], own[i % 32]);
	}
	h.scale = 1.0f / sqrtf(k_tree_sum(lane, 32) / (float)a->size + a->eps);
	h.own = k_tree_sum(own, 32);
	return h;
}

K_INLINE void k_bonus_unit(const struct k_bonus *a, int64_t unit)
{
	const int32_t dim = a->out.dim;
	const size_t row = (size_t)unit * (size_t)dim;
	struct k_bonus_head h = { 0 };
	float y[K_QBLOCK];

	for (int32_t i = 0, n = 0; i < dim; i++) {
		const size_t at = row + (size_t)i;

		if (i % a->size == 0)
			h = k_bonus_head(a, at, (size_t)i);
		y[n] = (a->x[at] - h.mean) * h.scale * a->w[i] + a->b[i];
		y[n] = k_fma(h.own, a->v[at], y[n]) * a->gate[at];
		if (++n < K_QBLOCK && i + 1 < dim)
			continue;
		k_put(&a->out, (int32_t)unit, i + 1 - n, y, n);
		n = 0;
	}
}

#endif

/* The router of a mixture of experts (Shazeer et al. 2017; Jiang et al. 2024, section 2.1; rule
 * 17): the k experts of greatest logit, ties to the lowest id, and their weights, the softmax over
 * those k. A unit is a row. */
#ifndef CUTAWAY_KERNELS_OP_ROUTE_H
#define CUTAWAY_KERNELS_OP_ROUTE_H

#include "kernels/op/op.h"

struct k_route {
	const float *logits; /* [n, n_experts] */
	int32_t *ids;        /* [n, k] ascending */
	float *weights;      /* [n, k] */
	int32_t n_experts, k, n;
};
#define K_ROUTE_INPUTS(PLAIN, a)

K_INLINE struct k_count k_route_count(const struct k_route *a)
{
	return k_count_values(a->n, a->n_experts, 4, 20);
}

K_INLINE struct k_acts k_route_result(const struct k_route *a)
{
	return k_floats(a->weights, a->k);
}

K_INLINE int64_t k_route_units(const struct k_route *a)
{
	return a->n;
}

/* Whether expert i ranks before expert j. */
K_INLINE bool k_route_before(const float *logits, int32_t i, int32_t j)
{
	return logits[i] > logits[j] || (!(logits[j] > logits[i]) && i < j);
}

K_INLINE void k_route_unit(const struct k_route *a, int64_t unit)
{
	const float *logits = a->logits + (size_t)unit * (size_t)a->n_experts;
	int32_t *ids = a->ids + unit * a->k, n = 0;
	float *weights = a->weights + unit * a->k, max = -INFINITY, sum = 0;

	for (int32_t i = 0; i < a->n_experts && n < a->k; i++) {
		int32_t better = 0;

		for (int32_t j = 0; j < a->n_experts; j++)
			better += j != i && k_route_before(logits, j, i);
		if (better < a->k || a->n_experts - i <= a->k - n) /* the latter if logits are NaN */
			ids[n++] = i;
	}
	for (int32_t s = 0; s < a->k; s++)
		max = logits[ids[s]] > max ? logits[ids[s]] : max;
	for (int32_t s = 0; s < a->k; s++) {
		weights[s] = k_exp(logits[ids[s]] - max);
		sum += weights[s];
	}
	for (int32_t s = 0; s < a->k; s++)
		weights[s] = weights[s] / sum;
}

#endif

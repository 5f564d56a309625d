/* The router of a mixture of experts (Shazeer et al. 2017; Jiang et al. 2024, section 2.1;
 * DeepSeek-AI 2024, section 2.1.2; rule 17): the k experts of greatest worth, ties to the lowest
 * id, and their weights. A unit is a row. */
#ifndef CUTAWAY_KERNELS_OP_ROUTE_H
#define CUTAWAY_KERNELS_OP_ROUTE_H

#include "kernels/op/op.h"

enum { K_ROUTE_EXPERTS = 1024, K_ROUTE_GROUPS = 64 }; /* the most */

/* What p is made of the logits by. */
enum k_route_kind {
	K_ROUTE_chosen,  /* the softmax over the k chosen */
	K_ROUTE_all,     /* the softmax over all */
	K_ROUTE_sigmoid, /* each by itself */
};

struct k_route {
	float *logits;  /* [n, n_experts]; unless p is of the chosen, p takes their place */
	int32_t *ids;   /* [n, k] ascending */
	float *weights; /* [n, k] */
	int32_t n_experts, k, n;
	enum k_route_kind kind;
	bool norm;         /* weights are divided by their sum */
	float scale;       /* and multiplied by this; 0: not */
	const float *bias; /* [n_experts] joins the worth, not the weight; NULL: none */
	/* Of n_groups groups of neighbours those used_groups whose two best have the greatest sum may
	 * be chosen from; 0: there are none. n_groups divides n_experts, and they have k experts. */
	int32_t n_groups, used_groups;
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

/* Replaces the logits of a row by p. */
K_INLINE void k_route_share(const struct k_route *a, float *p)
{
	float max = -INFINITY, sum = 0;

	for (int32_t i = 0; i < a->n_experts; i++)
		max = p[i] > max ? p[i] : max;
	for (int32_t i = 0; i < a->n_experts; i++) {
		p[i] = a->kind == K_ROUTE_all ? k_exp(p[i] - max) : k_sigmoid(p[i]);
		sum += p[i];
	}
	for (int32_t i = 0; i < a->n_experts && a->kind == K_ROUTE_all; i++)
		p[i] = p[i] / sum;
}

/* What expert i is chosen by. */
K_INLINE float k_route_worth(const struct k_route *a, const float *p, int32_t i)
{
	return a->bias ? p[i] + a->bias[i] : p[i];
}

K_INLINE float k_route_group(const struct k_route *a, const float *p, int32_t group)
{
	const int32_t size = a->n_experts / a->n_groups;
	float first = -INFINITY, second = -INFINITY;

	for (int32_t i = group * size; i < (group + 1) * size; i++) {
		const float x = k_route_worth(a, p, i);

		second = x > first ? first : x > second ? x : second;
		first = x > first ? x : first;
	}
	return size > 1 ? first + second : first;
}

/* Whether what has worth x ranks before what has worth y, of numbers i and j. */
K_INLINE bool k_route_before(float x, float y, int32_t i, int32_t j)
{
	return x > y || (!(y > x) && i < j);
}

/* The groups that may be chosen from, a bit for each. */
K_INLINE uint64_t k_route_open(const struct k_route *a, const float *p)
{
	uint64_t open = 0;

	for (int32_t g = 0; g < a->n_groups; g++) {
		const float worth = k_route_group(a, p, g);
		int32_t better = 0;

		for (int32_t h = 0; h < a->n_groups; h++)
			better += h != g && k_route_before(k_route_group(a, p, h), worth, h, g);
		open |= (uint64_t)(better < a->used_groups) << g;
	}
	return open;
}

K_INLINE void k_route_choose(const struct k_route *a, const float *p, int32_t *ids)
{
	const uint64_t open = a->n_groups ? k_route_open(a, p) : 1;
	const int32_t size = a->n_experts / (a->n_groups ? a->n_groups : 1);
	int32_t n = 0;

	for (int32_t i = 0; i < a->n_experts && n < a->k; i++) {
		const float x = k_route_worth(a, p, i);
		int32_t better = open >> i / size & 1 ? 0 : a->k;

		for (int32_t j = 0; j < a->n_experts; j++)
			better +=
				j != i && open >> j / size & 1 && k_route_before(k_route_worth(a, p, j), x, j, i);
		if (better < a->k || a->n_experts - i <= a->k - n) /* the latter if logits are NaN */
			ids[n++] = i;
	}
}

/* Weights that are not yet divided by their sum. */
K_INLINE void k_route_weigh(
	const struct k_route *a, const float *p, const int32_t *ids, float *weights)
{
	float max = -INFINITY;

	for (int32_t s = 0; s < a->k; s++)
		max = p[ids[s]] > max ? p[ids[s]] : max;
	for (int32_t s = 0; s < a->k; s++)
		weights[s] = a->kind == K_ROUTE_chosen ? k_exp(p[ids[s]] - max) : p[ids[s]];
}

K_INLINE void k_route_unit(const struct k_route *a, int64_t unit)
{
	float *p = a->logits + (size_t)unit * (size_t)a->n_experts;
	int32_t *ids = a->ids + unit * a->k;
	float *weights = a->weights + unit * a->k, sum = 0;

	if (a->kind != K_ROUTE_chosen)
		k_route_share(a, p);
	k_route_choose(a, p, ids);
	k_route_weigh(a, p, ids, weights);
	for (int32_t s = 0; s < a->k; s++)
		sum += weights[s];
	for (int32_t s = 0; s < a->k && (a->norm || a->kind == K_ROUTE_chosen); s++)
		weights[s] = weights[s] / sum;
	for (int32_t s = 0; s < a->k && a->scale != 0; s++)
		weights[s] = weights[s] * a->scale;
}

#endif

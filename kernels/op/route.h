/* The router of a mixture of experts (Shazeer et al. 2017; Jiang et al. 2024, section 2.1;
 * DeepSeek-AI 2024, section 2.1.2; rule 17): the k experts of greatest worth, ties to the lowest
 * id, and their weights. A unit is a row. */
#pragma once

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
#define K_INPUTS_route(PLAIN, a)
K_COUNT(route, a->n, a->n_experts, 4, 20)
K_RESULT(route, k_floats(a->weights, a->k))
K_UNITS(route, a->n)

/* What the threads of a row share. x, y: logits and what becomes of them, by turns; then those of
 * the chosen. */
struct k_route_room {
	float x[K_ROUTE_EXPERTS], y[K_ROUTE_EXPERTS];
	float worth[K_ROUTE_EXPERTS], group[K_ROUTE_GROUPS]; /* what is chosen by */
	bool open[K_ROUTE_GROUPS], best[K_ROUTE_EXPERTS];
};

/* A chain, which each thread has for itself. */
K_INLINE float k_route_sum(const float *x, int32_t n)
{
	float sum = 0;

	for (int32_t i = 0; i < n; i++)
		sum += x[i];
	return sum;
}

/* Replaces the logits of a row by p, unless that is of the chosen, to x as well. */
K_UNIT_FN void k_route_share(const struct k_route *a, float *p, struct k_route_room *s)
{
	const bool all = a->kind == K_ROUTE_all;
	float max, sum;

	K_THREADS(i, a->n_experts)
		s->x[i] = p[i];
	K_MEET();
	max = all ? k_greatest(s->x, a->n_experts) : 0;
	K_THREADS(i, a->n_experts)
		s->y[i] = all                         ? k_exp(s->x[i] - max)
				  : a->kind == K_ROUTE_chosen ? s->x[i]
											  : k_sigmoid(s->x[i]);
	K_MEET();
	sum = all ? k_route_sum(s->y, a->n_experts) : 1.0f;
	K_THREADS(i, a->n_experts) {
		s->x[i] = all ? s->y[i] / sum : s->y[i];
		s->worth[i] = a->bias ? s->x[i] + a->bias[i] : s->x[i];
		if (a->kind != K_ROUTE_chosen)
			p[i] = s->x[i];
	}
	K_MEET();
}

/* The worth of experts `first` to before `end` together: that of the two best. */
K_INLINE float k_route_group(const float *worth, int32_t first, int32_t end)
{
	float best = -INFINITY, second = -INFINITY;

	for (int32_t i = first; i < end; i++) {
		const float x = worth[i];

		second = x > best ? best : x > second ? x : second;
		best = x > best ? x : best;
	}
	return end - first > 1 ? best + second : best;
}

/* How many of `first` to before `end` rank before i: of greater worth, or of none less and a lesser
 * number. */
K_INLINE int32_t k_route_before(const float *worth, int32_t i, int32_t first, int32_t end)
{
	int32_t before = 0;

	for (int32_t j = first; j < end; j++)
		before += j < i ? !(worth[i] > worth[j]) : worth[j] > worth[i];
	return before;
}

/* The groups that may be chosen from; all experts are one where there are none. Returns experts of
 * a group. */
K_UNIT_FN int32_t k_route_open(const struct k_route *a, struct k_route_room *s)
{
	const int32_t n = a->n_groups ? a->n_groups : 1, size = a->n_experts / n;

	K_THREADS(g, n)
		s->group[g] = k_route_group(s->worth, g * size, (g + 1) * size);
	K_MEET();
	K_THREADS(g, n)
		s->open[g] = !a->n_groups || k_route_before(s->group, g, 0, n) < a->used_groups;
	K_MEET();
	return size;
}

/* Of the chosen ids, ascending, and p to y. */
K_UNIT_FN void k_route_choose(const struct k_route *a, int32_t *ids, struct k_route_room *s)
{
	const int32_t n = a->n_experts, rest = n - a->k, size = k_route_open(a, s);

	K_THREADS(i, n) {
		int32_t before = s->open[i / size] ? 0 : a->k;

		for (int32_t g = 0; g * size < n; g++)
			before += s->open[g] ? k_route_before(s->worth, i, g * size, (g + 1) * size) : 0;
		s->best[i] = before < a->k;
	}
	K_MEET();
	K_THREADS(i, n) {
		int32_t slot = 0;

		for (int32_t j = 0; j < i; j++)
			slot += s->best[j];
		if (i - slot >= rest) /* if logits are NaN: the last ones in any case */
			slot = i - rest;
		else if (!s->best[i] || slot >= a->k)
			continue;
		ids[slot] = i;
		s->y[slot] = s->x[i];
	}
	K_MEET();
}

K_UNIT_FN void k_route_unit(const struct k_route *a, int64_t unit)
{
	float *weights = a->weights + unit * a->k, max, sum;
	K_ROOM(struct k_route_room, s);

	K_MEET();
	k_route_share(a, a->logits + (size_t)unit * (size_t)a->n_experts, s);
	k_route_choose(a, a->ids + unit * a->k, s);
	max = k_greatest(s->y, a->k);
	K_THREADS(i, a->k)
		s->x[i] = a->kind == K_ROUTE_chosen ? k_exp(s->y[i] - max) : s->y[i];
	K_MEET();
	sum = k_route_sum(s->x, a->k);
	K_THREADS(i, a->k) {
		const float w = a->norm || a->kind == K_ROUTE_chosen ? s->x[i] / sum : s->x[i];

		weights[i] = a->scale != 0 ? w * a->scale : w;
	}
}

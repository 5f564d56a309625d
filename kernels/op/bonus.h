/* What follows the state matrices of RWKV-7 (Peng et al. 2025, section 4): a layer norm of each
 * head (rule 7), plus the row's own value by the sum of q k weight, times a gate. A unit is 32
 * columns of a row. */
#pragma once

#include "kernels/op/op.h"

struct k_bonus {
	const float *x, *q, *k, *v, *gate; /* [n, heads, size] */
	const float *w, *b, *weight;       /* [heads, size]: the norm's two, the sum's */
	float eps;
	int32_t heads, size, n;
	struct k_acts out; /* [n, heads * size] */
};
#define K_INPUTS_bonus(PLAIN, a)
K_COUNT(bonus, a->n, a->out.dim, 24, 14)
K_RESULT(bonus, a->out)
K_UNITS(bonus, (int64_t)a->n *(k_pieces(a->out.dim, 32)))

/* Of a head: mean and scale of its norm, and the factor of its value. */
struct k_bonus_head {
	float mean, scale, own;
};

K_UNIT_FN float k_bonus_mean(const float *x, int32_t size)
{
	float lane[K_OWN] = { 0 };

	K_LANES(i, size)
		lane[K_CHAIN(i)] += x[i];
	return k_lanes_sum(lane) / (float)size;
}

/* at: of the head in x, q, k; column: in the weights. */
K_UNIT_FN struct k_bonus_head k_bonus_head(const struct k_bonus *a, size_t at, size_t column)
{
	const float *x = a->x + at, *q = a->q + at, *k = a->k + at, *weight = a->weight + column;
	float lane[K_OWN] = { 0 }, own[K_OWN] = { 0 };
	struct k_bonus_head h;

	h.mean = k_bonus_mean(x, a->size);
	K_LANES(i, a->size) {
		lane[K_CHAIN(i)] = k_fma(x[i] - h.mean, x[i] - h.mean, lane[K_CHAIN(i)]);
		own[K_CHAIN(i)] = k_fma(q[i] * k[i], weight[i], own[K_CHAIN(i)]);
	}
	h.scale = 1.0f / sqrtf(k_lanes_sum(lane) / (float)a->size + a->eps);
	h.own = k_lanes_sum(own);
	return h;
}

K_UNIT_FN void k_bonus_unit(const struct k_bonus *a, int64_t unit)
{
	const int32_t dim = a->out.dim, blocks = k_pieces(dim, 32), r = (int32_t)unit / blocks,
				  first = (int32_t)unit % blocks * 32, end = k_min(first + 32, dim);
	const size_t row = (size_t)r * (size_t)dim;
	float y[K_OWN] = { 0 };

	for (int32_t head = first / a->size * a->size; head < end; head += a->size) {
		const struct k_bonus_head h = k_bonus_head(a, row + (size_t)head, (size_t)head);

		K_LANES(c, end - first) {
			const int32_t i = first + c;
			const size_t at = row + (size_t)i;

			if (i < head || i >= head + a->size)
				continue;
			y[K_AT(c)] = (a->x[at] - h.mean) * h.scale * a->w[i] + a->b[i];
			y[K_AT(c)] = k_fma(h.own, a->v[at], y[K_AT(c)]) * a->gate[at];
		}
	}
	k_put(&a->out, r, first, y, end - first);
}

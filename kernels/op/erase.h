/* What a state matrix of RWKV-7 keeps, erases and takes (Peng et al. 2025, section 4), for each row
 * and head: decay = exp(-0.606531 sigmoid(w)); a = sigmoid(a); away = k key_scale, of length 1;
 * back = away a; k = k + k (a - 1) key_rate; v = v + (first - v) sigmoid(share). A unit is a head
 * of a row. */
#pragma once

#include "kernels/op/op.h"

struct k_erase {
	float *w;                          /* [n, heads, size]: logits; becomes the decay */
	const float *a;                    /* [n, heads, size] logits */
	float *k, *v;                      /* [n, heads, size], in place */
	const float *share, *first;        /* [n, heads, size]; share NULL: v stays as it is */
	const float *key_scale, *key_rate; /* [heads, size] */
	float *away, *back;                /* [n, heads, size]: results */
	int32_t heads, size, n;
};
#define K_INPUTS_erase(PLAIN, a)
K_COUNT(erase, a->n, a->heads * a->size, 44, 80)
K_RESULT(erase, k_floats(a->back, a->heads * a->size))
K_UNITS(erase, (int64_t)a->n * a->heads)

/* 1 over the length of the erased key, which is at least 1e-12. */
K_UNIT_FN float k_erase_length(const float *k, const float *by, int32_t size)
{
	float lane[K_OWN] = { 0 }, length;

	K_LANES(i, size)
		lane[K_CHAIN(i)] = k_fma(k[i] * by[i], k[i] * by[i], lane[K_CHAIN(i)]);
	length = sqrtf(k_lanes_sum(lane));
	return 1.0f / (length < 1e-12f ? 1e-12f : length);
}

K_UNIT_FN void k_erase_unit(const struct k_erase *a, int64_t unit)
{
	const size_t at = (size_t)unit * (size_t)a->size;
	const size_t column = (size_t)(unit % a->heads) * (size_t)a->size;
	const float *scale = a->key_scale + column, *rate = a->key_rate + column;
	const float length = k_erase_length(a->k + at, scale, a->size);

	K_LANES(i, a->size) {
		const size_t c = at + (size_t)i;
		const float k = a->k[c], v = a->v[c], s = k_sigmoid(a->a[c]);

		a->w[c] = k_exp(-0.606531f * k_sigmoid(a->w[c]));
		a->away[c] = (k * scale[i]) * length;
		a->back[c] = a->away[c] * s;
		a->k[c] = k_fma(k * (s - 1.0f), rate[i], k);
		if (a->share)
			a->v[c] = k_fma(a->first[c] - v, k_sigmoid(a->share[c]), v);
	}
}

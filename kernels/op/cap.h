/* What some families do to logits, in place: times a factor, then the soft cap tanh(x / cap) * cap
 * (Bello et al. 2017; Gemma 2; rule 8). */
#pragma once

#include "kernels/op/op.h"

struct k_cap {
	float *x;          /* [n, dim] */
	float scale, most; /* most 0: no cap */
	int32_t dim, n;
};
#define K_INPUTS_cap(PLAIN, a)
K_COUNT(cap, a->n, a->dim, 8, a->most > 0 ? 20 : 1)
K_RESULT(cap, k_floats(a->x, a->dim))

K_INLINE float k_cap_value(const struct k_cap *a, int32_t r, int32_t i)
{
	const float x = a->x[k_index(r, a->dim, i)] * a->scale;

	return a->most > 0 ? k_softcap(x, a->most) : x;
}
K_VALUE_UNITS(cap, a->n, a->dim)

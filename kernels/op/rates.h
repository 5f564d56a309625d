/* What a state matrix keeps of itself and takes of a value (linear.h), for each row and head:
 * t = softplus(x + bias);   decay = exp(t a);   amount = sigmoid(beta), or t where there is no beta
 * (Mamba-2: Dao and Gu 2024; gated delta rule: Yang et al. 2024). */
#pragma once

#include "kernels/op/op.h"

struct k_rates {
	const float *x, *beta; /* [n, …]; beta NULL: none */
	/* values of a row; heads that are neighbours there, and from such heads to the next */
	int32_t stride, run, pitch;
	const float *a, *bias; /* [heads]; a: negative */
	float *out;            /* [n, heads, 2]: decay, amount */
	int32_t heads, n;
};
#define K_INPUTS_rates(PLAIN, a)
K_COUNT(rates, a->n, a->heads, 16, 60)
K_RESULT(rates, k_floats(a->out, 2 * a->heads))

K_INLINE float k_rates_value(const struct k_rates *a, int32_t r, int32_t i)
{
	const int32_t h = i / 2;
	const size_t at = k_index(r, a->stride, h / a->run * a->pitch + h % a->run);
	float t;

	if (i % 2 && a->beta)
		return k_sigmoid(a->beta[at]);
	t = k_softplus(a->x[at] + a->bias[h]);
	return i % 2 ? t : k_exp(t * a->a[h]);
}
K_VALUE_UNITS(rates, a->n, 2 * a->heads)

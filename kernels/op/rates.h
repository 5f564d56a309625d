/* What a state matrix keeps of itself and takes of a value (linear.h), for each row and head:
 * t = softplus(x + bias);   decay = exp(t a);   amount = sigmoid(beta), or t where there is no beta
 * (Mamba-2: Dao and Gu 2024; gated delta rule: Yang et al. 2024). A unit is a row. */
#ifndef CUTAWAY_KERNELS_OP_RATES_H
#define CUTAWAY_KERNELS_OP_RATES_H

#include "kernels/op/op.h"

struct k_rates {
	const float *x, *beta; /* [n, …]; beta NULL: none */
	/* values of a row; heads that are neighbours there, and from such heads to the next */
	int32_t stride, run, pitch;
	const float *a, *bias; /* [heads]; a: negative */
	float *out;            /* [n, heads, 2]: decay, amount */
	int32_t heads, n;
};
#define K_RATES_INPUTS(PLAIN, a)

K_INLINE struct k_count k_rates_count(const struct k_rates *a)
{
	return k_count_values(a->n, a->heads, 16, 60);
}

K_INLINE struct k_acts k_rates_result(const struct k_rates *a)
{
	return k_floats(a->out, 2 * a->heads);
}

K_INLINE int64_t k_rates_units(const struct k_rates *a)
{
	return a->n;
}

K_INLINE void k_rates_unit(const struct k_rates *a, int64_t unit)
{
	const size_t row = (size_t)unit * (size_t)a->stride;
	float *out = a->out + (size_t)unit * (size_t)a->heads * 2;

	for (int32_t h = 0; h < a->heads; h++) {
		const size_t at = row + (size_t)(h / a->run * a->pitch + h % a->run);
		const float t = k_softplus(a->x[at] + a->bias[h]);

		out[2 * h] = k_exp(t * a->a[h]);
		out[2 * h + 1] = a->beta ? k_sigmoid(a->beta[at]) : t;
	}
}

#endif

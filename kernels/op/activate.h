/* The activation of a feed-forward without a gate (rule 8), quantised where `out` has q; `none`:
 * the values as they are, for a product that reads them. A unit is 32 columns of a row. */
#ifndef CUTAWAY_KERNELS_OP_ACTIVATE_H
#define CUTAWAY_KERNELS_OP_ACTIVATE_H

#include "kernels/op/glu.h"
#include "kernels/op/op.h"

struct k_activate {
	const float *x;    /* [n, dim] */
	struct k_acts out; /* [n, dim] */
	enum k_act act;
	int32_t n;
};
#define K_ACTIVATE_INPUTS(PLAIN, a)

K_INLINE struct k_count k_activate_count(const struct k_activate *a)
{
	return k_count_values(a->n, a->out.dim, 8, 20);
}

K_INLINE struct k_acts k_activate_result(const struct k_activate *a)
{
	return a->out;
}

K_INLINE int64_t k_activate_units(const struct k_activate *a)
{
	return (int64_t)a->n * (a->out.dim / 32);
}

K_INLINE float k_activated(enum k_act act, float x)
{
	switch (act) {
	case K_ACT_silu:
	case K_ACT_gelu:
	case K_ACT_clamped: return k_gate(act, x, 1.0f);
	case K_ACT_gelu_erf: return k_gelu_erf(x);
	case K_ACT_relu: return x > 0.0f ? x : 0.0f;
	case K_ACT_relu2: return x > 0.0f ? x * x : 0.0f;
	case K_ACT_tanh: return k_tanh(x);
	case K_ACT_sigmoid: return k_sigmoid(x);
	case K_ACT_none: break;
	}
	return x;
}

K_INLINE void k_activate_unit(const struct k_activate *a, int64_t unit)
{
	const int32_t blocks = a->out.dim / 32, r = (int32_t)(unit / blocks),
				  at = (int32_t)(unit % blocks) * 32;
	const float *x = a->x + (size_t)r * (size_t)a->out.dim + (size_t)at;
	float y[32];

	for (int32_t i = 0; i < 32; i++)
		y[i] = k_activated(a->act, x[i]);
	k_put(&a->out, r, at, y, 32);
}

#endif

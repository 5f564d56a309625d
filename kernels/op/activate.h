/* The activation of a feed-forward without a gate (rule 8), quantised where `out` has q; `none`:
 * the values as they are, for a product that reads them. */
#pragma once

#include "kernels/op/glu.h"
#include "kernels/op/op.h"

struct k_activate {
	const float *x;    /* [n, dim] */
	struct k_acts out; /* [n, dim] */
	enum k_act act;
	int32_t n;
};
#define K_INPUTS_activate(PLAIN, a)
K_COUNT(activate, a->n, a->out.dim, 8, 20)
K_RESULT(activate, a->out)

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

K_INLINE float k_activate_value(const struct k_activate *a, int32_t r, int32_t i)
{
	return k_activated(a->act, a->x[k_index(r, a->out.dim, i)]);
}
K_VALUE_UNITS(activate, a->n, a->out.dim)

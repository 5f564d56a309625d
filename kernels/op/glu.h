/* Gated activation: act(gate) * up (rule 8), quantised where `out` has q (rule 4). Vectors and GPUs
 * have kernels of their own for it. */
#pragma once

#include "kernels/op/op.h"

/* Of a gate the first three; the others belong to k_activate. */
enum k_act {
	K_ACT_silu,
	K_ACT_gelu,
	K_ACT_clamped,
	K_ACT_gelu_erf,
	K_ACT_relu2,
	K_ACT_none,
	K_ACT_tanh,
	K_ACT_sigmoid,
	K_ACT_relu,
};

struct k_glu {
	const float *gate, *up; /* [n, dim] */
	struct k_acts out;      /* [n, dim] */
	enum k_act act;
	int32_t n;
};
#define K_INPUTS_glu(PLAIN, a)

/* The gate of gpt-oss (OpenAI 2025): both sides are limited, and up has 1 added. */
K_INLINE float k_gate_clamped(float gate, float up)
{
	gate = gate > 7.0f ? 7.0f : gate;
	up = up > 7.0f ? 7.0f : up;
	up = up < -7.0f ? -7.0f : up;
	return gate / (1.0f + k_exp(-(1.702f * gate))) * (up + 1.0f);
}

K_INLINE float k_gate(enum k_act act, float gate, float up)
{
	if (act == K_ACT_clamped)
		return k_gate_clamped(gate, up);
	return (act == K_ACT_gelu ? k_gelu(gate) : k_silu(gate)) * up;
}

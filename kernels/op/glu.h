/* Gated activation: act(gate) * up (rule 8), quantised where `out` has q (rule 4). AVX2 and GPUs
 * have kernels of their own for it. */
#ifndef CUTAWAY_KERNELS_OP_GLU_H
#define CUTAWAY_KERNELS_OP_GLU_H

#include "kernels/op/op.h"

/* Of a gate the first two; the others belong to k_activate. */
enum k_act { K_ACT_silu, K_ACT_gelu, K_ACT_gelu_erf, K_ACT_relu2, K_ACT_none };

struct k_glu {
	const float *gate, *up; /* [n, dim] */
	struct k_acts out;      /* [n, dim] */
	enum k_act act;
	int32_t n;
};

K_INLINE float k_gate(enum k_act act, float gate, float up)
{
	return (act == K_ACT_gelu ? k_gelu(gate) : k_silu(gate)) * up;
}

#endif

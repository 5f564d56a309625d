/* Ops that run their definition (kernels/op/lanes.h), a warp for each unit, neighbours' on
 * different multiprocessors, or a block. */
#pragma once

#include "kernels/cuda/bodies.cuh"

#define X(name)                                                                                    \
	static __device__ void cu_##name(const struct cu_part *p)                                      \
	{                                                                                              \
		const struct k_##name *a = &p->stage->op.u.name;                                           \
		const int64_t n = k_##name##_units(a), first = cu_thread() / CU_WARP * p->n_blocks;        \
                                                                                                   \
		for (int64_t unit = first + p->block; unit < n; unit += p->n_blocks * CU_WARPS)            \
			k_##name##_unit(a, unit);                                                              \
	}
K_WARP_KINDS(X)
#undef X

#define X(name)                                                                                    \
	static __device__ void cu_##name(const struct cu_part *p)                                      \
	{                                                                                              \
		const struct k_##name *a = &p->stage->op.u.name;                                           \
                                                                                                   \
		for (int64_t unit = p->block; unit < k_##name##_units(a); unit += p->n_blocks)             \
			k_##name##_unit(a, unit);                                                              \
	}
K_PLAIN_FAST(X)
K_BLOCK_KINDS(X)
#undef X

/* Ops that run their definition (kernels/op/ops.h), one thread for each unit. */
#ifndef CUTAWAY_KERNELS_CUDA_PLAIN_CUH
#define CUTAWAY_KERNELS_CUDA_PLAIN_CUH

#include "kernels/cuda/bodies.cuh"

#define X(name, NAME)                                                                              \
	static __device__ void cu_##name(const struct cu_part *p)                                      \
	{                                                                                              \
		const struct k_##name *a = &p->stage->op.u.name;                                           \
		const int64_t n = k_##name##_units(a);                                                     \
                                                                                                   \
		for (int64_t unit = p->block * CU_THREADS + cu_thread(); unit < n;                         \
			 unit += (int64_t)p->n_blocks * CU_THREADS)                                            \
			k_##name##_unit(a, unit);                                                              \
	}
X(columns, COLUMNS)
K_PLAIN_ALONE(X)
#undef X

#endif

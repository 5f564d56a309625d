/* The entry points of the GPU: a kernel for each op, here; those of attention are in attention.cuh,
 * those of products, a kernel for each format, in matmul_few.cuh and matmul_wide.cuh. All have
 * CU_THREADS threads a block. Calls pass data through global memory; the driver orders it between
 * them. */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/embed.cuh"
#include "kernels/cuda/matmul_few.cuh"
#include "kernels/cuda/matmul_wide.cuh"
#include "kernels/cuda/measure.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/plain.cuh"
#include "kernels/cuda/rope.cuh"
#include "kernels/cuda/stats.cuh"
#include "kernels/cuda/glu.cuh"

/* Statistics have three blocks a multiprocessor: each unit's trips to memory follow one another. */
#define X(name, ...)                                                                               \
	CU_KERNEL_OF(K_OP_##name == K_OP_stats ? 3 : 2)                                                \
	cutaway_##name(const __grid_constant__ struct cu_stage stage)                                  \
	{                                                                                              \
		const struct cu_part p = cu_open_part(&stage);                                             \
                                                                                                   \
		cu_##name(&p);                                                                             \
	}
K_SINGLES(X)
#undef X

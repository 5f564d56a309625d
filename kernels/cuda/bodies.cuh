/* The bodies of the ops: each does its share of a stage as block `block` of n_blocks. `shared` is the
 * block's dynamic shared memory, CU_SHARED_BYTES, aligned to 128; undefined at entry. Bodies end
 * without a barrier: what they leave in shared memory is garbage to the next, which begins with one
 * if it needs to. One .cuh a family of ops; kernels.cu includes them all and holds the entry points. */
#ifndef CUTAWAY_KERNELS_CUDA_BODIES_CUH
#define CUTAWAY_KERNELS_CUDA_BODIES_CUH

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/stage.h"

struct cu_part {
	const struct cu_step *step;
	const struct cu_stage *stage;
	int32_t block, n_blocks;
	unsigned char *shared;
};

typedef void cu_body(const struct cu_part *p);

#define X(name) static __device__ void cu_##name(const struct cu_part *p);
K_KINDS(X)
#undef X

#endif

/* The bodies of the ops: each does its share of a stage as block `block` of n_blocks. `shared` is
 * the block's dynamic shared memory, CU_SHARED_BYTES, aligned to 128; undefined at entry. Bodies
 * end without a barrier: what they leave in shared memory is garbage to the next body, which begins
 * with a barrier if it needs one. After it are the CU_KEPT_BYTES that a block keeps from stage to
 * stage.
 *
 * While a block waits at the barrier in front of a stage it may fetch what the stage reads and what
 * no stage of this step writes: cu_<op>_prefetch, for the ops that have much of that. Weights are
 * prefetched to the L2 cache. Keys and values go to the block's shared memory: no body runs between
 * the prefetch of a stage and its body. At that barrier it also does work of the stage before that
 * no block waits for: cu_<op>_after.
 *
 * One .cuh for each family of ops; kernels.cu includes them all and has the entry points. */
#ifndef CUTAWAY_KERNELS_CUDA_BODIES_CUH
#define CUTAWAY_KERNELS_CUDA_BODIES_CUH

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/stage.h"

struct cu_kept; /* attention_plan.cuh: data that a block keeps from stage to stage, in shared memory
				 */

struct cu_part {
	const struct cu_step *step;
	const struct cu_stage *stage;
	int32_t block, n_blocks;
	unsigned char *shared;
	struct cu_kept *kept;
	bool walks;      /* cu_<op>_after will be called, if the op has one */
	bool prefetched; /* the stage's prefetch was called */
};

typedef void cu_body(const struct cu_part *p);

#define X(name, ...) static __device__ void cu_##name(const struct cu_part *p);
K_KINDS(X)
#undef X

static __device__ void cu_matmul_prefetch(const struct cu_part *p);
static __device__ void cu_attention_prefetch(const struct cu_part *p);
static __device__ void cu_attention_after(const struct cu_part *p);

#endif

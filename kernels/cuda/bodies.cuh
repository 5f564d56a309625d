/* The bodies of the ops: each does its share of a call as block `block` of n_blocks. `shared` is
 * the block's dynamic shared memory (cu_op_shared()), aligned to 128, undefined at entry.
 *
 * One .cuh for each family of ops; kernels.cu includes them all and has the entry points of all but
 * the products. */
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/lanes.cuh" /* which stage.h's definitions of ops are made of */
#include "kernels/cuda/layout.h"
#include "kernels/cuda/stage.h"

struct cu_part {
	const struct cu_stage *stage;
	const struct cu_work *work;
	int32_t block, n_blocks;
	unsigned char *shared;
};

#define X(name, ...) static __device__ void cu_##name(const struct cu_part *p);
K_SINGLES(X)
#undef X

/* So many blocks a multiprocessor at least. */
#define CU_KERNEL_OF(blocks) extern "C" __global__ void __launch_bounds__(CU_THREADS, blocks)
#define CU_KERNEL CU_KERNEL_OF(2)

/* Four floats that lie together, aligned to 16 bytes. */
CU_FN void cu_four(const float *from, float x[4])
{
	const uint4 v = *(const uint4 *)(const void *)from;

	x[0] = k_float(v.x), x[1] = k_float(v.y), x[2] = k_float(v.z), x[3] = k_float(v.w);
}

/* Number i % 4 of four in registers, which have no index. */
CU_FN uint32_t cu_pick(const uint32_t v[4], int32_t i)
{
	const uint32_t low = i & 1 ? v[1] : v[0], high = i & 1 ? v[3] : v[2];

	return i & 2 ? high : low;
}

/* Asks for lines of weights, as number `own` of so many blocks. */
CU_FN void cu_prefetch(const struct cu_ahead *ahead, int32_t n, int32_t own, int32_t n_blocks)
{
	for (int32_t p = 0; p < n; p++)
		for (int32_t i = own * CU_THREADS + cu_thread(); i < ahead[p].lines;
			 i += n_blocks * CU_THREADS)
			cu_prefetch(ahead[p].at + (size_t)i * CU_LINE);
}

/* The time at which a kernel begins. */
CU_FN void cu_note(uint64_t *clock)
{
	if (clock && cu_block() == 0 && cu_thread() == 0)
		*clock = cu_now();
}

CU_FN struct cu_part cu_open_part(const struct cu_stage *stage)
{
	const struct cu_part p = { stage, &stage->work, cu_block(), cu_n_blocks(), cu_shared_memory() };

	cu_follow();
	cu_note(stage->clock);
	return p;
}

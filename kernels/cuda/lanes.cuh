/* What the units of plain ops are made of (kernels/op/lanes.h), for the threads of a GPU. */
#pragma once

#include "kernels/cuda/device.cuh"

enum { K_OWN = 1, K_AHEAD = 16 };

#define K_AT(i) 0
#define K_CHAIN(i) 0

#define K_UNIT_FN CU_FN

/* Unsigned, so that compilers see that it is below 32: a loop up to 32 is none. */
K_UNIT_FN int32_t k_lane(void)
{
	return (int32_t)((uint32_t)cu_thread() % CU_WARP);
}

#define K_LANES(i, n) for (int32_t i = k_lane(); i < (n); i += CU_WARP)
#define K_WARPS(i, n) for (int32_t i = cu_thread() / CU_WARP; i < (n); i += CU_WARPS)
#define K_THREADS(i, n) for (int32_t i = cu_thread(); i < (n); i += CU_THREADS)
#define K_MEET() CU_SYNC()
#ifdef __CUDACC__
#define K_UNROLL _Pragma("unroll 16")
#else
#define K_UNROLL
#endif
#define K_LARGE_ROOM(type, s) type *const s = (type *)(void *)cu_shared_memory()
#define K_ROOM(type, s)                                                                            \
	static_assert(sizeof(type) <= K_ROOM_BYTES, "more than a launch gives");                       \
	K_LARGE_ROOM(type, s)

/* In every lane: the tree is symmetric. */
K_UNIT_FN float k_lanes_sum(float lane[K_OWN])
{
	CU_UNROLL
	for (int h = 16; h > 0; h /= 2)
		lane[0] += cu_shuffle_xor_float(lane[0], h);
	return lane[0];
}
K_UNIT_FN float k_half_sum(float lane[K_OWN])
{
	float sum = lane[0];

	CU_UNROLL
	for (int h = 8; h > 0; h /= 2)
		sum += cu_shuffle_xor_float(sum, h);
	return cu_shuffle_float(sum, 0);
}
K_UNIT_FN int32_t k_lanes_total(int32_t own)
{
	return cu_warp_sum(own);
}
K_UNIT_FN uint32_t k_lanes_most(uint32_t own)
{
	return cu_warp_max(own);
}

/* norm.cuh */
struct k_acts;
CU_FN void cu_put(const struct k_acts *out, int32_t row, int32_t at, int32_t lane, float y);

/* Entry points that compute nothing of a model: the clock between launches, and the device's roofs,
 * which figures are compared with. */
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/stage.h"

/* After the last kernel of a step, a block: what the n calls noted, and the end, to the host at
 * once. If each kernel wrote there, each would end only when the host's memory has it. */
extern "C" __global__ void cutaway_clock(const uint64_t *at, uint64_t *to, int32_t n)
{
	cu_follow();
	if (cu_thread() == 0)
		to[n] = cu_now();
	for (int32_t i = cu_thread(); i < n; i += CU_THREADS)
		to[i] = at[i];
}

/* bytes: a multiple of 16. */
extern "C" __global__ void __launch_bounds__(CU_THREADS, 2)
	cutaway_copy(uint4 *to, const uint4 *from, uint64_t bytes)
{
	const uint64_t n = bytes / 16, stride = (uint64_t)cu_n_blocks() * CU_THREADS;
	uint64_t i = (uint64_t)cu_block() * CU_THREADS + (uint64_t)cu_thread();

	for (; i + 3 * stride < n; i += 4 * stride) {
		uint4 v[4];

		for (int k = 0; k < 4; k++)
			v[k] = cu_stream16(from + i + (uint64_t)k * stride);
		for (int k = 0; k < 4; k++)
			to[i + (uint64_t)k * stride] = v[k];
	}
	for (; i < n; i += stride)
		to[i] = cu_stream16(from + i);
}

/* rounds times CU_MULTIPLY_CHAINS products of 16 x 8 x 32 signed bytes a warp, by the tensor cores,
 * all operands in registers. out: [CU_THREADS] */
enum { CU_MULTIPLY_CHAINS = 8 };
extern "C" __global__ void __launch_bounds__(CU_THREADS, 2)
	cutaway_multiply(int32_t *out, int32_t rounds)
{
	const uint32_t one = 0x01010101u * (uint32_t)(cu_thread() % 3 + 1);
	uint32_t a[4] = { one, one, one, one }, b[2] = { one, one };
	int32_t c[CU_MULTIPLY_CHAINS][4] = {}, sum = 0;

	for (int32_t r = 0; r < rounds; r++) {
#pragma unroll
		for (int k = 0; k < CU_MULTIPLY_CHAINS; k++)
			cu_mma_k32(c[k], a, b);
	}
#pragma unroll
	for (int k = 0; k < CU_MULTIPLY_CHAINS; k++)
		sum += c[k][0] + c[k][1] + c[k][2] + c[k][3];
	if (cu_block() == 0 || sum == 1) /* never 1, but the compiler cannot drop the products */
		out[cu_thread()] = sum;
}

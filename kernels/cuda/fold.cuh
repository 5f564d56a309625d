/* A norm or a SwiGLU in front of a matrix product of few rows: each block computes all of it for itself,
 * into shared memory, while its first weights are under way (stage.h says when that pays). */
#ifndef CUTAWAY_KERNELS_CUDA_FOLD_CUH
#define CUTAWAY_KERNELS_CUDA_FOLD_CUH

#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/swiglu.cuh"

/* Shared memory from `at`, aligned to 16, as activations of n rows: floats, or 8 bits with d and sx. */
CU_FN struct k_acts cu_fold_place(unsigned char *at, int32_t n, int32_t dim, bool floats)
{
	struct k_acts a;

	a.dim = dim;
	a.x = floats ? (float *)(void *)at : (float *)0;
	a.q = floats ? (int8_t *)0 : (int8_t *)at;
	a.d = floats ? (float *)0 : (float *)(void *)(at + (size_t)n * (size_t)dim);
	a.sx = floats ? (float *)0 : a.d + (size_t)n * (size_t)(dim / K_QBLOCK);
	return a;
}

/* All threads of the block; ends with a barrier. The result lies in shared memory from byte `at`, a
 * multiple of 16, behind what cu_fold keeps there for itself. */
enum { CU_FOLD_OWN = CU_FOLD_ROWS * 4 };
CU_FN void cu_fold(const struct cu_stage *stage, int32_t at, bool floats)
{
	const int32_t lane = cu_thread() % CU_WARP, warp = cu_thread() / CU_WARP;
	const struct k_matmul *m = &stage->op.u.matmul;
	const struct k_norm *a = &stage->before.u.norm;
	float *scale = (float *)(void *)(cu_shared_memory() + at);
	const struct k_acts out =
		cu_fold_place(cu_shared_memory() + at + CU_FOLD_OWN, m->n, m->in.dim, floats);

	if (stage->before.kind == K_OP_swiglu) {
		cu_swiglu_blocks(&stage->before.u.swiglu, &out, warp, CU_WARPS, lane);
	} else if (a->n == 1) { /* every warp sums the row: a barrier less */
		const float s = cu_norm_scale(a, cu_norm_row(a, 0), lane);

		cu_norm_blocks(a, &out, 0, s, warp, CU_WARPS, lane);
	} else {
		if (warp < a->n) {
			const float s = cu_norm_scale(a, cu_norm_row(a, warp), lane);

			if (lane == 0)
				scale[warp] = s;
		}
		CU_SYNC();
		for (int32_t r = 0; r < a->n; r++)
			cu_norm_blocks(a, &out, r, scale[r], warp, CU_WARPS, lane);
	}
	CU_SYNC();
}

#endif

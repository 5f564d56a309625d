/* A norm or a SwiGLU in front of a matrix product of few rows: each block computes all of it for
 * itself, into shared memory, while its first weights are prefetched to the L2 cache (stage.h says
 * when that is faster). */
#ifndef CUTAWAY_KERNELS_CUDA_FOLD_CUH
#define CUTAWAY_KERNELS_CUDA_FOLD_CUH

#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/glu.cuh"

/* Where in shared memory the result is, as floats or as 8 bits with d and sx: after the regions of
 * matmul_split.cuh for weights of that kind. */
enum {
	CU_FOLD_FLOATS_AT = 16 << 10,
	CU_FOLD_8_BITS_AT = 88 << 10,
	CU_FOLD_END = CU_FOLD_8_BITS_AT + CU_FOLD_NORM + CU_FOLD_NORM / 4,
};

CU_FN struct k_acts cu_folded(int32_t n, int32_t dim, bool floats)
{
	unsigned char *at = cu_shared_memory() + (floats ? CU_FOLD_FLOATS_AT : CU_FOLD_8_BITS_AT);
	struct k_acts a;

	a.dim = dim;
	a.x = floats ? (float *)(void *)at : (float *)0;
	a.q = floats ? (int8_t *)0 : (int8_t *)at;
	a.d = floats ? (float *)0 : (float *)(void *)(at + (size_t)n * (size_t)dim);
	a.sx = floats ? (float *)0 : a.d + (size_t)n * (size_t)(dim / K_QBLOCK);
	return a;
}

/* Called by all threads of the block. Ends without a barrier: the product begins with one. */
CU_LARGE_FN void cu_fold(const struct cu_stage *stage, bool floats)
{
	const int32_t lane = cu_thread() % CU_WARP, warp = cu_thread() / CU_WARP;
	const struct k_norm *a = &stage->before.u.norm;
	float *scale = (float *)(void *)cu_shared_memory();
	const struct k_acts out = cu_folded(stage->op.u.matmul.n, stage->op.u.matmul.in.dim, floats);

	if (stage->before.kind == K_OP_glu) {
		cu_glu_blocks(&stage->before.u.glu, &out, warp, CU_WARPS, lane);
		return;
	}
	if (warp < a->n) {
		const float s = cu_norm_scale(a, cu_norm_row(a, warp), lane);

		if (lane == 0)
			scale[warp] = s;
	}
	CU_SYNC();
	CU_NO_UNROLL
	for (int32_t r = 0; r < a->n; r++)
		cu_norm_blocks(a, &out, r, scale[r], warp, CU_WARPS, lane);
}

#endif

/* Small activations counted, and made 0 (kernels/op/sparse.h), a block a row: its threads find the
 * largest together, then count, a warp for each 32 values. All sums are of integers, so their order
 * does not matter. A row of up to 20,480 values is read once, to shared memory. */
#ifndef CUTAWAY_KERNELS_CUDA_SPARSE_CUH
#define CUTAWAY_KERNELS_CUDA_SPARSE_CUH

#include "kernels/cuda/norm.cuh"

/* What a block's warps say to each other, in shared memory; the row's copy is after that. */
struct cu_sparse_shared {
	uint32_t most[CU_WARPS];
	int32_t count[CU_WARPS][K_NEAR];
};

enum { CU_SPARSE_AT = 512, CU_SPARSE_COPY = 20 << 10 };
static_assert(sizeof(struct cu_sparse_shared) <= CU_SPARSE_AT, "the copy is after it");

CU_FN uint32_t cu_size_bits(float x)
{
	return k_bits(x) & 0x7fffffffu;
}

/* k_largest() of a row, in all threads of the block. */
CU_FN float cu_row_largest(const float *x, int32_t dim, uint32_t most[CU_WARPS])
{
	uint32_t all = 0;

	CU_UNROLL_8
	for (int32_t i = cu_thread(); i < dim; i += CU_THREADS) {
		const uint32_t b = cu_size_bits(x[i]);

		all = b > all ? b : all;
	}
	all = cu_warp_max(all);
	if (cu_thread() % CU_WARP == 0)
		most[cu_thread() / CU_WARP] = all;
	CU_SYNC(); /* all warps' are written */
	for (int w = 0; w < CU_WARPS; w++)
		all = most[w] > all ? most[w] : all;
	return k_float(all);
}

/* k_count_near_zero() of a row. */
CU_FN void cu_row_near_zero(
	const float *x, int32_t dim, float largest, int32_t count[CU_WARPS][K_NEAR], int32_t *near_zero)
{
	int32_t n[K_NEAR] = { 0 };

	for (int32_t i = cu_thread(); i < dim; i += CU_THREADS) {
		const float size = k_float(cu_size_bits(x[i]));

		CU_UNROLL
		for (int k = 0; k < K_NEAR; k++)
			n[k] += size < k_near_share(k) * largest;
	}
	CU_UNROLL
	for (int k = 0; k < K_NEAR; k++) {
		const int32_t sum = cu_warp_sum(n[k]);

		if (cu_thread() % CU_WARP == 0)
			count[cu_thread() / CU_WARP][k] = sum;
	}
	CU_SYNC(); /* all warps' are written */
	if (cu_thread() < K_NEAR) {
		int32_t sum = 0;

		for (int w = 0; w < CU_WARPS; w++)
			sum += count[w][cu_thread()];
		near_zero[cu_thread()] = sum;
	}
}

/* The masks, and the values that become 0: a warp for each 32. A thread has the values that it
 * counted. */
CU_FN void cu_row_cut(const struct k_sparse *a, int32_t r, const float *x, float largest)
{
	const int32_t dim = a->a.dim, lane = cu_thread() % CU_WARP;

	for (int32_t at = cu_thread() / CU_WARP * 32; at < dim; at += CU_WARPS * 32) {
		const float v = x[at + lane], size = k_float(cu_size_bits(v));
		const uint32_t bit = (uint32_t) !(size < a->mark * largest) << lane;
		/* a sum of different bits has all of them */
		const uint32_t bits = (uint32_t)cu_warp_sum((int32_t)bit);

		if (a->mask && lane == 0)
			a->mask[(size_t)r * (size_t)(dim / 32) + (size_t)(at / 32)] = bits;
		if (a->least > 0)
			cu_put(&a->a, r, at, lane, size < a->least * largest ? 0.0f : v);
	}
}

/* The row in shared memory, where it fits. */
CU_FN const float *cu_row_copy(const float *x, int32_t dim, float *to)
{
	if (dim > CU_SPARSE_COPY)
		return x;
	cu_fetch_floats(to, x, dim);
	cu_copy_commit();
	cu_copy_wait(0);
	CU_SYNC(); /* all threads' copies are there */
	return to;
}

static __device__ void cu_sparse(const struct cu_part *p)
{
	const struct k_sparse *a = &p->stage->op.u.sparse;
	struct cu_sparse_shared *s = (struct cu_sparse_shared *)(void *)cu_shared_memory();

	for (int32_t r = p->block; r < a->n; r += p->n_blocks) {
		const int32_t observe = a->rows[r].observe;
		const float *x = a->a.x + (size_t)r * (size_t)a->a.dim;
		float largest;

		if (!(a->least > 0) && observe < 0)
			continue;
		CU_SYNC(); /* what the row before left there was read */
		x = cu_row_copy(x, a->a.dim, (float *)(void *)(cu_shared_memory() + CU_SPARSE_AT));
		largest = cu_row_largest(x, a->a.dim, s->most);
		if (observe >= 0)
			cu_row_near_zero(
				x, a->a.dim, largest, s->count, a->near_zero + (size_t)observe * K_NEAR);
		if (a->least > 0 || a->mask)
			cu_row_cut(a, r, x, largest);
	}
}

#endif

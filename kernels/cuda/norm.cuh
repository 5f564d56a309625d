/* Norms and rounding to 8 bits (docs/arithmetic.md, 7 and 4), by warps: lane i holds value i of
 * each 32, like the lanes of rule 7. SwiGLU is glu.cuh. */
#ifndef CUTAWAY_KERNELS_CUDA_NORM_CUH
#define CUTAWAY_KERNELS_CUDA_NORM_CUH

#include "kernels/cuda/bodies.cuh"

/* A value of a warp's lanes, rounded together with theirs. Without branches, so that several blocks
 * can be on their way. */
struct cu_rounded {
	int32_t q;
	float d, sx;
};
CU_FN struct cu_rounded cu_round(float y)
{
	const uint32_t most = cu_warp_max(k_bits(y) & 0x7fffffffu);
	const bool small = most < 0x0d800000u; /* below 2^-100 */
	const bool usual = !small && most < 0x7f800000u;
	const float id = cu_127_over(usual ? k_float(most) : 1.0f);
	const int32_t q = (int32_t)(k_bits(k_fma(usual ? y : 0.0f, id, 0x1.8p23f)) - 0x4B400000u);
	const float d = small ? 0.0f : usual ? k_float(most) * 0x1.020408p-7f : k_float(0x7fc00000u);
	const int32_t sum = cu_warp_sum(q);
	const struct cu_rounded r = { q, d, usual ? d * (float)sum : d };

	return r;
}

CU_FN void cu_put_rounded(
	const struct k_acts *out, size_t first, int32_t lane, const struct cu_rounded *r)
{
	out->q[first + (size_t)lane] = (int8_t)r->q;
	if (lane == 0) {
		out->d[first / K_QBLOCK] = r->d;
		out->sx[first / K_QBLOCK] = r->sx;
	}
}

/* Rounds the values of a warp's lanes: y of lane `lane`, the first of them out's `first`. */
CU_FN void cu_round_block(const struct k_acts *out, size_t first, int32_t lane, float y)
{
	const struct cu_rounded r = cu_round(y);

	cu_put_rounded(out, first, lane, &r);
}

/* Writes value y of lane `lane`, one of the 32 from column `at` of row `row`, in the forms that
 * `out` has. */
CU_FN void cu_put(const struct k_acts *out, int32_t row, int32_t at, int32_t lane, float y)
{
	const size_t first = (size_t)row * (size_t)out->dim + (size_t)at;

	if (out->x && at + lane < out->dim)
		out->x[first + (size_t)lane] = y;
	if (out->q)
		cu_round_block(out, first, lane, y);
}

/* Floats to shared memory, all under way at once where they are aligned: visible after a commit, a
 * wait and a barrier. */
CU_FN void cu_fetch_floats(float *to, const float *from, int32_t n)
{
	if (n % 4 == 0) {
		for (int32_t i = 4 * cu_thread(); i < n; i += 4 * CU_THREADS)
			cu_copy16(to + i, from + i);
		return;
	}
	for (int32_t i = cu_thread(); i < n; i += CU_THREADS)
		to[i] = from[i];
}

CU_FN const float *cu_norm_row(const struct k_norm *a, int32_t row)
{
	return a->x + (size_t)(a->pick ? a->pick[row] : row) * (size_t)a->out.dim;
}

/* 1 / sqrt(mean of squares + eps) of a row, in every lane. The tree is symmetric, so exchanging
 * with the lane h away adds the same two numbers in both. */
CU_FN float cu_norm_scale(const struct k_norm *a, const float *x, int32_t lane)
{
	const int32_t dim = a->out.dim;
	float sum = 0;
	int32_t k = lane;

	for (; k + 7 * 32 < dim; k += 8 * 32) { /* eight loads in flight */
		float v[8];

		CU_UNROLL
		for (int i = 0; i < 8; i++)
			v[i] = x[k + 32 * i];
		CU_UNROLL
		for (int i = 0; i < 8; i++)
			sum = k_fma(v[i], v[i], sum);
	}
	for (; k < dim; k += 32)
		sum = k_fma(x[k], x[k], sum);
	CU_UNROLL
	for (int h = 16; h > 0; h /= 2)
		sum += cu_shuffle_xor_float(sum, h);
	return 1.0f / sqrtf(sum / (float)dim + a->eps);
}

CU_FN float cu_norm_value(
	const struct k_norm *a, const float *x, int32_t row, float scale, int32_t i)
{
	float y;

	if (i >= a->out.dim)
		return 0.0f;
	y = (x[i] * scale) * a->w[i];
	if (a->residual)
		y += a->residual[(size_t)row * (size_t)a->out.dim + (size_t)i];
	return y;
}

/* The values of row `row`, which is at x, in blocks of 32 first, first + step, …, given its scale:
 * a few blocks at once. */
CU_FN void cu_norm_blocks(const struct k_norm *a, const float *x, const struct k_acts *out,
	int32_t row, float scale, int32_t first, int32_t step, int32_t lane)
{
	enum { AT_ONCE = 4 };
	const size_t begin = (size_t)row * (size_t)out->dim;
	struct cu_rounded r[AT_ONCE];
	float y[AT_ONCE];

	CU_NO_UNROLL
	for (int32_t at = first; at * 32 < a->out.dim; at += AT_ONCE * step) {
		CU_UNROLL
		for (int32_t j = 0; j < AT_ONCE; j++)
			y[j] = cu_norm_value(a, x, row, scale, (at + j * step) * 32 + lane);
		CU_UNROLL
		for (int32_t j = 0; out->q && j < AT_ONCE; j++)
			r[j] = cu_round(y[j]);
		CU_UNROLL
		for (int32_t j = 0; j < AT_ONCE; j++) {
			const int32_t k = (at + j * step) * 32;

			if (out->x && k + lane < a->out.dim)
				out->x[begin + (size_t)(k + lane)] = y[j];
			if (out->q && k < a->out.dim)
				cu_put_rounded(out, begin + (size_t)k, lane, &r[j]);
		}
	}
}

/* Many rows: one warp for each row. Few: one block for each row, whose warps all sum it (the same
 * reads, from the L1 cache) and split its blocks of 32. */
static __device__ void cu_norm(const struct cu_part *p)
{
	const struct k_norm *a = &p->stage->op.u.norm;
	const int32_t lane = cu_thread() % CU_WARP, warp = cu_thread() / CU_WARP;
	const bool each = a->n >= 4 * p->n_blocks;
	const int32_t step = each ? p->n_blocks * CU_WARPS : p->n_blocks;

	for (int32_t r = each ? p->block * CU_WARPS + warp : p->block; r < a->n; r += step) {
		const float scale = cu_norm_scale(a, cu_norm_row(a, r), lane);

		cu_norm_blocks(
			a, cu_norm_row(a, r), &a->out, r, scale, each ? 0 : warp, each ? 1 : CU_WARPS, lane);
	}
}

#endif

/* Norms and rounding to 8 bits (docs/arithmetic.md, 7 and 4), by warps: lane i holds value i of
 * each 32, like the lanes of rule 7. SwiGLU is glu.cuh. */
#pragma once

#include "kernels/cuda/bodies.cuh"

/* The factor that rounds a block whose greatest magnitude has these bits, and d; without branches,
 * so that several blocks can be on their way. */
CU_FN float cu_round_factor(uint32_t most, float *d)
{
	const bool small = most < 0x0d800000u; /* below 2^-100 */
	const bool usual = !small && most < 0x7f800000u;
	const float id = cu_127_over(usual ? k_float(most) : 1.0f);

	*d = small ? 0.0f : usual ? k_float(most) * 0x1.020408p-7f : k_float(0x7fc00000u);
	return usual ? id : 0.0f;
}
CU_FN int32_t cu_round_value(uint32_t most, float y, float id)
{
	return (int32_t)(k_bits(k_fma(most < 0x7f800000u ? y : 0.0f, id, 0x1.8p23f)) - 0x4B400000u);
}
CU_FN float cu_round_sum(uint32_t most, float d, int32_t sum)
{
	return most < 0x7f800000u ? d * (float)sum : d;
}

/* Rounds the values of a warp's lanes: y of lane `lane`, the first of them out's `first`. */
CU_FN void cu_round_block(const struct k_acts *out, size_t first, int32_t lane, float y)
{
	const uint32_t most = cu_warp_max(k_bits(y) & 0x7fffffffu);
	float d, id = cu_round_factor(most, &d);
	const int32_t q = cu_round_value(most, y, id), sum = cu_warp_sum(q);

	out->q[first + (size_t)lane] = (int8_t)q;
	if (lane == 0) {
		out->d[first / K_QBLOCK] = d;
		out->sx[first / K_QBLOCK] = cu_round_sum(most, d, sum);
	}
}

/* Writes value y of lane `lane`, one of the 32 from column `at` of row `row`, in the forms that
 * `out` has. */
CU_FN void cu_put(const struct k_acts *out, int32_t row, int32_t at, int32_t lane, float y)
{
	const size_t first = k_index(row, out->dim, at);

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
		CU_NO_UNROLL
		for (int32_t i = 4 * cu_thread(); i < n; i += 4 * CU_THREADS)
			cu_copy16(to + i, from + i);
		return;
	}
	CU_NO_UNROLL
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
		y += a->residual[k_index(row, a->out.dim, i)];
	return y;
}

/* Rounds four blocks, of which `first` is out's number of the first and the others follow at `step`
 * as far as `left`. What a block needs once is computed by one of four lanes. */
CU_FN void cu_round_four(const struct k_acts *out, size_t first, int32_t step, int32_t left,
	int32_t lane, const float y[4])
{
	const int32_t own_block = (lane & 3) * step;
	uint32_t most[4], sum[4], own;
	float d, id;

	CU_UNROLL
	for (int32_t j = 0; j < 4; j++)
		most[j] = cu_warp_max(k_bits(y[j]) & 0x7fffffffu);
	own = cu_pick(most, lane);
	id = cu_round_factor(own, &d);
	CU_UNROLL
	for (int32_t j = 0; j < 4; j++) {
		const int32_t q = cu_round_value(most[j], y[j], cu_shuffle_float(id, j));

		sum[j] = (uint32_t)cu_warp_sum(q);
		if (j * step < left)
			out->q[(first + (size_t)(j * step)) * K_QBLOCK + (size_t)lane] = (int8_t)q;
	}
	if (lane < 4 && own_block < left) {
		out->d[first + (size_t)own_block] = d;
		out->sx[first + (size_t)own_block] = cu_round_sum(own, d, (int32_t)cu_pick(sum, lane));
	}
}

/* The values of row `row`, which is at x, in blocks of 32 first, first + step, …; scale: the row's.
 */
CU_FN void cu_norm_blocks(const struct k_norm *a, const float *x, const struct k_acts *out,
	int32_t row, float scale, int32_t first, int32_t step, int32_t lane)
{
	const int32_t n_blocks = k_pieces(a->out.dim, K_QBLOCK);
	const size_t begin = (size_t)row * (size_t)out->dim;
	float y[4];

	CU_NO_UNROLL
	for (int32_t b = first; b < n_blocks; b += 4 * step) {
		CU_UNROLL
		for (int32_t j = 0; j < 4; j++) {
			const int32_t k = (b + j * step) * K_QBLOCK + lane;

			y[j] = cu_norm_value(a, x, row, scale, k);
			if (out->x && k < a->out.dim)
				out->x[begin + (size_t)k] = y[j];
		}
		if (out->q)
			cu_round_four(out, begin / K_QBLOCK + (size_t)b, step, n_blocks - b, lane, y);
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

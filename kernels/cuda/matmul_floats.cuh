/* Float weights in registers: chains over 64 columns (docs/arithmetic.md, 6). A lane has a row of a
 * segment; a warp takes a tile's two segments. A value costs a conversion (none for F32) and one
 * multiply-add for each row of activations; activations are read 16 bytes at a time, two addresses
 * in a warp. */
#pragma once

#include "kernels/cuda/bodies.cuh"
#include "kernels/cuda/layout.h"

enum { CU_FLOAT_STEPS = 16 }; /* 16-byte pieces of a segment: F32's; the others have half of it */

struct cu_floats {
	uint32_t word[CU_FLOAT_STEPS * 4];
};

CU_FN int32_t cu_float_steps(const int32_t type)
{
	return CU_SEGMENT / cu_float_step(type);
}

/* Loads pair `pair` of segments of a tile (NULL: nothing). */
CU_FN void cu_floats_load(const int32_t type, int32_t n_segments, const unsigned char *tile,
	int32_t pair, int32_t lane, struct cu_floats *v)
{
	const int32_t segment = pair * 2 + lane / 16;
	const int32_t steps = cu_float_steps(type);

	if (!tile || segment >= n_segments)
		return;
	tile += cu_float_at(type, n_segments, segment, lane % 16, 0);
	CU_UNROLL
	for (int32_t i = 0; i < CU_FLOAT_STEPS; i++)
		if (i < steps) {
			const uint4 w =
				cu_stream16(tile + (size_t)i * ((segment | 1) == n_segments ? 256 : 512));

			v->word[4 * i] = w.x;
			v->word[4 * i + 1] = w.y;
			v->word[4 * i + 2] = w.z;
			v->word[4 * i + 3] = w.w;
		}
}

/* Value k of the lane's segment. */
CU_FN float cu_float_value(const int32_t type, const struct cu_floats *v, const int32_t k)
{
	if (type == K_F32)
		return k_float(v->word[k]);
	if (type == K_BF16)
		return k_float(k % 2 ? v->word[k / 2] & 0xffff0000u : v->word[k / 2] << 16);
	return cu_f16((uint16_t)(v->word[k / 2] >> k % 2 * 16));
}

/* Multiplies the whole segment by `count` rows of activations, one chain for each. x[i]: row i at
 * the segment. */
CU_FN void cu_floats_chain(const int32_t type, const int32_t count, const struct cu_floats *v,
	const float *const x[], float sum[])
{
	CU_UNROLL
	for (int32_t i = 0; i < count; i++)
		sum[i] = 0.0f;
	CU_UNROLL
	for (int32_t k = 0; k < CU_SEGMENT; k += 4) {
		const float w0 = cu_float_value(type, v, k), w1 = cu_float_value(type, v, k + 1);
		const float w2 = cu_float_value(type, v, k + 2), w3 = cu_float_value(type, v, k + 3);

		CU_UNROLL
		for (int32_t i = 0; i < count; i++) {
			const float4 f = *(const float4 *)(const void *)(x[i] + k);

			sum[i] = k_fma(w0, f.x, sum[i]);
			sum[i] = k_fma(w1, f.y, sum[i]);
			sum[i] = k_fma(w2, f.z, sum[i]);
			sum[i] = k_fma(w3, f.w, sum[i]);
		}
	}
}

/* A segment that is short, or whose activations are not aligned. */
CU_FN float cu_floats_short(
	const int32_t type, const struct cu_floats *v, const float *x, int32_t count)
{
	float sum = 0.0f;

	CU_UNROLL
	for (int32_t k = 0; k < CU_SEGMENT; k++)
		if (k < count)
			sum = k_fma(cu_float_value(type, v, k), x[k], sum);
	return sum;
}

/* Sums of the warp's two segments, for n rows, at most 8, from `first`, to a region of
 * matmul_few.cuh. */
CU_FN void cu_floats_sums(const int32_t type, int32_t n_cols, int32_t pair, const struct k_acts *in,
	int32_t first, int32_t n, int32_t lane, const struct cu_floats *v, float *region,
	int32_t stride)
{
	const int32_t segment = pair * 2 + lane / 16;
	const int32_t left = n_cols - segment * CU_SEGMENT;
	const bool whole = n_cols % CU_SEGMENT == 0; /* then rows are aligned too */
	const float *x = in->x + k_index(first, in->dim, segment * CU_SEGMENT);
	const int32_t last = n - 1;
	float *out = region + lane / 16 * stride; /* [row][16], swizzled as there */

	if (left <= 0)
		return;
	if (!whole) {
		CU_NO_UNROLL
		for (int32_t i = 0; i <= last; i++)
			out[(i * 16) + (lane % 16 ^ (i << 2 & 8))] =
				cu_floats_short(type, v, x + (size_t)i * (size_t)in->dim, left);
		return;
	}
	CU_NO_UNROLL
	for (int32_t i = 0; i <= last; i += 4) {
		const float *rows[4];
		float sum[4] = { 0.0f, 0.0f, 0.0f, 0.0f };

		CU_UNROLL
		for (int32_t j = 0; j < 4; j++)
			rows[j] = x + (size_t)k_min(i + j, last) * (size_t)in->dim;
		if (last == 0)
			cu_floats_chain(type, 1, v, rows, sum);
		else
			cu_floats_chain(type, 4, v, rows, sum);
		CU_UNROLL
		for (int32_t j = 0; j < 4; j++)
			if (i + j <= last)
				out[(i + j) * 16 + (lane % 16 ^ ((i + j) << 2 & 8))] = sum[j];
	}
}

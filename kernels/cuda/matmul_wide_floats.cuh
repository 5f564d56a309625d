/* Matrix products of many rows by float weights (docs/arithmetic.md, 6): no tensor cores, since
 * rule 6 requires a chain of 64 multiply-adds. A unit is 8 tiles of 16 outputs, one a warp, by 16
 * rows of activations; a lane multiplies its row of one of two segments by all 16, from shared
 * memory, to which two segments' columns of the rows come by cp.async, double-buffered. Then lanes
 * 16 apart exchange their sums of the two segments, so that each adds both, in order, to half of
 * the sums.
 *
 * What bounds it: 8 columns and 16 rows take 8 conversions, 32 loads of 16 bytes and 128
 * multiply-adds a lane: at best 76 % of the multiply-adds of the float units, 25 tera a second on
 * an H200. */
#pragma once

#include "kernels/cuda/matmul_floats.cuh"
#include "kernels/cuda/plan.h"

enum {
	CU_WF_COLUMNS = 2 * CU_SEGMENT,
	CU_WF_ROW = CU_WF_COLUMNS + 4, /* floats; rows and segments then begin on different banks */
	CU_WF_BUFFER = CU_FLOAT_ROWS * CU_WF_ROW,
};

/* A unit; the same in all threads of the block. */
struct cu_wf {
	const struct cu_product *a;
	int32_t part, n_cols;
	int32_t tile, token;
};

CU_FN float *cu_wf_buffer(int32_t buffer)
{
	return (float *)(void *)cu_shared_memory() + buffer * CU_WF_BUFFER;
}

/* Copies the columns of pair `pair` of segments of the unit's rows, as far as they exist. Rows
 * whose stride is not a multiple of four floats go through registers. */
CU_FN void cu_wf_copy(const struct cu_wf *w, int32_t pair, int32_t buffer)
{
	const int32_t first = pair * CU_WF_COLUMNS, left = w->n_cols - first;
	const int32_t count = k_min(left, CU_WF_COLUMNS);
	const float *x = w->a->in.x + k_index(w->token, w->a->in.dim, first);
	float *to = cu_wf_buffer(buffer);

	if (w->n_cols % 4) {
		for (int32_t i = cu_thread(); i < CU_FLOAT_ROWS * CU_WF_COLUMNS; i += CU_THREADS) {
			const int32_t row = i / CU_WF_COLUMNS, k = i % CU_WF_COLUMNS;

			if (k < count && w->token + row < w->a->n)
				to[row * CU_WF_ROW + k] = x[k_index(row, w->a->in.dim, k)];
		}
		return;
	}
	for (int32_t i = cu_thread(); i < CU_FLOAT_ROWS * CU_WF_COLUMNS / 4; i += CU_THREADS) {
		const int32_t row = i / (CU_WF_COLUMNS / 4), k = i % (CU_WF_COLUMNS / 4) * 4;

		if (k < count && w->token + row < w->a->n)
			cu_copy16(to + row * CU_WF_ROW + k, x + k_index(row, w->a->in.dim, k));
	}
}

/* Chains over the lane's segment for rows 0 … 15, four at a time; rows after the last are not
 * read. */
CU_FN void cu_wf_sums(const int32_t type, const struct cu_floats *v, const float *x, int32_t left,
	int32_t rows, float sum[CU_FLOAT_ROWS])
{
	CU_UNROLL
	for (int32_t i = 0; i < CU_FLOAT_ROWS; i += 4) {
		const float *at[4];

		if (i >= rows)
			break;
		CU_UNROLL
		for (int32_t j = 0; j < 4; j++)
			at[j] = x + (i + j < rows ? i + j : rows - 1) * CU_WF_ROW;
		if (left >= CU_SEGMENT) {
			cu_floats_chain(type, 4, v, at, sum + i);
			continue;
		}
		CU_UNROLL
		for (int32_t j = 0; j < 4; j++)
			sum[i + j] = cu_floats_short(type, v, at[j], left);
	}
}

/* Adds the two segments' sums of 16 rows to total: lane < 16 keeps rows 2 i, the other 2 i + 1. */
CU_FN void cu_wf_add(
	const float sum[CU_FLOAT_ROWS], bool second, bool upper, float total[CU_FLOAT_ROWS / 2])
{
	CU_UNROLL
	for (int32_t i = 0; i < CU_FLOAT_ROWS / 2; i++) {
		const float own = upper ? sum[2 * i + 1] : sum[2 * i];
		const float other = cu_shuffle_xor_float(upper ? sum[2 * i] : sum[2 * i + 1], 16);

		total[i] += upper ? other : own;
		if (second)
			total[i] += upper ? own : other;
	}
}

CU_FN void cu_wf_store(
	const struct cu_wf *w, int32_t tile, int32_t lane, const float total[CU_FLOAT_ROWS / 2])
{
	const int32_t n_rows = w->a->part[w->part].n_rows, o = tile * CU_TILE_ROWS + lane % 16;
	const float *bias = w->a->part[w->part].bias, *residual = w->a->part[w->part].residual;

	CU_UNROLL
	for (int32_t i = 0; i < CU_FLOAT_ROWS / 2; i++) {
		const int32_t token = w->token + 2 * i + lane / 16;
		const size_t at = k_index(token, n_rows, o);
		float y = total[i];

		if (o >= n_rows || token >= w->a->n)
			continue;
		if (bias)
			y += bias[o];
		if (residual)
			y += residual[at];
		w->a->part[w->part].out[at] = y;
	}
}

CU_FN void cu_wf_unit(
	const int32_t type, const struct cu_product *a, int32_t part, int32_t first, int32_t token)
{
	const struct cu_wf unit = { a, part, a->n_cols, first, token }, *w = &unit;
	const int32_t lane = cu_thread() % CU_WARP, tile = w->tile + cu_thread() / CU_WARP;
	const int32_t n_segments = cu_segments(w->n_cols), n_pairs = k_pieces(n_segments, 2);
	const int32_t rows = k_min(w->a->n - w->token, CU_FLOAT_ROWS);
	const unsigned char *weights =
		tile < cu_tiles(a->part[part].n_rows)
			? a->part[part].weights + (size_t)tile * cu_tile_bytes(type, w->n_cols)
			: (const unsigned char *)0;
	float total[CU_FLOAT_ROWS / 2] = { 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f };

	cu_wf_copy(w, 0, 0);
	cu_copy_commit();
	for (int32_t pair = 0; pair < n_pairs; pair++) {
		const int32_t left = w->n_cols - (2 * pair + lane / 16) * CU_SEGMENT;
		float sum[CU_FLOAT_ROWS] = { 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f,
			0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f };
		struct cu_floats v;

		cu_floats_load(type, n_segments, weights, pair, lane, &v);
		cu_copy_wait(0);
		CU_SYNC();
		if (pair + 1 < n_pairs)
			cu_wf_copy(w, pair + 1, (pair + 1) & 1);
		cu_copy_commit();
		if (!weights)
			continue;
		if (left > 0)
			cu_wf_sums(type, &v, cu_wf_buffer(pair & 1) + lane / 16 * CU_SEGMENT, left, rows, sum);
		cu_wf_add(sum, 2 * pair + 1 < n_segments, lane >= 16, total);
	}
	if (weights)
		cu_wf_store(w, tile, lane, total);
}

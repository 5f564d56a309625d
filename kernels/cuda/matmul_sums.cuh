/* The exact sums of a product of few rows, and what its blocks walk over (matmul_few.cuh). */
#pragma once

#include "kernels/cuda/matmul_floats.cuh"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/weights.cuh"

/* Rows of activations that shared memory has room for: 1 << this. */
CU_FN int32_t cu_few_log(const struct cu_product *a, const bool one)
{
	return one ? 0 : a->log_rows;
}

/* Shared memory, twice: sums [warp][block or segment, and of two terms each][row][16]; scales
 * [warp] [block][16] of (dw, mw); activations' (d, sx) [warp][block][row]. Warps that share a tile
 * are neighbours, so that a tile's blocks of a turn follow one another. Of one row by 8 bits, where
 * the chain is the longest part, [16][sums_stride] and [16][scales_stride] of the same: then it
 * reads four blocks in 16 bytes. The strides keep eight rows out of each other's banks. */
/* Floats from a block's sums (of two terms, from those of one) to the next one's; likewise (dw,
 * mw). */
CU_FN int32_t cu_few_step(const int32_t type, const bool one, const struct cu_product *a)
{
	return cu_is_turned(type, one) ? 1 : CU_TILE_ROWS << cu_few_log(a, one);
}
CU_FN int32_t cu_few_scales_step(const int32_t type, const bool one)
{
	return cu_is_turned(type, one) ? 1 : CU_TILE_ROWS;
}
CU_FN float *cu_few_sums_at(
	const int32_t type, const struct cu_product *a, const bool one, int32_t buffer, int32_t slot)
{
	return (float *)(void *)cu_shared_memory() + buffer * a->buffer_floats +
		   slot * cu_few_step(type, one, a);
}
CU_FN float2 *cu_few_scales_at(const int32_t type, const struct cu_product *a, const bool one,
	int32_t buffer, int32_t block, int32_t row)
{
	return (float2 *)(void *)((float *)(void *)cu_shared_memory() + buffer * a->buffer_floats +
							  a->scales_at) +
		   block * cu_few_scales_step(type, one) +
		   row * (cu_is_turned(type, one) ? a->scales_stride : 1);
}
CU_FN float2 *cu_few_acts_at(
	const struct cu_product *a, const bool one, int32_t buffer, int32_t block)
{
	return (float2 *)(void *)((float *)(void *)cu_shared_memory() + buffer * a->buffer_floats +
							  a->acts_at) +
		   (block << cu_few_log(a, one));
}
/* Swizzled, since lanes of one row g write columns 2 t: two of those share a bank instead of
 * four. */
CU_FN int32_t cu_few_sum(
	const int32_t type, const bool one, const struct cu_product *a, int32_t column, int32_t row)
{
	if (cu_is_turned(type, one))
		return row * a->sums_stride;
	return column * CU_TILE_ROWS + (row ^ (column << 2 & 8));
}

/* Sums of a block of weights; of two, the second is that of its minima. */
CU_FN int32_t cu_few_terms(const int32_t type)
{
	return k_has_two_terms(type) ? 2 : 1;
}

/* A block's position: a unit, a turn of it, and what follows from these. */
struct cu_spot {
	int32_t unit, turn;
	int32_t part, tile;           /* the unit's first */
	int32_t in_row, out_row;      /* first row of activations and of outputs */
	int32_t expert;               /* or 0 */
	const unsigned char *weights; /* of the warp's tile; NULL: it has none */
};

CU_FN int32_t cu_few_part(const struct cu_product *a, const struct cu_spot *at, int32_t tile)
{
	return a->joins ? tile >> 1 : at->part;
}
CU_FN int32_t cu_few_tile(const struct cu_product *a, const struct cu_spot *at, int32_t tile)
{
	return at->tile + (a->joins ? tile & 1 : tile);
}
CU_FN int32_t cu_few_log_sharers(const struct cu_product *a)
{
	return 3 - a->log_tiles;
}

/* Sets the rest of `at` from its unit, at its first turn. */
CU_FN void cu_few_settle(
	const int32_t type, const bool one, const struct cu_product *a, struct cu_spot *at)
{
	const int32_t own = cu_thread() / CU_WARP >> cu_few_log_sharers(a);
	int32_t group = 0, unit = at->unit, tile, part;
	const unsigned char *w;

	if (!one && a->groups > 1) {
		group = unit / a->units;
		unit -= group * a->units;
	}
	at->turn = 0;
	at->part = 0;
	while (at->part + 1 < a->n_parts && unit >= a->part[at->part].units)
		unit -= a->part[at->part++].units;
	at->tile = a->joins ? unit << 1 : unit << a->log_tiles;
	at->out_row = one ? 0 : group * a->rows;
	at->in_row = one ? 0 : !a->w || a->each ? at->out_row : group / a->k;
	at->expert = !one && a->w && at->out_row < a->n ? a->ids[group] : 0;
	tile = cu_few_tile(a, at, own);
	part = cu_few_part(a, at, own);
	at->weights = (const unsigned char *)0;
	if (at->unit >= a->units * a->groups || tile * CU_TILE_ROWS >= a->part[part].n_rows)
		return;
	w = !one && a->w ? (const unsigned char *)a->w[at->expert].data : a->part[part].weights;
	at->weights = w + (size_t)tile * cu_tile_bytes(type, a->n_cols);
}

/* The first pair of the warp in the turn. */
CU_FN int32_t cu_few_first(const struct cu_product *a, const struct cu_spot *at)
{
	const int32_t log_sharers = cu_few_log_sharers(a);
	const int32_t sharer = cu_thread() / CU_WARP & ((1 << log_sharers) - 1);

	return ((at->turn << log_sharers) + sharer) * a->count;
}

/* Blocks of 32 columns, or segments; pairs of them. */
CU_FN int32_t cu_few_units(const int32_t type, const struct cu_product *a)
{
	return cu_is_float(type) ? cu_segments(a->n_cols) : a->n_cols / K_QBLOCK;
}
CU_FN int32_t cu_few_pairs(const int32_t type, const struct cu_product *a)
{
	return (cu_few_units(type, a) + 1) / 2;
}

/* A lane's weights of a turn, in registers, and (float weights have none of those) scales. */
struct cu_held {
	struct cu_pair pair[CU_TURN];
	struct cu_row_scales scales;
	struct cu_floats values;
};

CU_FN void cu_few_prefetch(
	const int32_t type, const struct cu_product *a, const struct cu_spot *at, struct cu_held *h)
{
	const int32_t lane = cu_thread() % CU_WARP, first = cu_few_first(a, at);
	const int32_t n_pairs = cu_few_pairs(type, a);

	if (!at->weights)
		return;
	if (cu_is_float(type)) {
		cu_floats_load(type, cu_few_units(type, a), at->weights, first, lane, &h->values);
		return;
	}
	CU_UNROLL
	for (int32_t u = 0; u < CU_TURN; u++)
		if (u < a->count && first + u < n_pairs) {
			cu_load_pair(type, at->weights, n_pairs, first + u, lane, &h->pair[u]);
			cu_load_entry(
				type, at->weights + cu_scales_at(type, n_pairs), first + u, lane, u, &h->scales);
		}
}

/* ---- sums ---- */

CU_FN int32_t cu_few_rows(const struct cu_product *a, const bool one, const struct cu_spot *at)
{
	if (one)
		return 1;
	return k_min(a->n - at->out_row, a->rows);
}

/* Stores d and sx of the turn's blocks. */
CU_FN void cu_few_put_acts(const struct cu_product *a, const struct k_acts *in,
	const struct cu_spot *at, int32_t first, int32_t buffer)
{
	const int32_t lane = cu_thread() % CU_WARP, n = 2 * a->count, in_row = a->n_cols / K_QBLOCK;
	const int32_t rows = cu_few_rows(a, false, at);
	float2 *out = cu_few_acts_at(a, false, buffer, cu_thread() / CU_WARP * n);

	CU_NO_UNROLL
	for (int32_t k = lane; k < n * rows; k += CU_WARP) {
		const int32_t r = k / n, block = k - r * n;
		const size_t i = k_index(at->in_row + r, in_row, first * 2 + block);

		if (first * 2 + block < in_row)
			out[(block << a->log_rows) + r] = make_float2(in->d[i], in->sx[i]);
	}
}

/* sums: those of the block, at the lane's row g and first column; row g + 8 is in the other half of
 * 16. */
CU_FN void cu_few_put_sums(bool first, bool second, const float f[4], float *sums, float *other)
{
	if (first) {
		sums[0] = f[0];
		other[0] = f[2];
	}
	if (second) {
		sums[CU_TILE_ROWS] = f[1];
		other[CU_TILE_ROWS] = f[3];
	}
}

/* The pairs of the turn: all loads of activations first, so that they overlap. Results for blocks
 * beyond the end are computed from others and never read. */
CU_FN void cu_few_sums_of(const int32_t type, const bool one, const struct cu_product *a,
	const struct k_acts *in, const struct cu_spot *at, int32_t first, const struct cu_held *h,
	int32_t buffer)
{
	const int32_t lane = cu_thread() % CU_WARP, warp = cu_thread() / CU_WARP;
	const int32_t rows = cu_few_rows(a, one, at), last = a->n_cols / K_QBLOCK - 1;
	const int32_t column = one ? 0 : lane / 4 < rows ? lane / 4 : rows - 1;
	const int32_t terms = cu_few_terms(type), step = cu_few_step(type, one, a);
	const int32_t scales_step = cu_few_scales_step(type, one);
	const int8_t *row = in->q + (size_t)(at->in_row + column) * (size_t)a->n_cols;
	float2 *scales = cu_few_scales_at(
		type, a, one, buffer, warp * 2 * a->count + (lane & 1), lane / 4 + (lane & 2) * 4);
	float *region = cu_few_sums_at(type, a, one, buffer, warp * 2 * a->count * terms);
	float *sums = region + cu_few_sum(type, one, a, lane % 4 * 2, lane / 4);
	float *other = region + cu_few_sum(type, one, a, lane % 4 * 2, lane / 4 + 8);
	const bool put = lane % 4 * 2 < rows, two = !one && lane % 4 * 2 + 1 < rows;
	const int32_t n_pairs = cu_few_pairs(type, a);
	uint32_t q[2 * CU_TURN][2], sub[2];
	float f[4];

	CU_UNROLL
	for (int32_t i = 0; i < 2 * CU_TURN; i++)
		if (i < 2 * a->count)
			cu_load_q(type, row, k_min(first * 2 + i, last), lane, q[i]);
	CU_UNROLL
	for (int32_t u = 0; u < CU_TURN; u++) {
		const int32_t i = (first + u) % CU_SUPER_PAIRS;

		if (u >= a->count || first + u >= n_pairs)
			break;
		scales[2 * u * scales_step] = cu_lane_entry(type, &h->scales, i, lane, u);
		CU_UNROLL
		for (int32_t b = 0; b < 2; b++) {
			const int32_t to = (2 * u + b) * terms * step;

			sub[0] = cu_sub_scales(type, h->scales.w, i) >> 16 * b;
			sub[1] = cu_sub_scales(type, h->scales.w + 4, i) >> 16 * b;
			cu_block_sums(type, &h->pair[u], b, q[2 * u + b], sub, f);
			cu_few_put_sums(put, two, f, sums + to, other + to);
			if (terms == 1)
				continue;
			sub[0] = cu_sub_minima(h->scales.w, i) >> 16 * b;
			sub[1] = cu_sub_minima(h->scales.w + 4, i) >> 16 * b;
			cu_minima_sums(q[2 * u + b], sub, f);
			cu_few_put_sums(put, two, f, sums + to + step, other + to + step);
		}
	}
}

CU_FN void cu_few_sums(const int32_t type, const bool one, const struct cu_product *a,
	const struct k_acts *in, const struct cu_spot *at, const struct cu_held *h, int32_t buffer)
{
	const int32_t first = cu_few_first(a, at), warp = cu_thread() / CU_WARP;

	if (!at->weights || first >= cu_few_pairs(type, a))
		return;
	if (cu_is_float(type)) {
		cu_floats_sums(type, a->n_cols, first, in, at->in_row, cu_few_rows(a, one, at),
			cu_thread() % CU_WARP, &h->values, cu_few_sums_at(type, a, one, buffer, 2 * warp),
			CU_TILE_ROWS << cu_few_log(a, one));
		return;
	}
	if (!one)
		cu_few_put_acts(a, in, at, first, buffer);
	cu_few_sums_of(type, one, a, in, at, first, h, buffer);
}

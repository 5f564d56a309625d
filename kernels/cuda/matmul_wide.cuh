/* Matrix products of many rows: prefill, and batches (docs/arithmetic.md, 5).
 *
 * A unit is 8, 4, 2 or 1 tiles of 16 outputs by up to 64 rows of activations; the 8 warps form a
 * grid over it, tiles first, and each multiplies one tile by `groups` (8 or 2) groups of 8 rows
 * over all columns, with the chains in registers in the order of the tensor cores' results. Weights
 * come straight from memory to registers, in fragment order; activations by cp.async to shared
 * memory, which all warps read, in chunks of two pairs of blocks, double-buffered: one barrier for
 * each chunk.
 *
 * What bounds it: a product of 16 x 8 outputs over a block of 32 is one instruction of the tensor
 * cores, and 4 results in each lane, which rule 5 scales and adds one by one: a subtraction, a
 * product and a multiply-add, with a minimum one more; 12 or 16 instructions, beside two loads (8
 * and 16 bytes). Unpacking and scales, about 18 a block, are shared by the warp's groups. So Q4_1
 * with 8 groups takes 8 * 19 + 18 = 170 issue slots for 32,768 multiply-adds (178 to 199 in the
 * SASS): 771 a cycle and multiprocessor, 1.8e14 a second on an H200 (132 at 1.75 GHz); without a
 * minimum 8 * 15 + 14 = 134: 2.3e14. The tensor cores would allow 5e14; rows of 576 columns leave
 * 20 % to starts and ends of units. */
#pragma once

#include "kernels/cuda/matmul_wide_floats.cuh"
#include "kernels/cuda/weights.cuh"

enum {
	CU_CHUNK_PAIRS = 2,
	CU_CHUNK = 2 * CU_CHUNK_PAIRS, /* blocks of 32 */
	/* A chunk in shared memory: bytes [block][row][32], with 32 more between blocks, so that the
	 * 16-byte copies of one row's blocks fall on different banks; then (d, sx) [block][row]. */
	CU_CHUNK_Q = CU_CHUNK * (CU_WIDE_ROWS * K_QBLOCK + K_QBLOCK),
	CU_CHUNK_BYTES = CU_CHUNK_Q + CU_CHUNK * CU_WIDE_ROWS * 8,
};

/* The current unit of a block. */
struct cu_wide {
	const struct cu_product *a;
	int32_t part, n_blocks, n_pairs; /* blocks of 32, and pairs of them, of a row */
	int32_t tile, token;             /* the unit's first */
};

/* A lane's weights of a pair, and the scales of rows g and g + 8; without sub-scales w has those of
 * the rows' blocks, one after the other. */
struct cu_wide_held {
	struct cu_pair pair;
	struct cu_row_scales scales;
};

CU_FN void cu_wide_load(const int32_t type, const unsigned char *tile, int32_t n_pairs,
	int32_t pair, struct cu_wide_held *h)
{
	const int32_t lane = cu_thread() % CU_WARP, g = lane / 4;
	const unsigned char *at =
		tile + (uint32_t)(n_pairs * (cu_code_bytes(type) + cu_high_bytes(type)));

	if (pair >= n_pairs)
		return;
	cu_load_pair(type, tile, n_pairs, pair, lane, &h->pair);
	if (k_has_subs(type)) {
		at += (uint32_t)(pair / CU_SUPER_PAIRS * CU_SUPER_PAIRS * cu_scale_bytes(type));
		cu_load_rows(type, at, g, &h->scales);
		return;
	}
	at += (uint32_t)(pair * cu_scale_bytes(type));
	if (k_entry_bytes(type) == 4) {
		cu_hold16(at + g * 16, h->scales.w);
	} else if (k_entry_bytes(type) == 2) {
		const uint2 v = cu_stream8(at + g * 8);

		h->scales.w[0] = v.x;
		h->scales.w[1] = v.y;
	} else {
		h->scales.w[0] = cu_stream4(at + g * 4);
	}
}

/* dw and mw of row (g, half), block b of the pair, which is pair `of_four` of four. */
CU_FN void cu_wide_scale(const int32_t type, const struct cu_wide_held *h, int32_t of_four,
	const int32_t half, const int32_t b, float *dw, float *mw)
{
	const int32_t bit = 8 * k_entry_bytes(type) * (2 * half + b);

	if (k_has_subs(type))
		cu_row_entry(
			type, h->scales.w + 4 * half, cu_row_d(type, &h->scales, half), of_four, b, dw, mw);
	else
		cu_plain_entry(type, h->scales.w[bit / 32] >> bit % 32, dw, mw);
}

CU_FN unsigned char *cu_wide_buffer(int32_t buffer)
{
	return cu_shared_memory() + buffer * CU_CHUNK_BYTES;
}
CU_FN float2 *cu_wide_acts(int32_t buffer)
{
	return (float2 *)(void *)(cu_wide_buffer(buffer) + CU_CHUNK_Q);
}

/* The bytes of a chunk of the unit's rows, by cp.async. The last row is repeated after the end: the
 * tensor cores take eight, and results of missing rows are not used. */
CU_FN void cu_wide_copy(const struct cu_wide *w, int32_t first_block, int32_t buffer)
{
	/* a thread always has the same columns of a row */
	const int32_t block = cu_thread() / 2 % CU_CHUNK, half = cu_thread() % 2;
	const int32_t rows = k_min(w->a->n - w->token, w->a->rows);
	const int8_t *q = w->a->in.q + (size_t)w->token * (size_t)w->a->in.dim +
					  (first_block + block) * K_QBLOCK + half * 16;
	unsigned char *to =
		cu_wide_buffer(buffer) + block * (CU_WIDE_ROWS * K_QBLOCK + K_QBLOCK) + half * 16;

	if (first_block + block < w->n_blocks) {
		CU_NO_UNROLL
		for (int32_t row = cu_thread() / (CU_CHUNK * 2); row < w->a->rows;
			 row += CU_THREADS / (CU_CHUNK * 2))
			cu_copy16(to + row * K_QBLOCK,
				q + (size_t)(row < rows ? row : rows - 1) * (size_t)w->a->in.dim);
	}
	cu_copy_commit();
}

/* One (d, sx) of the chunk for each thread: loaded a chunk ahead, then stored. */
CU_FN float2 cu_wide_prefetch_acts(const struct cu_wide *w, int32_t first_block)
{
	const int32_t row = cu_thread() / CU_CHUNK, block = first_block + cu_thread() % CU_CHUNK;
	const size_t i = k_index(w->token + row, w->a->in.dim / K_QBLOCK, block);

	if (row >= w->a->rows || w->token + row >= w->a->n || block >= w->n_blocks)
		return make_float2(0.0f, 0.0f);
	return make_float2(w->a->in.d[i], w->a->in.sx[i]);
}
CU_FN void cu_wide_put_acts(const struct cu_wide *w, float2 v, int32_t buffer)
{
	const int32_t row = cu_thread() / CU_CHUNK, block = cu_thread() % CU_CHUNK;

	if (row < w->a->rows)
		cu_wide_acts(buffer)[block * CU_WIDE_ROWS + row] = v;
}

/* The warp's chains: [group][cu_mma_k32's results]. */
struct cu_chains {
	float sum[8][4];
};

/* Block `block` of the chunk, b of its pair. Rows of activations from `row` on. */
CU_FN void cu_wide_block(const int32_t type, const int32_t groups, const struct cu_wide_held *h,
	const int32_t block, int32_t of_four, int32_t row, int32_t buffer, struct cu_chains *chains)
{
	const int32_t lane = cu_thread() % CU_WARP, b = block % 2;
	const int8_t *q = (const int8_t *)cu_wide_buffer(buffer) +
					  block * (CU_WIDE_ROWS * K_QBLOCK + K_QBLOCK) + (row + lane / 4) * K_QBLOCK;
	const float2 *acts = cu_wide_acts(buffer) + block * CU_WIDE_ROWS + row + lane % 4 * 2;
	float dw[2], mw[2], f[4], minima[4];
	uint32_t words[2], sub[2], min[2];

	CU_UNROLL
	for (int32_t half = 0; half < 2; half++) {
		cu_wide_scale(type, h, of_four, half, b, &dw[half], &mw[half]);
		sub[half] = cu_sub_scales(type, h->scales.w + 4 * half, of_four) >> 16 * b;
		if (k_has_two_terms(type))
			min[half] = cu_sub_minima(h->scales.w + 4 * half, of_four) >> 16 * b;
	}
	CU_UNROLL
	for (int32_t i = 0; i < groups; i++) {
		const float4 x = *(const float4 *)(const void *)(acts + 8 * i); /* (d, sx) of two columns */

		cu_load_q(type, q + 8 * i * K_QBLOCK, 0, lane, words);
		cu_block_sums(type, &h->pair, b, words, sub, f);
		if (k_has_two_terms(type))
			cu_minima_sums(words, min, minima);
		CU_UNROLL
		for (int32_t r = 0; r < 4; r++) {
			const float d = r % 2 ? x.z : x.x, sx = r % 2 ? x.w : x.y;

			chains->sum[i][r] = k_fma(d, dw[r / 2] * f[r], chains->sum[i][r]);
			if (k_has_two_terms(type))
				chains->sum[i][r] = k_fma(d, mw[r / 2] * minima[r], chains->sum[i][r]);
			else if (k_has_min(type))
				chains->sum[i][r] = k_fma(mw[r / 2], sx, chains->sum[i][r]);
		}
	}
}

CU_FN void cu_wide_store(const int32_t groups, const struct cu_wide *w, int32_t tile, int32_t row,
	const struct cu_chains *chains)
{
	const int32_t lane = cu_thread() % CU_WARP, n_rows = w->a->part[w->part].n_rows;
	const float *bias = w->a->part[w->part].bias, *residual = w->a->part[w->part].residual;
	float *out = w->a->part[w->part].out;

	CU_UNROLL
	for (int32_t i = 0; i < groups; i++) {
		CU_UNROLL
		for (int32_t r = 0; r < 4; r++) {
			const int32_t o = tile * CU_TILE_ROWS + lane / 4 + r / 2 * 8;
			const int32_t token = w->token + row + 8 * i + lane % 4 * 2 + r % 2;
			const size_t at = k_index(token, n_rows, o);
			float y = chains->sum[i][r];

			if (o >= n_rows || token >= w->a->n)
				continue;
			if (bias)
				y += bias[o];
			if (residual)
				y += residual[at];
			out[at] = y;
		}
	}
}

/* One unit. */
CU_FN void cu_wide_unit(const int32_t type, const int32_t groups, const struct cu_wide *w)
{
	const struct cu_product *a = w->a;
	const int32_t warp = cu_thread() / CU_WARP, tile = w->tile + (warp & ((1 << a->log_tiles) - 1));
	const int32_t row = (warp >> a->log_tiles) * groups * CU_GROUP;
	const bool there = tile < cu_tiles(a->part[w->part].n_rows) && w->token + row < a->n;
	const unsigned char *weights =
		a->part[w->part].weights + (size_t)tile * cu_tile_bytes(type, a->n_cols);
	struct cu_wide_held held[CU_CHUNK_PAIRS];
	struct cu_chains chains;
	float2 acts;

	CU_UNROLL
	for (int32_t i = 0; i < 4 * groups; i++)
		chains.sum[i / 4][i % 4] = 0.0f;
	cu_wide_copy(w, 0, 0);
	acts = cu_wide_prefetch_acts(w, 0);
	if (there) {
		cu_wide_load(type, weights, w->n_pairs, 0, &held[0]);
		cu_wide_load(type, weights, w->n_pairs, 1, &held[1]);
	}
	CU_NO_UNROLL
	for (int32_t first = 0, buffer = 0; first < w->n_pairs; first += CU_CHUNK_PAIRS, buffer ^= 1) {
		cu_wide_put_acts(w, acts, buffer);
		cu_copy_wait(0);
		CU_SYNC();
		if (first + CU_CHUNK_PAIRS < w->n_pairs) {
			cu_wide_copy(w, 2 * (first + CU_CHUNK_PAIRS), buffer ^ 1);
			acts = cu_wide_prefetch_acts(w, 2 * (first + CU_CHUNK_PAIRS));
		}
		if (!there)
			continue;
		CU_UNROLL
		for (int32_t i = 0; i < CU_CHUNK; i++) {
			if (2 * first + i < w->n_blocks)
				cu_wide_block(type, groups, &held[i / 2], i, (first + i / 2) % CU_SUPER_PAIRS, row,
					buffer, &chains);
			if (i % 2) /* the pair is done: its registers take the pair two later */
				cu_wide_load(
					type, weights, w->n_pairs, first + i / 2 + CU_CHUNK_PAIRS, &held[i / 2]);
		}
	}
	if (there)
		cu_wide_store(groups, w, tile, row, &chains);
}

CU_FN void cu_wide(const int32_t type, const int32_t groups, const struct cu_product *a)
{
	struct cu_wide w = { a, 0, a->n_cols / K_QBLOCK, k_pieces(a->n_cols / K_QBLOCK, 2), 0, 0 };

	cu_follow();
	cu_note(a->clock);
	CU_NO_UNROLL
	for (int32_t i = cu_block(); i < a->units * a->groups; i += cu_n_blocks()) {
		int32_t unit = i / a->groups;

		w.token = (i - unit * a->groups) * a->rows;
		for (w.part = 0; unit >= a->part[w.part].units; w.part++)
			unit -= a->part[w.part].units;
		w.tile = unit << a->log_tiles;
		if (cu_is_float(type))
			cu_wf_unit(type, a, w.part, w.tile, w.token);
		else
			cu_wide_unit(type, groups, &w);
		CU_SYNC(); /* the buffers are free */
	}
}

#define X(name, ...)                                                                               \
	CU_KERNEL cutaway_wide2_##name(const __grid_constant__ struct cu_product a)                    \
	{                                                                                              \
		if (!cu_is_float(K_##name)) /* whose one way is called wide8 */                            \
			cu_wide(K_##name, 2, &a);                                                              \
	}                                                                                              \
	CU_KERNEL cutaway_wide8_##name(const __grid_constant__ struct cu_product a)                    \
	{                                                                                              \
		cu_wide(K_##name, 8, &a);                                                                  \
	}
K_TYPES(X)
#undef X

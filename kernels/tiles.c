/* See tiles.h. Packing, reading a row back, and the walk over tiles and rows of a matrix product;
 * what a tile's product costs is in matmul_*.c. Thread: called by all threads of a pool; no state
 * but the op's ticket. */
#include "kernels/tiles.h"

#include "kernels/arith.h"

enum {
	ROWS_BYTES = 192 << 10
}; /* activations that are walked at once: they stay in a core's L2 cache */

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

static bool is_quantised(enum k_type type)
{
	return k_types[type].block == K_QBLOCK;
}

static size_t n_scales(enum k_type type)
{
	return type == K_Q4_1 ? 2 : 1;
}

static size_t quant_bytes(enum k_type type)
{
	return type == K_Q8_0 ? K_QBLOCK : K_QBLOCK / 2;
}

size_t k_tile_bytes(enum k_type type, int32_t lanes, int32_t n_cols)
{
	const size_t n_blocks = (size_t)n_cols / K_QBLOCK, l = (size_t)lanes;

	if (!is_quantised(type))
		return round_up((size_t)n_cols * l * (size_t)k_types[type].block_bytes, 64);
	return round_up(round_up(n_blocks, (size_t)k_chunk_blocks(type)) * n_scales(type) * l * 2 +
						n_blocks * quant_bytes(type) * l,
					64);
}

/* Where a block's scales and weights are in a tile. */
struct place {
	uint8_t *scales, *quants;
};

static struct place place_of(const struct k_tiling *t, enum k_type type, uint8_t *tile,
							 int32_t block)
{
	const size_t lanes = (size_t)t->lanes, chunk_blocks = (size_t)k_chunk_blocks(type);
	const size_t scales = n_scales(type) * lanes * 2, quants = quant_bytes(type) * lanes;
	const size_t chunk = (size_t)block / chunk_blocks, i = (size_t)block % chunk_blocks;
	uint8_t *start = tile + chunk * chunk_blocks * (scales + quants);

	return (struct place){
		.scales = start + i * scales,
		.quants = start + chunk_blocks * scales + i * quants,
	};
}

/* GGUF's 4-bit blocks already pair column i with i + 16, so packing only moves groups of four
 * bytes. */
static void pack_quantised_row(const struct k_tiling *t, const struct k_matrix *m,
							   const uint8_t *raw, uint8_t *tile, int32_t lane)
{
	const size_t scale_bytes = n_scales(m->type) * 2, quads = quant_bytes(m->type) / 4;
	const uint32_t flip = m->type == K_Q8_0 ? t->flip_q8 * 0x01010101u : 0;

	for (int32_t b = 0; b < m->n_cols / K_QBLOCK; b++) {
		struct place p = place_of(t, m->type, tile, b);

		for (size_t i = 0; i < n_scales(m->type); i++)
			memcpy(p.scales + (i * (size_t)t->lanes + (size_t)lane) * 2, raw + i * 2, 2);
		for (size_t j = 0; j < quads; j++) {
			uint32_t quad;

			memcpy(&quad, raw + scale_bytes + j * 4, sizeof quad);
			quad ^= flip;
			memcpy(p.quants + (j * (size_t)t->lanes + (size_t)lane) * 4, &quad, sizeof quad);
		}
		raw += k_types[m->type].block_bytes;
	}
}

static void pack_float_row(const struct k_tiling *t, const struct k_matrix *m, const uint8_t *raw,
						   uint8_t *tile, int32_t lane)
{
	const size_t bytes = (size_t)k_types[m->type].block_bytes;

	for (size_t k = 0; k < (size_t)m->n_cols; k++)
		memcpy(tile + (k * (size_t)t->lanes + (size_t)lane) * bytes, raw + k * bytes, bytes);
}

void k_tiles_pack(const struct k_tiling *t, struct k_matrix *m, const void *raw, int tid,
				  int n_threads)
{
	const size_t tile_bytes = k_tile_bytes(m->type, t->lanes, m->n_cols);
	const size_t row_bytes =
		(size_t)(m->n_cols / k_types[m->type].block) * (size_t)k_types[m->type].block_bytes;
	int64_t lo, hi;

	k_split((m->n_rows + t->lanes - 1) / t->lanes, tid, n_threads, &lo, &hi);
	for (int64_t i = lo; i < hi; i++) {
		uint8_t *tile = (uint8_t *)m->data + (size_t)i * tile_bytes;

		memset(tile, 0, tile_bytes);
		for (int32_t lane = 0; lane < t->lanes && i * t->lanes + lane < m->n_rows; lane++) {
			const uint8_t *row = (const uint8_t *)raw + (size_t)(i * t->lanes + lane) * row_bytes;

			if (is_quantised(m->type))
				pack_quantised_row(t, m, row, tile, lane);
			else
				pack_float_row(t, m, row, tile, lane);
		}
	}
}

static float load_half(const uint8_t *p, bool bf16)
{
	uint16_t h;

	memcpy(&h, p, sizeof h);
	return bf16 ? k_bf16_to_f32(h) : k_f16_to_f32(h);
}

static void read_float_row(const struct k_tiling *t, const struct k_matrix *w, const uint8_t *tile,
						   int32_t lane, float *x)
{
	for (int32_t k = 0; k < w->n_cols; k++) {
		size_t i = (size_t)k * (size_t)t->lanes + (size_t)lane;

		if (w->type == K_F32)
			memcpy(x + k, tile + i * 4, sizeof *x);
		else
			x[k] = load_half(tile + i * 2, w->type == K_BF16);
	}
}

static void read_quantised_row(const struct k_tiling *t, const struct k_matrix *w, uint8_t *tile,
							   int32_t lane, float *x)
{
	const int bias = w->type == K_Q4_0 ? 8 : 0;
	const uint8_t flip = t->flip_q8;

	for (int32_t b = 0; b < w->n_cols / K_QBLOCK; b++, x += K_QBLOCK) {
		struct place p = place_of(t, w->type, tile, b);
		float dw = load_half(p.scales + lane * 2, false);
		float mw = w->type == K_Q4_1 ? load_half(p.scales + (t->lanes + lane) * 2, false) : 0.0f;

		for (int i = 0; i < (int)quant_bytes(w->type); i++) {
			uint8_t v = p.quants[(i / 4 * t->lanes + lane) * 4 + i % 4];

			if (w->type == K_Q8_0) {
				x[i] = k_fma(dw, (float)(int8_t)(v ^ flip), mw);
			} else {
				x[i] = k_fma(dw, (float)((v & 15) - bias), mw);
				x[i + 16] = k_fma(dw, (float)((v >> 4) - bias), mw);
			}
		}
	}
}

void k_tiles_embed(const struct k_tiling *t, const struct k_embed *a, int tid, int n_threads)
{
	const struct k_matrix *w = a->w;
	const size_t tile_bytes = k_tile_bytes(w->type, t->lanes, w->n_cols);
	int64_t lo, hi;

	k_split(a->n, tid, n_threads, &lo, &hi);
	for (int64_t r = lo; r < hi; r++) {
		uint8_t *tile = (uint8_t *)w->data + (size_t)(a->ids[r] / t->lanes) * tile_bytes;
		float *x = a->x + (size_t)r * (size_t)w->n_cols;

		if (is_quantised(w->type))
			read_quantised_row(t, w, tile, a->ids[r] % t->lanes, x);
		else
			read_float_row(t, w, tile, a->ids[r] % t->lanes, x);
	}
}

/* The rows' bias and residual, each rounded, then to memory: rule 3. */
static void finish(const struct k_matmul *a, int32_t part, const struct k_tile_call *call,
				   int32_t lanes, int32_t first_row, int32_t first_act)
{
	const struct k_matrix *w = a->part[part].w;
	const int32_t left = w->n_rows - first_row, all = call->n_tiles * lanes;
	const int32_t count = left < all ? left : all;
	const float *bias = a->part[part].bias, *residual = a->part[part].residual;

	for (int32_t r = 0; r < call->n; r++) {
		const size_t at = (size_t)(first_act + r) * (size_t)w->n_rows + (size_t)first_row;
		float *y = call->y + (size_t)r * (size_t)(K_TILE_GROUP * lanes);

		for (int32_t i = 0; bias && i < count; i++)
			y[i] += bias[first_row + i];
		for (int32_t i = 0; residual && i < count; i++)
			y[i] += residual[at + (size_t)i];
		memcpy(a->part[part].out + at, y, (size_t)count * sizeof *y);
	}
}

static void sum_blocks(const int8_t *q, size_t n_blocks, int32_t *sums)
{
	for (size_t b = 0; b < n_blocks; b++) {
		int32_t sum = 0;

		for (int i = 0; i < K_QBLOCK; i++)
			sum += q[b * K_QBLOCK + (size_t)i];
		sums[b] = sum;
	}
}

/* Tiles [tile, tile_end) of a part times all rows: rows in strips that stay cached, and all tiles
 * by a strip before the next one. */
static void multiply(const struct k_tiling *t, const struct k_matmul *a, int32_t part, int32_t tile,
					 int32_t tile_end, int32_t *sums)
{
	const struct k_matrix *w = a->part[part].w;
	const size_t dim = (size_t)a->in.dim, row_bytes = dim * (is_quantised(w->type) ? 1 : 4);
	const int32_t fit = (int32_t)(ROWS_BYTES / row_bytes) / t->max_rows * t->max_rows;
	const int32_t strip = fit > t->max_rows ? fit : t->max_rows;
	_Alignas(64) float y[K_TILE_MAX_ROWS * K_TILE_GROUP * K_TILE_MAX_LANES];
	struct k_tile_call call = {
		.tile_bytes = k_tile_bytes(w->type, t->lanes, w->n_cols),
		.n_cols = w->n_cols,
		.dim = a->in.dim,
		.y = y,
	};

	for (int32_t from = 0; from < a->n; from += strip) {
		int32_t to = a->n - from < strip ? a->n : from + strip;

		if (is_quantised(w->type))
			sum_blocks(a->in.q + (size_t)from * dim, (size_t)(to - from) * dim / K_QBLOCK, sums);
		for (int32_t i = tile; i < tile_end; i += call.n_tiles) {
			call.tile = (const uint8_t *)w->data + (size_t)i * call.tile_bytes;
			call.n_tiles = tile_end - i < K_TILE_GROUP ? tile_end - i : K_TILE_GROUP;
			for (int32_t r = from; r < to; r += call.n) {
				const size_t at = (size_t)r * dim, block = at / K_QBLOCK;

				call.n = to - r < t->max_rows ? to - r : t->max_rows;
				if (is_quantised(w->type)) {
					call.q = a->in.q + at;
					call.d = a->in.d + block;
					call.sx = a->in.sx + block;
					call.sum_q = sums + (size_t)(r - from) * dim / K_QBLOCK;
				} else {
					call.x = a->in.x + at;
				}
				t->fn[w->type](&call);
				finish(a, part, &call, t->lanes, i * t->lanes, r);
			}
		}
	}
}

/* Takes the next tiles: a share of those left, so that large pieces come first and the threads end
 * together (guided self-scheduling, Polychronopoulos and Kuck 1987). Threads differ in speed on a
 * busy machine. */
static int32_t deal(atomic_int *ticket, int32_t n_tiles, int n_threads, int32_t *first)
{
	int taken = atomic_load_explicit(ticket, memory_order_relaxed), count;

	do {
		if (taken >= n_tiles)
			return 0;
		count = n_threads == 1 ? n_tiles : (n_tiles - taken) / (2 * n_threads);
		count = (count + K_TILE_GROUP) / K_TILE_GROUP * K_TILE_GROUP;
		count = count < n_tiles - taken ? count : n_tiles - taken;
	} while (!atomic_compare_exchange_weak_explicit(ticket, &taken, taken + count,
													memory_order_relaxed, memory_order_relaxed));
	*first = taken;
	return count;
}

void k_tiles_matmul(const struct k_tiling *t, struct k_op *op, int n_threads, void *scratch)
{
	const struct k_matmul *a = &op->u.matmul;
	int32_t n_tiles = 0, first, count;

	for (int32_t p = 0; p < a->n_parts; p++)
		n_tiles += (a->part[p].w->n_rows + t->lanes - 1) / t->lanes;
	while ((count = deal(&op->ticket, n_tiles, n_threads, &first)) > 0) {
		for (int32_t p = 0; p < a->n_parts && count > 0; p++) {
			int32_t here = (a->part[p].w->n_rows + t->lanes - 1) / t->lanes;
			int32_t end = first + count < here ? first + count : here;

			if (first < here) {
				multiply(t, a, p, first, end, scratch);
				count -= end - first;
				first = 0;
			} else {
				first -= here;
			}
		}
	}
}

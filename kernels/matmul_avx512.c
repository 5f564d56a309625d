/* Matrix products on AVX-512 with VNNI: a tile is 16 rows, a lane of a vector one row (tiles.h).
 * vpdpbusd multiplies unsigned by signed bytes and adds four products to a 32-bit lane without
 * saturating, so sums are exact: 4-bit weights go in as they are, Q8_0's with 128 added when packed
 * and taken out through the sum of the activations. Thread: called by all threads of a pool; no
 * state. */
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>

#include "kernels/tiles.h"

enum { LANES = 16, MAX_ROWS = 8, SEGMENT = 64, AHEAD = 2560 };

#define INLINE static inline __attribute__((always_inline))

INLINE __m512 load_f16(const uint8_t *p)
{
	return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)p));
}

/* Four activations in each lane. */
INLINE __m512i load_quad(const int8_t *p)
{
	int32_t quad;

	__builtin_memcpy(&quad, p, sizeof quad);
	return _mm512_set1_epi32(quad);
}

/* One block of 32 columns of a tile times n rows: exact sums in each lane, added to sum. */
INLINE void dot_q4(const uint8_t *w, const int8_t *q, int32_t dim, int n, __m512i *sum)
{
	const __m512i low = _mm512_set1_epi8(15);

	for (int j = 0; j < 4; j++) {
		__m512i v = _mm512_load_si512(w + j * 64);
		__m512i lo = _mm512_and_si512(v, low), hi = _mm512_and_si512(_mm512_srli_epi16(v, 4), low);

		for (int r = 0; r < n; r++) {
			const int8_t *x = q + (size_t)r * (size_t)dim + j * 4;

			sum[r] = _mm512_dpbusd_epi32(sum[r], lo, load_quad(x));
			sum[r] = _mm512_dpbusd_epi32(sum[r], hi, load_quad(x + 16));
		}
	}
}

INLINE void dot_q8(const uint8_t *w, const int8_t *q, int32_t dim, int n, __m512i *sum)
{
	for (int j = 0; j < 8; j++) {
		__m512i v = _mm512_load_si512(w + j * 64);

		for (int r = 0; r < n; r++)
			sum[r] = _mm512_dpbusd_epi32(sum[r], v, load_quad(q + (size_t)r * (size_t)dim + j * 4));
	}
}

/* Rule 5: block b, whose scales and weights these are. */
INLINE void quantised_block(const struct k_tile_call *c, enum k_type type, int n, int32_t b,
							const uint8_t *scales, const uint8_t *w, __m512 *acc)
{
	const int32_t excess = type == K_Q8_0	? 128
						   : type == K_Q4_0 ? 8
											: 0,
				  stride = c->dim / K_QBLOCK;
	const __m512 dw = load_f16(scales), mw = type == K_Q4_1 ? load_f16(scales + 32) : dw;
	__m512i sum[MAX_ROWS];

	for (int r = 0; r < n; r++)
		sum[r] =
			excess ? _mm512_set1_epi32(-excess * c->sum_q[r * stride + b]) : _mm512_setzero_si512();
	if (type == K_Q8_0)
		dot_q8(w, c->q + b * K_QBLOCK, c->dim, n, sum);
	else
		dot_q4(w, c->q + b * K_QBLOCK, c->dim, n, sum);
	for (int r = 0; r < n; r++) {
		const int32_t at = r * stride + b;
		__m512 t = _mm512_mul_ps(dw, _mm512_cvtepi32_ps(sum[r]));

		acc[r] = _mm512_fmadd_ps(_mm512_set1_ps(c->d[at]), t, acc[r]);
		if (type == K_Q4_1)
			acc[r] = _mm512_fmadd_ps(mw, _mm512_set1_ps(c->sx[at]), acc[r]);
	}
}

INLINE void quantised_tile(const struct k_tile_call *c, enum k_type type, int n,
						   const uint8_t *tile, float *y)
{
	const int quants = type == K_Q8_0 ? 512 : 256, scales = type == K_Q4_1 ? 64 : 32;
	const int32_t chunk = k_chunk_blocks(type), n_blocks = c->n_cols / K_QBLOCK;
	__m512 acc[MAX_ROWS];

	for (int r = 0; r < n; r++)
		acc[r] = _mm512_setzero_ps();
	for (int32_t b = 0; b < n_blocks; b += chunk, tile += chunk * (scales + quants)) {
		for (int at = 0; at < chunk * (scales + quants); at += 64)
			_mm_prefetch((const char *)tile + AHEAD + at, _MM_HINT_T1);
		for (int32_t i = 0; i < chunk && b + i < n_blocks; i++)
			quantised_block(c, type, n, b + i, tile + i * scales,
							tile + chunk * scales + i * quants, acc);
	}
	for (int r = 0; r < n; r++)
		_mm512_storeu_ps(y + r * K_TILE_GROUP * LANES, acc[r]);
}

INLINE void quantised(const struct k_tile_call *c, enum k_type type, int n)
{
	for (int32_t t = 0; t < c->n_tiles; t++)
		quantised_tile(c, type, n, c->tile + (size_t)t * c->tile_bytes, c->y + t * LANES);
}

INLINE __m512 load_floats(enum k_type type, const uint8_t *column)
{
	__m256i h;

	if (type == K_F32)
		return _mm512_load_ps((const float *)(const void *)column);
	h = _mm256_load_si256((const __m256i *)(const void *)column);
	if (type == K_F16)
		return _mm512_cvtph_ps(h);
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* Rule 6: n_tiles tiles and n rows at a time, whose chains hide one another's latency. */
INLINE void float_tiles(const struct k_tile_call *c, enum k_type type, int n_tiles, int n,
						int first)
{
	const size_t column = LANES * (type == K_F32 ? 4 : 2);
	const uint8_t *w = c->tile + (size_t)first * c->tile_bytes;
	__m512 acc[K_TILE_GROUP][MAX_ROWS], seg[K_TILE_GROUP][MAX_ROWS];

	for (int t = 0; t < n_tiles; t++)
		for (int r = 0; r < n; r++)
			acc[t][r] = _mm512_setzero_ps();
	for (int32_t from = 0; from < c->n_cols; from += SEGMENT) {
		const int32_t to = c->n_cols - from < SEGMENT ? c->n_cols : from + SEGMENT;

		for (int t = 0; t < n_tiles; t++)
			for (int r = 0; r < n; r++)
				seg[t][r] = _mm512_setzero_ps();
		for (int32_t k = from; k < to; k++) {
			__m512 v[K_TILE_GROUP];

			for (int t = 0; t < n_tiles; t++)
				v[t] = load_floats(type, w + (size_t)t * c->tile_bytes + (size_t)k * column);
			for (int r = 0; r < n; r++) {
				__m512 x = _mm512_set1_ps(c->x[(size_t)r * (size_t)c->dim + (size_t)k]);

				for (int t = 0; t < n_tiles; t++)
					seg[t][r] = _mm512_fmadd_ps(v[t], x, seg[t][r]);
			}
		}
		for (int t = 0; t < n_tiles; t++)
			for (int r = 0; r < n; r++)
				acc[t][r] = _mm512_add_ps(acc[t][r], seg[t][r]);
	}
	for (int t = 0; t < n_tiles; t++)
		for (int r = 0; r < n; r++)
			_mm512_storeu_ps(c->y + (r * K_TILE_GROUP + first + t) * LANES, acc[t][r]);
}

INLINE void floats(const struct k_tile_call *c, enum k_type type, int n)
{
	int t = 0;

	if (n == 1 && c->n_tiles == K_TILE_GROUP) {
		float_tiles(c, type, K_TILE_GROUP, 1, 0);
		return;
	}
	for (; t + 2 <= c->n_tiles; t += 2)
		float_tiles(c, type, 2, n, t);
	if (t < c->n_tiles)
		float_tiles(c, type, 1, n, t);
}

/* One function a format, and in it one body for each number of rows, with everything known when
 * compiled. */
#define TILE_FN(name, family, type)                                                                \
	static void name(const struct k_tile_call *c)                                                  \
	{                                                                                              \
		switch (c->n) {                                                                            \
		case 1:                                                                                    \
			family(c, type, 1);                                                                    \
			break;                                                                                 \
		case 2:                                                                                    \
			family(c, type, 2);                                                                    \
			break;                                                                                 \
		case 3:                                                                                    \
			family(c, type, 3);                                                                    \
			break;                                                                                 \
		case 4:                                                                                    \
			family(c, type, 4);                                                                    \
			break;                                                                                 \
		case 5:                                                                                    \
			family(c, type, 5);                                                                    \
			break;                                                                                 \
		case 6:                                                                                    \
			family(c, type, 6);                                                                    \
			break;                                                                                 \
		case 7:                                                                                    \
			family(c, type, 7);                                                                    \
			break;                                                                                 \
		default:                                                                                   \
			family(c, type, 8);                                                                    \
			break;                                                                                 \
		}                                                                                          \
	}
TILE_FN(tile_f32, floats, K_F32)
TILE_FN(tile_f16, floats, K_F16)
TILE_FN(tile_bf16, floats, K_BF16)
TILE_FN(tile_q4_0, quantised, K_Q4_0)
TILE_FN(tile_q4_1, quantised, K_Q4_1)
TILE_FN(tile_q8_0, quantised, K_Q8_0)

static const struct k_tiling tiling = {
	.lanes = LANES,
	.max_rows = MAX_ROWS,
	.flip_q8 = 0x80,
	.fn = {[K_F32] = tile_f32,
		   [K_F16] = tile_f16,
		   [K_BF16] = tile_bf16,
		   [K_Q4_0] = tile_q4_0,
		   [K_Q4_1] = tile_q4_1,
		   [K_Q8_0] = tile_q8_0},
};

void k_avx512_matmul(struct k_op *op, int tid, int n_threads, void *scratch)
{
	(void)tid;
	k_tiles_matmul(&tiling, op, n_threads, scratch);
}

void k_avx512_embed(struct k_op *op, int tid, int n_threads, void *scratch)
{
	(void)scratch;
	k_tiles_embed(&tiling, &op->u.embed, tid, n_threads);
}

static size_t packed_bytes(enum k_type type, int32_t n_rows, int32_t n_cols)
{
	return (size_t)((n_rows + LANES - 1) / LANES) * k_tile_bytes(type, LANES, n_cols);
}

static void pack(struct k_matrix *m, const void *raw, int tid, int n_threads)
{
	k_tiles_pack(&tiling, m, raw, tid, n_threads);
}

static bool runs_here(void)
{
	return k_isa_avx2.runs_here() && __builtin_cpu_supports("avx512f") &&
		   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
		   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
}

/* What is not here is done by vectors of 8. */
const struct k_isa k_isa_avx512 = {
	.name = "avx512",
	.runs_here = runs_here,
	.fn = {[K_OP_embed] = k_avx512_embed,
		   [K_OP_norm] = k_avx2_norm,
		   [K_OP_matmul] = k_avx512_matmul,
		   [K_OP_rope] = k_avx2_rope,
		   [K_OP_attention] = k_avx2_attention,
		   [K_OP_swiglu] = k_avx2_swiglu,
		   [K_OP_stats] = k_avx2_stats},
	.together = {[K_OP_attention] = true, [K_OP_stats] = true},
	.packed_bytes = packed_bytes,
	.pack = pack,
};
#endif

/* Matrix products on AVX2: a tile is 8 rows, a lane of a vector one row (tiles.h), so every lane is
 * the reference's chain. 4-bit weights: 16 products of u4 by s8 fit an int16 (rule 5), so a block
 * of 32 needs one widening. Q8_0: |w| times sign(x, w), widened after each pair. Thread: called by
 * all threads of a pool; no state. */
#ifdef __AVX2__
#include <cpuid.h>
#include <immintrin.h>

#include "kernels/tiles.h"

enum { LANES = 8, MAX_ROWS = 4, SEGMENT = 64, AHEAD = 2560 };

#define INLINE static inline __attribute__((always_inline))

INLINE __m256 load_f16(const uint8_t *p)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* Four activations in each lane. */
INLINE __m256i load_quad(const int8_t *p)
{
	int32_t quad;

	__builtin_memcpy(&quad, p, sizeof quad);
	return _mm256_set1_epi32(quad);
}

/* The sum is wanted here and now: gcc would put off integer sums until the products fill more
 * registers than there are. A quarter faster for four rows. */
INLINE __m256i now(__m256i sum)
{
	__asm__("" : "+x"(sum));
	return sum;
}

/* One block of 32 columns of a tile times n rows: exact sums in each lane. Few rows take two
 * chains, or they would wait for their own sums. */
INLINE void dot_q4(const uint8_t *w, const int8_t *q, int32_t dim, int n, __m256i *sum)
{
	const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
	const int second = n <= 2 ? n : 0;

	for (int r = 0; r < n + second; r++)
		sum[r] = _mm256_setzero_si256();
	for (int j = 0; j < 4; j++) {
		__m256i v = _mm256_load_si256((const __m256i *)(const void *)(w + j * 32));
		__m256i lo = _mm256_and_si256(v, low), hi = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);

		for (int r = 0; r < n; r++) {
			const int8_t *x = q + (size_t)r * (size_t)dim + j * 4;
			__m256i *other = &sum[second + r];

			sum[r] = now(_mm256_add_epi16(sum[r], _mm256_maddubs_epi16(lo, load_quad(x))));
			*other = now(_mm256_add_epi16(*other, _mm256_maddubs_epi16(hi, load_quad(x + 16))));
		}
	}
	for (int r = 0; r < n; r++) {
		if (second)
			sum[r] = _mm256_add_epi16(sum[r], sum[second + r]);
		sum[r] = _mm256_madd_epi16(sum[r], ones);
	}
}

INLINE void dot_q8(const uint8_t *w, const int8_t *q, int32_t dim, int n, __m256i *sum)
{
	const __m256i ones = _mm256_set1_epi16(1);

	for (int r = 0; r < n; r++)
		sum[r] = _mm256_setzero_si256();
	for (int j = 0; j < 8; j++) {
		__m256i v = _mm256_load_si256((const __m256i *)(const void *)(w + j * 32));
		__m256i size = _mm256_abs_epi8(v);

		for (int r = 0; r < n; r++) {
			__m256i x = load_quad(q + (size_t)r * (size_t)dim + j * 4);
			__m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(x, v));

			sum[r] = now(_mm256_add_epi32(sum[r], _mm256_madd_epi16(pairs, ones)));
		}
	}
}

/* Rule 5: block b, whose scales and weights these are. */
INLINE void quantised_block(const struct k_tile_call *c, enum k_type type, int n, int32_t b,
							const uint8_t *scales, const uint8_t *w, __m256 *acc)
{
	const __m256 dw = load_f16(scales), mw = type == K_Q4_1 ? load_f16(scales + 16) : dw;
	__m256i sum[MAX_ROWS];

	if (type == K_Q8_0)
		dot_q8(w, c->q + b * K_QBLOCK, c->dim, n, sum);
	else
		dot_q4(w, c->q + b * K_QBLOCK, c->dim, n, sum);
	for (int r = 0; r < n; r++) {
		const int32_t at = r * (c->dim / K_QBLOCK) + b;
		__m256 t;

		if (type == K_Q4_0) /* sum of (w - 8) x */
			sum[r] = _mm256_sub_epi32(sum[r], _mm256_set1_epi32(8 * c->sum_q[at]));
		t = _mm256_mul_ps(dw, _mm256_cvtepi32_ps(sum[r]));
		acc[r] = _mm256_fmadd_ps(_mm256_set1_ps(c->d[at]), t, acc[r]);
		if (type == K_Q4_1)
			acc[r] = _mm256_fmadd_ps(mw, _mm256_set1_ps(c->sx[at]), acc[r]);
	}
}

INLINE void quantised_tile(const struct k_tile_call *c, enum k_type type, int n,
						   const uint8_t *tile, float *y)
{
	const int quants = type == K_Q8_0 ? 256 : 128, scales = type == K_Q4_1 ? 32 : 16;
	const int32_t chunk = k_chunk_blocks(type), n_blocks = c->n_cols / K_QBLOCK;
	__m256 acc[MAX_ROWS];

	for (int r = 0; r < n; r++)
		acc[r] = _mm256_setzero_ps();
	for (int32_t b = 0; b < n_blocks; b += chunk, tile += chunk * (scales + quants)) {
		for (int at = 0; at < chunk * (scales + quants); at += 64)
			_mm_prefetch((const char *)tile + AHEAD + at, _MM_HINT_T1);
		for (int32_t i = 0; i < chunk && b + i < n_blocks; i++)
			quantised_block(c, type, n, b + i, tile + i * scales,
							tile + chunk * scales + i * quants, acc);
	}
	for (int r = 0; r < n; r++)
		_mm256_storeu_ps(y + r * K_TILE_GROUP * LANES, acc[r]);
}

INLINE void quantised(const struct k_tile_call *c, enum k_type type, int n)
{
	for (int32_t t = 0; t < c->n_tiles; t++)
		quantised_tile(c, type, n, c->tile + (size_t)t * c->tile_bytes, c->y + t * LANES);
}

INLINE __m256 load_floats(enum k_type type, const uint8_t *column)
{
	__m128i h;

	if (type == K_F32)
		return _mm256_load_ps((const float *)(const void *)column);
	h = _mm_load_si128((const __m128i *)(const void *)column);
	if (type == K_F16)
		return _mm256_cvtph_ps(h);
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* Rule 6: n_tiles tiles and n rows at a time, whose chains hide one another's latency. */
INLINE void float_tiles(const struct k_tile_call *c, enum k_type type, int n_tiles, int n,
						int first)
{
	const size_t column = LANES * (type == K_F32 ? 4 : 2);
	const uint8_t *w = c->tile + (size_t)first * c->tile_bytes;
	__m256 acc[K_TILE_GROUP][MAX_ROWS], seg[K_TILE_GROUP][MAX_ROWS];

	for (int t = 0; t < n_tiles; t++)
		for (int r = 0; r < n; r++)
			acc[t][r] = _mm256_setzero_ps();
	for (int32_t from = 0; from < c->n_cols; from += SEGMENT) {
		const int32_t to = c->n_cols - from < SEGMENT ? c->n_cols : from + SEGMENT;

		for (int t = 0; t < n_tiles; t++)
			for (int r = 0; r < n; r++)
				seg[t][r] = _mm256_setzero_ps();
		for (int32_t k = from; k < to; k++) {
			__m256 v[K_TILE_GROUP];

			for (int t = 0; t < n_tiles; t++)
				v[t] = load_floats(type, w + (size_t)t * c->tile_bytes + (size_t)k * column);
			for (int r = 0; r < n; r++) {
				__m256 x = _mm256_set1_ps(c->x[(size_t)r * (size_t)c->dim + (size_t)k]);

				for (int t = 0; t < n_tiles; t++)
					seg[t][r] = _mm256_fmadd_ps(v[t], x, seg[t][r]);
			}
		}
		for (int t = 0; t < n_tiles; t++)
			for (int r = 0; r < n; r++)
				acc[t][r] = _mm256_add_ps(acc[t][r], seg[t][r]);
	}
	for (int t = 0; t < n_tiles; t++)
		for (int r = 0; r < n; r++)
			_mm256_storeu_ps(c->y + (r * K_TILE_GROUP + first + t) * LANES, acc[t][r]);
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
		default:                                                                                   \
			family(c, type, 4);                                                                    \
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
	.fn = {[K_F32] = tile_f32,
		   [K_F16] = tile_f16,
		   [K_BF16] = tile_bf16,
		   [K_Q4_0] = tile_q4_0,
		   [K_Q4_1] = tile_q4_1,
		   [K_Q8_0] = tile_q8_0},
};

void k_avx2_matmul(struct k_op *op, int tid, int n_threads, void *scratch)
{
	(void)tid;
	k_tiles_matmul(&tiling, op, n_threads, scratch);
}

void k_avx2_embed(struct k_op *op, int tid, int n_threads, void *scratch)
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
	unsigned a, b, c, d;

	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
		   __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C); /* clang knows no "f16c" */
}

const struct k_isa k_isa_avx2 = {
	.name = "avx2",
	.runs_here = runs_here,
	.fn = {[K_OP_embed] = k_avx2_embed,
		   [K_OP_norm] = k_avx2_norm,
		   [K_OP_matmul] = k_avx2_matmul,
		   [K_OP_rope] = k_avx2_rope,
		   [K_OP_attention] = k_avx2_attention,
		   [K_OP_swiglu] = k_avx2_swiglu,
		   [K_OP_stats] = k_avx2_stats},
	.together = {[K_OP_attention] = true, [K_OP_stats] = true},
	.packed_bytes = packed_bytes,
	.pack = pack,
};
#endif

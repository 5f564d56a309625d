/* Matrix products on AVX2: a tile is 8 rows, a lane of a vector one row (tiles.h), so every lane is
 * the reference's chain. Products of bytes are added in 16 bits as far as they fit (rule 5): 16 of
 * unsigned 4-bit weights, 8 of 5-bit ones, 8 of signed 6-bit ones (32 * 127 * 8 = 32,512), 2 of
 * signed bytes, these as |w| times sign(x, w).
 * Thread: called by all threads of a pool; no state. */
#ifdef __AVX2__
#include <cpuid.h>
#include <immintrin.h>

#include "kernels/formats.h"
#include "kernels/measure.h"
#include "kernels/tiles.h"

enum { LANES = 8, MAX_ROWS = 4, SEGMENT = K_FREE ? 1 << 30 : 64, AHEAD = 2560 };

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

INLINE __m256i load(const uint8_t *p)
{
	return _mm256_load_si256((const __m256i *)(const void *)p);
}

/* Quads j and j + 4 of a block: unsigned codes of 4 or 5 bits; of Q6_K and IQ4_NL signed values. */
INLINE void load_weights(enum k_type type, const uint8_t *w, int j, __m256i *lo, __m256i *hi)
{
	const struct k_layout l = k_layout_of(type);
	const __m256i nibble = _mm256_set1_epi8(15), fifth = _mm256_set1_epi8(16);
	const __m256i pair = _mm256_set1_epi8(48), bias = _mm256_set1_epi8(32);
	const __m256i v = load(w + l.high * LANES + j * 32);

	*lo = _mm256_and_si256(v, nibble);
	*hi = _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble);
	if (l.high == 4) {
		__m256i h = load(w);

		*lo = _mm256_or_si256(*lo, _mm256_and_si256(_mm256_slli_epi32(h, 4 - j), fifth));
		*hi = _mm256_or_si256(*hi, _mm256_and_si256(_mm256_srli_epi32(h, j), fifth));
	} else if (l.high == 8) {
		__m256i h = load(w), g = load(w + 32);

		h = j < 3 ? _mm256_slli_epi32(h, 4 - 2 * j) : _mm256_srli_epi32(h, 2);
		g = j < 3 ? _mm256_slli_epi32(g, 4 - 2 * j) : _mm256_srli_epi32(g, 2);
		*lo = _mm256_sub_epi8(_mm256_or_si256(*lo, _mm256_and_si256(h, pair)), bias);
		*hi = _mm256_sub_epi8(_mm256_or_si256(*hi, _mm256_and_si256(g, pair)), bias);
	} else if (type == K_IQ4_NL) {
		const __m256i values =
			_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)k_iq4_nl));

		*lo = _mm256_shuffle_epi8(values, *lo);
		*hi = _mm256_shuffle_epi8(values, *hi);
	}
}

INLINE __m256i signed_pairs(__m256i w, __m256i x)
{
	return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}

/* One block of 32 columns of a tile times n rows: exact sums in each lane, of weights that let the
 * products of a chain of four quads fit 16 bits. Q6_K's two chains are its two sub-blocks, and
 * widening multiplies them by their scales. Few rows take two chains in any case, or they would
 * wait for their own sums. */
INLINE void dot_chains(enum k_type type, const uint8_t *w, const int8_t *q, int32_t dim, int n,
					   const __m256i *sub, __m256i *sum)
{
	const bool wide = k_layout_of(type).high > 0;
	const int second = wide || n <= 2 ? n : 0;
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i chain[2 * MAX_ROWS];

	for (int r = 0; r < n + second; r++)
		chain[r] = _mm256_setzero_si256();
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		__m256i lo, hi;

		load_weights(type, w, j, &lo, &hi);
		for (int r = 0; r < n; r++) {
			const int8_t *x = q + (size_t)r * (size_t)dim + j * 4;
			__m256i *a = &chain[r], *b = &chain[second + r];
			__m256i x0 = load_quad(x), x1 = load_quad(x + 16);

			*a = now(_mm256_add_epi16(*a, type == K_Q6_K ? signed_pairs(lo, x0)
														 : _mm256_maddubs_epi16(lo, x0)));
			*b = now(_mm256_add_epi16(*b, type == K_Q6_K ? signed_pairs(hi, x1)
														 : _mm256_maddubs_epi16(hi, x1)));
		}
	}
	for (int r = 0; r < n; r++) {
		if (wide)
			sum[r] = _mm256_add_epi32(
				_mm256_madd_epi16(chain[r], type == K_Q6_K ? sub[0] : ones),
				_mm256_madd_epi16(chain[second + r], type == K_Q6_K ? sub[1] : ones));
		else
			sum[r] = _mm256_madd_epi16(
				second ? _mm256_add_epi16(chain[r], chain[second + r]) : chain[r], ones);
	}
}

/* A quad of signed bytes times n rows, widened after each pair and added. */
INLINE void add_bytes(__m256i w, const int8_t *q, int32_t dim, int n, __m256i *sum)
{
	const __m256i size = _mm256_abs_epi8(w);

	for (int r = 0; r < n; r++) {
		__m256i x = load_quad(q + (size_t)r * (size_t)dim);
		__m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(x, w));

		sum[r] = now(_mm256_add_epi32(sum[r], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
	}
}

/* As dot_chains, of signed bytes: Q8_0, and IQ4_NL's values. */
INLINE void dot_bytes(enum k_type type, const uint8_t *w, const int8_t *q, int32_t dim, int n,
					  __m256i *sum)
{
	for (int r = 0; r < n; r++)
		sum[r] = _mm256_setzero_si256();
	if (type == K_Q8_0) {
#pragma GCC unroll 8
		for (int j = 0; j < 8; j++)
			add_bytes(load(w + j * 32), q + j * 4, dim, n, sum);
		return;
	}
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		__m256i lo, hi;

		load_weights(type, w, j, &lo, &hi);
		add_bytes(lo, q + j * 4, dim, n, sum);
		add_bytes(hi, q + j * 4 + 16, dim, n, sum);
	}
}

/* The scales of a chunk: of each block of 32 columns, and of Q6_K's sub-blocks, in 16 bits. */
struct scales {
	__m256 dw[8], mw[8];
	__m256i sub[16];
};

/* Byte i of each lane as a float. */
INLINE __m256 byte_float(__m256i words, int i)
{
	return _mm256_cvtepi32_ps(
		_mm256_and_si256(_mm256_srli_epi32(words, 8 * i), _mm256_set1_epi32(255)));
}

/* Eight 6-bit scales and minima in three words, four at a time in the bytes of a word. */
INLINE void k_scales(const uint8_t *head, struct scales *s)
{
	const __m256i six = _mm256_set1_epi8(63), high = _mm256_set1_epi8(48);
	const __m256i low = _mm256_set1_epi8(15);
	const __m256i a = load(head + 32), b = load(head + 64), c = load(head + 96);
	const __m256i scale[2] = {
		_mm256_and_si256(a, six),
		_mm256_or_si256(_mm256_and_si256(c, low), _mm256_and_si256(_mm256_srli_epi16(a, 2), high))};
	const __m256i min[2] = {_mm256_and_si256(b, six),
							_mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(c, 4), low),
											_mm256_and_si256(_mm256_srli_epi16(b, 2), high))};
	const __m256 d = load_f16(head), m = load_f16(head + 16), sign = _mm256_set1_ps(-0.0f);

	for (int i = 0; i < 8; i++) {
		s->dw[i] = _mm256_mul_ps(d, byte_float(scale[i / 4], i % 4));
		s->mw[i] = _mm256_xor_ps(sign, _mm256_mul_ps(m, byte_float(min[i / 4], i % 4)));
	}
}

/* Sixteen signed bytes, each to both halves of a lane. */
INLINE void q6_k_scales(const uint8_t *head, struct scales *s)
{
	const __m256i first = _mm256_set1_epi32(0x00800080); /* byte 0 of a lane, above a zero */
	const __m256i lane =
		_mm256_broadcastsi128_si256(_mm_setr_epi32(0, 0x04000400, 0x08000800, 0x0c000c00));

	for (int i = 0; i < 8; i++)
		s->dw[i] = load_f16(head);
	for (int i = 0; i < 16; i++) {
		__m256i at = _mm256_add_epi8(_mm256_add_epi8(first, lane),
									 _mm256_set1_epi32(i % 4 << 8 | i % 4 << 24));

		s->sub[i] = _mm256_srai_epi16(_mm256_shuffle_epi8(load(head + 32 + i / 4 * 32), at), 8);
	}
}

/* Those of a block alone are read where they are used. */
INLINE void load_scales(enum k_type type, const uint8_t *head, struct scales *s)
{
	if (type == K_Q4_K || type == K_Q5_K)
		k_scales(head, s);
	else if (type == K_Q6_K)
		q6_k_scales(head, s);
}

/* Rule 5: block b, number i of its chunk, whose scales and weights these are. */
INLINE void quantised_block(const struct k_tile_call *c, enum k_type type, int n, int32_t b,
							const uint8_t *head, const struct scales *s, int i, const uint8_t *w,
							__m256 *acc, __m256 *min)
{
	const int bias = type == K_Q4_0 ? 8 : type == K_Q5_0 ? 16 : 0;
	const bool has_min = type == K_Q4_1 || type == K_Q5_1 || type == K_Q4_K || type == K_Q5_K;
	const bool packed = k_layout_of(type).chunk == 8;
	const __m256 dw = packed ? s->dw[i] : load_f16(head + i * LANES * 2);
	const __m256 mw = packed ? s->mw[i] : load_f16(head + LANES * 2);
	__m256i sum[MAX_ROWS];

	if (type == K_Q8_0 || type == K_IQ4_NL)
		dot_bytes(type, w, c->q + b * K_QBLOCK, c->dim, n, sum);
	else
		dot_chains(type, w, c->q + b * K_QBLOCK, c->dim, n, s->sub + 2 * i, sum);
	for (int r = 0; r < n; r++) {
		const int32_t at = r * (c->dim / K_QBLOCK) + b;
		__m256 t;

		if (bias) { /* sum of (w - bias) x */
			__m256i sums = load_quad((const int8_t *)(c->sum_q + 2 * at));

			sum[r] =
				_mm256_sub_epi32(sum[r], _mm256_madd_epi16(sums, _mm256_set1_epi16((int16_t)bias)));
		}
		t = _mm256_mul_ps(dw, _mm256_cvtepi32_ps(sum[r]));
		acc[r] = _mm256_fmadd_ps(_mm256_set1_ps(c->d[at]), t, acc[r]);
		if (has_min)
			min[r] = _mm256_fmadd_ps(mw, _mm256_set1_ps(c->sx[at]), min[r]);
	}
}

INLINE void ahead(const uint8_t *p, int bytes)
{
	for (int at = 0; at < bytes; at += 64)
		_mm_prefetch((const char *)p + AHEAD + at, _MM_HINT_T1);
}

INLINE void quantised_tile(const struct k_tile_call *c, enum k_type type, int n,
						   const uint8_t *tile, float *y)
{
	const struct k_layout l = k_layout_of(type);
	const int head = l.head * LANES, block = (l.high + l.quants) * LANES;
	const int32_t n_blocks = c->n_cols / K_QBLOCK;
	const int apart = K_FREE && n <= MAX_ROWS / 2 ? MAX_ROWS : 0; /* minima sum by themselves */
	__m256 acc[2 * MAX_ROWS];

	for (int r = 0; r < n + apart; r++)
		acc[r] = _mm256_setzero_ps();
	for (int32_t b = 0; b < n_blocks; b += l.chunk, tile += head + l.chunk * block) {
		struct scales s;

		ahead(tile, l.chunk == 8 ? head : head + l.chunk * block);
		load_scales(type, tile, &s);
		for (int i = 0; i < l.chunk && b + i < n_blocks; i++) {
			if (l.chunk == 8) /* no burst of so many */
				ahead(tile + head + i * block, block);
			quantised_block(c, type, n, b + i, tile, &s, i, tile + head + i * block, acc,
							acc + apart);
		}
	}
	for (int r = 0; r < n; r++)
		_mm256_storeu_ps(y + r * K_TILE_GROUP * LANES,
						 apart ? _mm256_add_ps(acc[r], acc[r + apart]) : acc[r]);
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
TILE_FN(tile_q5_0, quantised, K_Q5_0)
TILE_FN(tile_q5_1, quantised, K_Q5_1)
TILE_FN(tile_q8_0, quantised, K_Q8_0)
TILE_FN(tile_q4_k, quantised, K_Q4_K)
TILE_FN(tile_q5_k, quantised, K_Q5_K)
TILE_FN(tile_q6_k, quantised, K_Q6_K)
TILE_FN(tile_iq4_nl, quantised, K_IQ4_NL)

static const struct k_tiling tiling = {
	.lanes = LANES,
	.max_rows = MAX_ROWS,
	.flip_q8 = 0x80,
	.fn = {[K_F32] = tile_f32,
		   [K_F16] = tile_f16,
		   [K_Q4_0] = tile_q4_0,
		   [K_Q4_1] = tile_q4_1,
		   [K_Q5_0] = tile_q5_0,
		   [K_Q5_1] = tile_q5_1,
		   [K_Q8_0] = tile_q8_0,
		   [K_Q4_K] = tile_q4_k,
		   [K_Q5_K] = tile_q5_k,
		   [K_Q6_K] = tile_q6_k,
		   [K_IQ4_NL] = tile_iq4_nl,
		   [K_BF16] = tile_bf16},
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

static void pack(struct k_matrix *m, const void *raw, int32_t first, int32_t n)
{
	k_tiles_pack(&tiling, m, raw, first, n);
}

static bool runs_here(void)
{
	unsigned a, b, c, d;

	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
		   __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C); /* clang knows no "f16c" */
}

const struct k_isa k_isa_avx2 = {
	.name = "avx2" K_ORDER_NAME,
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
	.pack_unit = LANES,
	.pack = pack,
	.multiply = k_avx2_multiply,
};
#endif

/* Matrix products on AVX-512 with VNNI: a tile is 16 rows, a lane of a vector one row (tiles.h).
 * vpdpbusd multiplies unsigned by signed bytes and adds four products to a 32-bit lane without
 * saturating, so sums are exact: weights go in as codes that are never negative, and what they
 * exceed the weights by is taken out through the sums of the activations.
 * Thread: called by all threads of a pool; no state. */
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>

#include "kernels/formats.h"
#include "kernels/measure.h"
#include "kernels/tiles.h"

enum { LANES = 16, MAX_ROWS = 8, SEGMENT = K_FREE ? 1 << 30 : 64, AHEAD = 2560 };

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

INLINE __m512i load(const uint8_t *p)
{
	return _mm512_load_si512(p);
}

/* By how much a code exceeds its weight. */
INLINE int excess_of(enum k_type type)
{
	return type == K_Q8_0 || type == K_IQ4_NL ? 128
		   : type == K_Q6_K					  ? 32
		   : type == K_Q5_0					  ? 16
		   : type == K_Q4_0					  ? 8
											  : 0;
}

/* Quads j and j + 4 of a block. */
INLINE void load_weights(enum k_type type, const uint8_t *w, int j, __m512i *lo, __m512i *hi)
{
	const struct k_layout l = k_layout_of(type);
	const __m512i nibble = _mm512_set1_epi8(15), fifth = _mm512_set1_epi8(16);
	const __m512i pair = _mm512_set1_epi8(48);
	__m512i v;

	v = load(w + l.high * LANES + j * 64);
	*lo = _mm512_and_si512(v, nibble);
	*hi = _mm512_and_si512(_mm512_srli_epi16(v, 4), nibble);
	if (l.high == 4) {
		__m512i h = load(w);

		*lo =
			_mm512_or_si512(*lo, _mm512_and_si512(_mm512_slli_epi32(h, (unsigned)(4 - j)), fifth));
		*hi = _mm512_or_si512(*hi, _mm512_and_si512(_mm512_srli_epi32(h, (unsigned)j), fifth));
	} else if (l.high == 8) {
		__m512i h = load(w), g = load(w + 64);

		h = j < 3 ? _mm512_slli_epi32(h, (unsigned)(4 - 2 * j)) : _mm512_srli_epi32(h, 2);
		g = j < 3 ? _mm512_slli_epi32(g, (unsigned)(4 - 2 * j)) : _mm512_srli_epi32(g, 2);
		*lo = _mm512_or_si512(*lo, _mm512_and_si512(h, pair));
		*hi = _mm512_or_si512(*hi, _mm512_and_si512(g, pair));
	} else if (type == K_IQ4_NL) {
		const __m128i values = _mm_xor_si128(
			_mm_loadu_si128((const __m128i *)(const void *)k_iq4_nl), _mm_set1_epi8(-128));
		const __m512i codes = _mm512_broadcast_i32x4(values);

		*lo = _mm512_shuffle_epi8(codes, *lo);
		*hi = _mm512_shuffle_epi8(codes, *hi);
	}
}

/* One block of 32 columns of a tile times n rows: exact sums of each half in each lane, added to lo
 * and hi, which may be one (and are for Q8_0). */
INLINE void dot(enum k_type type, const uint8_t *w, const int8_t *q, int32_t dim, int n,
				__m512i *lo, __m512i *hi)
{
	if (type == K_Q8_0) {
		for (int j = 0; j < 8; j++) {
			__m512i v = load(w + j * 64);

			for (int r = 0; r < n; r++)
				lo[r] =
					_mm512_dpbusd_epi32(lo[r], v, load_quad(q + (size_t)r * (size_t)dim + j * 4));
		}
		return;
	}
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		__m512i v0, v1;

		load_weights(type, w, j, &v0, &v1);
		for (int r = 0; r < n; r++) {
			const int8_t *x = q + (size_t)r * (size_t)dim + j * 4;

			lo[r] = _mm512_dpbusd_epi32(lo[r], v0, load_quad(x));
			hi[r] = _mm512_dpbusd_epi32(hi[r], v1, load_quad(x + 16));
		}
	}
}

/* The scales of a chunk: of each block of 32 columns, and of Q6_K's sub-blocks. */
struct scales {
	__m512 dw[8], mw[8], sub[16];
};

/* Byte i of each lane as a float. */
INLINE __m512 byte_float(__m512i words, int i)
{
	return _mm512_cvtepi32_ps(
		_mm512_and_si512(_mm512_srli_epi32(words, (unsigned)(8 * i)), _mm512_set1_epi32(255)));
}

/* Eight 6-bit scales and minima in three words, four at a time in the bytes of a word. */
INLINE void k_scales(const uint8_t *head, struct scales *s)
{
	const __m512i six = _mm512_set1_epi8(63), high = _mm512_set1_epi8(48);
	const __m512i low = _mm512_set1_epi8(15);
	const __m512i a = load(head + 64), b = load(head + 128), c = load(head + 192);
	const __m512i scale[2] = {
		_mm512_and_si512(a, six),
		_mm512_or_si512(_mm512_and_si512(c, low), _mm512_and_si512(_mm512_srli_epi16(a, 2), high))};
	const __m512i min[2] = {_mm512_and_si512(b, six),
							_mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(c, 4), low),
											_mm512_and_si512(_mm512_srli_epi16(b, 2), high))};
	const __m512 d = load_f16(head), m = load_f16(head + 32), sign = _mm512_set1_ps(-0.0f);

	for (int i = 0; i < 8; i++) {
		s->dw[i] = _mm512_mul_ps(d, byte_float(scale[i / 4], i % 4));
		s->mw[i] = _mm512_xor_ps(sign, _mm512_mul_ps(m, byte_float(min[i / 4], i % 4)));
	}
}

INLINE void q6_k_scales(const uint8_t *head, struct scales *s)
{
	for (int i = 0; i < 8; i++)
		s->dw[i] = load_f16(head);
	for (int i = 0; i < 16; i++) {
		__m512i word = load(head + 64 + i / 4 * 64);

		word = _mm512_slli_epi32(word, (unsigned)(24 - i % 4 * 8));
		s->sub[i] = _mm512_cvtepi32_ps(_mm512_srai_epi32(word, 24));
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

/* The integer of rule 5, as a float. With sub-scales it is put together in floats, exactly: each
 * part is below 2^23 and the whole below 2^24. */
INLINE void dot_block(const struct k_tile_call *c, enum k_type type, int n, int32_t b,
					  const __m512 *sub, const uint8_t *w, __m512 *sum)
{
	const int32_t stride = c->dim / K_QBLOCK, excess = excess_of(type);
	const int8_t *q = c->q + b * K_QBLOCK;
	__m512i lo[MAX_ROWS], hi[MAX_ROWS];

	for (int r = 0; r < n; r++) {
		const int16_t *sums = c->sum_q + 2 * (r * stride + b);

		lo[r] = hi[r] = _mm512_setzero_si512();
		if (type == K_Q6_K) {
			lo[r] = _mm512_set1_epi32(-excess * sums[0]);
			hi[r] = _mm512_set1_epi32(-excess * sums[1]);
		} else if (excess) {
			lo[r] = _mm512_madd_epi16(load_quad((const int8_t *)sums),
									  _mm512_set1_epi16((int16_t)-excess));
		}
	}
	if (type == K_Q6_K)
		dot(type, w, q, c->dim, n, lo, hi);
	else
		dot(type, w, q, c->dim, n, lo, lo);
	for (int r = 0; r < n; r++) {
		sum[r] = _mm512_cvtepi32_ps(lo[r]);
		if (type == K_Q6_K)
			sum[r] =
				_mm512_fmadd_ps(sub[1], _mm512_cvtepi32_ps(hi[r]), _mm512_mul_ps(sub[0], sum[r]));
	}
}

/* Rule 5: block b, number i of its chunk, whose scales and weights these are. */
INLINE void quantised_block(const struct k_tile_call *c, enum k_type type, int n, int32_t b,
							const uint8_t *head, const struct scales *s, int i, const uint8_t *w,
							__m512 *acc, __m512 *min)
{
	const bool has_min = type == K_Q4_1 || type == K_Q5_1 || type == K_Q4_K || type == K_Q5_K;
	const bool packed = k_layout_of(type).chunk == 8;
	const __m512 dw = packed ? s->dw[i] : load_f16(head + i * LANES * 2);
	const __m512 mw = packed ? s->mw[i] : load_f16(head + LANES * 2);
	__m512 sum[MAX_ROWS];

	dot_block(c, type, n, b, s->sub + 2 * i, w, sum);
	for (int r = 0; r < n; r++) {
		const int32_t at = r * (c->dim / K_QBLOCK) + b;
		__m512 t = _mm512_mul_ps(dw, sum[r]);

		acc[r] = _mm512_fmadd_ps(_mm512_set1_ps(c->d[at]), t, acc[r]);
		if (has_min)
			min[r] = _mm512_fmadd_ps(mw, _mm512_set1_ps(c->sx[at]), min[r]);
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
	__m512 acc[2 * MAX_ROWS];

	for (int r = 0; r < n + apart; r++)
		acc[r] = _mm512_setzero_ps();
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
		_mm512_storeu_ps(y + r * K_TILE_GROUP * LANES,
						 apart ? _mm512_add_ps(acc[r], acc[r + apart]) : acc[r]);
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

static void pack(struct k_matrix *m, const void *raw, int32_t first, int32_t n)
{
	k_tiles_pack(&tiling, m, raw, first, n);
}

static bool runs_here(void)
{
	return k_isa_avx2.runs_here() && __builtin_cpu_supports("avx512f") &&
		   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
		   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
}

/* What is not here is done by vectors of 8. */
const struct k_isa k_isa_avx512 = {
	.name = "avx512" K_ORDER_NAME,
	.runs_here = runs_here,
	.fn = {[K_OP_embed] = k_avx512_embed,
		   [K_OP_norm] = k_avx2_norm,
		   [K_OP_matmul] = k_avx512_matmul,
		   [K_OP_rope] = k_avx2_rope,
		   [K_OP_attention] = k_avx512_attention,
		   [K_OP_swiglu] = k_avx2_swiglu,
		   [K_OP_stats] = k_avx2_stats},
	.together = {[K_OP_attention] = true, [K_OP_stats] = true},
	.packed_bytes = packed_bytes,
	.pack_unit = LANES,
	.pack = pack,
	.multiply = k_avx512_multiply,
};
#endif

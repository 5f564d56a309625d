/* Matrix products on AVX-512 with VNNI: a tile is 16 rows, a lane of a vector one row (tiles.h).
 * vpdpbusd multiplies unsigned by signed bytes and adds four products to a 32-bit lane without
 * saturating, so sums are exact: weights go in as codes that are never negative, and their excess
 * over the weights is subtracted through the sums of the activations. Thread: called by all threads
 * of a pool; no state. */
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>

#include "kernels/cpu/isa.h"

#define LANES 16
#ifndef MAX_ROWS
#define MAX_ROWS 8
#endif
#define TILES 1
#define FLIP_Q8 0
#define VEC __m512
#define VECI __m512i
#define SUB __m512
#define BITS_FLOAT _mm512_castsi512_ps
#define V(name) _mm512_##name
#define v_and _mm512_and_si512
#define v_or _mm512_or_si512
#define v_load _mm512_load_si512

static inline __m512 load_f16(const uint8_t *p)
{
	return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)p));
}

static inline __m512i load_u16(const uint8_t *p)
{
	return _mm512_cvtepu16_epi32(_mm256_load_si256((const __m256i *)(const void *)p));
}

static inline __m512i load_u8(const uint8_t *p)
{
	return _mm512_cvtepu8_epi32(_mm_load_si128((const __m128i *)(const void *)p));
}

static inline __m512 load_bf16(const uint8_t *p)
{
	return _mm512_castsi512_ps(_mm512_slli_epi32(load_u16(p), 16));
}

#include "kernels/cpu/matmul_load.h"

/* Loads quads j and j + 4 of a block as codes: weights minus k_least(), if that is negative. */
INLINE void load_weights(enum k_type type, const uint8_t *w, int j, __m512i *lo, __m512i *hi)
{
	const int book = k_facts_of(type).book;

	load_codes(type, w, j, lo, hi);
	if (book) {
		const __m128i values =
			_mm_add_epi8(_mm_loadu_si128((const __m128i *)(const void *)k_books[book]),
				_mm_set1_epi8((char)-k_least(type)));
		const __m512i codes = _mm512_broadcast_i32x4(values);

		*lo = _mm512_shuffle_epi8(codes, *lo);
		*hi = _mm512_shuffle_epi8(codes, *hi);
	}
}

/* One block of 32 columns of a tile times n rows: exact sums of each half in each lane, added to lo
 * and hi, which may be one (and are for codes of 8 bits). */
INLINE void dot(enum k_type type, const uint8_t *w, const int8_t *q, int32_t dim, int n,
	__m512i *lo, __m512i *hi)
{
	if (k_low_bits(type) == 8) {
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

INLINE int tiles_of(enum k_type type, int n)
{
	(void)type, (void)n;
	return 1;
}

/* The integer of rule 5, as a float. With sub-scales it is composed in floats, exactly: each part
 * is below 2^23 and the whole below 2^24. */
INLINE void dot_block(const struct k_tile_call *c, enum k_type type, int n_tiles, int n, int32_t b,
	const struct scales *s, int half, const uint8_t *w, __m512 sums_out[TILES][MAX_ROWS])
{
	const __m512 *sub = s->sub + half;
	__m512 *sum = sums_out[0];
	const int32_t stride = c->dim / K_QBLOCK, excess = -k_least(type);
	const bool halves = k_has_halves(type);
	const int8_t *q = c->q + b * K_QBLOCK;
	__m512i lo[MAX_ROWS], hi[MAX_ROWS];

	(void)n_tiles;
	for (int r = 0; r < n; r++) {
		const int16_t *sums = c->sum_q + 2 * (r * stride + b);

		lo[r] = hi[r] = _mm512_setzero_si512();
		if (halves && excess) {
			lo[r] = _mm512_set1_epi32(-excess * sums[0]);
			hi[r] = _mm512_set1_epi32(-excess * sums[1]);
		} else if (excess) {
			lo[r] = _mm512_madd_epi16(
				load_quad((const int8_t *)sums), _mm512_set1_epi16((int16_t)-excess));
		}
	}
	if (halves)
		dot(type, w, q, c->dim, n, lo, hi);
	else
		dot(type, w, q, c->dim, n, lo, lo);
	for (int r = 0; r < n; r++) {
		sum[r] = _mm512_cvtepi32_ps(lo[r]);
		if (halves)
			sum[r] =
				_mm512_fmadd_ps(sub[1], _mm512_cvtepi32_ps(hi[r]), _mm512_mul_ps(sub[0], sum[r]));
	}
}

/* Bytes of the words, as floats. */
INLINE void sub_scales(const __m512i words[4], struct scales *s)
{
	for (int i = 0; i < 16; i++) {
		__m512i word = _mm512_slli_epi32(words[i / 4], (unsigned)(24 - i % 4 * 8));

		s->sub[i] = _mm512_cvtepi32_ps(_mm512_srai_epi32(word, 24));
	}
}

#include "kernels/cpu/matmul_body.h"

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

static void k_avx512_experts(struct k_op *op, int tid, int n_threads, void *scratch)
{
	k_each_expert(op, tid, n_threads, scratch, k_avx512_matmul);
}

static bool runs_here(void)
{
	return k_isa_avx2.runs_here() && __builtin_cpu_supports("avx512f") &&
		   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
		   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
}

/* Ops without a version here use vectors of 8. */
const struct k_isa k_isa_avx512 = {
	.name = "avx512" K_ORDER_NAME,
	.runs_here = runs_here,
	.fn = { [K_OP_embed] = k_avx512_embed,
		[K_OP_matmul] = k_avx512_matmul,
		[K_OP_attention] = k_avx512_attention,
		[K_OP_experts] = k_avx512_experts,
		K_VEC8_OPS },
	.together = { [K_OP_attention] = true, [K_OP_stats] = true },
	.packed_bytes = packed_bytes,
	.pack_unit = LANES,
	.pack = pack,
	.multiply = k_avx512_multiply,
	.fma = k_avx512_fma,
};
#endif

/* Matrix products on AVX2: a tile is 8 rows, a lane of a vector one row (tiles.h), so every lane is
 * the reference's chain. Products of bytes are added in 16 bits as far as they fit (rule 5): 16 of
 * 4-bit weights and of centred 5-bit ones, 8 of other 5-bit and of 6-bit ones (32 * 127 * 8 =
 * 32,512). Signed bytes are multiplied as words. Three and four rows take two tiles at once:
 * docs/performance-log.md counts the instructions. Thread: called by all threads of a pool; no
 * state.
 */
#ifdef __AVX2__
#include <cpuid.h>

#include "kernels/cpu/isa.h"

#include "kernels/cpu/vectors_256.h"

#define MAX_ROWS 4
#define TILES 2
#define FLIP_Q8 0x80
#define SUB __m256i /* in both halves of a lane */

#include "kernels/cpu/matmul_load.h"
#include "kernels/cpu/prepare.h"

/* Forces the sum here: gcc would delay integer sums until the products fill more registers than
 * there are. A quarter faster for four rows. */
INLINE __m256i now(__m256i sum)
{
	__asm__("" : "+x"(sum));
	return sum;
}

/* How products of bytes are added up follows from the range of a format's weights. They are
 * multiplied as codes that are never negative, and a chain starts from what the codes' excess adds,
 * negated: so 16 or 8 products fit 16 bits at the chain's end, whatever wraps before it. Else
 * weights are widened first. */
enum way { CODES_16, CODES_8, WORDS };
INLINE bool chain_fits(enum k_type type, int n)
{
	const int below = -k_least(type), above = k_most(type);

	return (below + above) * 127 * 2 < 32768 && (below > above ? below : above) * 127 * n < 32768;
}

INLINE enum way way_of(enum k_type type)
{
	return chain_fits(type, 16) && !k_has_halves(type) ? CODES_16
		   : chain_fits(type, 8)                       ? CODES_8
													   : WORDS;
}

INLINE int excess_of(enum k_type type)
{
	return way_of(type) != WORDS ? -k_least(type) : 0;
}

INLINE int act_words(enum k_type type)
{
	return act_head(type) + (way_of(type) == WORDS ? 2 : 1) * K_QBLOCK / 4;
}

/* Sums of the halves; or what the chains start from: the excess times the activations that meet
 * each half of a lane (columns 0 and 1 of the quads, and 2 and 3), negated, of the halves of a
 * block or of the whole. */
INLINE void put_sums(enum k_type type, const int8_t *q, int32_t *out)
{
	__m256i v = _mm256_maddubs_epi16(_mm256_set1_epi8(1), load_block(q));
	__m128i lo, hi;

	if (k_has_two_terms(type)) {
		lo = half_sums(q);
		_mm_storeu_si32(out, _mm_packs_epi32(lo, lo));
		return;
	}
	v = _mm256_add_epi16(v, _mm256_srli_si256(v, 8));
	v = _mm256_add_epi16(v, _mm256_srli_si256(v, 4));
	v = _mm256_mullo_epi16(v, _mm256_set1_epi16((int16_t)-excess_of(type)));
	lo = _mm256_castsi256_si128(v);
	hi = _mm256_extracti128_si256(v, 1);
	if (act_head(type) > ACT_SUM + 1)
		_mm_storeu_si64(out, _mm_unpacklo_epi32(lo, hi));
	else
		_mm_storeu_si32(out, _mm_add_epi16(lo, hi));
}

/* As they are, or as words; of each quad then those at even places, then those at odd ones. */
INLINE void put_quads(enum k_type type, const int8_t *q, int32_t *out)
{
	__m256i *half = (__m256i *)(void *)out;

	if (way_of(type) != WORDS) {
		_mm256_storeu_si256(half, load_block(q));
		return;
	}
	for (int h = 0; h < 2; h++) {
		__m256i v =
			_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(q + 16 * h)));

		v = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(v, 0xd8), 0xd8);
		_mm256_storeu_si256(half + h, v);
	}
}

/* What a chain of a row starts from, of a half of a block or, with the first, of all of it. */
INLINE __m256i start(enum k_type type, const int32_t *x, int half)
{
	if (!excess_of(type) || (half && !k_has_halves(type)))
		return _mm256_setzero_si256();
	return load_word(x + ACT_SUM + half);
}

/* One block of 32 columns of a tile times n rows: exact sums in each lane, for formats where the
 * products of a chain of four quads fit 16 bits. Two chains are also the two halves of a block, and
 * widening multiplies them by their scales. Few rows always take two chains, or each sum would wait
 * for the last. */
INLINE void dot_chains(enum k_type type, bool flat, int n, const uint8_t *w, const int32_t *x,
	const __m256i *sub, __m256i *sum)
{
	const bool halves = k_has_halves(type), wide = way_of(type) != CODES_16;
	const int second = wide || n <= 2 ? n : 0;
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i chain[2 * MAX_ROWS];

	for (int r = 0; r < n + second; r++)
		chain[r] = start(type, x + r % n * act_words(type), r / n);
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		__m256i lo, hi;

		load_weights(type, flat, w, j, &lo, &hi);
		for (int r = 0; r < n; r++) {
			__m256i *a = &chain[r], *b = &chain[second + r];
			const int32_t *q = x + r * act_words(type) + act_head(type) + j;
			__m256i x0 = load_word(q), x1 = load_word(q + 4);

			*a = now(_mm256_add_epi16(*a, _mm256_maddubs_epi16(lo, x0)));
			*b = now(_mm256_add_epi16(*b, _mm256_maddubs_epi16(hi, x1)));
		}
	}
	for (int r = 0; r < n; r++) {
		if (wide)
			sum[r] = _mm256_add_epi32(_mm256_madd_epi16(chain[r], halves ? sub[0] : ones),
				_mm256_madd_epi16(chain[second + r], halves ? sub[1] : ones));
		else
			sum[r] = _mm256_madd_epi16(
				second ? _mm256_add_epi16(chain[r], chain[second + r]) : chain[r], ones);
	}
}

/* A quad of signed bytes of each tile times n rows, whose words lie as put_quads() puts them.
 */
INLINE void add_bytes(enum k_type type, int n_tiles, int n, const __m256i *w, const int32_t *q,
	__m256i sum[TILES][MAX_ROWS])
{
	__m256i part[2][TILES]; /* even and odd places */

	for (int t = 0; t < n_tiles; t++) {
		part[0][t] = _mm256_srai_epi16(_mm256_slli_epi16(w[t], 8), 8);
		part[1][t] = _mm256_srai_epi16(w[t], 8);
	}
	for (int r = 0; r < n; r++, q += act_words(type)) {
		const __m256i even = load_word(q), odd = load_word(q + 1);

		for (int t = 0; t < n_tiles; t++)
			sum[t][r] = now(_mm256_add_epi32(sum[t][r], _mm256_madd_epi16(part[0][t], even)));
		for (int t = 0; t < n_tiles; t++)
			sum[t][r] = now(_mm256_add_epi32(sum[t][r], _mm256_madd_epi16(part[1][t], odd)));
	}
}

/* A block of n_tiles tiles of signed bytes times n rows. */
INLINE void dot_bytes(const struct k_tile_call *c, enum k_type type, bool flat, int n_tiles, int n,
	const uint8_t *w, const int32_t *q, __m256i sum[TILES][MAX_ROWS])
{
	for (int t = 0; t < n_tiles; t++)
		for (int r = 0; r < n; r++)
			sum[t][r] = _mm256_setzero_si256();
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		__m256i lo[TILES], hi[TILES];

		for (int t = 0; t < n_tiles; t++)
			load_weights(type, flat, w + t * c->tile_bytes, j, &lo[t], &hi[t]);
		add_bytes(type, n_tiles, n, lo, q + j * 2, sum);
		add_bytes(type, n_tiles, n, hi, q + j * 2 + 8, sum);
	}
}

/* Quad j, and j + 4 where a chain takes whole blocks, of two tiles times n rows. */
INLINE void add_pair(
	enum k_type type, int n, const __m256i *w, const int32_t *q, __m256i chain[TILES][MAX_ROWS])
{
	for (int r = 0; r < n; r++, q += act_words(type)) {
		const __m256i quad = load_word(q);

		for (int t = 0; t < TILES; t++)
			chain[t][r] = now(_mm256_add_epi16(chain[t][r], _mm256_maddubs_epi16(w[t], quad)));
	}
}

/* Two tiles times n rows: each quad of activations is loaded once for both. Chains of 16 bits take
 * a block or, one after the other, its halves. */
INLINE void dot_pair(const struct k_tile_call *c, enum k_type type, bool flat, int n,
	const uint8_t *w, const int32_t *x, const SUB *const *sub, __m256i sum[TILES][MAX_ROWS])
{
	const bool halves = k_has_halves(type), wide = way_of(type) != CODES_16;
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i chain[TILES][MAX_ROWS];

#pragma GCC unroll 2
	for (int h = 0; h < 1 + wide; h++) {
		for (int t = 0; t < TILES; t++)
			for (int r = 0; r < n; r++)
				chain[t][r] = start(type, x + r * act_words(type), h);
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++) {
			__m256i part[2][TILES];

			for (int t = 0; t < TILES; t++)
				load_weights(type, flat, w + t * c->tile_bytes, j, &part[0][t], &part[1][t]);
			for (int k = wide ? h : 0; k < 2 - (wide && !h); k++)
				add_pair(type, n, part[k], x + act_head(type) + j + 4 * k, chain);
		}
		for (int t = 0; t < TILES; t++)
			for (int r = 0; r < n; r++) {
				const __m256i more = _mm256_madd_epi16(chain[t][r], halves ? sub[t][h] : ones);

				sum[t][r] = h ? _mm256_add_epi32(sum[t][r], more) : more;
			}
	}
}

/* A block of n_tiles tiles times n rows as floats. */
INLINE void dot_block(const struct k_tile_call *c, enum k_type type, bool flat, int n_tiles, int n,
	const int32_t *x, const SUB *const *sub, const uint8_t *w, __m256 sum[TILES][MAX_ROWS])
{
	__m256i whole[TILES][MAX_ROWS];

	if (way_of(type) == WORDS)
		dot_bytes(c, type, flat, n_tiles, n, w, x + act_head(type), whole);
	else if (n_tiles == TILES)
		dot_pair(c, type, flat, n, w, x, sub, whole);
	else
		dot_chains(type, flat, n, w, x, sub[0], whole[0]);
	for (int r = 0; r < n; r++)
		for (int t = 0; t < n_tiles; t++)
			sum[t][r] = _mm256_cvtepi32_ps(whole[t][r]);
}

/* Copies the bytes of the words, each to both halves of a lane. */
INLINE void sub_scales(const __m256i words[4], struct scales *s)
{
	const __m256i first = _mm256_set1_epi32(0x00800080); /* byte 0 of a lane, above a zero */
	const __m256i lane =
		_mm256_broadcastsi128_si256(_mm_setr_epi32(0, 0x04000400, 0x08000800, 0x0c000c00));

	for (int i = 0; i < 16; i++) {
		__m256i at = _mm256_add_epi8(
			_mm256_add_epi8(first, lane), _mm256_set1_epi32(i % 4 << 8 | i % 4 << 24));

		s->sub[i] = _mm256_srai_epi16(_mm256_shuffle_epi8(words[i / 4], at), 8);
	}
}

INLINE __m256 sub_float(__m256i sub)
{
	return _mm256_cvtepi32_ps(_mm256_srai_epi32(sub, 16));
}

#include "kernels/cpu/matmul_body.h"

static bool runs_here(void)
{
	unsigned a, b, c, d;

	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
		   __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C); /* clang knows no "f16c" */
}

TILED_ISA(avx2, k_avx2_attention, k_avx2_multiply, k_avx2_fma)
#endif

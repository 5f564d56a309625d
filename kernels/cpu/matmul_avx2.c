/* Matrix products on AVX2: a tile is 8 rows, a lane of a vector one row (tiles.h), so every lane is
 * the reference's chain. Products of bytes are added in 16 bits as far as they fit (rule 5): 16 of
 * unsigned 4-bit weights, 8 of 5-bit ones, 4 of 6-bit ones (63 * 127 * 4 = 32,004). Signed bytes
 * are multiplied as words. Three and four rows take two tiles at once: docs/performance.md counts
 * the instructions. Thread: called by all threads of a pool; no state. */
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

/* How products of bytes are added up follows from the range of a format's weights: as codes that
 * are never negative, 16, 8 or 4 products fit 16 bits; else values are widened first. */
enum way { CODES_16, CODES_8, CODES_4, WORDS };
INLINE enum way way_of(enum k_type type)
{
	const int least = k_least(type), range = k_most(type) - least;

	return range * 127 * 16 < 32768 && !k_has_halves(type) ? CODES_16
		   : range * 127 * 8 < 32768                       ? CODES_8
		   : range * 127 * 4 < 32768                       ? CODES_4
														   : WORDS;
}

/* By how much the multiplied codes exceed the weights. */
INLINE int excess_of(enum k_type type)
{
	return way_of(type) != WORDS ? -k_least(type) : 0;
}

/* Two 16-bit integers a block, what the chains start from: the excess times the activations that
 * meet each half of a lane (columns 0 and 1 of the quads, and 2 and 3), negated. */
static void prepare_pairs(const int8_t *q, size_t n_blocks, int excess, int16_t *out)
{
	EACH_BLOCK(2)
	{
		const __m256i v = _mm256_maddubs_epi16(_mm256_set1_epi8(1), load_block(q));
		__m128i sum = _mm_add_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

		sum = _mm_add_epi16(sum, _mm_srli_si128(sum, 8));
		sum = _mm_add_epi16(sum, _mm_srli_si128(sum, 4));
		store_pair(out, _mm_mullo_epi16(sum, _mm_set1_epi16((int16_t)-excess)));
	}
}

/* The activations as words; of each quad those at even places, then those at odd ones. */
static void prepare_words(const int8_t *q, size_t n_blocks, int16_t *out)
{
	EACH_BLOCK(K_QBLOCK)
	for (int half = 0; half < 2; half++) {
		__m256i v =
			_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(q + 16 * half)));

		v = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(v, 0xd8), 0xd8);
		_mm256_storeu_si256((__m256i *)(void *)(out + 16 * half), v);
	}
}

static inline int32_t prepare(enum k_type type, const int8_t *q, size_t n_blocks, int16_t *out)
{
	if (!wants_sums(type))
		return 0;
	if (way_of(type) == WORDS)
		prepare_words(q, n_blocks, out);
	else if (k_has_halves(type) || k_has_two_terms(type))
		prepare_halves(q, n_blocks, out);
	else if (way_of(type) == CODES_16)
		prepare_pairs(q, n_blocks, excess_of(type), out);
	else
		prepare_starts(q, n_blocks, excess_of(type), out);
	return way_of(type) == WORDS ? K_QBLOCK : 2;
}

INLINE void load_weights(enum k_type type, const uint8_t *w, int j, __m256i *lo, __m256i *hi)
{
	const int book = k_facts_of(type).book;

	load_codes(type, w, j, lo, hi);
	if (book) {
		const __m128i values =
			_mm_add_epi8(_mm_loadu_si128((const __m128i *)(const void *)k_books[book]),
				_mm_set1_epi8((char)excess_of(type)));
		const __m256i both = v_broadcast128(values);

		*lo = _mm256_shuffle_epi8(both, *lo);
		*hi = _mm256_shuffle_epi8(both, *hi);
	}
}

/* Where n rows begin, the next one `stride` bytes after the one before. gcc is not told, or it
 * would keep an address of each quad, in memory. */
INLINE void rows_at(const void *first, size_t stride, int n, const int8_t *x[MAX_ROWS])
{
	for (int r = 0; r < n; r++) {
		x[r] = (const int8_t *)first + (size_t)r * stride;
		__asm__("" : "+r"(x[r]));
	}
}

/* What a chain of row r's block starts from, so that the codes' excess is gone at its end: in one
 * half of each lane for a half of a block; else, of a whole block, in both. */
INLINE __m256i start(
	const struct k_tile_call *c, enum k_type type, const int16_t *aside, int r, int half)
{
	const int16_t *at = aside + 2 * r * (c->dim / K_QBLOCK);

	if (k_has_halves(type) && excess_of(type))
		return _mm256_set1_epi32((uint16_t)(-excess_of(type) * at[half]));
	if (way_of(type) == CODES_16 && excess_of(type) && !half)
		return load_quad((const int8_t *)at);
	return _mm256_setzero_si256();
}

/* One block of 32 columns of a tile times n rows: exact sums in each lane, for formats where the
 * products of a chain of four quads fit 16 bits. Two chains are also the two halves of a block, and
 * widening multiplies them by their scales. Few rows always take two chains, or each sum would wait
 * for the last. */
INLINE void dot_chains(const struct k_tile_call *c, enum k_type type, int n, const uint8_t *w,
	const int8_t *q, const int16_t *aside, const __m256i *sub, __m256i *sum)
{
	const bool halves = k_has_halves(type), wide = way_of(type) != CODES_16;
	const int second = wide || n <= 2 ? n : 0;
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i chain[2 * MAX_ROWS];
	const int8_t *x[MAX_ROWS];

	rows_at(q, (size_t)c->dim, n, x);
	for (int r = 0; r < n + second; r++)
		chain[r] = start(c, type, aside, r % n, r / n);
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		__m256i lo, hi;

		load_weights(type, w, j, &lo, &hi);
		for (int r = 0; r < n; r++) {
			__m256i *a = &chain[r], *b = &chain[second + r];
			__m256i x0 = load_quad(x[r] + j * 4), x1 = load_quad(x[r] + j * 4 + 16);

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

/* A quad of signed bytes times n rows, whose words lie as prepare_words() puts them. */
INLINE void add_bytes(__m256i w, const int8_t *const *x, int at, int n, __m256i *sum)
{
	const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8);
	const __m256i odd = _mm256_srai_epi16(w, 8);

	for (int r = 0; r < n; r++) {
		sum[r] = now(_mm256_add_epi32(sum[r], _mm256_madd_epi16(even, load_quad(x[r] + at))));
		sum[r] = now(_mm256_add_epi32(sum[r], _mm256_madd_epi16(odd, load_quad(x[r] + at + 4))));
	}
}

/* As dot_chains, of signed bytes. */
INLINE void dot_bytes(const struct k_tile_call *c, enum k_type type, int n, const uint8_t *w,
	const int16_t *words, __m256i *sum)
{
	const int8_t *x[MAX_ROWS];

	rows_at(words, (size_t)c->dim * sizeof *words, n, x);
	for (int r = 0; r < n; r++)
		sum[r] = _mm256_setzero_si256();
	if (k_low_bits(type) == 8) {
#pragma GCC unroll 8
		for (int j = 0; j < 8; j++)
			add_bytes(load(w + j * 32), x, j * 8, n, sum);
		return;
	}
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		__m256i lo, hi;

		load_weights(type, w, j, &lo, &hi);
		add_bytes(lo, x, j * 8, n, sum);
		add_bytes(hi, x, j * 8 + 32, n, sum);
	}
}

/* Quad j, and j + 4 where a chain takes whole blocks, of two tiles times n rows. */
INLINE void add_pair(
	int n, const __m256i *w, const int8_t *const *x, int at, __m256i chain[TILES][MAX_ROWS])
{
	for (int r = 0; r < n; r++) {
		const __m256i quad = load_quad(x[r] + at);

		for (int t = 0; t < TILES; t++)
			chain[t][r] = now(_mm256_add_epi16(chain[t][r], _mm256_maddubs_epi16(w[t], quad)));
	}
}

/* Two tiles times n rows: each quad of activations is loaded once for both. Chains of 16 bits take
 * a block or, one after the other, its halves. */
INLINE void dot_pair(const struct k_tile_call *c, enum k_type type, int n, const uint8_t *w,
	const int8_t *q, const int16_t *aside, const struct scales *s, int half,
	__m256i sum[TILES][MAX_ROWS])
{
	const bool halves = k_has_halves(type), wide = way_of(type) != CODES_16;
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i chain[TILES][MAX_ROWS];
	const int8_t *x[MAX_ROWS];

	rows_at(q, (size_t)c->dim, n, x);
#pragma GCC unroll 2
	for (int h = 0; h < 1 + wide; h++) {
		for (int t = 0; t < TILES; t++)
			for (int r = 0; r < n; r++)
				chain[t][r] = start(c, type, aside, r, h);
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++) {
			__m256i part[2][TILES];

			for (int t = 0; t < TILES; t++)
				load_weights(type, w + t * c->tile_bytes, j, &part[0][t], &part[1][t]);
			for (int k = wide ? h : 0; k < 2 - (wide && !h); k++)
				add_pair(n, part[k], x, j * 4 + k * 16, chain);
		}
		for (int t = 0; t < TILES; t++)
			for (int r = 0; r < n; r++) {
				const __m256i more =
					_mm256_madd_epi16(chain[t][r], halves ? s[t].sub[half + h] : ones);

				sum[t][r] = h ? _mm256_add_epi32(sum[t][r], more) : more;
			}
	}
}

/* As dot_pair and dot_chains, of codes of which only four products fit 16 bits: they are widened,
 * and multiplied by their half's scale, after two quads. The correction for their excess comes
 * first. */
INLINE void dot_fours(const struct k_tile_call *c, enum k_type type, int n_tiles, int n,
	const uint8_t *w, const int8_t *q, const int16_t *sums, const struct scales *s, int half,
	__m256i sum[TILES][MAX_ROWS])
{
	const int8_t *x[MAX_ROWS];

	rows_at(q, (size_t)c->dim, n, x);
	for (int t = 0; t < n_tiles; t++) {
		const __m256i both = _mm256_blend_epi16(s[t].sub[half], s[t].sub[half + 1], 0xaa);
		const __m256i less = _mm256_mullo_epi16(both, _mm256_set1_epi16((int16_t)-excess_of(type)));

		for (int r = 0; r < n; r++)
			sum[t][r] = _mm256_madd_epi16(
				load_quad((const int8_t *)(sums + 2 * r * (c->dim / K_QBLOCK))), less);
	}
#pragma GCC unroll 4
	for (int k = 0; k < 4; k++) {
		const int h = k / 2, j = k % 2 * 2;
		__m256i a[2][TILES], b[2][TILES];

		for (int t = 0; t < n_tiles; t++) {
			load_weights(type, w + t * c->tile_bytes, j, &a[0][t], &a[1][t]);
			load_weights(type, w + t * c->tile_bytes, j + 1, &b[0][t], &b[1][t]);
		}
		for (int r = 0; r < n; r++) {
			const __m256i x0 = load_quad(x[r] + h * 16 + j * 4);
			const __m256i x1 = load_quad(x[r] + h * 16 + j * 4 + 4);

			for (int t = 0; t < n_tiles; t++)
				sum[t][r] = now(_mm256_add_epi32(
					sum[t][r], _mm256_madd_epi16(_mm256_add_epi16(_mm256_maddubs_epi16(a[h][t], x0),
													 _mm256_maddubs_epi16(b[h][t], x1)),
								   s[t].sub[half + h])));
		}
	}
}

INLINE int tiles_of(enum k_type type, int n)
{
	return way_of(type) != WORDS && n > 2 ? TILES : 1;
}

/* A block of n_tiles tiles times n rows as floats. Of formats without halves whose products do not
 * fit one chain, the start is 32 bits. */
INLINE void dot_block(const struct k_tile_call *c, enum k_type type, int n_tiles, int n, int32_t b,
	const struct scales *s, int half, const uint8_t *w, __m256 sum[TILES][MAX_ROWS])
{
	const bool late = !k_has_halves(type) && excess_of(type) && way_of(type) != CODES_16;
	const int16_t *aside = c->aside + b * prepare(type, NULL, 0, NULL);
	const int8_t *q = c->q + b * K_QBLOCK;
	__m256i whole[TILES][MAX_ROWS];

	if (way_of(type) == CODES_4)
		dot_fours(c, type, n_tiles, n, w, q, aside, s, half, whole);
	else if (n_tiles == TILES)
		dot_pair(c, type, n, w, q, aside, s, half, whole);
	else if (way_of(type) == WORDS)
		dot_bytes(c, type, n, w, aside, whole[0]);
	else
		dot_chains(c, type, n, w, q, aside, s->sub + half, whole[0]);
	for (int r = 0; r < n; r++)
		for (int t = 0; t < n_tiles; t++) {
			if (late)
				whole[t][r] = _mm256_add_epi32(
					whole[t][r], load_quad((const int8_t *)(aside + 2 * r * (c->dim / K_QBLOCK))));
			sum[t][r] = _mm256_cvtepi32_ps(whole[t][r]);
		}
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

#include "kernels/cpu/matmul_body.h"

static bool runs_here(void)
{
	unsigned a, b, c, d;

	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
		   __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C); /* clang knows no "f16c" */
}

const struct k_isa k_isa_avx2 = {
	.name = "avx2" K_ORDER_NAME,
	.runs_here = runs_here,
	.fn = { [K_OP_embed] = tiled_embed,
		[K_OP_matmul] = tiled_matmul,
		[K_OP_attention] = k_avx2_attention,
		[K_OP_experts] = tiled_experts,
		K_VEC8_OPS },
	.together = { [K_OP_attention] = true, [K_OP_stats] = true },
	.packed_bytes = packed_bytes,
	.pack_unit = LANES,
	.pack = pack,
	.multiply = k_avx2_multiply,
	.fma = k_avx2_fma,
};
#endif

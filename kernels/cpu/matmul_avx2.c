/* Matrix products on AVX2: a tile is 8 rows, a lane of a vector one row (tiles.h), so every lane is
 * the reference's chain. Products of bytes are added in 16 bits as far as they fit (rule 5): 16 of
 * unsigned 4-bit weights, 8 of 5-bit ones, 4 of 6-bit ones (63 * 127 * 4 = 32,004), 2 of signed
 * bytes, these as |w| times sign(x, w). Three and four rows whose weights other rows just read take
 * two tiles at once: docs/performance.md counts the instructions.
 * Thread: called by all threads of a pool; no state. */
#ifdef __AVX2__
#include <cpuid.h>
#include <immintrin.h>

#include "kernels/cpu/isa.h"

#define LANES 8
#define MAX_ROWS 4
#define TILES 2
#define FLIP_Q8 0x80
#define VEC __m256
#define VECI __m256i
#define SUB __m256i /* in both halves of a lane */
#define BITS_FLOAT _mm256_castsi256_ps
#define V(name) _mm256_##name
#define v_and _mm256_and_si256
#define v_or _mm256_or_si256
#define v_load _mm256_load_si256

static inline __m256 load_f16(const uint8_t *p)
{
	return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)p));
}

static inline __m256i load_u16(const uint8_t *p)
{
	return _mm256_cvtepu16_epi32(_mm_load_si128((const __m128i *)(const void *)p));
}

static inline __m256i load_u8(const uint8_t *p)
{
	return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

static inline __m256 load_bf16(const uint8_t *p)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(load_u16(p), 16));
}

#include "kernels/cpu/matmul_load.h"

/* Forces the sum here: gcc would delay integer sums until the products fill more registers than
 * there are. A quarter faster for four rows. */
INLINE __m256i now(__m256i sum)
{
	__asm__("" : "+x"(sum));
	return sum;
}

/* How products of bytes are added up follows from the range of a format's weights: as codes that
 * are never negative, 16, 8 or 4 products fit 16 bits; else as signed values 2 do. */
enum way { CODES_16, CODES_8, CODES_4, VALUES_2 };
INLINE enum way way_of(enum k_type type)
{
	const int least = k_least(type), range = k_most(type) - least;

	return range * 127 * 16 < 32768 && !k_has_halves(type) ? CODES_16
		   : range * 127 * 8 < 32768                       ? CODES_8
		   : range * 127 * 4 < 32768                       ? CODES_4
														   : VALUES_2;
}

/* By how much the multiplied codes exceed the weights. */
INLINE int excess_of(enum k_type type)
{
	return way_of(type) != VALUES_2 ? -k_least(type) : 0;
}

INLINE void load_weights(enum k_type type, const uint8_t *w, int j, __m256i *lo, __m256i *hi)
{
	const int book = k_facts_of(type).book;

	load_codes(type, w, j, lo, hi);
	if (book) {
		const __m128i values =
			_mm_add_epi8(_mm_loadu_si128((const __m128i *)(const void *)k_books[book]),
				_mm_set1_epi8((char)excess_of(type)));
		const __m256i both = _mm256_broadcastsi128_si256(values);

		*lo = _mm256_shuffle_epi8(both, *lo);
		*hi = _mm256_shuffle_epi8(both, *hi);
	}
}

/* One block of 32 columns of a tile times n rows: exact sums in each lane, for formats where the
 * products of a chain of four quads fit 16 bits. Two chains are also the two halves of a block, and
 * widening multiplies them by their scales; they start with the correction for the codes' excess.
 * Few rows always take two chains, or each sum would wait for the last. */
INLINE void dot_chains(enum k_type type, const uint8_t *w, const int8_t *q, const int16_t *sums,
	int32_t dim, int n, const __m256i *sub, __m256i *sum)
{
	const bool halves = k_has_halves(type), wide = way_of(type) != CODES_16;
	const int second = wide || n <= 2 ? n : 0;
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i chain[2 * MAX_ROWS];

	for (int r = 0; r < n + second; r++)
		chain[r] = halves && excess_of(type)
					   ? _mm256_set1_epi32((uint16_t)(-excess_of(type) *
													  sums[2 * (r % n) * (dim / K_QBLOCK) + r / n]))
					   : _mm256_setzero_si256();
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		__m256i lo, hi;

		load_weights(type, w, j, &lo, &hi);
		for (int r = 0; r < n; r++) {
			const int8_t *x = q + (size_t)r * (size_t)dim + j * 4;
			__m256i *a = &chain[r], *b = &chain[second + r];
			__m256i x0 = load_quad(x), x1 = load_quad(x + 16);

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

/* As dot_chains, of signed bytes. */
INLINE void dot_bytes(
	enum k_type type, const uint8_t *w, const int8_t *q, int32_t dim, int n, __m256i *sum)
{
	for (int r = 0; r < n; r++)
		sum[r] = _mm256_setzero_si256();
	if (k_low_bits(type) == 8) {
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

/* Quad j, and j + 4 where a chain takes whole blocks, of two tiles times n rows. */
INLINE void add_pair(const struct k_tile_call *c, int n, const __m256i *w, const int8_t *x,
	__m256i chain[TILES][MAX_ROWS])
{
	for (int r = 0; r < n; r++) {
		const __m256i quad = load_quad(x + (size_t)r * (size_t)c->dim);

		for (int t = 0; t < TILES; t++)
			chain[t][r] = now(_mm256_add_epi16(chain[t][r], _mm256_maddubs_epi16(w[t], quad)));
	}
}

/* Two tiles times n rows: each quad of activations is loaded once for both. Chains of 16 bits take
 * a block or, one after the other, its halves. */
INLINE void dot_pair(const struct k_tile_call *c, enum k_type type, int n, const uint8_t *w,
	const int8_t *q, const int16_t *sums, const struct scales *s, int half,
	__m256i sum[TILES][MAX_ROWS])
{
	const bool halves = k_has_halves(type), wide = way_of(type) != CODES_16;
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i chain[TILES][MAX_ROWS];

#pragma GCC unroll 2
	for (int h = 0; h < 1 + wide; h++) {
		for (int t = 0; t < TILES; t++)
			for (int r = 0; r < n; r++)
				chain[t][r] =
					halves && excess_of(type)
						? _mm256_set1_epi32(
							  (uint16_t)(-excess_of(type) * sums[2 * r * (c->dim / K_QBLOCK) + h]))
						: _mm256_setzero_si256();
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++) {
			__m256i part[2][TILES];

			for (int t = 0; t < TILES; t++)
				load_weights(type, w + t * c->tile_bytes, j, &part[0][t], &part[1][t]);
			for (int k = wide ? h : 0; k < 2 - (wide && !h); k++)
				add_pair(c, n, part[k], q + j * 4 + k * 16, chain);
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
			const int8_t *x = q + (size_t)r * (size_t)c->dim + h * 16 + j * 4;
			const __m256i x0 = load_quad(x), x1 = load_quad(x + 4);

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
	return way_of(type) != VALUES_2 && n > 2 ? TILES : 1;
}

INLINE void dot_block(const struct k_tile_call *c, enum k_type type, int n_tiles, int n, int32_t b,
	const struct scales *s, int half, const uint8_t *w, __m256 sum[TILES][MAX_ROWS])
{
	const int excess = k_has_halves(type) ? 0 : excess_of(type);
	const int16_t *sums = c->sum_q + 2 * b;
	const int8_t *q = c->q + b * K_QBLOCK;
	__m256i whole[TILES][MAX_ROWS];

	if (way_of(type) == CODES_4)
		dot_fours(c, type, n_tiles, n, w, q, sums, s, half, whole);
	else if (n_tiles == TILES)
		dot_pair(c, type, n, w, q, sums, s, half, whole);
	else if (way_of(type) == VALUES_2)
		dot_bytes(type, w, q, c->dim, n, whole[0]);
	else
		dot_chains(type, w, q, sums, c->dim, n, s->sub + half, whole[0]);
	for (int r = 0; r < n; r++) {
		__m256i more; /* sum of (code - excess) x */

		if (excess)
			more =
				_mm256_madd_epi16(load_quad((const int8_t *)(sums + 2 * r * (c->dim / K_QBLOCK))),
					_mm256_set1_epi16((int16_t)excess));
		for (int t = 0; t < n_tiles; t++)
			sum[t][r] =
				_mm256_cvtepi32_ps(excess ? _mm256_sub_epi32(whole[t][r], more) : whole[t][r]);
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

static void k_avx2_experts(struct k_op *op, int tid, int n_threads, void *scratch)
{
	k_each_expert(op, tid, n_threads, scratch, k_avx2_matmul);
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
	.fn = { [K_OP_embed] = k_avx2_embed,
		[K_OP_matmul] = k_avx2_matmul,
		[K_OP_attention] = k_avx2_attention,
		[K_OP_experts] = k_avx2_experts,
		K_VEC8_OPS },
	.together = { [K_OP_attention] = true, [K_OP_stats] = true },
	.packed_bytes = packed_bytes,
	.pack_unit = LANES,
	.pack = pack,
	.multiply = k_avx2_multiply,
	.fma = k_avx2_fma,
};
#endif

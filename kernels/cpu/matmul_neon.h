/* Matrix products on AArch64 with dot products: a tile is 4 rows, a lane of a vector one row
 * (tiles.h). sdot multiplies signed bytes and adds four products to a lane of 32 bits without
 * saturating, so sums are exact; of 16 activations in a register it takes the quad that it is told,
 * so none is loaded for each lane. smmla multiplies two rows of eight signed bytes by two others:
 * of COUPLES (matmul_load.h) sums 2i and 2i + 1 are those of rows 2i and 2i + 1 of activations by
 * lanes 0 and 1 and by lanes 2 and 3, and a couple's words of a block are its scales, twice each,
 * its sums likewise, and of eight columns after the other both rows' integers. Included by
 * matmul_neon.c and matmul_i8mm.c alone. Thread: called by all threads of a pool; no state. */
#include <sys/auxv.h>

#include "kernels/cpu/vec8.h"

#define LANES 4
#define MAX_ROWS 8
#define TILES 1
#define FLIP_Q8 0x80
#define VEC __m128
#define VECI __m128i
#define SUB __m128i
#define BITS_FLOAT (__m128)
#define V(name) _mm_##name
#define v_and vandq_s32
#define v_or vorrq_s32
#define v_xor veorq_s32
#define v_load _mm_load_si128
#define v_lookup(book, codes) ((__m128i)vqtbl1q_s8(vld1q_s8(book), (uint8x16_t)(codes)))
#define v_fours vld1q_f32

/* As bytes: 4i … 4i + 3 of place i. */
static inline __m128 v_pick(__m128 x, __m128i place)
{
	const uint32x4_t at = ((uint32x4_t)place & 3) * 0x04040404 + 0x03020100;

	return (__m128)vqtbl1q_u8((uint8x16_t)x, (uint8x16_t)at);
}

static inline __m128 load_f16(const uint8_t *p)
{
	return vcvt_f32_f16((float16x4_t)vld1_u8(p));
}

static inline __m128i load_u16(const uint8_t *p)
{
	return (__m128i)vmovl_u16((uint16x4_t)vld1_u8(p));
}

static inline __m128i load_u8(const uint8_t *p)
{
	uint32_t bytes;

	memcpy(&bytes, p, sizeof bytes);
	return (__m128i)vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes))));
}

static inline __m128 load_bf16(const uint8_t *p)
{
	return (__m128)(load_u16(p) << 16);
}

#include "kernels/cpu/matmul_load.h"

INLINE int act_words(enum k_type type)
{
	return act_head(type) + K_QBLOCK / 4;
}

#if COUPLES
#define multiply_couples vmmlaq_s32
#define of_lanes(v, n, r) (coupled(n) ? (__typeof__(v))vdupq_n_s64(((int64x2_t)(v))[(r) % 2]) : (v))
#define row_float(...) ((__m128)row_word(__VA_ARGS__))

INLINE __m128i row_word(enum k_type type, int n, const int32_t *x, int r, int word)
{
	return coupled(n) ? vld1q_s32(x + r / 2 * 2 * act_words(type) + 4 * word)
					  : load_word(x + r * act_words(type) + word);
}

INLINE __m128 row_sum(int n, const __m128 *sum, int r)
{
	const float64x2_t a = (float64x2_t)sum[r / 2 * 2], b = (float64x2_t)sum[r / 2 * 2 + 1];

	return !coupled(n) ? sum[r] : (__m128)(r % 2 ? vzip2q_f64(a, b) : vzip1q_f64(a, b));
}

/* To its place in a couple's words. */
INLINE void put_row(const int32_t *row, int32_t *x)
{
	x[0] = x[1] = row[ACT_SCALE];
	x[4] = x[5] = row[ACT_SUM];
	for (int i = 0; i < 4; i++)
		memcpy(x + 8 + 4 * i, row + 4 + 2 * i, 8);
}
#else
#define multiply_couples(sum, x, w) (sum)
#endif

/* Two quads of four lanes become both quads of two lanes, and of the others. */
INLINE void couple_lanes(int32x4_t quad[4])
{
	for (int i = 0; i < 4; i += 2) {
		const int32x4_t a = quad[i], b = quad[i + 1];

		quad[i] = vzip1q_s32(a, b);
		quad[i + 1] = vzip2q_s32(a, b);
	}
}

/* By how much the multiplied codes exceed the weights. */
INLINE int excess_of(enum k_type type)
{
	return k_low_bits(type) == 8 || k_facts_of(type).book ? 0 : -k_least(type);
}

/* Quads 4 * half … 4 * half + 3 of a block, less `less`, which unpacked ones have been, as they
 * meet n rows. Four bits alone need no mask after a shift of bytes. */
INLINE void load_weights(
	enum k_type type, bool flat, int n, const uint8_t *w, int half, int less, int8x16_t out[4])
{
	const int book = k_facts_of(type).book, low = k_low_bits(type);
	const bool bytes = flat || low == 8, nibbles = !bytes && low == 4 && !k_high_bits(type);

	for (int j = 0; j < 4; j++) {
		__m128i part[2];

		if (bytes || nibbles)
			part[half] = load(w + (bytes ? 4 * half + j : j) * LANES * 4);
		else
			load_codes(type, w, j, &part[0], &part[1]);
		out[j] = (int8x16_t)part[half];
	}
	if (coupled(n) && !flat)
		couple_lanes((int32x4_t *)out);
	for (int j = 0; j < 4 && !flat; j++) {
		if (nibbles)
			out[j] = (int8x16_t)(half ? (uint8x16_t)out[j] >> 4 : (uint8x16_t)out[j] & 15);
		if (book)
			out[j] = vqtbl1q_s8(vld1q_s8(k_books[book]), (uint8x16_t)out[j]);
		if (less)
			out[j] -= (int8_t)less;
	}
}

INLINE void load_all(enum k_type type, const uint8_t *w, __m128i codes[8])
{
	for (int h = 0; h < 2; h++)
		load_weights(type, false, MAX_ROWS, w, h, excess_of(type), (int8x16_t *)codes + 4 * h);
}

/* Half a block times the 16 activations of sum r of n rows, added to it. */
INLINE __m128i dot_half(
	enum k_type type, int n, const int8x16_t w[4], const int32_t *x, int r, int half, __m128i sum)
{
	const int32_t *at = coupled(n) ? x + r / 2 * 2 * act_words(type) + 8 + 8 * half
								   : x + r * act_words(type) + act_head(type) + 4 * half;
	const int8x16_t q = vld1q_s8((const int8_t *)at);

	if (coupled(n)) {
		sum = multiply_couples(sum, q, w[r % 2]);
		return multiply_couples(sum, vld1q_s8((const int8_t *)at + 16), w[2 + r % 2]);
	}
	sum = vdotq_laneq_s32(sum, w[0], q, 0);
	sum = vdotq_laneq_s32(sum, w[1], q, 1);
	sum = vdotq_laneq_s32(sum, w[2], q, 2);
	return vdotq_laneq_s32(sum, w[3], q, 3);
}

/* Sums of the halves, or what the excess adds to those of products, negated. */
INLINE void put_sums(enum k_type type, const int8_t *q, int32_t *out)
{
	const int16_t sum[2] = { vaddlvq_s8(vld1q_s8(q)), vaddlvq_s8(vld1q_s8(q + 16)) };

	if (k_has_two_terms(type))
		memcpy(out, sum, sizeof sum);
	else if (k_has_halves(type) && excess_of(type))
		out[0] = -excess_of(type) * sum[0], out[1] = -excess_of(type) * sum[1];
	else
		out[0] = -excess_of(type) * (sum[0] + sum[1]);
}

INLINE void put_quads(enum k_type type, const int8_t *q, int32_t *out)
{
	(void)type;
	memcpy(out, q, K_QBLOCK);
}

/* The halves one after the other, so that the sums of all rows and the weights fit the registers.
 * Many rows take the excess away from the weights, few from their sums. */
INLINE void dot_block(const struct k_tile_call *c, enum k_type type, bool flat, int n_tiles, int n,
	const int32_t *x, const SUB *const *sub, const uint8_t *w, __m128 out[TILES][MAX_ROWS])
{
	const bool halves = k_has_halves(type);
	const int excess = excess_of(type);
	const int less = (coupled(n) ? flat || halves : n > 2) ? excess : 0;
	__m128i sum[MAX_ROWS], whole[MAX_ROWS];
	int8x16_t weight[4];

	(void)c, (void)n_tiles;
#pragma GCC unroll 2
	for (int h = 0; h < 2; h++) {
		load_weights(type, flat, n, w, h, less, weight);
		for (int r = 0; r < n; r++) {
			if (!h || halves)
				sum[r] = excess > less ? row_word(type, n, x, r, ACT_SUM + h) : vdupq_n_s32(0);
			sum[r] = dot_half(type, n, weight, x, r, h, sum[r]);
			if (halves && !h)
				whole[r] = sum[r] * of_lanes(sub[0][0], n, r);
			else if (halves)
				sum[r] = whole[r] + sum[r] * of_lanes(sub[0][1], n, r);
		}
	}
	for (int r = 0; r < n; r++)
		out[0][r] = vcvtq_f32_s32(sum[r]);
}

/* Bytes of the words. */
INLINE void sub_scales(const __m128i words[4], struct scales *s)
{
	for (int i = 0; i < 16; i++)
		s->sub[i] = words[i / 4] << (24 - i % 4 * 8) >> 24;
}

INLINE __m128 sub_float(__m128i sub)
{
	return vcvtq_f32_s32(sub);
}

#include "kernels/cpu/matmul_body.h"

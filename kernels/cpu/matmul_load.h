/* Tiles to vectors (tiles.h), for any width: the weights' codes and the packed scales. Included by
 * a matmul_*.c, which defines LANES, the vectors VEC and VECI, V(name) for the intrinsic `name`,
 * v_and, v_or, load_f16(), load_u8() and load_u16(), which widen to words, and SUB, its form of
 * sub-scales of 16 columns. Its own products follow, and then matmul_body.h. Thread: any; no
 * state. */
#include "kernels/measure.h"
#include "kernels/cpu/tiles.h"

/* Whether n rows are multiplied in couples (matmul_neon.h): two and three gain nothing. Where not,
 * sum r is row r's, and a lane's a row of weights. */
#ifndef COUPLES
#define COUPLES 0
#define row_word(type, n, x, r, word) load_word((x) + (r)*act_words(type) + (word))
#define row_float(type, n, x, r, word) load_scale((x) + (r)*act_words(type) + (word))
#define of_lanes(v, n, r) (v)
#define row_sum(n, sum, r) ((sum)[r])
#define put_row(row, x) ((void)0)
#endif
#define coupled(n) (COUPLES && (n) > 3)
#define laid(n) (coupled(n) ? (n) + (n) % 2 : (n)) /* rows, with one that a couple may lack */

#define INLINE static inline __attribute__((always_inline))

INLINE VECI load(const uint8_t *p)
{
	return v_load((const VECI *)(const void *)p);
}

/* A word of activations in each lane: four of them, or what was made of them. */
INLINE VECI load_word(const int32_t *p)
{
	return V(set1_epi32)(*p);
}

INLINE VEC load_scale(const int32_t *p)
{
	float f;

	__builtin_memcpy(&f, p, sizeof f);
	return V(set1_ps)(f);
}

/* Bits of each word, from bit `from` to bit `to`. */
INLINE VECI move(VECI v, int from, int to)
{
	return to >= from ? V(slli_epi32)(v, to - from) : V(srli_epi32)(v, from - to);
}

/* Quads j and j + 4 of a block, as the file's codes, which are never negative. */
INLINE void load_codes(enum k_type type, const uint8_t *w, int j, VECI *lo, VECI *hi)
{
	const int low = k_low_bits(type), high = k_high_bits(type);
	const VECI mask = V(set1_epi8)((char)((1 << low) - 1));
	const VECI above = V(set1_epi8)((char)(((1 << high) - 1) << low));
	const uint8_t *quants = w + 4 * high * LANES;

	if (low == 4) {
		const VECI v = load(quants + j * LANES * 4);

		*lo = v_and(v, mask);
		*hi = v_and(V(srli_epi16)(v, 4), mask);
	} else {
		*lo = v_and(move(load(quants), 2 * j, 0), mask);
		*hi = v_and(move(load(quants + LANES * 4), 2 * j, 0), mask);
	}
	if (high == 1) {
		*lo = v_or(*lo, v_and(move(load(w), j, low), above));
		*hi = v_or(*hi, v_and(move(load(w), j + 4, low), above));
	} else if (high == 2) {
		*lo = v_or(*lo, v_and(move(load(w), 2 * j, low), above));
		*hi = v_or(*hi, v_and(move(load(w + LANES * 4), 2 * j, low), above));
	}
}

/* The scales of a chunk: of each block of 32 columns, and of its halves. (Their minima are
 * elsewhere: 256 bytes more here cost the formats without them a tenth of their speed.) */
struct scales {
	VEC dw[8], mw[8];
	SUB sub[16];
};

/* Byte i of each lane as a float. */
INLINE VEC byte_float(VECI words, int i)
{
	return V(cvtepi32_ps)(v_and(V(srli_epi32)(words, 8 * i), V(set1_epi32)(255)));
}

/* Eight 6-bit scales and minima in three words, four at a time in the bytes of a word. */
INLINE void k_scales(const uint8_t *head, struct scales *s)
{
	const VECI six = V(set1_epi8)(63), high = V(set1_epi8)(48), low = V(set1_epi8)(15);
	const VECI a = load(head + LANES * 4), b = load(head + LANES * 8), c = load(head + LANES * 12);
	const VECI scale[2] = { v_and(a, six), v_or(v_and(c, low), v_and(V(srli_epi16)(a, 2), high)) };
	const VECI min[2] = { v_and(b, six),
		v_or(v_and(V(srli_epi16)(c, 4), low), v_and(V(srli_epi16)(b, 2), high)) };
	const VEC d = load_f16(head), m = load_f16(head + LANES * 2), sign = V(set1_ps)(-0.0f);

	for (int i = 0; i < 8; i++) {
		s->dw[i] = V(mul_ps)(d, byte_float(scale[i / 4], i % 4));
		s->mw[i] = V(xor_ps)(sign, V(mul_ps)(m, byte_float(min[i / 4], i % 4)));
	}
}

/* Eight 6-bit scales, less 32: four low bits each in a word, two high ones in 16 bits. */
INLINE void xs_scales(const uint8_t *head, struct scales *s)
{
	const VECI high = load_u16(head + LANES * 2), low = load(head + LANES * 4);
	const VEC d = load_f16(head);

	for (int i = 0; i < 8; i++) {
		VECI v = v_or(v_and(move(low, 4 * i, 0), V(set1_epi32)(15)),
			v_and(move(high, 2 * i, 4), V(set1_epi32)(48)));

		s->dw[i] = V(mul_ps)(d, V(cvtepi32_ps)(V(sub_epi32)(v, V(set1_epi32)(32))));
	}
}

/* Sixteen sub-scales as signed bytes, in four words. */
INLINE void half_words(int subs, const uint8_t *words, VECI sub[4])
{
	const VECI low = V(set1_epi8)(15), high = V(set1_epi8)(48);

	for (int i = 0; i < 4; i++) {
		const VECI v = load(words + (subs == K_SUBS_16X6 ? i % 2 : i) * LANES * 4);

		if (subs == K_SUBS_16X6) /* less 32 */
			sub[i] = V(sub_epi8)(v_or(v_and(move(v, i / 2 * 4, 0), low),
									 v_and(move(load(words + LANES * 8), 2 * i, 4), high)),
				V(set1_epi8)(32));
		else
			sub[i] = subs == K_SUBS_16X4M ? v_and(v, low) : v;
	}
}

/* Minima of the halves, in the high nibbles of the words' bytes, two bytes for a block, as pairs of
 * 16 bits. */
INLINE void half_minima(const uint8_t *head, struct scales *s, VECI min[8])
{
	const VEC sign = V(set1_ps)(-0.0f), m = V(xor_ps)(sign, load_f16(head + LANES * 2));

	for (int i = 0; i < 8; i++) {
		const VECI pair = move(load(head + LANES * 4 * (1 + i / 2)), 4 + 16 * (i % 2), 0);

		s->mw[i] = m;
		min[i] =
			v_or(v_and(pair, V(set1_epi32)(15)), v_and(move(pair, 8, 16), V(set1_epi32)(15 << 16)));
	}
}

/* 2^(e - 128): the exponent's field, or for e < 2 the highest bits of a subnormal. */
INLINE VEC load_e8m0(const uint8_t *p)
{
	const VECI e = load_u8(p), one = V(set1_epi32)(1);
	const VECI normal = V(slli_epi32)(V(sub_epi32)(V(max_epi32)(e, one), one), 23);
	const VECI tiny = V(sllv_epi32)(V(set1_epi32)(0x00200000), e);

	return BITS_FLOAT(v_or(normal, v_and(tiny, V(set1_epi32)(0x00600000))));
}

/* Where a row's words of a block are (struct k_tiling). ACT_SUM: of formats with a minimum of a
 * whole block the sum of its values times its scale; of those with minima of halves the halves'
 * sums in 16 bits; else what the integers of its products start from, a second word having that of
 * the second half. */
enum { ACT_SCALE, ACT_SUM };
INLINE int excess_of(enum k_type type); /* of the integers that are multiplied, over the weights */
INLINE int act_head(enum k_type type)
{
	return COUPLES ? 4 : k_has_halves(type) && excess_of(type) ? 3 : 2;
}

/* Tiles to vectors (tiles.h), for any width: the weights' codes and the packed scales. Included by a
 * matmul_*.c, which defines LANES, the vectors VEC and VECI, V(name) for what the instruction set
 * calls name, v_and, v_or, load_f16(), and SUB, its form of Q6_K's sub-scales. Then come its own
 * products, and then matmul_body.h.
 * Thread: any; no state. */
#include "kernels/formats.h"
#include "kernels/measure.h"
#include "kernels/tiles.h"

#define INLINE static inline __attribute__((always_inline))

INLINE VECI load(const uint8_t *p)
{
	return v_load((const VECI *)(const void *)p);
}

/* Four activations in each lane. */
INLINE VECI load_quad(const int8_t *p)
{
	int32_t quad;

	__builtin_memcpy(&quad, p, sizeof quad);
	return V(set1_epi32)(quad);
}

/* Quads j and j + 4 of a block, as the file's codes, which are never negative. */
INLINE void load_codes(enum k_type type, const uint8_t *w, int j, VECI *lo, VECI *hi)
{
	const struct k_layout l = k_layout_of(type);
	const VECI nibble = V(set1_epi8)(15), fifth = V(set1_epi8)(16), pair = V(set1_epi8)(48);
	const VECI v = load(w + l.high * LANES + j * LANES * 4);

	*lo = v_and(v, nibble);
	*hi = v_and(V(srli_epi16)(v, 4), nibble);
	if (l.high == 4) {
		VECI h = load(w);

		*lo = v_or(*lo, v_and(V(slli_epi32)(h, 4 - j), fifth));
		*hi = v_or(*hi, v_and(V(srli_epi32)(h, j), fifth));
	} else if (l.high == 8) {
		VECI h = load(w), g = load(w + LANES * 4);

		h = j < 3 ? V(slli_epi32)(h, 4 - 2 * j) : V(srli_epi32)(h, 2);
		g = j < 3 ? V(slli_epi32)(g, 4 - 2 * j) : V(srli_epi32)(g, 2);
		*lo = v_or(*lo, v_and(h, pair));
		*hi = v_or(*hi, v_and(g, pair));
	}
}

/* The scales of a chunk: of each block of 32 columns, and of Q6_K's sub-blocks. */
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
	const VECI scale[2] = {v_and(a, six),
						   v_or(v_and(c, low), v_and(V(srli_epi16)(a, 2), high))};
	const VECI min[2] = {v_and(b, six), v_or(v_and(V(srli_epi16)(c, 4), low),
											 v_and(V(srli_epi16)(b, 2), high))};
	const VEC d = load_f16(head), m = load_f16(head + LANES * 2), sign = V(set1_ps)(-0.0f);

	for (int i = 0; i < 8; i++) {
		s->dw[i] = V(mul_ps)(d, byte_float(scale[i / 4], i % 4));
		s->mw[i] = V(xor_ps)(sign, V(mul_ps)(m, byte_float(min[i / 4], i % 4)));
	}
}

/* Facts derived from a line of the table of formats (format_table.h); private to kernels/, C and
 * CUDA. Where speed matters `type` is a constant, and the compiler folds all of this. Thread: any;
 * no state. */
#pragma once

#include "kernels/arith.h"
#include "kernels/kernels.h"

#ifdef __CUDACC__
#define K_FACT K_INLINE
#else
#define K_FACT static inline __attribute__((always_inline))
#endif

struct k_facts { /* a line of the table */
	int32_t block, bytes, bits, bias, book, number, at, min_at, subs, subs_at, low_at, low, high_at,
		high;
};
K_FACT struct k_facts k_facts_of(int32_t type)
{
	switch (type) {
#define X(name, id, n, bytes, bits, bias, book, number, at, min, subs, subs_at, low_at, low,       \
	high_at, high)                                                                                 \
	case K_##name: {                                                                               \
		const struct k_facts f = { n, bytes, bits, bias, K_BOOK_##book, K_NUM_##number, at, min,   \
			K_SUBS_##subs, subs_at, low_at, K_ORDER_##low, high_at, K_ORDER_##high };              \
		return f;                                                                                  \
	}
		K_TYPES(X)
#undef X
	default: {
		const struct k_facts none = { 1, 0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0 };
		return none;
	}
	}
}

K_FACT bool k_is_quantised(int32_t type)
{
	return k_facts_of(type).block > 1;
}
K_FACT bool k_has_min(int32_t type)
{
	return k_facts_of(type).min_at >= 0;
}
K_FACT bool k_has_subs(int32_t type)
{
	return k_facts_of(type).subs != K_SUBS_NONE;
}
/* Of a row of the file. */
K_FACT size_t k_row_bytes(int32_t type, int32_t n_cols)
{
	return (size_t)(n_cols / k_facts_of(type).block) * (size_t)k_facts_of(type).bytes;
}

/* Whether sub-scales are of 16 columns: these go into the integers, those of 32 into dw and mw. */
K_FACT bool k_has_halves(int32_t type)
{
	return k_facts_of(type).subs >= K_SUBS_16X4M;
}
/* Whether sub-minima are of 16 columns: then a block is two terms of rule 5, weights and minima. */
K_FACT bool k_has_two_terms(int32_t type)
{
	return k_facts_of(type).subs == K_SUBS_16X4M;
}
/* Bits of a code in the low one of its two planes. */
K_FACT int32_t k_low_bits(int32_t type)
{
	const int32_t bits = k_facts_of(type).bits;

	return bits >= 8 ? 8 : bits >= 4 ? 4 : 2;
}
K_FACT int32_t k_high_bits(int32_t type)
{
	return k_facts_of(type).bits - k_low_bits(type);
}
/* Bytes of a scale, and of the minimum beside it. */
K_FACT int32_t k_entry_bytes(int32_t type)
{
	return (k_facts_of(type).number == K_NUM_E8M0 ? 1 : 2) * (k_has_min(type) ? 2 : 1);
}
/* Words of sub-scales, which follow two halves: the scale, and the minimum, a word of their bits,
 * or nothing. */
K_FACT int32_t k_sub_words(int32_t type)
{
	switch (k_facts_of(type).subs) {
	case K_SUBS_NONE: return 0;
	case K_SUBS_8X6: return 1;
	case K_SUBS_8X6M:
	case K_SUBS_16X6: return 3;
	default: return 4;
	}
}
K_FACT int32_t k_sub_words_at(int32_t type)
{
	return k_facts_of(type).subs_at + (k_facts_of(type).subs == K_SUBS_8X6 ? 2 : 0);
}
K_FACT int32_t k_second_half_at(int32_t type)
{
	const struct k_facts f = k_facts_of(type);

	return f.subs == K_SUBS_8X6 ? f.subs_at : f.min_at >= 0 ? f.min_at : f.at;
}
/* The least and the greatest value of a weight, before its scales. */
K_FACT int32_t k_least(int32_t type)
{
#define X(name, least, most, ...) k_facts_of(type).book == K_BOOK_##name ? least:
	return K_BOOKS(X) - k_facts_of(type).bias;
#undef X
}
K_FACT int32_t k_most(int32_t type)
{
#define X(name, least, most, ...) k_facts_of(type).book == K_BOOK_##name ? most:
	return K_BOOKS(X)(1 << k_facts_of(type).bits) - 1 - k_facts_of(type).bias;
#undef X
}

#ifndef __cplusplus /* reading a file's blocks: formats.c */

struct k_scales {
	float dw, mw;
	int32_t sub[2], min[2]; /* of weights 0 to 15 and 16 to 31; 1 where a format has none */
};

extern const int8_t k_books[K_N_BOOKS][16];

/* `block` is a block of the file, of a quantised type; i selects 32 weights in it. */
void k_read_scales(enum k_type type, const uint8_t *block, int32_t i, struct k_scales *s);
void k_read_codes(enum k_type type, const uint8_t *block, int32_t i, uint8_t code[K_QBLOCK]);

typedef uint32_t k_quads __attribute__((vector_size(16))); /* 16 codes, four in a word */

/* Bits of codes 16 h to 16 h + 15 of the i-th 32 at p. */
K_FACT k_quads k_read_plane(int32_t order, int32_t bits, const uint8_t *p, int32_t i, int h)
{
	const int32_t per = 8 / bits;
	const uint32_t mask = ((1u << bits) - 1) * 0x01010101u;
	int32_t at = i / per * 32 + h * 16, shift = i % per * bits;
	k_quads quads;

	if (order == K_ORDER_WORD) {
		const uint32_t a = p[2 * h], b = p[2 * h + 1];

		return (k_quads){ a & 15, a >> 4, b & 15, b >> 4 } * 0x00204081u & mask;
	}
	if (order == K_ORDER_FOLD) {
		at = i * 16;
		shift = h * 4;
	} else if (order == K_ORDER_CROSS) {
		at = i / 4 * 64 + i % 2 * 32 + h * 16;
		shift = i % 4 / 2 * 4;
	}
	memcpy(&quads, p + at, sizeof quads);
	return quads >> (uint32_t)shift & mask;
}

void k_values(enum k_type type, const uint8_t code[K_QBLOCK], int8_t value[K_QBLOCK]);

/* Weight k of these 32. */
static inline float k_weight(const struct k_scales *s, int k, int8_t value)
{
	return k_fma(s->dw, (float)(s->sub[k / 16] * value), s->mw * (float)s->min[k / 16]);
}

#endif

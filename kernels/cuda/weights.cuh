/* Quantised weights in registers: from layout.h's bytes to the words that the tensor cores take;
 * scales.cuh has their scales. `type` is always a compile-time constant, so every switch on it is
 * folded.
 *
 * Instructions a warp, for a pair of blocks of 16 rows (1,024 weights): eight bits none; four 12;
 * two 16; five, six and three 28; a book 44. A multiprocessor of an H200 reads 20 bytes a cycle, so
 * a pair of Q4_1 (640 bytes) takes 31 cycles, in which its four schedulers issue 124
 * instructions. */
#pragma once

#include "kernels/cuda/bodies.cuh"
#include "kernels/cuda/scales.cuh"

/* The words of a pair that a lane holds. */
struct cu_pair {
	uint32_t code[8], high[2];
};

CU_FN void cu_load_pair(const int32_t type, const unsigned char *tile, int32_t n_pairs,
	int32_t pair, int32_t lane, struct cu_pair *p)
{
	/* a tile is far below 4 GB */
	const int32_t bytes = k_low_bits(type) == 2 ? 8 : 16;
	const unsigned char *codes = tile + (uint32_t)(pair * cu_code_bytes(type) + lane * bytes);
	const unsigned char *high =
		tile + (uint32_t)(n_pairs * cu_code_bytes(type) + pair * cu_high_bytes(type));

	if (k_low_bits(type) == 2) {
		const uint2 v = cu_stream8(codes);

		p->code[0] = v.x;
		p->code[1] = v.y;
	} else {
		cu_hold16(codes, p->code);
	}
	if (k_low_bits(type) == 8)
		cu_hold16(codes + 512, p->code + 4);
	if (k_high_bits(type) == 1)
		p->high[0] = cu_stream4(high + lane * 4);
	if (k_high_bits(type) == 2) {
		const uint2 bits = cu_stream8(high + lane * 8);

		p->high[0] = bits.x;
		p->high[1] = bits.y;
	}
}

CU_FN uint32_t cu_move(uint32_t w, const int32_t from, const int32_t to)
{
	return to >= from ? w << (to - from) : w >> (from - to);
}

/* Values 4 n … of a book, as a word. */
CU_FN uint32_t cu_book_word(const int32_t book, const int32_t n)
{
#define WORD(a, b, c, d)                                                                           \
	((uint32_t)(uint8_t)(a) | (uint32_t)(uint8_t)(b) << 8 | (uint32_t)(uint8_t)(c) << 16 |         \
		(uint32_t)(uint8_t)(d) << 24)
#define X(name, least, most, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q)                       \
	if (book == K_BOOK_##name)                                                                     \
		return n == 0   ? WORD(a, b, c, d)                                                         \
			   : n == 1 ? WORD(e, f, g, h)                                                         \
			   : n == 2 ? WORD(i, j, k, l)                                                         \
						: WORD(m, o, p, q);
	K_BOOKS(X)
#undef X
#undef WORD
	return 0;
}

/* A book's values at four nibbles: both halves of the book, then the right one for each. */
CU_FN uint32_t cu_look_up(const int32_t book, uint32_t nibbles)
{
	const uint32_t low =
		cu_permute(cu_book_word(book, 0), cu_book_word(book, 1), nibbles & 0x7777u);
	const uint32_t high =
		cu_permute(cu_book_word(book, 2), cu_book_word(book, 3), nibbles & 0x7777u);

	return cu_permute(low, high, 0x3210u | (nibbles >> 1 & 0x4444u));
}

/* Some bits of each byte of w, from bit `from` of it to bit `to`. */
CU_FN uint32_t cu_bits(uint32_t w, const int32_t bits, const int32_t from, const int32_t to)
{
	return cu_move(w, from, to) & (0x01010101u * ((1u << bits) - 1) << to);
}

/* Word i of block b as signed bytes: cu_gain()'s inverse times the weights. */
CU_FN uint32_t cu_codes(
	const int32_t type, const struct cu_pair *p, const int32_t b, const int32_t i)
{
	const struct k_facts f = k_facts_of(type);
	const int32_t low = k_low_bits(type), top = f.bias ? 8 - f.bits : 0;
	uint32_t word;

	if (f.book)
		return cu_look_up(f.book, b ? p->code[i] >> 16 : p->code[i]);
	if (low == 8)
		return p->code[4 * b + i];
	word = low == 4 ? cu_bits(p->code[i], 4, 4 * b, top) : cu_bits(p->code[b], 2, 2 * i, top);
	if (k_high_bits(type) == 1)
		word |= cu_bits(p->high[0], 1, 4 * b + i, top + low);
	if (k_high_bits(type) == 2)
		word |= cu_bits(p->high[b], 2, 2 * i, top + low);
	return word;
}

/* f[j] = 1 / cu_gain() times the exact sums of block b as floats (cu_mma_k32's order of outputs); q
 * are the lane's words of the activations, sub the scales of 16 columns of rows g and g + 8, one
 * each in the low bytes for columns 0 to 15 and 16 to 31.
 *
 * The integer sum begins at the bits of the float 3 * 2^22, below whose last place is 1: read as a
 * float it is 3 * 2^22 + I, and I = that - 3 * 2^22 exactly while |I| < 2^22 (largest: 32 * 128 *
 * 127). One instruction at full rate, where a conversion has a quarter of it. (dw could be
 * multiplied in with the same one, rule 5; but an infinite dw and the sign of a zero need the
 * subtraction.) */
CU_FN void cu_block_sums(const int32_t type, const struct cu_pair *p, const int32_t b,
	const uint32_t q[2], const uint32_t sub[2], float f[4])
{
	const int32_t start = k_has_halves(type) ? 0 : 0x4B400000;
	int32_t c[4] = { start, start, start, start };
	uint32_t a[4];

	CU_UNROLL
	for (int i = 0; i < 4; i++)
		a[i] = cu_codes(type, p, b, i);
	if (k_has_halves(type)) {
		int32_t second[4] = { 0, 0, 0, 0 };

		cu_mma_k16(c, a, q[0]);
		cu_mma_k16(second, a + 2, q[1]);
		CU_UNROLL
		for (int i = 0; i < 4; i++)
			f[i] = (float)((int8_t)sub[i / 2] * c[i] + (int8_t)(sub[i / 2] >> 8) * second[i]);
		return;
	}
	cu_mma_k32(c, a, q);
	CU_UNROLL
	for (int i = 0; i < 4; i++)
		f[i] = k_float((uint32_t)c[i]) - 0x1.8p23f;
}

/* The same of a block's minima, min being those of its halves as sub is: their product with sums of
 * q. */
CU_FN void cu_minima_sums(const uint32_t q[2], const uint32_t min[2], float f[4])
{
	int32_t c[4] = { 0x4B400000, 0x4B400000, 0x4B400000, 0x4B400000 };

	CU_UNROLL
	for (int32_t h = 0; h < 2; h++) {
		const uint32_t a[2] = { 0x01010101u * (min[0] >> 8 * h & 0xff),
			0x01010101u * (min[1] >> 8 * h & 0xff) };

		cu_mma_k16(c, a, q[h]);
	}
	CU_UNROLL
	for (int i = 0; i < 4; i++)
		f[i] = k_float((uint32_t)c[i]) - 0x1.8p23f;
}

/* A lane's words of block `block` of a row of activations (layout.h says which columns). */
CU_FN void cu_load_q(
	const int32_t type, const int8_t *row, int32_t block, int32_t lane, uint32_t q[2])
{
	const int8_t *at = row + (size_t)block * K_QBLOCK;

	if (k_has_halves(type)) {
		q[0] = *(const uint32_t *)(const void *)(at + 4 * (lane % 4));
		q[1] = *(const uint32_t *)(const void *)(at + 16 + 4 * (lane % 4));
	} else {
		const uint2 v = *(const uint2 *)(const void *)(at + 8 * (lane % 4));

		q[0] = v.x;
		q[1] = v.y;
	}
}

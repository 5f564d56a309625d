/* The weight formats: one line each, from which packing, kernels, byte counts and the GPU's layout
 * are made, and the lists of formats in help, errors and certificates. Plain macros and enums, for
 * C and CUDA. docs/extend.md adds a format, step by step; layouts are those of ggml's
 * ggml-common.h, and tests/unit/kernels/test_formats.c compares them with the gguf package's own
 * reading.
 *
 * A block of the file is 32 or 256 weights (1: plain floats). All are read in blocks of 32: weight
 * k is dw * sub[k / 16] * value + mw * min[k / 16] (docs/arithmetic.md, rule 5), its value being
 * code - bias or the book's entry. */
#pragma once

/* The number format of a block's scale (and minimum); of plain floats, of each value. */
enum k_number {
	K_NUM_F32,
	K_NUM_F16,
	K_NUM_BF16,
	K_NUM_E8M0, /* a byte e: 2^(e - 128) for all 256 of them, as ggml has it (values are doubled) */
};

/* Tables of 16 values: name, least, most, values. */
#define K_BOOKS(X)                                                                                 \
	X(IQ4, -127, 113, -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)    \
	X(E2M1, -12, 12, 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)

enum k_book {
	K_BOOK_NONE,
#define X(name, ...) K_BOOK_##name,
	K_BOOKS(X)
#undef X
		K_N_BOOKS
};

/* Integer scales of parts of a block of 256: how many, of how many bits; M: and as many minima, the
 * block's minimum counted from zero downwards. Six bits are in two pieces:
 * 8X6M: of scales 0 … 3 bytes 0 … 3 and of minima 4 … 7 have all; 8 … 11 the others' low four bits,
 * whose high two lie above the first; 16X6 (less 32): byte s % 8 has four bits at 4 (s / 8), byte
 * 8 + s % 4 two at 2 (s / 4); 8X6 (less 32): a word of 16 bits has the high pairs, then nibbles.
 * 16X4M: scale in the low half of a byte, minimum in the high one. 16X8: signed bytes. */
enum k_subs { K_SUBS_NONE, K_SUBS_8X6, K_SUBS_8X6M, K_SUBS_16X4M, K_SUBS_16X6, K_SUBS_16X8 };

/* Where the bits of weight k of the i-th 32 of a block are. */
enum k_order {
	K_ORDER_NONE,
	K_ORDER_FOLD, /* 4 bits: byte 16 i + k % 16, the second 16 in the high halves */
	/* b bits: byte k of each 32 has weight k of 8 / b successive 32s, the first lowest */
	K_ORDER_LONG,
	/* 4 bits: byte k of 64 has those of 32s 0 and 2 of four, byte 32 + k of 1 and 3 */
	K_ORDER_CROSS,
	K_ORDER_WORD, /* 1 bit: bit k of a word */
};

/* A code has `bits`: the low 8, 4 or 2 of them (as many as there are) lie at `low`, the others at
 * `high`. Each `at` is a byte of the block; n is its number of weights.
 * clang-format off */
#define K_TYPES(X)                                                                                 \
	/* name    id  n    bytes  bits  bias  book  number  at   min  subs   at   low  order  high    \
	 * order */                                                                                    \
	X(F32, 0, 1, 4, 32, 0, NONE, F32, 0, -1, NONE, 0, 0, NONE, 0, NONE)                            \
	X(F16, 1, 1, 2, 16, 0, NONE, F16, 0, -1, NONE, 0, 0, NONE, 0, NONE)                            \
	X(Q4_0, 2, 32, 18, 4, 8, NONE, F16, 0, -1, NONE, 0, 2, FOLD, 0, NONE)                          \
	X(Q4_1, 3, 32, 20, 4, 0, NONE, F16, 0, 2, NONE, 0, 4, FOLD, 0, NONE)                           \
	X(Q5_0, 6, 32, 22, 5, 16, NONE, F16, 0, -1, NONE, 0, 6, FOLD, 2, WORD)                         \
	X(Q5_1, 7, 32, 24, 5, 0, NONE, F16, 0, 2, NONE, 0, 8, FOLD, 4, WORD)                           \
	X(Q8_0, 8, 32, 34, 8, 128, NONE, F16, 0, -1, NONE, 0, 2, LONG, 0, NONE)                        \
	X(Q2_K, 10, 256, 84, 2, 0, NONE, F16, 80, 82, 16X4M, 0, 16, LONG, 0, NONE)                     \
	X(Q3_K, 11, 256, 110, 3, 4, NONE, F16, 108, -1, 16X6, 96, 32, LONG, 0, LONG)                   \
	X(Q4_K, 12, 256, 144, 4, 0, NONE, F16, 0, 2, 8X6M, 4, 16, LONG, 0, NONE)                       \
	X(Q5_K, 13, 256, 176, 5, 0, NONE, F16, 0, 2, 8X6M, 4, 48, LONG, 16, LONG)                      \
	X(Q6_K, 14, 256, 210, 6, 32, NONE, F16, 208, -1, 16X8, 192, 0, CROSS, 128, LONG)               \
	X(IQ4_NL, 20, 32, 18, 4, 0, IQ4, F16, 0, -1, NONE, 0, 2, FOLD, 0, NONE)                        \
	X(IQ4_XS, 23, 256, 136, 4, 0, IQ4, F16, 0, -1, 8X6, 2, 8, FOLD, 0, NONE)                       \
	X(BF16, 30, 1, 2, 16, 0, NONE, BF16, 0, -1, NONE, 0, 0, NONE, 0, NONE)                         \
	X(MXFP4, 39, 32, 17, 4, 0, E2M1, E8M0, 0, -1, NONE, 0, 1, FOLD, 0, NONE)
/* clang-format on */

enum k_type {
#define X(name, ...) K_##name,
	K_TYPES(X)
#undef X
		K_N_TYPES
};

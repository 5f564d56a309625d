/* See formats.h. How each format is read; the one place that knows the bytes of a file's blocks. */
#include "kernels/formats.h"

#include <string.h>

#include "kernels/arith.h"

const int8_t k_iq4_nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
							 1,	   13,	 25,  38,  53,	69,	 89,  113};

static float load_f16(const uint8_t *p)
{
	uint16_t h;

	memcpy(&h, p, sizeof h);
	return k_f16_to_f32(h);
}

/* --- blocks of 32: scale, minimum if any, fifth bits if any, weights --- */

static void scale_alone(const uint8_t *block, int32_t i, struct k_scales *s)
{
	(void)i;
	*s = (struct k_scales){.dw = load_f16(block), .sub = {1, 1}};
}

static void scale_and_min(const uint8_t *block, int32_t i, struct k_scales *s)
{
	(void)i;
	*s = (struct k_scales){.dw = load_f16(block), .mw = load_f16(block + 2), .sub = {1, 1}};
}

/* Byte k has weight k in its low half and weight k + 16 in its high half. */
static void nibbles(const uint8_t *p, uint8_t *code)
{
	for (int k = 0; k < K_QBLOCK / 2; k++) {
		code[k] = p[k] & 15;
		code[k + K_QBLOCK / 2] = p[k] >> 4;
	}
}

/* Bit k of the word at p is the fifth bit of weight k. */
static void fifth_bits(const uint8_t *p, uint8_t *code)
{
	for (int k = 0; k < K_QBLOCK; k++)
		code[k] |= (uint8_t)((p[k / 8] >> k % 8 & 1) << 4);
}

static void codes_q4_0(const uint8_t *block, int32_t i, uint8_t *code)
{
	(void)i;
	nibbles(block + 2, code);
}

static void codes_q4_1(const uint8_t *block, int32_t i, uint8_t *code)
{
	(void)i;
	nibbles(block + 4, code);
}

static void codes_q5_0(const uint8_t *block, int32_t i, uint8_t *code)
{
	(void)i;
	nibbles(block + 6, code);
	fifth_bits(block + 2, code);
}

static void codes_q5_1(const uint8_t *block, int32_t i, uint8_t *code)
{
	(void)i;
	nibbles(block + 8, code);
	fifth_bits(block + 4, code);
}

/* Signed bytes; codes are never negative. */
static void codes_q8_0(const uint8_t *block, int32_t i, uint8_t *code)
{
	(void)i;
	for (int k = 0; k < K_QBLOCK; k++)
		code[k] = block[2 + k] ^ 0x80;
}

/* --- blocks of 256 --- */

/* Two f16, then eight scales and eight minima of six bits in twelve bytes: the first four of each
 * in the low bits of a byte; of the others the low four bits follow, and the high two lie above the
 * first four. */
static void scales_q4_k(const uint8_t *block, int32_t i, struct k_scales *s)
{
	const uint8_t *p = block + 4;
	int scale, min;

	if (i < 4) {
		scale = p[i] & 63;
		min = p[i + 4] & 63;
	} else {
		scale = (p[i + 4] & 15) | p[i - 4] >> 6 << 4;
		min = p[i + 4] >> 4 | p[i] >> 6 << 4;
	}
	*s = (struct k_scales){
		.dw = load_f16(block) * (float)scale,
		.mw = -(load_f16(block + 2) * (float)min),
		.sub = {1, 1},
	};
}

/* Of each 32 bytes the low halves are one 32 weights, the high halves the next. */
static void k_nibbles(const uint8_t *p, int32_t i, uint8_t *code)
{
	p += i / 2 * K_QBLOCK;
	for (int k = 0; k < K_QBLOCK; k++)
		code[k] = p[k] >> i % 2 * 4 & 15;
}

static void codes_q4_k(const uint8_t *block, int32_t i, uint8_t *code)
{
	k_nibbles(block + 16, i, code);
}

static void codes_q5_k(const uint8_t *block, int32_t i, uint8_t *code)
{
	k_nibbles(block + 48, i, code);
	for (int k = 0; k < K_QBLOCK; k++)
		code[k] |= (uint8_t)((block[16 + k] >> i & 1) << 4);
}

/* 128 bytes of low halves, 64 of high pairs of bits, 16 signed scales, f16. */
static void scales_q6_k(const uint8_t *block, int32_t i, struct k_scales *s)
{
	*s = (struct k_scales){
		.dw = load_f16(block + 208),
		.sub = {(int8_t)block[192 + 2 * i], (int8_t)block[192 + 2 * i + 1]},
	};
}

/* Each half of the 256: 64 bytes whose low halves are two 32s and whose high halves the next two;
 * and 32 bytes that hold a pair of bits of each of the four. */
static void codes_q6_k(const uint8_t *block, int32_t i, uint8_t *code)
{
	const uint8_t *low = block + i / 4 * 64 + i % 2 * 32, *high = block + 128 + i / 4 * 32;

	for (int k = 0; k < K_QBLOCK; k++)
		code[k] = (uint8_t)((low[k] >> i % 4 / 2 * 4 & 15) | (high[k] >> i % 4 * 2 & 3) << 4);
}

const struct k_format k_formats[K_N_TYPES] = {
	[K_Q4_0] = {.bias = 8, .read_scales = scale_alone, .read_codes = codes_q4_0},
	[K_Q4_1] = {.has_min = true,
				.half = {0, 2},
				.read_scales = scale_and_min,
				.read_codes = codes_q4_1},
	[K_Q5_0] = {.bias = 16, .read_scales = scale_alone, .read_codes = codes_q5_0},
	[K_Q5_1] = {.has_min = true,
				.half = {0, 2},
				.read_scales = scale_and_min,
				.read_codes = codes_q5_1},
	[K_Q8_0] = {.bias = 128, .read_scales = scale_alone, .read_codes = codes_q8_0},
	[K_Q4_K] = {.has_min = true,
				.half = {0, 2},
				.read_scales = scales_q4_k,
				.read_codes = codes_q4_k},
	[K_Q5_K] = {.has_min = true,
				.half = {0, 2},
				.read_scales = scales_q4_k,
				.read_codes = codes_q5_k},
	[K_Q6_K] = {.bias = 32, .half = {208}, .read_scales = scales_q6_k, .read_codes = codes_q6_k},
	[K_IQ4_NL] = {.values = k_iq4_nl, .read_scales = scale_alone, .read_codes = codes_q4_0},
};

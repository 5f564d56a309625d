/* Keys and values as codes with scales beside them (cache_table.h, K_CODED; rule 10): the layout of
 * a group of 16 tokens of one head, and the rounding. Private to kernels/ and its tests. Thread:
 * any; no state.
 *
 * q8: x = scale * code, |code| <= 127, with a scale for each token and 32 channels. K:
 * [head_dim][16 tokens] int8. V: [16 tokens][head_dim] int8. Both are followed by [head_dim /
 * 32][16 tokens] f16 scales.
 *
 * By channel, of b bits: x = min + scale * code, 0 <= code < 2^b; to be read as middle + scale *
 * (code - 2^(b-1)). Both lie as integer products of bytes want them: a word of 4 bytes has 32 / b
 * codes, and code i is at bit i / 4 * b of byte i % 4. K: a scale and a minimum for each channel.
 * [head_dim * b / 32][16 tokens] words of neighbouring channels, then [head_dim] f16 scales,
 * [head_dim] f16 minima. V: a scale and a minimum for each token and 64 channels. [16 * b /
 * 32][head_dim] words of neighbouring tokens; then for each 64 channels [16] f16 scales, [16] f16
 * minima. head_dim rounded up to a multiple of 16. */
#pragma once

#include "kernels/arith.h"
#include "kernels/format/cache.h"
#include "kernels/format/kv.h"

/* ---- q8 ---- */

/* Scales of channels 32 i …, by token. */
K_INLINE uint16_t *k_q8_scales(void *group, int32_t head_dim, int32_t i)
{
	return (uint16_t *)(void *)((uint8_t *)group + K_GROUP * (size_t)head_dim) + K_GROUP * i;
}

/* The nearest multiple of the scale; inverse: 1 / scale, or 0. x is within +-127 or so of them. */
K_INLINE int32_t k_code(float x, float inverse, int32_t least, int32_t most)
{
	const int32_t q = (int32_t)(k_bits(k_fma(x, inverse, 0x1.8p23f)) - 0x4b400000u);

	return k_max(least, k_min(q, most));
}

K_INLINE float k_inverse(uint16_t scale)
{
	const float s = k_f16_to_f32(scale);

	return s > 0 ? 1.0f / s : 0;
}

/* Codes of numbers that share a scale, x [n] without NaN; the scale is returned. */
K_INLINE uint16_t k_q8_round(const float *x, int32_t n, int8_t *code)
{
	float most = 0, inverse;
	uint16_t scale;

	for (int32_t i = 0; i < n; i++) {
		const float y = k_clamp(x[i], 65504.0f), size = y < 0 ? -y : y;

		most = size > most ? size : most;
	}
	scale = k_f32_to_f16(most / 127.0f);
	inverse = k_inverse(scale);
	for (int32_t i = 0; i < n; i++)
		code[i] = (int8_t)k_code(k_clamp(x[i], 65504.0f), inverse, -127, 127);
	return scale;
}

/* ---- by channel ---- */

/* Where the scales and minima of a group's keys are. */
struct k_code_scales {
	uint16_t *scale, *min;
};
K_INLINE struct k_code_scales k_key_scales(void *group, int32_t head_dim, int32_t bits)
{
	const int32_t dim = k_coded_dim(head_dim);
	uint16_t *scale = (uint16_t *)(void *)((uint8_t *)group + 2 * (size_t)dim * (size_t)bits);
	const struct k_code_scales s = { scale, scale + dim };

	return s;
}
/* Those of channels 64 i … of its values, by token. */
K_INLINE struct k_code_scales k_value_scales(void *group, int32_t head_dim, int32_t bits, int32_t i)
{
	uint16_t *scale = k_key_scales(group, head_dim, bits).scale + 2 * K_GROUP * i;
	const struct k_code_scales s = { scale, scale + K_GROUP };

	return s;
}

/* Where a code is: in which byte of the group, and from which bit on. */
struct k_code_at {
	size_t byte;
	int32_t bit;
};
K_INLINE struct k_code_at k_code_at(int32_t word, int32_t i, int32_t bits)
{
	const struct k_code_at at = { 4 * (size_t)word + (size_t)(i % 4), i / 4 * bits };

	return at;
}
K_INLINE struct k_code_at k_key_at(int32_t token, int32_t channel, int32_t bits)
{
	const int32_t many = 32 / bits;

	return k_code_at(channel / many * K_GROUP + token, channel % many, bits);
}
K_INLINE struct k_code_at k_value_at(int32_t head_dim, int32_t token, int32_t channel, int32_t bits)
{
	const int32_t many = 32 / bits;

	return k_code_at(token / many * k_coded_dim(head_dim) + channel, token % many, bits);
}
K_INLINE int32_t k_code_get(const void *group, struct k_code_at at, int32_t bits)
{
	return ((const uint8_t *)group)[at.byte] >> at.bit & ((1 << bits) - 1);
}

/* Codes of n numbers in f16 that share a scale. */
K_INLINE void k_codes_round(
	const float *x, int32_t n, int32_t bits, uint8_t *code, uint16_t *scale, uint16_t *min)
{
	const int32_t most = (1 << bits) - 1;
	float low = x[0], high = x[0], inverse;

	for (int32_t i = 1; i < n; i++) {
		low = x[i] < low ? x[i] : low;
		high = x[i] > high ? x[i] : high;
	}
	*scale = k_f32_to_f16((high - low) / (float)most);
	*min = k_f32_to_f16(low);
	inverse = k_inverse(*scale);
	for (int32_t i = 0; i < n; i++)
		code[i] = (uint8_t)k_code(x[i] - low, inverse, 0, most);
}

/* ---- products (rule 11) ---- */

K_INLINE int32_t k_code_middle(int32_t bits)
{
	return 1 << (bits - 1);
}

/* What meets the codes: numbers times their scales as integers of a step (rule 4's rounding). */
struct k_code_factor {
	float step, middles; /* middles: the numbers times the middles of their ranges */
	int32_t sum;         /* of the integers, times the middle code */
};

/* The sum of codes times integers, of which `sum` is the integers' own part, and what the middles
 * add. */
K_INLINE float k_code_sum(const struct k_code_factor *f, int32_t sum)
{
	return k_fma(f->step, (float)(sum - f->sum), f->middles);
}

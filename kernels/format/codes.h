/* Keys and values as codes with scales beside them (cache_table.h, K_CODED; rule 10): the layout of
 * a group of 16 tokens of one head, and the rounding. Private to kernels/ and its tests. Thread:
 * any; no state.
 *
 * q8: x = scale * code, |code| <= 127, with a scale for each token and 32 channels. K [head_dim][16
 *   tokens] int8, V [16 tokens][head_dim] int8, both followed by [head_dim/32][16 tokens] f16
 * scales.
 *
 * By channel, of b bits: x = min + scale * code, 0 <= code < 2^b. Eight codes are a word of 8 b
 * bits, the first in its lowest bits. K: a scale and a minimum for each channel. [head_dim/8][16
 * tokens] words of eight channels, then [head_dim] f16 scales, [head_dim] f16 minima; head_dim
 * rounded up to a multiple of 8. V: a scale and a minimum for each token and 64 channels. [16
 * tokens][head_dim/64][8] words, word i of channels i, i + 8, … i + 56; then for each 64 channels
 * [16] f16 scales, [16] f16 minima; head_dim rounded up to a multiple of 64. */
#ifndef CUTAWAY_KERNELS_CODES_H
#define CUTAWAY_KERNELS_CODES_H

#include "kernels/arith.h"
#include "kernels/format/cache.h"

enum {
	K_CODED_DIMS = 64, /* channels of a value by token that share a scale */
	K_Q8_DIMS = 32,    /* channels of a key or value in q8 that do */
};

static inline int32_t k_up(int32_t n, int32_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* Word i of eight codes. */
static inline uint32_t k_code_word(const void *at, size_t i, int32_t bits)
{
	return bits == 4 ? ((const uint32_t *)at)[i] : ((const uint16_t *)at)[i];
}

/* ---- q8 ---- */

/* Scales of channels 32 i …, by token. */
static inline uint16_t *k_q8_scales(void *group, int32_t head_dim, int32_t i)
{
	return (uint16_t *)(void *)((uint8_t *)group + K_GROUP * (size_t)head_dim) + K_GROUP * i;
}

/* The nearest multiple of the scale; inverse: 1 / scale, or 0. x is within +-127 or so of them. */
static inline int32_t k_code(float x, float inverse, int32_t least, int32_t most)
{
	const int32_t q = (int32_t)(k_bits(k_fma(x, inverse, 0x1.8p23f)) - 0x4b400000u);

	return q < least ? least : q > most ? most : q;
}

static inline float k_inverse(uint16_t scale)
{
	const float s = k_f16_to_f32(scale);

	return s > 0 ? 1.0f / s : 0;
}

/* Codes of numbers that share a scale, x [n] without NaN; the scale is returned. */
static inline uint16_t k_q8_round(const float *x, int32_t n, int8_t *code)
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
static inline struct k_code_scales k_key_scales(void *group, int32_t head_dim, int32_t bits)
{
	const int32_t dim = k_up(head_dim, 8);
	uint16_t *scale = (uint16_t *)(void *)((uint8_t *)group + 2 * (size_t)dim * (size_t)bits);

	return (struct k_code_scales){ scale, scale + dim };
}
/* Those of channels 64 i … of its values, by token. */
static inline struct k_code_scales k_value_scales(
	void *group, int32_t head_dim, int32_t bits, int32_t i)
{
	const int32_t dim = k_up(head_dim, K_CODED_DIMS);
	uint16_t *scale =
		(uint16_t *)(void *)((uint8_t *)group + 2 * (size_t)dim * (size_t)bits) + 2 * K_GROUP * i;

	return (struct k_code_scales){ scale, scale + K_GROUP };
}

static inline uint32_t k_key_code(const void *group, int32_t token, int32_t channel, int32_t bits)
{
	return k_code_word(group, (size_t)(channel / 8 * K_GROUP + token), bits) >> channel % 8 * bits &
		   ((1u << bits) - 1);
}
static inline uint32_t k_value_code(
	const void *group, int32_t head_dim, int32_t token, int32_t channel, int32_t bits)
{
	const int32_t pieces = k_up(head_dim, K_CODED_DIMS) / K_CODED_DIMS;
	const int32_t piece = channel / K_CODED_DIMS, in = channel % K_CODED_DIMS;

	return k_code_word(group, (size_t)((token * pieces + piece) * 8 + in % 8), bits) >>
			   in / 8 * bits &
		   ((1u << bits) - 1);
}

/* Codes of n numbers in f16 that share a scale. */
static inline void k_codes_round(
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

/* The sum over i < n of a[i] * b[i]: lane j chains over i = j mod 16, then tree(16) (rule 11). */
static inline float k_code_dot(const float *a, const uint16_t *b, int32_t n)
{
	float lane[K_GROUP] = { 0 };

	for (int32_t i = 0; i < n; i++)
		lane[i % K_GROUP] = k_fma(a[i], k_f16_to_f32(b[i]), lane[i % K_GROUP]);
	return k_tree_sum(lane, K_GROUP);
}

#endif

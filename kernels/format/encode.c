/* See encode.h: the formats whose scales follow from a block's extremes, and reading. */
#include <math.h>
#include <string.h>

#include "kernels/format/cache.h"
#include "kernels/format/encode_impl.h"

/* ---- codes ---- */

/* Stores `bits` bits of a code, the inverse of what formats.c reads. */
static void put_bits(uint8_t *p, int32_t order, int32_t bits, int32_t n, int32_t v)
{
	const int32_t i = n / K_QBLOCK, k = n % K_QBLOCK, per = 8 / bits;
	const int32_t at = order == K_ORDER_FOLD    ? i * 16 + k % 16
					   : order == K_ORDER_CROSS ? i / 4 * 64 + i % 2 * 32 + k
					   : order == K_ORDER_WORD  ? k / 8
												: i / per * 32 + k;
	const int32_t shift = order == K_ORDER_FOLD    ? k / 16 * 4
						  : order == K_ORDER_CROSS ? i % 4 / 2 * 4
						  : order == K_ORDER_WORD  ? k % 8
												   : i % per * bits;
	const int32_t mask = ((1 << bits) - 1) << shift;

	p[at] = (uint8_t)((p[at] & ~mask) | (v << shift & mask));
}

static void put_code(enum k_type type, uint8_t *block, int32_t n, int32_t code)
{
	const struct k_facts f = k_facts_of(type);
	const int32_t low = k_low_bits(type);

	if (f.bits == 8)
		code ^= 0x80;
	put_bits(block + f.low_at, f.low, low, n, code);
	if (k_high_bits(type))
		put_bits(block + f.high_at, f.high, k_high_bits(type), n, code >> low);
}

int32_t k_nearest_code(enum k_type type, float scale, float x)
{
	const struct k_facts f = k_facts_of(type);
	int32_t best = 0;

	if (!f.book)
		return scale == 0 ? f.bias : k_nearest_int(x / scale, k_least(type), k_most(type)) + f.bias;
	for (int32_t c = 1; c < 16; c++)
		if (fabsf(scale * k_books[f.book][c] - x) < fabsf(scale * k_books[f.book][best] - x))
			best = c;
	return best;
}

float k_round_to(enum k_type type, uint8_t *block, int32_t k, float x)
{
	const int32_t half = k % K_QBLOCK / 16;
	struct k_scales s;
	int32_t code;

	k_read_scales(type, block, k / K_QBLOCK, &s);
	code = k_nearest_code(type, s.dw * (float)s.sub[half], x - s.mw * (float)s.min[half]);
	put_code(type, block, k, code);
	return k_weight(&s, k % K_QBLOCK, (int8_t)k_code_value(type, code));
}

/* ---- blocks of 32 by their extremes, in the order of operations of the gguf package ---- */

/* Truncates x + offset to a code; low for a NaN. */
static int32_t truncated(float x, float offset, int32_t most)
{
	const float y = x + offset;

	return y > 0 ? y < (float)most ? (int32_t)y : most : 0;
}

/* Q4_0, Q5_0: the value of the greatest magnitude gets the lowest code. */
static void encode_signed(enum k_type type, const float *x, uint8_t *block)
{
	const struct k_facts f = k_facts_of(type);
	float extreme = x[0], d, id;

	for (int k = 1; k < K_QBLOCK; k++)
		extreme = fabsf(x[k]) > fabsf(extreme) ? x[k] : extreme;
	d = extreme / (float)-f.bias;
	id = d == 0 ? 0 : 1 / d;
	k_put_half(block + f.at, d);
	for (int k = 0; k < K_QBLOCK; k++)
		put_code(type, block, k, truncated(x[k] * id, (float)f.bias + 0.5f, (1 << f.bits) - 1));
}

/* Q4_1, Q5_1: from the least value to the greatest. */
static void encode_between(enum k_type type, const float *x, uint8_t *block)
{
	const struct k_facts f = k_facts_of(type);
	const int32_t most = (1 << f.bits) - 1;
	float low = x[0], high = x[0], d, id;

	for (int k = 1; k < K_QBLOCK; k++) {
		low = x[k] < low ? x[k] : low;
		high = x[k] > high ? x[k] : high;
	}
	d = (high - low) / (float)most;
	id = d == 0 ? 0 : 1 / d;
	k_put_half(block + f.at, d);
	k_put_half(block + f.min_at, low);
	for (int k = 0; k < K_QBLOCK; k++)
		put_code(type, block, k, truncated((x[k] - low) * id, 0.5f, most));
}

static float greatest(const float *x, int32_t n)
{
	float most = 0;

	for (int32_t k = 0; k < n; k++)
		most = fabsf(x[k]) > most ? fabsf(x[k]) : most;
	return most;
}

static void encode_bytes(enum k_type type, const float *x, uint8_t *block) /* Q8_0 */
{
	const struct k_facts f = k_facts_of(type);
	const float d = greatest(x, K_QBLOCK) / 127, id = d == 0 ? 0 : 1 / d;

	k_put_half(block + f.at, d);
	for (int k = 0; k < K_QBLOCK; k++)
		put_code(type, block, k, k_nearest_int(x[k] * id, -127, 127) + f.bias);
}

/* MXFP4: the power of two by which the greatest value is from 4 to 8 (doubled: 8 to 16). */
static void encode_power(enum k_type type, const float *x, uint8_t *block)
{
	const struct k_facts f = k_facts_of(type);
	const int32_t e = (int32_t)(k_bits(greatest(x, K_QBLOCK)) >> 23) - 2;

	block[f.at] = (uint8_t)k_max(0, k_min(e, 254));
	for (int k = 0; k < K_QBLOCK; k++)
		put_code(type, block, k, k_nearest_code(type, k_e8m0_to_f32(block[f.at]), x[k]));
}

typedef void block_encoder(enum k_type type, const float *x, uint8_t *block);

/* By the columns of the table, so that a format of known columns has its encoder. */
static block_encoder *encoder_of(enum k_type type)
{
	const struct k_facts f = k_facts_of(type);

	if (f.number == K_NUM_E8M0)
		return encode_power;
	if (f.subs || f.book)
		return k_encode_search;
	return f.bits == 8 ? encode_bytes : f.min_at >= 0 ? encode_between : encode_signed;
}

/* ---- rows ---- */

static uint16_t to_bf16(float x)
{
	uint32_t u = k_bits(x);

	if ((u & 0x7fffffffu) > 0x7f800000u)
		u = (u & 0xffff0000u) | 0x400000u;
	return (uint16_t)(((uint64_t)u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static void encode_plain(int32_t number, const float *x, int64_t n, uint8_t *out)
{
	if (number == K_NUM_F32)
		memcpy(out, x, (size_t)n * sizeof *x);
	for (int64_t i = 0; i < n && number != K_NUM_F32; i++) {
		const uint16_t h = number == K_NUM_F16 ? k_f32_to_f16(x[i]) : to_bf16(x[i]);

		memcpy(out + 2 * i, &h, sizeof h);
	}
}

void k_encode(enum k_type type, const float *x, int64_t n, uint8_t *blocks)
{
	const struct k_facts f = k_facts_of(type);

	if (!k_is_quantised(type)) {
		encode_plain(f.number, x, n, blocks);
		return;
	}
	memset(blocks, 0, (size_t)(n / f.block * f.bytes));
	for (int64_t i = 0; i < n / f.block; i++)
		encoder_of(type)(type, x + i * f.block, blocks + i * f.bytes);
}

/* Rounding to the weight formats, for tiny models: not the best rounding, but every field of a
 * block is used. See tiny.h. */
#include <math.h>
#include <string.h>

#include "tests/tiny.h"

static uint16_t to_f16(float x)
{
	uint32_t u, sign, magnitude, rest;
	int shift;

	memcpy(&u, &x, sizeof u);
	sign = u >> 16 & 0x8000;
	magnitude = u & 0x7fffffff;
	if (magnitude >= 0x47800000)
		return (uint16_t)(sign | 0x7c00);
	if (magnitude < 0x33000000)
		return (uint16_t)sign;
	if (magnitude >= 0x38800000) { /* normal: rebias, drop 13 bits, ties to even */
		magnitude -= 0x38000000;
		return (uint16_t)(sign | (magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13);
	}
	shift = 126 - (int)(magnitude >> 23);
	magnitude = (magnitude & 0x7fffff) | 0x800000;
	rest = magnitude & ((1u << shift) - 1);
	magnitude >>= shift;
	magnitude += rest > 1u << (shift - 1) || (rest == 1u << (shift - 1) && (magnitude & 1));
	return (uint16_t)(sign | magnitude);
}

static float from_f16(uint16_t h)
{
	int e = h >> 10 & 31;
	float m = (float)(h & 0x3ff);

	m = e ? ldexpf(m + 1024.0f, e - 25) : ldexpf(m, -24);
	return h & 0x8000 ? -m : m;
}

static void put_u16(struct bytes *b, uint16_t v)
{
	bytes_put(b, &v, sizeof v);
}

static int clamp_round(float x, int low, int high)
{
	int q = (int)floorf(x + 0.5f);

	return q < low ? low : q > high ? high : q;
}

static void put_q8_0(struct bytes *b, const float *x)
{
	float most = 0;
	uint16_t d;

	for (int i = 0; i < 32; i++)
		most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
	d = to_f16(most / 127.0f);
	put_u16(b, d);
	for (int i = 0; i < 32; i++) {
		int8_t q = (int8_t)(d ? clamp_round(x[i] / from_f16(d), -127, 127) : 0);

		bytes_put(b, &q, 1);
	}
}

/* Codes of 4 or 5 bits: low halves of the first 16 and the others in a byte, after the fifth bits.
 */
static void put_codes(struct bytes *b, const uint8_t code[32], int bits)
{
	uint32_t fifth = 0;

	for (int i = 0; i < 32; i++)
		fifth |= (uint32_t)(code[i] >> 4 & 1) << i;
	if (bits == 5)
		bytes_u32(b, fifth);
	for (int i = 0; i < 16; i++) {
		uint8_t both = (uint8_t)((code[i] & 15) | (code[i + 16] & 15) << 4);

		bytes_put(b, &both, 1);
	}
}

/* Q4_0 (value = d * (q - 8)), Q4_1 (value = d * q + m) and the same in 5 bits. */
static void put_q4_q5(struct bytes *b, const float *x, int bits, bool with_min)
{
	const int most = (1 << bits) - 1;
	float low = x[0], high = x[0], bottom;
	uint8_t code[32];
	uint16_t d, m;

	for (int i = 1; i < 32; i++) {
		low = x[i] < low ? x[i] : low;
		high = x[i] > high ? x[i] : high;
	}
	d = to_f16(with_min ? (high - low) / (float)most
						: (high > -low ? high : -low) / ((float)most / 2));
	m = to_f16(low);
	bottom = with_min ? from_f16(m) : -(float)(1 << (bits - 1)) * from_f16(d);
	put_u16(b, d);
	if (with_min)
		put_u16(b, m);
	for (int i = 0; i < 32; i++)
		code[i] = (uint8_t)(d ? clamp_round((x[i] - bottom) / from_f16(d), 0, most) : 0);
	put_codes(b, code, bits);
}

/* The nearest of 16 values that are denser around zero. */
static void put_iq4_nl(struct bytes *b, const float *x)
{
	static const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
									  1,	13,	  25,  38,	53,	 69,  89,  113};
	uint8_t code[32] = {0};
	float most = 0, d;

	for (int i = 0; i < 32; i++)
		most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
	put_u16(b, to_f16(most / 113.0f));
	d = from_f16(to_f16(most / 113.0f));
	for (int i = 0; i < 32; i++)
		for (uint8_t k = 1; k < 16; k++)
			if (fabsf(d * values[k] - x[i]) < fabsf(d * values[code[i]] - x[i]))
				code[i] = k;
	put_codes(b, code, 4);
}

/* Q4_K and Q5_K, eight times 32 values: value = D scale q - Dmin min, scale and min of 6 bits. */
static void put_q4_k_q5_k(struct bytes *b, const float *x, int bits)
{
	const int most = (1 << bits) - 1;
	float step[8], below[8], d = 0, m = 0;
	uint8_t scale[8], min[8], packed[12], low[128] = {0}, high[32] = {0};

	for (int i = 0; i < 8; i++) {
		float bottom = 0, top = 0;

		for (int k = 0; k < 32; k++) {
			bottom = x[i * 32 + k] < bottom ? x[i * 32 + k] : bottom;
			top = x[i * 32 + k] > top ? x[i * 32 + k] : top;
		}
		step[i] = (top - bottom) / (float)most;
		below[i] = -bottom;
		d = step[i] > d ? step[i] : d;
		m = below[i] > m ? below[i] : m;
	}
	put_u16(b, to_f16(d / 63.0f));
	put_u16(b, to_f16(m / 63.0f));
	d = from_f16(to_f16(d / 63.0f));
	m = from_f16(to_f16(m / 63.0f));
	for (int i = 0; i < 8; i++) {
		scale[i] = (uint8_t)(d > 0 ? clamp_round(step[i] / d, 1, 63) : 0);
		min[i] = (uint8_t)(m > 0 ? clamp_round(below[i] / m, 0, 63) : 0);
		for (int k = 0; k < 32 && d > 0; k++) {
			float q = (x[i * 32 + k] + m * min[i]) / (d * scale[i]);
			int code = clamp_round(q, 0, most);

			low[i / 2 * 32 + k] |= (uint8_t)((code & 15) << i % 2 * 4);
			high[k] |= (uint8_t)(code >> 4 << i);
		}
	}
	for (int i = 0; i < 4; i++) {
		packed[i] = (uint8_t)(scale[i] | scale[i + 4] >> 4 << 6);
		packed[i + 4] = (uint8_t)(min[i] | min[i + 4] >> 4 << 6);
		packed[i + 8] = (uint8_t)((scale[i + 4] & 15) | (min[i + 4] & 15) << 4);
	}
	bytes_put(b, packed, sizeof packed);
	if (bits == 5)
		bytes_put(b, high, sizeof high);
	bytes_put(b, low, sizeof low);
}

/* Sixteen times 16 values: value = D scale (q - 32), scale of 8 bits with a sign. */
static void put_q6_k(struct bytes *b, const float *x)
{
	float extreme[16] = {0}, most = 0, d;
	uint8_t low[128] = {0}, high[64] = {0};
	int8_t scale[16];

	for (int i = 0; i < 256; i++) {
		if (fabsf(x[i]) > fabsf(extreme[i / 16]))
			extreme[i / 16] = x[i];
		most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
	}
	d = from_f16(to_f16(most / 32.0f / 127.0f));
	for (int i = 0; i < 16; i++) /* the extreme becomes -32 */
		scale[i] = (int8_t)(d > 0 ? clamp_round(extreme[i] / -32.0f / d, -127, 127) : 0);
	for (int i = 0; i < 256; i++) {
		int s = scale[i / 16], half = i / 128, quarter = i % 128 / 32, k = i % 32;
		int code = s ? clamp_round(x[i] / (d * (float)s), -32, 31) + 32 : 32;

		low[half * 64 + quarter % 2 * 32 + k] |= (uint8_t)((code & 15) << quarter / 2 * 4);
		high[half * 32 + k] |= (uint8_t)(code >> 4 << quarter * 2);
	}
	bytes_put(b, low, sizeof low);
	bytes_put(b, high, sizeof high);
	bytes_put(b, scale, sizeof scale);
	put_u16(b, to_f16(most / 32.0f / 127.0f));
}

void tiny_put_block(struct bytes *b, enum k_type type, const float *x)
{
	uint32_t u;

	switch (type) {
	case K_F32:
		bytes_put(b, x, 4);
		break;
	case K_F16:
		put_u16(b, to_f16(*x));
		break;
	case K_BF16:
		memcpy(&u, x, 4);
		put_u16(b, (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16));
		break;
	case K_Q8_0:
		put_q8_0(b, x);
		break;
	case K_Q4_0:
	case K_Q4_1:
		put_q4_q5(b, x, 4, type == K_Q4_1);
		break;
	case K_Q5_0:
	case K_Q5_1:
		put_q4_q5(b, x, 5, type == K_Q5_1);
		break;
	case K_IQ4_NL:
		put_iq4_nl(b, x);
		break;
	case K_Q4_K:
	case K_Q5_K:
		put_q4_k_q5_k(b, x, type == K_Q4_K ? 4 : 5);
		break;
	case K_Q6_K:
		put_q6_k(b, x);
		break;
	case K_N_TYPES:
		break;
	}
}

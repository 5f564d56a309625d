/* Rounding to the weight formats, for tiny models: not the best rounding, but every field of a
 * block is used. A format is known here by its line in the table. See tiny.h. */
#include <math.h>
#include <string.h>

#include "kernels/format/formats.h"
#include "tests/support/tiny.h"

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

/* --- a block's fields, by the table of formats --- */

static void set_bits(uint8_t *p, int32_t order, int32_t bits, int n, int v)
{
	const int i = n / 32, k = n % 32, per = 8 / bits;

	if (order == K_ORDER_FOLD)
		p[i * 16 + k % 16] |= (uint8_t)(v << k / 16 * 4);
	else if (order == K_ORDER_CROSS)
		p[i / 4 * 64 + i % 2 * 32 + k] |= (uint8_t)(v << i % 4 / 2 * 4);
	else if (order == K_ORDER_WORD)
		p[k / 8] |= (uint8_t)(v << k % 8);
	else
		p[i / per * 32 + k] |= (uint8_t)(v << i % per * bits);
}

static void set_code(uint8_t *block, enum k_type type, int n, int code)
{
	const struct k_facts f = k_facts_of(type);
	const int32_t low = k_low_bits(type);

	set_bits(block + f.low_at, f.low, low, n, code & ((1 << low) - 1));
	if (k_high_bits(type))
		set_bits(block + f.high_at, f.high, k_high_bits(type), n, code >> low);
}

/* v is stored: of six bits with a sign 32 more than the scale. */
static void set_sub(uint8_t *p, int32_t subs, int s, int v, int min)
{
	if (subs == K_SUBS_8X6) {
		p[2 + s / 2] |= (uint8_t)((v & 15) << s % 2 * 4);
		p[s / 4] |= (uint8_t)(v >> 4 << s % 4 * 2);
	} else if (subs == K_SUBS_16X6) {
		p[s % 8] |= (uint8_t)((v & 15) << s / 8 * 4);
		p[8 + s % 4] |= (uint8_t)(v >> 4 << s / 4 * 2);
	} else if (subs == K_SUBS_8X6M && s < 4) {
		p[s] |= (uint8_t)v;
		p[s + 4] |= (uint8_t)min;
	} else if (subs == K_SUBS_8X6M) {
		p[s + 4] = (uint8_t)((v & 15) | (min & 15) << 4);
		p[s - 4] |= (uint8_t)(v >> 4 << 6);
		p[s] |= (uint8_t)(min >> 4 << 6);
	} else {
		p[s] = (uint8_t)(v | min << 4);
	}
}

/* The scale or minimum nearest to x (a power of two: not below it); returns what was written. */
static float set_number(uint8_t *p, int32_t number, float x)
{
	const uint16_t h = to_f16(x);
	int e;

	if (number == K_NUM_E8M0) {
		e = x > 0 ? (frexpf(x, &e) > 0.5f ? e + 128 : e + 127) : 0;
		*p = (uint8_t)e;
		return ldexpf(1, e - 128);
	}
	memcpy(p, &h, sizeof h);
	return from_f16(h);
}

/* --- blocks of 32 --- */

/* value = d * (q - bias), d * q + m. */
static void fit_codes(uint8_t *block, enum k_type type, const float *x)
{
	const struct k_facts f = k_facts_of(type);
	const int most = (1 << f.bits) - 1;
	float low = x[0], high = x[0], d, bottom;

	for (int i = 1; i < 32; i++) {
		low = x[i] < low ? x[i] : low;
		high = x[i] > high ? x[i] : high;
	}
	d = set_number(block + f.at, f.number,
		k_has_min(type) ? (high - low) / (float)most
						: (high > -low ? high : -low) / ((float)most / 2));
	bottom = k_has_min(type) ? set_number(block + f.min_at, f.number, low) : -(float)f.bias * d;
	for (int i = 0; i < 32; i++)
		set_code(block, type, i, d != 0 ? clamp_round((x[i] - bottom) / d, 0, most) : 0);
}

/* The nearest value of a book. */
static int nearest(int32_t book, float d, float x)
{
	int best = 0;

	for (int k = 1; k < 16; k++)
		if (fabsf(d * k_books[book][k] - x) < fabsf(d * k_books[book][best] - x))
			best = k;
	return best;
}

static void fit_book(uint8_t *block, enum k_type type, const float *x)
{
	const struct k_facts f = k_facts_of(type);
	float most = 0, d;

	for (int i = 0; i < 32; i++)
		most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
	d = set_number(block + f.at, f.number, most / (float)k_most(type));
	for (int i = 0; i < 32; i++)
		set_code(block, type, i, nearest(f.book, d, x[i]));
}

/* --- blocks of 256 --- */

/* Parts with minima: value = D scale q - Dmin min. */
static void fit_minima(uint8_t *block, enum k_type type, const float *x)
{
	const struct k_facts f = k_facts_of(type);
	const int most = (1 << f.bits) - 1, n = k_has_halves(type) ? 16 : 8, per = 256 / n;
	const int top = n == 16 ? 15 : 63;
	float step[16], below[16], d = 0, m = 0;

	for (int i = 0; i < n; i++) {
		float bottom = 0, high = 0;

		for (int k = 0; k < per; k++) {
			bottom = x[i * per + k] < bottom ? x[i * per + k] : bottom;
			high = x[i * per + k] > high ? x[i * per + k] : high;
		}
		step[i] = (high - bottom) / (float)most;
		below[i] = -bottom;
		d = step[i] > d ? step[i] : d;
		m = below[i] > m ? below[i] : m;
	}
	d = set_number(block + f.at, f.number, d / (float)top);
	m = set_number(block + f.min_at, f.number, m / (float)top);
	for (int i = 0; i < n; i++) {
		const int scale = d > 0 ? clamp_round(step[i] / d, 1, top) : 0;
		const int min = m > 0 ? clamp_round(below[i] / m, 0, top) : 0;

		set_sub(block + f.subs_at, f.subs, i, scale, min);
		for (int k = i * per; k < i * per + per && d > 0; k++)
			set_code(
				block, type, k, clamp_round((x[k] + m * (float)min) / (d * (float)scale), 0, most));
	}
}

/* Parts with a scale that has a sign: value = D scale value. A part's extreme becomes the least
 * value. */
static void fit_signed(uint8_t *block, enum k_type type, const float *x)
{
	const struct k_facts f = k_facts_of(type);
	const int n = k_has_halves(type) ? 16 : 8, per = 256 / n, six = f.subs != K_SUBS_16X8;
	const int top = six ? 31 : 127, least = k_least(type);
	float most = 0, d;

	for (int i = 0; i < 256; i++)
		most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
	d = set_number(block + f.at, f.number, most / (float)-least / (float)top);
	for (int i = 0; i < n; i++) {
		float extreme = 0;
		int scale;

		for (int k = i * per; k < i * per + per; k++)
			extreme = fabsf(x[k]) > fabsf(extreme) ? x[k] : extreme;
		scale = d > 0 ? clamp_round(extreme / (float)least / d, -top, top) : 0;
		set_sub(block + f.subs_at, f.subs, i, six ? scale + 32 : scale & 255, 0);
		for (int k = i * per; k < i * per + per; k++)
			set_code(block, type, k,
				f.book  ? nearest(f.book, d * (float)scale, x[k])
				: scale ? clamp_round(x[k] / (d * (float)scale), least, k_most(type)) - least
						: -least);
	}
}

void tiny_put_block(struct bytes *b, enum k_type type, const float *x)
{
	const struct k_facts f = k_facts_of(type);
	uint8_t block[256] = { 0 };
	uint32_t u;

	memcpy(&u, x, sizeof u);
	if (f.number == K_NUM_F32) {
		bytes_put(b, x, 4);
	} else if (f.number == K_NUM_BF16) {
		put_u16(b, (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16));
	} else if (f.block == 1) {
		put_u16(b, to_f16(*x));
	} else if (f.bits == 8) {
		put_q8_0(b, x);
	} else {
		if (f.subs && f.min_at >= 0)
			fit_minima(block, type, x);
		else if (f.subs)
			fit_signed(block, type, x);
		else if (f.book)
			fit_book(block, type, x);
		else
			fit_codes(block, type, x);
		bytes_put(b, block, (size_t)f.bytes);
	}
}

/* See blocks.h. */
#include "tests/support/blocks.h"

#include <string.h>

#include "kernels/arith.h"
#include "kernels/format/formats.h"

float blocks_float(enum mood mood, random_fn *random32)
{
	static const float odd[] = { 0.0f, -0.0f, 0x1p-149f, -0x1p-130f, 3e38f, -3e38f, INFINITY,
		-INFINITY, NAN, 0x1p-101f, 1e-20f, 65504.0f };
	uint32_t w = random32();

	if (mood != TAME && w % 16 == 0)
		return odd[w / 16 % (sizeof odd / sizeof *odd)];
	return k_fma(k_uniform(w), 4.0f, -2.0f);
}

static uint16_t random_half(enum mood mood, uint32_t w)
{
	static const uint16_t odd[] = { 0, 0x8000, 1, 0x83ff, 0x0400, 0x7bff, 0x7c00, 0xfc00, 0x7e00,
		0xbc00 };

	if (mood == NASTY && w % 8 == 0)
		return odd[w / 8 % (sizeof odd / sizeof *odd)];
	return k_f32_to_f16(k_fma(k_uniform(w), 0.25f, -0.125f));
}

/* Powers of two below 1; odd ones are subnormal, or overflow in a product. */
static uint8_t random_exponent(enum mood mood, uint32_t w)
{
	static const uint8_t odd[] = { 0, 1, 2, 3, 127, 128, 239, 240, 253, 254, 255 };

	if (mood == NASTY && w % 8 == 0)
		return odd[w / 8 % (sizeof odd / sizeof *odd)];
	return (uint8_t)(118 + w / 8 % 10);
}

/* Byte i of a block whose weights, and scales of bytes, are those of greatest size. */
static uint8_t extreme_byte(enum k_type type, int32_t i)
{
	const struct k_facts f = k_facts_of(type);

	if (f.bits == 8 || (f.subs == K_SUBS_16X8 && i >= f.subs_at))
		return 0x80;
	return -k_least(type) > k_most(type) ? 0x00 : 0xff;
}

static void put_number(uint8_t *p, int32_t number, enum mood mood, random_fn *random32)
{
	const uint16_t h = random_half(mood, random32());

	if (number == K_NUM_E8M0)
		*p = random_exponent(mood, random32());
	else
		memcpy(p, &h, sizeof h);
}

static void fill_floats(
	uint8_t *raw, const struct k_facts *f, size_t n, enum mood mood, random_fn *random32)
{
	for (size_t i = 0; i < n; i++, raw += f->bytes) {
		const float x = blocks_float(mood, random32);
		const uint16_t h = f->number == K_NUM_BF16 ? (uint16_t)(k_bits(x) >> 16) : k_f32_to_f16(x);

		memcpy(raw, f->number == K_NUM_F32 ? (const void *)&x : (const void *)&h, (size_t)f->bytes);
	}
}

void blocks_fill(uint8_t *raw, enum k_type type, size_t n, enum mood mood, random_fn *random32)
{
	const struct k_facts f = k_facts_of(type);

	if (!k_is_quantised(type)) {
		fill_floats(raw, &f, n, mood, random32);
		return;
	}
	for (size_t b = 0; b < n; b++, raw += f.bytes) {
		for (int32_t i = 0; i < f.bytes; i++)
			raw[i] = mood == EXTREME ? extreme_byte(type, i) : (uint8_t)random32();
		put_number(raw + f.at, f.number, mood, random32);
		if (f.min_at >= 0)
			put_number(raw + f.min_at, f.number, mood, random32);
	}
}

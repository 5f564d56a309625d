/* Part of selfcheck.c: its numbers and weights, from Philox, and the hash that results are folded
 * into. Thread: any; no state. */
#pragma once

#include "kernels/arith.h"
#include "kernels/format/formats.h"

/* count numbers of either sign, mostly below 2, a few tiny. */
static void fill(float *x, size_t count, uint32_t stream)
{
	uint32_t w[4];

	for (size_t i = 0; i < count; i++) {
		if (i % 4 == 0)
			k_draw_words(0, (uint32_t)(i / 4), stream, 0, 0, w);
		x[i] = k_fma(k_uniform(w[i % 4]), 4.0f, -2.0f) * (w[i % 4] % 32 == 0 ? 0x1p-130f : 1.0f);
	}
}

/* Writes x at p, as a number of a format. */
static void put_number(uint8_t *p, int32_t number, float x)
{
	const uint32_t bits = k_bits(x);
	const uint16_t h = number == K_NUM_BF16 ? (uint16_t)(bits >> 16) : k_f32_to_f16(x);

	if (number == K_NUM_F32)
		memcpy(p, &x, sizeof x);
	else if (number == K_NUM_E8M0)
		*p = (uint8_t)(bits >> 23);
	else
		memcpy(p, &h, sizeof h);
}

/* Sets the floats in a block of weights (all of it, or its scales) to moderate values. */
static void put_floats(uint8_t *block, enum k_type type, const float *x)
{
	const struct k_facts f = k_facts_of(type);

	put_number(block + f.at, f.number, x[0]);
	if (k_has_min(type))
		put_number(block + f.min_at, f.number, x[1]);
}

/* Random bits for weights, except that their floats are moderate. */
static void fill_weights(uint8_t *raw, enum k_type type, size_t count)
{
	const struct k_type_info *t = &k_types[type];
	uint32_t w[4];
	float scale[4];

	for (size_t i = 0; i < count / (size_t)t->block; i++) {
		uint8_t *block = raw + i * (size_t)t->block_bytes;

		for (int at = 0; at < t->block_bytes; at++) {
			if (at % 16 == 0)
				k_draw_words(1, (uint32_t)i, (uint32_t)t->gguf_id, (uint32_t)at, 0, w);
			block[at] = (uint8_t)(w[at % 16 / 4] >> at % 4 * 8);
		}
		for (int f = 0; f < 4; f++)
			scale[f] = k_uniform(w[f]) - 0.5f;
		put_floats(block, type, scale);
	}
}

static void fold(uint64_t *hash, const void *data, size_t bytes)
{
	uint64_t h = 0;

	for (size_t i = 0; i < bytes / 4; i++) {
		uint32_t word;

		memcpy(&word, (const uint8_t *)data + i * 4, sizeof word);
		h += k_hash_term(word, (uint32_t)i);
	}
	*hash = (*hash ^ h) * 0x9E3779B97F4A7C15u;
}

/* What encode.c and encode_search.c share: writing the fields of a block by the columns of the
 * table of formats. Thread: any; no state. */
#pragma once

#include "kernels/format/encode.h"
#include "kernels/format/formats.h"

/* The integer nearest to x (halves away from zero) within low … high; low for a NaN. */
static inline int32_t k_nearest_int(float x, int32_t low, int32_t high)
{
	int32_t i;

	if (!(x > (float)low && x < (float)high))
		return x >= (float)high ? high : low;
	i = (int32_t)x; /* x + 0.5 would round 0.5 - 2^-25 up */
	return i + (x - (float)i >= 0.5f) - (x - (float)i <= -0.5f);
}

/* The code whose value times `scale` is nearest to x, the lowest of equals. */
int32_t k_nearest_code(enum k_type type, float scale, float x);

/* A block of 256, or of a book: searches for its scales. */
void k_encode_search(enum k_type type, const float *x, uint8_t *block);

/* Stores x as f16, and returns what it became. */
static inline float k_put_half(uint8_t *p, float x)
{
	const uint16_t h = k_f32_to_f16(x);

	memcpy(p, &h, sizeof h);
	return k_f16_to_f32(h);
}

/* What a code stands for, before its scale. */
static inline int32_t k_code_value(enum k_type type, int32_t code)
{
	const struct k_facts f = k_facts_of(type);

	return f.book ? k_books[f.book][code] : code - f.bias;
}

/* Rounds activations to a format of fewer bits, in place; they stay floats, of that format's
 * values. So weights and activations can be set apart: W4A32, W8A8 and the rest are what the
 * product by floats makes of them. A unit is a row. */
#ifndef CUTAWAY_KERNELS_OP_ROUND_H
#define CUTAWAY_KERNELS_OP_ROUND_H

#include "kernels/op/op.h"

/* Name, its word, bits of the mantissa, least exponent of a normal number, largest value (0:
 * integers), what it is. FP8: Micikevicius et al. 2022; e4m3 has no infinity, and e5m2 keeps clear
 * of its own. */
#define K_ROUNDS(X)                                                                                \
	X(f32, "f32", 23, -126, 0x1.fffffep127f, "as computed")                                        \
	X(bf16, "bf16", 7, -126, 0x1.fep127f, "the upper half of f32")                                 \
	X(e4m3, "e4m3", 3, -6, 448.0f, "8 bits, 3 of them mantissa")                                   \
	X(e5m2, "e5m2", 2, -14, 57344.0f, "8 bits, 2 of them mantissa")                                \
	X(int8_block, "int8-block", 0, 0, 0, "integers of 8 bits, a scale for 32 values")              \
	X(int8_token, "int8-token", 0, 0, 0, "the same, a scale for a token's row")                    \
	X(int8_tensor, "int8-tensor", 0, 0, 0,                                                         \
		"the same, one scale for all rows, from a calibration text")

enum k_round_to {
#define X(name, ...) K_ROUND_##name,
	K_ROUNDS(X)
#undef X
		K_N_ROUNDS
};

struct k_round {
	float *x; /* [n, dim] */
	int32_t dim, n;
	enum k_round_to to;
	float largest; /* of int8_tensor: what becomes 127; larger values are cut */
};
#define K_ROUND_INPUTS(PLAIN, a)

K_INLINE struct k_count k_round_count(const struct k_round *a)
{
	return k_count_values(a->n, a->dim, 8, 4);
}

K_INLINE struct k_acts k_round_result(const struct k_round *a)
{
	return k_floats(a->x, a->dim);
}

K_INLINE int64_t k_round_units(const struct k_round *a)
{
	return a->n;
}

/* To so many bits of mantissa, to nearest even, saturating; below the least normal exponent to
 * multiples of the least number. A NaN stays one. */
K_INLINE float k_round_float(float x, int32_t mantissa, int32_t least, float most)
{
	const uint32_t sign = k_bits(x) & 0x80000000u, u = k_bits(x) & 0x7fffffffu;
	const uint32_t shift = (uint32_t)(23 - mantissa);
	const float size = k_float(u);
	uint32_t v;

	if (u > 0x7f800000u || mantissa == 23)
		return x;
	if (size >= most)
		return k_float(sign | k_bits(most));
	if (u >> 23 < (uint32_t)(least + 127)) { /* the sum rounds at the least number */
		const float at = k_float((uint32_t)(least - mantissa + 23 + 127) << 23) * 1.5f;

		return k_float(sign | k_bits((size + at) - at));
	}
	v = (u + ((1u << shift) / 2 - 1) + (u >> shift & 1)) >> shift << shift;
	return k_float(sign | (k_float(v) > most ? k_bits(most) : v));
}

/* -127 to 127 times largest / 127; n values. Rule 4 has the limits. */
K_INLINE void k_round_integers(float *x, int32_t n, float largest)
{
	const uint32_t a = k_bits(largest);
	const float scale = largest * 0x1.020408p-7f, id = 127.0f / largest;

	for (int32_t i = 0; i < n; i++) {
		const float cut = x[i] > largest ? largest : x[i] < -largest ? -largest : x[i];

		x[i] = a < 0x0d800000u    ? 0
			   : a >= 0x7f800000u ? k_float(0x7fc00000u)
								  : (k_fma(cut, id, 0x1.8p23f) - 0x1.8p23f) * scale;
	}
}

K_INLINE void k_round_unit(const struct k_round *a, int64_t unit)
{
	float *x = a->x + (size_t)unit * (size_t)a->dim;

	if (a->to == K_ROUND_int8_token)
		k_round_integers(x, a->dim, k_largest(x, a->dim));
	else if (a->to == K_ROUND_int8_tensor)
		k_round_integers(x, a->dim, a->largest);
	for (int32_t i = 0; a->to == K_ROUND_int8_block && i < a->dim; i += K_QBLOCK) {
		const int32_t n = a->dim - i < K_QBLOCK ? a->dim - i : K_QBLOCK;

		k_round_integers(x + i, n, k_largest(x + i, n));
	}
#define X(name, word, mantissa, least, most, doc)                                                  \
	for (int32_t i = 0; mantissa && a->to == K_ROUND_##name && i < a->dim; i++)                    \
		x[i] = k_round_float(x[i], mantissa, least, most);
	K_ROUNDS(X)
#undef X
}

#endif

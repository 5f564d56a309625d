/* Rounds activations to a format of fewer bits, in place; they stay floats, of that format's
 * values. So weights and activations can be set apart: W4A32, W8A8 and the rest are what the
 * product by floats makes of them. A unit is a row. */
#pragma once

#include "kernels/op/op.h"

/* Name, its word, bits of the mantissa, least exponent of a normal number, largest value (0:
 * integers), what it is. FP8: Micikevicius et al. 2022; e4m3 has no infinity, and e5m2 keeps clear
 * of its own. */
#define K_ROUNDS(X)                                                                                \
	X(f32, "f32", 23, -126, 0x1.fffffep127f, "as computed")                                        \
	X(f16, "f16", 10, -14, 65504.0f, "16 bits, 10 of them mantissa")                               \
	X(bf16, "bf16", 7, -126, 0x1.fep127f, "the upper half of f32")                                 \
	X(e4m3, "e4m3", 3, -6, 448.0f, "8 bits, 3 of them mantissa")                                   \
	X(e5m2, "e5m2", 2, -14, 57344.0f, "8 bits, 2 of them mantissa")                                \
	X(int8_block, "int8-block", 0, 0, 0, "integers of 8 bits, a scale for 32 values")              \
	X(int8_token, "int8-token", 0, 0, 0, "the same, a scale for a token's row")                    \
	X(llm_int8, "llm.int8", 0, 0, 0, "the same, but for its values beyond 6, which stay")          \
	X(int8_tensor, "int8-tensor", 0, 0, 0,                                                         \
		"the same, one scale for all rows, from a calibration text")

/* LLM.int8() (Dettmers et al. 2022, section 3.2) sets values apart that are larger. It does so for
 * columns of a batch; here each row has its own, or its product would depend on the others. */
#define K_OUTLIER 6.0f

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
	/* of llm_int8, or NULL: what a product of integers reads, without the values that stay; x is
	 * left as it is (then dim is a multiple of 32) */
	int8_t *q;     /* [n, dim] */
	float *d, *sx; /* [n, dim / 32] */
};
#define K_INPUTS_round(PLAIN, a)
K_COUNT(round, a->n, a->dim, 8, 4)
K_RESULT(round, k_floats(a->x, a->dim))
K_UNITS(round, a->n)

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

/* -127 to 127, for multiples of k_round_scale(). Rule 4 has the limits. */
K_INLINE float k_round_code(float x, float largest)
{
	const uint32_t a = k_bits(largest);
	const float id = 127.0f / largest;
	const float cut = x > largest ? largest : x < -largest ? -largest : x;

	return a < 0x0d800000u    ? 0
		   : a >= 0x7f800000u ? k_float(0x7fc00000u)
							  : k_fma(cut, id, 0x1.8p23f) - 0x1.8p23f;
}

K_INLINE float k_round_scale(float largest)
{
	return k_bits(largest) < 0x0d800000u ? 0 : largest * 0x1.020408p-7f;
}

/* The largest magnitude of those that do not stay. */
K_UNIT_FN float k_round_rest(const float *x, int32_t n)
{
	uint32_t most = 0;

	K_LANES(i, n) {
		const uint32_t b = k_beyond(x[i], K_OUTLIER) ? 0 : k_bits(x[i]) & 0x7fffffffu;

		most = b > most ? b : most;
	}
	return k_float(k_lanes_most(most));
}

/* A block of a row as a product of integers reads it. */
K_UNIT_FN void k_round_apart(const float *x, float largest, int8_t *q, float *d, float *sx)
{
	const float scale = k_round_scale(largest);
	int32_t sum = 0;

	K_LANES(i, K_QBLOCK) {
		const float code = k_beyond(x[i], K_OUTLIER) ? 0 : k_round_code(x[i], largest);

		q[i] = (int8_t)code;
		sum += (int32_t)code;
	}
	*d = scale;
	*sx = scale * (float)k_lanes_total(sum);
}

K_UNIT_FN void k_round_unit(const struct k_round *a, int64_t unit)
{
	float *x = a->x + (size_t)unit * (size_t)a->dim;
	const float all = a->to == K_ROUND_int8_token ? k_largest(x, a->dim)
					  : a->to == K_ROUND_llm_int8 ? k_round_rest(x, a->dim)
												  : a->largest;
	const float stays = a->to == K_ROUND_llm_int8 ? K_OUTLIER : INFINITY;

	K_MEET(); /* every warp has read the row */
	K_WARPS(block, k_pieces(a->dim, K_QBLOCK)) {
		float *v = x + block * K_QBLOCK;
		const int32_t left = a->dim - block * K_QBLOCK, n = k_min(left, K_QBLOCK);
		const float largest = a->to == K_ROUND_int8_block ? k_largest(v, n) : all;

		if (a->q) {
			const size_t at = k_index(unit, a->dim / K_QBLOCK, block);

			k_round_apart(v, all, a->q + at * K_QBLOCK, a->d + at, a->sx + at);
			continue;
		}
		switch (a->to) {
#define X(name, word, mantissa, least, most, doc)                                                  \
	case K_ROUND_##name:                                                                           \
		K_LANES(i, n)                                                                              \
			v[i] = mantissa                ? k_round_float(v[i], mantissa, least, most)            \
				   : k_beyond(v[i], stays) ? v[i]                                                  \
										   : k_round_code(v[i], largest) * k_round_scale(largest); \
		break;
			K_ROUNDS(X)
#undef X
		case K_N_ROUNDS: break;
		}
	}
}

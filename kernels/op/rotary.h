/* Rotary positions (rule 9) of heads, in place, for norms that come after them; what else the op
 * rope does is done afterwards, with nothing left to rotate. A unit is a head of a row. */
#pragma once

#include "kernels/op/op.h"

struct k_rotary {
	float *x;               /* [n, n_heads, head_dim] */
	const float *cos, *sin; /* [.., rope_dim / 2], by position */
	int32_t rope_dim, head_dim, n_heads, n;
	bool neox;
	const struct k_row *rows; /* [n] */
};
#define K_INPUTS_rotary(PLAIN, a) PLAIN(a->rows, a->n)
K_COUNT(rotary, a->n * a->n_heads, a->rope_dim, 12, 3)
K_RESULT(rotary, k_floats(a->x, a->n_heads * a->head_dim))
K_UNITS(rotary, (int64_t)a->n * a->n_heads)

/* Pair i of a head, by a row of the table; in and out may be one. */
K_INLINE void k_rotate(const float *cos, const float *sin, int32_t i, int32_t half, bool neox,
	float scale, const float *in, float *out)
{
	const int32_t even = neox ? i : 2 * i, odd = neox ? i + half : 2 * i + 1;
	const float x = in[even], y = in[odd], c = cos[i], s = sin[i];

	out[even] = k_fma(x, c, -(y * s)) * scale;
	out[odd] = k_fma(x, s, y * c) * scale;
}

K_UNIT_FN void k_rotary_unit(const struct k_rotary *a, int64_t unit)
{
	const int32_t half = a->rope_dim / 2, row = (int32_t)(unit / a->n_heads);
	const size_t at = (size_t)a->rows[row].pos * (size_t)half;
	float *x = a->x + (size_t)unit * (size_t)a->head_dim;

	K_LANES(i, half)
		k_rotate(a->cos + at, a->sin + at, i, half, a->neox, 1.0f, x, x);
}

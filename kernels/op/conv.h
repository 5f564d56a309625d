/* Causal convolution of each channel over its last `taps` inputs, then SiLU (Gu and Dao 2023,
 * section 3.5; rule 16), or with an input and a result that are gated in place of it (Poli et al.
 * 2023). The state is the last taps - 1 inputs, oldest first. A unit is 32 channels of all rows of
 * the step, in order. */
#pragma once

#include "kernels/op/op.h"

enum { K_CONV_TAPS = 8 }; /* at most */

struct k_conv {
	const float *x;        /* [n, dim] */
	const float *in, *end; /* [n, dim] factors of the input, of the result; NULL: none */
	const float *w;        /* [dim, taps] */
	const float *bias;     /* [dim] or NULL */
	struct k_acts out;     /* [n, dim]; q only where dim is a multiple of 32 */
	bool linear;           /* no SiLU */
	int32_t taps, n;
	const struct k_state_row *rows; /* [n] */
	const struct k_state *state;
	size_t at; /* offset in floats of this layer's [dim, taps - 1] in a page */
};
#define K_INPUTS_conv(PLAIN, a) PLAIN(a->rows, a->n) PLAIN(a->state, 1)
K_COUNT(conv, a->n, a->out.dim, 12, 2 * (uint64_t)a->taps + 16)
K_RESULT(conv, a->out)
K_UNITS(conv, k_pieces(a->out.dim, 32))

K_INLINE void k_conv_state(const struct k_conv *a, int32_t r, int32_t channel, float *s)
{
	const int32_t from = a->rows[r].from, kept = a->taps - 1;

	if (from == K_STATE_ROW)
		return;
	for (int32_t i = 0; i < kept; i++)
		s[i] = from == K_STATE_ZERO ? 0.0f : k_state_at(a->state, from, a->at)[channel * kept + i];
}

/* s: the inputs before this one; they shift by one. */
K_INLINE float k_conv_tap(const struct k_conv *a, int32_t channel, float x, float *s)
{
	const float *w = a->w + (size_t)channel * (size_t)a->taps;
	const int32_t kept = a->taps - 1;
	float sum = 0;

	for (int32_t t = 0; t < kept; t++)
		sum = k_fma(w[t], s[t], sum);
	sum = k_fma(w[kept], x, sum);
	for (int32_t t = 0; t + 1 < kept; t++)
		s[t] = s[t + 1];
	if (kept)
		s[kept - 1] = x;
	sum = a->bias ? sum + a->bias[channel] : sum;
	return a->linear ? sum : k_silu(sum);
}

K_UNIT_FN void k_conv_unit(const struct k_conv *a, int64_t unit)
{
	const int32_t first = (int32_t)unit * 32, kept = a->taps - 1;
	const int32_t count = k_min(a->out.dim - first, 32);
	float s[K_OWN][K_CONV_TAPS], y[K_OWN];

	for (int32_t r = 0; r < a->n; r++) {
		const size_t at = k_index(r, a->out.dim, first);

		K_LANES(c, count) {
			const size_t i_c = at + (size_t)c;
			const float x = a->in ? a->x[i_c] * a->in[i_c] : a->x[i_c];

			k_conv_state(a, r, first + c, s[K_AT(c)]);
			y[K_AT(c)] = k_conv_tap(a, first + c, x, s[K_AT(c)]);
			if (a->end)
				y[K_AT(c)] *= a->end[i_c];
			for (int32_t i = 0; a->rows[r].to >= 0 && i < kept; i++)
				k_state_at(a->state, a->rows[r].to, a->at)[(first + c) * kept + i] = s[K_AT(c)][i];
		}
		k_put(&a->out, r, first, y, count);
	}
}

/* Selective scan (Mamba: Gu and Dao 2023, algorithm 2; rule 16), gated: of each channel, over the
 * rows of the step in order, with dt = softplus(delta), S[n] = exp(dt A[n]) S[n] + (dt x) B[n],   y
 * = sum of S[n] C[n] + D x,   out = y * silu(z). A unit is 32 channels of all rows. */
#ifndef CUTAWAY_KERNELS_OP_SCAN_H
#define CUTAWAY_KERNELS_OP_SCAN_H

#include "kernels/op/op.h"

enum { K_SCAN_STATES = 256 }; /* of a channel, at most */

struct k_scan {
	const float *x, *z; /* [n, dim] */
	const float *delta; /* [n, dim] before softplus */
	const float *b, *c; /* [n, n_states] */
	const float *a;     /* [dim, n_states], negative */
	const float *d;     /* [dim] */
	struct k_acts out;  /* [n, dim]; out.x is never NULL */
	int32_t n_states, n;
	const struct k_state_row *rows; /* [n] */
	const struct k_state *state;
	size_t at; /* offset in floats of this layer's [dim, n_states] in a page */
};
#define K_SCAN_INPUTS(PLAIN, a) PLAIN(a->rows, a->n) PLAIN(a->state, 1)

K_INLINE struct k_count k_scan_count(const struct k_scan *a)
{
	return k_count_values(a->n, a->out.dim, 16, 20 * (uint64_t)a->n_states + 40);
}

K_INLINE struct k_acts k_scan_result(const struct k_scan *a)
{
	return a->out;
}

K_INLINE int64_t k_scan_units(const struct k_scan *a)
{
	return a->out.dim / 32;
}

/* Some states at a time, of which only the chain of y has an order. */
K_INLINE float k_scan_step(const struct k_scan *a, int32_t r, int32_t channel, float *s)
{
	enum { SOME = 8 };
	const size_t at = (size_t)r * (size_t)a->out.dim + (size_t)channel;
	const float *decay = a->a + (size_t)channel * (size_t)a->n_states;
	const float *b = a->b + (size_t)r * (size_t)a->n_states,
				*c = a->c + (size_t)r * (size_t)a->n_states;
	const float dt = k_softplus(a->delta[at]), dx = dt * a->x[at];
	float y = 0;

	for (int32_t i = 0; i < a->n_states; i += SOME) {
		const int32_t end = i + SOME < a->n_states ? i + SOME : a->n_states;

		for (int32_t j = i; j < end; j++)
			s[j] = k_fma(k_exp(dt * decay[j]), s[j], dx * b[j]);
		for (int32_t j = i; j < end; j++)
			y = k_fma(s[j], c[j], y);
	}
	return k_fma(a->d[channel], a->x[at], y) * k_silu(a->z[at]);
}

K_INLINE void k_scan_channel(const struct k_scan *a, int32_t channel)
{
	const size_t at = a->at + (size_t)channel * (size_t)a->n_states;
	float s[K_SCAN_STATES];

	for (int32_t r = 0; r < a->n; r++) {
		const int32_t from = a->rows[r].from, to = a->rows[r].to;

		for (int32_t i = 0; from != K_STATE_ROW && i < a->n_states; i++)
			s[i] = from == K_STATE_ZERO ? 0.0f : k_state_at(a->state, from, at)[i];
		a->out.x[(size_t)r * (size_t)a->out.dim + (size_t)channel] = k_scan_step(a, r, channel, s);
		for (int32_t i = 0; to >= 0 && i < a->n_states; i++)
			k_state_at(a->state, to, at)[i] = s[i];
	}
}

K_UNIT_FN void k_scan_unit(const struct k_scan *a, int64_t unit)
{
	const int32_t first = (int32_t)unit * 32;

	K_LANES(c, 32)
		k_scan_channel(a, first + c);
	for (int32_t r = 0; a->out.q && r < a->n; r++) {
		const float *x = a->out.x + (size_t)r * (size_t)a->out.dim + (size_t)(first + k_lane());

		k_put(&a->out, r, first, x, 32);
	}
}

#endif

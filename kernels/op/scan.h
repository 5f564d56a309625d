/* Selective scan (Mamba: Gu and Dao 2023, algorithm 2; rule 16), gated: of each channel, over the
 * rows of the step in order, with dt = softplus(delta), S[n] = exp(dt A[n]) S[n] + (dt x) B[n],   y
 * = sum of S[n] C[n] + D x,   out = y * silu(z). Without delta nothing is selected, and states are
 * complex (S4D: Gu et al. 2022): S = A S + x, A, S and C pairs of numbers that are the channel's
 * own, already discrete. A unit is 32 channels of all rows. */
#pragma once

#include "kernels/op/op.h"

enum { K_SCAN_STATES = 256 }; /* of a channel, at most */

struct k_scan {
	const float *x, *z; /* [n, dim] */
	const float *delta; /* [n, dim] before softplus; NULL: S4D */
	const float *b, *c; /* [n, n_states]; S4D: NULL, [dim, n_states / 2] re and -im */
	const float *a;     /* [dim, n_states], negative; S4D: [dim, n_states / 2] re and im */
	const float *d;     /* [dim] */
	struct k_acts out;  /* [n, dim]; out.x is never NULL */
	int32_t n_states, n;
	const struct k_state_row *rows; /* [n] */
	const struct k_state *state;
	size_t at; /* offset in floats of this layer's [dim, n_states] in a page */
};
#define K_INPUTS_scan(PLAIN, a) PLAIN(a->rows, a->n) PLAIN(a->state, 1)
K_COUNT(scan, a->n, a->out.dim, 16, 20 * (uint64_t)a->n_states + 40)
K_RESULT(scan, a->out)
K_UNITS(scan, a->out.dim / 32)

/* A complex state, as it turns and fades in a step. */
K_INLINE void k_scan_turn(const float a[2], float x, float s[2])
{
	const float re = k_fma(a[0], s[0], k_fma(-a[1], s[1], x));

	s[1] = k_fma(a[0], s[1], a[1] * s[0]);
	s[0] = re;
}

/* Some states at a time, of which only the chain of y has an order. */
K_INLINE float k_scan_step(const struct k_scan *a, int32_t r, int32_t channel, float *s)
{
	enum { SOME = 8 };
	const size_t at = k_index(r, a->out.dim, channel);
	const size_t own = (size_t)channel * (size_t)a->n_states, row = (size_t)r * (size_t)a->n_states;
	const float *decay = a->a + own, *b = a->b + row, *c = a->c + (a->delta ? row : own);
	const float dt = a->delta ? k_softplus(a->delta[at]) : 1, dx = dt * a->x[at];
	float y = 0;

	for (int32_t i = 0; i < a->n_states; i += SOME) {
		const int32_t end = k_min(i + SOME, a->n_states);

		for (int32_t j = i; a->delta && j < end; j++)
			s[j] = k_fma(k_exp(dt * decay[j]), s[j], dx * b[j]);
		for (int32_t j = i; !a->delta && j < end; j += 2)
			k_scan_turn(decay + j, dx, s + j);
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
		a->out.x[k_index(r, a->out.dim, channel)] = k_scan_step(a, r, channel, s);
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
		const float *x = a->out.x + k_index(r, a->out.dim, first + k_lane());

		k_put(&a->out, r, first, x, 32);
	}
}

/* Token shift (Peng et al. 2023; RWKV-7: Peng et al. 2025, section 4): each row mixed with the row
 * before it, by channel, in several ways: out_m = fmaf(before - x, mix_m, x). The state is the last
 * row. A unit is 32 channels of all rows of the step, in order. */
#pragma once

#include "kernels/op/op.h"

struct k_shift {
	const float *x;    /* [n, dim] */
	const float *mix;  /* [ways, dim] */
	struct k_acts out; /* [ways * n, dim]: all rows of the first way, then those of the next */
	int32_t ways, n;
	const struct k_state_row *rows; /* [n] */
	const struct k_state *state;
	size_t at; /* offset in floats of this layer's [dim] in a page */
};
#define K_INPUTS_shift(PLAIN, a) PLAIN(a->rows, a->n) PLAIN(a->state, 1)
K_COUNT(shift, a->n, a->out.dim, 4 + 4 * (uint64_t)a->ways, 1 + 2 * (uint64_t)a->ways)
K_RESULT(shift, a->out)
K_UNITS(shift, k_pieces(a->out.dim, 32))

/* Where the row before r is, from channel `first` on; NULL: r is a sequence's first one. */
K_INLINE const float *k_shift_before(const struct k_shift *a, int32_t r, int32_t first)
{
	const int32_t from = a->rows[r].from;

	if (from == K_STATE_ROW)
		return a->x + k_index(r - 1, a->out.dim, first);
	return from == K_STATE_ZERO ? NULL : k_state_at(a->state, from, a->at) + first;
}

K_UNIT_FN void k_shift_unit(const struct k_shift *a, int64_t unit)
{
	const int32_t dim = a->out.dim, first = (int32_t)unit * 32;
	const int32_t count = k_min(dim - first, 32);
	float step[K_OWN], y[K_OWN];

	for (int32_t r = 0; r < a->n; r++) {
		const float *x = a->x + k_index(r, dim, first);
		const float *before = k_shift_before(a, r, first);

		K_LANES(c, count)
			step[K_AT(c)] = (before ? before[c] : 0.0f) - x[c];
		for (int32_t m = 0; m < a->ways; m++) {
			const float *mix = a->mix + k_index(m, dim, first);

			K_LANES(c, count)
				y[K_AT(c)] = k_fma(step[K_AT(c)], mix[c], x[c]);
			k_put(&a->out, m * a->n + r, first, y, count);
		}
		K_LANES(c, a->rows[r].to >= 0 ? count : 0)
			k_state_at(a->state, a->rows[r].to, a->at)[first + c] = x[c];
	}
}

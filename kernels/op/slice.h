/* Copies a piece of each head of each row into rows of its own, rounded to 8 bits where `out` has q
 * (rule 4): between products by head and what lies beside them. A unit is 32 columns of a head of a
 * row. */
#pragma once

#include "kernels/op/op.h"

struct k_slice {
	const float *x;       /* [n, heads, stride] */
	struct k_acts out;    /* [n * heads, out.dim] */
	int32_t *ids;         /* [n, heads] set to the number of the head; NULL: not */
	int32_t stride, from; /* columns of a head, and the first of the piece */
	int32_t width, to;    /* of the piece, and its first column in out */
	int32_t heads, n;
};
#define K_INPUTS_slice(PLAIN, a)
K_COUNT(slice, a->n * a->heads, a->width, 8, 0)
K_RESULT(slice, a->out)
K_UNITS(slice, (int64_t)a->n * a->heads * (k_pieces(a->width, 32)))

K_UNIT_FN void k_slice_unit(const struct k_slice *a, int64_t unit)
{
	const int32_t blocks = k_pieces(a->width, 32), r = (int32_t)unit / blocks,
				  at = (int32_t)unit % blocks * 32, left = a->width - at;
	const float *x = a->x + k_index(r, a->stride, a->from + at + k_lane());

	if (a->ids && at + k_lane() == 0)
		a->ids[r] = r % a->heads;
	k_put(&a->out, r, a->to + at, x, k_min(left, 32));
}

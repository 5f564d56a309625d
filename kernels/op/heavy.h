/* The ops of heavy hitters (Zhang et al. 2023, "H2O"; rule 22): `recall` gives the groups of 16
 * positions that each row's heads still have, in front of attention, and `account` adds up after it
 * what attention each group got; where a row ends a span of 128 it chooses those that are kept.
 * They have no kernels of a GPU. */
#ifndef CUTAWAY_KERNELS_OP_HEAVY_H
#define CUTAWAY_KERNELS_OP_HEAVY_H

#include "kernels/op/op.h"

/* What the kv heads of a layer keep, and where. All rows of a sequence in a step are of one span
 * (but for those of which only the time is wanted).
 * A head's state: how many groups it keeps; which, ascending; what attention they got; what the
 * groups of the span before and of its own got. */
struct k_heavy {
	const struct k_row *rows;         /* [n] */
	const struct k_state_row *states; /* [n] */
	const struct k_state *state;
	size_t at; /* offset in floats of this layer's [n_kv_heads, k_heavy_floats(most)] in a page */
	int32_t n_kv_heads, most, n; /* most: groups that a head ever keeps */
};

enum {
	K_HEAVY_SPAN = 8, /* groups of a span */
	K_HEAVY_NEWEST = 2 * K_HEAVY_SPAN,
};

/* Groups there is room for: those of the span that leaves the newest, too. */
K_INLINE int32_t k_heavy_room(int32_t most)
{
	return most + K_HEAVY_SPAN;
}

K_INLINE size_t k_heavy_floats(int32_t most)
{
	return ((size_t)(1 + 2 * k_heavy_room(most) + K_HEAVY_NEWEST) + 15) / 16 * 16;
}

/* The groups that each row reads, by kv head: those of its span up to its own and of the span
 * before, and those that are kept. */
struct k_recall {
	struct k_heavy of;
	const int32_t *begins; /* [n] the first row of the step that is of the same request */
	uint8_t *out; /* [n, n_kv_heads, stride] a byte for each span of 128, a bit for each group */
	int32_t stride;
};

struct k_account {
	struct k_heavy of;
	const float *share;  /* [n, n_heads, share_stride] attention's, of the groups a row reads */
	const int32_t *keep; /* [n] groups that rows of the span after a row's keep */
	int32_t share_stride, n_heads;
};

#endif

/* The ops of what a row reads of the positions that it sees. A choice of keys (Tang et al. 2024,
 * "Quest"; rule 18): `extent` keeps the least and the greatest of each key channel for groups of 16
 * positions, `pick` chooses the groups that a row reads by the bound that follows from them. And
 * positions inside the cache (Xiao et al. 2023; rule 19): `turn` makes a second query, as far from
 * the attention sinks as it would be if nothing lay between them and the window. They have no
 * kernels of a GPU. */
#ifndef CUTAWAY_KERNELS_OP_PICK_H
#define CUTAWAY_KERNELS_OP_PICK_H

#include <stdbool.h>
#include <stdint.h>

struct k_row;
struct k_also;
struct k_kv;

/* Writes the extents of the groups that rows of the step fill: after rope has stored the keys. */
struct k_extent {
	int32_t layer, n;
	const struct k_row *rows;  /* [n] */
	const struct k_also *also; /* [n_also] as rope's */
	int32_t n_also;
	const int32_t *const *pages; /* block tables */
	const struct k_kv *kv;       /* with extents */
};

/* The groups that each row reads, by kv head: its own, the one before, the first, and of the others
 * before it those of greatest bound, ties to the lowest. */
struct k_pick {
	const float *q; /* [n, n_heads, head_dim] rotated and scaled */
	uint8_t *out;   /* [n, n_kv_heads, stride] a byte for each span of 128, a bit for each group */
	int32_t stride, n_heads, layer, n;
	const struct k_row *rows;
	const int32_t *budget;       /* [n] groups, at least 3 */
	const int32_t *const *pages; /* block tables */
	const struct k_kv *kv;       /* with extents */
};

/* Rotates q as rope does, but by other positions: before rope, which rotates in place. */
struct k_turn {
	const float *q;         /* [n, n_heads, head_dim] */
	float *out;             /* likewise, rotated and scaled */
	const float *cos, *sin; /* [.., rope_dim / 2] rows of the table, by position */
	const int32_t *pos;     /* [n] */
	int32_t rope_dim, n_heads, head_dim, n;
	bool neox;
	float scale;
};

#endif

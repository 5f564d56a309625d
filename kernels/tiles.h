/* Weights in tiles, so that a vector's lane is an output row and each lane follows the reference's
 * order of sums. Shared by the instruction sets; inside kernels/ only.
 *
 * A tile is `lanes` rows and starts at a multiple of 64 bytes; rows beyond the last are zeros.
 * Float formats: [column][lanes]. Quantised formats, chunk by chunk, a chunk being as many blocks
 * of 32 columns as have their scales together (struct k_layout):
 * - scales of each block of the file, as the file has them, field by field: f16 [lanes], then
 * minima [lanes]; of K-quants then words of packed 6-bit or 8-bit scales [lanes];
 * - then for each block of 32 columns: bits above the fourth, as words [lanes]; and the weights,
 * the rows' four of each quad of columns next to one another, [8 quads][lanes][4]; four bits a
 * weight hold quad j in the low and quad j + 4 in the high halves, [4][lanes][4]. Byte c of a word
 * of fifth bits has that of column 4j + c at bit j; with two high bits a weight the first word has
 * quads 0 to 3 and the second 4 to 7, column 4j + c at bit 2 (j % 4) of byte c.
 *
 * Why so: one pure stream of addresses, and vectors that cross no cache line. With the scales apart
 * at the head of a tile a core reached 14 GB/s, with them inline 34 of 35. */
#ifndef CUTAWAY_KERNELS_TILES_H
#define CUTAWAY_KERNELS_TILES_H

#include "kernels/isa.h"

enum {
	K_TILE_GROUP = 4,	 /* tiles that one call multiplies, at most */
	K_TILE_MAX_ROWS = 8, /* rows of activations likewise, at most */
	K_TILE_MAX_LANES = 16,
};

/* One call: y[r][i] = product of row i of the tiles and activations r, 0 <= r < n. */
struct k_tile_call {
	const uint8_t *tile; /* [n_tiles] of tile_bytes */
	size_t tile_bytes;
	int32_t n_tiles, n_cols, n;
	int32_t dim; /* stride of the activations; n_cols is not larger */
	const float *x;
	const int8_t *q;
	const float *d, *sx;
	const int16_t *sum_q; /* [n, dim / 16] sums of 16 of q */
	float *y;			  /* [n][K_TILE_GROUP * lanes] */
};

typedef void k_tile_fn(const struct k_tile_call *call);

struct k_tiling {
	int32_t lanes, max_rows;
	uint8_t flip_q8; /* xor of Q8_0's codes: 0x80 where the unit multiplies signed bytes */
	k_tile_fn *fn[K_N_TYPES];
};

/* Bytes a row. Scales fill whole vectors: Q6_K's f16 comes twice for that. */
struct k_layout {
	int32_t chunk; /* blocks of 32 columns whose scales come together */
	int32_t head;  /* scales of a chunk */
	int32_t high;  /* of a block: bits above the fourth */
	int32_t quants;
};
static inline struct k_layout k_layout_of(enum k_type type)
{
	switch (type) {
	case K_Q4_1:
		return (struct k_layout){1, 4, 0, 16};
	case K_Q5_0:
		return (struct k_layout){2, 4, 4, 16};
	case K_Q5_1:
		return (struct k_layout){1, 4, 4, 16};
	case K_Q8_0:
		return (struct k_layout){2, 4, 0, 32};
	case K_Q4_K:
		return (struct k_layout){8, 16, 0, 16};
	case K_Q5_K:
		return (struct k_layout){8, 16, 4, 16};
	case K_Q6_K:
		return (struct k_layout){8, 20, 8, 16};
	default: /* Q4_0, IQ4_NL */
		return (struct k_layout){2, 4, 0, 16};
	}
}
size_t k_tile_bytes(enum k_type type, int32_t lanes, int32_t n_cols);
/* Rows [first, first + n), first a multiple of the lanes; raw has these alone. */
void k_tiles_pack(const struct k_tiling *t, struct k_matrix *m, const void *raw, int32_t first,
				  int32_t n);
void k_tiles_embed(const struct k_tiling *t, const struct k_embed *a, int tid, int n_threads);
void k_tiles_matmul(const struct k_tiling *t, struct k_op *op, int n_threads, void *scratch);

#endif

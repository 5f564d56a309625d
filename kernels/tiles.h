/* Weights in tiles, so that a vector's lane is an output row and each lane follows the reference's
 * order of sums. Shared by the instruction sets; inside kernels/ only.
 *
 * A tile is `lanes` rows and starts at a multiple of 64 bytes; rows beyond the last are zeros.
 * Quantised formats, chunk by chunk of one block of 32 columns (of two, if the format has a scale
 * but no minimum): the rows' scales of each block as f16 [lanes], then minima [lanes]; then for
 * each block and each quad of columns the rows' four weights next to one another, [8
 * quads][lanes][4]; 4-bit formats hold quad j in the low and quad j + 4 in the high halves,
 * [4][lanes][4]. Float formats: [column][lanes].
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
	const int32_t *sum_q; /* [n, dim / 32] sums of q */
	float *y;			  /* [n][K_TILE_GROUP * lanes] */
};

typedef void k_tile_fn(const struct k_tile_call *call);

struct k_tiling {
	int32_t lanes, max_rows;
	uint8_t flip_q8; /* xor of Q8_0's weights: 0x80 where the unit multiplies unsigned by signed */
	k_tile_fn *fn[K_N_TYPES];
};

/* Blocks of a chunk: scales fill whole vectors. */
static inline int32_t k_chunk_blocks(enum k_type type)
{
	return type == K_Q4_1 ? 1 : 2;
}
size_t k_tile_bytes(enum k_type type, int32_t lanes, int32_t n_cols);
void k_tiles_pack(const struct k_tiling *t, struct k_matrix *m, const void *raw, int tid,
				  int n_threads);
void k_tiles_embed(const struct k_tiling *t, const struct k_embed *a, int tid, int n_threads);
void k_tiles_matmul(const struct k_tiling *t, struct k_op *op, int n_threads, void *scratch);

#endif

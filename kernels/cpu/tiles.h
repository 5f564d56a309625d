/* Weights in tiles, so that a vector's lane is an output row and each lane follows the reference's
 * order of sums. Shared by the instruction sets; private to kernels/.
 *
 * A tile is `lanes` rows and starts at a multiple of 64 bytes; rows beyond the last are zeros.
 * Float formats: [column][lanes]. Quantised formats, chunk by chunk, a chunk being as many blocks
 * of 32 columns as have their scales together (struct k_layout):
 * - scales of each block of the file, as the file has them, field by field: f16 (or a byte)
 * [lanes], then minima [lanes]; of blocks of 256 then words of packed sub-scales [lanes];
 * - then for each block of 32 columns: bits above the low 4 (or 2) as words [lanes]; and the low
 * ones, the rows' four of each quad of columns next to one another, [8 quads][lanes][4]; four bits
 * a weight hold quad j in the low and quad j + 4 in the high halves, [4][lanes][4]; of two, the
 * first word has quads 0 to 3 and the second 4 to 7, column 4j + c at bit 2 (j % 4) of byte c; of
 * one, byte c of a word has that of column 4j + c at bit j. Those above lie so, too.
 *
 * Pairs (struct k_matrix), block by block of 32 columns: words of places [lanes], of value j two
 * bits at bit 2j, which of its four columns it is of; then the values, as the file has them,
 * [16][lanes], 2i and 2i + 1 those kept of columns 4i to 4i + 3, +0 where there are fewer.
 *
 * This gives one sequential stream of addresses, and vectors that cross no cache line. With the
 * scales apart at the head of a tile a core reached 14 GB/s, with them inline 34 of 35. */
#pragma once

#include "kernels/format/formats.h"
#include "kernels/cpu/isa.h"

enum {
	K_TILE_GROUP = 4,    /* tiles that one call multiplies, at most */
	K_TILE_MAX_ROWS = 8, /* rows of activations in one call, at most */
	K_TILE_MAX_LANES = 16,
};

/* One call: y[r][i] = product of row i of the tiles and activations r, 0 <= r < n, and what is
 * added to it (rule 3). */
struct k_tile_call {
	const uint8_t *tile; /* [n_tiles] of tile_bytes */
	size_t tile_bytes;
	int32_t n_tiles, n_cols, n;
	bool again; /* other rows just read these tiles, which a cache may hold */
	bool flat;  /* tiles are as unpack() leaves them, and n is the most rows */
	/* of weights in floats */
	int32_t dim; /* stride of the activations; n_cols is not larger */
	bool pairs;
	const float *x;
	const uint64_t *columns; /* of F32: of each 64 the bits of those to read; NULL: all */
	/* of quantised ones: [n_cols / 32 or more][n] what prepare() made of each block of a row */
	const int32_t *acts;
	const float *bias, *residual; /* [n_tiles * lanes], and as y; or NULL */
	float *y;                     /* [n] rows of n_tiles * lanes, y_dim apart */
	int32_t y_dim;
};

typedef void k_tile_fn(const struct k_tile_call *call);

struct k_tiling {
	int32_t lanes, max_rows;
	uint8_t flip_q8; /* xor of Q8_0's codes: 0x80 where the unit multiplies signed bytes */
	k_tile_fn *fn[K_N_TYPES];
	/* Columns from … to - 1 (multiples of 32) of a tile of quantised weights as one of F32, [to -
	 * from][lanes]; but for blocks that have no bit in `columns`, unless it is NULL. */
	void (*decode[K_N_TYPES])(
		const uint8_t *tile, int32_t from, int32_t to, const uint64_t *columns, float *out);
	/* Rows [first, first + n) of activations as tiles read them: one stream of addresses, the rows
	 * of a block of 32 columns next to one another, in `words` words of 32 bits each: its scale,
	 * what sums of products start from, and its integers. */
	int32_t (*words)(enum k_type type);
	/* A tile for many rows: of each block the codes that are multiplied, a byte each, and its
	 * scales as they are used. Bytes; 0: what is packed is as good. next: bytes to the tile to
	 * fetch. */
	size_t (*flat_bytes)(enum k_type type, int32_t n_cols);
	void (*unpack[K_N_TYPES])(const uint8_t *tile, int32_t n_cols, size_t next, uint8_t *out);
	void (*prepare[K_N_TYPES])(const struct k_acts *in, int32_t first, int32_t n, int32_t *out);
};

/* Bytes a row. */
struct k_layout {
	int32_t chunk; /* blocks of 32 columns whose scales are stored together: a vector of words at
					  least */
	int32_t head;  /* scales of a chunk */
	int32_t high;  /* of a block: bits above the low ones */
	int32_t quants;
};
K_FACT struct k_layout k_layout_of(enum k_type type)
{
	const int32_t t = type, subs = 4 * k_sub_words(t);

	return (struct k_layout){ .chunk = subs ? 8 : 4 / k_entry_bytes(t),
		.head = 4 + subs,
		.high = 4 * k_high_bits(t),
		.quants = 4 * k_low_bits(t) };
}
size_t k_tile_bytes(enum k_type type, int32_t lanes, int32_t n_cols);
/* The same of pairs, the filling of such tiles, and reading them: columns from … to - 1 of a lane,
 * multiples of 32, to out, `stride` apart. */
size_t k_pairs_tile_bytes(const struct k_matrix *m, int32_t lanes);
void k_pairs_pack(
	const struct k_matrix *m, int32_t lanes, const void *raw, int32_t first, int32_t n);
struct k_pairs_part {
	int32_t from, to, stride;
};
void k_pairs_read(const struct k_matrix *m, int32_t lanes, uint8_t *tile, int32_t lane,
	struct k_pairs_part part, float *out);
/* Of either kind. */
static inline size_t k_tile_bytes_of(const struct k_tiling *t, const struct k_matrix *w)
{
	return w->pairs ? k_pairs_tile_bytes(w, t->lanes) : k_tile_bytes(w->type, t->lanes, w->n_cols);
}

/* Rows [first, first + n), first a multiple of the lanes; raw has only these. */
void k_tiles_pack(
	const struct k_tiling *t, struct k_matrix *m, const void *raw, int32_t first, int32_t n);
void k_tiles_embed(const struct k_tiling *t, const struct k_embed *a, int tid, int n_threads);
void k_tiles_matmul(
	const struct k_tiling *t, struct k_op *op, int tid, int n_threads, void *scratch);

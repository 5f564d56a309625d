/* How attention is split over blocks: the host makes it for each step, with the step's inputs, and
 * every block reads its part. For C and CUDA alike. Private to kernels/cuda/.
 *
 * A tile is a few neighbouring rows of one sequence; under one kv head its queries, the rows times
 * the heads that share the kv head, read the same keys and values. Its spans are those that its
 * hull touches (visible.h), numbered from 0. If the scratch has room for the result of every span
 * that any row sees, a unit of work is one span of one tile under one kv head, and the block that
 * finishes the tile's last span merges them; else a unit is a tile with all its spans. The split
 * decides which block does what and where partial results are, never a bit of the result. */
#pragma once

#include "kernels/cuda/stage.h"
#include "kernels/visible.h"

enum {
	/* queries of a tile; more if 8 rows have more, so that a fold's rows are one tile */
	CU_TILE_QUERIES = 64,
	CU_RECORD_HEAD = 4, /* floats in front of a record's values: maximum, sum, two unused */
	CU_FIRST_TILES = 8, /* that are found in one trip to memory, not two */
};

/* In words of 16 bytes, as the device loads them. */
struct __attribute__((aligned(16))) cu_tile_head {
	int32_t row, n_rows;
	int32_t span, n_tokens; /* the unit's first; its tokens up to the last in the hull */
	int32_t few;            /* attention_few.cuh takes it */
	int32_t split;          /* results go to records */
	int32_t direct;         /* it has one span, and its block finishes it */
	int32_t head_bytes;     /* of a kv head's keys or values in a page */
	int32_t n_spans;        /* of the tile */
	int32_t lo, hi;         /* the unit's, by number */
	int32_t n_tiles;        /* of the step */
	struct k_hull seen;     /* by the tile's rows */
};
struct cu_tile_row {
	/* number: of the span among those that it sees; record: among those of all rows */
	int32_t pos, observe, number, record;
	struct k_bits bits; /* the positions of the span that it sees */
};
struct cu_tile {
	struct cu_tile_head head;
	struct k_bits any; /* as a row's, of all rows */
	/* its groups of 16: where their keys would be if head and layer were the first; NULL: absent,
	 * and not seen */
	const uint8_t *group[K_SPAN_GROUPS];
	struct cu_tile_row row[CU_FOLD_ROWS]; /* the first */
};

/* On the device. */
struct cu_tiles {
	const struct cu_tile *tile; /* [n] */
	const int32_t *record;      /* [rows] spans of the rows before each */
	int32_t n;
	int32_t split;   /* a unit is a span */
	int32_t kernels; /* CU_ATTEND_*: that have tiles */
	struct k_kv kv;
	struct cu_tile first[CU_FIRST_TILES]; /* copies; zeros after the last */
};

/* What it is made from: pointers of the host. */
struct cu_masks {
	const struct k_row *rows;
	const struct k_range *ranges; /* [n, n_ranges] */
	const int32_t *const *pages;
	const struct k_kv *kv;
	int32_t n, n_ranges, n_heads;
	bool all_heads; /* a unit that is a tile has all kv heads: a block of 32 outputs crosses heads
					 */
	bool observed;
	bool whole; /* all spans of a tile in one block (K_ATTEND_HEADS) */
};

/* The sights of an op, whose pointers the host can read. */
struct cu_masks cu_masks_of(const struct k_attention *a);

/* The argument of the op's kernels, but for clock, tiles, ticket and scratch. a and rope (folded in
 * front, or NULL) have the device's pointers. */
struct cu_attention cu_attention_of(
	const struct cu_masks *s, const struct k_attention *a, const struct k_rope *rope);

/* The kernels that an op needs: of tiles with few queries, of others. */
enum {
	CU_ATTEND_FEW = 1,
	CU_ATTEND_MANY = 2,
	CU_FEW_QUERIES = 16,
	CU_FEW_BYTES = 256,
	CU_FEW_DIMS = 128
};
int cu_attend_kernels(const struct cu_masks *s);

/* Scratch for the results of all spans that any row sees. An op of few queries alone must have it:
 * it has no kernel for tiles that are not split. */
uint64_t cu_tiles_bytes(const struct cu_masks *s);
/* Whether units are spans, given what is there; there are at most *most. */
bool cu_tiles_split(const struct cu_masks *s, const struct cu_work *work, int32_t *most);
/* Writes the tiles, and all of `to` but where they are and whether it is split, which is set.
 * tile: [most]; record: [n] */
void cu_tiles_make(
	const struct cu_masks *s, struct cu_tiles *to, struct cu_tile *tile, int32_t *record);

/* Floats of a record: of one row, span and head. At CU_RECORD_HEAD the values [head_dim]; if the op
 * is observed, the sums of the groups [8] and the probabilities [128]. */
K_INLINE int32_t cu_record_floats(int32_t head_dim, bool observed)
{
	return CU_RECORD_HEAD + head_dim + (observed ? K_SPAN_GROUPS + K_SPAN : 0);
}

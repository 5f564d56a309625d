/* How a product is cut into units: computed on the host when a step is lowered, since it takes
 * divisions, and given to the kernels with the rest of their argument. Any plan gives the same
 * bits.
 *
 * Two ways. Few rows (matmul_few.cuh): a unit is up to 8 tiles of 16 outputs by up to 8 rows of
 * activations, and the columns are split over the 8 warps of a block. Wide, for many rows
 * (matmul_wide.cuh): a unit is tiles by rows, 8 warps in a grid of tiles and rows, each over all
 * columns. Private to kernels/cuda/. */
#pragma once

#include "kernels/cuda/layout.h"
#include "kernels/cuda/stage.h"

enum {
	CU_TURN = 5, /* pairs of blocks of a warp in a turn, at most; few rows */
	CU_JOIN_FLOATS = 2 * CU_JOIN_ROWS * 32,
	CU_WIDE_ROWS = 64,     /* rows of a wide unit, at most */
	CU_FLOAT_ROWS = 16,    /* always for float weights; one warp for each tile */
	CU_PRODUCT_BLOCKS = 2, /* on a multiprocessor: their registers allow that */
	CU_NEXT_LINES = 8192,  /* that a product asks for of each matrix of the next, at most */
	CU_AHEAD_LINES = 98304 /* that attention asks for: 12.6 MB, what memory gives in its time */
};

/* The kernels of products, for each format. */
#define CU_WAYS(X)                                                                                 \
	X(one)                                                                                         \
	X(few)                                                                                         \
	X(wide2)                                                                                       \
	X(wide8)
enum cu_way {
#define X(name) CU_##name,
	CU_WAYS(X)
#undef X
		CU_N_WAYS
};

/* Cuts a product into units and fills the plan of p, whose other members are set, for a device of
 * so many multiprocessors: the way, and the blocks that it can keep busy. */
enum cu_way cu_plan(struct cu_product *p, enum k_type type, int32_t n_processors, int32_t *blocks);
/* The same with a plan of the caller's: log2 of the tiles of a unit. */
void cu_plan_as(struct cu_product *p, enum k_type type, enum cu_way way, int32_t log_tiles);

/* A call for the device: a kernel with its argument. */
struct cu_call {
	enum k_kind kind; /* of the op; a product, and the experts of a mixture, name a way and a type
					   */
	enum cu_way way;
	enum k_type type;
	bool many;    /* of attention: the tiles with many queries */
	bool defined; /* likewise: by its definition */
	int32_t blocks, shared_bytes;
	union {
		uint64_t *clock;
		struct cu_stage stage;
		struct cu_attention attention;
		struct cu_product product;
	} arg;
};

/* The parts of a product from `part` on that have its format; returns the end of the run. `before`
 * and `after` may be NULL; matrices are the host's, with the device's data. */
int32_t cu_product_run(const struct k_matmul *a, int32_t part, const struct k_norm *before,
	const struct k_glu *after, struct cu_product *p);
/* The experts of a mixture: w are the host's matrices, on_device their copies. */
void cu_product_experts(
	const struct k_experts *a, const struct k_matrix *on_device, struct cu_product *p);

/* The weights of a product: what the one before it may ask for; and attention, after what it
 * already asks for. */
void cu_plan_next(struct cu_product *p, const struct cu_product *next, enum k_type type);
void cu_plan_ahead(struct cu_attention *a, const struct cu_product *later, enum k_type type);

/* Dynamic shared memory of a block of an op that is no product. */
int32_t cu_op_shared(enum k_kind kind);
/* Blocks that such an op can keep busy, at most `most`. */
int32_t cu_op_blocks(const struct k_op *op, int32_t most);

/* How matrix products and small ops are split over blocks: computed on the host when a step is
 * lowered, since it takes divisions, and read by the kernels. Any plan gives the same bits.
 *
 * Two ways (matmul.cuh). Split, for few rows: a unit is up to 8 tiles of 16 outputs by 8 rows of
 * activations, and the columns are split over the 8 warps of a block. Wide, for many rows: a unit
 * is tiles by rows, 8 warps in a grid of tiles and rows, each over all columns. Private to
 * kernels/cuda/. */
#ifndef CUTAWAY_KERNELS_CUDA_PLAN_H
#define CUTAWAY_KERNELS_CUDA_PLAN_H

#include "kernels/cuda/layout.h"

/* A plan is log2 of the tiles of a unit, plus 16 times the groups of 8 rows that a warp multiplies:
 * 0 groups is split. So 0 is a plan: split, one tile a unit. */
K_INLINE int32_t cu_plan_log_tiles(int32_t plan)
{
	return plan & 15;
}
K_INLINE int32_t cu_plan_groups(int32_t plan)
{
	return plan >> 4;
}
enum {
	CU_WIDE_ROWS = 64, /* rows of a wide unit, at most */
	CU_FLOAT_ROWS = 16 /* always for float weights; one warp for each tile */
};

/* `a` has the host's pointers (the shapes of its matrices are read); n_blocks will run. */
int32_t cu_matmul_plan(const struct k_matmul *a, int32_t n_blocks);
/* Blocks that embed, norm, matmul or glu can keep busy. */
int32_t cu_op_units(const struct k_op *op, int32_t plan);

#endif

/* act(gate) * up, then rounded to 8 bits (docs/arithmetic.md, 8 and 4): one warp for each block of
 * 32. */
#pragma once

#include "kernels/cuda/norm.cuh"

/* Blocks of 32 first, first + step, … of all rows, one row's after the other's. */
CU_FN void cu_glu_blocks(
	const struct k_glu *a, const struct k_acts *out, int32_t first, int32_t step, int32_t lane)
{
	const int32_t dim = a->out.dim, in_row = k_pieces(dim, 32);
	int32_t row = first / in_row, block = first % in_row;

	while (row < a->n) {
		const size_t i = k_index(row, dim, block * 32 + lane);
		const bool in = block * 32 + lane < dim;

		cu_put(out, row, block * 32, lane, in ? k_gate(a->act, a->gate[i], a->up[i]) : 0.0f);
		for (block += step; block >= in_row; block -= in_row)
			row++;
	}
}

static __device__ void cu_glu(const struct cu_part *p)
{
	cu_glu_blocks(&p->stage->op.u.glu, &p->stage->op.u.glu.out,
		p->block * CU_WARPS + cu_thread() / CU_WARP, p->n_blocks * CU_WARPS, cu_thread() % CU_WARP);
}

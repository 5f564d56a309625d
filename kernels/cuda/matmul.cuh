/* Matrix products: chooses between the two ways, and prefetches weights before a barrier. */
#ifndef CUTAWAY_KERNELS_CUDA_MATMUL_CUH
#define CUTAWAY_KERNELS_CUDA_MATMUL_CUH

#include "kernels/cuda/matmul_split.cuh"
#include "kernels/cuda/matmul_wide.cuh"

CU_FN int32_t cu_same_format(const struct k_matmul *a, int32_t part)
{
	int32_t end = part + 1;

	while (end < a->n_parts && a->part[end].w->type == a->part[part].w->type)
		end++;
	return end;
}

/* Prefetches the first lines of the block's first unit to the L2 cache: 32 KB, about what one turn
 * of all its warps reads. That also caches the stage's description. */
static __device__ void cu_matmul_prefetch(const struct cu_part *p)
{
	const struct k_matmul *a = &p->stage->op.u.matmul;
	const int32_t log_tiles = cu_plan_log_tiles(p->stage->plan);
	int32_t unit = p->block;

	for (int32_t part = 0; part < a->n_parts; part++) {
		const struct k_matrix *w = a->part[part].w;
		const int32_t units = (cu_tiles(w->n_rows) + (1 << log_tiles) - 1) >> log_tiles;
		const size_t tile_bytes = cu_tile_bytes((int32_t)w->type, w->n_cols);
		const size_t first =
			((size_t)unit << log_tiles) * tile_bytes + (size_t)cu_thread() * CU_LINE;

		if (unit < units) {
			if (first < ((size_t)(unit + 1) << log_tiles) * tile_bytes &&
				first < (size_t)cu_tiles(w->n_rows) * tile_bytes)
				cu_prefetch((const unsigned char *)w->data + first);
			return;
		}
		unit -= units;
	}
}

/* Called by address: an indirect call keeps ptxas from allocating the registers of all formats
 * together, which it does badly (it spilled 300 where a format alone spills none). */
typedef int32_t cu_run_fn(
	const struct cu_stage *stage, int32_t n_blocks, int32_t part, int32_t parts_end, int32_t unit);
static __device__ cu_run_fn *cu_runs[2][K_N_TYPES] = {
#define X(name, ...) cu_split_##name,
	{ K_TYPES(X) },
#undef X
#define X(name, ...) cu_wide_##name,
	{ K_TYPES(X) },
#undef X
};

CU_FN cu_run_fn *cu_run_of(const struct cu_stage *stage, int32_t type)
{
	return cu_runs[cu_plan_groups(stage->plan) && !stage->folds][type];
}

/* Parts of one format are walked as one list of units; the next format continues the count of
 * units, so that blocks are kept equally busy. */
static __device__ void cu_matmul(const struct cu_part *p)
{
	const struct k_matmul *a = &p->stage->op.u.matmul;
	int32_t unit = p->block, end;

	if (p->stage->folds) {
		if (!p->prefetched)
			cu_matmul_prefetch(p);
		cu_fold(p->stage, cu_is_float((int32_t)a->part[0].w->type));
	}
	for (int32_t part = 0; part < a->n_parts; part = end) {
		end = cu_same_format(a, part);
		unit = cu_run_of(p->stage, (int32_t)a->part[part].w->type)(
			p->stage, p->n_blocks, part, end, unit);
	}
}

#endif

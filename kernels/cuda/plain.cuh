/* Ops that run their definition (kernels/op/ops.h), one thread for each unit; and the experts of a
 * mixture: the product of matmul_split.cuh for one row after the other, since only the device knows
 * which expert a row has. */
#ifndef CUTAWAY_KERNELS_CUDA_PLAIN_CUH
#define CUTAWAY_KERNELS_CUDA_PLAIN_CUH

#include "kernels/cuda/matmul.cuh"

#define X(name, NAME)                                                                              \
	static __device__ void cu_##name(const struct cu_part *p)                                      \
	{                                                                                              \
		const struct k_##name *a = &p->stage->op.u.name;                                           \
		const int64_t n = k_##name##_units(a);                                                     \
                                                                                                   \
		for (int64_t unit = p->block * CU_THREADS + cu_thread(); unit < n;                         \
			 unit += (int64_t)p->n_blocks * CU_THREADS)                                            \
			k_##name##_unit(a, unit);                                                              \
	}
X(columns, COLUMNS)
K_PLAIN_ALONE(X)
#undef X

/* The product of a slot, in shared memory: one thread writes it, all threads of the block read
 * it. */
enum { CU_SLOT_AT = CU_SPLIT_AT - 2048 };
static_assert(sizeof(struct cu_stage) <= 2048 && 2 * CU_WARPS * CU_REGION * 4 <= CU_SLOT_AT,
	"sums end below");

/* Sets all that a product reads of its stage. Run by one thread. */
CU_FN void cu_slot_open(const struct k_experts *a, int32_t slot, struct cu_stage *one)
{
	struct k_matmul *m = &one->op.u.matmul;

	one->plan = one->folds = 0;
	m->n_parts = m->n = 1;
	m->in = k_acts_row(&a->in, a->each ? slot : slot / a->k);
	m->part[0].w = a->w + a->ids[slot];
	m->part[0].bias =
		a->bias ? a->bias + (size_t)a->ids[slot] * (size_t)m->part[0].w->n_rows : (const float *)0;
	m->part[0].residual = (const float *)0;
	m->part[0].out = a->out + (size_t)slot * (size_t)m->part[0].w->n_rows;
}

static __device__ void cu_experts(const struct cu_part *p)
{
	const struct k_experts *a = &p->stage->op.u.experts;
	struct cu_stage *one = (struct cu_stage *)(void *)(cu_shared_memory() + CU_SLOT_AT);

	for (int32_t slot = 0; slot < a->n * a->k; slot++) {
		if (cu_thread() == 0)
			cu_slot_open(a, slot, one);
		CU_SYNC(); /* the slot's product is written */
		cu_run_of(one, (int32_t)one->op.u.matmul.part[0].w->type)(one, p->n_blocks, 0, 1, p->block);
		CU_SYNC(); /* and may be replaced */
	}
}

#endif

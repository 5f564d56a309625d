/* Ops that are their definition (kernels/op/ops.h): a thread a unit. And the experts of a mixture: the product of
 * matmul_split.cuh for one row after the other, since which expert a row has is known only here. */
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
K_PLAIN_KINDS(X)
#undef X

static __device__ void cu_experts(const struct cu_part *p)
{
	const struct k_experts *a = &p->stage->op.u.experts;
	struct cu_stage one;

	memset(&one, 0, sizeof one);
	one.op.kind = K_OP_matmul;
	one.op.u.matmul.n_parts = one.op.u.matmul.n = 1;
	for (int32_t slot = 0; slot < a->n * a->k; slot++) {
		const struct k_matrix *w = a->w + a->ids[slot];

		one.op.u.matmul.in = k_acts_row(&a->in, a->each ? slot : slot / a->k);
		one.op.u.matmul.part[0].w = w;
		one.op.u.matmul.part[0].out = a->out + (size_t)slot * (size_t)w->n_rows;
		cu_run_of(&one, (int32_t)w->type)(&one, p->n_blocks, 0, 1, p->block);
		CU_SYNC(); /* shared memory is the next slot's */
	}
}

#endif

/* The entry points of the GPU: one kernel for each op, launched alone or in a graph, and the
 * persistent one that walks a step. All are launched with CU_THREADS threads a block and
 * CU_LAUNCH_BYTES of shared memory; of a step at most two blocks a multiprocessor run at once.
 *
 * Stages pass data through global memory; the driver orders it between launches, the grid barrier
 * in the walk. Invariant of its word: a barrier adds 2^31 to it in all, so its top bit flips when
 * the last block has arrived, and it needs no reset (as in CUDA's cooperative groups). */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/embed.cuh"
#include "kernels/cuda/matmul.cuh"
#include "kernels/cuda/measure.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/plain.cuh"
#include "kernels/cuda/rope.cuh"
#include "kernels/cuda/sparse.cuh"
#include "kernels/cuda/stats.cuh"
#include "kernels/cuda/glu.cuh"

#define CU_KERNEL extern "C" __global__ void __launch_bounds__(CU_THREADS, 2)

CU_FN struct cu_part open_part(const struct cu_step *step, const struct cu_stage *stage)
{
	unsigned char *shared = cu_shared_memory();
	struct cu_part p = { step, stage, cu_block(), cu_n_blocks(), shared,
		(struct cu_kept *)(shared + CU_SHARED_BYTES), false, false };

	if (cu_thread() == 0)
		p.kept->plan.rows = NULL;
	return p;
}

#define X(name, ...)                                                                               \
	CU_KERNEL cutaway_##name(const struct cu_step *step, int32_t i)                                \
	{                                                                                              \
		const struct cu_part p = open_part(step, &step->stage[i]);                                 \
                                                                                                   \
		cu_##name(&p);                                                                             \
	}
K_KINDS(X)
#undef X

/* ---- the walk ---- */

CU_FN void run_stage(const struct cu_part *p)
{
	switch (p->stage->op.kind) {
#define X(name, ...)                                                                               \
	case K_OP_##name: cu_##name(p); break;
		K_KINDS(X)
#undef X
#define X(name, ...) case K_OP_##name:
		K_HOST_KINDS(X)
#undef X
	case K_N_KINDS: break;
	}
}

CU_FN void prefetch_stage(struct cu_part *p)
{
	p->prefetched = false;
	if (p->stage->op.kind == K_OP_matmul)
		cu_matmul_prefetch(p);
	if (p->stage->op.kind != K_OP_attention)
		return;
	cu_attention_prefetch(p);
	p->prefetched = true;
}

/* The block arrives at the barrier; blocks that leave it see what it wrote. Returns, in thread 0,
 * the argument of barrier_leave(). */
CU_FN uint32_t barrier_arrive(const struct cu_part *p)
{
	const uint32_t by = p->block ? 1 : 0x80000000u - (uint32_t)(p->n_blocks - 1);

	CU_SYNC();
	return cu_thread() == 0 ? cu_arrive(p->step->barrier, by) : 0;
}

CU_FN void barrier_leave(const struct cu_part *p, uint32_t came)
{
	if (cu_thread() == 0)
		while (!((cu_acquire(p->step->barrier) ^ came) & 0x80000000u))
			cu_relax();
	CU_SYNC();
}

/* Copies to shared memory: after a barrier a read of global memory takes long. */
CU_FN void keep(void *to, const void *from, size_t bytes)
{
	for (size_t i = (size_t)cu_thread(); i < bytes / 4; i += CU_THREADS)
		((uint32_t *)to)[i] = ((const uint32_t *)from)[i];
}

CU_FN void note_time(const struct cu_part *p, int32_t i)
{
	if (p->step->clock && p->block == 0 && cu_thread() == 0)
		p->step->clock[i] = cu_now();
}

CU_KERNEL cutaway_walk(const struct cu_step *step)
{
	struct cu_part p = open_part(step, NULL);
	struct cu_kept *kept = p.kept;

	p.walks = true;
	keep(&kept->step, step, sizeof *step);
	keep(&kept->stage[0], step->stage, sizeof *step->stage);
	p.step = &kept->step;
	p.stage = &kept->stage[0];
	CU_SYNC();
	note_time(&p, 0);
	for (int32_t i = 0; i < p.step->n_stages; i++) {
		const bool more = i + 1 < p.step->n_stages;
		uint32_t came;

		run_stage(&p);
		if (more)
			keep(&kept->stage[(i + 1) % 2], &p.step->stage[i + 1], sizeof *p.stage);
		came = barrier_arrive(&p);
		if (p.stage->op.kind == K_OP_attention)
			cu_attention_after(&p);
		p.stage = &kept->stage[(i + 1) % 2];
		if (more)
			prefetch_stage(&p);
		if (more || p.step->clock) /* the end of the kernel is a barrier too */
			barrier_leave(&p, came);
		note_time(&p, i + 1);
	}
}

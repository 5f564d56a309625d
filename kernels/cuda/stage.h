/* A step as the GPU runs it: stages, made from the ops of a k_program by lower.c, read by the
 * kernels. Included by C and CUDA alike. Private to kernels/cuda/.
 *
 * A stage is the work of all blocks between two grid barriers: one op, and perhaps a small op
 * folded into its front, whose result each block computes for itself in shared memory because that
 * costs less than another barrier. All pointers are the device's.
 *
 * The same stages run in three ways, with equal bits, since no body depends on how many blocks
 * there are: a launch each; the launches recorded in a graph; one persistent kernel that walks
 * them. */
#ifndef CUTAWAY_KERNELS_CUDA_STAGE_H
#define CUTAWAY_KERNELS_CUDA_STAGE_H

#include "kernels/kernels.h"

enum {
	CU_SHARED_BYTES = 96 << 10, /* dynamic shared memory of a block for the body of a stage */
	CU_KEPT_BYTES = 4 << 10, /* … and after it, for data that a block keeps from stage to stage */
	CU_LAUNCH_BYTES = CU_SHARED_BYTES + CU_KEPT_BYTES, /* dynamic shared memory of every launch */
	CU_MAX_HEAD_DIM = 512,                             /* of an attention op; a multiple of 4 */
	CU_FOLD_ROWS = 8,                                  /* steps of at most so many rows fold */
	/* and of at most so many values: every block repeats the small op, on its 8 warps, two blocks a
	 * multiprocessor. A norm takes about 12 instructions a value, SwiGLU 40 (exp and a division):
	 * counted in issue slots that is 6,144 * 12 / 32 / 4 * 2 = 1,200 cycles and 3,072 * 40 / 32 / 4
	 * * 2 = 1,900, about what a grid barrier and a trip to memory cost. */
	CU_FOLD_NORM = 6144,
	CU_FOLD_GLU = 3072,
};

struct cu_stage {
	struct k_op op;
	struct k_op before; /* folded in front, if folds */
	int32_t folds;
	int32_t n_parts; /* work units the op can be cut into: more blocks than that are idle */
	int32_t plan;    /* of a matrix product: cu_matmul_plan(); any plan gives the same bits */
	/* an op that needs a barrier within it is cu_n_phases() stages: 0, 1, … */
	int32_t phase;
};

/* Statistics need a row's maximum before the exponentials. */
static inline int32_t cu_n_phases(const struct k_op *op)
{
	return op->kind == K_OP_stats ? 2 : 1;
}

struct cu_step {
	const struct cu_stage *stage; /* [n_stages] */
	int32_t n_stages;
	uint32_t *barrier; /* [2] of the grid barrier; [0] is any multiple of 2^31 between steps */
	/* [n_stages + 1] cu_now() at the start and after each stage; NULL: not timed */
	uint64_t *clock;
	/* [n_tickets] zero at the start of a stage that uses them, and at its end */
	uint32_t *ticket;
	int32_t n_tickets;
	unsigned char *scratch; /* of the blocks together, for partial results of one stage */
	uint64_t scratch_bytes;
};

/* Tickets that a stage of op may use; op still has the host's pointers. */
static inline int64_t cu_tickets(const struct k_op *op)
{
	if (op->kind == K_OP_attention)
		return (int64_t)op->u.attention.n * (op->u.attention.kv->n_kv_heads + 1);
	return op->kind == K_OP_stats ? op->u.stats.n : 0;
}

/* Bytes of scratch that a stage of op must have. Attention uses all beyond that: with 64 MB each
 * span of any usual step gets a block of its own; with less, a block does them one by one. */
enum { CU_STATS_IDS = 1024, CU_STATS_BYTES = 40, CU_DRAW_BYTES = 80 };
static inline uint64_t cu_scratch_least(const struct k_op *op)
{
	const struct k_stats *a = &op->u.stats;

	if (op->kind != K_OP_stats)
		return 0;
	return (uint64_t)a->n * (uint64_t)((a->vocab + CU_STATS_IDS - 1) / CU_STATS_IDS) *
		   (CU_STATS_BYTES + (a->ask ? CU_DRAW_BYTES : 0));
}

/* Whether `before` can be folded into the front of `op`: only if no other op reads what it writes,
 * which holds for neighbours in the programs of engine/run/forward.c. RoPE in front of attention:
 * the block that has the span of a new key rotates and stores it; there is one such block if the
 * rows of a sequence are neighbours, as engine/run/forward.h has them, and are so few that no tile
 * of rows ends among them. The rotated queries then stay in shared memory. */
static inline bool cu_folds(const struct k_op *before, const struct k_op *op)
{
	const int32_t n = op->kind == K_OP_attention ? op->u.attention.n : op->u.matmul.n;

	if ((op->kind != K_OP_matmul && op->kind != K_OP_attention) || n > CU_FOLD_ROWS)
		return false;
	if (op->kind == K_OP_attention)
		return before->kind == K_OP_rope && before->u.rope.n == n && !before->u.rope.n_also;
	for (int32_t i = 1; i < op->u.matmul.n_parts; i++) /* a fold writes floats or 8 bits, not both
														*/
		if ((k_types[op->u.matmul.part[i].w->type].block == 1) !=
			(k_types[op->u.matmul.part[0].w->type].block == 1))
			return false;
	if (before->kind == K_OP_norm)
		return before->u.norm.n == n && !before->u.norm.kept && !before->u.norm.residual &&
			   (int64_t)n * before->u.norm.out.dim <= CU_FOLD_NORM;
	if (before->kind == K_OP_glu)
		return before->u.glu.n == n && (int64_t)n * before->u.glu.out.dim <= CU_FOLD_GLU;
	return false;
}

#endif

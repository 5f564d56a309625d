/* What the kernels of a step are given, for C and CUDA alike. Private to kernels/cuda/.
 *
 * A program's ops become *calls*, each a kernel with its grid and its argument, which is passed by
 * value and so lies in constant memory: no kernel reads a description of its work from global
 * memory first. The calls of a program are recorded once, as a CUDA graph. A call is one op; or a
 * run of a product's parts of one format; or a product with the small op in front of it, whose
 * result each block computes for itself in shared memory because that costs less than a node of the
 * graph, and with the SwiGLU that follows it. All pointers are the device's, except where said.
 *
 * No body depends on how many blocks there are. */
#pragma once

#include "kernels/kernels.h"

enum {
	CU_SHARED_BYTES = 96 << 10, /* dynamic shared memory of a block, at most */
	CU_STATS_SHARED = 62 << 10, /* of statistics: three blocks a multiprocessor */
	CU_GROUP = 8,               /* rows of activations of one tensor-core product */
	CU_FOLD_ROWS = CU_GROUP,    /* steps of at most so many rows fold */
	/* and of at most so many values: every block repeats the norm */
	CU_FOLD_NORM = 6144,
	CU_JOIN_ROWS = 4, /* products of at most so many rows apply the SwiGLU that follows */
};

/* What the calls of a step share. */
struct cu_work {
	uint32_t *ticket; /* [n_tickets] zero at the start of a call that uses them, and at its end */
	int32_t n_tickets;
	unsigned char *scratch; /* of the blocks together, for partial results of one call */
	uint64_t scratch_bytes;
};

/* An op other than a product and attention. The clock is the first of every argument. */
struct cu_stage {
	uint64_t *clock; /* gets the time at which the kernel begins; or NULL */
	struct k_op op;
	int32_t phase; /* an op that needs a grid's barrier within it is cu_n_phases() calls: 0, 1, … */
	struct cu_work work;
};

/* Lines of weights that a later product reads: asked for while memory is idle. */
struct cu_ahead {
	const unsigned char *at;
	int32_t lines;
};
enum { CU_AHEAD = 4 }; /* matrices that attention asks for */

/* Attention (attend.cuh). What every warp reads first comes first: a kernel finds no line of its
 * constants in a cache, and waits for each that it comes to. What may change from step to step is
 * with the tiles. */
struct cu_attention {
	uint64_t *clock;
	const struct cu_tiles *tiles;       /* how it is split (tiles.h) */
	uint32_t over_kv_heads, over_rep;   /* for cu_over(): by n_kv_heads, by n_rep */
	int32_t n_kv_heads, n_heads, n_rep; /* heads that share a kv head */
	int32_t head_dim, layer, format;    /* of the cache */
	/* log2, rounded up, of the quads of dimensions, of the 16s of bytes of a token, of the 32s of
	 * dimensions */
	int32_t log_quads, log_columns, log_slices;
	int32_t n_ranges;                /* of a row */
	bool folds, observed, all_heads; /* all_heads: blocks of 32 outputs cross heads */
	const float *q;                  /* as in k_attention, from here on */
	const struct k_range *ranges;
	float softcap, threshold;
	const float *sinks;
	float *share;
	int32_t *near_zero;
	int32_t share_stride, n;
	struct k_acts out;
	uint32_t *ticket; /* as in cu_work */
	unsigned char *scratch;
	const struct k_row *rows; /* tiles of few queries have their rows' */
	const int32_t *const *pages;
	struct k_rope rope; /* folded in front, if folds */
	struct cu_ahead ahead[CU_AHEAD];
};

/* x / n without a division, for products x n of less than 2^32: a division of integers is twenty
 * instructions. */
static inline uint32_t cu_reciprocal(int32_t n)
{
	return n > 1 ? (uint32_t)(((uint64_t)1 << 32) / (uint32_t)n + 1) : 0;
}
K_INLINE int32_t cu_over(int32_t x, uint32_t reciprocal)
{
	return reciprocal ? (int32_t)((uint64_t)(uint32_t)x * reciprocal >> 32) : x;
}

/* A product of parts of one format: matmul_few.cuh and matmul_wide.cuh. */
struct cu_product {
	uint64_t *clock;
	struct k_acts in;   /* not read where a norm is folded */
	struct k_norm norm; /* folded in front, if folds; its out is not written */
	struct k_glu glu; /* joins, if it does: part 0 is its gate, part 1 its up, neither is written */
	struct {
		const unsigned char *weights;
		const float *bias, *residual;
		float *out;
		int32_t n_rows, units;
	} part[K_MAX_PARTS];
	int32_t n_parts, n, n_cols;
	bool folds, joins;
	/* Of a mixture: a row is a slot, whose matrix is w[ids[slot]] and whose input is row slot / k,
	 * or with `each` slot itself; else w is NULL. */
	const struct k_matrix *w; /* [n_experts] */
	const int32_t *ids;       /* [n] */
	int32_t k;
	bool each;
	/* the plan (plan.h) */
	int32_t log_tiles;     /* of a unit */
	int32_t units, groups; /* units of a group of rows of activations; groups */
	int32_t rows;          /* of a group, at most */
	/* of few rows: pairs of blocks of a warp in a turn, or 1 of segments; turns of a unit; log2 of
	 * the rows that shared memory has room for; where in it scales and activations of a buffer are,
	 * in floats, the size of a buffer, and, in bytes, the input if it is there, and the end */
	int32_t count, turns, log_rows, scales_at, acts_at, buffer_floats, in_at, shared_bytes;
	/* of one row, by 8 bits: floats from an output's sums to the next one's, and of scales */
	int32_t sums_stride, scales_stride;
	struct cu_ahead next[K_MAX_PARTS]; /* of the product after this one */
};

/* Statistics need a row's maximum before the exponentials. */
static inline int32_t cu_n_phases(const struct k_op *op)
{
	return op->kind == K_OP_stats ? 2 : 1;
}

/* Tickets that an op may use; op has the host's pointers. */
static inline int64_t cu_tickets(const struct k_op *op)
{
	if (op->kind == K_OP_attention)
		return (int64_t)op->u.attention.n * (op->u.attention.kv->n_kv_heads + 1);
	return op->kind == K_OP_stats ? op->u.stats.n : 0;
}

/* Bytes of scratch that an op must have. Attention uses all beyond that: with 64 MB each span of
 * any usual step gets a block of its own; with less, a block does them one by one. */
enum { CU_STATS_IDS = 1024, CU_STATS_BYTES = 128 };
static inline uint64_t cu_scratch_least(const struct k_op *op)
{
	const struct k_stats *a = &op->u.stats;

	if (op->kind != K_OP_stats)
		return 0;
	return (uint64_t)a->n * (uint64_t)(k_pieces(a->vocab, CU_STATS_IDS)) * CU_STATS_BYTES;
}

/* Whether attention has kernels of its own: else a GPU runs its definition (attend.h). */
static inline bool cu_attends_fast(const struct k_attention *a)
{
	return !a->selected && !a->stride_mask && !a->sink_q && !a->recent && !a->bias &&
		   !a->attn_score && !a->relative && !a->ahead && !a->matrix && !a->kv->value_dim &&
		   a->kv->format < K_N_UNCODED;
}

/* Whether `before` can be folded into the front of `op`: only if no other op reads what it writes,
 * which holds for neighbours in the programs of engine/run/forward.c. RoPE in front of attention:
 * the block that has the span of a new key rotates and stores it; there is one such block if the
 * rows of a sequence are neighbours, as engine/run/forward.h has them, and are so few that no tile
 * of rows ends among them. The rotated queries then stay in shared memory. */
static inline bool cu_folds(const struct k_op *before, const struct k_op *op)
{
	if (op->kind == K_OP_attention)
		return op->u.attention.n <= CU_FOLD_ROWS && cu_attends_fast(&op->u.attention) &&
			   before->kind == K_OP_rope && before->u.rope.n == op->u.attention.n &&
			   !before->u.rope.n_also;
	if (op->kind != K_OP_matmul || before->kind != K_OP_norm || op->u.matmul.n > CU_FOLD_ROWS)
		return false;
	for (int32_t i = 1; i < op->u.matmul.n_parts; i++) /* a fold writes floats or 8 bits, not both
														*/
		if ((k_types[op->u.matmul.part[i].w->type].block == 1) !=
			(k_types[op->u.matmul.part[0].w->type].block == 1))
			return false;
	return before->u.norm.n == op->u.matmul.n && !before->u.norm.kept && !before->u.norm.residual &&
		   (int64_t)before->u.norm.n * before->u.norm.out.dim <= CU_FOLD_NORM;
}

/* Whether `after` can be joined to a product: likewise. A block then has 32 rows of both parts. */
static inline bool cu_joins(const struct k_op *op, const struct k_op *after)
{
	const struct k_matmul *a = &op->u.matmul;
	const struct k_glu *glu = &after->u.glu;

	return op->kind == K_OP_matmul && after->kind == K_OP_glu && a->n_parts == 2 &&
		   a->n <= CU_JOIN_ROWS && glu->n == a->n && glu->gate == a->part[0].out &&
		   glu->up == a->part[1].out && a->part[0].w->type == a->part[1].w->type &&
		   a->part[0].w->n_rows == glu->out.dim && a->part[1].w->n_rows == glu->out.dim &&
		   glu->out.dim % 32 == 0 && !a->part[0].residual && !a->part[1].residual;
}

/* See plan.h. A plan is the cheapest by a count of instructions: those that the busiest block
 * issues. Thread: any; no state. */
#include "kernels/cuda/plan.h"

enum {
	WARPS = 8,
	/* cycles a unit takes besides its columns: first loads, the chain's end, stores */
	START = 300,
	SPLIT_PAIR = 70, /* instructions of a warp for a pair of blocks of a tile and 8 rows: split … */
	WIDE_BLOCK = 18, /* … for a block, wide: unpacking and scales … */
	WIDE_GROUP = 19, /* … and for each 8 rows */
	ISSUE = 4,       /* two warps of a block on each scheduler, two blocks a multiprocessor */
};

static int64_t ceil_div(int64_t n, int64_t by)
{
	return (n + by - 1) / by;
}

static int64_t units(const struct k_matmul *a, int32_t tiles, int32_t rows)
{
	int64_t n = 0;

	for (int32_t i = 0; i < a->n_parts; i++)
		n += ceil_div(cu_tiles(a->part[i].w->n_rows), tiles);
	return n * ceil_div(a->n, rows);
}

static int64_t split_cost(const struct k_matmul *a, int32_t log_tiles, int32_t n_blocks)
{
	const int64_t pairs = cu_pairs(a->part[0].w->n_cols);
	const int64_t rounds = ceil_div(units(a, 1 << log_tiles, 8), n_blocks);

	return rounds * (ceil_div(pairs, WARPS >> log_tiles) * SPLIT_PAIR * ISSUE + START);
}

/* Rows of a wide unit. */
static int32_t wide_rows(int32_t log_tiles, int32_t groups)
{
	return (WARPS >> log_tiles) * groups * 8;
}

static int64_t wide_cost(
	const struct k_matmul *a, int32_t log_tiles, int32_t groups, int32_t n_blocks)
{
	const int64_t blocks = a->part[0].w->n_cols / K_QBLOCK;
	const int64_t rounds =
		ceil_div(units(a, 1 << log_tiles, wide_rows(log_tiles, groups)), n_blocks);

	return rounds * (blocks * (WIDE_BLOCK + groups * WIDE_GROUP) * ISSUE + START);
}

/* The chains of a split unit take one thread for each output: 16 * tiles * rows, at most 256. */
static int32_t most_log_tiles(int32_t n)
{
	return n <= 2 ? 3 : n <= 4 ? 2 : 1;
}

int32_t cu_matmul_plan(const struct k_matmul *a, int32_t n_blocks)
{
	static const int8_t groups[] = { 8, 2 };
	int64_t least = INT64_MAX, cost;
	int32_t plan = 0;

	for (int32_t log_tiles = 0; log_tiles <= most_log_tiles(a->n); log_tiles++) {
		cost = split_cost(a, log_tiles, n_blocks);
		if (cost < least) {
			least = cost;
			plan = log_tiles;
		}
	}
	if (a->n <= 8)
		return plan;
	if (cu_is_float((int32_t)a->part[0].w->type)) /* the wide way has only one plan */
		return units(a, WARPS, CU_FLOAT_ROWS) * 2 > n_blocks ? 3 + 16 * (CU_FLOAT_ROWS / 8) : plan;
	for (int32_t i = 0; i < 2; i++)
		for (int32_t log_tiles = 0; log_tiles <= 3; log_tiles++) {
			if (wide_rows(log_tiles, groups[i]) > CU_WIDE_ROWS)
				continue;
			cost = wide_cost(a, log_tiles, groups[i], n_blocks);
			if (cost < least) {
				least = cost;
				plan = log_tiles + 16 * groups[i];
			}
		}
	return plan;
}

int32_t cu_op_units(const struct k_op *op, int32_t plan)
{
	const int32_t log_tiles = cu_plan_log_tiles(plan), groups = cu_plan_groups(plan);
	int64_t n = 1;

	switch (op->kind) {
	case K_OP_embed: n = op->u.embed.n; break;
	case K_OP_norm: n = op->u.norm.n; break;
	case K_OP_glu:
		n = ceil_div((int64_t)op->u.glu.n * ceil_div(op->u.glu.out.dim, 32), WARPS);
		break;
	case K_OP_matmul:
		n = units(&op->u.matmul, 1 << log_tiles, groups ? wide_rows(log_tiles, groups) : 8);
		break;
	default: break;
	}
	return n < INT32_MAX ? (int32_t)n : INT32_MAX;
}

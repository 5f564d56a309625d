/* See plan.h. A plan is the cheapest by a count of instructions: those that the busiest block
 * issues. Thread: any; no state. */
#include "kernels/cuda/plan.h"

#include <string.h>

enum {
	WARPS = 8,
	/* instructions of a warp besides its columns: first loads, the chain's end, stores */
	START = 100,
	/* For a pair of blocks of a tile: of one row; of few, with their chains, and for each of them.
	 * For a block, wide, and for each 8 rows: as long as so many instructions, since half of it is
	 * trips to memory. All as an H200 took for 64 rows of the 135M and the 1B. */
	PAIR_ONE = 70,
	PAIR_FEW = 100,
	PAIR_ROW = 20,
	WIDE_BLOCK = 110,
	WIDE_GROUP = 12,
};

static int64_t ceil_div(int64_t n, int64_t by)
{
	return (n + by - 1) / by;
}

/* ---- the argument, without its plan ---- */

int32_t cu_product_run(const struct k_matmul *a, int32_t part, const struct k_norm *before,
	const struct k_glu *after, struct cu_product *p)
{
	const struct k_matrix *first = a->part[part].w;

	memset(p, 0, sizeof *p);
	p->in = a->in;
	p->n = a->n;
	p->n_cols = first->n_cols;
	p->folds = before != NULL;
	p->joins = after != NULL;
	if (before)
		p->norm = *before;
	if (after)
		p->glu = *after;
	for (; part < a->n_parts && a->part[part].w->type == first->type; part++, p->n_parts++) {
		p->part[p->n_parts].weights = a->part[part].w->data;
		p->part[p->n_parts].n_rows = a->part[part].w->n_rows;
		p->part[p->n_parts].bias = a->part[part].bias;
		p->part[p->n_parts].residual = a->part[part].residual;
		p->part[p->n_parts].out = a->part[part].out;
	}
	return part;
}

void cu_product_experts(
	const struct k_experts *a, const struct k_matrix *on_device, struct cu_product *p)
{
	memset(p, 0, sizeof *p);
	p->in = a->in;
	p->n = a->n * a->k;
	p->n_cols = a->w->n_cols;
	p->n_parts = 1;
	p->part[0].n_rows = a->w->n_rows;
	p->part[0].bias = a->bias;
	p->part[0].out = a->out;
	p->w = on_device;
	p->ids = a->ids;
	p->k = a->k;
	p->each = a->each;
}

/* ---- the plan ---- */

/* Units of a group, with so many tiles each. */
static void set_units(struct cu_product *p, int32_t tiles)
{
	p->units = 0;
	for (int32_t i = 0; i < p->n_parts; i++) {
		p->part[i].units = (int32_t)ceil_div(cu_tiles(p->part[i].n_rows), p->joins ? 2 : tiles);
		p->units += p->joins && i ? 0 : p->part[i].units;
	}
}

/* Pairs of blocks of a warp in a turn, of so many that it has of a tile. Sub-scales are loaded for
 * four pairs at once. */
static int32_t turn_of(enum k_type type, int64_t share)
{
	if (cu_is_float((int32_t)type))
		return 1;
	if (k_has_subs((int32_t)type))
		return share < 4 || k_has_two_terms((int32_t)type) ? 2 : 4;
	return (int32_t)ceil_div(share, ceil_div(share, CU_TURN));
}

/* Lays out shared memory for p->count pairs of a warp in a turn. */
static void lay_out(struct cu_product *p, enum k_type type, bool one)
{
	const bool floats = cu_is_float((int32_t)type);
	const int32_t blocks = WARPS * 2 * p->count, all = p->n * p->n_cols;
	const int32_t sums = blocks * (k_has_two_terms((int32_t)type) ? 2 : 1);
	const bool turned = cu_is_turned((int32_t)type, one);
	int32_t bytes;

	p->sums_stride = turned ? sums + 4 : sums; /* an odd number of 16 bytes: sums are some of 32 */
	p->scales_stride = turned ? blocks + 2 : blocks;
	p->scales_at = p->sums_stride * CU_TILE_ROWS << p->log_rows;
	p->acts_at = p->scales_at + (floats ? 0 : p->scales_stride * CU_TILE_ROWS * 2);
	p->buffer_floats = p->acts_at + (floats || one ? 0 : blocks * 2 << p->log_rows);
	bytes = 2 * p->buffer_floats * 4;
	if (p->folds && bytes < (all + p->n_cols + CU_GROUP) * 4)
		bytes = (all + p->n_cols + CU_GROUP) * 4;
	p->in_at = k_up(bytes + (p->joins ? CU_JOIN_FLOATS * 4 : 0), 128);
	p->shared_bytes = p->in_at + (!p->folds && !one ? 0 : floats ? all * 4 : all + all / 4 + 16);
}

static void plan_few(struct cu_product *p, enum k_type type, bool one, int32_t log_tiles)
{
	const int32_t units =
		cu_is_float((int32_t)type) ? cu_segments(p->n_cols) : p->n_cols / K_QBLOCK;
	const int32_t pairs = k_pieces(units, 2), sharers = WARPS >> log_tiles;

	p->rows = p->w ? 1 : k_min(p->n, CU_GROUP);
	p->log_rows = p->rows <= 1 ? 0 : p->rows <= 2 ? 1 : p->rows <= 4 ? 2 : 3;
	p->count = turn_of(type, ceil_div(pairs, sharers));
	/* so that a tile's blocks begin at a multiple of four */
	if (cu_is_turned((int32_t)type, one) && sharers == 1 && p->count % 2)
		p->count += p->count < CU_TURN ? 1 : -1;
	lay_out(p, type, one);
	if (p->shared_bytes > CU_SHARED_BYTES && p->count == CU_TURN) {
		p->count--;
		lay_out(p, type, one);
	}
	p->turns = (int32_t)ceil_div(pairs, p->count * sharers);
}

static struct cu_ahead ahead_of(
	const struct cu_product *p, int32_t part, enum k_type type, int32_t most)
{
	const size_t lines = cu_matrix_bytes((int32_t)type, p->part[part].n_rows, p->n_cols) / CU_LINE;

	return (struct cu_ahead){ p->part[part].weights, lines < (size_t)most ? (int32_t)lines : most };
}

void cu_plan_next(struct cu_product *p, const struct cu_product *next, enum k_type type)
{
	for (int32_t i = 0; i < next->n_parts && !next->w; i++)
		p->next[i] = ahead_of(next, i, type, CU_NEXT_LINES);
}

void cu_plan_ahead(struct cu_attention *a, const struct cu_product *later, enum k_type type)
{
	int32_t n = 0, left = CU_AHEAD_LINES;

	for (; n < CU_AHEAD && a->ahead[n].at; n++)
		left -= a->ahead[n].lines;
	for (int32_t i = 0; i < later->n_parts && !later->w && n < CU_AHEAD; i++, n++) {
		a->ahead[n] = ahead_of(later, i, type, left);
		left -= a->ahead[n].lines;
	}
}

/* Whether the single row's kernel can have its input in shared memory. */
static bool one_fits(const struct cu_product *p, enum k_type type)
{
	return p->n == 1 && !p->w && p->n_cols * (cu_is_float((int32_t)type) ? 4 : 2) <= 32 << 10;
}

void cu_plan_as(struct cu_product *p, enum k_type type, enum cu_way way, int32_t log_tiles)
{
	const int32_t groups = way == CU_wide8 ? 8 : 2;
	const bool floats = cu_is_float((int32_t)type), few = way == CU_few || way == CU_one;

	p->log_tiles = p->joins ? 2 : floats && !few ? 3 : log_tiles;
	p->shared_bytes = CU_SHARED_BYTES;
	if (few)
		plan_few(p, type, way == CU_one, p->log_tiles);
	else
		p->rows = floats ? CU_FLOAT_ROWS : (WARPS >> log_tiles) * groups * 8;
	set_units(p, 1 << p->log_tiles);
	p->groups = (int32_t)ceil_div(p->n, p->rows);
}

/* What the busiest block of a plan issues. */
static int64_t cost(const struct cu_product *p, enum cu_way way, int32_t n_processors)
{
	const int64_t blocks = p->n_cols / K_QBLOCK, groups = way == CU_wide8 ? 8 : 2;
	const int64_t all = (int64_t)p->units * p->groups;
	const int64_t turns = ceil_div(all, (int64_t)n_processors * CU_PRODUCT_BLOCKS);
	const int64_t pair = way == CU_one ? PAIR_ONE : PAIR_FEW + p->rows * PAIR_ROW;

	if (way == CU_few || way == CU_one)
		return turns * (ceil_div(cu_pairs(p->n_cols), WARPS >> p->log_tiles) * pair + START);
	return turns * (blocks * (WIDE_BLOCK + groups * WIDE_GROUP) + START);
}

/* The chains of a unit of few rows take one thread for each output: 16 * tiles * rows, at most
 * 256. */
static int32_t most_log_tiles(const struct cu_product *p)
{
	const int32_t rows = p->w ? 1 : p->n;

	return rows <= 2 ? 3 : rows <= 4 ? 2 : 1;
}

struct choice {
	int64_t cost;
	enum cu_way way;
	int32_t log_tiles;
};

static void consider(struct cu_product *p, enum k_type type, enum cu_way way, int32_t log_tiles,
	int32_t n_processors, struct choice *best)
{
	int64_t c;

	cu_plan_as(p, type, way, log_tiles);
	c = cost(p, way, n_processors);
	if (c < best->cost)
		*best = (struct choice){ c, way, log_tiles };
}

enum cu_way cu_plan(struct cu_product *p, enum k_type type, int32_t n_processors, int32_t *blocks)
{
	struct choice best = { INT64_MAX, CU_few, 0 };
	int64_t most;

	for (int32_t log_tiles = 0; log_tiles <= most_log_tiles(p); log_tiles++)
		consider(p, type, one_fits(p, type) ? CU_one : CU_few, log_tiles, n_processors, &best);
	if (p->n > CU_GROUP && !p->w && cu_is_float((int32_t)type)) {
		cu_plan_as(p, type, CU_wide8, 3);
		if ((int64_t)p->units * p->groups * 2 > (int64_t)n_processors * CU_PRODUCT_BLOCKS)
			best = (struct choice){ 0, CU_wide8, 3 };
	} else if (p->n > CU_GROUP && !p->w) { /* as many tiles as leave CU_WIDE_ROWS at most */
		consider(p, type, CU_wide8, 3, n_processors, &best);
		for (int32_t log_tiles = 1; log_tiles <= 3; log_tiles++)
			consider(p, type, CU_wide2, log_tiles, n_processors, &best);
	}
	cu_plan_as(p, type, best.way, best.log_tiles);
	most = (int64_t)n_processors * CU_PRODUCT_BLOCKS;
	*blocks = (int32_t)((int64_t)p->units * p->groups < most ? p->units * p->groups : most);
	return best.way;
}

int32_t cu_op_shared(enum k_kind kind)
{
	switch (kind) {
#define X(name) case K_OP_##name:
		K_WARP_KINDS(X)
	case K_OP_embed:
	case K_OP_norm:
	case K_OP_rope:
	case K_OP_glu: return 0;
	case K_OP_stats: return CU_STATS_SHARED;
	case K_OP_sparse:
	case K_OP_columns:
		K_BLOCK_KINDS(X) return kind == K_OP_attn_score ? CU_SHARED_BYTES : K_ROOM_BYTES;
#undef X
	default: return CU_SHARED_BYTES;
	}
}

/* A thread for each element at most (rope.cuh). */
static int64_t rope_blocks(const struct k_rope *a)
{
	const int64_t heads = a->n_heads + 2 * a->kv->n_kv_heads;

	return ceil_div((a->n + a->n_also) * heads * a->kv->head_dim, WARPS * 32);
}

int32_t cu_op_blocks(const struct k_op *op, int32_t most)
{
	int64_t n = most;

	switch (op->kind) {
	case K_OP_embed: n = op->u.embed.n; break;
	case K_OP_norm: n = op->u.norm.n; break;
	case K_OP_glu:
		n = ceil_div((int64_t)op->u.glu.n * ceil_div(op->u.glu.out.dim, 32), WARPS);
		break;
	case K_OP_rope: n = rope_blocks(&op->u.rope); break;
	case K_OP_stats: n = op->u.stats.n * ceil_div(op->u.stats.vocab, CU_STATS_IDS); break;
	default: break;
	}
	return n < 1 ? 1 : n < most ? (int32_t)n : most;
}

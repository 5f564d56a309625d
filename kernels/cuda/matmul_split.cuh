/* Matrix products of few rows, which bound the time of a decoded token (docs/arithmetic.md, 5 and
 * 6).
 *
 * A unit is up to 8 tiles of 16 outputs by up to 8 rows of activations (a group). A block's 8 warps
 * split the columns: in a turn each takes `count` pairs of blocks of one tile, and puts the exact
 * integer sums, as floats, into its region of shared memory, with the scales beside; then one
 * thread for each output runs the float chain over the turn's blocks in ascending order, while the
 * other warps are in their next turn: regions are double-buffered, so that there is one barrier in
 * a turn. A turn's weights are loaded before the barrier of the turn before, also across units.
 *
 * Counted for a pair of Q4_1 and one row (1,024 weights, 640 bytes): 13 instructions to load and
 * unpack, 2 of the tensor cores, 10 for sums, 11 to store in shared memory, 14 in the chain: about
 * 50, of 124 issue slots in which the memory delivers them. With two blocks a multiprocessor 16
 * warps have 4 pairs each under way: 40 KB, against the 25 KB that bandwidth times latency needs
 * (36 GB/s * 0.7 us).
 *
 * Float weights likewise: a warp takes two segments of a tile, a lane has a row of a segment, and
 * the segments' sums go to shared memory. */
#ifndef CUTAWAY_KERNELS_CUDA_MATMUL_SPLIT_CUH
#define CUTAWAY_KERNELS_CUDA_MATMUL_SPLIT_CUH

#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/matmul_floats.cuh"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/weights.cuh"

enum {
	CU_GROUP = 8, /* rows of activations of one tensor-core product */
	CU_TURN = 4,  /* pairs of a warp in a turn, at most */
};

/* A product as a block walks it. Kept in shared memory: in registers it would leave too few for
 * weights. */
struct cu_split {
	const struct k_matmul *a;
	struct k_acts in;    /* of the op, or folded, in shared memory */
	int32_t parts_end;   /* parts of one format: up to here */
	int32_t n_blocks;    /* blocks of the grid: the step from unit to unit */
	int32_t n_units;     /* (quantised) blocks of 32, or (float) segments, of a row */
	int32_t n_pairs;     /* of those */
	int32_t log_tiles;   /* of a unit */
	int32_t log_sharers; /* warps that share a tile: 3 - log_tiles */
	int32_t count;       /* pairs of a warp in a turn: 2 or 4; of segments 1 */
	int32_t turns;
	int32_t groups; /* of rows of activations */
	int32_t wide;   /* rows of a group: 8, or all of fewer */
};

/* The position of a block in the walk. */
struct cu_spot {
	int32_t part, unit, turn;     /* unit: of the part's */
	const unsigned char *weights; /* of the unit's first tile */
	int32_t row, n_rows;          /* first output, and those of the part */
	int32_t token;                /* first row of activations */
};

/* A warp's region, the same for any number of rows, so that all offsets in it are constants: sums
 * [block of the turn][row of activations][16], scales [block][16] of (dw, mw), activations' (d, sx)
 * [row][block]. Of floats: segments' sums [segment][row of activations][16]. */
enum {
	CU_REGION_COLUMN = 16,
	CU_REGION_BLOCK = CU_GROUP * CU_REGION_COLUMN,
	CU_REGION_SCALES = 2 * CU_TURN * CU_REGION_BLOCK,
	CU_REGION_ACTS = CU_REGION_SCALES + 2 * CU_TURN * 16 * 2,
	CU_REGION = CU_REGION_ACTS + CU_GROUP * 2 * CU_TURN * 2,
	CU_REGION_FLOATS = 2 * CU_REGION_BLOCK,
};
CU_FN float *cu_split_region(const int32_t type, int32_t buffer, int32_t warp)
{
	return (float *)(void *)cu_shared_memory() +
		   (buffer * CU_WARPS + warp) * (cu_is_float(type) ? CU_REGION_FLOATS : CU_REGION);
}
/* Swizzled, since lanes of one row g write columns 2 t: two of those share a bank instead of
 * four. */
CU_FN int32_t cu_region_sum(int32_t column, int32_t row)
{
	return column * CU_REGION_COLUMN + (row ^ (column << 2 & 8));
}

/* Sums of a block of weights; of two, the second is that of its minima. */
CU_FN int32_t cu_split_terms(const int32_t type)
{
	return k_has_two_terms(type) ? 2 : 1;
}

enum { CU_SPLIT_AT = CU_SHARED_BYTES - 256 };

/* Run by one thread. */
CU_FN void cu_split_open(const int32_t type, const struct cu_stage *stage, int32_t n_blocks,
	int32_t parts_end, struct cu_split *s)
{
	const struct k_matmul *a = &stage->op.u.matmul;
	const bool floats = cu_is_float(type);
	const int32_t n_cols = a->part[0].w->n_cols, plan = stage->plan;
	int32_t share;

	s->a = a;
	s->in = a->in;
	s->n_blocks = n_blocks;
	s->parts_end = parts_end;
	s->groups = (s->a->n + CU_GROUP - 1) / CU_GROUP;
	s->wide = s->a->n < CU_GROUP ? s->a->n : CU_GROUP;
	s->log_tiles = cu_plan_groups(plan) ? 0 : cu_plan_log_tiles(plan);
	s->log_sharers = 3 - s->log_tiles;
	s->n_units = floats ? cu_segments(n_cols) : n_cols / K_QBLOCK;
	s->n_pairs = (s->n_units + 1) / 2;
	share = s->n_pairs >> s->log_sharers;
	s->count = floats ? 1 : share >= 2 && cu_split_terms(type) == 1 ? 4 : 2;
	share = s->count << s->log_sharers;
	s->turns = 0;
	CU_NO_UNROLL
	for (int32_t done = 0; done < s->n_pairs; done += share)
		s->turns++;
	if (stage->folds)
		s->in = cu_folded(a->n, a->in.dim, floats);
}

/* Moves on to the part that has the unit; part == parts_end: the run is done, unit counts from its
 * end. */
CU_FN void cu_split_settle(const int32_t type, const struct cu_split *s, struct cu_spot *at)
{
	const int32_t tiles = 1 << s->log_tiles;

	at->turn = 0;
	CU_NO_UNROLL
	for (; at->part < s->parts_end; at->part++) {
		const struct k_matrix *w = s->a->part[at->part].w;
		const int32_t per_group = (cu_tiles(w->n_rows) + tiles - 1) >> s->log_tiles;
		const int32_t units = per_group * s->groups;

		if (at->unit < units) {
			const int32_t first = s->groups == 1 ? at->unit : at->unit / s->groups;
			const int32_t tile = first << s->log_tiles;

			at->token = s->groups == 1 ? 0 : (at->unit - first * s->groups) * CU_GROUP;
			at->row = tile * CU_TILE_ROWS;
			at->n_rows = w->n_rows;
			at->weights =
				(const unsigned char *)w->data + (size_t)tile * cu_tile_bytes(type, w->n_cols);
			return;
		}
		at->unit -= units;
	}
}

CU_FN void cu_split_next(const int32_t type, const struct cu_split *s, struct cu_spot *at)
{
	if (++at->turn < s->turns)
		return;
	at->unit += s->n_blocks;
	cu_split_settle(type, s, at);
}

/* A warp's share of a turn. first: its first pair; tile: NULL if it has none. */
struct cu_share {
	const unsigned char *tile;
	int32_t first;
};
CU_FN struct cu_share cu_split_share(
	const int32_t type, const struct cu_split *s, const struct cu_spot *at)
{
	const int32_t warp = cu_thread() / CU_WARP, tile = warp >> s->log_sharers;
	const int32_t sharer = warp & ((1 << s->log_sharers) - 1);
	struct cu_share h;

	h.first = ((at->turn << s->log_sharers) + sharer) * s->count;
	h.tile = at->weights + (size_t)tile * cu_tile_bytes(type, s->a->part[0].w->n_cols);
	if (h.first >= s->n_pairs || at->row + tile * CU_TILE_ROWS >= at->n_rows)
		h.tile = (const unsigned char *)0;
	return h;
}

/* A lane's weights of a turn, in registers, and (float weights have none of those) scales. */
struct cu_held {
	struct cu_pair pair[CU_TURN];
	struct cu_row_scales scales;
};

CU_FN void cu_split_load(
	const int32_t type, const struct cu_split *s, const struct cu_spot *at, struct cu_held *h)
{
	const struct cu_share share = cu_split_share(type, s, at);
	const int32_t lane = cu_thread() % CU_WARP;

	if (!share.tile)
		return;
	CU_UNROLL
	for (int32_t u = 0; u < CU_TURN; u++)
		if (u < s->count && share.first + u < s->n_pairs) {
			cu_load_pair(type, share.tile, s->n_pairs, share.first + u, lane, &h->pair[u]);
			cu_load_entry(type, share.tile + cu_scales_at(type, s->n_pairs), share.first + u, lane,
				u, &h->scales);
		}
}

/* Stores d and sx of the turn's blocks: eight for each row of activations. */
CU_FN void cu_split_put_acts(
	const struct cu_split *s, const struct cu_spot *at, int32_t first_block, float *region)
{
	const int32_t lane = cu_thread() % CU_WARP, block = first_block + lane % 8;
	float2 *out = (float2 *)(void *)(region + CU_REGION_ACTS);
	const int32_t in_row = s->in.dim / K_QBLOCK;

	if (block >= s->n_units)
		return;
	CU_NO_UNROLL
	for (int32_t column = lane / 8; column < s->wide && at->token + column < s->a->n; column += 4) {
		const size_t i = (size_t)(at->token + column) * (size_t)in_row + (size_t)block;

		out[column * 8 + lane % 8] = make_float2(s->in.d[i], s->in.sx[i]);
	}
}

/* sums: those of the block, at the lane's row g and first column; row g + 8 is in the other half of
 * 16. */
CU_FN void cu_split_put_sums(bool first, bool second, const float f[4], float *sums, float *other)
{
	if (first) {
		sums[0] = f[0];
		other[0] = f[2];
	}
	if (second) {
		sums[CU_REGION_COLUMN] = f[1];
		other[CU_REGION_COLUMN] = f[3];
	}
}

/* `count` pairs of the turn: all loads of activations first, so that they overlap. Results for
 * blocks and rows beyond the end are computed from others and never read. */
CU_FN void cu_split_sums(const int32_t type, const int32_t count, const struct cu_split *s,
	const struct cu_spot *at, int32_t first, const struct cu_held *h, float *region)
{
	const int32_t lane = cu_thread() % CU_WARP, last = s->n_units - 1;
	const int32_t column = lane / 4 < s->wide ? lane / 4 : s->wide - 1;
	const int32_t token = at->token + column < s->a->n ? at->token + column : s->a->n - 1;
	const int8_t *row = s->in.q + (size_t)token * (size_t)s->in.dim;
	float2 *scales =
		(float2 *)(void *)(region + CU_REGION_SCALES) + (lane & 1) * 16 + lane / 4 + (lane & 2) * 4;
	float *sums = region + cu_region_sum(lane % 4 * 2, lane / 4);
	float *other = region + cu_region_sum(lane % 4 * 2, lane / 4 + 8);
	const bool one = lane % 4 * 2 < s->wide, two = lane % 4 * 2 + 1 < s->wide;
	const int32_t n_pairs = s->n_pairs, terms = cu_split_terms(type);
	uint32_t q[2 * CU_TURN][2], sub[2];
	float f[4];

	CU_UNROLL
	for (int32_t i = 0; i < 2 * count; i++)
		cu_load_q(type, row, first * 2 + i < last ? first * 2 + i : last, lane, q[i]);
	CU_UNROLL
	for (int32_t u = 0; u < count; u++) {
		const int32_t i = count == CU_TURN ? u : (first + u) % CU_SUPER_PAIRS;

		if (first + u >= n_pairs)
			break;
		scales[2 * u * 16] = cu_lane_entry(type, &h->scales, i, lane, u);
		CU_UNROLL
		for (int32_t b = 0; b < 2; b++) {
			const int32_t to = (2 * u + b) * terms * CU_REGION_BLOCK;

			sub[0] = cu_sub_scales(type, h->scales.w, i) >> 16 * b;
			sub[1] = cu_sub_scales(type, h->scales.w + 4, i) >> 16 * b;
			cu_block_sums(type, &h->pair[u], b, q[2 * u + b], sub, f);
			cu_split_put_sums(one, two, f, sums + to, other + to);
			if (terms == 1)
				continue;
			sub[0] = cu_sub_minima(h->scales.w, i) >> 16 * b;
			sub[1] = cu_sub_minima(h->scales.w + 4, i) >> 16 * b;
			cu_minima_sums(q[2 * u + b], sub, f);
			cu_split_put_sums(
				one, two, f, sums + to + CU_REGION_BLOCK, other + to + CU_REGION_BLOCK);
		}
	}
}

CU_FN void cu_split_compute(const int32_t type, const struct cu_split *s, const struct cu_spot *at,
	const struct cu_held *h, int32_t buffer)
{
	const struct cu_share share = cu_split_share(type, s, at);
	float *region = cu_split_region(type, buffer, cu_thread() / CU_WARP);

	if (!share.tile)
		return;
	cu_split_put_acts(s, at, share.first * 2, region);
	if (cu_split_terms(type) == 1 && s->count == 4)
		cu_split_sums(type, 4, s, at, share.first, h, region);
	else
		cu_split_sums(type, 2, s, at, share.first, h, region);
}

/* The thread's output in the unit: tile, row and row of activations; and its chain. */
struct cu_output {
	int32_t tile, row, column;
	bool there;
	float chain, bias, residual;
	size_t at;
};

CU_FN void cu_output_open(const struct cu_split *s, struct cu_output *o)
{
	int32_t column = cu_thread() / 16, tile = 0;

	CU_NO_UNROLL
	for (; column >= s->wide; column -= s->wide)
		tile++;
	o->tile = tile;
	o->row = cu_thread() % 16;
	o->column = column;
	o->chain = o->bias = o->residual = 0.0f;
	o->at = 0;
	o->there = false;
}

/* At a unit's first turn: loads what is added at its end. residual may equal out: only this thread
 * reads and writes it. */
CU_FN void cu_output_begin(const struct cu_split *s, const struct cu_spot *at, struct cu_output *o)
{
	const int32_t row = at->row + o->tile * CU_TILE_ROWS + o->row, token = at->token + o->column;
	const float *bias = s->a->part[at->part].bias, *residual = s->a->part[at->part].residual;

	o->chain = 0.0f;
	o->there = o->tile < 1 << s->log_tiles && row < at->n_rows && token < s->a->n;
	o->at = (size_t)token * (size_t)at->n_rows + (size_t)row;
	if (o->there && bias)
		o->bias = bias[row];
	if (o->there && residual)
		o->residual = residual[o->at];
}

CU_FN void cu_output_end(
	const struct cu_split *s, const struct cu_spot *at, const struct cu_output *o)
{
	float y = o->chain;

	if (!o->there)
		return;
	if (s->a->part[at->part].bias)
		y += o->bias;
	if (s->a->part[at->part].residual)
		y += o->residual;
	s->a->part[at->part].out[o->at] = y;
}

/* `count` blocks from `first` of a region: all reads before the chain, which is then two
 * instructions a block. */
CU_FN float cu_chain(const int32_t type, const int32_t count, const float *sums,
	const float2 *scales, const float2 *acts, float chain)
{
	const int32_t terms = cu_split_terms(type);
	float f[8], m[8], apart = 0.0f, minima = 0.0f; /* the last two: K_FREE alone */
	float2 w[8], x[8];

	CU_UNROLL
	for (int32_t i = 0; i < count; i++) {
		f[i] = sums[i * terms * CU_REGION_BLOCK];
		m[i] = terms == 2 ? sums[(i * terms + 1) * CU_REGION_BLOCK] : 0.0f;
		w[i] = scales[i * 16];
		x[i] = acts[i];
	}
	CU_UNROLL
	for (int32_t i = 0; i < count; i++) {
		if (K_FREE && i % 2)
			apart = k_fma(x[i].x, w[i].x * f[i], apart);
		else
			chain = k_fma(x[i].x, w[i].x * f[i], chain);
		if (terms == 2)
			chain = k_fma(x[i].x, w[i].y * m[i], chain);
		else if (K_FREE && k_has_min(type))
			minima = k_fma(w[i].y, x[i].y, minima);
		else if (k_has_min(type))
			chain = k_fma(w[i].y, x[i].y, chain);
	}
	return K_FREE ? chain + (apart + minima) : chain;
}

CU_FN void cu_split_chain(const int32_t type, const struct cu_split *s, const struct cu_spot *at,
	int32_t buffer, struct cu_output *o)
{
	const int32_t per_warp = 2 * s->count, sharers = 1 << s->log_sharers;
	int32_t left = s->n_units - at->turn * sharers * per_warp;

	if (!o->there)
		return;
	CU_NO_UNROLL
	for (int32_t i = 0; i < sharers && left > 0; i++, left -= per_warp) {
		const float *region = cu_split_region(type, buffer, (o->tile << s->log_sharers) + i);
		const float *sums = region + cu_region_sum(o->column, o->row);
		const float2 *scales = (const float2 *)(const void *)(region + CU_REGION_SCALES) + o->row;
		const float2 *acts =
			(const float2 *)(const void *)(region + CU_REGION_ACTS) + o->column * 8;
		const int32_t n = left < per_warp ? left : per_warp;
		int32_t b = 0;

		if (cu_is_float(type)) {
			o->chain += sums[0];
			if (n > 1)
				o->chain += sums[CU_REGION_BLOCK];
			continue;
		}
		if (cu_split_terms(type) == 1 && n == 8) {
			o->chain = cu_chain(type, 8, sums, scales, acts, o->chain);
			continue;
		}
		CU_NO_UNROLL
		for (; b + 2 <= n; b += 2)
			o->chain = cu_chain(type, 2, sums + b * cu_split_terms(type) * CU_REGION_BLOCK,
				scales + b * 16, acts + b, o->chain);
		if (b < n)
			o->chain = cu_chain(type, 1, sums + b * cu_split_terms(type) * CU_REGION_BLOCK,
				scales + b * 16, acts + b, o->chain);
	}
}

CU_FN void cu_split_ask(const int32_t type, const struct cu_split *s, const struct cu_spot *at,
	struct cu_held *held, struct cu_floats *values)
{
	if (at->part == s->parts_end)
		return;
	if (cu_is_float(type)) {
		const struct cu_share share = cu_split_share(type, s, at);

		cu_floats_load(type, s->n_units, share.tile, share.first, cu_thread() % CU_WARP, values);
	} else {
		cu_split_load(type, s, at, held);
	}
}

CU_FN void cu_split_multiply(const int32_t type, const struct cu_split *s, const struct cu_spot *at,
	int32_t buffer, const struct cu_held *held, const struct cu_floats *values)
{
	const struct cu_share share = cu_split_share(type, s, at);

	if (!cu_is_float(type))
		cu_split_compute(type, s, at, held, buffer);
	else if (share.tile)
		cu_floats_sums(type, s->a->part[0].w->n_cols, share.first, &s->in, at->token, s->a->n,
			cu_thread() % CU_WARP, values, cu_split_region(type, buffer, cu_thread() / CU_WARP));
}

/* The parts from `part` to parts_end, all of format `type`, from their unit `unit` in steps of
 * n_blocks; returns how far beyond the last unit the block is. A turn's weights are requested, then
 * the turn before is finished, then the weights are used. */
CU_FN int32_t cu_split_run(const int32_t type, const struct cu_stage *stage, int32_t n_blocks,
	int32_t part, int32_t parts_end, int32_t unit)
{
	struct cu_split *s = (struct cu_split *)(void *)(cu_shared_memory() + CU_SPLIT_AT);
	struct cu_held held;
	struct cu_floats values;
	struct cu_output o;
	struct cu_spot at = { part, unit, 0, (const unsigned char *)0, 0, 0, 0 }, before = at;
	bool first = true;

	CU_SYNC(); /* another run may still be read */
	if (cu_thread() == 0)
		cu_split_open(type, stage, n_blocks, parts_end, s);
	CU_SYNC();
	cu_output_open(s, &o);
	cu_split_settle(type, s, &at);
	for (int32_t buffer = 0;; buffer ^= 1) {
		cu_split_ask(type, s, &at, &held, &values);
		if (!first) {
			CU_SYNC();
			cu_split_chain(type, s, &before, buffer ^ 1, &o);
			if (before.turn == s->turns - 1)
				cu_output_end(s, &before, &o);
		}
		if (at.part == parts_end)
			return at.unit;
		cu_split_multiply(type, s, &at, buffer, &held, &values);
		if (at.turn == 0)
			cu_output_begin(s, &at, &o);
		before = at;
		first = false;
		cu_split_next(type, s, &at);
	}
}

/* One function for each format, not inlined: a kernel that walks stages has each of them once. */
#define X(name, ...)                                                                               \
	CU_LARGE_FN int32_t cu_split_##name(const struct cu_stage *stage, int32_t n_blocks,            \
		int32_t part, int32_t parts_end, int32_t unit)                                             \
	{                                                                                              \
		return cu_split_run(K_##name, stage, n_blocks, part, parts_end, unit);                     \
	}
K_TYPES(X)
#undef X

#endif

/* Matrix products of few rows, which bound the time of a decoded token (docs/arithmetic.md, 5 and
 * 6).
 *
 * A unit is up to 8 tiles of 16 outputs by up to 8 rows of activations (a group). A block's 8 warps
 * split the columns: in a turn each takes `count` pairs of blocks of one tile, and puts the exact
 * integer sums, as floats, into shared memory, with the scales beside; then one thread for each
 * output runs the float chain over the turn's blocks in ascending order, while the other warps are
 * in their next turn: all is double-buffered, so that there is one barrier in a turn. A turn's
 * weights are loaded before the barrier of the turn before, also across units.
 *
 * What a short product costs is latency and the instructions of one warp, which issues one in six
 * cycles or so: a trip to memory for weights, beside it two for a folded norm (its rows; then sums,
 * rounding, one barrier each), the tensor cores, a barrier, and the chain, 8 cycles a block of 32
 * columns. So a single row, the case that matters most, has kernels of its own (`one`): its
 * activations are in shared memory, and no loop or index is for more.
 *
 * Float weights likewise: a warp takes two segments of a tile, a lane has a row of a segment, and
 * the segments' sums go to shared memory. */
#pragma once

#include "kernels/cuda/matmul_sums.cuh"
#include "kernels/cuda/norm.cuh"

/* ---- chains ---- */

/* The thread's output in a unit: tile, row and row of activations; and its chain. */
struct cu_output {
	int32_t tile, row, column;
	bool there;
	float chain, bias, residual;
	size_t at;
};

CU_FN void cu_output_open(const struct cu_product *a, const bool one, struct cu_output *o)
{
	const int32_t log_rows = cu_few_log(a, one);

	o->row = cu_thread() % CU_TILE_ROWS;
	o->column = cu_thread() / CU_TILE_ROWS & ((1 << log_rows) - 1);
	o->tile = cu_thread() / CU_TILE_ROWS >> log_rows;
	if (o->tile >> a->log_tiles) { /* the thread has none: no group has so many rows */
		o->tile = 0;
		o->column = CU_GROUP;
	}
	o->chain = o->bias = o->residual = 0.0f;
	o->at = 0;
	o->there = false;
}

/* At a unit's first turn: loads what is added at its end. residual may equal out: only this thread
 * reads and writes it. */
CU_FN void cu_output_begin(
	const struct cu_product *a, const bool one, const struct cu_spot *at, struct cu_output *o)
{
	const int32_t part = cu_few_part(a, at, o->tile), n_rows = a->part[part].n_rows;
	const int32_t row = cu_few_tile(a, at, o->tile) * CU_TILE_ROWS + o->row;
	const float *bias = a->part[part].bias, *residual = a->part[part].residual;

	o->chain = 0.0f;
	o->there = row < n_rows && o->column < cu_few_rows(a, one, at);
	o->at = k_index(at->out_row + o->column, n_rows, row);
	if (o->there && bias)
		o->bias = bias[k_index(at->expert, n_rows, row)];
	if (o->there && residual)
		o->residual = residual[o->at];
}

/* The values of a joined unit pass through shared memory, [part][row of activations][32], after the
 * regions: then a warp has a row of activations, and rounds its 32 values together. The next unit's
 * are written after a turn's barrier. */
CU_FN void cu_few_join(
	const struct cu_product *a, const struct cu_spot *at, const struct cu_output *o, float y)
{
	const int32_t lane = cu_thread() % CU_WARP, warp = cu_thread() / CU_WARP;
	float *values = (float *)(void *)(cu_shared_memory() + a->in_at) - CU_JOIN_FLOATS;

	if (o->there)
		values[(o->tile >> 1) * CU_JOIN_ROWS * 32 + o->column * 32 + (o->tile & 1) * CU_TILE_ROWS +
			   o->row] = y;
	CU_SYNC();
	if (warp < a->n)
		cu_put(&a->glu.out, warp, at->tile * CU_TILE_ROWS, lane,
			k_gate(a->glu.act, values[warp * 32 + lane],
				values[CU_JOIN_ROWS * 32 + warp * 32 + lane]));
}

CU_FN void cu_output_end(
	const struct cu_product *a, const struct cu_spot *at, const struct cu_output *o)
{
	const int32_t part = cu_few_part(a, at, o->tile);
	float y = o->chain;

	if (o->there && a->part[part].bias)
		y += o->bias;
	if (o->there && a->part[part].residual)
		y += o->residual;
	if (a->joins)
		cu_few_join(a, at, o, y);
	else if (o->there)
		a->part[part].out[o->at] = y;
}

/* Where a thread's chain reads: sums at a stride, scales, and d and sx of its row. */
struct cu_chain {
	const float *sums, *d, *sx;
	const float2 *scales, *acts; /* acts: (d, sx), where d is NULL */
	int32_t step, scales_step, acts_stride;
};

/* What the chain reads of up to eight blocks. */
struct cu_links {
	float sum[16], scale[16]; /* by block: of each term; (dw, mw) */
	float d[8], sx[8];
};

/* Of four blocks, by 16 bytes: l's from i on. b and i are multiples of four. */
CU_FN void cu_links_four(
	const int32_t type, const struct cu_chain *c, int32_t b, const int32_t i, struct cu_links *l)
{
	const int32_t terms = cu_few_terms(type);

	CU_UNROLL
	for (int32_t k = 0; k < 4 * terms; k += 4)
		cu_four(c->sums + (b + i) * terms + k, l->sum + i * terms + k);
	cu_four((const float *)(const void *)(c->scales + b + i), l->scale + 2 * i);
	cu_four((const float *)(const void *)(c->scales + b + i + 2), l->scale + 2 * i + 4);
	cu_four(c->d + b + i, l->d + i);
	if (k_has_min(type) && terms == 1)
		cu_four(c->sx + b + i, l->sx + i);
}

CU_FN void cu_links_one(const int32_t type, const bool one, const struct cu_chain *c, int32_t b,
	const int32_t i, struct cu_links *l)
{
	const int32_t terms = cu_few_terms(type);
	const float2 w = c->scales[(b + i) * c->scales_step];

	CU_UNROLL
	for (int32_t k = 0; k < terms; k++)
		l->sum[i * terms + k] = c->sums[((b + i) * terms + k) * c->step];
	l->scale[2 * i] = w.x;
	l->scale[2 * i + 1] = w.y;
	if (one) {
		l->d[i] = c->d[b + i];
		l->sx[i] = k_has_min(type) && terms == 1 ? c->sx[b + i] : 0.0f;
	} else {
		const float2 x = c->acts[(b + i) * c->acts_stride];

		l->d[i] = x.x;
		l->sx[i] = x.y;
	}
}

/* `count` blocks from block b: all reads before the chain, which is then two instructions a
 * block. */
CU_FN float cu_chain_run(const int32_t type, const bool one, const int32_t count,
	const struct cu_chain *c, int32_t b, float chain)
{
	const int32_t terms = cu_few_terms(type);
	float apart = 0.0f, minima = 0.0f; /* K_FREE alone */
	struct cu_links l;

	CU_UNROLL
	for (int32_t i = 0; i < count; i++)
		if (!one || count % 4)
			cu_links_one(type, one, c, b, i, &l);
		else if (i % 4 == 0)
			cu_links_four(type, c, b, i, &l);
	CU_UNROLL
	for (int32_t i = 0; i < count; i++) {
		const float f = l.sum[i * terms], w = l.scale[2 * i], m = l.scale[2 * i + 1];

		if (K_FREE && i % 2)
			apart = k_fma(l.d[i], w * f, apart);
		else
			chain = k_fma(l.d[i], w * f, chain);
		if (terms == 2)
			chain = k_fma(l.d[i], m * l.sum[i * terms + terms - 1], chain);
		else if (K_FREE && k_has_min(type))
			minima = k_fma(m, l.sx[i], minima);
		else if (k_has_min(type))
			chain = k_fma(m, l.sx[i], chain);
	}
	return K_FREE ? chain + (apart + minima) : chain;
}

CU_FN void cu_few_chain(const int32_t type, const bool one, const struct cu_product *a,
	const struct k_acts *in, const struct cu_spot *at, int32_t buffer, struct cu_output *o)
{
	const int32_t each = 2 * a->count, of_turn = each << cu_few_log_sharers(a);
	const int32_t first = (o->tile << cu_few_log_sharers(a)) * each, done = at->turn * of_turn;
	const int32_t left = cu_few_units(type, a) - done, n = k_min(left, of_turn);
	struct cu_chain c;
	int32_t b = 0;

	if (!o->there)
		return;
	c.step = cu_few_step(type, one, a);
	c.sums = cu_few_sums_at(type, a, one, buffer, first * cu_few_terms(type)) +
			 cu_few_sum(type, one, a, o->column, o->row);
	if (cu_is_float(type)) {
		CU_UNROLL_8
		for (; b < n; b++)
			o->chain += c.sums[b * c.step];
		return;
	}
	c.scales = cu_few_scales_at(type, a, one, buffer, first, o->row);
	c.scales_step = cu_few_scales_step(type, one);
	c.acts = cu_few_acts_at(a, one, buffer, first) + o->column;
	c.acts_stride = 1 << cu_few_log(a, one);
	c.d = in->d + done;
	c.sx = in->sx + done;
	CU_NO_UNROLL
	for (; b + 8 <= n; b += 8)
		o->chain = cu_chain_run(type, one, 8, &c, b, o->chain);
	CU_NO_UNROLL
	for (; b + 2 <= n; b += 2)
		o->chain = cu_chain_run(type, one, 2, &c, b, o->chain);
	if (b < n)
		o->chain = cu_chain_run(type, one, 1, &c, b, o->chain);
}

/* ---- input in shared memory: a norm folded in front, or the one row ---- */

/* As floats, or as 8 bits with d and sx. */
CU_FN struct k_acts cu_few_input(const int32_t type, const struct cu_product *a)
{
	unsigned char *at = cu_shared_memory() + a->in_at;
	const size_t all = (size_t)a->n * (size_t)a->n_cols;
	struct k_acts in;

	in.dim = a->n_cols;
	in.x = cu_is_float(type) ? (float *)(void *)at : (float *)0;
	in.q = cu_is_float(type) ? (int8_t *)0 : (int8_t *)at;
	in.d = cu_is_float(type) ? (float *)0 : (float *)(void *)(at + all);
	in.sx = cu_is_float(type) ? (float *)0 : in.d + k_up((int32_t)(all / K_QBLOCK), 4);
	return in;
}

/* A norm folded in front, whose weights and rows pass through shared memory, where the regions will
 * be. The weights are asked for before the rows are there. */
CU_FN void cu_few_prefetch_norm(const struct cu_product *a)
{
	cu_fetch_floats((float *)(void *)cu_shared_memory(), a->norm.w, a->n_cols);
}

/* Called by all threads of the block. One trip for all rows. Of one row each warp has the scale,
 * which saves a barrier. Ends with a barrier. */
CU_FN void cu_few_fold(const bool one, const struct cu_product *a, const struct k_acts *out)
{
	const int32_t lane = cu_thread() % CU_WARP, warp = cu_thread() / CU_WARP, dim = a->n_cols;
	float *w = (float *)(void *)cu_shared_memory(), *x = w + dim, *scale = x + a->n * dim;
	struct k_norm norm = a->norm;

	for (int32_t r = 0; r < (one ? 1 : a->n); r++)
		cu_fetch_floats(x + r * dim, cu_norm_row(&norm, r), dim);
	cu_copy_commit();
	cu_copy_wait(0);
	CU_SYNC();
	norm.w = w;
	if (one) {
		cu_norm_blocks(&norm, x, out, 0, cu_norm_scale(&norm, x, lane), warp, CU_WARPS, lane);
		CU_SYNC();
		return;
	}
	if (warp < a->n) {
		const float s = cu_norm_scale(&norm, x + warp * dim, lane);

		if (lane == 0)
			scale[warp] = s;
	}
	CU_SYNC();
	for (int32_t r = 0; r < a->n; r++)
		cu_norm_blocks(&norm, x + r * dim, out, r, scale[r], warp, CU_WARPS, lane);
	CU_SYNC();
}

CU_FN void cu_few_copy(const int32_t type, const struct cu_product *a, const struct k_acts *to)
{
	if (cu_is_float(type)) {
		cu_fetch_floats(to->x, a->in.x, a->n_cols);
	} else {
		CU_NO_UNROLL
		for (int32_t i = 16 * cu_thread(); i < a->n_cols; i += 16 * CU_THREADS)
			cu_copy16(to->q + i, a->in.q + i);
		CU_NO_UNROLL
		for (int32_t i = cu_thread(); i < a->n_cols / K_QBLOCK; i += CU_THREADS) {
			to->d[i] = a->in.d[i];
			to->sx[i] = a->in.sx[i];
		}
	}
	cu_copy_commit();
	cu_copy_wait(0);
	CU_SYNC();
}

/* ---- the whole ---- */

CU_FN void cu_few(const int32_t type, const bool one, const struct cu_product *a)
{
	const int32_t end = a->units * a->groups;
	struct cu_spot at, before;
	struct cu_output o;
	struct cu_held held;
	struct k_acts in = a->in;
	bool first = true;

	if (!one && a->w) /* an op before says which expert's they are */
		cu_follow();
	at.unit = cu_block();
	cu_few_settle(type, one, a, &at);
	cu_few_prefetch(type, a, &at, &held);
	/* while this kernel computes, memory is idle */
	cu_prefetch(a->next, K_MAX_PARTS, cu_block(), cu_n_blocks());
	if (a->folds)
		cu_few_prefetch_norm(a);
	cu_output_open(a, one, &o);
	cu_follow();
	cu_note(a->clock);
	if (one || a->folds)
		in = cu_few_input(type, a);
	if (a->folds)
		cu_few_fold(one, a, &in);
	else if (one)
		cu_few_copy(type, a, &in);
	before = at;
	for (int32_t buffer = 0;; buffer ^= 1) {
		if (!first) {
			cu_few_prefetch(type, a, &at, &held);
			CU_SYNC();
			cu_few_chain(type, one, a, &in, &before, buffer ^ 1, &o);
			if (before.turn == a->turns - 1)
				cu_output_end(a, &before, &o);
		}
		if (at.unit >= end)
			return;
		if (at.turn == 0)
			cu_output_begin(a, one, &at, &o);
		cu_few_sums(type, one, a, &in, &at, &held, buffer);
		before = at;
		first = false;
		if (++at.turn == a->turns) {
			at.unit += cu_n_blocks();
			cu_few_settle(type, one, a, &at);
		}
	}
}

#define X(name, ...)                                                                               \
	CU_KERNEL cutaway_one_##name(const __grid_constant__ struct cu_product a)                      \
	{                                                                                              \
		cu_few(K_##name, true, &a);                                                                \
	}                                                                                              \
	CU_KERNEL cutaway_few_##name(const __grid_constant__ struct cu_product a)                      \
	{                                                                                              \
		cu_few(K_##name, false, &a);                                                               \
	}
K_TYPES(X)
#undef X

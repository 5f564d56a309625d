/* How an attention op is split over blocks.
 *
 * A tile is a few neighbouring rows of one sequence; under one kv head its queries, the rows times
 * the heads that share the kv head, read the same keys and values. Its spans are those that its
 * hull touches (visible.h), numbered from 0. If the scratch has room for the result of every span
 * that any row sees, a unit of work is one span of one tile under one kv head, and the block that
 * finishes the tile's last span merges them; else a unit is a tile with all its spans.
 *
 * Every block makes the same plan from the rows, which are on the device, since a program is kept
 * while the shape of the step is the same. The plan is kept from stage to stage. Invariant: the
 * plan decides which block does what and where partial results are, never a bit of the result. */
#ifndef CUTAWAY_KERNELS_CUDA_ATTENTION_PLAN_CUH
#define CUTAWAY_KERNELS_CUDA_ATTENTION_PLAN_CUH

#include "kernels/cuda/bodies.cuh"
#include "kernels/visible.h"

enum {
	/* queries of a tile; more if 8 rows have more, so that a fold's rows are one tile */
	ATTEND_TILE = 64,
	ATTEND_PARTS = CU_THREADS, /* the rows are counted in so many parts */
	ATTEND_HEAD = 4,           /* floats in front of a record's values: maximum, sum, two unused */
};

struct attend_unit {
	int32_t row, n_rows, n_spans; /* the tile */
	struct k_hull seen;           /* by its rows */
	int32_t kv_head, kv_end;      /* the kv heads */
	int32_t lo, hi;               /* the tile's spans, by number */
};

struct attend_plan {
	const struct k_row *rows;     /* of the op that the plan is for; NULL: of none */
	const struct k_range *ranges; /* of that op */
	const struct k_kv *kv_from;
	struct k_kv kv;
	int32_t n, n_ranges, n_heads, n_rep;
	bool observed;
	int32_t rows_per_tile, rows_per_part;
	bool split; /* a unit is a span */
	/* a unit is a tile under all kv heads, when a block of 32 outputs crosses heads */
	bool all_heads;
	int32_t record;                    /* floats of a record: one row, span and head */
	int32_t units[ATTEND_PARTS + 1];   /* units of the tiles that begin before part i */
	int32_t records[ATTEND_PARTS + 1]; /* spans of the rows before part i */
	struct attend_unit mine[2];        /* this block's first units, n_mine of them, found once */
	int32_t n_mine;
	/* not beside records, which are written while others still read these: compute-sanitizer's
	 * racecheck takes neighbouring words for one */
	int32_t warp_units[CU_WARPS], warp_records[CU_WARPS];
};

/* Data that a block keeps from stage to stage, after the shared memory of the bodies. */
enum { ATTEND_SEEN = 4 };
struct cu_kept {
	struct cu_step step;      /* of a walk */
	struct cu_stage stage[2]; /* of a walk: the current one and the next */
	struct attend_plan plan;
	struct attend_unit seen[ATTEND_SEEN]; /* merged, not yet observed */
	int32_t n_seen;
};
static_assert(sizeof(struct cu_kept) <= CU_KEPT_BYTES, "a larger CU_KEPT_BYTES");

/* What row r sees. */
CU_FN const struct k_range *attend_list(const struct attend_plan *p, int32_t r)
{
	return p->ranges + (size_t)r * (size_t)p->n_ranges;
}
CU_FN int32_t attend_row_spans(const struct attend_plan *p, int32_t r)
{
	return k_spans(attend_list(p, r), p->n_ranges);
}

/* Span number i of a unit's tile. */
CU_FN int32_t attend_span(const struct attend_unit *u, int32_t i)
{
	return k_span_at(u->seen.run, K_HULL, i);
}

/* Tokens of the span up to the last in the tile's hull. */
CU_FN int32_t attend_tokens(const struct attend_unit *u, int32_t span)
{
	const int32_t end =
		u->seen.run[1].first < u->seen.run[1].end ? u->seen.run[1].end : u->seen.run[0].end;
	const int32_t n = end - span * K_SPAN;

	return n < K_SPAN ? n : K_SPAN;
}

CU_FN bool attend_begins(const struct attend_plan *p, int32_t r)
{
	return r % p->rows_per_tile == 0 || p->rows[r].seq != p->rows[r - 1].seq;
}

/* The tile that begins at row r. */
CU_FN void attend_tile(const struct attend_plan *p, int32_t r, struct attend_unit *u)
{
	int32_t end = r + 1;

	u->row = r;
	for (int32_t i = 0; i < K_HULL; i++)
		u->seen.run[i].first = u->seen.run[i].end = 0;
	while (end < p->n && !attend_begins(p, end))
		end++;
	for (int32_t i = r * p->n_ranges; i < end * p->n_ranges; i++)
		k_hull_add(&u->seen, p->ranges[i]);
	u->n_rows = end - r;
	u->n_spans = k_spans(u->seen.run, K_HULL);
}

CU_FN int32_t attend_tile_units(const struct attend_plan *p, const struct attend_unit *tile)
{
	if (p->split)
		return tile->n_spans * p->kv.n_kv_heads;
	return p->all_heads ? 1 : p->kv.n_kv_heads;
}

/* Sum of the lanes up to one's own. */
CU_FN int32_t attend_warp_sum(int32_t v)
{
	const int32_t lane = cu_thread() % CU_WARP;

	for (int32_t h = 1; h < CU_WARP; h *= 2) {
		int32_t below = cu_shuffle(v, lane >= h ? lane - h : lane);

		v += lane >= h ? below : 0;
	}
	return v;
}

/* Fills units and records; each thread counts one part. */
CU_FN void attend_count(struct attend_plan *p)
{
	const int32_t t = cu_thread(), warp = t / CU_WARP;
	int32_t units = 0, records = 0;

	for (int32_t i = 0, r = t * p->rows_per_part; i < p->rows_per_part && r < p->n; i++, r++) {
		records += attend_row_spans(p, r);
		if (attend_begins(p, r)) {
			struct attend_unit tile;

			attend_tile(p, r, &tile);
			units += attend_tile_units(p, &tile);
		}
	}
	units = attend_warp_sum(units);
	records = attend_warp_sum(records);
	if (t % CU_WARP == CU_WARP - 1) {
		p->warp_units[warp] = units;
		p->warp_records[warp] = records;
	}
	CU_SYNC();
	for (int32_t w = 0; w < warp; w++) {
		units += p->warp_units[w];
		records += p->warp_records[w];
	}
	p->units[t + 1] = units;
	p->records[t + 1] = records;
	CU_SYNC();
}

CU_FN bool attend_all_heads(const struct k_attention *a)
{
	return a->out.q && a->kv->head_dim % K_QBLOCK;
}

CU_FN void attend_describe(struct attend_plan *p, const struct k_attention *a)
{
	const int32_t n_rep = a->n_heads / a->kv->n_kv_heads;
	const int32_t most = ATTEND_TILE / n_rep > CU_FOLD_ROWS ? ATTEND_TILE / n_rep : CU_FOLD_ROWS;

	p->rows = a->rows;
	p->ranges = a->ranges;
	p->n_ranges = a->n_ranges;
	p->kv_from = a->kv;
	p->kv = *a->kv;
	p->n = a->n;
	p->n_heads = a->n_heads;
	p->n_rep = n_rep;
	p->observed = a->share || a->near_zero;
	p->rows_per_tile = most;
	p->rows_per_part = (a->n + ATTEND_PARTS - 1) / ATTEND_PARTS;
	p->all_heads = attend_all_heads(a);
	p->record = ATTEND_HEAD + p->kv.head_dim + (p->observed ? K_SPAN_GROUPS + K_SPAN : 0);
	p->units[0] = p->records[0] = 0;
}

/* Unit `index` of the plan; false after the last. */
CU_FN bool attend_find(const struct attend_plan *p, int32_t index, struct attend_unit *u)
{
	int32_t lo = 0, hi = ATTEND_PARTS, r, n;

	if (index >= p->units[ATTEND_PARTS])
		return false;
	while (hi - lo > 1) { /* units[lo] <= index < units[hi] */
		int32_t mid = (lo + hi) / 2;

		lo = p->units[mid] <= index ? mid : lo;
		hi = p->units[mid] <= index ? hi : mid;
	}
	index -= p->units[lo];
	r = lo * p->rows_per_part;
	for (;; r += u->n_rows, index -= n) {
		while (!attend_begins(p, r))
			r++;
		attend_tile(p, r, u);
		n = attend_tile_units(p, u);
		if (index < n)
			break;
	}
	u->kv_head = p->split || !p->all_heads ? index % p->kv.n_kv_heads : 0;
	u->kv_end = p->split || !p->all_heads ? u->kv_head + 1 : p->kv.n_kv_heads;
	u->lo = p->split ? index / p->kv.n_kv_heads : 0;
	u->hi = p->split ? u->lo + 1 : u->n_spans;
	return true;
}

/* The block's first unit. Units go to the last blocks first: with few units these have no part in a
 * small matrix product after it, and so time for the rest (cu_attention_after). */
CU_FN int32_t attend_first(const struct cu_part *part)
{
	return part->n_blocks - 1 - part->block;
}

/* Makes the plan of the part's op; all threads of the block call it. *p is a kept plan, or has rows
 * NULL. */
CU_FN void attend_make_plan(struct attend_plan *p, const struct cu_part *part)
{
	const struct k_attention *a = &part->stage->op.u.attention;
	const struct cu_step *step = part->step;
	uint64_t bytes;

	CU_SYNC();
	if (p->rows == a->rows && p->ranges == a->ranges && p->n == a->n &&
		p->n_ranges == a->n_ranges && p->kv_from == a->kv && p->n_heads == a->n_heads &&
		p->observed == (a->share || a->near_zero) && p->all_heads == attend_all_heads(a))
		return;
	CU_SYNC();
	if (cu_thread() == 0) {
		attend_describe(p, a);
		p->split = (int64_t)p->n * (p->kv.n_kv_heads + 1) <= step->n_tickets;
	}
	CU_SYNC();
	attend_count(p);
	bytes = (uint64_t)p->records[ATTEND_PARTS] * (uint64_t)(p->n_heads * p->record) * sizeof(float);
	if (p->split && bytes > step->scratch_bytes) {
		CU_SYNC();
		if (cu_thread() == 0)
			p->split = false;
		CU_SYNC();
		attend_count(p);
	}
	if (cu_thread() == 0) {
		p->n_mine = attend_find(p, attend_first(part), &p->mine[0]);
		p->n_mine += attend_find(p, attend_first(part) + part->n_blocks, &p->mine[1]);
	}
	CU_SYNC();
}

/* Unit `index`, which is the block's own `nth`. */
CU_FN bool attend_mine(
	const struct attend_plan *p, int32_t index, int32_t nth, struct attend_unit *u)
{
	if (nth >= 2)
		return attend_find(p, index, u);
	if (nth < p->n_mine)
		*u = p->mine[nth];
	return nth < p->n_mine;
}

/* Record of the first span that row r sees, and head; the next span that it sees is
 * attend_record_step() floats later. A record has maximum and sum; at ATTEND_HEAD the values
 * [head_dim]; if the op is observed, the sums of the groups [8] and the probabilities [128]. */
CU_FN float *attend_record(
	const struct attend_plan *p, unsigned char *scratch, int32_t r, int32_t head)
{
	int32_t part = r / p->rows_per_part;
	size_t at = (size_t)p->records[part];

	for (int32_t i = part * p->rows_per_part; i < r; i++)
		at += (size_t)attend_row_spans(p, i);
	return (float *)scratch + (at * (size_t)p->n_heads + (size_t)head) * (size_t)p->record;
}
CU_FN size_t attend_record_step(const struct attend_plan *p)
{
	return (size_t)p->n_heads * (size_t)p->record;
}

#endif

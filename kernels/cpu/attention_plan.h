/* Private to kernels/: how an attention op is split over threads. The same for every instruction
 * set.
 *
 * A tile is a few consecutive rows of one sequence; an item is a tile under one kv head: its
 * queries are the tile's rows times the heads that share the kv head. The spans that its hull
 * touches (visible.h), numbered from 0, are its units of work; all units of the op, item after
 * item, are cut into one contiguous piece per thread. So an item may begin in one thread and end in
 * another: spans are merged in ascending order (rule 11): the thread that has unit 0 merges as it
 * goes, while the others keep their spans' partial results in their scratch; the last thread to end
 * merges those. This is the split of Flash-Decoding (Dao et al. 2023): one row's heads alone would
 * not keep many threads busy; K_ATTEND_HEADS does without.
 *
 * Invariants: 1. Of the items that thread t works on, only the first can have begun in another
 * thread, and only the last can end in another. 2. The plan is a function of the op and the number
 * of threads: every thread can compute every other's part. */
#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/visible.h"

enum { ATTEND_QUERIES = 6 }; /* a tile's queries, unless one row has more */

struct attend_plan {
	const struct k_attention *a;
	int32_t n_rep; /* query heads of a kv head */
	int32_t rows_per_tile;
	int32_t max_queries; /* of an item */
	int32_t stride;      /* the same, rounded up to a vector's lanes */
	int32_t max_spans;   /* of an item */
	int32_t max_tail;    /* most spans of an item in a thread that lacks its first span */
	bool observed;
	int n_threads;
	int64_t n_units;
};

struct attend_item {
	int32_t kv_head, row, n_rows, n_queries;
	int32_t n_spans;
	int64_t first_unit;
	struct k_hull seen; /* by its rows */
	int32_t coded_end;  /* positions that its rows read as codes by channel */
};

/* A thread's share of one item: units lo … hi - 1. */
struct attend_piece {
	int tid;
	int32_t lo, hi;
};

/* What a thread keeps of an item, in its scratch. Queries are numbered row by row, head by head. */
struct attend_store {
	float *q;       /* [max_queries, head_dim] */
	float *sink_q;  /* likewise, for the first positions; NULL: q */
	float *s;       /* [max_queries, 128] scores of the current span, where p is not kept */
	float *fold;    /* [queries of a tile, head_dim or 128] with scales of codes */
	float *values;  /* [128, value_dim] of a span whose values are part of the keys; else NULL */
	float *o;       /* [max_queries, head_dim] merged so far */
	float *max, *l; /* [stride] */
	float *part_o;  /* [spans, max_queries, head_dim]: 1 span at the head of an item, all of a tail
					 */
	float *part_l;  /* [spans, stride] */
	float *m;       /* [spans, stride] maximum of each span */
	float *p;       /* [spans, max_queries, 128], if the op is observed */
	float *sums;    /* [spans, max_queries, 8] sums of groups, likewise */
};

/* False if the op's shapes need more scratch than there is. */
bool attend_plan(struct attend_plan *p, const struct k_attention *a, int n_threads);

/* Items in order of their units. attend_first: *item is the first of the op; attend_next: the next;
 * both false after the last. */
bool attend_first(const struct attend_plan *p, struct attend_item *item);
bool attend_next(const struct attend_plan *p, struct attend_item *item);

/* Units [*lo, *hi) of thread tid. */
void attend_share(const struct attend_plan *p, int tid, int64_t *lo, int64_t *hi);
/* Units of the item that thread tid has; none: hi <= lo. */
struct attend_piece attend_piece_of(
	const struct attend_plan *p, const struct attend_item *item, int tid);
/* The store of thread tid's piece: tails (lo > 0) have one, all other pieces another. */
struct attend_store attend_store_of(const struct attend_plan *p, void *scratch, bool tail);

static inline int32_t attend_row_of(
	const struct attend_plan *p, const struct attend_item *item, int32_t query)
{
	return item->row + query / p->n_rep;
}

static inline int32_t attend_head_of(
	const struct attend_plan *p, const struct attend_item *item, int32_t query)
{
	return item->kv_head * p->n_rep + query % p->n_rep;
}

/* The span of unit `unit` of the item. */
static inline int32_t attend_span(const struct attend_item *item, int32_t unit)
{
	return k_span_at(item->seen.run, K_HULL, unit);
}

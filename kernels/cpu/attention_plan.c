/* See attention_plan.h. Thread: called by all threads of a pool; no state. */
#include "kernels/cpu/attention_plan.h"
#include "kernels/format/codes.h"

/* Positions that row r reads as codes by channel, from 0 on. */
static int32_t coded_end(const struct attend_plan *p, int32_t r)
{
	return p->a->recent ? k_coded_end(p->a->kv, p->a->rows[r].pos) : 0;
}

/* Rows of the tile that begins at row r. */
static int32_t tile_rows(const struct attend_plan *p, int32_t r)
{
	const struct k_row *rows = p->a->rows;
	int32_t n = 1;

	while (n < p->rows_per_tile && r + n < p->a->n && rows[r + n].seq == rows[r].seq &&
		   coded_end(p, r + n) == coded_end(p, r))
		n++;
	return n;
}

static void fill_item(const struct attend_plan *p, struct attend_item *item)
{
	item->n_rows = tile_rows(p, item->row);
	item->n_queries = item->n_rows * p->n_rep;
	item->coded_end = coded_end(p, item->row);
	item->seen = (struct k_hull){ 0 };
	for (int32_t r = item->row; r < item->row + item->n_rows; r++)
		k_hull_row(&item->seen, p->a, r);
	item->n_spans = k_spans(item->seen.run, K_HULL);
}

bool attend_first(const struct attend_plan *p, struct attend_item *item)
{
	*item = (struct attend_item){ 0 };
	if (!p->a->n)
		return false;
	fill_item(p, item);
	return true;
}

bool attend_next(const struct attend_plan *p, struct attend_item *item)
{
	item->first_unit += item->n_spans;
	item->row += item->n_rows;
	if (item->row >= p->a->n) {
		item->row = 0;
		item->kv_head++;
	}
	if (item->kv_head >= p->a->kv->n_kv_heads)
		return false;
	if (item->n_rows < p->a->n) /* else it is the same tile, for the next head */
		fill_item(p, item);
	return true;
}

void attend_share(const struct attend_plan *p, int tid, int64_t *lo, int64_t *hi)
{
	k_split(p->n_units, tid, p->n_threads, lo, hi);
}

struct attend_piece attend_piece_of(
	const struct attend_plan *p, const struct attend_item *item, int tid)
{
	int64_t lo, hi, end = item->first_unit + item->n_spans;

	attend_share(p, tid, &lo, &hi);
	if (p->a->way == K_ATTEND_HEADS)
		return (struct attend_piece){ tid, 0,
			item->first_unit >= lo && item->first_unit < hi ? item->n_spans : 0 };
	lo = lo > item->first_unit ? lo : item->first_unit;
	hi = hi < end ? hi : end;
	return (struct attend_piece){ tid, (int32_t)(lo - item->first_unit),
		(int32_t)(hi - item->first_unit) };
}

/* Whole cache lines. */
static float *take(float **at, size_t n)
{
	float *p = *at;

	*at += k_align(n, 16);
	return p;
}

/* Floats that a tile's queries or probabilities take with scales of codes in them. */
static int32_t fold_floats(const struct attend_plan *p)
{
	const int32_t dim = p->a->kv->head_dim;

	return k_cache_bits(p->a->kv->format) ? ATTEND_QUERIES * k_max(dim, K_SPAN) : 0;
}

/* Lays out one store from *at on. */
static struct attend_store lay_out(const struct attend_plan *p, float **at, bool tail)
{
	const size_t queries = (size_t)p->max_queries, head_dim = (size_t)p->a->kv->head_dim;
	const size_t stride = (size_t)p->stride;
	const size_t spans = (size_t)(tail ? p->max_tail : p->max_spans), parts = tail ? spans : 1;
	struct attend_store s;

	s.q = take(at, queries * head_dim);
	s.sink_q = p->a->sink_q ? take(at, queries * head_dim) : NULL;
	s.s = take(at, queries * K_SPAN);
	s.fold = take(at, (size_t)fold_floats(p));
	s.values = p->a->kv->value_dim ? take(at, K_SPAN * (size_t)p->a->kv->value_dim) : NULL;
	s.o = take(at, queries * head_dim);
	s.max = take(at, stride);
	s.l = take(at, stride);
	s.part_o = take(at, parts * queries * head_dim);
	s.part_l = take(at, parts * stride);
	s.m = take(at, spans * stride);
	s.p = p->observed ? take(at, spans * queries * K_SPAN) : NULL;
	s.sums = p->observed ? take(at, spans * queries * (K_SPAN / K_GROUP)) : NULL;
	return s;
}

struct attend_store attend_store_of(const struct attend_plan *p, void *scratch, bool tail)
{
	float *at = scratch;
	struct attend_store head = lay_out(p, &at, false);

	return tail ? lay_out(p, &at, true) : head;
}

/* Floats of scratch that the plan needs, in double so that nothing overflows. */
static double floats_needed(const struct attend_plan *p)
{
	double q = p->max_queries, d = p->a->kv->head_dim, spans = p->max_spans, tail = p->max_tail;
	double kept = p->stride + (p->observed ? q * (K_SPAN + K_SPAN / K_GROUP) : 0);

	return 2 * (q * (3 * d + K_SPAN) + 2 * p->stride + fold_floats(p) + 10 * 16 +
				   (double)K_SPAN * p->a->kv->value_dim) +
		   q * d + p->stride + spans * kept + tail * (q * d + p->stride + kept);
}

static bool is_observed(const struct k_attention *a)
{
	bool observed = a->attn_score != NULL;

	for (int32_t r = 0; r < a->n; r++)
		observed = observed || (a->rows[r].observe >= 0 && (a->share || a->near_zero));
	return observed;
}

bool k_together(const struct k_op *op)
{
	return op->kind == K_OP_stats ||
		   (op->kind == K_OP_attention && is_observed(&op->u.attention)) ||
		   (op->kind == K_OP_pick && k_pick_is_shared(&op->u.pick));
}

bool attend_plan(struct attend_plan *p, const struct k_attention *a, int n_threads)
{
	struct attend_item item;

	*p = (struct attend_plan){ .a = a, .n_threads = n_threads };
	p->n_rep = a->n_heads / a->kv->n_kv_heads;
	p->rows_per_tile = p->n_rep < ATTEND_QUERIES ? ATTEND_QUERIES / p->n_rep : 1;
	for (bool more = attend_first(p, &item); more; more = attend_next(p, &item)) {
		p->max_queries = k_max(item.n_queries, p->max_queries);
		p->max_spans = k_max(item.n_spans, p->max_spans);
		p->n_units = item.first_unit + item.n_spans;
	}
	p->stride = k_up(p->max_queries, 8);
	p->observed = is_observed(a);
	p->max_tail = (int32_t)(p->n_units / n_threads + 1);
	p->max_tail = k_min(p->max_tail, p->max_spans);
	return floats_needed(p) * sizeof(float) <= (double)K_SCRATCH_BYTES;
}

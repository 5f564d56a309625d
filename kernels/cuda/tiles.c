/* See tiles.h. Thread: any; no state. */
#include "kernels/cuda/tiles.h"

#include <string.h>

struct cu_sights cu_sights_of(const struct k_attention *a)
{
	return (struct cu_sights){ .rows = a->rows,
		.ranges = a->ranges,
		.pages = a->pages,
		.kv = a->kv,
		.n = a->n,
		.n_ranges = a->n_ranges,
		.n_heads = a->n_heads,
		.all_heads = a->out.q && a->kv->head_dim % K_QBLOCK,
		.observed = a->share || a->near_zero,
		.whole = a->way == K_ATTEND_HEADS };
}

/* Queries that attention_few.cuh takes of a tile, at most; 0: its keys and values do not fit. */
static int32_t few_queries(const struct k_kv *kv)
{
	if (kv->head_dim * k_cache_bytes(kv->format) > CU_FEW_BYTES || kv->head_dim > 256)
		return 0;
	return CU_FEW_QUERIES < 256 / kv->head_dim * 8 ? CU_FEW_QUERIES : 256 / kv->head_dim * 8;
}

int cu_attend_kernels(const struct cu_sights *s)
{
	const int32_t n_rep = s->n_heads / s->kv->n_kv_heads, most = few_queries(s->kv);

	if (n_rep > most)
		return CU_ATTEND_MANY;
	return s->n <= CU_FOLD_ROWS && s->n * n_rep <= most && !s->all_heads && !s->whole
			   ? CU_ATTEND_FEW
			   : CU_ATTEND_FEW | CU_ATTEND_MANY;
}

static int32_t row_spans(const struct cu_sights *s, int32_t r)
{
	return k_spans(s->ranges + (size_t)r * (size_t)s->n_ranges, s->n_ranges);
}

static int64_t all_spans(const struct cu_sights *s)
{
	int64_t spans = 0;

	for (int32_t r = 0; r < s->n; r++)
		spans += row_spans(s, r);
	return spans;
}

uint64_t cu_tiles_bytes(const struct cu_sights *s)
{
	return (uint64_t)(all_spans(s) * s->n_heads * cu_record_floats(s->kv->head_dim, s->observed)) *
		   sizeof(float);
}

bool cu_tiles_split(const struct cu_sights *s, const struct cu_work *work, int32_t *most)
{
	const bool split = !s->whole && (int64_t)s->n * (s->kv->n_kv_heads + 1) <= work->n_tickets &&
					   cu_tiles_bytes(s) <= work->scratch_bytes;

	*most = split ? (int32_t)all_spans(s) : s->n;
	return split;
}

/* Rows of a tile, at most. */
static int32_t most_rows(const struct cu_sights *s)
{
	const int32_t n = CU_TILE_QUERIES / (s->n_heads / s->kv->n_kv_heads);

	return n > CU_FOLD_ROWS ? n : CU_FOLD_ROWS;
}

/* The tile that begins at row r, with all its spans. */
static void tile_at(const struct cu_sights *s, int32_t r, struct cu_tile *t)
{
	const int32_t most = most_rows(s);
	int32_t end = r;

	memset(t, 0, sizeof *t);
	do {
		for (int32_t i = 0; i < s->n_ranges; i++)
			k_hull_add(&t->seen, s->ranges[end * s->n_ranges + i]);
		if (end - r < CU_FOLD_ROWS) {
			t->pos[end - r] = s->rows[end].pos;
			t->observe[end - r] = s->rows[end].observe;
		}
		end++;
	} while (end < s->n && end % most && s->rows[end].seq == s->rows[r].seq);
	t->row = r;
	t->n_rows = end - r;
	t->seq = s->rows[r].seq;
	t->n_spans = t->hi = k_spans(t->seen.run, K_HULL);
}

/* What a unit says of its first span. */
static void describe_span(const struct cu_sights *s, struct cu_tile *t)
{
	const int32_t *pages = s->pages[t->seq];

	t->span = k_span_at(t->seen.run, K_HULL, t->lo);
	t->n_tokens = k_hull_tokens(&t->seen, t->span);
	for (int32_t g = 0; g < K_SPAN_GROUPS; g++) {
		const int32_t pos = t->span * K_SPAN + g * K_GROUP;

		t->page[g] =
			k_hull_meets(&t->seen, pos, pos + K_GROUP) ? pages[pos / s->kv->page_size] : -1;
	}
}

void cu_tiles_make(
	const struct cu_sights *s, struct cu_tiles *to, struct cu_tile *tile, int32_t *record)
{
	const int32_t n_rep = s->n_heads / s->kv->n_kv_heads;
	int32_t spans = 0;
	struct cu_tile t;

	to->kv = *s->kv;
	to->n = to->kernels = 0;
	for (int32_t r = 0; r < s->n; r++) {
		record[r] = spans;
		spans += row_spans(s, r);
	}
	for (int32_t r = 0; r < s->n; r += t.n_rows) {
		tile_at(s, r, &t);
		t.few = t.n_rows <= CU_FOLD_ROWS && t.n_rows * n_rep <= few_queries(s->kv) &&
				(to->split || (t.n_spans == 1 && !s->all_heads));
		to->kernels |= t.few ? CU_ATTEND_FEW : CU_ATTEND_MANY;
		for (int32_t i = 0; i < (to->split ? t.n_spans : 1); i++) {
			if (to->split) {
				t.lo = i;
				t.hi = i + 1;
			}
			describe_span(s, &t);
			tile[to->n++] = t;
		}
	}
}

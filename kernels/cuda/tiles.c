/* See tiles.h. Thread: any; no state. */
#include "kernels/cuda/tiles.h"

#include <string.h>

struct cu_masks cu_masks_of(const struct k_attention *a)
{
	return (struct cu_masks){ .rows = a->rows,
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

static int32_t log2_up(int32_t n)
{
	int32_t log = 0;

	while (1 << log < n)
		log++;
	return log;
}

struct cu_attention cu_attention_of(
	const struct cu_masks *s, const struct k_attention *a, const struct k_rope *rope)
{
	const struct k_kv *kv = s->kv;
	struct cu_attention to = { .over_kv_heads = cu_reciprocal(kv->n_kv_heads),
		.over_rep = cu_reciprocal(s->n_heads / kv->n_kv_heads),
		.n_kv_heads = kv->n_kv_heads,
		.n_heads = s->n_heads,
		.n_rep = s->n_heads / kv->n_kv_heads,
		.head_dim = kv->head_dim,
		.layer = a->layer,
		.format = kv->format,
		.log_quads = log2_up(kv->head_dim / 4),
		.log_columns = log2_up(kv->head_dim * k_cache_bytes(kv->format) / 16),
		.log_slices = log2_up(k_pieces(kv->head_dim, 32)),
		.n_ranges = s->n_ranges,
		.folds = rope != NULL,
		.observed = s->observed,
		.all_heads = s->all_heads,
		.q = a->q,
		.ranges = a->ranges,
		.softcap = a->softcap,
		.threshold = a->threshold,
		.sinks = a->sinks,
		.share = a->share,
		.near_zero = a->near_zero,
		.share_stride = a->share_stride,
		.n = a->n,
		.out = a->out,
		.rows = a->rows,
		.pages = a->pages };

	if (rope)
		to.rope = *rope;
	return to;
}

/* Queries that attention_few.cuh takes of a tile, at most; 0: its keys do not fit, or a token's are
 * not in words of 16 bytes. */
static int32_t few_queries(const struct k_kv *kv)
{
	const int32_t bytes = kv->head_dim * k_cache_bytes(kv->format);

	return bytes <= CU_FEW_BYTES && kv->head_dim <= CU_FEW_DIMS && bytes % 16 == 0 &&
				   kv->head_dim % 4 == 0
			   ? CU_FEW_QUERIES
			   : 0;
}

int cu_attend_kernels(const struct cu_masks *s)
{
	const int32_t n_rep = s->n_heads / s->kv->n_kv_heads, most = few_queries(s->kv);

	if (n_rep > most)
		return CU_ATTEND_MANY;
	return s->n <= CU_FOLD_ROWS && s->n * n_rep <= most && !s->all_heads && !s->whole
			   ? CU_ATTEND_FEW
			   : CU_ATTEND_FEW | CU_ATTEND_MANY;
}

static int32_t row_spans(const struct cu_masks *s, int32_t r)
{
	return k_spans(s->ranges + (size_t)r * (size_t)s->n_ranges, s->n_ranges);
}

static int64_t all_spans(const struct cu_masks *s)
{
	int64_t spans = 0;

	for (int32_t r = 0; r < s->n; r++)
		spans += row_spans(s, r);
	return spans;
}

uint64_t cu_tiles_bytes(const struct cu_masks *s)
{
	return (uint64_t)(all_spans(s) * s->n_heads * cu_record_floats(s->kv->head_dim, s->observed)) *
		   sizeof(float);
}

bool cu_tiles_split(const struct cu_masks *s, const struct cu_work *work, int32_t *most)
{
	const bool split = !s->whole && (int64_t)s->n * (s->kv->n_kv_heads + 1) <= work->n_tickets &&
					   cu_tiles_bytes(s) <= work->scratch_bytes;

	*most = split ? (int32_t)all_spans(s) : s->n;
	return split;
}

/* Rows of a tile, at most. */
static int32_t most_rows(const struct cu_masks *s)
{
	const int32_t n = CU_TILE_QUERIES / (s->n_heads / s->kv->n_kv_heads);

	return k_max(n, CU_FOLD_ROWS);
}

/* The tile that begins at row r, with all its spans. */
static void tile_at(const struct cu_masks *s, int32_t r, struct cu_tile *t)
{
	const int32_t most = most_rows(s);
	struct cu_tile_head *h = &t->head;
	int32_t end = r;

	memset(t, 0, sizeof *t);
	do {
		for (int32_t i = 0; i < s->n_ranges; i++)
			k_hull_add(&h->seen, s->ranges[end * s->n_ranges + i]);
		end++;
	} while (end < s->n && end % most && s->rows[end].seq == s->rows[r].seq);
	h->row = r;
	h->n_rows = end - r;
	h->n_spans = h->hi = k_spans(h->seen.run, K_HULL);
	h->head_bytes = s->kv->page_size * s->kv->head_dim * k_cache_bytes(s->kv->format);
}

/* What a unit says of its first span. */
static void describe_span(const struct cu_masks *s, const int32_t *record, struct cu_tile *t)
{
	struct cu_tile_head *h = &t->head;
	const int32_t *pages = s->pages[s->rows[h->row].seq], size = s->kv->page_size;

	h->span = k_span_at(h->seen.run, K_HULL, h->lo);
	h->n_tokens = k_hull_tokens(&h->seen, h->span);
	memset(&t->any, 0, sizeof t->any);
	for (int32_t r = 0; r < h->n_rows; r++) {
		const struct k_range *list = s->ranges + (h->row + r) * s->n_ranges;
		const struct k_bits bits = k_bits_of(list, s->n_ranges, h->span);
		const int32_t number = k_spans_before(list, s->n_ranges, h->span);

		for (int32_t w = 0; w < K_BITS; w++)
			t->any.word[w] |= bits.word[w];
		if (r < CU_FOLD_ROWS)
			t->row[r] = (struct cu_tile_row){ .pos = s->rows[h->row + r].pos,
				.observe = s->rows[h->row + r].observe,
				.number = number,
				.record = record[h->row + r] + number,
				.bits = bits };
	}
	for (int32_t g = 0; g < K_SPAN_GROUPS; g++) {
		const int32_t pos = h->span * K_SPAN + g * K_GROUP;
		const int32_t page = k_bits_group(&t->any, g) ? pages[pos / size] : -1;

		t->group[g] = page < 0 ? NULL
							   : s->kv->base + (size_t)page * s->kv->page_bytes +
									 (size_t)(h->head_bytes / size * (pos % size));
	}
}

void cu_tiles_make(
	const struct cu_masks *s, struct cu_tiles *to, struct cu_tile *tile, int32_t *record)
{
	const int32_t n_rep = s->n_heads / s->kv->n_kv_heads;
	int32_t spans = 0;
	struct cu_tile t;
	struct cu_tile_head *h = &t.head;

	to->kv = *s->kv;
	to->n = to->kernels = 0;
	memset(to->first, 0, sizeof to->first);
	for (int32_t r = 0; r < s->n; r++) {
		record[r] = spans;
		spans += row_spans(s, r);
	}
	for (int32_t r = 0; r < s->n; r += h->n_rows) {
		tile_at(s, r, &t);
		h->few = h->n_rows <= CU_FOLD_ROWS && h->n_rows * n_rep <= few_queries(s->kv) &&
				 (to->split || (h->n_spans == 1 && !s->all_heads));
		h->direct = h->n_spans == 1 && !(s->all_heads && to->split);
		h->split = to->split && !h->direct;
		to->kernels |= h->few ? CU_ATTEND_FEW : CU_ATTEND_MANY;
		for (int32_t i = 0; i < (to->split ? h->n_spans : 1); i++) {
			if (to->split) {
				h->lo = i;
				h->hi = i + 1;
			}
			describe_span(s, record, &t);
			tile[to->n++] = t;
		}
	}
	for (int32_t i = 0; i < to->n; i++)
		tile[i].head.n_tiles = to->n;
	memcpy(to->first, tile, (size_t)k_min(to->n, CU_FIRST_TILES) * sizeof t);
}

/* Attention (rule 11) for one instruction set: included behind the definitions that attention_mix.h
 * wants, and of mix_table (by queries and lanes / 16) and mix_widths (the most lanes a tile of nq
 * queries takes). Which thread does what is in attention_plan.h. Thread: called by all threads of a
 * pool; op->ticket counts those that have ended, and then the merge. */
#include "kernels/attention_plan.h"
#include "kernels/avx2.h"

struct work {
	const struct attend_plan *plan;
	const struct attend_item *item;
	struct attend_store store;
	const int32_t *pages;
	/* what will be read behind the span at hand: keys of this head from this position on */
	const int32_t *next_pages;
	int32_t next_head, next_first, next_last; /* no more if next_last < next_first */
};

static const uint16_t *cache_at(const struct work *w, const int32_t *pages, int32_t head, int32_t pos,
								int want_v)
{
	const struct k_kv *kv = w->plan->a->kv;
	const uint16_t *at =
		k_kv_at(kv, pages[pos / kv->page_size], w->plan->a->layer, want_v, head);

	return at + (size_t)(pos % kv->page_size) * (size_t)kv->head_dim; /* K: pos is a group's first */
}

/* Lanes / 16 of the next tile, of those that are left: 1, 2 or 4. */
static int32_t tile_of(int32_t left, int32_t nq)
{
	const int32_t most = mix_widths[nq] / 16;

	return left >= 4 && most >= 4 ? 4 : left >= 2 && most >= 2 ? 2 : 1;
}

/* Scores of nq queries (at most ATTEND_QUERIES) with the first n_groups groups of a span. s: [nq,
 * 128]. */
static void span_scores(const struct work *w, int32_t first, int32_t n_groups, int32_t query,
						int32_t nq, float *s)
{
	const int32_t head_dim = w->plan->a->kv->head_dim;
	const float *q = w->store.q + (size_t)query * (size_t)head_dim;
	struct mix_lanes b = {.n = head_dim, .run = head_dim, .stride = K_GROUP};

	for (int32_t g = 0, n; g < n_groups; g += n) {
		n = tile_of(n_groups - g, nq);
		for (int32_t i = 0; i < n; i++) {
			int32_t pos = first + (g + i) * K_GROUP;

			b.at[0].ptr[i] = cache_at(w, w->pages, w->item->kv_head, pos, 0);
			b.at[0].ahead[i] = cache_at(w, w->pages, w->item->kv_head, pos, 1);
		}
		mix_table[nq][n](&b, q, (size_t)head_dim, s + g * K_GROUP, K_SPAN);
	}
}

/* o [nq, head_dim] = weighted sums of the first n_tokens values of a span; p: [nq, 128]. */
static void span_values(const struct work *w, int32_t first, int32_t n_tokens, int32_t nq,
						const float *p, float *o)
{
	const int32_t head_dim = w->plan->a->kv->head_dim;
	struct mix_lanes b = {.n = n_tokens, .run = K_GROUP, .stride = (size_t)head_dim};
	const uint16_t *value[K_SPAN / K_GROUP], *next[K_SPAN / K_GROUP];

	for (int32_t t = 0; t < n_tokens; t += K_GROUP) {
		value[t / K_GROUP] = next[t / K_GROUP] =
			cache_at(w, w->pages, w->item->kv_head, first + t, 1);
		if (w->next_first + t <= w->next_last)
			next[t / K_GROUP] = cache_at(w, w->next_pages, w->next_head, w->next_first + t, 0);
	}
	for (int32_t d = 0, n; d < head_dim; d += 16 * n) {
		n = tile_of((head_dim - d) / 16, nq);
		for (int32_t g = 0; g * K_GROUP < n_tokens; g++)
			for (int32_t i = 0; i < n; i++) {
				b.at[g].ptr[i] = value[g] + d + 16 * i;
				b.at[g].ahead[i] = next[g] + (d + 16 * i) * K_GROUP;
			}
		mix_table[nq][n](&b, p, K_SPAN, o + d, (size_t)head_dim);
	}
}

/* Lanes t … t + 7 that are visible. */
static inline __m256 seen_lanes(int32_t visible, int32_t t)
{
	const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

	return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(visible - t), lanes));
}

/* The maximum of the visible scores, in which a NaN never wins. */
static float span_max(const float *s, int32_t visible)
{
	__m256 max = _mm256_set1_ps(-INFINITY);
	float lane[8], m = -INFINITY;
	int32_t t = 0;

	for (; t + 8 <= visible; t += 8)
		max = _mm256_max_ps(_mm256_loadu_ps(s + t), max);
	if (t < visible)
		max = _mm256_max_ps(_mm256_blendv_ps(_mm256_set1_ps(-INFINITY), _mm256_loadu_ps(s + t),
											 seen_lanes(visible, t)),
							max);
	_mm256_storeu_ps(lane, max);
	for (int i = 0; i < 8; i++)
		m = lane[i] > m ? lane[i] : m;
	return m;
}

/* Scores of one query to probabilities, in place: +0 where invisible, to the end of n_groups.
 * Returns l; *m is the maximum; sums of groups go to `sums`. */
static float span_softmax(float *s, int32_t visible, int32_t n_groups, float softcap, float *m,
						  float *sums)
{
	const int32_t n_seen = (visible + K_GROUP - 1) / K_GROUP;
	__m256 max;
	float l = 0;

	for (int32_t t = 0; softcap > 0 && t < visible; t += 8)
		_mm256_storeu_ps(s + t, v_softcap(_mm256_loadu_ps(s + t), _mm256_set1_ps(softcap)));
	*m = span_max(s, visible);
	max = _mm256_set1_ps(*m);
	for (int32_t g = 0; g < n_seen; g++) {
		float *at = s + g * K_GROUP, sum;
		__m256 lo = v_exp(_mm256_sub_ps(_mm256_loadu_ps(at), max));
		__m256 hi = v_exp(_mm256_sub_ps(_mm256_loadu_ps(at + 8), max));

		if ((g + 1) * K_GROUP > visible) {
			lo = _mm256_and_ps(lo, seen_lanes(visible, g * K_GROUP));
			hi = _mm256_and_ps(hi, seen_lanes(visible, g * K_GROUP + 8));
		}
		_mm256_storeu_ps(at, lo);
		_mm256_storeu_ps(at + 8, hi);
		sum = v_tree8(_mm256_add_ps(lo, hi));
		l += sum;
		if (sums)
			sums[g] = sum;
	}
	for (int32_t t = n_seen * K_GROUP; t < n_groups * K_GROUP; t += 8)
		_mm256_storeu_ps(s + t, _mm256_setzero_ps());
	return l;
}

static float *share_of(const struct attend_plan *p, const struct attend_item *item, int32_t query)
{
	const struct k_attention *a = p->a;
	int32_t observe = a->rows[attend_row_of(p, item, query)].observe;

	if (observe < 0 || !a->share)
		return NULL;
	return a->share +
		   ((size_t)observe * (size_t)a->n_heads + (size_t)attend_head_of(p, item, query)) *
			   (size_t)a->share_stride;
}

/* One span for all queries of the item: m, l, o (and p) at index `at` of the store. */
static void do_span(const struct work *w, int32_t span, int32_t at, int32_t at_part)
{
	const struct attend_plan *p = w->plan;
	const struct attend_store *st = &w->store;
	const int32_t first = span * K_SPAN, n_tokens = attend_visible(w->item->last_pos, span);
	const int32_t n_groups = (n_tokens + K_GROUP - 1) / K_GROUP;
	const size_t head_dim = (size_t)p->a->kv->head_dim;
	float *s = st->p ? st->p + (size_t)at * (size_t)p->max_queries * K_SPAN : st->s;

	for (int32_t q = 0; q < w->item->n_queries; q += ATTEND_QUERIES) {
		int32_t nq =
			w->item->n_queries - q < ATTEND_QUERIES ? w->item->n_queries - q : ATTEND_QUERIES;

		span_scores(w, first, n_groups, q, nq, s + q * K_SPAN);
		for (int32_t i = q; i < q + nq; i++) {
			int32_t pos = p->a->rows[attend_row_of(p, w->item, i)].pos;
			float *sums = st->sums ? st->sums + (at * p->max_queries + i) * 8 : NULL;

			st->part_l[at_part * p->stride + i] =
				span_softmax(s + i * K_SPAN, attend_visible(pos, span), n_groups, p->a->softcap,
							 &st->m[at * p->stride + i], sums);
		}
		span_values(w, first, n_tokens, nq, s + q * K_SPAN,
					st->part_o + ((size_t)at_part * (size_t)p->max_queries + (size_t)q) * head_dim);
	}
}

/* Rule 11's merge of eight queries' sums: the new maxima and L, and the factors of both sides. */
static inline void merge_sums(float *max, float *l, const float *m, const float *part_l, float *c,
							  float *e)
{
	__m256 vmax = _mm256_loadu_ps(max), vm = _mm256_loadu_ps(m), n = _mm256_max_ps(vmax, vm);
	__m256 vc = v_exp(_mm256_sub_ps(vmax, n)), ve = v_exp(_mm256_sub_ps(vm, n));

	_mm256_storeu_ps(
		l, _mm256_fmadd_ps(vc, _mm256_loadu_ps(l), _mm256_mul_ps(ve, _mm256_loadu_ps(part_l))));
	_mm256_storeu_ps(max, n);
	_mm256_storeu_ps(c, vc);
	_mm256_storeu_ps(e, ve);
}

static inline void merge_values(float *o, const float *part, float c, float e, int32_t head_dim)
{
	for (int32_t i = 0; i < head_dim; i += 8) {
		__m256 v = _mm256_mul_ps(_mm256_set1_ps(e), _mm256_loadu_ps(part + i));

		_mm256_storeu_ps(o + i, _mm256_fmadd_ps(_mm256_set1_ps(c), _mm256_loadu_ps(o + i), v));
	}
}

/* Eight queries from q on, of which `n` are there: the rows that see the span. (Rows of a tile
 * ascend or not: those that do not see it keep what they have.) */
static void merge_eight(const struct attend_plan *p, const struct attend_item *item,
						const struct attend_store *to, const struct attend_store *from,
						int32_t span, int32_t at, int32_t at_part, int32_t q0)
{
	const int32_t head_dim = p->a->kv->head_dim;
	const float *m = from->m + at * p->stride + q0,
				*part_l = from->part_l + at_part * p->stride + q0;
	float max[8], l[8], c[8], e[8];

	memcpy(max, to->max + q0, sizeof max);
	memcpy(l, to->l + q0, sizeof l);
	merge_sums(max, l, m, part_l, c, e);
	for (int32_t q = q0; q < item->n_queries && q < q0 + 8; q++) {
		float *o = to->o + (size_t)q * (size_t)head_dim;
		const float *part = from->part_o + ((size_t)at_part * (size_t)p->max_queries + (size_t)q) *
											   (size_t)head_dim;

		if (span == 0) {
			memcpy(o, part, (size_t)head_dim * sizeof *o);
			to->max[q] = m[q - q0];
			to->l[q] = part_l[q - q0];
		} else if (attend_visible(p->a->rows[attend_row_of(p, item, q)].pos, span)) {
			merge_values(o, part, c[q - q0], e[q - q0], head_dim);
			to->max[q] = max[q - q0];
			to->l[q] = l[q - q0];
		}
	}
}

/* Merges span `span`, at index `at` (its sums: at_part) of `from`. */
static void merge_span(const struct attend_plan *p, const struct attend_item *item,
					   const struct attend_store *to, const struct attend_store *from, int32_t span,
					   int32_t at, int32_t at_part)
{
	for (int32_t q = 0; q < item->n_queries; q += 8)
		merge_eight(p, item, to, from, span, at, at_part, q);
}

static bool is_observed(const struct attend_plan *p, const struct attend_item *item, int32_t query)
{
	return p->observed && p->a->rows[attend_row_of(p, item, query)].observe >= 0;
}

static int32_t *near_zero_of(const struct attend_plan *p, const struct attend_item *item,
							 int32_t query)
{
	const struct k_attention *a = p->a;
	size_t observe = (size_t)a->rows[attend_row_of(p, item, query)].observe;

	return a->near_zero + observe * (size_t)a->n_heads + (size_t)attend_head_of(p, item, query);
}

/* What is being observed of one query. */
struct watch {
	int32_t pos;
	float inv_l, *share; /* NULL: no shares */
	__m256i low;		 /* visible probabilities below the threshold, by lane */
};

/* Adds the visible probabilities of a span that stay below the threshold. */
static inline void count_low(struct watch *w, const float *p, int32_t visible, float e,
							 float threshold)
{
	const __m256 ve = _mm256_set1_ps(e), vl = _mm256_set1_ps(w->inv_l);
	const __m256 vt = _mm256_set1_ps(threshold);
	__m256i low = w->low;
	int32_t t = 0;

	for (; t + 8 <= visible; t += 8) {
		__m256 v = _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(p + t), ve), vl);

		low = _mm256_sub_epi32(low, _mm256_castps_si256(_mm256_cmp_ps(v, vt, _CMP_LT_OQ)));
	}
	if (t < visible) {
		__m256 v = _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(p + t), ve), vl);

		v = _mm256_and_ps(_mm256_cmp_ps(v, vt, _CMP_LT_OQ), seen_lanes(visible, t));
		low = _mm256_sub_epi32(low, _mm256_castps_si256(v));
	}
	w->low = low;
}

/* Sums of eight groups to shares; only n of them are there. */
static inline void scale_sums(const float *sums, int32_t n, float e, float inv_l, float *share)
{
	__m256 v = _mm256_mul_ps(_mm256_loadu_ps(sums), _mm256_set1_ps(e));

	v = _mm256_mul_ps(v, _mm256_set1_ps(inv_l));
	if (n >= 8)
		_mm256_storeu_ps(share, v);
	else
		_mm256_maskstore_ps(share, _mm256_castps_si256(seen_lanes(n, 0)), v);
}

/* One span of the queries q0 … q0 + n - 1, at index `at` of the store. */
static inline void observe_span(const struct attend_plan *p, const struct attend_store *st,
								int32_t span, int32_t at, int32_t q0, int32_t n,
								const struct attend_store *merged, struct watch *watch)
{
	const size_t first = (size_t)at * (size_t)p->max_queries + (size_t)q0;
	const int32_t first_group = span * (K_SPAN / K_GROUP);
	const __m256 m = _mm256_loadu_ps(st->m + at * p->stride + q0);
	float e[8];

	_mm256_storeu_ps(e, v_exp(_mm256_sub_ps(m, _mm256_loadu_ps(merged->max + q0))));
	for (int32_t i = 0; i < n; i++) {
		struct watch *w = watch + i;
		const int32_t visible = attend_visible(w->pos, span);

		if (!visible)
			continue;
		count_low(w, st->p + (first + (size_t)i) * K_SPAN, visible, e[i], p->a->threshold);
		if (w->share)
			scale_sums(st->sums + (first + (size_t)i) * (K_SPAN / K_GROUP),
					   w->pos / K_GROUP + 1 - first_group, e[i], w->inv_l, w->share + first_group);
	}
}

/* The observations of what a thread has of an item that is merged. */
static void observe_piece(const struct attend_plan *p, const struct attend_item *item,
						  struct attend_piece piece, const struct attend_store *merged,
						  void *scratch)
{
	const struct attend_store st = attend_store_of(p, scratch, piece.lo > 0);

	for (int32_t q0 = 0; q0 < item->n_queries; q0 += 8) {
		const int32_t n = item->n_queries - q0 < 8 ? item->n_queries - q0 : 8;
		struct watch watch[8];
		int32_t n_watched = 0;

		for (int32_t i = 0; i < n; i++) {
			bool watched = is_observed(p, item, q0 + i);

			n_watched += watched;
			watch[i] = (struct watch){
				.pos = watched ? p->a->rows[attend_row_of(p, item, q0 + i)].pos : -1,
				.inv_l = 1.0f / merged->l[q0 + i],
				.share = share_of(p, item, q0 + i)};
		}
		for (int32_t span = piece.lo; n_watched && span < piece.hi; span++)
			observe_span(p, &st, span, span - piece.lo, q0, n, merged, watch);
		for (int32_t i = 0; i < n && p->a->near_zero; i++)
			if (watch[i].pos >= 0) /* threads that share an item add to the same count */
				__atomic_fetch_add(near_zero_of(p, item, q0 + i), v_sum_epi32(watch[i].low),
								   __ATOMIC_RELAXED);
	}
}

/* All spans of the item are merged in `st`: the results, but for the observations. */
static void finish(const struct attend_plan *p, const struct attend_item *item,
				   const struct attend_store *st)
{
	const struct k_attention *a = p->a;
	const int32_t head_dim = a->kv->head_dim;

	for (int32_t q = 0; q < item->n_queries; q++) {
		int32_t r = attend_row_of(p, item, q), head = attend_head_of(p, item, q);
		size_t at = (size_t)r * (size_t)a->out.dim + (size_t)head * (size_t)head_dim;
		const float *o = st->o + (size_t)q * (size_t)head_dim;
		float inv_l = 1.0f / st->l[q];

		for (int32_t i = 0; i < head_dim; i += 8)
			_mm256_storeu_ps(a->out.x + at + i,
							 _mm256_mul_ps(_mm256_loadu_ps(o + i), _mm256_set1_ps(inv_l)));
		if (a->out.q && head_dim % K_QBLOCK == 0)
			v_quantise(&a->out, at, head_dim);
		if (is_observed(p, item, q) && a->near_zero)
			*near_zero_of(p, item, q) = 0;
	}
}

static void take_queries(const struct work *w)
{
	const struct k_attention *a = w->plan->a;
	const size_t head_dim = (size_t)a->kv->head_dim;

	for (int32_t q = 0; q < w->item->n_queries; q++) {
		size_t r = (size_t)attend_row_of(w->plan, w->item, q);
		size_t head = (size_t)attend_head_of(w->plan, w->item, q);

		memcpy(w->store.q + (size_t)q * head_dim, a->q + (r * (size_t)a->n_heads + head) * head_dim,
			   head_dim * sizeof(float));
	}
}

/* Where the keys are that are read behind span `span` of the piece: those of its next span, or of the
 * first one of the thread's next item. */
static void look_ahead(struct work *w, struct attend_piece piece, int32_t span)
{
	const struct attend_plan *p = w->plan;
	struct attend_item item = *w->item;

	if (span + 1 >= piece.hi && (span + 1 < item.n_spans || !attend_next(p, &item) ||
								 attend_piece_of(p, &item, piece.tid).hi <= 0)) {
		w->next_last = w->next_first - 1;
		return;
	}
	w->next_pages = p->a->pages[p->a->rows[item.row].seq];
	w->next_head = item.kv_head;
	w->next_first = span + 1 < piece.hi ? (span + 1) * K_SPAN : 0;
	w->next_last = item.last_pos;
}

static void do_piece(const struct attend_plan *p, const struct attend_item *item,
					 struct attend_piece piece, void *scratch)
{
	struct work w = {.plan = p, .item = item, .pages = p->a->pages[p->a->rows[item->row].seq]};
	bool tail = piece.lo > 0;

	w.store = attend_store_of(p, scratch, tail);
	take_queries(&w);
	for (int32_t span = piece.lo; span < piece.hi; span++) {
		int32_t at = span - piece.lo;

		look_ahead(&w, piece, span);
		do_span(&w, span, at, tail ? at : 0);
		if (!tail)
			merge_span(p, item, &w.store, &w.store, span, at, 0);
	}
	if (tail || piece.hi < item->n_spans)
		return;
	finish(p, item, &w.store);
	if (p->observed)
		observe_piece(p, item, piece, &w.store, scratch);
}

/* By the last thread: items that several threads worked on. */
static void merge_tails(const struct attend_plan *p, int tid, void *scratch)
{
	struct attend_item item;

	for (bool more = attend_first(p, &item); more; more = attend_next(p, &item)) {
		struct attend_store to = {0};
		int n_pieces = 0;

		for (int t = 0; t < p->n_threads; t++) {
			struct attend_piece piece = attend_piece_of(p, &item, t);
			struct attend_store from;

			if (piece.lo >= piece.hi)
				continue;
			n_pieces++;
			from = attend_store_of(p, k_scratch_of(scratch, tid, t), piece.lo > 0);
			if (piece.lo == 0)
				to = from;
			for (int32_t span = piece.lo; piece.lo > 0 && span < piece.hi; span++)
				merge_span(p, &item, &to, &from, span, span - piece.lo, span - piece.lo);
		}
		if (n_pieces > 1)
			finish(p, &item, &to);
	}
}

/* After merge_tails: of the items that several threads worked on, each thread observes its own
 * spans, which its cache holds. */
static void observe_tails(const struct attend_plan *p, int tid, void *scratch)
{
	struct attend_item item;

	for (bool more = attend_first(p, &item); more; more = attend_next(p, &item)) {
		struct attend_piece piece = attend_piece_of(p, &item, tid);

		if (piece.lo >= piece.hi || (piece.lo == 0 && piece.hi == item.n_spans))
			continue;
		for (int t = 0; t < p->n_threads; t++) {
			struct attend_piece head = attend_piece_of(p, &item, t);
			struct attend_store merged;

			if (head.lo != 0 || head.hi <= 0)
				continue;
			merged = attend_store_of(p, k_scratch_of(scratch, tid, t), false);
			observe_piece(p, &item, piece, &merged, scratch);
		}
	}
}

static void attention(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_attention *a = &op->u.attention;
	struct attend_plan p;
	struct attend_item item;

	if (a->kv->head_dim % 16 || !attend_plan(&p, a, n_threads)) {
		k_ref_attention(op, tid, n_threads, scratch);
		return;
	}
	for (bool more = attend_first(&p, &item); more; more = attend_next(&p, &item)) {
		struct attend_piece piece = attend_piece_of(&p, &item, tid);

		if (piece.lo < piece.hi)
			do_piece(&p, &item, piece, scratch);
	}
	if (atomic_fetch_add(&op->ticket, 1) == n_threads - 1) {
		if (n_threads > 1)
			merge_tails(&p, tid, scratch);
		if (a->out.q && a->kv->head_dim % K_QBLOCK)
			for (int32_t r = 0; r < a->n; r++)
				v_quantise(&a->out, (size_t)r * (size_t)a->out.dim, a->out.dim);
		atomic_fetch_add(&op->ticket, 1);
	}
	if (n_threads > 1 && p.observed) {
		k_await(&op->ticket, n_threads + 1);
		observe_tails(&p, tid, scratch);
	}
}

/* Attention (rule 11) for one instruction set: included behind the definitions that attention_mix.h wants, and
 * of mix_table, mix_widths (lanes a tile of nq queries takes at most). Which thread does what is in
 * attention_plan.h. Thread: called by all threads of a pool; op->ticket counts those that have ended. */
#include "kernels/attention_plan.h"
#include "kernels/avx2.h"

struct work {
	const struct attend_plan *plan;
	const struct attend_item *item;
	struct attend_store store;
	const int32_t *pages;
};

static const uint16_t *cache_at(const struct work *w, int32_t pos, int want_v)
{
	const struct k_kv *kv = w->plan->a->kv;
	const uint16_t *head = k_kv_at(kv, w->pages[pos / kv->page_size], w->plan->a->layer, want_v,
								   w->item->kv_head);

	return head + (size_t)(pos % kv->page_size) * (size_t)kv->head_dim; /* K: pos is a group's first */
}

/* Scores of nq queries (at most ATTEND_QUERIES) with the first n_groups groups of a span. s: [nq, 128]. */
static void span_scores(const struct work *w, int32_t first, int32_t n_groups, int32_t query,
						int32_t nq, float *s)
{
	const int32_t head_dim = w->plan->a->kv->head_dim;
	const float *q = w->store.q + (size_t)query * (size_t)head_dim;

	for (int32_t g = 0; g < n_groups;) {
		struct mix_lanes b = {.stride = K_GROUP};
		int32_t n = n_groups - g < mix_widths[nq] / 16 ? n_groups - g : mix_widths[nq] / 16;

		n = n == 3 ? 2 : n;
		for (int32_t i = 0; i < n; i++)
			b.ptr[i] = cache_at(w, first + (g + i) * K_GROUP, 0);
		mix_table[nq][n](head_dim, q, (size_t)head_dim, &b, s + g * K_GROUP, K_SPAN, true);
		g += n;
	}
}

/* o [nq, head_dim] = weighted sums of the first n_tokens values of a span; p: [nq, 128]. */
static void span_values(const struct work *w, int32_t first, int32_t n_tokens, int32_t nq,
						const float *p, float *o)
{
	const int32_t head_dim = w->plan->a->kv->head_dim, page_size = w->plan->a->kv->page_size;

	for (int32_t d = 0; d < head_dim;) {
		int32_t n = (head_dim - d) / 16 < mix_widths[nq] / 16 ? (head_dim - d) / 16
															  : mix_widths[nq] / 16;

		n = n == 3 ? 2 : n;
		for (int32_t t = 0; t < n_tokens;) {
			struct mix_lanes b = {.stride = (size_t)head_dim};
			int32_t run = page_size - (first + t) % page_size; /* tokens on this page */

			run = run < n_tokens - t ? run : n_tokens - t;
			for (int32_t i = 0; i < n; i++)
				b.ptr[i] = cache_at(w, first + t, 1) + d + 16 * i;
			mix_table[nq][n](run, p + t, K_SPAN, &b, o + d, (size_t)head_dim, t == 0);
			t += run;
		}
		d += 16 * n;
	}
}

/* Scores to probabilities of one query, in place: +0 where invisible. Returns l; *m the maximum, in which a NaN
 * never wins; sums of groups to share. */
static float span_softmax(float *s, int32_t visible, int32_t n_groups, float softcap, float *m,
						  float *share)
{
	const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	__m256 max = _mm256_set1_ps(-INFINITY), all;
	float lane[8], l = 0;

	for (int32_t t = 0; t < n_groups * K_GROUP; t += 8) {
		__m256i seen = _mm256_cmpgt_epi32(_mm256_set1_epi32(visible - t), lanes);
		__m256 v = _mm256_loadu_ps(s + t);

		if (softcap > 0) {
			v = v_softcap(v, _mm256_set1_ps(softcap));
			_mm256_storeu_ps(s + t, v);
		}
		v = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), v, _mm256_castsi256_ps(seen));
		max = _mm256_max_ps(v, max);
	}
	_mm256_storeu_ps(lane, max);
	*m = -INFINITY;
	for (int i = 0; i < 8; i++)
		*m = lane[i] > *m ? lane[i] : *m;
	all = _mm256_set1_ps(*m);
	for (int32_t g = 0; g < n_groups; g++) {
		__m256 p[2];
		float sum;

		for (int i = 0; i < 2; i++) {
			int32_t t = g * K_GROUP + 8 * i;
			__m256i seen = _mm256_cmpgt_epi32(_mm256_set1_epi32(visible - t), lanes);

			p[i] = v_exp(_mm256_sub_ps(_mm256_loadu_ps(s + t), all));
			p[i] = _mm256_and_ps(p[i], _mm256_castsi256_ps(seen));
			_mm256_storeu_ps(s + t, p[i]);
		}
		if (g * K_GROUP >= visible)
			continue;
		sum = v_tree8(_mm256_add_ps(p[0], p[1]));
		l += sum;
		if (share)
			share[g] = sum;
	}
	return l;
}

static float *share_of(const struct attend_plan *p, const struct attend_item *item, int32_t query)
{
	const struct k_attention *a = p->a;
	int32_t observe = a->rows[attend_row_of(p, item, query)].observe;

	if (observe < 0 || !a->share)
		return NULL;
	return a->share + ((size_t)observe * (size_t)a->n_heads +
					   (size_t)attend_head_of(p, item, query)) *
						  (size_t)a->share_stride;
}

/* One span for all queries of the item: m, l, o (and p) at index `at` of the store. */
static void do_span(const struct work *w, int32_t span, int32_t at, int32_t at_part)
{
	const struct attend_plan *p = w->plan;
	const struct attend_store *st = &w->store;
	const int32_t first = span * K_SPAN, n_tokens = attend_visible(w->item->last_pos, span);
	const int32_t n_groups = (n_tokens + K_GROUP - 1) / K_GROUP, max = p->max_queries;
	const size_t head_dim = (size_t)p->a->kv->head_dim;
	float *s = st->p ? st->p + (size_t)at * (size_t)max * K_SPAN : st->s;

	for (int32_t q = 0; q < w->item->n_queries; q += ATTEND_QUERIES) {
		int32_t nq = w->item->n_queries - q < ATTEND_QUERIES ? w->item->n_queries - q : ATTEND_QUERIES;

		span_scores(w, first, n_groups, q, nq, s + q * K_SPAN);
		for (int32_t i = q; i < q + nq; i++) {
			int32_t pos = p->a->rows[attend_row_of(p, w->item, i)].pos;
			float *share = share_of(p, w->item, i);

			st->part_l[at_part * max + i] =
				span_softmax(s + i * K_SPAN, attend_visible(pos, span), n_groups, p->a->softcap,
							 &st->m[at * max + i], share ? share + first / K_GROUP : NULL);
		}
		span_values(w, first, n_tokens, nq, s + q * K_SPAN,
					st->part_o + ((size_t)at_part * (size_t)max + (size_t)q) * head_dim);
	}
}

/* Merges one span of one query into o, *max, *l. */
static void merge(float *o, float *max, float *l, const float *part, float part_m, float part_l,
				  int32_t head_dim, bool first)
{
	float n, c, e;

	if (first) {
		memcpy(o, part, (size_t)head_dim * sizeof *o);
		*max = part_m;
		*l = part_l;
		return;
	}
	n = *max > part_m ? *max : part_m;
	c = k_exp(*max - n);
	e = k_exp(part_m - n);
	*l = k_fma(c, *l, e * part_l);
	for (int32_t i = 0; i < head_dim; i += 8) {
		__m256 v = _mm256_mul_ps(_mm256_set1_ps(e), _mm256_loadu_ps(part + i));

		_mm256_storeu_ps(o + i, _mm256_fmadd_ps(_mm256_set1_ps(c), _mm256_loadu_ps(o + i), v));
	}
	*max = n;
}

/* Merges span `span` of all queries that see it, from index `part` of `from`. */
static void merge_span(const struct attend_plan *p, const struct attend_item *item,
					   const struct attend_store *to, const struct attend_store *from, int32_t span,
					   int32_t at, int32_t at_part)
{
	const int32_t head_dim = p->a->kv->head_dim, max = p->max_queries;

	for (int32_t q = 0; q < item->n_queries; q++)
		if (attend_visible(p->a->rows[attend_row_of(p, item, q)].pos, span))
			merge(to->o + (size_t)q * (size_t)head_dim, &to->max[q], &to->l[q],
				  from->part_o + ((size_t)at_part * (size_t)max + (size_t)q) * (size_t)head_dim,
				  from->m[at * max + q], from->part_l[at_part * max + q], head_dim, span == 0);
}

/* Visible probabilities of a span that stay below the threshold. */
static int32_t count_low(const float *p, int32_t visible, float e, float inv_l, float threshold)
{
	const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	__m256i count = _mm256_setzero_si256();

	for (int32_t t = 0; t < visible; t += 8) {
		__m256 v = _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(p + t), _mm256_set1_ps(e)),
								 _mm256_set1_ps(inv_l));
		__m256i low = _mm256_castps_si256(_mm256_cmp_ps(v, _mm256_set1_ps(threshold), _CMP_LT_OQ));
		__m256i seen = _mm256_cmpgt_epi32(_mm256_set1_epi32(visible - t), lanes);

		count = _mm256_sub_epi32(count, _mm256_and_si256(low, seen));
	}
	return v_sum_epi32(count);
}

/* The observations of one query, whose spans lie in the threads' stores. */
static void observe(const struct attend_plan *p, const struct attend_item *item, int32_t query,
					float max, float inv_l, int tid, void *scratch)
{
	const struct k_attention *a = p->a;
	const struct k_row *row = &a->rows[attend_row_of(p, item, query)];
	const int32_t n_groups = row->pos / K_GROUP + 1;
	float *share = share_of(p, item, query);
	int32_t low = 0;

	for (int t = 0; t < p->n_threads; t++) {
		struct attend_piece piece = attend_piece_of(p, item, t);
		struct attend_store st;

		if (piece.lo >= piece.hi)
			continue;
		st = attend_store_of(p, k_scratch_of(scratch, tid, t), piece.lo > 0);
		for (int32_t span = piece.lo; span < piece.hi && attend_visible(row->pos, span); span++) {
			size_t at = (size_t)(span - piece.lo) * (size_t)p->max_queries + (size_t)query;
			float e = k_exp(st.m[at] - max);

			low += count_low(st.p + at * K_SPAN, attend_visible(row->pos, span), e, inv_l,
							 a->threshold);
			for (int32_t g = span * 8; share && g < n_groups && g < span * 8 + 8; g++)
				share[g] = (share[g] * e) * inv_l;
		}
	}
	for (int32_t g = n_groups; share && g < a->share_stride; g++)
		share[g] = 0;
	if (a->near_zero)
		a->near_zero[(size_t)row->observe * (size_t)a->n_heads +
					 (size_t)attend_head_of(p, item, query)] = low;
}

/* All spans of the item are merged in `st`: the results. */
static void finish(const struct attend_plan *p, const struct attend_item *item,
				   const struct attend_store *st, int tid, void *scratch)
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
		if (a->rows[r].observe >= 0 && (a->share || a->near_zero))
			observe(p, item, q, st->max[q], inv_l, tid, scratch);
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

static void do_piece(const struct attend_plan *p, const struct attend_item *item,
					 struct attend_piece piece, void *scratch)
{
	struct work w = {.plan = p, .item = item, .pages = p->a->pages[p->a->rows[item->row].seq]};
	bool tail = piece.lo > 0;

	w.store = attend_store_of(p, scratch, tail);
	take_queries(&w);
	for (int32_t span = piece.lo; span < piece.hi; span++) {
		int32_t at = span - piece.lo;

		do_span(&w, span, at, tail ? at : 0);
		if (!tail)
			merge_span(p, item, &w.store, &w.store, span, at, 0);
	}
	if (!tail && piece.hi == item->n_spans)
		finish(p, item, &w.store, piece.tid, scratch);
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
			finish(p, &item, &to, tid, scratch);
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
	if (atomic_fetch_add(&op->ticket, 1) != n_threads - 1)
		return;
	if (n_threads > 1)
		merge_tails(&p, tid, scratch);
	if (a->out.q && a->kv->head_dim % K_QBLOCK)
		for (int32_t r = 0; r < a->n; r++)
			v_quantise(&a->out, (size_t)r * (size_t)a->out.dim, a->out.dim);
}

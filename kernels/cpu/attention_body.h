/* Attention (rule 11) for one instruction set: included after the definitions that attention_mix.h
 * needs, and of ATTENTION (the op function's name). attention_plan.h assigns work to threads.
 * Thread: called by all threads of a pool; op->ticket counts those that have ended, and then the
 * merge. */
#include "kernels/cpu/attention_mix.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/vec8.h"
#include "kernels/format/codes.h"

#define TABLE(form, bytes, doc) [K_CACHE_##form] = { TILES(TILE_ENTRY, mix, form) },
static mix_fn *const mix_table[K_N_CACHES][7][5] = { K_CACHES(TABLE) TABLE(q8, , ) };

/* The positions of a span that the rows of an item see. */
struct seen {
	struct k_bits row[ATTEND_QUERIES], any;
};

/* Where the keys and the values of a span's groups are, all in one cache. NULL: no row sees a
 * position of the group. */
struct groups {
	const struct k_kv *kv;
	const unsigned char *key[K_SPAN_GROUPS], *value[K_SPAN_GROUPS];
};

/* What a pass over a thread's spans is for: all of it or, of a matrix in memory, one of three. */
enum phase { PHASE_ALL, PHASE_SCORES, PHASE_SOFTMAX, PHASE_VALUES };

struct work {
	const struct attend_plan *plan;
	const struct attend_item *item;
	struct attend_store store;
	/* of the current span, and of the one that this thread reads next, whose keys are prefetched
	 * meanwhile */
	struct seen seen;
	struct groups here, next;
	bool ahead; /* next is known */
	/* keys of `next` that are fetched while this group of `here` is read; NULL: none */
	const unsigned char *fetched[K_SPAN_GROUPS];
	enum phase phase;
};

static bool writes_results(const struct work *w)
{
	return w->phase == PHASE_ALL || w->phase == PHASE_VALUES;
}

#include "kernels/cpu/attention_ahead.h"

/* Lanes / 16 of the next tile, of those that are left: 1, 2 or 4. */
static int32_t tile_of(int32_t left, int32_t nq)
{
	mix_fn *const *tile = mix_table[K_CACHE_f16][nq];

	return left >= 4 && tile[4] ? 4 : left >= 2 && tile[2] ? 2 : 1;
}

static void fill_seen(struct work *w, int32_t span)
{
	const struct k_attention *a = w->plan->a;

	w->seen.any = (struct k_bits){ { 0 } };
	for (int32_t r = 0; r < w->item->n_rows; r++) {
		w->seen.row[r] = k_row_bits(a, w->item->row + r, w->item->kv_head, span);
		for (int i = 0; i < K_BITS; i++)
			w->seen.any.word[i] |= w->seen.row[r].word[i];
	}
}

#include "kernels/cpu/attention_scores.h"

/* The span's values that rows see: runs within groups, and for each where its values begin, and
 * what is read next. */
struct value_runs {
	struct mix_lanes b;
	const unsigned char *value[MIX_RUNS], *next[MIX_RUNS];
	enum k_cache format;
	int32_t bytes, n_dims; /* of a value's dimension; of a value */
};

/* The span's values that are part of the keys, one after the other as f32. All queries of the item
 * read them: they are turned once. */
static void turn_values(const struct work *w)
{
	const struct k_kv *kv = w->here.kv;
	const int32_t n = kv->value_dim, first = kv->head_dim - n;

	for (int32_t g = 0; g < K_SPAN_GROUPS; g++)
		for (int32_t d = 0; d < n && k_bits_group(&w->seen.any, g); d++) {
			const unsigned char *at =
				w->here.key[g] + (size_t)((first + d) * K_GROUP * mix_bytes(kv));
			float x[K_GROUP];

			load_lanes(kv->format, at, x);
			for (int32_t t = 0; t < K_GROUP; t++)
				w->store.values[(g * K_GROUP + t) * n + d] = x[t];
		}
}

static void find_runs(const struct work *w, struct value_runs *v)
{
	const bool turned = w->here.kv->value_dim > 0;
	const int32_t dim = k_value_dim(w->here.kv);
	size_t bytes;

	v->format = turned ? K_CACHE_f32 : w->here.kv->format;
	v->bytes = turned ? 4 : mix_bytes(w->here.kv);
	v->n_dims = dim;
	v->b.n_runs = 0;
	v->b.stride = (size_t)dim;
	bytes = (size_t)(dim * v->bytes);
	for (int32_t g = 0; g < K_SPAN_GROUPS; g++) {
		const uint32_t seen = k_bits_group(&w->seen.any, g);
		const unsigned char *next = w->fetched[g] ? w->fetched[g] : w->here.value[g];

		for (int32_t t = 0, n; seen >> t; t += n) {
			const int32_t i = v->b.n_runs++;

			t += __builtin_ctz(seen >> t);
			n = __builtin_ctz(~(seen >> t));
			v->b.at[i].k = g * K_GROUP + t;
			v->b.at[i].n = n;
			v->value[i] =
				(turned ? (const unsigned char *)w->store.values + (size_t)(g * K_GROUP) * bytes
						: w->here.value[g]) +
				(size_t)t * bytes;
			v->next[i] = next;
		}
	}
}

/* o [nq, head_dim] = the span's weighted sums of values, from dimension `first` on; p: [nq, 128].
 * Where one row sees a position that another does not, the other's p is +0, which changes at most
 * the sign of a zero (rule 11). */
static void span_values(
	struct value_runs *v, int32_t nq, int32_t first, int32_t n_dims, const float *p, float *o)
{
	const int32_t bytes = v->bytes;

	for (int32_t d = first, n; d < first + n_dims; d += 16 * n) {
		n = tile_of((first + n_dims - d) / 16, nq);
		for (int32_t r = 0; r < v->b.n_runs; r++)
			for (int32_t i = 0; i < n; i++) {
				v->b.at[r].ptr[i] = v->value[r] + (d + 16 * i) * bytes;
				v->b.at[r].ahead[i] = v->next[r] + (d + 16 * i) * K_GROUP * bytes;
			}
		mix_table[v->format][nq][n](&v->b, p, K_SPAN, o + d, (size_t)v->n_dims);
	}
}

/* Lanes whose bit, of the low 8, is set. */
static inline __m256 seen_lanes(uint32_t bits)
{
	const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
	const __m256i b = _mm256_and_si256(_mm256_set1_epi32((int)bits), lane);

	return _mm256_castsi256_ps(_mm256_cmpeq_epi32(b, lane));
}

/* The maximum of the visible scores, in which a NaN never wins. */
static inline float span_max(const float *s, const struct k_bits *seen, bool whole)
{
	const __m256 least = _mm256_set1_ps(-INFINITY);
	__m256 low = least, high = least;

	for (int32_t g = 0; g < K_SPAN_GROUPS; g++) {
		const uint32_t bits = whole ? 0xffff : k_bits_group(seen, g);
		__m256 lo, hi;

		if (!bits)
			continue;
		lo = _mm256_loadu_ps(s + g * K_GROUP);
		hi = _mm256_loadu_ps(s + g * K_GROUP + 8);
		if (bits != 0xffff) {
			lo = _mm256_blendv_ps(least, lo, seen_lanes(bits));
			hi = _mm256_blendv_ps(least, hi, seen_lanes(bits >> 8));
		}
		low = _mm256_max_ps(lo, low);
		high = _mm256_max_ps(hi, high);
	}
	return v_greatest(_mm256_max_ps(low, high));
}

/* Turns a group's scores into probabilities, in place, +0 where not seen; returns their sum. */
static inline float group_softmax(float *s, uint32_t bits, __m256 max)
{
	__m256 lo = v_exp(_mm256_sub_ps(_mm256_loadu_ps(s), max));
	__m256 hi = v_exp(_mm256_sub_ps(_mm256_loadu_ps(s + 8), max));

	if (bits != 0xffff) {
		lo = _mm256_and_ps(lo, seen_lanes(bits));
		hi = _mm256_and_ps(hi, seen_lanes(bits >> 8));
	}
	_mm256_storeu_ps(s, lo);
	_mm256_storeu_ps(s + 8, hi);
	return v_tree8(_mm256_add_ps(lo, hi));
}

/* Turns scores of one query into probabilities, in place: those of `seen`, in the groups of `any`;
 * whole: that is all of the span. Returns l; *m is the maximum; sums of groups go to `sums`. */
static inline __attribute__((always_inline)) float span_softmax(float *s, const struct k_bits *seen,
	const struct k_bits *any, bool whole, float softcap, float *m, float *sums)
{
	__m256 max;
	float l = 0;

	for (int32_t t = 0; softcap > 0 && t < K_SPAN; t += 8)
		if (whole || k_bits_group(seen, t / K_GROUP))
			_mm256_storeu_ps(s + t, v_softcap(_mm256_loadu_ps(s + t), _mm256_set1_ps(softcap)));
	*m = span_max(s, seen, whole);
	max = _mm256_set1_ps(*m);
	for (int32_t g = 0; g < K_SPAN_GROUPS; g++) {
		float sum = 0;

		if (whole || k_bits_group(any, g))
			sum = group_softmax(s + g * K_GROUP, whole ? 0xffff : k_bits_group(seen, g), max);
		l += sum;
		if (sums)
			sums[g] = sum;
	}
	return l;
}

#include "kernels/cpu/attention_codes.h"

#include "kernels/cpu/attention_matrix.h"

/* Probabilities of queries [q, q + nq), in place of their scores. */
static void softmax_of(const struct work *w, int32_t q, int32_t nq, int32_t at, int32_t at_part)
{
	const struct attend_plan *p = w->plan;
	const struct attend_store *st = &w->store;
	float *s = span_scores_of(w, at);

	for (int32_t i = q; i < q + nq; i++) {
		const struct k_bits *seen = &w->seen.row[i / p->n_rep], *any = &w->seen.any;
		float *sums = st->sums ? st->sums + (at * p->max_queries + i) * K_SPAN_GROUPS : NULL;
		float *m = &st->m[at * p->stride + i];

		st->part_l[at_part * p->stride + i] =
			k_bits_all(seen)
				? span_softmax(s + i * K_SPAN, seen, any, true, p->a->softcap, m, sums)
				: span_softmax(s + i * K_SPAN, seen, any, false, p->a->softcap, m, sums);
	}
}

/* Computes the current span, `span`, for all queries of the item: m, l, o (and p) at index `at` of
 * the store; of a matrix only what the phase is for. */
static void do_span(const struct work *w, int32_t span, int32_t at, int32_t at_part)
{
	const struct attend_plan *p = w->plan;
	const size_t head_dim = (size_t)k_value_dim(p->a->kv);
	float *s = span_scores_of(w, at);
	struct value_runs runs;

	find_runs(w, &runs);
	if (p->a->kv->value_dim && w->phase != PHASE_SOFTMAX)
		turn_values(w);
	for (int32_t q = 0; q < w->item->n_queries; q += ATTEND_QUERIES) {
		int32_t nq = k_min(w->item->n_queries - q, ATTEND_QUERIES);

		if (w->phase == PHASE_ALL || w->phase == PHASE_SCORES) {
			any_scores(w, q, nq, s + q * K_SPAN);
			sink_scores(w, span, q, nq, s + q * K_SPAN);
			bias_scores(w, span, q, nq, s + q * K_SPAN);
		} else {
			matrix_move(w, span, q, nq, at, at_part, true);
		}
		if (w->phase == PHASE_ALL || w->phase == PHASE_SOFTMAX)
			softmax_of(w, q, nq, at, at_part);
		if (w->phase == PHASE_SCORES || w->phase == PHASE_SOFTMAX)
			matrix_move(w, span, q, nq, at, at_part, false);
		else
			any_values(w, &runs, nq, s + q * K_SPAN,
				w->store.part_o + k_index(at_part, p->max_queries, q) * head_dim);
	}
}

#include "kernels/cpu/attention_merge.h"
#include "kernels/cpu/attention_observe.h"

/* All spans of the item are merged in `st`: writes the results except the observations. */
static void finish(
	const struct attend_plan *p, const struct attend_item *item, const struct attend_store *st)
{
	const struct k_attention *a = p->a;
	const int32_t head_dim = k_value_dim(a->kv);

	for (int32_t q = 0; q < item->n_queries; q++) {
		int32_t r = attend_row_of(p, item, q), head = attend_head_of(p, item, q);
		size_t at = k_index(r, a->out.dim, head * head_dim);
		const float *o = st->o + (size_t)q * (size_t)head_dim;
		float inv_l = k_attention_inverse(a, head, st->max[q], st->l[q]);

		for (int32_t i = 0; i < head_dim; i += 8)
			_mm256_storeu_ps(a->out.x + at + i,
				_mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(o + i), _mm256_set1_ps(inv_l)),
					_mm256_setzero_ps()));
		if (a->out.q && head_dim % K_QBLOCK == 0)
			v_quantise(&a->out, at, head_dim);
		observe_begin(p, item, q);
	}
}

static void take_queries(const struct work *w)
{
	const struct k_attention *a = w->plan->a;
	const size_t head_dim = (size_t)a->kv->head_dim;

	for (int32_t q = 0; q < w->item->n_queries; q++) {
		size_t r = (size_t)attend_row_of(w->plan, w->item, q);
		size_t head = (size_t)attend_head_of(w->plan, w->item, q);
		size_t from = (r * (size_t)a->n_heads + head) * head_dim, to = (size_t)q * head_dim;

		memcpy(w->store.q + to, a->q + from, head_dim * sizeof(float));
		if (a->sink_q)
			memcpy(w->store.sink_q + to, a->sink_q + from, head_dim * sizeof(float));
	}
}

static void do_piece(struct work *w, struct attend_piece piece, void *scratch)
{
	const struct attend_plan *p = w->plan;
	const struct attend_item *item = w->item;
	bool tail = piece.lo > 0;

	w->store = attend_store_of(p, scratch, tail);
	take_queries(w);
	memset(w->store.l, 0, (size_t)item->n_queries * sizeof *w->store.l);
	if (!w->ahead)
		find_groups(p, item, attend_span(item, piece.lo), &w->next);
	for (int32_t unit = piece.lo; unit < piece.hi; unit++) {
		int32_t at = unit - piece.lo;

		w->here = w->next;
		plan_ahead(w, piece, unit);
		deal_ahead(w);
		fill_seen(w, attend_span(item, unit));
		do_span(w, attend_span(item, unit), at, tail ? at : 0);
		if (!tail && writes_results(w))
			merge_span(p, item, &w->store, &w->store, at, 0);
	}
	if (tail || piece.hi < item->n_spans || !writes_results(w))
		return;
	finish(p, item, &w->store);
	if (p->observed)
		observe_piece(p, item, piece, &w->store, scratch);
}

/* Run by the last thread: merges items that several threads worked on. */
static void merge_tails(const struct attend_plan *p, int tid, void *scratch)
{
	struct attend_item item;

	for (bool more = attend_first(p, &item); more; more = attend_next(p, &item)) {
		struct attend_store to = { 0 };
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
			for (int32_t unit = piece.lo; piece.lo > 0 && unit < piece.hi; unit++)
				merge_span(p, &item, &to, &from, unit - piece.lo, unit - piece.lo);
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

static void do_pieces(struct work *w, struct attend_item *item, int tid, void *scratch)
{
	w->item = item;
	w->ahead = false;
	for (bool more = attend_first(w->plan, item); more; more = attend_next(w->plan, item)) {
		struct attend_piece piece = attend_piece_of(w->plan, item, tid);

		if (piece.lo < piece.hi)
			do_piece(w, piece, scratch);
	}
}

void ATTENTION(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_attention *a = &op->u.attention;
	struct attend_plan p;
	struct attend_item item;
	struct work w;

	if (k_value_dim(a->kv) % 16 || !attend_plan(&p, a, n_threads) || (a->relative && a->matrix)) {
		k_ref_attention(op, tid, n_threads, scratch);
		return;
	}
	w.plan = &p;
	for (w.phase = a->matrix ? PHASE_SCORES : PHASE_ALL;; w.phase++) {
		do_pieces(&w, &item, tid, scratch);
		if (writes_results(&w))
			break;
	}
	if (atomic_fetch_add(&op->ticket, 1) == n_threads - 1) {
		if (n_threads > 1)
			merge_tails(&p, tid, scratch);
		if (a->out.q && k_value_dim(a->kv) % K_QBLOCK)
			for (int32_t r = 0; r < a->n; r++)
				v_quantise(&a->out, (size_t)r * (size_t)a->out.dim, a->out.dim);
		atomic_fetch_add(&op->ticket, 1);
	}
	if (n_threads > 1 && p.observed) {
		k_await(&op->ticket, n_threads + 1);
		observe_tails(&p, tid, scratch);
	}
}

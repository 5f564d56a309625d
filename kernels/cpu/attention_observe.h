/* The observations of attention: shares of groups, and how many probabilities are near zero. Part
 * of attention_body.h. Thread: as there. */

static float *share_of(const struct attend_plan *p, const struct attend_item *item, int32_t query)
{
	const struct k_attention *a = p->a;
	int32_t observe = a->rows[attend_row_of(p, item, query)].observe;

	if (observe < 0 || !a->share)
		return NULL;
	return a->share +
		   k_index(observe, a->n_heads, attend_head_of(p, item, query)) * (size_t)a->share_stride;
}

/* Of every row, where there is an account; else NULL. */
static float *attn_score_of(
	const struct attend_plan *p, const struct attend_item *item, int32_t query)
{
	const struct k_attention *a = p->a;
	const size_t head =
		k_index(attend_row_of(p, item, query), a->n_heads, attend_head_of(p, item, query));

	return a->attn_score ? a->attn_score + head * (size_t)a->attn_score_stride : NULL;
}

static bool is_observed(const struct attend_plan *p, const struct attend_item *item, int32_t query)
{
	return p->observed && p->a->rows[attend_row_of(p, item, query)].observe >= 0;
}

static int32_t *near_zero_of(
	const struct attend_plan *p, const struct attend_item *item, int32_t query)
{
	const struct k_attention *a = p->a;
	size_t observe = (size_t)a->rows[attend_row_of(p, item, query)].observe;

	return a->near_zero + observe * (size_t)a->n_heads + (size_t)attend_head_of(p, item, query);
}

/* The observation of one query. */
struct watch {
	int32_t row;
	bool observed; /* else there is only an account, if any */
	int32_t kv_head;
	int32_t n_groups;                 /* up to its row's own */
	float inv_l, *share, *attn_score; /* NULL: none */
	__m256i low;                      /* visible probabilities below the threshold, by lane */
};

/* Adds the visible probabilities of a span that stay below the threshold. */
static inline void count_low(
	struct watch *w, const float *p, const struct k_bits *seen, float e, float threshold)
{
	const __m256 ve = _mm256_set1_ps(e), vl = _mm256_set1_ps(w->inv_l);
	const __m256 vt = _mm256_set1_ps(threshold);

	for (int32_t t = 0; t < K_SPAN; t += 8) {
		const uint32_t bits = seen->word[t / 32] >> t % 32 & 0xff;
		__m256 v;

		if (!bits)
			continue;
		v = _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(p + t), ve), vl);
		v = _mm256_cmp_ps(v, vt, _CMP_LT_OQ);
		v = bits == 0xff ? v : _mm256_and_ps(v, seen_lanes(bits));
		w->low = _mm256_sub_epi32(w->low, _mm256_castps_si256(v));
	}
}

/* Turns sums of eight groups into shares, or adds to them; only the first n exist. */
static inline void scale_sums(
	const float *sums, int32_t n, float e, float inv_l, bool adds, float *share)
{
	const __m256i there = _mm256_castps_si256(seen_lanes((1u << (k_min(n, 8))) - 1));
	__m256 v = _mm256_mul_ps(_mm256_loadu_ps(sums), _mm256_set1_ps(e));

	v = _mm256_mul_ps(v, _mm256_set1_ps(inv_l));
	if (adds)
		v = _mm256_add_ps(_mm256_maskload_ps(share, there), v);
	if (n >= 8)
		_mm256_storeu_ps(share, v);
	else
		_mm256_maskstore_ps(share, there, v);
}

/* Observes one span of the queries q0 … q0 + n - 1, at index `at` of the store. */
static inline void observe_span(const struct attend_plan *p, const struct attend_store *st,
	int32_t span, int32_t at, int32_t q0, int32_t n, const struct attend_store *merged,
	struct watch *watch)
{
	const size_t first = k_index(at, p->max_queries, q0);
	const int32_t first_group = span * K_SPAN_GROUPS;
	const __m256 m = _mm256_loadu_ps(st->m + at * p->stride + q0);
	float e[8];

	_mm256_storeu_ps(e, v_exp(_mm256_sub_ps(m, _mm256_loadu_ps(merged->max + q0))));
	for (int32_t i = 0; i < n; i++) {
		struct watch *w = watch + i;
		struct k_bits seen;

		if (!w->observed && !w->attn_score)
			continue;
		seen = k_row_bits(p->a, w->row, w->kv_head, span);
		if (!k_bits_any(&seen))
			continue;
		if (w->observed)
			count_low(w, st->p + (first + (size_t)i) * K_SPAN, &seen, e[i], p->a->threshold);
		for (int k = 0; k < 2; k++) {
			float *to = k ? w->attn_score : w->share;

			if (to && first_group < w->n_groups)
				scale_sums(st->sums + (first + (size_t)i) * K_SPAN_GROUPS,
					w->n_groups - first_group, e[i], w->inv_l, p->a->adds, to + first_group);
		}
	}
}

/* Called after an item is merged, before the first of its spans is observed for query `query`. */
static void observe_begin(
	const struct attend_plan *p, const struct attend_item *item, int32_t query)
{
	const struct k_attention *a = p->a;
	const int32_t r = attend_row_of(p, item, query), n_groups = a->rows[r].pos / K_GROUP + 1;
	float *share;

	if (!is_observed(p, item, query) || a->adds)
		return;
	if (a->near_zero)
		*near_zero_of(p, item, query) = 0;
	share = share_of(p, item, query);
	for (int32_t g = 0; share && g < n_groups; g += K_SPAN_GROUPS) {
		const struct k_bits seen = k_row_bits(a, r, item->kv_head, g / K_SPAN_GROUPS);
		const int32_t n = k_min(n_groups - g, K_SPAN_GROUPS);

		if (!k_bits_any(&seen))
			memset(share + g, 0, (size_t)n * sizeof *share);
	}
}

/* Observes a thread's part of an item that is merged. */
static void observe_piece(const struct attend_plan *p, const struct attend_item *item,
	struct attend_piece piece, const struct attend_store *merged, void *scratch)
{
	const struct attend_store st = attend_store_of(p, scratch, piece.lo > 0);

	for (int32_t q0 = 0; q0 < item->n_queries; q0 += 8) {
		const int32_t n = k_min(item->n_queries - q0, 8);
		struct watch watch[8];
		int32_t n_watched = 0;

		for (int32_t i = 0; i < n; i++) {
			const int32_t r = attend_row_of(p, item, q0 + i);
			bool watched = is_observed(p, item, q0 + i);

			n_watched += watched || p->a->attn_score;
			watch[i] = (struct watch){ .row = r,
				.observed = watched,
				.kv_head = item->kv_head,
				.n_groups = p->a->rows[r].pos / K_GROUP + 1,
				.inv_l = k_attention_inverse(
					p->a, attend_head_of(p, item, q0 + i), merged->max[q0 + i], merged->l[q0 + i]),
				.share = share_of(p, item, q0 + i),
				.attn_score = attn_score_of(p, item, q0 + i) };
		}
		for (int32_t unit = piece.lo; n_watched && unit < piece.hi; unit++)
			observe_span(p, &st, attend_span(item, unit), unit - piece.lo, q0, n, merged, watch);
		for (int32_t i = 0; i < n && p->a->near_zero; i++)
			if (watch[i].observed) /* threads that share an item add to the same count */
				__atomic_fetch_add(
					near_zero_of(p, item, q0 + i), v_sum_epi32(watch[i].low), __ATOMIC_RELAXED);
	}
}

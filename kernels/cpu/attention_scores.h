/* The scores of a span with the queries of an item. Part of attention_body.h. Thread: as there. */

/* Bytes of what the tiles of mix_table read at a time. */
static int32_t mix_bytes(const struct k_kv *kv)
{
	return kv->format == K_CACHE_q8 ? 1 : k_cache_bytes(kv->format);
}

/* Sixteen numbers of the cache as f32. */
static void load_lanes(enum k_cache format, const unsigned char *at, float *x)
{
#define LOAD(form, bytes, doc)                                                                     \
	case K_CACHE_##form:                                                                           \
		for (int i = 0; i < K_GROUP; i += LANES)                                                   \
			vec_store(x + i, vec_##form((const cell_##form *)(const void *)at + i));               \
		break;
	switch (format) {
		K_CACHES(LOAD)
	default: break; /* formats of codes keep values apart */
	}
#undef LOAD
}

/* Scores of nq queries (at most ATTEND_QUERIES) with the groups of the span that rows see in part
 * or whole, by the dimensions from `first` on. s: [nq, 128]. */
static void span_scores(
	const struct work *w, int32_t query, int32_t nq, int32_t first, int32_t n_dims, float *s)
{
	const struct k_kv *kv = w->here.kv;
	const int32_t head_dim = kv->head_dim;
	const size_t before = (size_t)(first * K_GROUP) * (size_t)mix_bytes(kv);
	const float *q = w->store.q + (size_t)query * (size_t)head_dim;
	int32_t group[K_SPAN_GROUPS], n_groups = 0;
	struct mix_lanes b; /* large: only its first run is set */

	b.n_runs = 1;
	b.stride = K_GROUP;
	b.at[0].k = first;
	b.at[0].n = n_dims;
	for (int32_t g = 0; g < K_SPAN_GROUPS; g++)
		if (k_bits_group(&w->seen.any, g))
			group[n_groups++] = g;
	for (int32_t at = 0, n; at < n_groups; at += n) {
		const int32_t *g = group + at;
		float apart[ATTEND_QUERIES * K_SPAN], *out = s + g[0] * K_GROUP;

		n = tile_of(n_groups - at, nq);
		for (int32_t i = 0; i < n; i++) {
			b.at[0].ptr[i] = w->here.key[g[i]] + before;
			b.at[0].ahead[i] = w->here.value[g[i]] + before;
		}
		if (g[n - 1] - g[0] >= n) /* a tile's lanes are neighbours */
			out = apart;
		mix_table[kv->format][nq][n](&b, q, (size_t)head_dim, out, K_SPAN);
		for (int32_t i = 0; out == apart && i < n; i++)
			for (int32_t j = 0; j < nq; j++)
				memcpy(s + j * K_SPAN + g[i] * K_GROUP, apart + j * K_SPAN + i * K_GROUP,
					K_GROUP * sizeof *s);
	}
}

static void bias_scores(const struct work *w, int32_t span, int32_t query, int32_t nq, float *s)
{
	const struct k_attention *a = w->plan->a;

	for (int32_t q = query; a->bias && q < query + nq; q++, s += K_SPAN) {
		const int32_t row = attend_row_of(w->plan, w->item, q);
		const int32_t head = attend_head_of(w->plan, w->item, q);
		const int32_t d = span * K_SPAN - a->rows[row].pos;

		for (int32_t t = 0; t < K_SPAN; t++)
			if (k_bits_group(&w->seen.any, t / K_GROUP))
				s[t] += k_distance_bias(a, head, d + t);
	}
}

/* The first positions' scores again, with the query that is for them. */
static void sink_scores(const struct work *w, int32_t span, int32_t query, int32_t nq, float *s)
{
	const struct k_attention *a = w->plan->a;
	const int32_t dim = a->kv->head_dim, left = a->n_sinks - span * K_SPAN;
	struct mix_lanes b;

	b.n_runs = 1;
	b.stride = K_GROUP;
	b.at[0].k = 0;
	b.at[0].n = dim;
	for (int32_t g = 0; a->sink_q && g < K_SPAN_GROUPS && g * K_GROUP < left; g++) {
		const int32_t n = k_min(left - g * K_GROUP, K_GROUP);
		float sinks[ATTEND_QUERIES * K_GROUP];

		if (!k_bits_group(&w->seen.any, g))
			continue;
		b.at[0].ptr[0] = b.at[0].ahead[0] = w->here.key[g];
		mix_table[a->kv->format][nq][1](
			&b, w->store.sink_q + (size_t)query * (size_t)dim, (size_t)dim, sinks, K_GROUP);
		for (int32_t q = 0; q < nq; q++)
			memcpy(s + q * K_SPAN + g * K_GROUP, sinks + q * K_GROUP, (size_t)n * sizeof *s);
	}
}

/* Attention over codes with scales (rules 10 and 11, format/codes.h): what is done before and after
 * the inner loops of attention_mix.h. A channel's scale goes into the query, a token's into the
 * score or the probability; by channel these become integers of 8 bits, and what the middles of
 * the ranges add is a sum of its own. Part of attention_body.h. Thread: as there. */

static keys_fn *const keys_table[5][ATTEND_QUERIES + 1] = { QUERIES(KEYS_ENTRY, 4)
		QUERIES(KEYS_ENTRY, 2) };
static values_fn *const values_table[5][ATTEND_QUERIES + 1][5] = {
	[4] = { TILES(TILE_ENTRY, values, 4) }, [2] = { TILES(TILE_ENTRY, values, 2) }
};

/* out = x * scale, n numbers, a multiple of 16. */
static inline void fold_scales(const float *x, const uint16_t *scale, int32_t n, float *out)
{
	for (int32_t i = 0; i < n; i += 8)
		_mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), v_halves(scale + i)));
}

static unsigned char *code_group(const unsigned char *group)
{
	return (unsigned char *)(uintptr_t)group;
}

/* Scratch of a span: scales and middles that meet n numbers, integers of all queries. */
struct by_channel {
	float *scale, *middle;
	int8_t *q;
	int32_t n;
};
static struct by_channel by_channel(const struct work *w, int32_t n)
{
	return (struct by_channel){ w->store.fold, w->store.fold + n, (int8_t *)(w->store.fold + 2 * n),
		n };
}

/* Scales and middles of n numbers from the i-th on. */
static void read_scales(
	const struct by_channel *c, int32_t i, struct k_code_scales s, int32_t n, int32_t bits)
{
	const __m256 middle = _mm256_set1_ps((float)k_code_middle(bits));

	for (int32_t j = 0; j < n; j += 8) {
		const __m256 scale = v_halves(s.scale + j);

		_mm256_storeu_ps(c->scale + i + j, scale);
		_mm256_storeu_ps(c->middle + i + j, _mm256_fmadd_ps(scale, middle, v_halves(s.min + j)));
	}
}

/* The integers of 16 numbers times their scales; returns lanes of their sum. */
static inline __m256i round_group(const float *x, const float *scale, __m256 id, int8_t *q)
{
	const __m256i base = _mm256_set1_epi32(0x4B400000);
	__m256i b[2], m;

	for (int i = 0; i < 2; i++) {
		const __m256 y = _mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), _mm256_loadu_ps(scale + 8 * i));

		b[i] = _mm256_sub_epi32(
			_mm256_castps_si256(_mm256_fmadd_ps(y, id, _mm256_set1_ps(0x1.8p23f))), base);
	}
	m = _mm256_packs_epi32(b[0], b[1]);
	m = _mm256_permutevar8x32_epi32(
		_mm256_packs_epi16(m, m), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
	_mm_storeu_si128((__m128i *)(void *)q, _mm256_castsi256_si128(m));
	return _mm256_add_epi32(b[0], b[1]);
}

/* The factor (attend.h, k_view_factor) of a multiple of 16 numbers. */
static struct k_code_factor code_factor(
	const struct by_channel *c, const float *x, int32_t bits, int8_t *q)
{
	const __m256i abs = _mm256_set1_epi32(0x7fffffff);
	__m256i most = _mm256_setzero_si256(), sum = most;
	__m256 low = _mm256_setzero_ps(), high = low, id;
	struct k_code_factor f = { 0 };
	uint32_t a;
	float inverse;

	_Pragma("GCC unroll 4") for (int32_t i = 0; i < c->n; i += K_GROUP)
	{
		const __m256 x0 = _mm256_loadu_ps(x + i), x1 = _mm256_loadu_ps(x + i + 8);
		const __m256 y0 = _mm256_mul_ps(x0, _mm256_loadu_ps(c->scale + i));
		const __m256 y1 = _mm256_mul_ps(x1, _mm256_loadu_ps(c->scale + i + 8));

		most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(y0), abs));
		most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(y1), abs));
		low = _mm256_fmadd_ps(x0, _mm256_loadu_ps(c->middle + i), low);
		high = _mm256_fmadd_ps(x1, _mm256_loadu_ps(c->middle + i + 8), high);
	}
	f.middles = v_tree8(_mm256_add_ps(low, high));
	a = (uint32_t)v_max_epi32(most);
	if (!k_step(a, &f.step, &inverse)) {
		memset(q, 0, (size_t)c->n);
		return f;
	}
	id = _mm256_set1_ps(inverse);
	_Pragma("GCC unroll 4") for (int32_t i = 0; i < c->n; i += K_GROUP) sum =
		_mm256_add_epi32(sum, round_group(x + i, c->scale + i, id, q + i));
	f.sum = v_sum_epi32(sum) * k_code_middle(bits);
	return f;
}

/* Fetches what is read later: a group's values, and the keys of the group one span on. */
static void fetch_group(const struct work *w, int32_t g)
{
	const struct k_kv *kv = w->here.kv;

	for (size_t at = 0; at < k_kv_group_bytes(kv, 1); at += 64)
		__builtin_prefetch(w->here.value[g] + at, 0, MIX_HINT);
	for (size_t at = 0; w->fetched[g] && at < k_kv_group_bytes(kv, 0); at += 64)
		__builtin_prefetch(w->fetched[g] + at, 0, MIX_HINT);
}

/* As span_scores(), of keys by channel. What is not seen scores 0. */
static void channel_scores(const struct work *w, int32_t query, int32_t nq, float *s)
{
	const int32_t dim = w->here.kv->head_dim, bits = k_cache_bits(w->here.kv->format);
	const float *q = w->store.q + (size_t)query * (size_t)dim;
	const struct by_channel c = by_channel(w, dim);
	struct code_factors f;

	f.q = c.q;
	f.stride = (size_t)dim;
	for (int32_t g = 0; g < K_SPAN_GROUPS; g++) {
		if (!k_bits_group(&w->seen.any, g)) {
			for (int32_t i = 0; i < nq; i++)
				memset(s + i * K_SPAN + g * K_GROUP, 0, K_GROUP * sizeof *s);
			continue;
		}
		fetch_group(w, g);
		read_scales(&c, 0, k_key_scales(code_group(w->here.key[g]), dim, bits), dim, bits);
		for (int32_t i = 0; i < nq; i++)
			f.of[i] = code_factor(&c, q + i * dim, bits, c.q + i * dim);
		keys_table[bits][nq](w->here.key[g], dim, &f, s + g * K_GROUP);
	}
}

/* As span_scores(), in q8: a chain for each scale, and one of these. */
static void q8_scores(const struct work *w, int32_t query, int32_t nq, float *s)
{
	const int32_t dim = w->here.kv->head_dim;
	float *part = w->store.fold;

	for (int32_t first = 0; first < dim; first += K_Q8_DIMS) {
		span_scores(w, query, nq, first, k_min(dim - first, K_Q8_DIMS), part);
		for (int32_t t = 0; t < K_SPAN; t += 8) {
			unsigned char *group = code_group(w->here.key[t / K_GROUP]);
			__m256 scale;

			if (!k_bits_group(&w->seen.any, t / K_GROUP))
				continue;
			scale = v_halves(k_q8_scales(group, dim, first / K_Q8_DIMS) + t % K_GROUP);
			for (int32_t i = 0; i < nq; i++) {
				float *at = s + i * K_SPAN + t;
				const __m256 sum = first ? _mm256_loadu_ps(at) : _mm256_setzero_ps();

				_mm256_storeu_ps(
					at, _mm256_fmadd_ps(scale, _mm256_loadu_ps(part + i * K_SPAN + t), sum));
			}
		}
	}
}

static void any_scores(const struct work *w, int32_t query, int32_t nq, float *s)
{
	const struct k_kv *kv = w->here.kv;

	if (k_cache_by_channel(kv->format))
		channel_scores(w, query, nq, s);
	else if (kv->format == K_CACHE_q8)
		q8_scores(w, query, nq, s);
	else
		span_scores(w, query, nq, 0, kv->head_dim, s);
}

/* Scales and middles of a span's values, those of the i-th 64 channels; 0 of what is not seen. */
static void read_tokens(const struct work *w, int32_t i, const struct by_channel *c)
{
	const int32_t dim = w->here.kv->head_dim, bits = k_cache_bits(w->here.kv->format);

	for (int32_t g = 0; g < K_SPAN_GROUPS; g++) {
		if (k_bits_group(&w->seen.any, g)) {
			read_scales(c, g * K_GROUP, k_value_scales(code_group(w->here.value[g]), dim, bits, i),
				K_GROUP, bits);
		} else {
			memset(c->scale + g * K_GROUP, 0, K_GROUP * sizeof *c->scale);
			memset(c->middle + g * K_GROUP, 0, K_GROUP * sizeof *c->middle);
		}
	}
}

/* The groups of the span that rows see, as runs of whole groups. */
static void code_runs(const struct work *w, struct mix_lanes *b)
{
	b->n_runs = 0;
	b->stride = (size_t)w->here.kv->head_dim * 4;
	for (int32_t g = 0; g < K_SPAN_GROUPS; g++)
		if (k_bits_group(&w->seen.any, g))
			b->at[b->n_runs++].k = g * K_GROUP;
}

/* As span_values(), of values by token. */
static void token_values(
	const struct work *w, struct mix_lanes *b, int32_t nq, const float *p, float *o)
{
	const int32_t dim = w->here.kv->head_dim, bits = k_cache_bits(w->here.kv->format);
	const struct by_channel c = by_channel(w, K_SPAN);
	struct code_factors f;

	f.q = c.q;
	f.stride = K_SPAN;
	code_runs(w, b);
	for (int32_t d = 0, n; d < dim; d += 16 * n) {
		const int32_t piece = d / K_CODED_DIMS, end = (piece + 1) * K_CODED_DIMS;

		if (d % K_CODED_DIMS == 0) {
			read_tokens(w, piece, &c);
			for (int32_t i = 0; i < nq; i++)
				f.of[i] = code_factor(&c, p + i * K_SPAN, bits, c.q + i * K_SPAN);
		}
		n = tile_of((k_min(end, dim) - d) / 16, nq);
		n = k_min(n, CODE_WIDTH(nq));
		for (int32_t r = 0; r < b->n_runs; r++)
			b->at[r].ptr[0] = w->here.value[b->at[r].k / K_GROUP] + d * 4;
		values_table[bits][nq][n](b, &f, o + d, (size_t)dim);
	}
}

/* Probabilities times the scales of the tokens, those of the i-th 32 channels. */
static void fold_tokens(const struct work *w, int32_t nq, int32_t i, const float *p)
{
	const int32_t dim = w->here.kv->head_dim;

	for (int32_t at = 0; at < nq * K_SPAN; at += K_GROUP) {
		const int32_t g = at % K_SPAN / K_GROUP;

		if (k_bits_group(&w->seen.any, g))
			fold_scales(p + at, k_q8_scales(code_group(w->here.value[g]), dim, i), K_GROUP,
				w->store.fold + at);
	}
}

/* As span_values(), in q8. */
static void q8_values(
	const struct work *w, struct value_runs *v, int32_t nq, const float *p, float *o)
{
	const int32_t dim = w->here.kv->head_dim;

	for (int32_t first = 0; first < dim; first += K_Q8_DIMS) {
		fold_tokens(w, nq, first / K_Q8_DIMS, p);
		span_values(v, nq, first, k_min(dim - first, K_Q8_DIMS), w->store.fold, o);
	}
}

static void any_values(
	const struct work *w, struct value_runs *v, int32_t nq, const float *p, float *o)
{
	const struct k_kv *kv = w->here.kv;

	if (k_cache_by_channel(kv->format))
		token_values(w, &v->b, nq, p, o);
	else if (kv->format == K_CACHE_q8)
		q8_values(w, v, nq, p, o);
	else
		span_values(v, nq, 0, v->n_dims, p, o);
}

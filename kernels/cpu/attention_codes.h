/* Attention over codes with scales (rules 10 and 11, format/codes.h): what is done before and after
 * the inner loops of attention_mix.h. A channel's scale goes into the query, a token's into the
 * score or the probability; what the minima add is a sum of its own. Part of attention_body.h.
 * Thread: as there. */

static keys_fn *const keys_table[5][ATTEND_QUERIES + 1] = { [4] = KEYS_ROW(4), [2] = KEYS_ROW(2) };
static values_fn *const values_table[5][ATTEND_QUERIES + 1][5] = {
	[4] = ROWS(values, 4), [2] = ROWS(values, 2)
};

static inline __m256 f16_eight(const uint16_t *h)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)h));
}

/* out = x * scale, n numbers, a multiple of 16. */
static inline void fold_scales(const float *x, const uint16_t *scale, int32_t n, float *out)
{
	for (int32_t i = 0; i < n; i += 8)
		_mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), f16_eight(scale + i)));
}

/* The lanes of k_code_dot(). */
struct dot {
	__m256 low, high;
};
static inline void dot_add(struct dot *d, const float *x, const uint16_t *min, int32_t n)
{
	for (int32_t i = 0; i < n; i += K_GROUP) {
		d->low = _mm256_fmadd_ps(_mm256_loadu_ps(x + i), f16_eight(min + i), d->low);
		d->high = _mm256_fmadd_ps(_mm256_loadu_ps(x + i + 8), f16_eight(min + i + 8), d->high);
	}
}
static inline float dot_sum(const struct dot *d)
{
	return v_tree8(_mm256_add_ps(d->low, d->high));
}

static unsigned char *code_group(const unsigned char *group)
{
	return (unsigned char *)(uintptr_t)group;
}

/* As span_scores(), of keys by channel. */
static void channel_scores(const struct work *w, int32_t query, int32_t nq, float *s)
{
	const int32_t dim = w->here.kv->head_dim, bits = k_cache_bits(w->here.kv->format);
	const float *q = w->store.q + (size_t)query * (size_t)dim;
	float z[ATTEND_QUERIES];

	for (int32_t g = 0; g < K_SPAN_GROUPS; g++) {
		struct k_code_scales c;

		if (!k_bits_group(&w->seen.any, g))
			continue;
		c = k_key_scales(code_group(w->here.key[g]), dim, bits);
		for (int32_t i = 0; i < nq; i++) {
			struct dot d = { _mm256_setzero_ps(), _mm256_setzero_ps() };

			fold_scales(q + i * dim, c.scale, dim, w->store.fold + i * dim);
			dot_add(&d, q + i * dim, c.min, dim);
			z[i] = dot_sum(&d);
		}
		keys_table[bits][nq](
			w->here.key[g], w->here.value[g], dim, w->store.fold, z, s + g * K_GROUP);
	}
}

/* As span_scores(), in q8: a chain for each scale, and one of these. */
static void q8_scores(const struct work *w, int32_t query, int32_t nq, float *s)
{
	const int32_t dim = w->here.kv->head_dim;
	float *part = w->store.fold;

	for (int32_t first = 0; first < dim; first += K_Q8_DIMS) {
		span_scores(w, query, nq, first, dim - first < K_Q8_DIMS ? dim - first : K_Q8_DIMS, part);
		for (int32_t t = 0; t < K_SPAN; t += 8) {
			unsigned char *group = code_group(w->here.key[t / K_GROUP]);
			__m256 scale;

			if (!k_bits_group(&w->seen.any, t / K_GROUP))
				continue;
			scale = f16_eight(k_q8_scales(group, dim, first / K_Q8_DIMS) + t % K_GROUP);
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

/* Probabilities times the scales of the tokens, those of the i-th part of the channels; z: [nq]
 * what the minima add, NULL: there are none. */
static void fold_tokens(const struct work *w, int32_t nq, int32_t part, const float *p, float *z)
{
	const struct k_kv *kv = w->here.kv;

	for (int32_t i = 0; i < nq; i++) {
		struct dot d = { _mm256_setzero_ps(), _mm256_setzero_ps() };

		for (int32_t g = 0; g < K_SPAN_GROUPS; g++) {
			unsigned char *group = code_group(w->here.value[g]);
			const int32_t at = i * K_SPAN + g * K_GROUP;
			struct k_code_scales c;

			if (!k_bits_group(&w->seen.any, g))
				continue;
			c = z ? k_value_scales(group, kv->head_dim, k_cache_bits(kv->format), part)
				  : (struct k_code_scales){ .scale = k_q8_scales(group, kv->head_dim, part) };
			fold_scales(p + at, c.scale, K_GROUP, w->store.fold + at);
			if (z)
				dot_add(&d, p + at, c.min, K_GROUP);
		}
		if (z)
			z[i] = dot_sum(&d);
	}
}

static void add_minimum(float *o, int32_t n, float z)
{
	for (int32_t i = 0; i < n; i += 8)
		_mm256_storeu_ps(o + i, _mm256_add_ps(_mm256_loadu_ps(o + i), _mm256_set1_ps(z)));
}

/* As span_values(), of values by token. */
static void token_values(
	const struct work *w, struct value_runs *v, int32_t nq, const float *p, float *o)
{
	const int32_t dim = w->here.kv->head_dim, bits = k_cache_bits(w->here.kv->format);
	float z[ATTEND_QUERIES];

	v->b.stride = value_bytes(w->here.kv);
	for (int32_t d = 0, n; d < dim; d += 16 * n) {
		const int32_t piece = d / K_CODED_DIMS, end = (piece + 1) * K_CODED_DIMS;

		if (d % K_CODED_DIMS == 0)
			fold_tokens(w, nq, piece, p, z);
		n = tile_of(((end < dim ? end : dim) - d) / 16, nq);
		for (int32_t r = 0; r < v->b.n_runs; r++) {
			v->b.at[r].ptr[0] = v->value[r] + piece * 8 * bits;
			v->b.at[r].ahead[0] = v->next[r] + piece * K_CODED_DIMS * K_GROUP;
		}
		values_table[bits][nq][n](
			&v->b, d % K_CODED_DIMS / 8 * bits, w->store.fold, o + d, (size_t)dim);
		for (int32_t i = 0; i < nq; i++)
			add_minimum(o + i * dim + d, 16 * n, z[i]);
	}
}

/* As span_values(), in q8. */
static void q8_values(
	const struct work *w, struct value_runs *v, int32_t nq, const float *p, float *o)
{
	const int32_t dim = w->here.kv->head_dim;

	for (int32_t first = 0; first < dim; first += K_Q8_DIMS) {
		fold_tokens(w, nq, first / K_Q8_DIMS, p, NULL);
		span_values(v, w->here.kv, nq, first, dim - first < K_Q8_DIMS ? dim - first : K_Q8_DIMS,
			w->store.fold, o);
	}
}

static void any_values(
	const struct work *w, struct value_runs *v, int32_t nq, const float *p, float *o)
{
	const struct k_kv *kv = w->here.kv;

	if (k_cache_by_channel(kv->format))
		token_values(w, v, nq, p, o);
	else if (kv->format == K_CACHE_q8)
		q8_values(w, v, nq, p, o);
	else
		span_values(v, kv, nq, 0, kv->head_dim, p, o);
}

/* Rule 11's merge of spans. Part of attention_body.h. Thread: as there. */

/* Rule 11's merge of eight queries' sums: the new maxima and L, and the factors of both sides. */
static inline void merge_sums(
	float *max, float *l, const float *m, const float *part_l, float *c, float *e)
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

/* Merges eight queries from q0 on. The sum of a span that a row sees is at least 1, or NaN, and so
 * is any merged sum: 0 means that the row sees nothing of the span, or has seen nothing yet; then
 * the other side is copied. */
static void merge_eight(const struct attend_plan *p, const struct attend_item *item,
	const struct attend_store *to, const struct attend_store *from, int32_t at, int32_t at_part,
	int32_t q0)
{
	const int32_t head_dim = k_value_dim(p->a->kv);
	const float *m = from->m + at * p->stride + q0,
				*part_l = from->part_l + at_part * p->stride + q0;
	float max[8], l[8], c[8], e[8];

	memcpy(max, to->max + q0, sizeof max);
	memcpy(l, to->l + q0, sizeof l);
	merge_sums(max, l, m, part_l, c, e);
	for (int32_t q = q0; q < item->n_queries && q < q0 + 8; q++) {
		const float *part = from->part_o + k_index(at_part, p->max_queries, q) * (size_t)head_dim;
		float *o = to->o + (size_t)q * (size_t)head_dim;

		if (part_l[q - q0] == 0)
			continue;
		if (to->l[q] == 0) {
			memcpy(o, part, (size_t)head_dim * sizeof *o);
			to->max[q] = m[q - q0];
			to->l[q] = part_l[q - q0];
		} else {
			merge_values(o, part, c[q - q0], e[q - q0], head_dim);
			to->max[q] = max[q - q0];
			to->l[q] = l[q - q0];
		}
	}
}

/* Merges the span at index `at` (its sums: at_part) of `from`. */
static void merge_span(const struct attend_plan *p, const struct attend_item *item,
	const struct attend_store *to, const struct attend_store *from, int32_t at, int32_t at_part)
{
	for (int32_t q = 0; q < item->n_queries; q += 8)
		merge_eight(p, item, to, from, at, at_part, q);
}

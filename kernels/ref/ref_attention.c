/* The reference of attention: rule 11. It computes the scores of one span at a time, their maximum
 * and sums, and then merges the spans' results in ascending order: spans are fixed by absolute
 * position, so the bits depend only on the visible tokens. Thread: called by all threads of a pool;
 * no state. */
#include "kernels/arith.h"
#include "kernels/format/codes.h"
#include "kernels/cpu/isa.h"
#include "kernels/visible.h"

/* What one row's head reads, and what the row sees. */
struct view {
	const struct k_attention *a;
	const float *q, *sink_q;
	int32_t row, head, kv_head, pos, seq;
	int32_t coded_end; /* positions before it are read as codes by channel */
};

/* The keys of a position's group, or its values. */
struct group {
	const struct k_kv *kv;
	void *data;
};

static struct group group_of(const struct view *v, int32_t pos, bool values)
{
	const struct k_attention *a = v->a;
	const bool recent = a->recent && pos >= v->coded_end;
	const struct k_kv *kv = recent ? a->recent : a->kv;
	const int32_t *pages = recent ? a->recent_pages[v->seq] : a->pages[v->seq];
	const int32_t page = pages[pos / kv->page_size], in = pos % kv->page_size / K_GROUP;

	return (struct group){ kv, k_kv_group(kv, page, a->layer, values, v->kv_head, in) };
}

/* Keys by channel: the scales go into the query. */
static float score_by_channel(const struct view *v, const struct group *g, int32_t token)
{
	const int32_t bits = k_cache_bits(g->kv->format), dim = g->kv->head_dim;
	const struct k_code_scales c = k_key_scales(g->data, dim, bits);
	int8_t q[K_MAX_HEAD_DIM];
	const struct k_code_factor f = k_code_factor(v->q, c.scale, c.min, dim, bits, q);
	int32_t sum = 0;

	for (int32_t i = 0; i < dim; i++)
		sum += q[i] * k_code_get(g->data, k_key_at(token, i, bits), bits);
	return k_code_sum(&f, sum);
}

/* A chain for each scale. */
static float score_q8(const struct view *v, const struct group *g, int32_t token)
{
	const int32_t dim = g->kv->head_dim;
	float s = 0;

	for (int32_t first = 0; first < dim; first += K_Q8_DIMS) {
		const uint16_t *scale = k_q8_scales(g->data, dim, first / K_Q8_DIMS);
		float part = 0;

		for (int32_t i = first; i < dim && i < first + K_Q8_DIMS; i++)
			part = k_fma(v->q[i], ((const int8_t *)g->data)[i * K_GROUP + token], part);
		s = k_fma(k_f16_to_f32(scale[token]), part, s);
	}
	return s;
}

/* Of a distance (rule 23). */
static float bias_of(const struct view *v, int32_t pos)
{
	const struct k_attention *a = v->a;
	int32_t d = pos - v->pos;

	d = d < -K_DISTANCE ? -K_DISTANCE : d > K_DISTANCE ? K_DISTANCE : d;
	return a->bias[a->bucket[d + K_DISTANCE] * a->n_heads + v->head];
}

static float score(const struct view *v, int32_t pos)
{
	const struct group g = group_of(v, pos, false);
	const int32_t token = pos % K_GROUP, dim = g.kv->head_dim;
	const float *q = v->a->sink_q && pos < v->a->n_sinks ? v->sink_q : v->q;
	float s = 0;

	if (k_cache_by_channel(g.kv->format))
		s = score_by_channel(v, &g, token);
	else if (g.kv->format == K_CACHE_q8)
		s = score_q8(v, &g, token);
	else {
		for (int32_t i = 0; i < dim; i++)
			s = k_fma(q[i], k_cache_get(g.kv->format, g.data, (size_t)(i * K_GROUP + token)), s);
	}
	if (v->a->bias)
		s += bias_of(v, pos);
	return v->a->softcap > 0 ? k_softcap(s, v->a->softcap) : s;
}

/* A span of which the row sees at least one position, before it is scaled. */
struct span {
	int32_t first; /* position */
	struct k_bits seen;
	float p[K_SPAN]; /* probabilities, +0 where not seen */
	float m, l;      /* maximum, in which a NaN never wins; chain over the groups of tree(16) */
	float group[K_SPAN_GROUPS];
};

/* False if the row sees no position of it. */
static bool span_scores(const struct view *v, int32_t first, struct span *s)
{
	s->first = first;
	s->seen = k_row_bits(v->a, v->row, v->kv_head, first / K_SPAN);
	s->m = -INFINITY;
	s->l = 0;
	if (!k_bits_any(&s->seen))
		return false;
	for (int32_t t = 0; t < K_SPAN; t++)
		if (k_bits_has(&s->seen, t)) {
			s->p[t] = score(v, first + t);
			s->m = s->p[t] > s->m ? s->p[t] : s->m;
		}
	for (int32_t t = 0; t < K_SPAN; t++)
		s->p[t] = k_bits_has(&s->seen, t) ? k_exp(s->p[t] - s->m) : 0;
	for (int32_t g = 0; g < K_SPAN_GROUPS; g++) {
		float tree[K_GROUP];

		memcpy(tree, s->p + g * K_GROUP, sizeof tree);
		s->group[g] = k_tree_sum(tree, K_GROUP);
		s->l += s->group[g];
	}
	return true;
}

/* Dimension i of the token's value times p, added to o. A scale of the token goes into p. */
static float add_value(const struct group *g, int32_t token, float p, int32_t i, float o)
{
	const int32_t dim = g->kv->head_dim;

	if (g->kv->format == K_CACHE_q8)
		return k_fma(p * k_f16_to_f32(k_q8_scales(g->data, dim, i / K_Q8_DIMS)[token]),
			((const int8_t *)g->data)[token * dim + i], o);
	if (g->kv->value_dim) /* the group is of keys */
		return k_fma(p,
			k_cache_get(
				g->kv->format, g->data, (size_t)((dim - g->kv->value_dim + i) * K_GROUP + token)),
			o);
	return k_fma(p, k_cache_get(g->kv->format, g->data, (size_t)(token * dim + i)), o);
}

/* Values by token, channels `first` … of 64 that share the tokens' scales: these go into p. */
static void span_codes(const struct view *v, const struct span *s, int32_t first, float *o)
{
	const int32_t dim = v->a->kv->head_dim, bits = k_cache_bits(v->a->kv->format);
	const int32_t end = first + K_CODED_DIMS < dim ? first + K_CODED_DIMS : dim;
	uint16_t scale[K_SPAN] = { 0 }, min[K_SPAN] = { 0 };
	void *data[K_SPAN] = { NULL };
	struct k_code_factor f;
	int8_t p[K_SPAN];

	for (int32_t t = 0; t < K_SPAN; t++)
		if (k_bits_has(&s->seen, t)) {
			struct k_code_scales c;

			data[t] = group_of(v, s->first + t, true).data;
			c = k_value_scales(data[t], dim, bits, first / K_CODED_DIMS);
			scale[t] = c.scale[t % K_GROUP];
			min[t] = c.min[t % K_GROUP];
		}
	f = k_code_factor(s->p, scale, min, K_SPAN, bits, p);
	for (int32_t i = first; i < end; i++) {
		int32_t sum = 0;

		for (int32_t t = 0; t < K_SPAN; t++)
			if (k_bits_has(&s->seen, t))
				sum += p[t] * k_code_get(data[t], k_value_at(dim, t % K_GROUP, i, bits), bits);
		o[i] = k_code_sum(&f, sum);
	}
}

/* o = the span's weighted sum of the visible values. */
static void span_values(const struct view *v, const struct span *s, float *o)
{
	const int32_t head_dim = k_value_dim(v->a->kv);
	const bool coded = v->a->recent && s->first < v->coded_end;

	for (int32_t i = 0; i < head_dim; i++)
		o[i] = 0;
	for (int32_t i = 0; i < head_dim && coded; i += K_CODED_DIMS)
		span_codes(v, s, i, o);
	for (int32_t t = 0; t < K_SPAN && !coded; t++) {
		struct group g;

		if (!k_bits_has(&s->seen, t))
			continue;
		g = group_of(v, s->first + t, !v->a->kv->value_dim);
		for (int32_t i = 0; i < head_dim; i++)
			o[i] = add_value(&g, t % K_GROUP, s->p[t], i, o[i]);
	}
}

/* After all spans, whose maximum and sum are M and L: p [128] of a span = (p * exp(m - M)) * (1 /
 * L). */
static void span_scale(struct span *s, float max, float inv_l)
{
	const float e = k_exp(s->m - max);

	for (int32_t t = 0; t < K_SPAN; t++)
		s->p[t] = (s->p[t] * e) * inv_l;
	for (int32_t g = 0; g < K_SPAN_GROUPS; g++)
		s->group[g] = (s->group[g] * e) * inv_l;
}

/* Where the last position ends that row r sees: after its own, unless it sees later ones. */
static int32_t seen_end(const struct view *v)
{
	return k_row_ranges(v->a, v->row)[v->a->n_ranges - 1].end;
}

/* Shares of groups are scaled likewise; a visible key counts as near zero if its scaled p is below
 * the threshold. The scores are computed again. */
static void observe(const struct view *v, float max, float inv_l, float *share, int32_t *near_zero)
{
	const int32_t n_groups = v->pos / K_GROUP + 1;
	int32_t count = 0;

	for (int32_t g = 0; share && !v->a->adds && g < n_groups; g++)
		share[g] = 0;
	for (int32_t first = 0; first < seen_end(v); first += K_SPAN) {
		struct span s;

		if (!span_scores(v, first, &s))
			continue;
		span_scale(&s, max, inv_l);
		for (int32_t t = 0; t < K_SPAN; t++)
			count += k_bits_has(&s.seen, t) && s.p[t] < v->a->threshold;
		for (int32_t g = 0; share && g < K_SPAN_GROUPS && first / K_GROUP + g < n_groups; g++)
			share[first / K_GROUP + g] += s.group[g];
	}
	if (near_zero)
		*near_zero = count + (v->a->adds ? *near_zero : 0);
}

static struct view view_of(const struct k_attention *a, int32_t r, int32_t head)
{
	const struct k_row *row = a->rows + r;
	const size_t at = ((size_t)r * (size_t)a->n_heads + (size_t)head) * (size_t)a->kv->head_dim;

	return (struct view){
		.a = a,
		.row = r,
		.head = head,
		.q = a->q + at,
		.sink_q = a->sink_q + (a->sink_q ? at : 0),
		.kv_head = head / (a->n_heads / a->kv->n_kv_heads),
		.pos = row->pos,
		.seq = row->seq,
		.coded_end = a->recent ? k_coded_end(a->kv, row->pos) : 0,
	};
}

/* The spans of a row so far: running maximum and sum, and values if they are needed. */
struct merged {
	bool any;
	float max, l;
	float *o, *part; /* [head_dim]; NULL: without values. part is scratch */
};

/* Merges one more span (rule 11): the first is copied. */
static void merge(const struct view *v, const struct span *s, struct merged *to)
{
	const float n = to->any && to->max > s->m ? to->max : s->m;
	const float old = k_exp(to->max - n), new = k_exp(s->m - n);

	if (to->o)
		span_values(v, s, to->any ? to->part : to->o);
	for (int32_t i = 0; to->any && to->o && i < k_value_dim(v->a->kv); i++)
		to->o[i] = k_fma(old, to->o[i], new * to->part[i]);
	to->l = to->any ? k_fma(old, to->l, new * s->l) : s->l;
	to->max = n;
	to->any = true;
}

static void merge_spans(const struct view *v, struct merged *to)
{
	for (int32_t first = 0; first < seen_end(v); first += K_SPAN) {
		struct span s;

		if (span_scores(v, first, &s))
			merge(v, &s, to);
	}
}

void k_attention_reads(const struct k_attention *a, int32_t r, int32_t kv_head, uint16_t *bits)
{
	const int32_t n = a->rows[r].pos / K_GROUP + 1;

	for (int32_t first = 0; first < n; first += K_SPAN_GROUPS) {
		const struct k_bits b = k_row_bits(a, r, kv_head, first / K_SPAN_GROUPS);

		for (int32_t g = 0; g < K_SPAN_GROUPS && first + g < n; g++)
			bits[first + g] |= (uint16_t)k_bits_group(&b, g);
	}
}

void k_attention_row(const struct k_attention *a, int32_t r, int32_t head, float *out)
{
	const struct view v = view_of(a, r, head);
	struct merged all = { 0 };

	merge_spans(&v, &all);
	for (int32_t first = 0; first <= v.pos; first += K_SPAN) {
		const int32_t n = v.pos + 1 - first < K_SPAN ? v.pos + 1 - first : K_SPAN;
		struct span s;

		if (span_scores(&v, first, &s)) {
			span_scale(&s, all.max, k_attention_inverse(a, head, all.max, all.l));
			memcpy(out + first, s.p, (size_t)n * sizeof *out);
		} else {
			memset(out + first, 0, (size_t)n * sizeof *out);
		}
	}
}

void k_ref_attend(const struct k_attention *a, int32_t r, int32_t head, float *o, float *part)
{
	const struct k_row *row = a->rows + r;
	const size_t seen = (size_t)row->observe * (size_t)a->n_heads + (size_t)head;
	const bool observed = row->observe >= 0;
	float *share = observed && a->share ? a->share + seen * (size_t)a->share_stride : NULL;
	int32_t *near_zero = observed && a->near_zero ? a->near_zero + seen : NULL;
	const struct view v = view_of(a, r, head);
	struct merged all = { .o = o, .part = part };
	float inv_l;

	merge_spans(&v, &all);
	inv_l = k_attention_inverse(a, head, all.max, all.l);
	for (int32_t i = 0; i < k_value_dim(a->kv); i++)
		o[i] = o[i] * inv_l + 0.0f; /* turns -0 into +0 */
	if (share || near_zero)
		observe(&v, all.max, inv_l, share, near_zero);
	if (a->account)
		observe(&v, all.max, inv_l,
			a->account +
				((size_t)r * (size_t)a->n_heads + (size_t)head) * (size_t)a->account_stride,
			NULL);
}

void k_ref_attention(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_attention *a = &op->u.attention;
	const int32_t head_dim = k_value_dim(a->kv);
	/* A block of 32 may cross heads: then one thread computes the whole row. */
	const int32_t step = !a->out.q || head_dim % K_QBLOCK == 0 ? 1 : a->n_heads;
	const int32_t n_units = a->n_heads / step;
	int64_t lo, hi;

	k_split((int64_t)a->n * n_units, tid, n_threads, &lo, &hi);
	for (int64_t unit = lo; unit < hi; unit++) {
		int32_t r = (int32_t)(unit / n_units), head = (int32_t)(unit % n_units) * step;
		int32_t at = head * head_dim;
		float *o = a->out.x + (size_t)r * (size_t)a->out.dim + (size_t)at;

		for (int32_t i = 0; i < step; i++)
			k_ref_attend(a, r, head + i, o + (size_t)i * (size_t)head_dim, scratch);
		k_put(&a->out, r, at, o, step * head_dim);
	}
}

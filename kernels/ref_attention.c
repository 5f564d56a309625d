/* The reference of attention: rule 11. Scores of one span at a time, its maximum, its sums, and
 * then the spans' results merged in ascending order: the partition is by absolute position, so the
 * bits depend on nothing but the tokens seen. Thread: called by all threads of a pool; no state. */
#include "kernels/arith.h"
#include "kernels/isa.h"

/* Where the keys and values of one row's kv head are. */
struct view {
	const struct k_attention *a;
	const int32_t *pages;
	const float *q;
	int32_t kv_head, pos;
};

static const uint16_t *view_at(const struct view *v, int32_t pos, int want_v)
{
	const struct k_kv *kv = v->a->kv;
	const int32_t token = pos % kv->page_size;
	const uint16_t *at =
		k_kv_at(kv, v->pages[pos / kv->page_size], v->a->layer, want_v, v->kv_head);

	if (want_v)
		return at + (size_t)token * (size_t)kv->head_dim;
	return at + (size_t)(token / K_GROUP) * (size_t)kv->head_dim * K_GROUP + token % K_GROUP;
}

static float score(const struct view *v, int32_t pos)
{
	const uint16_t *key = view_at(v, pos, 0);
	float s = 0;

	for (int32_t i = 0; i < v->a->kv->head_dim; i++)
		s = k_fma(v->q[i], k_f16_to_f32(key[i * K_GROUP]), s);
	return v->a->softcap > 0 ? k_softcap(s, v->a->softcap) : s;
}

/* Probabilities of a span before it is scaled: p [128], +0 where invisible. Returns the span's
 * maximum, in which a NaN never wins. */
static float span_scores(const struct view *v, int32_t first, float *p)
{
	float m = -INFINITY;

	for (int32_t i = 0; i < K_SPAN; i++) {
		p[i] = 0;
		if (first + i <= v->pos) {
			p[i] = score(v, first + i);
			m = p[i] > m ? p[i] : m;
		}
	}
	for (int32_t i = 0; i < K_SPAN && first + i <= v->pos; i++)
		p[i] = k_exp(p[i] - m);
	return m;
}

/* l, the chain over the span's groups of tree(16). The sums of its visible groups go to share, if it is
 * not NULL. */
static float span_mass(const struct view *v, int32_t first, const float *p, float *share)
{
	float l = 0;

	for (int32_t g = 0; g < K_SPAN / K_GROUP && first + g * K_GROUP <= v->pos; g++) {
		float tree[K_GROUP], sum;

		memcpy(tree, p + g * K_GROUP, sizeof tree);
		sum = k_tree_sum(tree, K_GROUP);
		l += sum;
		if (share)
			share[first / K_GROUP + g] = sum;
	}
	return l;
}

/* o = the span's weighted sum of values. */
static void span_values(const struct view *v, int32_t first, const float *p, float *o)
{
	const int32_t head_dim = v->a->kv->head_dim;

	for (int32_t i = 0; i < head_dim; i++)
		o[i] = 0;
	for (int32_t t = 0; t < K_SPAN && first + t <= v->pos; t++) {
		const uint16_t *value = view_at(v, first + t, 1);

		for (int32_t i = 0; i < head_dim; i++)
			o[i] = k_fma(p[t], k_f16_to_f32(value[i]), o[i]);
	}
}

/* After all spans: share of a group = (its sum * exp(m - M)) * (1 / L), m its span's maximum; a
 * visible key counts as near zero if (p * exp(m - M)) * (1 / L) is below the threshold. The scores
 * are made anew. */
static void observe(const struct view *v, float max, float inv_l, float *share, int32_t *near_zero)
{
	const struct k_attention *a = v->a;
	const int32_t n_groups = v->pos / K_GROUP + 1;
	float p[K_SPAN];
	int32_t count = 0;

	for (int32_t first = 0; first <= v->pos; first += K_SPAN) {
		float e = k_exp(span_scores(v, first, p) - max);

		for (int32_t t = 0; t < K_SPAN && first + t <= v->pos; t++)
			count += (p[t] * e) * inv_l < a->threshold;
		for (int32_t g = first / K_GROUP; share && g < n_groups && g < (first + K_SPAN) / K_GROUP;
			 g++)
			share[g] = (share[g] * e) * inv_l;
	}
	if (near_zero)
		*near_zero = count;
}

static struct view view_of(const struct k_attention *a, int32_t r, int32_t head)
{
	const struct k_row *row = a->rows + r;
	const int32_t head_dim = a->kv->head_dim;

	return (struct view){
		.a = a,
		.pages = a->pages[row->seq],
		.q = a->q + ((size_t)r * (size_t)a->n_heads + (size_t)head) * (size_t)head_dim,
		.kv_head = head / (a->n_heads / a->kv->n_kv_heads),
		.pos = row->pos,
	};
}

/* The running maximum M and sum L of rule 11, one span more: of maximum m and sum l. *old and *new are
 * what scales the values before and those of the span. */
static void merge(float *max, float *sum, float m, float l, float *old, float *new)
{
	float n = *max > m ? *max : m;

	*old = k_exp(*max - n);
	*new = k_exp(m - n);
	*sum = k_fma(*old, *sum, *new * l);
	*max = n;
}

void k_attention_row(const struct k_attention *a, int32_t r, int32_t head, float *out)
{
	const struct view v = view_of(a, r, head);
	float p[K_SPAN], max = 0, l = 0, old, new;

	for (int32_t first = 0; first <= v.pos; first += K_SPAN) {
		float m = span_scores(&v, first, p), b = span_mass(&v, first, p, NULL);

		if (first == 0) {
			max = m;
			l = b;
		} else {
			merge(&max, &l, m, b, &old, &new);
		}
	}
	l = 1.0f / l;
	for (int32_t first = 0; first <= v.pos; first += K_SPAN) {
		float e = k_exp(span_scores(&v, first, p) - max);

		for (int32_t t = 0; t < K_SPAN && first + t <= v.pos; t++)
			out[first + t] = (p[t] * e) * l;
	}
}

void k_ref_attend(const struct k_attention *a, int32_t r, int32_t head, float *o, float *part)
{
	const struct k_row *row = a->rows + r;
	const int32_t head_dim = a->kv->head_dim;
	const size_t seen = (size_t)row->observe * (size_t)a->n_heads + (size_t)head;
	const bool observed = row->observe >= 0;
	float *share = observed && a->share ? a->share + seen * (size_t)a->share_stride : NULL;
	int32_t *near_zero = observed && a->near_zero ? a->near_zero + seen : NULL;
	const struct view v = view_of(a, r, head);
	float p[K_SPAN], max = 0, l = 0;

	for (int32_t first = 0; first <= v.pos; first += K_SPAN) {
		float m = span_scores(&v, first, p), b = span_mass(&v, first, p, share), old, new;

		if (first == 0) {
			max = m;
			l = b;
			span_values(&v, first, p, o);
			continue;
		}
		span_values(&v, first, p, part);
		merge(&max, &l, m, b, &old, &new);
		for (int32_t i = 0; i < head_dim; i++)
			o[i] = k_fma(old, o[i], new * part[i]);
	}
	l = 1.0f / l;
	for (int32_t i = 0; i < head_dim; i++)
		o[i] = o[i] * l;
	if (share || near_zero)
		observe(&v, max, l, share, near_zero);
}

void k_ref_attention(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_attention *a = &op->u.attention;
	const int32_t head_dim = a->kv->head_dim;
	/* A block of 32 may lie across heads: then a row is one thread's. */
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

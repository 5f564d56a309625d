/* The definition of attention: rule 11. It computes the scores of one span at a time, their maximum
 * and sums, and merges the spans' results in ascending order: spans are fixed by absolute position,
 * so the bits depend only on the visible tokens. Written by the loops of op/lanes.h for the threads
 * of a block, so that a GPU runs it where it has no faster way: keys that are chosen, coded, or
 * have values within them, second queries, biases, rows that see later ones. A unit is a head of a
 * row; or a row, where a block of 32 outputs crosses heads. Private to kernels/. Thread: any; no
 * state. */
#pragma once

#include "kernels/format/codes.h"
#include "kernels/visible.h"

/* What a unit's threads share of a span. */
struct k_attend_room {
	float p[K_SPAN];            /* scores, then probabilities, +0 where not seen */
	float group[K_SPAN_GROUPS]; /* sums of groups of 16, tree(16) */
	/* of its groups; NULL where the row sees none of it */
	const uint8_t *keys[K_SPAN_GROUPS], *values[K_SPAN_GROUPS];
	/* of formats by channel: integers and what they are multiplied by, [group][channel] of a query,
	 * then [64 channels][token] of probabilities */
	struct k_code_factor factor[K_MAX_HEAD_DIM / K_CODED_DIMS]; /* no fewer than K_SPAN_GROUPS */
	int8_t code[K_MAX_HEAD_DIM * K_SPAN_GROUPS];
};
/* What one row's head reads, and what the row sees of a span. */
struct k_view {
	const struct k_attention *a;
	struct k_attend_room *s;
	const float *q, *sink_q;
	int32_t row, head, kv_head, pos, seq;
	int32_t coded_end; /* positions before it are read as codes by channel */
	/* of the span */
	int32_t first;         /* position */
	const struct k_kv *kv; /* where it is */
	struct k_bits seen;
	float m, l; /* maximum, in which a NaN never wins; chain over the sums of groups */
};

K_INLINE struct k_view k_view_of(
	const struct k_attention *a, int32_t r, int32_t head, struct k_attend_room *s)
{
	const struct k_row *row = a->rows + r;
	const size_t at = k_index(r, a->n_heads, head) * (size_t)a->kv->head_dim;
	struct k_view v = { 0 };

	v.a = a;
	v.s = s;
	v.q = a->q + at;
	v.sink_q = a->sink_q ? a->sink_q + at : v.q;
	v.row = r;
	v.head = head;
	v.kv_head = head / (a->n_heads / a->kv->n_kv_heads);
	v.pos = row->pos;
	v.seq = row->seq;
	v.coded_end = a->recent ? k_coded_end(a->kv, row->pos) : 0;
	return v;
}

K_INLINE bool k_view_is_coded(const struct k_view *v)
{
	return k_cache_by_channel((int32_t)v->kv->format);
}

/* ---- formats by channel: the scales go into what meets the codes ---- */

/* What number i meets: of the query the channel's scale in group `which`; of the span's
 * probabilities the token's for channels 64 which …, none where the row does not see it. */
K_INLINE void k_view_scale(
	const struct k_view *v, int32_t which, bool values, int32_t i, float *by, float *low)
{
	const int32_t bits = k_cache_bits((int32_t)v->kv->format), dim = v->kv->head_dim;
	const uint8_t *group = values ? v->s->values[i / K_GROUP] : v->s->keys[which];
	struct k_code_scales c;

	*by = *low = 0;
	if (values && !k_bits_has(&v->seen, i))
		return;
	c = values ? k_value_scales((void *)(uintptr_t)group, dim, bits, which)
			   : k_key_scales((void *)(uintptr_t)group, dim, bits);
	*by = k_f16_to_f32(c.scale[values ? i % K_GROUP : i]);
	*low = k_f16_to_f32(c.min[values ? i % K_GROUP : i]);
}

/* The factor of a query or of probabilities, and the integers. A warp. */
K_UNIT_FN struct k_code_factor k_view_factor(
	const struct k_view *v, int32_t which, bool values, int8_t *code)
{
	const int32_t bits = k_cache_bits((int32_t)v->kv->format);
	const int32_t n = values ? K_SPAN : v->kv->head_dim;
	const float *x = values ? v->s->p : v->q, middle = (float)k_code_middle(bits);
	struct k_code_factor f = { 0, 0, 0 };
	float lane[K_OWN] = { 0 }, by, low, inverse;
	uint32_t most = 0;
	bool usual;

	K_LANES(c, K_GROUP)
		for (int32_t i = c; i < n; i += K_GROUP) {
			uint32_t size;

			k_view_scale(v, which, values, i, &by, &low);
			size = k_bits(x[i] * by) & 0x7fffffffu;
			most = size > most ? size : most;
			lane[K_AT(c)] = k_fma(x[i], k_fma(by, middle, low), lane[K_AT(c)]);
		}
	f.middles = k_half_sum(lane);
	usual = k_step(k_lanes_most(most), &f.step, &inverse);
	K_LANES(i, n) {
		k_view_scale(v, which, values, i, &by, &low);
		code[i] = (int8_t)(usual ? k_code(x[i] * by, inverse, -127, 127) : 0);
		f.sum += code[i] * k_code_middle(bits);
	}
	f.sum = k_lanes_total(f.sum);
	return f;
}

/* The factors of the query with each group of the span. */
K_UNIT_FN void k_view_code_query(const struct k_view *v)
{
	K_WARPS(g, K_SPAN_GROUPS) {
		struct k_code_factor f;

		if (!v->s->keys[g])
			continue;
		f = k_view_factor(v, g, false, v->s->code + g * K_MAX_HEAD_DIM);
		if (k_lane() == 0)
			v->s->factor[g] = f;
	}
	K_MEET();
}

/* Those of the probabilities with each 64 channels. */
K_UNIT_FN void k_view_code_values(const struct k_view *v)
{
	K_WARPS(b, k_pieces(v->kv->head_dim, K_CODED_DIMS)) {
		const struct k_code_factor f = k_view_factor(v, b, true, v->s->code + b * K_SPAN);

		if (k_lane() == 0)
			v->s->factor[b] = f;
	}
	K_MEET();
}

/* ---- scores ---- */

K_INLINE float k_score_by_channel(const struct k_view *v, int32_t t)
{
	const int32_t g = t / K_GROUP, bits = k_cache_bits((int32_t)v->kv->format);
	const int8_t *q = v->s->code + g * K_MAX_HEAD_DIM;
	int32_t sum = 0;

	for (int32_t i = 0; i < v->kv->head_dim; i++)
		sum += q[i] * k_code_get(v->s->keys[g], k_key_at(t % K_GROUP, i, bits), bits);
	return k_code_sum(&v->s->factor[g], sum);
}

/* A chain for each scale. */
K_INLINE float k_score_q8(const struct k_view *v, const float *q, int32_t t)
{
	const int32_t dim = v->kv->head_dim, token = t % K_GROUP;
	const uint8_t *group = v->s->keys[t / K_GROUP];
	float s = 0;

	for (int32_t first = 0; first < dim; first += K_Q8_DIMS) {
		const uint16_t *scale = k_q8_scales((void *)(uintptr_t)group, dim, first / K_Q8_DIMS);
		float part = 0;

		for (int32_t i = first; i < dim && i < first + K_Q8_DIMS; i++)
			part = k_fma(q[i], ((const int8_t *)group)[i * K_GROUP + token], part);
		s = k_fma(k_f16_to_f32(scale[token]), part, s);
	}
	return s;
}

/* Of token t of the span. */
K_INLINE float k_score(const struct k_view *v, int32_t t)
{
	const int32_t format = (int32_t)v->kv->format, dim = v->kv->head_dim;
	const float *q = v->first + t < v->a->n_sinks ? v->sink_q : v->q;
	const uint8_t *group = v->s->keys[t / K_GROUP];
	float s = 0;

	if (k_view_is_coded(v))
		s = k_score_by_channel(v, t);
	else if (format == K_CACHE_q8)
		s = k_score_q8(v, q, t);
	else
		for (int32_t i = 0; i < dim; i++)
			s = k_fma(q[i], k_cache_get(format, group, (size_t)(i * K_GROUP + t % K_GROUP)), s);
	if (v->a->bias)
		s += k_distance_bias(v->a, v->head, v->first + t - v->pos);
	return v->a->softcap > 0 ? k_softcap(s, v->a->softcap) : s;
}

/* Where the span's groups are. */
K_UNIT_FN void k_view_groups(const struct k_view *v)
{
	const struct k_attention *a = v->a;
	const int32_t *pages = v->kv == a->recent ? a->recent_pages[v->seq] : a->pages[v->seq];

	K_THREADS(g, K_SPAN_GROUPS) {
		const int32_t pos = v->first + g * K_GROUP, in = pos % v->kv->page_size / K_GROUP;
		const bool sees = k_bits_group(&v->seen, g);
		const int32_t page = sees ? pages[pos / v->kv->page_size] : 0;

		v->s->keys[g] =
			(const uint8_t *)(sees ? k_kv_group(v->kv, page, a->layer, 0, v->kv_head, in) : NULL);
		v->s->values[g] = (const uint8_t *)(sees ? k_kv_group(v->kv, page, a->layer,
													   !v->kv->value_dim, v->kv_head, in)
												 : NULL);
	}
	K_MEET();
}

/* Begins with the span from `first` on; false if the row sees no position of it. */
K_UNIT_FN bool k_view_begin(struct k_view *v, int32_t first)
{
	v->first = first;
	v->kv = v->a->recent && first >= v->coded_end ? v->a->recent : v->a->kv;
	v->seen = k_row_bits(v->a, v->row, v->kv_head, first / K_SPAN);
	if (!k_bits_any(&v->seen))
		return false;
	K_MEET(); /* the span before has been read */
	k_view_groups(v);
	return true;
}

K_UNIT_FN void k_view_scores(const struct k_view *v)
{
	if (k_view_is_coded(v))
		k_view_code_query(v);
	K_THREADS(t, K_SPAN)
		v->s->p[t] = k_bits_has(&v->seen, t) ? k_score(v, t) : -INFINITY;
	K_MEET();
}

/* Turns the scores into probabilities, their maximum and sum. */
K_UNIT_FN void k_view_softmax(struct k_view *v)
{
	struct k_attend_room *s = v->s;

	v->m = k_greatest(s->p, K_SPAN);
	K_MEET();
	K_THREADS(t, K_SPAN)
		s->p[t] = k_bits_has(&v->seen, t) ? k_exp(s->p[t] - v->m) : 0;
	K_MEET();
	K_WARPS(g, K_SPAN_GROUPS) {
		float lane[K_OWN] = { 0 }, sum;

		K_LANES(t, K_GROUP)
			lane[K_AT(t)] = s->p[g * K_GROUP + t];
		sum = k_half_sum(lane);
		if (k_lane() == 0)
			s->group[g] = sum;
	}
	K_MEET();
	v->l = 0;
	for (int32_t g = 0; g < K_SPAN_GROUPS; g++)
		v->l += s->group[g];
}

/* The span from `first` on, to v->s; false if the row sees no position of it. */
K_UNIT_FN bool k_view_span(struct k_view *v, int32_t first)
{
	if (!k_view_begin(v, first))
		return false;
	k_view_scores(v);
	k_view_softmax(v);
	return true;
}

/* ---- values ---- */

/* Dimension i of token t's value times its probability, added to o. A scale of the token goes into
 * the latter. */
K_INLINE float k_weighed(const struct k_view *v, int32_t t, int32_t i, float o)
{
	const int32_t dim = v->kv->head_dim, token = t % K_GROUP, format = (int32_t)v->kv->format;
	const uint8_t *group = v->s->values[t / K_GROUP];
	const float p = v->s->p[t];

	if (format == K_CACHE_q8)
		return k_fma(
			p * k_f16_to_f32(k_q8_scales((void *)(uintptr_t)group, dim, i / K_Q8_DIMS)[token]),
			((const int8_t *)group)[token * dim + i], o);
	if (v->kv->value_dim) /* the group is of keys */
		i = (dim - v->kv->value_dim + i) * K_GROUP + token;
	else
		i = token * dim + i;
	return k_fma(p, k_cache_get(format, group, (size_t)i), o);
}

/* The span's weighted sum of the visible values, dimension i; of codes, their factors are there. */
K_INLINE float k_view_value(const struct k_view *v, int32_t i)
{
	const int32_t bits = k_cache_bits((int32_t)v->kv->format), b = i / K_CODED_DIMS;
	const bool coded = k_view_is_coded(v);
	int32_t sum = 0;
	float o = 0;

	for (int32_t t = 0; t < K_SPAN; t++) {
		if (!k_bits_has(&v->seen, t))
			continue;
		if (coded)
			sum += v->s->code[b * K_SPAN + t] *
				   k_code_get(v->s->values[t / K_GROUP],
					   k_value_at(v->kv->head_dim, t % K_GROUP, i, bits), bits);
		else
			o = k_weighed(v, t, i, o);
	}
	return coded ? k_code_sum(&v->s->factor[b], sum) : o;
}

/* ---- merging ---- */

/* The spans of a row so far. */
struct k_merged {
	bool any;
	float max, l;
};

/* Merges one more span: the first is copied. o: values, each its thread's own; NULL: without. */
K_UNIT_FN void k_view_merge(const struct k_view *v, struct k_merged *to, float *o)
{
	const float n = to->any && to->max > v->m ? to->max : v->m;
	const float old = k_exp(to->max - n), fresh = k_exp(v->m - n);

	if (o && k_view_is_coded(v))
		k_view_code_values(v);
	K_THREADS(i, o ? k_value_dim(v->kv) : 0) {
		const float part = k_view_value(v, i);

		o[i] = to->any ? k_fma(old, o[i], fresh * part) : part;
	}
	to->l = to->any ? k_fma(old, to->l, fresh * v->l) : v->l;
	to->max = n;
	to->any = true;
}

/* ---- the matrix of scores in memory: three passes of all units, one after the other ---- */

enum { K_MATRIX_SCORES, K_MATRIX_SOFTMAX, K_MATRIX_VALUES, K_MATRIX_PASSES };

/* Passes of the definition over all units, one after the other. */
K_INLINE int32_t k_attend_passes(const struct k_attention *a)
{
	return a->matrix && !a->relative ? K_MATRIX_PASSES : 1;
}

/* The span's line: what is of the span before the pass, and after it. */
K_UNIT_FN void k_matrix_span(struct k_view *v, int32_t pass, struct k_merged *all, float *o)
{
	const size_t of_row = k_index(v->row, v->a->n_heads, v->head);
	float *line =
		v->a->matrix +
		(of_row * (size_t)v->a->matrix_spans + (size_t)(v->first / K_SPAN)) * K_MATRIX_SPAN;

	K_THREADS(t, pass == K_MATRIX_SCORES ? 0 : K_SPAN)
		v->s->p[t] = line[t];
	K_MEET();
	if (pass == K_MATRIX_VALUES) {
		v->m = line[K_SPAN];
		v->l = line[K_SPAN + 1];
		k_view_merge(v, all, o);
		return;
	}
	if (pass == K_MATRIX_SCORES)
		k_view_scores(v);
	else
		k_view_softmax(v);
	K_THREADS(t, K_SPAN) {
		line[t] = v->s->p[t];
		if (t < 2 && pass == K_MATRIX_SOFTMAX)
			line[K_SPAN + t] = t ? v->l : v->m;
	}
}

/* ---- rows ---- */

/* Where the last position ends that the row sees: after its own, unless it sees later ones. */
K_INLINE int32_t k_view_end(const struct k_view *v)
{
	return k_row_ranges(v->a, v->row)[v->a->n_ranges - 1].end;
}

/* pass < 0: in one. */
K_UNIT_FN struct k_merged k_view_row(struct k_view *v, int32_t pass, float *o)
{
	struct k_merged all = { false, 0, 0 };

	for (int32_t first = 0; first < k_view_end(v); first += K_SPAN) {
		if (!k_view_begin(v, first))
			continue;
		if (pass >= 0) {
			k_matrix_span(v, pass, &all, o);
			continue;
		}
		k_view_scores(v);
		k_view_softmax(v);
		k_view_merge(v, &all, o);
	}
	return all;
}

/* After all spans, whose maximum and sum are M and L: a span's p = (p * exp(m - M)) * (1 / L),
 * shares of groups likewise; a visible key counts as near zero if its scaled p is below the
 * threshold. The scores are computed again. share, near_zero: the row's, or NULL. */
K_UNIT_FN void k_view_observe(
	struct k_view *v, const struct k_merged *all, float inv_l, float *share, int32_t *near_zero)
{
	const int32_t n_groups = v->pos / K_GROUP + 1;
	int32_t count = 0;

	K_THREADS(g, share && !v->a->adds ? n_groups : 0)
		share[g] = 0;
	for (int32_t first = 0; first < k_view_end(v); first += K_SPAN) {
		float e;

		if (!k_view_span(v, first))
			continue;
		e = k_exp(v->m - all->max);
		K_LANES(t, K_SPAN)
			count += k_bits_has(&v->seen, t) && (v->s->p[t] * e) * inv_l < v->a->threshold;
		K_THREADS(g, share ? K_SPAN_GROUPS : 0)
			if (first / K_GROUP + g < n_groups)
				share[first / K_GROUP + g] += (v->s->group[g] * e) * inv_l;
	}
	count = k_lanes_total(count);
	K_THREADS(one, near_zero ? 1 : 0)
		*near_zero = count + (v->a->adds ? *near_zero : 0);
}

/* One row and head, without quantising: o [head_dim] and the observations, in the last pass. */
K_UNIT_FN void k_attend(const struct k_attention *a, int32_t r, int32_t head, int32_t pass,
	float *o, struct k_attend_room *s)
{
	const int32_t observe = a->rows[r].observe;
	const size_t seen = k_index(observe, a->n_heads, head);
	const size_t of_row = k_index(r, a->n_heads, head);
	struct k_view v = k_view_of(a, r, head, s);
	const struct k_merged all = k_view_row(&v, pass, o);
	const float inv_l = k_attention_inverse(a, head, all.max, all.l);

	if (pass >= 0 && pass < K_MATRIX_VALUES)
		return;
	K_THREADS(i, k_value_dim(a->kv))
		o[i] = o[i] * inv_l + 0.0f; /* turns -0 into +0 */
	if (observe >= 0 && (a->share || a->near_zero))
		k_view_observe(&v, &all, inv_l, a->share ? a->share + seen * (size_t)a->share_stride : NULL,
			a->near_zero ? a->near_zero + seen : NULL);
	if (a->attn_score)
		k_view_observe(
			&v, &all, inv_l, a->attn_score + of_row * (size_t)a->attn_score_stride, NULL);
}

/* Heads of a unit. */
K_INLINE int32_t k_attend_heads(const struct k_attention *a)
{
	return !a->out.q || k_value_dim(a->kv) % K_QBLOCK == 0 ? 1 : a->n_heads;
}
K_INLINE int64_t k_attend_units(const struct k_attention *a)
{
	return (int64_t)a->n * (a->n_heads / k_attend_heads(a));
}

/* pass: of the matrix of scores; -1: there is none. */
K_UNIT_FN void k_attend_unit(const struct k_attention *a, int64_t unit, int32_t pass)
{
	const int32_t dim = k_value_dim(a->kv), heads = k_attend_heads(a), per_row = a->n_heads / heads;
	const int32_t r = (int32_t)(unit / per_row), head = (int32_t)(unit % per_row) * heads;
	float *o = a->out.x + k_index(r, a->out.dim, head * dim);
	K_ROOM(struct k_attend_room, s);

	for (int32_t i = 0; i < heads; i++)
		k_attend(a, r, head + i, pass, o + i * dim, s);
	if (pass >= 0 && pass < K_MATRIX_VALUES)
		return;
	K_MEET(); /* all of a block are there */
	K_WARPS(b, a->out.q ? heads * dim / K_QBLOCK : 0)
		k_put(&a->out, r, head * dim + b * K_QBLOCK, o + b * K_QBLOCK + k_lane(), K_QBLOCK);
}

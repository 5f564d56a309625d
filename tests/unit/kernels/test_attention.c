/* Every instruction set's attention against the reference, by memcmp, and the reference against a
 * naive twin that computes what is masked: over page sizes, head shapes, positions, rows, threads,
 * and what rows see. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/format/cache.h"
#include "kernels/visible.h"
#include "tests/support/isa_rig.h"

/* What rows see. */
enum see {
	SEE_ALL,
	SEE_WINDOW,
	SEE_SINKS,
	SEE_RANDOM,
	SEE_ONE,
	SEE_SELECTED,
	SEE_STRIDE_MASK,
	SEE_ROTATED,
	SEE_AHEAD,
	SEE_BIASED,
	N_SEES
};
enum { MAX_RANGES = 5, MOST_AHEAD = 200, BUCKETS = 16, MOST_HEADS = 16 };

struct shape {
	int32_t head_dim, n_heads, n_kv_heads, page_size;
};
static int32_t value_dim; /* of the shape, if values are a part of the keys; else 0 */
static float bias[BUCKETS * MOST_HEADS];
static int32_t bucket[2 * K_DISTANCE + 1];

struct seen {
	struct k_acts out;
	float *share;
	int32_t *near_zero;
};

static struct seen seen_new(const struct k_attention *a, int32_t n_observed, bool x_only)
{
	struct seen s = { .out = acts_new(a->n, a->out.dim, true, !x_only && a->out.dim % 32 == 0) };
	size_t rows = (size_t)n_observed * (size_t)a->n_heads;

	if (rows) {
		s.share = rig_get(rows * (size_t)a->share_stride * 4);
		s.near_zero = rig_get(rows * 4);
	}
	return s;
}

static void seen_free(struct seen *s)
{
	acts_free(&s->out);
	free(s->share);
	free(s->near_zero);
}

/* What is there before: the same for all, since an op may add to it. */
static void begin_at(float *share, size_t n)
{
	for (size_t i = 0; i < n; i++)
		share[i] = (float)(i % 7) / 8;
}

static void use(struct k_op *op, const struct seen *s, int32_t n_observed)
{
	const size_t rows = (size_t)n_observed * (size_t)op->u.attention.n_heads;

	op->u.attention.out = s->out;
	op->u.attention.share = s->share;
	op->u.attention.near_zero = s->near_zero;
	begin_at(s->share, rows * (size_t)op->u.attention.share_stride);
	for (size_t i = 0; i < rows; i++)
		s->near_zero[i] = (int32_t)(i % 5);
}

/* Random ranges up to pos + 1, in the middle of groups as well as on the borders of spans. */
static void random_ranges(int32_t pos, struct k_range *out)
{
	int32_t n = 1 + (int32_t)(rig_next() % MAX_RANGES), at = 0, i = 0;

	for (; i + 1 < n; i++) {
		const int32_t grid = rig_next() % 3 ? 1 : rig_next() % 2 ? K_GROUP : K_SPAN;
		int32_t first = at + (int32_t)(rig_next() % 200) / grid * grid;
		int32_t end = first + 1 + (int32_t)(rig_next() % 150) / grid * grid;

		if (end >= pos)
			break;
		out[i] = (struct k_range){ first, end };
		at = end + 1;
	}
	out[i++] = (struct k_range){ at + (int32_t)(rig_next() % (uint32_t)(pos + 1 - at)), pos + 1 };
	while (i < MAX_RANGES)
		out[i++] = (struct k_range){ pos + 1, pos + 1 };
}

static void make_ranges(enum see see, int32_t pos, struct k_range *out)
{
	const int32_t window = 1 + (int32_t)(rig_next() % 3 ? 40 : 300), sinks = 4;
	const int32_t ahead = pos + 1 + (int32_t)(rig_next() % MOST_AHEAD);

	for (int i = 0; i < MAX_RANGES; i++)
		out[i] = (struct k_range){ pos + 1, pos + 1 };
	for (int i = 0; i < MAX_RANGES && see == SEE_AHEAD; i++)
		out[i] = (struct k_range){ i ? ahead : 0, ahead };
	if (see == SEE_AHEAD)
		return;
	if (see == SEE_ROTATED)
		see = SEE_SINKS;
	if (see == SEE_BIASED && rig_next() % 2) { /* another's positions, which end before this row's
												*/
		out[0] = (struct k_range){ 0, 1 + (int32_t)(rig_next() % (uint32_t)(pos + 1)) };
		for (int i = 1; i < MAX_RANGES; i++)
			out[i] = (struct k_range){ out[0].end, out[0].end };
		return;
	}
	if (see == SEE_SELECTED || see == SEE_BIASED || (see == SEE_STRIDE_MASK && rig_next() % 2))
		see = SEE_ALL;
	if (see == SEE_RANDOM || see == SEE_STRIDE_MASK)
		random_ranges(pos, out);
	else if (see == SEE_ONE)
		out[0] = (struct k_range){ pos, pos + 1 };
	else if (see == SEE_ALL || pos + 1 <= window + (see == SEE_SINKS ? sinks : 0))
		out[0] = (struct k_range){ 0, pos + 1 };
	else if (see == SEE_WINDOW)
		out[0] = (struct k_range){ pos + 1 - window, pos + 1 };
	else {
		out[0] = (struct k_range){ 0, sinks };
		out[1] = (struct k_range){ pos + 1 - window, pos + 1 };
	}
}

/* What a row reads beside its ranges: any groups, with its own; any teeth before any position; and
 * sinks with another query. */
static void make_reads(
	enum see see, struct k_attention *a, uint8_t *selected, struct k_stride_mask *stride_mask)
{
	const size_t heads = (size_t)a->kv->n_kv_heads, stride = (size_t)a->selected_stride;

	for (int32_t r = 0; r < a->n; r++) {
		const int32_t own = a->rows[r].pos / K_GROUP;

		for (size_t at = 0; at < heads * stride; at++)
			selected[(size_t)r * heads * stride + at] =
				(uint8_t)(rig_next() % 3 ? rig_next() & rig_next() : 0);
		for (size_t h = 0; h < heads; h++)
			selected[((size_t)r * heads + h) * stride + (size_t)(own / 8)] |=
				(uint8_t)(1 << own % 8);
		stride_mask[r].period = 1 + (int32_t)(rig_next() % (rig_next() % 2 ? 9 : 200));
		stride_mask[r].width = 1 + (int32_t)(rig_next() % (uint32_t)stride_mask[r].period);
		stride_mask[r].phase = (int32_t)(rig_next() % (uint32_t)stride_mask[r].period);
		stride_mask[r].end = (int32_t)(rig_next() % (uint32_t)(a->rows[r].pos + 1));
	}
	a->selected = see == SEE_SELECTED ? selected : NULL;
	a->stride_mask = see == SEE_STRIDE_MASK ? stride_mask : NULL;
	a->n_sinks = 4;
	if (see != SEE_BIASED)
		return;
	a->relative = true;
	a->adds = rig_next() % 2;
	rig_fill(bias, sizeof bias / sizeof *bias, 2);
	a->bias = a->adds && rig_next() % 2 ? NULL : bias;
	for (int i = 0; i < 2 * K_DISTANCE + 1; i++)
		bucket[i] = (int32_t)(rig_next() % BUCKETS);
	a->bucket = bucket;
}

static bool sees(const struct k_attention *a, int32_t r, int32_t kv_head, int32_t pos)
{
	bool seen = false;

	if (a->selected &&
		!(a->selected[(r * a->kv->n_kv_heads + kv_head) * a->selected_stride + pos / K_SPAN] >>
				pos % K_SPAN / K_GROUP &
			1))
		return false;
	if (a->stride_mask && pos < a->stride_mask[r].end &&
		(pos + a->stride_mask[r].phase) % a->stride_mask[r].period >= a->stride_mask[r].width)
		return false;

	for (int32_t i = 0; i < a->n_ranges; i++) {
		const struct k_range *g = &a->ranges[r * a->n_ranges + i];

		seen = seen || (g->first <= pos && pos < g->end);
	}
	return seen;
}

static int32_t end_seen(const struct k_attention *a, int32_t r)
{
	return a->ranges[(r + 1) * a->n_ranges - 1].end;
}

/* Of a token of a page. */
static size_t index_of(const struct k_kv *kv, int32_t token, int v, int32_t d)
{
	return (
		size_t)(v ? token * kv->head_dim + d : (token / 16 * kv->head_dim + d) * 16 + token % 16);
}

static void *page_of(const struct k_attention *a, int32_t r, int32_t pos, int v, int32_t head)
{
	return k_kv_at(a->kv, a->pages[a->rows[r].seq][pos / a->kv->page_size], a->layer, v, head);
}

static float cached(
	const struct k_attention *a, int32_t r, int32_t pos, int v, int32_t head, int32_t d)
{
	if (v && a->kv->value_dim)
		return cached(a, r, pos, 0, head, a->kv->head_dim - a->kv->value_dim + d);
	return k_cache_get(
		a->kv->format, page_of(a, r, pos, v, head), index_of(a->kv, pos % a->kv->page_size, v, d));
}

static void put(const struct k_attention *a, int32_t r, int32_t pos, int v, int32_t head, int32_t d,
	uint32_t code)
{
	k_cache_put(a->kv->format, page_of(a, r, pos, v, head),
		index_of(a->kv, pos % a->kv->page_size, v, d), code);
}

/* A span as if all of it were there: masked scores never win, masked probabilities are +0 and take
 * part in every sum. False if nothing of it is seen. */
static bool masked_span(const struct k_attention *a, int32_t r, int32_t head, int32_t first,
	float *m, float *l, float *o)
{
	const int32_t dim = a->kv->head_dim, kv_head = head / (a->n_heads / a->kv->n_kv_heads);
	const size_t at = (size_t)((r * a->n_heads + head) * dim);
	float p[K_SPAN];
	bool any = false;

	*m = -INFINITY;
	*l = 0;
	memset(o, 0, (size_t)dim * sizeof *o);
	for (int32_t t = 0; t < K_SPAN; t++) {
		const float *q = (a->sink_q && first + t < a->n_sinks ? a->sink_q : a->q) + at;

		p[t] = 0;
		for (int32_t d = 0; d < dim && first + t < end_seen(a, r); d++)
			p[t] = k_fma(q[d], cached(a, r, first + t, 0, kv_head, d), p[t]);
		if (a->bias)
			p[t] += k_distance_bias(a, head, first + t - a->rows[r].pos);
		p[t] = a->softcap > 0 ? k_softcap(p[t], a->softcap) : p[t];
		if (sees(a, r, kv_head, first + t)) {
			any = true;
			*m = p[t] > *m ? p[t] : *m;
		}
	}
	for (int32_t t = 0; t < K_SPAN; t++)
		p[t] = sees(a, r, kv_head, first + t) ? k_exp(p[t] - *m) : 0;
	for (int32_t t = 0; t < K_SPAN && first + t < end_seen(a, r); t++)
		for (int32_t d = 0; d < k_value_dim(a->kv); d++)
			o[d] = k_fma(p[t], cached(a, r, first + t, 1, kv_head, d), o[d]);
	for (int32_t g = 0; g < K_SPAN / K_GROUP; g++)
		*l += k_tree_sum(p + g * K_GROUP, K_GROUP);
	return any;
}

/* The naive twin of rule 11: one row and head to x [head_dim]. */
static void masked_row(const struct k_attention *a, int32_t r, int32_t head, float *x)
{
	const int32_t dim = k_value_dim(a->kv);
	float o[512], m, l, max = 0, sum = 0;
	bool any = false;

	for (int32_t first = 0; first < end_seen(a, r); first += K_SPAN) {
		float n, old, new;

		if (!masked_span(a, r, head, first, &m, &l, o))
			continue;
		n = any && max > m ? max : m;
		old = k_exp(max - n);
		new = k_exp(m - n);
		for (int32_t d = 0; d < dim; d++)
			x[d] = any ? k_fma(old, x[d], new *o[d]) : o[d];
		sum = any ? k_fma(old, sum, new *l) : l;
		max = n;
		any = true;
	}
	for (int32_t d = 0; d < dim; d++)
		x[d] = x[d] * (a->sinks ? k_sink_inverse(max, sum, a->sinks[head]) : 1.0f / sum) + 0.0f;
}

/* What no row sees becomes NaN (of e4m3: what would be one, and is never stored), and pages that
 * none sees become absent. */
static void poison(const struct k_attention *a, struct cache *c)
{
	static const uint32_t nans[K_N_UNCODED] = { [K_CACHE_f16] = 0x7e00,
		[K_CACHE_f32] = 0x7fc00000,
		[K_CACHE_bf16] = 0x7fc0,
		[K_CACHE_e4m3] = 0x7f };

	for (int32_t s = 0; s < c->n_seqs; s++) {
		int32_t longest = -1, r = -1, seen_block = -1;

		for (int32_t i = 0; i < a->n; i++)
			if (a->rows[i].seq == s) {
				r = i;
				longest = c->n_blocks * a->kv->page_size - 1;
			}
		for (int32_t pos = 0; pos <= longest; pos++) {
			for (int32_t h = 0; h < a->kv->n_kv_heads; h++) {
				bool seen = false;

				for (int32_t i = 0; i < a->n; i++)
					seen = seen || (a->rows[i].seq == s && sees(a, i, h, pos));
				seen_block = seen ? pos / a->kv->page_size : seen_block;
				for (int32_t e = 0; e < 2 * a->kv->head_dim && !seen; e++)
					put(a, r, pos, e & 1, h, e / 2, nans[a->kv->format]);
			}
			if ((pos + 1) % a->kv->page_size == 0 && seen_block != pos / a->kv->page_size)
				c->table[s * c->n_blocks + pos / a->kv->page_size] = -1;
		}
	}
}

/* Hostile numbers: scores far apart, so that probabilities are the least there are, and values as
 * small. */
static void make_extreme(struct cache *c, float *q, size_t n)
{
	const size_t bytes = (size_t)k_cache_bytes(c->kv.format);

	for (size_t i = 0; i < n; i++)
		q[i] = q[i] * 40;
	for (size_t i = 0; i < c->bytes / bytes; i++)
		if (rig_next() % 3 == 0)
			k_cache_put(
				c->kv.format, c->kv.base, i, rig_next() % 2 << (8 * bytes - 1) | rig_next() % 3);
}

/* The account: of each row what an observed one's shares are, of the groups that it reads. */
static void compare_attn_scores(const struct k_attention *a, const float *want, const float *got)
{
	const size_t stride = (size_t)a->attn_score_stride, heads = (size_t)a->n_heads;
	uint16_t *reads = rig_get(stride * sizeof *reads);

	for (int32_t r = 0; r < a->n; r++)
		for (size_t h = 0; h < heads; h++) {
			const size_t at = ((size_t)r * heads + h) * stride;
			const int32_t observe = a->rows[r].observe;

			memset(reads, 0, stride * sizeof *reads);
			k_attention_reads(a, r, (int32_t)h / (a->n_heads / a->kv->n_kv_heads), reads);
			for (size_t g = 0; g <= (size_t)(a->rows[r].pos / K_GROUP); g++) {
				if (reads[g])
					assert_memory_equal(want + at + g, got + at + g, sizeof *got);
				if (reads[g] && observe >= 0 && !a->adds)
					assert_memory_equal(want + at + g,
						a->share + ((size_t)observe * heads + h) * (size_t)a->share_stride + g,
						sizeof *got);
			}
		}
	free(reads);
}

static void check_attn_scores(struct k_op *op)
{
	struct k_attention *a = &op->u.attention;
	const size_t n = (size_t)a->n * (size_t)a->n_heads * (size_t)a->share_stride;
	float *want = rig_get(n * sizeof *want), *got = rig_get(n * sizeof *got);

	a->attn_score_stride = a->share_stride;
	for (int i = -1; i < n_fast; i++) {
		a->attn_score = i < 0 ? want : got;
		begin_at(a->attn_score, n);
		rig_run(i < 0 ? ref : fast[i], op);
		compare_attn_scores(a, want, a->attn_score);
	}
	a->attn_score = NULL;
	rig_free_all((void *[]){ want, got, NULL });
}

/* The next way to compute it; of a matrix its memory, which the caller frees. */
static float *next_way(struct k_attention *a)
{
	int32_t last = 0;

	for (int32_t i = 0; i < a->n * a->n_ranges; i++)
		last = a->ranges[i].end > last ? a->ranges[i].end : last;
	a->matrix_spans = last / K_SPAN + 1;
	a->way = (a->way + 1) % (K_ATTEND_MATRIX + 1);
	a->matrix = a->way == K_ATTEND_MATRIX
					? rig_get((size_t)(a->n * a->n_heads) * (size_t)a->matrix_spans *
							  K_MATRIX_SPAN * sizeof *a->matrix)
					: NULL;
	return a->matrix;
}

static void run_next_way(struct k_ctx *ctx, struct k_op *op)
{
	float *matrix = next_way(&op->u.attention);

	rig_run(ctx, op);
	free(matrix);
	op->u.attention.matrix = NULL;
}

static void compare(struct k_op *op, int32_t n_observed)
{
	struct k_attention *a = &op->u.attention;
	const size_t heads = (size_t)n_observed * (size_t)a->n_heads;
	struct seen want = seen_new(a, n_observed, false), got = seen_new(a, n_observed, false);
	struct seen plain = seen_new(a, 0, false);
	struct k_row *rows = (struct k_row *)(uintptr_t)a->rows;

	use(op, &want, n_observed);
	rig_run(ref, op);
	for (int i = 0; i < n_fast; i++) {
		use(op, &got, n_observed);
		run_next_way(fast[i], op);
		acts_same(&want.out, &got.out, a->n);
		if (n_observed) {
			assert_memory_equal(want.share, got.share, heads * (size_t)a->share_stride * 4);
			assert_memory_equal(want.near_zero, got.near_zero, heads * 4);
		}
	}
	check_attn_scores(op);
	for (int32_t r = 0; r < a->n; r++)
		rows[r].observe = -1;
	use(op, &plain, 0);
	for (int i = 0; i < n_fast; i++) {
		run_next_way(fast[i], op);
		acts_same(&want.out, &plain.out, a->n);
	}
	seen_free(&want);
	seen_free(&got);
	seen_free(&plain);
}

/* n rows at the positions and sequences of `rows`; every third is observed. The naive twin reads
 * the cache before it is poisoned. */
static void try_seen(const struct shape *shape, struct k_row *rows, int32_t n, float softcap,
	enum see see, bool extreme)
{
	const int32_t dim = shape->n_heads * shape->head_dim;
	const int32_t wide = value_dim ? shape->n_heads * value_dim : dim;
	float *q = rig_get((size_t)n * (size_t)dim * 4), *x = rig_get((size_t)n * (size_t)dim * 4);
	float *sink_q = rig_get((size_t)n * (size_t)dim * 4);
	struct k_range *ranges = rig_get((size_t)n * MAX_RANGES * sizeof *ranges);
	struct k_stride_mask *stride_mask = rig_get((size_t)n * sizeof *stride_mask);
	uint8_t *selected;
	struct k_op op = { .kind = K_OP_attention };
	struct k_attention *a = &op.u.attention;
	int32_t n_observed = 0, longest = 1;
	struct seen own;
	struct cache c;

	for (int32_t r = 0; r < n; r++)
		longest = rows[r].pos + 1 > longest ? rows[r].pos + 1 : longest;
	longest += see == SEE_AHEAD ? MOST_AHEAD : 0;
	cache_open(
		&c, rig_format(), shape->page_size, 2, shape->n_kv_heads, shape->head_dim, 3, longest);
	c.kv.value_dim = value_dim; /* V is there, and nothing reads it */
	rig_fill(q, (size_t)n * (size_t)dim, 1.5f);
	rig_fill(sink_q, (size_t)n * (size_t)dim, 1.5f);
	if (extreme)
		make_extreme(&c, q, (size_t)n * (size_t)dim);
	for (int32_t r = 0; r < n; r++) {
		rows[r].observe = r % 3 == n % 3 ? n_observed++ : -1;
		make_ranges(see, rows[r].pos, ranges + r * MAX_RANGES);
	}
	*a = (struct k_attention){ .q = q,
		.out.dim = wide,
		.n_heads = shape->n_heads,
		.layer = 1,
		.n = n,
		.rows = rows,
		.ranges = ranges,
		.n_ranges = MAX_RANGES,
		.pages = c.pages,
		.kv = &c.kv,
		.softcap = softcap,
		.share_stride = longest / K_GROUP + 3,
		.threshold = 1e-3f,
		.sinks = n % 2 ? q : NULL,
		.sink_q = see == SEE_ROTATED ? sink_q : NULL,
		.selected_stride = longest / K_SPAN + 2 };
	selected = rig_get((size_t)(n * shape->n_kv_heads * a->selected_stride));
	make_reads(see, a, selected, stride_mask);
	own = seen_new(a, n_observed, true);
	use(&op, &own, n_observed);
	for (int32_t r = 0; r < n; r++)
		for (int32_t h = 0; h < a->n_heads; h++)
			masked_row(a, r, h, x + (r * a->n_heads + h) * (wide / a->n_heads));
	poison(a, &c);
	rig_run(ref, &op);
	assert_memory_equal(own.out.x, x, (size_t)n * (size_t)wide * 4);
	compare(&op, n_observed);
	seen_free(&own);
	cache_close(&c);
	rig_free_all((void *[]){ q, sink_q, x, ranges, stride_mask, selected, NULL });
}

/* One key for all heads, of which the value is a part. */
static void test_latent(void **state)
{
	static const struct shape latent[] = { { 40, 2, 1, 16 }, { 144, 16, 1, 32 }, { 24, 4, 1, 16 },
		{ 80, 7, 1, 64 } };
	static const int32_t dims[] = { 32, 128, 8, 64 };

	(void)state;
	for (int i = 0; i < TURNS(64); i++) {
		const int32_t first = (int32_t)(rig_next() % 400), n = 1 + (int32_t)(rig_next() % 9);
		struct k_row rows[9];

		for (int32_t r = 0; r < n; r++)
			rows[r] = (struct k_row){ .pos = first + r, .seq = i % 3 ? 1 : r % 3 };
		value_dim = dims[i % 4];
		try_seen(&latent[i % 4], rows, n, 0, (enum see)(i / 4 % N_SEES), i % 5 == 4);
	}
	value_dim = 0;
}

/* All that is before a row. */
static void try_attention(const struct shape *shape, struct k_row *rows, int32_t n, float softcap)
{
	const int32_t dim = shape->n_heads * shape->head_dim;
	float *q = rig_get((size_t)n * (size_t)dim * 4);
	struct k_range *ranges = rig_get((size_t)n * sizeof *ranges);
	struct k_op op = { .kind = K_OP_attention };
	int32_t n_observed = 0, longest = 1;
	struct cache c;

	for (int32_t r = 0; r < n; r++)
		longest = rows[r].pos + 1 > longest ? rows[r].pos + 1 : longest;
	cache_open(
		&c, rig_format(), shape->page_size, 2, shape->n_kv_heads, shape->head_dim, 3, longest);
	rig_fill(q, (size_t)n * (size_t)dim, 1.5f);
	for (int32_t r = 0; r < n; r++)
		rows[r].observe = r % 3 == n % 3 ? n_observed++ : -1;
	k_see_all(rows, n, ranges);
	op.u.attention = (struct k_attention){ .q = q,
		.out.dim = dim,
		.n_heads = shape->n_heads,
		.layer = 1,
		.n = n,
		.rows = rows,
		.ranges = ranges,
		.n_ranges = 1,
		.pages = c.pages,
		.kv = &c.kv,
		.softcap = softcap,
		.share_stride = longest / K_GROUP + 3,
		.threshold = 1e-3f };
	compare(&op, n_observed);
	cache_close(&c);
	rig_free_all((void *[]){ q, ranges, NULL });
}

static const struct shape shapes[] = {
	{ 64, 9, 3, 64 },
	{ 32, 4, 4, 16 },
	{ 80, 4, 2, 32 },
	{ 96, 6, 1, 32 },
	{ 128, 8, 2, 16 },
	{ 256, 2, 1, 64 },
	{ 64, 8, 1, 16 },
	{ 32, 1, 1, 32 },
	{ 48, 7, 7, 64 },
	{ 24, 4, 2, 16 },
	{ 64, 14, 1, 128 },
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* One row at every residue of a group and of a span, near every border. */
static void test_attention_positions(void **state)
{
	enum { STEP = 2 * EACH - 1 }; /* odd: it meets every residue of a group */

	(void)state;
	for (int32_t pos = 0; pos < 700; pos += pos < 145 ? STEP : pos < 250 ? 9 : pos < 262 ? 1 : 87) {
		struct k_row row = { .pos = pos, .seq = pos % 3 };

		try_attention(&shapes[pos % 2 ? 0 : pos / 2 % N_SHAPES], &row, 1, pos % 5 ? 0 : 20);
	}
}

/* Many spans, some of which no thread has alone. */
static void test_attention_long(void **state)
{
	(void)state;
	for (int s = 0; s < N_SHAPES; s++) {
		struct k_row rows[3] = { { .pos = 2555 + s, .seq = 2 }, { .pos = 40, .seq = 0 },
			{ .pos = 1023, .seq = 1 } };

		if (shapes[s].head_dim <= 64 && shapes[s].n_heads <= 9)
			try_attention(&shapes[s], rows, 1 + s % 3, 0);
	}
}

/* A chunk of a prompt; rows of several requests; drafts behind a token. */
static void test_attention_rows(void **state)
{
	static const int32_t counts[] = { 2, 5, 17, 64 };

	(void)state;
	for (int s = 0; s < N_SHAPES; s += EACH)
		for (int k = 0; k < 4; k += s ? EACH : 1) {
			struct k_row rows[64];
			int32_t n = s % 2 && k == 3 ? 40 : counts[k],
					first = (int32_t)(rig_next() % (n > 17 ? 200 : 640));

			for (int32_t r = 0; r < n; r++)
				rows[r] = (struct k_row){ .pos = first + r, .seq = 1 };
			try_attention(&shapes[s], rows, n, 0);
			for (int32_t r = 0; r < n && k < 3; r++)
				rows[r] = (struct k_row){ .pos = (int32_t)(rig_next() % (n > 5 ? 200 : 700)),
					.seq = r % 3 };
			try_attention(&shapes[s], rows, n, 30);
			for (int32_t r = 0; r < n && k < 3; r++)
				rows[r] = (struct k_row){ .pos = 126 + r % 4, .seq = r / 4 % 3 };
			try_attention(&shapes[s], rows, n, 0);
		}
}

/* Page size and placement do not show: the same tokens in other pages. */
static void test_attention_pages(void **state)
{
	static const int32_t sizes[] = { 16, 32, 64, 128 };
	enum { DIM = 64, LONGEST = 640 };
	float *q = rig_get(9 * DIM * 4), *x[4];
	struct k_row row = { .pos = 600, .seq = 0, .observe = -1 };
	const struct k_range range = { 0, 601 };

	(void)state;
	rig_fill(q, 9 * DIM, 1);
	for (int s = 0; s < 4; s++) {
		struct k_op op = { .kind = K_OP_attention };
		struct cache c;
		uint32_t w = 1;

		cache_open(&c, K_CACHE_f16, sizes[s], 1, 3, DIM, 1, LONGEST);
		for (int32_t pos = 0; pos < LONGEST; pos++)
			for (int32_t at = 0; at < 3 * DIM; at++) {
				int32_t page = c.pages[0][pos / sizes[s]], token = pos % sizes[s], i = at % DIM;
				uint16_t *k = k_kv_at(&c.kv, page, 0, 0, at / DIM);
				uint16_t *v = k_kv_at(&c.kv, page, 0, 1, at / DIM);

				w = w * 1664525u + 1013904223u;
				k[(token / 16 * DIM + i) * 16 + token % 16] =
					k_f32_to_f16((float)(w >> 8) * 0x1p-23f - 1);
				w = w * 1664525u + 1013904223u;
				v[token * DIM + i] = k_f32_to_f16((float)(w >> 8) * 0x1p-23f - 1);
			}
		x[s] = rig_get(9 * DIM * 4);
		op.u.attention = (struct k_attention){ .q = q,
			.out = { .x = x[s], .dim = 9 * DIM },
			.n_heads = 9,
			.n = 1,
			.rows = &row,
			.ranges = &range,
			.n_ranges = 1,
			.pages = c.pages,
			.kv = &c.kv };
		rig_run(n_fast ? fast[s % n_fast] : ref, &op);
		assert_memory_equal(x[s], x[0], 9 * DIM * 4);
		cache_close(&c);
	}
	rig_free_all((void *[]){ x[0], x[1], x[2], x[3], q, NULL });
}

/* Windows whose edges lie anywhere, sinks beside them, and any ranges at all: as the naive twin has
 * them, whatever is in the positions that nobody sees. */
static void test_ranges(void **state)
{
	(void)state;
	for (int i = 0; i < TURNS(160); i++) {
		const int see = i % N_SEES, s = i % 7 == 6 ? 8 : i % 3 ? 1 : i % 5;
		const int32_t first = (int32_t)(rig_next() % 500);
		const int32_t n = i % 4 ? 1 + (int32_t)(rig_next() % 7) : 33;
		struct k_row rows[33];

		for (int32_t r = 0; r < n; r++)
			rows[r] = i % 6 == 5
						  ? (struct k_row){ .pos = (int32_t)(rig_next() % 600), .seq = r % 3 }
						  : (struct k_row){ .pos = first + r, .seq = 1 };
		try_seen(&shapes[s], rows, n, i % 5 == 4 ? 20 : 0, (enum see)see, i % 3 == 1);
	}
}

/* Where rows of a tile do not see the same, sums may pass through -0, which a masked value makes +0
 * and one that is left out does not. All of the last row's probability is on a key whose value is
 * 0; the others are e^-87 each, their values 2^-24 of either sign. */
static void test_zeros(void **state)
{
	enum { DIM = 32, N = 6, FIRST = 3 };
	const struct shape shape = { DIM, 1, 1, 16 };
	struct k_row rows[N];
	struct k_range ranges[N];
	struct k_op op = { .kind = K_OP_attention };
	struct k_attention *a = &op.u.attention;
	float q[N * DIM], x[N * DIM];
	int n_zeros = 0;

	(void)state;
	for (int turn = 0; turn < TURNS(200); turn++) {
		struct seen own;
		struct cache c;

		cache_open(&c, K_CACHE_f16, shape.page_size, 1, 1, DIM, 1, 16);
		memset(q, 0, sizeof q);
		for (int32_t r = 0; r < N; r++) {
			rows[r] = (struct k_row){ .pos = FIRST + r, .seq = 0, .observe = -1 };
			ranges[r] = (struct k_range){ turn % 2 ? r : 0, rows[r].pos + 1 };
			q[r * DIM] = 400;
		}
		*a = (struct k_attention){ .q = q,
			.out.dim = DIM,
			.n_heads = 1,
			.n = N,
			.rows = rows,
			.ranges = ranges,
			.n_ranges = 1,
			.pages = c.pages,
			.kv = &c.kv };
		for (int32_t pos = 0; pos < 16; pos++)
			for (int32_t d = 0; d < DIM; d++) {
				put(a, 0, pos, 0, 0, d, k_f32_to_f16(pos == FIRST ? 1 : 0));
				put(a, 0, pos, 1, 0, d,
					pos == FIRST ? 0 : rig_next() % 3 + rig_next() % 2 * 0x8000);
			}
		own = seen_new(a, 0, true);
		use(&op, &own, 0);
		for (int32_t r = 0; r < N; r++)
			masked_row(a, r, 0, x + r * DIM);
		rig_run(ref, &op);
		assert_memory_equal(own.out.x, x, sizeof x);
		for (int i = 0; i < N * DIM; i++)
			n_zeros += x[i] == 0;
		compare(&op, 0);
		seen_free(&own);
		cache_close(&c);
	}
	assert_in_range(n_zeros, 1, TURNS(200) * N * DIM / 2);
}

/* A row that sees itself alone gives its value, +0 for -0: so every code of every format is read as
 * rule 10 says. */
static void test_every_code(void **state)
{
	enum { DIM = 64, HEADS = 16, N = 64, ALL = N * HEADS * DIM };
	float *q = rig_get(ALL * 4), *x = rig_get(ALL * 4), *want = rig_get(ALL * 4);
	struct k_row rows[N];
	struct k_range ranges[N];

	(void)state;
	memset(q, 0, ALL * 4);
	for (int32_t r = 0; r < N; r++) {
		rows[r] = (struct k_row){ .pos = r, .seq = 0, .observe = -1 };
		ranges[r] = (struct k_range){ r, r + 1 };
	}
	for (enum k_cache format = 0; format < K_N_UNCODED; format++) {
		struct k_op op = { .kind = K_OP_attention };
		struct k_attention *a = &op.u.attention;
		struct cache c;

		cache_open(&c, format, 16, 1, HEADS, DIM, 1, N);
		*a = (struct k_attention){ .q = q,
			.out = { .x = x, .dim = HEADS * DIM },
			.n_heads = HEADS,
			.n = N,
			.rows = rows,
			.ranges = ranges,
			.n_ranges = 1,
			.pages = c.pages,
			.kv = &c.kv };
		for (int32_t i = 0; i < ALL; i++) {
			const int32_t r = i / (HEADS * DIM), h = i / DIM % HEADS, d = i % DIM;
			uint32_t code = format == K_CACHE_f32 ? rig_next()
												  : (uint32_t)i % (1u << 8 * k_cache_bytes(format));

			put(a, r, r, 1, h, d, code);
			if (!(fabsf(cached(a, r, r, 1, h, d)) <= FLT_MAX))
				put(a, r, r, 1, h, d, 0);
			want[i] = cached(a, r, r, 1, h, d) + 0.0f;
		}
		for (int i = -1; i < n_fast; i++) {
			rig_run(i < 0 ? ref : fast[i], &op);
			assert_memory_equal(x, want, ALL * 4);
		}
		cache_close(&c);
	}
	rig_free_all((void *[]){ q, x, want, NULL });
}

/* Deep sequences of which little is seen: spans between are no work, and a thread may have none of
 * an item. */
static void test_ranges_long(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		struct k_row rows[3] = { { .pos = 2555 + i, .seq = 2 }, { .pos = 1900 + 64 * i, .seq = 0 },
			{ .pos = 1023, .seq = 1 } };

		try_seen(&shapes[1], rows, 1 + i % 3, 0, (enum see)(i % N_SEES), i % 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_latent),
		cmocka_unit_test(test_attention_positions),
		cmocka_unit_test(test_attention_long),
		cmocka_unit_test(test_attention_rows),
		cmocka_unit_test(test_attention_pages),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_ranges_long),
		cmocka_unit_test(test_zeros),
		cmocka_unit_test(test_every_code),
	};

	return cmocka_run_group_tests_name("attention", tests, rig_setup, rig_teardown);
}

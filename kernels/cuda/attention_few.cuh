/* Attention of a few queries over one span (decode, drafts to verify): rule 11, part of
 * attend.cuh.
 *
 * Bound by latency: the longest chain is head_dim steps for a score and 128 for a value, and the
 * order of sums forbids shortening it. So a thread has one key, then one dimension, for the fewest
 * queries that use all threads. Three dependent trips to memory: what the step has of tiles, the
 * unit's tile, and then at once its keys, values, queries, what its rows see and (folded RoPE) what
 * it appends. A tile of one span is finished here, without a record. */
#ifndef CUTAWAY_KERNELS_CUDA_ATTENTION_FEW_CUH
#define CUTAWAY_KERNELS_CUDA_ATTENTION_FEW_CUH

#include "kernels/cuda/attend.cuh"

enum {
	FEW_PAD = 16, /* elements between groups of keys: two groups' rows in different banks */
};

/* Shared memory: queries, scores, keys, values. */
struct few_memory {
	int32_t q_stride;
	int32_t group;        /* elements from a group of keys to the next */
	float *q;             /* [ATTEND_FEW][q_stride] */
	float *p;             /* [ATTEND_FEW][ATTEND_P] */
	unsigned char *k, *v; /* in the format of the cache */
};

CU_FN struct few_memory few_layout(const struct attend *c)
{
	const int32_t head_dim = c->kv.head_dim, each = k_cache_bytes(c->kv.format);
	struct few_memory f;

	f.q_stride = head_dim + 4;
	f.group = head_dim * K_GROUP + FEW_PAD;
	f.q = (float *)c->memory;
	f.p = f.q + ATTEND_FEW * f.q_stride;
	f.k = (unsigned char *)(f.p + ATTEND_FEW * ATTEND_P);
	f.v = f.k + K_SPAN_GROUPS * f.group * each;
	return f;
}

/* Copies a group of 16 tokens of a cache's keys or values, which is in one piece; a warp. No row
 * sees an absent page. */
CU_FN void few_fetch_group(
	const struct attend *c, int32_t page, int32_t token, int32_t v, unsigned char *to)
{
	const int32_t each = k_cache_bytes(c->kv.format), bytes = c->kv.head_dim * K_GROUP * each;
	const unsigned char *from;

	if (page < 0) {
		cu_anything(to, bytes);
		return;
	}
	from = cu_kv_at(&c->kv, page, c->a->layer, v, c->kv_head) +
		   (size_t)token * (size_t)(c->kv.head_dim * each);
	for (int32_t i = cu_thread() % CU_WARP * 16; i < bytes; i += CU_WARP * 16)
		cu_copy16(to + i, from + i);
}

CU_FN void few_fetch(const struct attend *c, const struct few_memory *f)
{
	const int32_t g = cu_thread() / CU_WARP, each = k_cache_bytes(c->kv.format);
	const int32_t pos = c->tile->span * K_SPAN + g * K_GROUP, page = c->tile->page[g];

	if (g * K_GROUP >= c->tile->n_tokens || !k_hull_meets(&c->unit.seen, pos, pos + K_GROUP))
		return;
	few_fetch_group(c, page, pos % c->kv.page_size, 0, f->k + g * f->group * each);
	few_fetch_group(c, page, pos % c->kv.page_size, 1, f->v + g * K_GROUP * c->kv.head_dim * each);
}

/* Folded RoPE: a pair of tile row r's key or value. Computed while the span's keys and values are
 * on their way, and put when they are there: to the cache and over the copy, which is out of date.
 */
struct few_new {
	int32_t r, v, i; /* v < 0: none */
	uint32_t y[2];
};

CU_FN struct few_new few_compute(const struct attend *c, int32_t task)
{
	const int32_t pairs = c->kv.head_dim / 2;
	struct few_new n = { 0, -1, 0, { 0, 0 } };

	if (!c->rope || task >= 2 * pairs * c->unit.n_rows)
		return n;
	n.r = task / (2 * pairs);
	n.v = task / pairs % 2;
	n.i = task % pairs;
	if (c->tile->pos[n.r] / K_SPAN != c->tile->span)
		n.v = -1;
	else
		cu_new_kv(c->rope, &c->kv, c->unit.row + n.r, c->tile->pos[n.r], n.v, c->kv_head, n.i, n.y);
	return n;
}

CU_FN void few_append(const struct attend *c, const struct few_memory *f, const struct few_new *n)
{
	const struct rope_pair at = rope_pair_at(c->rope, n->i);
	const int32_t pos = c->tile->pos[n->r], token = pos % K_SPAN, head_dim = c->kv.head_dim;
	const int32_t first = n->v ? token * head_dim : token / K_GROUP * f->group + token % K_GROUP;
	const int32_t step = n->v ? 1 : K_GROUP;
	unsigned char *to = n->v ? f->v : f->k;

	cu_store_kv(c->rope, &c->kv, c->tile->page[token / K_GROUP], pos, n->v, c->kv_head, n->i, n->y);
	k_cache_put(c->kv.format, to, (size_t)(first + at.d0 * step), n->y[0]);
	k_cache_put(c->kv.format, to, (size_t)(first + at.d1 * step), n->y[1]);
}

/* The queries, with zeros after the last up to a multiple of 8, and the rows. */
CU_FN void few_take(const struct attend *c, const struct few_memory *f)
{
	const int32_t pairs = c->kv.head_dim / 2, n = (c->n_queries + 7) / 8 * 8;

	for (int32_t task = cu_thread(); task < n * pairs; task += CU_THREADS) {
		const int32_t q = task / pairs;

		attend_take_pair(
			c, c->tile->pos[q / c->n_rep % CU_FOLD_ROWS], f->q + q * f->q_stride, q, task % pairs);
	}
	if (cu_thread() < c->unit.n_rows) {
		const struct k_row row = { c->tile->pos[cu_thread()], c->tile->seq,
			c->tile->observe[cu_thread()], 0 };

		c->shared->row[cu_thread()] = row;
	}
}

/* Element i of a buffer in shared memory. The format is a compile-time constant, here and below. */
CU_FN float few_cell(const unsigned char *at, int32_t i, const int32_t format)
{
	return format == K_CACHE_f16 ? cu_f16(((const uint16_t *)(const void *)at)[i])
								 : k_cache_get(format, at, (size_t)i);
}

/* Scores: a thread has one key and tq neighbouring queries. */
CU_FN void few_scores_of(
	const struct attend *c, const struct few_memory *f, const int32_t tq, const int32_t format)
{
	const int32_t head_dim = c->kv.head_dim, key = cu_thread() % K_SPAN;
	const int32_t group = c->tile->span * K_SPAN + key / K_GROUP * K_GROUP;
	const int32_t q0 = cu_thread() / K_SPAN * tq, last = c->n_queries - 1;
	const int32_t at = key / K_GROUP * f->group + key % K_GROUP;
	const float *q = f->q + q0 * f->q_stride;
	float s[8];

	if (q0 > last || !k_hull_meets(&c->unit.seen, group, group + K_GROUP))
		return;
	CU_UNROLL
	for (int32_t i = 0; i < tq; i++)
		s[i] = 0;
	CU_UNROLL_2
	for (int32_t d = 0; d < head_dim; d += 4) {
		float x[4];

		CU_UNROLL
		for (int32_t j = 0; j < 4; j++)
			x[j] = few_cell(f->k, at + (d + j) * K_GROUP, format);
		CU_UNROLL
		for (int32_t i = 0; i < tq; i++) {
			uint4 y = *(const uint4 *)(q + i * f->q_stride + d);

			s[i] = k_fma(k_float(y.x), x[0], s[i]);
			s[i] = k_fma(k_float(y.y), x[1], s[i]);
			s[i] = k_fma(k_float(y.z), x[2], s[i]);
			s[i] = k_fma(k_float(y.w), x[3], s[i]);
		}
	}
	CU_UNROLL
	for (int32_t i = 0; i < tq; i++)
		f->p[(q0 + i) * ATTEND_P + key] = s[i];
}

/* Each shape is a copy of the code: formats other than f16 have one. */
CU_FN void few_scores(const struct attend *c, const struct few_memory *f)
{
	const int32_t n = (c->n_queries + CU_THREADS / K_SPAN - 1) / (CU_THREADS / K_SPAN);
	const int32_t format = c->kv.format;
	const bool half = format == K_CACHE_f16;

	if (half && n <= 1)
		few_scores_of(c, f, 1, K_CACHE_f16);
	else if (half && n <= 2)
		few_scores_of(c, f, 2, K_CACHE_f16);
#define X(name, bytes, doc)                                                                        \
	else if (format == K_CACHE_##name) few_scores_of(c, f, 8, K_CACHE_##name);
	K_CACHES(X)
#undef X
}

/* Four tokens from t on, of which not all are visible. */
CU_FN void few_four(const struct few_memory *f, int32_t q0, int32_t t, int32_t at, int32_t head_dim,
	uint32_t seen, float o[8], const int32_t tq, const int32_t format)
{
	for (int32_t j = 0; j < 4; j++) {
		CU_UNROLL
		for (int32_t i = 0; i < tq; i++)
			if (seen >> j & 1)
				o[i] = k_fma(f->p[(q0 + i) * ATTEND_P + t + j],
					few_cell(f->v, at + j * head_dim, format), o[i]);
	}
}

/* The weighted sums of dimension d for tq queries: the tokens that rows see. Where only another row
 * sees one, a query's p is +0, which changes at most the sign of a zero (rule 11). */
CU_FN void few_sums(const struct attend *c, const struct few_memory *f, int32_t q0, int32_t d,
	float o[8], const int32_t tq, const int32_t format)
{
	const int32_t head_dim = c->kv.head_dim, n = c->tile->n_tokens;
	const float *p = f->p + q0 * ATTEND_P;
	const struct k_bits any = c->sight->any;
	int32_t at = d;

	CU_UNROLL_2
	for (int32_t t = 0; t < n; t += 4, at += 4 * head_dim) {
		const uint32_t seen = any.word[t / 32] >> t % 32 & 15;
		float x[4];

		if (seen != 15) {
			few_four(f, q0, t, at, head_dim, seen, o, tq, format);
			continue;
		}
		CU_UNROLL
		for (int32_t j = 0; j < 4; j++)
			x[j] = few_cell(f->v, at + j * head_dim, format);
		CU_UNROLL
		for (int32_t i = 0; i < tq; i++) {
			uint4 y = *(const uint4 *)(p + i * ATTEND_P + t);

			o[i] = k_fma(k_float(y.x), x[0], o[i]);
			o[i] = k_fma(k_float(y.y), x[1], o[i]);
			o[i] = k_fma(k_float(y.z), x[2], o[i]);
			o[i] = k_fma(k_float(y.w), x[3], o[i]);
		}
	}
}

/* What a thread summed, for query q: to the record; or the result, whose 32 values of a warp are
 * rounded together. All lanes of a warp have the same query. */
CU_FN void few_put(const struct attend *c, int32_t q, int32_t d, float o)
{
	if (!c->direct || c->kv.head_dim % K_QBLOCK) {
		attend_put(c, q, c->tile->span, d, o);
		return;
	}
	cu_put(&c->a->out, attend_row_index(c, q),
		attend_head(c, q) * c->kv.head_dim + d / CU_WARP * CU_WARP, d % CU_WARP,
		o * attend_inverse(c, q) + 0.0f);
}

CU_FN void few_values_of(
	const struct attend *c, const struct few_memory *f, const int32_t tq, const int32_t format)
{
	const int32_t head_dim = c->kv.head_dim, d = cu_thread() % head_dim;
	const int32_t q0 = cu_thread() / head_dim * tq;
	float o[8];

	if (q0 >= c->n_queries || cu_thread() >= CU_THREADS / head_dim * head_dim)
		return;
	CU_UNROLL
	for (int32_t i = 0; i < tq; i++)
		o[i] = 0;
	few_sums(c, f, q0, d, o, tq, format);
	CU_UNROLL
	for (int32_t i = 0; i < tq; i++)
		if (q0 + i < c->n_queries)
			few_put(c, q0 + i, d, o[i]);
}

CU_FN void few_values(const struct attend *c, const struct few_memory *f)
{
	const int32_t sets = CU_THREADS / c->kv.head_dim, format = c->kv.format;
	const int32_t n = (c->n_queries + sets - 1) / sets;
	const bool half = format == K_CACHE_f16;

	if (half && n <= 1)
		few_values_of(c, f, 1, K_CACHE_f16);
	else if (half && n <= 2)
		few_values_of(c, f, 2, K_CACHE_f16);
#define X(name, bytes, doc)                                                                        \
	else if (format == K_CACHE_##name) few_values_of(c, f, 8, K_CACHE_##name);
	K_CACHES(X)
#undef X
}

CU_FN void few_unit(struct attend *c)
{
	const struct few_memory f = few_layout(c);
	/* from the fifth warp on: the first have the queries */
	const int32_t task = (cu_thread() + CU_THREADS / 2) % CU_THREADS;
	struct few_new new_pair;

	c->kv_head = c->unit.kv_head;
	c->query = 0;
	c->n_queries = c->unit.n_rows * c->n_rep;
	c->row = c->shared->row;
	few_fetch(c, &f);
	cu_copy_commit();
	attend_see(c, c->tile->span, CU_WARPS - 1);
	few_take(c, &f);
	new_pair = few_compute(c, task);
	cu_copy_wait(0);
	CU_SYNC();
	if (c->rope) {
		for (int32_t i = task; i < c->unit.n_rows * c->kv.head_dim; i += CU_THREADS) {
			if (i != task)
				new_pair = few_compute(c, i);
			if (new_pair.v >= 0)
				few_append(c, &f, &new_pair);
		}
		CU_SYNC();
	}
	few_scores(c, &f);
	CU_SYNC();
	attend_softmax(c, f.p, c->tile->span, false);
	CU_SYNC();
	few_values(c, &f);
}

#endif

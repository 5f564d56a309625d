/* Attention of a few queries (decode, drafts to verify): rule 11, part of attention.cuh.
 *
 * Bound by latency: the longest chain is head_dim steps for a score and 128 for a value, and the
 * order of sums forbids shortening it. So a thread has one key, then one dimension, for the fewest
 * queries that use all threads; keys and values are copied to shared memory at once, the next
 * unit's while this unit is computed, the first unit's even before the barrier in front of the
 * stage.
 *
 * Heads of more than 128 dimensions do not fit whole: then fewer tokens at a time. */
#ifndef CUTAWAY_KERNELS_CUDA_ATTENTION_DECODE_CUH
#define CUTAWAY_KERNELS_CUDA_ATTENTION_DECODE_CUH

#include "kernels/cuda/attention.cuh"

enum { FEW_PAD = 16 }; /* elements between groups of keys: two groups' rows in different banks */

/* Shared memory: queries, scores, one or two buffers of keys and values. */
struct few_memory {
	int32_t tokens; /* that a buffer holds, 128 except for large heads */
	int32_t q_stride;
	int32_t group;              /* elements from a group of keys to the next */
	float *q;                   /* [few][q_stride] */
	float *p;                   /* [few][ATTEND_P] */
	unsigned char *k[2], *v[2]; /* in the format of the cache */
	bool two;                   /* there are two buffers */
};

CU_FN int32_t few_queries(int32_t head_dim)
{
	return head_dim <= K_SPAN ? ATTEND_FEW : ATTEND_FEW / 2;
}

CU_FN bool few_takes(const struct attend_plan *p, const struct attend_unit *u)
{
	return u->n_rows * p->n_rep <= few_queries(p->kv.head_dim);
}

CU_FN struct few_memory few_layout(const struct attend *c)
{
	const int32_t head_dim = c->plan->kv.head_dim, n = few_queries(head_dim);
	const int32_t each = k_cache_bytes(c->plan->kv.format), row = head_dim * each;
	struct few_memory f;
	int32_t k_bytes, bytes;

	f.tokens = row <= 256    ? K_SPAN
			   : row <= 512  ? K_SPAN / 2
			   : row <= 1024 ? K_SPAN / 4
							 : K_SPAN / 8;
	f.q_stride = head_dim + 4;
	f.group = head_dim * K_GROUP + FEW_PAD;
	f.q = (float *)c->memory;
	f.p = f.q + n * f.q_stride;
	k_bytes = f.tokens / K_GROUP * f.group * each;
	bytes = k_bytes + f.tokens * row;
	f.k[0] = (unsigned char *)(f.p + n * ATTEND_P);
	f.v[0] = f.k[0] + k_bytes;
	f.k[1] = f.k[0] + bytes;
	f.v[1] = f.v[0] + bytes;
	f.two = (n * (f.q_stride + ATTEND_P)) * 4 + 2 * bytes <= CU_SHARED_BYTES - ATTEND_SHARED;
	return f;
}

/* The copies under way for the next unit. */
struct attend_ahead {
	const struct attend_unit *next; /* NULL: none */
	int32_t buffer;                 /* of this unit */
	bool fetched;                   /* into it */
};

/* Copies of the keys (v = 0) or values of the groups from `first` to `end` that the tile's hull
 * meets, to `to`, a warp a group of 16; in the cache they are in one piece. No row sees an absent
 * page. */
CU_FN void few_stage(const struct attend *c, const struct attend_unit *u, int32_t kv_head,
	int32_t first, int32_t end, int32_t v, int32_t stride, unsigned char *to)
{
	const struct k_kv *kv = &c->plan->kv;
	const int32_t *pages = c->a->pages[c->a->rows[u->row].seq];
	const int32_t each = k_cache_bytes(kv->format), bytes = kv->head_dim * K_GROUP * each;

	for (int32_t g = cu_thread() / CU_WARP; first + g * K_GROUP < end; g += CU_WARPS) {
		const int32_t pos = first + g * K_GROUP, token = pos % kv->page_size;
		const unsigned char *from;

		if (!k_hull_meets(&u->seen, pos, pos + K_GROUP))
			continue;
		if (pages[pos / kv->page_size] < 0) {
			cu_anything(to + g * stride * each, bytes);
			continue;
		}
		from = cu_kv_at(kv, pages[pos / kv->page_size], c->a->layer, v, kv_head) +
			   (size_t)token * (size_t)(kv->head_dim * each);
		for (int32_t i = cu_thread() % CU_WARP * 16; i < bytes; i += CU_WARP * 16)
			cu_copy16(to + g * stride * each + i, from + i);
	}
}

/* Begins to copy what a buffer holds of a unit's span, and its rows. */
CU_LARGE_FN void few_fetch(const struct attend *c, const struct attend_unit *u, int32_t kv_head,
	int32_t span, int32_t buffer)
{
	const struct few_memory f = few_layout(c);
	const int32_t first = span * K_SPAN;
	int32_t end = first + attend_tokens(u, span);

	end = end < first + f.tokens ? end : first + f.tokens;
	if (cu_thread() < u->n_rows) {
		struct k_row row = c->a->rows[u->row + cu_thread()];

		c->shared->row[buffer][cu_thread()] = row;
		c->shared->page[buffer][cu_thread()] =
			c->a->pages[row.seq][row.pos / c->plan->kv.page_size];
	}
	few_stage(c, u, kv_head, first, end, 0, f.group, f.k[buffer]);
	few_stage(c, u, kv_head, first, end, 1, K_GROUP * c->plan->kv.head_dim, f.v[buffer]);
	cu_copy_commit();
}

/* Folded RoPE: a pair of tile row r's key or value, if it is of this span, to the cache and to the
 * buffer, whose fetched copy is out of date. */
CU_FN void few_append(const struct attend *c, const struct few_memory *f, int32_t span,
	int32_t buffer, int32_t r, int32_t v, int32_t i)
{
	const struct k_kv *kv = &c->plan->kv;
	const struct rope_pair at = rope_pair_at(c->rope, i);
	const int32_t pos = c->row[r].pos, token = pos % K_SPAN;
	const int32_t first = v ? token * kv->head_dim : token / K_GROUP * f->group + token % K_GROUP;
	const int32_t step = v ? 1 : K_GROUP;
	unsigned char *to = v ? f->v[buffer] : f->k[buffer];
	uint32_t y[2];

	if (pos / K_SPAN != span)
		return;
	cu_new_kv(c->rope, kv, c->unit.row + r, pos, v, c->kv_head, i, y);
	cu_store_kv(c->rope, kv, c->shared->page[buffer][r], pos, v, c->kv_head, i, y);
	if (token >= f->tokens)
		return;
	k_cache_put(kv->format, to, (size_t)(first + at.d0 * step), y[0]);
	k_cache_put(kv->format, to, (size_t)(first + at.d1 * step), y[1]);
}

/* Reads what a span needs of the stage before: the queries, once for each unit, and the keys and
 * values that a fold appends; together, since each is a memory access. */
CU_LARGE_FN void few_take(const struct attend *c, const struct few_memory *f, int32_t span,
	int32_t buffer, bool queries, bool append)
{
	const int32_t pairs = c->plan->kv.head_dim / 2;
	const int32_t n_queries = queries ? (c->n_queries + 7) / 8 * 8 : 0;
	const int32_t n = n_queries + (append ? 2 * c->unit.n_rows : 0);

	for (int32_t task = cu_thread(); task < n * pairs; task += CU_THREADS) {
		const int32_t which = task / pairs, i = task % pairs, other = which - n_queries;

		if (which < n_queries)
			attend_take_pair(c, f->q + which * f->q_stride, which, i);
		else
			few_append(c, f, span, buffer, other / 2, other % 2, i);
	}
}

/* Element i of a buffer in shared memory. The format is a compile-time constant, here and below. */
CU_FN float few_cell(const unsigned char *at, int32_t i, const int32_t format)
{
	return format == K_CACHE_f16 ? cu_f16(((const uint16_t *)(const void *)at)[i])
								 : k_cache_get(format, at, (size_t)i);
}

/* Scores of a buffer's keys: a thread has one key and tq neighbouring queries. After the last query
 * there are zeros up to a multiple of 8. */
CU_FN void few_scores_of(const struct attend *c, const struct few_memory *f, const unsigned char *k,
	int32_t span, int32_t first, const int32_t tq, const int32_t format)
{
	const int32_t head_dim = c->plan->kv.head_dim, key = cu_thread() % f->tokens;
	const int32_t group = span * K_SPAN + (first + key) / K_GROUP * K_GROUP;
	const int32_t q0 = cu_thread() / f->tokens * tq, last = c->n_queries - 1;
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
			x[j] = few_cell(k, at + (d + j) * K_GROUP, format);
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
		f->p[(q0 + i) * ATTEND_P + first + key] = s[i];
}

CU_LARGE_FN void few_scores(const struct attend *c, const struct few_memory *f,
	const unsigned char *k, int32_t span, int32_t first)
{
	const int32_t sets = CU_THREADS / f->tokens, n = (c->n_queries + sets - 1) / sets;
	const int32_t format = c->plan->kv.format;
	const bool half = format == K_CACHE_f16; /* other formats have one shape: each shape is a copy
												of the code */

	if (half && n <= 1)
		few_scores_of(c, f, k, span, first, 1, K_CACHE_f16);
	else if (half && n <= 2)
		few_scores_of(c, f, k, span, first, 2, K_CACHE_f16);
	else if (half && n <= 4)
		few_scores_of(c, f, k, span, first, 4, K_CACHE_f16);
#define X(name, bytes, doc)                                                                        \
	else if (format == K_CACHE_##name) few_scores_of(c, f, k, span, first, 8, K_CACHE_##name);
	K_CACHES(X)
#undef X
}

/* The weighted sums of values so far: a thread has one dimension and tq queries. */
struct few_sums {
	int32_t d, q0; /* dimension; first query */
	float o[8];
};

/* Four tokens, of which not all are visible. */
CU_FN void few_four(const float *p, const unsigned char *v, int32_t at, int32_t head_dim,
	struct few_sums *s, uint32_t seen, const int32_t tq, const int32_t format)
{
	for (int32_t t = 0; t < 4; t++) {
		CU_UNROLL
		for (int32_t i = 0; i < tq; i++)
			if (seen >> t & 1)
				s->o[i] =
					k_fma(p[i * ATTEND_P + t], few_cell(v, at + t * head_dim, format), s->o[i]);
	}
}

/* Adds the values, from v, of those tokens first … end - 1 of the span that rows see. Where only
 * another row sees one, a query's p is +0, which changes at most the sign of a zero (rule 11). */
CU_FN void few_values_of(const struct attend *c, const struct few_memory *f, struct few_sums *s,
	const unsigned char *v, int32_t first, int32_t end, const int32_t tq, const int32_t format)
{
	const int32_t head_dim = c->plan->kv.head_dim;
	int32_t at = s->d;
	const float *p = f->p + s->q0 * ATTEND_P;
	const struct k_bits any = c->sight->any;

	CU_UNROLL_2
	for (int32_t t = first; t < end; t += 4, at += 4 * head_dim) {
		const uint32_t seen = any.word[t / 32] >> t % 32 & 15;
		float x[4];

		if (seen != 15) {
			few_four(p + t, v, at, head_dim, s, seen, tq, format);
			continue;
		}
		CU_UNROLL
		for (int32_t j = 0; j < 4; j++)
			x[j] = few_cell(v, at + j * head_dim, format);
		CU_UNROLL
		for (int32_t i = 0; i < tq; i++) {
			uint4 y = *(const uint4 *)(p + i * ATTEND_P + t);

			s->o[i] = k_fma(k_float(y.x), x[0], s->o[i]);
			s->o[i] = k_fma(k_float(y.y), x[1], s->o[i]);
			s->o[i] = k_fma(k_float(y.z), x[2], s->o[i]);
			s->o[i] = k_fma(k_float(y.w), x[3], s->o[i]);
		}
	}
}

/* Computes the values of a span and puts them. Heads of more than 256 dimensions take two
 * rounds. */
CU_FN void few_values_by(const struct attend *c, const struct few_memory *f, int32_t span,
	int32_t n_tokens, int32_t buffer, const int32_t tq, const int32_t format)
{
	const int32_t head_dim = c->plan->kv.head_dim, sets = CU_THREADS / head_dim;
	const int32_t set = sets ? cu_thread() / head_dim : 0;

	for (int32_t round = 0; round < head_dim; round += CU_THREADS) {
		struct few_sums s;
		bool works;

		s.d = round + (sets ? cu_thread() % head_dim : cu_thread());
		s.q0 = set * tq;
		works = s.d < head_dim && s.q0 < c->n_queries;
		CU_UNROLL
		for (int32_t i = 0; i < tq; i++)
			s.o[i] = 0;
		for (int32_t t = 0; t < n_tokens; t += f->tokens) {
			const int32_t end = n_tokens < t + f->tokens ? n_tokens : t + f->tokens;

			if (t || round) {
				CU_SYNC();
				few_stage(c, &c->unit, c->kv_head, span * K_SPAN + t, span * K_SPAN + end, 1,
					K_GROUP * head_dim, f->v[buffer]);
				cu_copy_commit();
				cu_copy_wait(0);
				CU_SYNC();
			}
			if (works)
				few_values_of(c, f, &s, f->v[buffer], t, end, tq, format);
		}
		CU_UNROLL
		for (int32_t i = 0; i < tq; i++)
			if (works && s.q0 + i < c->n_queries)
				attend_put(c, s.q0 + i, span, s.d, s.o[i]);
	}
}

CU_LARGE_FN void few_values(const struct attend *c, const struct few_memory *f, int32_t span,
	int32_t n_tokens, int32_t buffer)
{
	const int32_t sets = CU_THREADS / c->plan->kv.head_dim ? CU_THREADS / c->plan->kv.head_dim : 1;
	const int32_t n = (c->n_queries + sets - 1) / sets, format = c->plan->kv.format;
	const bool half = format == K_CACHE_f16;

	if (half && n <= 1)
		few_values_by(c, f, span, n_tokens, buffer, 1, K_CACHE_f16);
	else if (half && n <= 2)
		few_values_by(c, f, span, n_tokens, buffer, 2, K_CACHE_f16);
	else if (half && n <= 4)
		few_values_by(c, f, span, n_tokens, buffer, 4, K_CACHE_f16);
#define X(name, bytes, doc)                                                                        \
	else if (format == K_CACHE_##name)                                                             \
		few_values_by(c, f, span, n_tokens, buffer, 8, K_CACHE_##name);
	K_CACHES(X)
#undef X
}

/* Computes a span whose first tokens are fetched into the buffer; `again`: scores for the
 * observations alone. */
CU_FN void few_span(
	struct attend *c, const struct few_memory *f, int32_t span, int32_t buffer, bool again)
{
	const int32_t first = span * K_SPAN, n_tokens = attend_tokens(&c->unit, span);

	for (int32_t t = 0; t < n_tokens; t += f->tokens) {
		const int32_t end = n_tokens < t + f->tokens ? n_tokens : t + f->tokens;

		if (t) {
			CU_SYNC();
			few_stage(c, &c->unit, c->kv_head, first + t, first + end, 0, f->group, f->k[buffer]);
			cu_copy_commit();
			cu_copy_wait(0);
			CU_SYNC();
		}
		few_scores(c, f, f->k[buffer], span, t);
	}
	CU_SYNC();
	attend_softmax(c, f->p, span, again);
	if (again)
		return;
	CU_SYNC();
	few_values(c, f, span, n_tokens, buffer);
}

/* Computes a unit; the buffers swap if the next unit's first span is fetched meanwhile. */
CU_LARGE_FN void few_unit(struct attend *c, struct attend_ahead *ahead)
{
	const struct few_memory f = few_layout(c);
	const struct attend_unit *u = &c->unit, *next = ahead->next;
	const int32_t passes = !c->plan->split && attend_is_observed(c) ? 2 : 1;
	const bool fetch_next = c->plan->split && f.two && next && few_takes(c->plan, next);
	int32_t pass, i;

	c->query = 0;
	c->n_queries = u->n_rows * c->plan->n_rep;
	for (c->kv_head = u->kv_head; c->kv_head < u->kv_end; c->kv_head++)
		for (pass = 0; pass < passes; pass++)
			for (i = u->lo; i < u->hi; i++) {
				const int32_t span = attend_span(u, i);

				if (!ahead->fetched) {
					CU_SYNC();
					few_fetch(c, u, c->kv_head, span, ahead->buffer);
				}
				cu_copy_wait(0);
				CU_SYNC();
				c->row = c->shared->row[ahead->buffer];
				if (fetch_next)
					few_fetch(
						c, next, next->kv_head, attend_span(next, next->lo), ahead->buffer ^ 1);
				attend_see(c, span);
				few_take(c, &f, span, ahead->buffer, i == u->lo && !pass, c->rope && !pass);
				CU_SYNC();
				few_span(c, &f, span, ahead->buffer, pass);
				ahead->fetched = false;
			}
	ahead->fetched = fetch_next;
	ahead->buffer ^= fetch_next;
	c->kv_head = u->kv_head;
}

#endif

/* Attention of many queries (chunks of a prompt): rule 11, part of attend.cuh.
 *
 * Bound by the float units: each score and each value is a chain of k_fma, which tensor cores
 * cannot do. So a thread has a rectangle of chains in registers, 8 queries x 4 keys and then 4 or 8
 * queries x 4 dimensions, with 16 to 32 multiply-adds for a handful of loads from shared memory.
 * Keys are copied 32 dimensions at a time, values as many tokens as fill the same bytes; while one
 * piece is computed, the next is under way. */
#pragma once

#include "kernels/cuda/attend.cuh"

enum {
	MANY_DIMS = 32, /* of a piece of keys */
	/* elements from a group of keys to the next: two groups' rows in different banks */
	MANY_GROUP = MANY_DIMS * K_GROUP + 16,
	MANY_PIECE = K_SPAN_GROUPS * MANY_GROUP, /* elements */
};

CU_FN struct many_memory many_layout(const struct attend *c)
{
	const int32_t head_dim = c->a->head_dim, each = k_cache_bytes(c->a->format);
	struct many_memory m;
	int32_t bytes;

	m.queries = head_dim <= 128   ? CU_TILE_QUERIES
				: head_dim <= 256 ? CU_TILE_QUERIES / 2
								  : CU_TILE_QUERIES / 4;
	m.queries = each > 2 ? m.queries / 2 : m.queries;
	m.q_stride = head_dim + 4;
	m.tokens = MANY_PIECE / head_dim / K_GROUP * K_GROUP;
	m.tokens = k_max(K_GROUP, k_min(m.tokens, K_SPAN));
	m.keys = k_pieces(head_dim, MANY_DIMS);
	m.values = k_pieces(K_SPAN, m.tokens);
	bytes = k_max(m.tokens * head_dim, MANY_PIECE) * each;
	m.q = (float *)c->memory;
	m.p = m.q + m.queries * m.q_stride;
	m.piece[0] = (unsigned char *)(m.p + m.queries * ATTEND_P);
	m.piece[1] = m.piece[0] + bytes;
	return m;
}

/* The pieces of a batch's pass over the unit's spans, in order: the next one to copy. */
struct many_pieces {
	const struct many_memory *m;
	int32_t n;       /* of a span */
	int32_t span, i; /* the span's number among the tile's, and the piece's among the span's */
	int32_t side;    /* its buffer */
};

/* Copies dimensions of the span's groups that the tile's hull meets, */
CU_FN void many_stage_keys(const struct attend *c, int32_t span, int32_t piece, unsigned char *to)
{
	const struct k_kv *kv = &c->a->tiles->kv;
	const int32_t *pages = c->a->pages[c->a->rows[c->unit->row].seq];
	const int32_t first_dim = piece * MANY_DIMS, left = kv->head_dim - first_dim;
	const int32_t each = k_cache_bytes(kv->format), bytes = k_min(left, MANY_DIMS) * K_GROUP * each;

	CU_NO_UNROLL
	for (int32_t g = cu_thread() / CU_WARP; g < K_SPAN_GROUPS; g += CU_WARPS) {
		const int32_t pos = span * K_SPAN + g * K_GROUP, token = pos % kv->page_size;
		const unsigned char *from;

		if (!k_hull_meets(&c->unit->seen, pos, pos + K_GROUP))
			continue;
		if (pages[pos / kv->page_size] < 0) {
			cu_anything(to + g * MANY_GROUP * each, bytes);
			continue;
		}
		from = cu_kv_at(kv, pages[pos / kv->page_size], c->a->layer, 0, c->kv_head) +
			   k_index(token, kv->head_dim, first_dim * K_GROUP) * (size_t)each;
		CU_NO_UNROLL
		for (int32_t i = cu_thread() % CU_WARP * 16; i < bytes; i += CU_WARP * 16)
			cu_copy16(to + g * MANY_GROUP * each + i, from + i);
	}
}

/* Copies a group of 16 tokens' values, which is in one piece; a warp. No row sees an absent page.
 */
CU_FN void many_stage_group(const struct attend *c, int32_t page, int32_t token, unsigned char *to)
{
	const int32_t each = k_cache_bytes(c->a->format), bytes = c->a->head_dim * K_GROUP * each;
	const unsigned char *from;

	if (page < 0) {
		cu_anything(to, bytes);
		return;
	}
	from = cu_kv_at(&c->a->tiles->kv, page, c->a->layer, 1, c->kv_head) +
		   (size_t)token * (size_t)(c->a->head_dim * each);
	CU_NO_UNROLL
	for (int32_t i = cu_thread() % CU_WARP * 16; i < bytes; i += CU_WARP * 16)
		cu_copy16(to + i, from + i);
}

/* Copies the values of the groups from position `first` to `end` that the tile's hull meets. */
CU_FN void many_stage_values(const struct attend *c, int32_t first, int32_t end, unsigned char *to)
{
	const int32_t *pages = c->a->pages[c->a->rows[c->unit->row].seq];
	const int32_t bytes = K_GROUP * c->a->head_dim * k_cache_bytes(c->a->format);

	CU_NO_UNROLL
	for (int32_t g = cu_thread() / CU_WARP; first + g * K_GROUP < end; g += CU_WARPS) {
		const int32_t pos = first + g * K_GROUP;

		if (k_hull_meets(&c->unit->seen, pos, pos + K_GROUP))
			many_stage_group(c, pages[pos / c->a->tiles->kv.page_size],
				pos % c->a->tiles->kv.page_size, to + g * bytes);
	}
}

CU_FN void many_stage(const struct attend *c, struct many_pieces *s)
{
	const int32_t span = attend_span(c->unit, s->span), first = span * K_SPAN;
	const int32_t end = first + k_hull_tokens(&c->unit->seen, span);
	const int32_t from = first + (s->i - s->m->keys) * s->m->tokens, to = from + s->m->tokens;

	if (s->span >= c->unit->hi)
		return;
	if (s->i < s->m->keys)
		many_stage_keys(c, span, s->i, s->m->piece[s->side]);
	else
		many_stage_values(c, from, k_min(to, end), s->m->piece[s->side]);
	cu_copy_commit();
	s->side ^= 1;
	s->i = s->i + 1 < s->n ? s->i + 1 : 0;
	s->span += s->i == 0;
}

/* Waits for the piece that was copied last, and fetches the one after it, whose buffer the barrier
 * frees. */
CU_FN const unsigned char *many_next(const struct attend *c, struct many_pieces *s)
{
	const unsigned char *piece = s->m->piece[s->side ^ 1];

	cu_copy_wait(0);
	CU_SYNC();
	many_stage(c, s);
	return piece;
}

/* Four neighbours from element i on, which is a multiple of 4, in one load. */
CU_FN void many_cells(const unsigned char *at, int32_t i, const int32_t format, float x[4])
{
	const int32_t bytes = k_cache_bytes(format);
	uint32_t code[4];

	if (bytes == 1) {
		const uint32_t y = *(const uint32_t *)(const void *)(at + i);

		code[0] = y & 0xff, code[1] = y >> 8 & 0xff, code[2] = y >> 16 & 0xff, code[3] = y >> 24;
	} else if (bytes == 2) {
		const uint2 y = *(const uint2 *)(const void *)(at + 2 * i);

		code[0] = y.x & 0xffff, code[1] = y.x >> 16, code[2] = y.y & 0xffff, code[3] = y.y >> 16;
	} else {
		const uint4 y = *(const uint4 *)(const void *)(at + 4 * i);

		code[0] = y.x, code[1] = y.y, code[2] = y.z, code[3] = y.w;
	}
	CU_UNROLL
	for (int32_t j = 0; j < 4; j++)
		x[j] = format == K_CACHE_f16 ? cu_f16((uint16_t)code[j]) : k_cache_value(format, code[j]);
}

/* Four steps of four chains. */
CU_FN void many_add_four(float o[4], const uint4 x, const float y[4][4])
{
	const float step[4] = { k_float(x.x), k_float(x.y), k_float(x.z), k_float(x.w) };

	CU_UNROLL
	for (int32_t j = 0; j < 4; j++)
		CU_UNROLL
	for (int32_t k = 0; k < 4; k++)
		o[k] = k_fma(step[j], y[j][k], o[k]);
}

/* Scores of a span: lane i has keys 4i … 4i + 3, warp w queries w, w + 8, …; zeros after the last,
 * which only f16 reads: the one shape of other formats can exceed the queries. */
CU_FN void many_scores(const struct attend *c, struct many_pieces *s, int32_t span,
	const int32_t tq, const int32_t format)
{
	const int32_t lane = cu_thread() % CU_WARP, q0 = cu_thread() / CU_WARP, last = c->n_queries - 1;
	const int32_t head_dim = c->a->head_dim;
	const int32_t group = span * K_SPAN + lane / 4 * K_GROUP;
	const bool works = q0 <= last && k_hull_meets(&c->unit->seen, group, group + K_GROUP);
	const float *q = s->m->q + q0 * s->m->q_stride;
	const int32_t stride = CU_WARPS * s->m->q_stride;
	float o[8][4];

	CU_UNROLL
	for (int32_t i = 0; i < tq; i++)
		o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0;
	for (int32_t first = 0; first < head_dim; first += MANY_DIMS) {
		const int32_t n = k_min(head_dim - first, MANY_DIMS);
		const int32_t at = lane / 4 * MANY_GROUP + lane % 4 * 4;
		const unsigned char *k = many_next(c, s);

		CU_NO_UNROLL
		for (int32_t d = 0; works && d < n; d += 4) {
			float y[4][4]; /* not the queries', of which there are twice as many */

			CU_UNROLL
			for (int32_t j = 0; j < 4; j++)
				many_cells(k, at + (d + j) * K_GROUP, format, y[j]);
			CU_UNROLL
			for (int32_t i = 0; i < tq; i++) {
				const bool there = format == K_CACHE_f16 || q0 + i * CU_WARPS <= last;
				const uint4 x = *(const uint4 *)(q + (there ? i : 0) * stride + first + d);

				many_add_four(o[i], x, y);
			}
		}
	}
	CU_UNROLL
	for (int32_t i = 0; i < tq; i++)
		if (works && q0 + i * CU_WARPS <= last)
			*(uint4 *)(s->m->p + (q0 + i * CU_WARPS) * ATTEND_P + 4 * lane) =
				make_uint4(k_bits(o[i][0]), k_bits(o[i][1]), k_bits(o[i][2]), k_bits(o[i][3]));
}

/* What a thread sums: dimensions d … d + 3 of queries q0, q0 + step, … */
struct many_sums {
	int32_t d, q0, step;
	float o[8][4];
};

/* Adds the values of a token that some row sees, like few_values_of(). */
CU_FN void many_value(const struct attend *c, const struct many_memory *m, struct many_sums *s,
	const unsigned char *v, int32_t at, int32_t t, const int32_t tq, const int32_t format)
{
	float y[4];

	many_cells(v, at, format, y);
	CU_UNROLL
	for (int32_t i = 0; i < tq; i++) {
		const int32_t q = s->q0 + i * s->step;
		float p;

		if (q >= c->n_queries)
			continue;
		p = m->p[q * ATTEND_P + t];
		s->o[i][0] = k_fma(p, y[0], s->o[i][0]);
		s->o[i][1] = k_fma(p, y[1], s->o[i][1]);
		s->o[i][2] = k_fma(p, y[2], s->o[i][2]);
		s->o[i][3] = k_fma(p, y[3], s->o[i][3]);
	}
}

/* Adds tokens t … t + 3, each visible to some row. */
CU_FN void many_four_values(const struct attend *c, const struct many_memory *m,
	struct many_sums *s, const unsigned char *v, int32_t at, int32_t t, const int32_t tq,
	const int32_t format)
{
	const int32_t head_dim = c->a->head_dim, last = c->n_queries - 1;
	float y[4][4];

	CU_UNROLL
	for (int32_t j = 0; j < 4; j++)
		many_cells(v, at + j * head_dim, format, y[j]);
	CU_UNROLL
	for (int32_t i = 0; i < tq; i++) {
		const int32_t q = s->q0 + i * s->step;
		const uint4 p = *(const uint4 *)(m->p + k_min(q, last) * ATTEND_P + t);

		many_add_four(s->o[i], p, y);
	}
}

CU_FN void many_values(const struct attend *c, struct many_pieces *pieces, int32_t span,
	int32_t n_tokens, const int32_t tq, const int32_t format)
{
	const struct many_memory *m = pieces->m;
	const int32_t head_dim = c->a->head_dim, quads = head_dim / 4;
	const struct k_bits *any = &c->mask->any; /* by a pointer, since a register has no index */
	struct many_sums s;
	bool works;

	s.d = cu_thread() % quads * 4;
	s.q0 = cu_thread() / quads;
	s.step = CU_THREADS / quads;
	works = s.q0 < s.step && s.q0 < c->n_queries;
	CU_UNROLL
	for (int32_t i = 0; i < tq; i++)
		s.o[i][0] = s.o[i][1] = s.o[i][2] = s.o[i][3] = 0;
	for (int32_t piece = 0; piece < pieces->m->values; piece++) {
		const int32_t first = piece * m->tokens;
		const int32_t end = k_min(n_tokens, first + m->tokens);
		const unsigned char *v = many_next(c, pieces);

		CU_NO_UNROLL
		for (int32_t t = first; works && t < end; t += 4) {
			const uint32_t seen = any->word[t / 32] >> t % 32 & 15;

			if (seen == 15)
				many_four_values(c, m, &s, v, s.d + (t - first) * head_dim, t, tq, format);
			for (int32_t j = 0; seen != 15 && j < 4; j++)
				if (seen >> j & 1)
					many_value(c, m, &s, v, s.d + (t + j - first) * head_dim, t + j, tq, format);
		}
	}
	CU_UNROLL
	for (int32_t i = 0; i < tq; i++)
		if (works && s.q0 + i * s.step < c->n_queries)
			attend_put(c, s.q0 + i * s.step, span, s.d, s.o[i], 4);
}

CU_FN void many_take(const struct attend *c, const struct many_memory *m)
{
	const int32_t pairs = c->a->head_dim / 2;

	for (int32_t task = cu_thread(); task < m->queries * pairs; task += CU_THREADS)
		attend_take_pair(c,
			task / pairs < c->n_queries ? c->a->rows[attend_row_index(c, task / pairs)].pos : 0,
			m->q + task / pairs * m->q_stride, task / pairs, task % pairs);
}

/* The spans of one batch of queries; `again`: for the observations alone. */
CU_FN void many_pass(struct attend *c, const struct many_memory *m, bool again)
{
	const int32_t head_dim = c->a->head_dim, format = c->a->format;
	const bool half = format == K_CACHE_f16;
	struct many_pieces s;

	s.m = m;
	s.n = m->keys + (again ? 0 : m->values);
	s.span = c->unit->lo;
	s.i = s.side = 0;
	CU_SYNC();
	if (!again)
		many_take(c, m);
	many_stage(c, &s);
	for (int32_t i = c->unit->lo; i < c->unit->hi; i++) {
		const int32_t span = attend_span(c->unit, i),
					  n_tokens = k_hull_tokens(&c->unit->seen, span);

		attend_see(c, span, 0);
		if (half && c->n_queries <= 2 * CU_WARPS)
			many_scores(c, &s, span, 2, K_CACHE_f16);
		else if (half && c->n_queries <= 4 * CU_WARPS)
			many_scores(c, &s, span, 4, K_CACHE_f16);
#define X(name, bytes, doc)                                                                        \
	else if (format == K_CACHE_##name) many_scores(c, &s, span, 8, K_CACHE_##name);
		K_CACHES(X)
#undef X
		attend_softmax(c, m->p, span, again); /* each lane's scores are its own */
		if (again)
			continue;
		if (half && c->n_queries <= CU_THREADS / (head_dim / 4) * 4)
			many_values(c, &s, span, n_tokens, 4, K_CACHE_f16);
#define X(name, bytes, doc)                                                                        \
	else if (format == K_CACHE_##name) many_values(c, &s, span, n_tokens, 8, K_CACHE_##name);
		K_CACHES(X)
#undef X
	}
	if (c->unit->direct && c->a->observed)
		attend_observe_direct(c, m->p, cu_thread() / CU_WARP, CU_WARPS);
}

/* Folded RoPE: the keys and values of the step's own tokens in the unit's spans, to the cache. */
CU_FN void many_append(const struct attend *c)
{
	const int32_t pairs = c->a->head_dim / 2;

	for (int32_t task = cu_thread(); task < c->unit->n_rows * 2 * pairs; task += CU_THREADS) {
		const int32_t r = c->unit->row + task / (2 * pairs), span = c->a->rows[r].pos / K_SPAN;
		const int32_t number = k_spans_before(c->unit->seen.run, K_HULL, span);

		if (c->unit->lo <= number && number < c->unit->hi)
			cu_append(&c->a->rope, &c->a->tiles->kv, r, c->a->rows[r].seq, task / pairs % 2,
				c->kv_head, task % pairs);
	}
}

/* The tile under heads kv_head to kv_end - 1; c->kv_head as before. */
CU_FN void many_unit(struct attend *c, int32_t kv_end)
{
	struct many_memory *m = &c->shared->many;

	if (cu_thread() == 0) {
		*m = many_layout(c);
		m->kv_first = c->kv_head;
		m->kv_end = kv_end;
		m->n_queries = c->unit->n_rows * c->a->n_rep;
		m->passes =
			!c->unit->split && !c->unit->direct && attend_is_observed(c, c->a->rows + c->unit->row)
				? 2
				: 1;
	}
	CU_SYNC();
	do {
		for (int32_t r = cu_thread(); r < c->unit->n_rows; r += CU_THREADS)
			c->shared->row[r] = c->a->rows[c->unit->row + r];
		if (c->a->folds)
			many_append(c);
		for (c->query = 0; c->query < m->n_queries; c->query += m->queries) {
			const int32_t left = m->n_queries - c->query;

			c->n_queries = k_min(left, m->queries);
			for (int32_t pass = 0; pass < m->passes; pass++)
				many_pass(c, m, pass);
		}
		CU_SYNC(); /* the shared memory is free */
	} while (++c->kv_head < m->kv_end);
	c->kv_head = m->kv_first;
}

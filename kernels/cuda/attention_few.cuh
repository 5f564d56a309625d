/* Attention of a few queries over one span (decode, drafts to verify): rule 11, part of
 * attend.cuh.
 *
 * Bound by the instructions of one warp and by trips to memory, since hardly anything else runs on
 * its processor; the longest chain is head_dim steps for a score and 128 for a value, and the order
 * of sums forbids shortening it. So a thread has one key, then one dimension, for the fewest
 * queries that use all threads, and what a chain reads is in shared memory as floats, four steps of
 * it in 16 bytes. Turning them costs each thread 44 instructions for 32 keys of f16, and as many
 * for values; a chain saves 2 a step.
 *
 * Two dependent trips to memory: the unit's tile; then at once keys, values, queries, what the rows
 * see and (folded RoPE) what the step appends. Values wait in registers for the room of the keys. A
 * tile of one span is finished here, without a record. */
#pragma once

#include "kernels/cuda/attention_turn.cuh"

/* ---- the step's own rows ---- */

/* The queries; and the rows, by a warp that mostly has none. */
CU_FN void few_take(const struct attend *c, const struct few_memory *f, int32_t pos)
{
	const int32_t r = cu_thread() - (CU_WARPS - 3) * CU_WARP;

	CU_NO_UNROLL
	for (int32_t turn = cu_thread() / CU_WARP;; turn += CU_WARPS) {
		const struct few_share at = few_share_at(c, turn);

		if (at.head >= c->n_queries)
			break;
		if (turn >= CU_WARPS)
			pos = c->tile->row[attend_tile_row(c, at.head)].pos;
		if (at.pair < c->a->head_dim / 2)
			attend_take_pair(c, pos, f->q + at.head * f->stride, at.head, at.pair);
	}
	if (0 <= r && r < c->unit->n_rows) {
		const struct cu_tile_row *from = &c->tile->row[r];
		const struct k_row row = { from->pos, 0, from->observe, 0 };

		c->shared->row[r] = row;
		c->mask->row[r] = from->bits;
		c->mask->number[r] = from->number;
		c->mask->record[r] = from->record;
		if (r == 0)
			c->mask->any = c->tile->any;
	}
}

/* Folded RoPE: pairs of the keys (head 2 r, of the tile's row r) and values (2 r + 1) that the step
 * appends to the span. */
struct few_own {
	int32_t r, v, pair;
	int32_t token; /* of the span */
	bool there, last;
};
CU_FN struct few_own few_own_at(const struct attend *c, int32_t turn)
{
	const struct few_share at = few_share_at(c, turn);
	struct few_own own = { at.head >> 1, at.head & 1, at.pair, 0, false, true };

	if (c->a->folds && own.r < c->unit->n_rows) {
		own.token = c->tile->row[own.r].pos - c->unit->span * K_SPAN;
		own.there = own.pair < c->a->head_dim / 2 && 0 <= own.token && own.token < K_SPAN;
		own.last = false;
	}
	return own;
}

/* Rotates and rounds them. The fourth and fifth warp begin: they have neither query nor row, but of
 * many. */
CU_FN void few_compute(const struct attend *c, const struct few_memory *f)
{
	const int32_t head_dim = c->a->head_dim, format = c->a->format;

	CU_NO_UNROLL
	for (int32_t turn = (cu_thread() / CU_WARP + CU_WARPS - 3) % CU_WARPS;; turn += CU_WARPS) {
		const struct few_own own = few_own_at(c, turn);
		const struct rope_pair to = rope_pair_at(&c->a->rope, own.pair);
		uint32_t y[2];

		if (own.last)
			break;
		if (!own.there)
			continue;
		cu_new_kv(&c->a->rope, format, c->unit->row + own.r, c->tile->row[own.r].pos, own.v,
			((c->unit->row + own.r) * c->a->n_kv_heads + c->kv_head) * head_dim, own.pair, y);
		if (own.v) {
			k_cache_put(format, f->own, (size_t)(own.r * head_dim + to.d0), y[0]);
			k_cache_put(format, f->own, (size_t)(own.r * head_dim + to.d1), y[1]);
		} else {
			f->own_k[own.r * f->stride + to.d0] = few_decoded(format, y[0]);
			f->own_k[own.r * f->stride + to.d1] = few_decoded(format, y[1]);
		}
	}
}

/* Stores them in the cache, once all have read it: warp `first` of n. What
 * a key was rounded to has the same code again. */
CU_FN void few_append(const struct attend *c, const struct few_memory *f, int32_t first, int32_t n)
{
	const int32_t head_dim = c->a->head_dim, format = c->a->format;

	CU_NO_UNROLL
	for (int32_t turn = first;; turn += n) {
		const struct few_own own = few_own_at(c, turn);

		if (own.last)
			break;
		for (int32_t d = 2 * own.pair; own.there && d < 2 * own.pair + 2; d++)
			k_cache_put(format, few_place(c, c->tile->group[own.token / K_GROUP], own.v),
				cu_kv_place(head_dim, own.token % K_GROUP, own.v, d),
				own.v ? few_code(f->own, format, own.r * head_dim + d)
					  : few_coded(format, f->own_k[own.r * f->stride + d]));
	}
}

/* ---- scores and sums ---- */

/* A key: of the step itself, or from the cache. */
CU_FN const float *few_key(const struct attend *c, const struct few_memory *f, int32_t key)
{
	const float *k = f->k + key * f->stride;

	CU_NO_UNROLL
	for (int32_t r = 0; c->a->folds && r < c->unit->n_rows; r++)
		if (c->row[r].pos - c->unit->span * K_SPAN == key)
			k = f->own_k + r * f->stride;
	return k;
}

/* Scores of queries q0 and, if tq is 2, q0 + 1, with a key. */
CU_FN void few_scores_of(
	const struct attend *c, const struct few_memory *f, int32_t key, int32_t q0, const int32_t tq)
{
	const float *k = few_key(c, f, key);
	const float *q = f->q + q0 * f->stride;
	float s[2] = { 0, 0 };

	if (k_bits_group(&c->mask->any, key / K_GROUP)) { /* else there are no keys */
		CU_UNROLL_8
		for (int32_t d = 0; d < c->a->head_dim; d += 4) {
			const uint4 x = *(const uint4 *)(const void *)(k + d);

			CU_UNROLL
			for (int32_t i = 0; i < tq; i++) {
				const uint4 y = *(const uint4 *)(const void *)(q + i * f->stride + d);

				s[i] = k_fma(k_float(y.x), k_float(x.x), s[i]);
				s[i] = k_fma(k_float(y.y), k_float(x.y), s[i]);
				s[i] = k_fma(k_float(y.z), k_float(x.z), s[i]);
				s[i] = k_fma(k_float(y.w), k_float(x.w), s[i]);
			}
		}
	}
	f->p[q0 * ATTEND_P + key] = s[0];
	if (tq == 2)
		f->p[(q0 + 1) * ATTEND_P + key] = s[1];
}

/* A warp has 32 keys, a thread one of them; the warps that have the same keys share the queries. */
CU_FN void few_scores(const struct attend *c, const struct few_memory *f)
{
	const int32_t n = c->unit->n_tokens, warp = cu_thread() / CU_WARP;
	const int32_t log = n <= CU_WARP ? 0 : n <= 2 * CU_WARP ? 1 : 2, sets = CU_WARPS >> log;
	const int32_t key = (warp & ((1 << log) - 1)) * CU_WARP + cu_thread() % CU_WARP;

	const int32_t each = c->n_queries > sets ? 2 : 1;

	CU_NO_UNROLL
	for (int32_t q = (warp >> log) * each; q < c->n_queries; q += sets * each)
		if (each == 2 && q + 1 < c->n_queries)
			few_scores_of(c, f, key, q, 2);
		else
			few_scores_of(c, f, key, q, 1);
}

/* The weighted sums of dimension d: of the 32s of tokens that rows see something of. */
CU_FN void few_sums(const struct attend *c, const struct few_memory *f, int32_t d, int32_t q0,
	float o[2], const int32_t tq)
{
	const struct k_bits any = c->mask->any;
	const float *p = f->p + q0 * ATTEND_P, *v[8];

	CU_UNROLL
	for (int32_t j = 0; j < 8; j++)
		v[j] = few_turned(f, (uint32_t)d, (uint32_t)j);
	CU_UNROLL
	for (int32_t w = 0; w < K_BITS; w++) {
		if (!any.word[w])
			continue;
		CU_UNROLL
		for (int32_t j = 0; j < 8; j++) {
			const uint4 x = *(const uint4 *)(const void *)(v[j] + 32 * w);

			CU_UNROLL
			for (int32_t i = 0; i < tq; i++) {
				const uint4 y = *(const uint4 *)(const void *)(p + i * ATTEND_P + 32 * w + 4 * j);

				o[i] = k_fma(k_float(y.x), k_float(x.x), o[i]);
				o[i] = k_fma(k_float(y.y), k_float(x.y), o[i]);
				o[i] = k_fma(k_float(y.z), k_float(x.z), o[i]);
				o[i] = k_fma(k_float(y.w), k_float(x.w), o[i]);
			}
		}
	}
}

/* What a warp summed, for 32 dimensions from d on of query q: to the record; or the result, whose
 * values are rounded together. */
CU_FN void few_result(const struct attend *c, int32_t q, int32_t d, float o)
{
	const int32_t lane = cu_thread() % CU_WARP;

	if (c->unit->direct && c->a->head_dim % K_QBLOCK == 0)
		cu_put(&c->a->out, attend_row_index(c, q), attend_head(c, q) * c->a->head_dim + d, lane,
			o * c->shared->inverse[q] + 0.0f);
	else if (d + lane < c->a->head_dim)
		attend_put(c, q, c->unit->span, d + lane, &o, 1);
}

CU_FN void few_values_of(
	const struct attend *c, const struct few_memory *f, int32_t first, int32_t q0, const int32_t tq)
{
	const int32_t d = first + cu_thread() % CU_WARP;
	float o[2] = { 0, 0 };

	if (d < c->a->head_dim)
		few_sums(c, f, d, q0, o, tq);
	CU_NO_UNROLL
	for (int32_t i = 0; i < tq; i++)
		few_result(c, q0 + i, first, i ? o[1] : o[0]);
}

/* A warp has 32 dimensions, a thread one of them; likewise. */
CU_FN void few_values(const struct attend *c, const struct few_memory *f)
{
	const int32_t warp = cu_thread() / CU_WARP, log = c->a->log_slices, sets = CU_WARPS >> log;
	const int32_t first = (warp & ((1 << log) - 1)) * CU_WARP;
	const int32_t each = c->n_queries > sets ? 2 : 1;

	if (first >= c->a->head_dim)
		return;
	CU_NO_UNROLL
	for (int32_t q = (warp >> log) * each; q < c->n_queries; q += sets * each)
		if (each == 2 && q + 1 < c->n_queries)
			few_values_of(c, f, first, q, 2);
		else
			few_values_of(c, f, first, q, 1);
}

/* What no other warp waits for: by the warps that have no values, or by all. */
CU_FN void few_rest(const struct attend *c, const struct few_memory *f)
{
	const int32_t busy = c->n_queries << c->a->log_slices;
	const int32_t n = busy < CU_WARPS ? CU_WARPS - busy : CU_WARPS;
	const int32_t first = cu_thread() / CU_WARP - (CU_WARPS - n);

	if (first < 0)
		return;
	few_append(c, f, first, n);
	if (c->unit->direct && c->a->observed)
		attend_observe_direct(c, f->p, first, n);
}

/* What is in the cache: the keys as floats, the first values on their way. */
CU_FN void few_fetch(struct attend *c, struct few_held *h)
{
	c->query = 0;
	c->n_queries = c->unit->n_rows * c->a->n_rep;
	few_turn_keys(c, h);
	few_hold_values(c, h);
}

CU_FN void few_unit(struct attend *c, struct few_held *h)
{
	const struct few_memory f = few_layout(c);

	few_take(c, &f, h->pos);
	few_compute(c, &f);
	CU_SYNC();
	few_scores(c, &f);
	CU_SYNC();
	few_turn_values(c, &f, h);
	attend_softmax(c, f.p, c->unit->span, false);
	CU_SYNC();
	few_values(c, &f);
	few_rest(c, &f);
}

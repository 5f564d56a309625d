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
#ifndef CUTAWAY_KERNELS_CUDA_ATTENTION_FEW_CUH
#define CUTAWAY_KERNELS_CUDA_ATTENTION_FEW_CUH

#include "kernels/cuda/attention_turn.cuh"

/* ---- the step's own rows ---- */

/* Where in the span the token of row r is; K_SPAN or more: it is in another. */
CU_FN uint32_t few_token(const struct attend *c, int32_t r)
{
	return (uint32_t)(c->tile->row[r].pos - c->unit.span * K_SPAN);
}

/* Pairs are dealt to warps, 32 of a head to each: `turn` counts the heads' shares. */
struct few_share {
	int32_t head, pair;
};
CU_FN struct few_share few_share_at(const struct attend *c, int32_t turn)
{
	const int32_t log = c->a->head_dim > 2 * CU_WARP;
	const struct few_share at = { turn >> log, (turn & log) * CU_WARP + cu_thread() % CU_WARP };

	return at;
}

/* The queries; and the rows, by a warp that mostly has none. */
CU_FN void few_take(const struct attend *c, const struct few_memory *f)
{
	const int32_t r = cu_thread() - CU_THREADS / 2;

	CU_NO_UNROLL
	for (int32_t turn = cu_thread() / CU_WARP;; turn += CU_WARPS) {
		const struct few_share at = few_share_at(c, turn);

		if (at.head >= c->n_queries)
			break;
		if (at.pair < c->a->head_dim / 2)
			attend_take_pair(c, c->tile->row[cu_over(at.head, c->a->over_rep)].pos,
				f->q + at.head * f->stride, at.head, at.pair);
	}
	if (0 <= r && r < c->unit.n_rows) {
		const struct cu_tile_row *from = &c->tile->row[r];
		const struct k_row row = { from->pos, 0, from->observe, 0 };

		c->shared->row[r] = row;
		c->sight->row[r] = from->bits;
		c->sight->number[r] = from->number;
		if (r == 0)
			c->sight->any = c->tile->any;
	}
}

/* Folded RoPE: the keys and values of the tile's rows in the span, rotated and rounded; the warps
 * that have no query begin. Head 2 r is row r's key, 2 r + 1 its value. */
CU_FN void few_compute(const struct attend *c, const struct few_memory *f)
{
	const int32_t head_dim = c->a->head_dim, format = c->a->format;

	CU_NO_UNROLL
	for (int32_t turn = CU_WARPS - 1 - cu_thread() / CU_WARP;; turn += CU_WARPS) {
		const struct few_share at = few_share_at(c, turn);
		const int32_t r = at.head >> 1, v = at.head & 1;
		struct rope_pair to;
		uint32_t y[2];

		if (r >= c->unit.n_rows)
			break;
		if (at.pair >= head_dim / 2 || few_token(c, r) >= K_SPAN)
			continue;
		cu_new_kv(&c->a->rope, format, c->unit.row + r, c->tile->row[r].pos, v,
			(size_t)((c->unit.row + r) * c->a->n_kv_heads + c->kv_head) * (size_t)head_dim, at.pair,
			y);
		to = rope_pair_at(&c->a->rope, at.pair);
		k_cache_put(format, f->fresh, (size_t)(at.head * head_dim + to.d0), y[0]);
		k_cache_put(format, f->fresh, (size_t)(at.head * head_dim + to.d1), y[1]);
	}
}

CU_FN uint32_t few_code(const struct few_memory *f, int32_t format, int32_t i)
{
	const int32_t bytes = k_cache_bytes(format);

	return bytes == 1   ? f->fresh[i]
		   : bytes == 2 ? ((const uint16_t *)(const void *)f->fresh)[i]
						: ((const uint32_t *)(const void *)f->fresh)[i];
}

/* Stores what few_compute() has computed: to the cache, and keys over those that were read from it
 * before. */
CU_FN void few_append(const struct attend *c, const struct few_memory *f)
{
	const int32_t head_dim = c->a->head_dim, format = c->a->format;

	CU_NO_UNROLL
	for (int32_t turn = CU_WARPS - 1 - cu_thread() / CU_WARP;; turn += CU_WARPS) {
		const struct few_share at = few_share_at(c, turn);
		const int32_t r = at.head >> 1, v = at.head & 1;
		uint32_t token;

		if (r >= c->unit.n_rows)
			break;
		token = few_token(c, r);
		if (at.pair >= head_dim / 2 || token >= K_SPAN)
			continue;
		for (int32_t d = 2 * at.pair; d < 2 * at.pair + 2; d++) {
			const uint32_t code = few_code(f, format, at.head * head_dim + d);

			k_cache_put(format, few_group(c, (int32_t)token / K_GROUP, v),
				cu_kv_place(head_dim, (int32_t)token % K_GROUP, v, d), code);
			if (!v)
				f->k[(int32_t)token * f->stride + d] =
					format == K_CACHE_f16 ? cu_f16((uint16_t)code) : k_cache_value(format, code);
		}
	}
}

/* ---- scores and sums ---- */

/* Query q of the batch, or the last: threads beyond it compute what is not used. */
CU_FN const float *few_query(const struct attend *c, const float *of, int32_t stride, int32_t q)
{
	return of + (q < c->n_queries ? q : c->n_queries - 1) * stride;
}

/* Scores: a warp has 32 keys, a thread one of them and tq neighbouring queries. Of groups that no
 * row sees there are no keys. */
CU_FN void few_scores_of(
	const struct attend *c, const struct few_memory *f, int32_t log_blocks, const int32_t tq)
{
	const int32_t warp = cu_thread() / CU_WARP,
				  key = (warp & ((1 << log_blocks) - 1)) * CU_WARP + cu_thread() % CU_WARP;
	const int32_t q0 = (warp >> log_blocks) * tq, head_dim = c->a->head_dim;
	const float *k = f->k + key * f->stride, *q[8];
	float s[8];

	if (q0 >= c->n_queries)
		return;
	CU_UNROLL
	for (int32_t i = 0; i < tq; i++) {
		s[i] = 0;
		q[i] = few_query(c, f->q, f->stride, q0 + i);
	}
	if (k_bits_group(&c->sight->any, key / K_GROUP)) {
		CU_UNROLL_4
		for (int32_t d = 0; d < head_dim; d += 4) {
			const uint4 x = *(const uint4 *)(const void *)(k + d);

			CU_UNROLL
			for (int32_t i = 0; i < tq; i++) {
				const uint4 y = *(const uint4 *)(const void *)(q[i] + d);

				s[i] = k_fma(k_float(y.x), k_float(x.x), s[i]);
				s[i] = k_fma(k_float(y.y), k_float(x.y), s[i]);
				s[i] = k_fma(k_float(y.z), k_float(x.z), s[i]);
				s[i] = k_fma(k_float(y.w), k_float(x.w), s[i]);
			}
		}
	}
	CU_UNROLL
	for (int32_t i = 0; i < tq; i++)
		if (q0 + i < c->n_queries)
			f->p[(q0 + i) * ATTEND_P + key] = s[i];
}

/* Each shape is a copy of the code. */
CU_FN void few_scores(const struct attend *c, const struct few_memory *f)
{
	const int32_t n = c->unit.n_tokens;
	const int32_t log_blocks = n <= CU_WARP ? 0 : n <= 2 * CU_WARP ? 1 : 2;
	const int32_t sets = CU_WARPS >> log_blocks;

	if (c->n_queries <= sets)
		few_scores_of(c, f, log_blocks, 1);
	else if (c->n_queries <= 2 * sets)
		few_scores_of(c, f, log_blocks, 2);
	else
		few_scores_of(c, f, log_blocks, 8);
}

/* The weighted sums of dimension d: of the 32s of tokens that rows see something of. */
CU_FN void few_sums(const struct attend *c, const struct few_memory *f, int32_t d,
	const float *const p[8], float o[8], const int32_t tq)
{
	for (int32_t t = 0; t < c->unit.n_tokens; t += 32) {
		if (!c->sight->any.word[t / 32])
			continue;
		CU_UNROLL
		for (int32_t j = 0; j < 8; j++) {
			const uint4 x = *(const uint4 *)(const void *)(few_turned(f, d, j) + t);

			CU_UNROLL
			for (int32_t i = 0; i < tq; i++) {
				const uint4 y = *(const uint4 *)(const void *)(p[i] + t + 4 * j);

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

	if (c->unit.direct && c->a->head_dim % K_QBLOCK == 0)
		cu_put(&c->a->out, attend_row_index(c, q), attend_head(c, q) * c->a->head_dim + d, lane,
			o * c->shared->inverse[q] + 0.0f);
	else if (d + lane < c->a->head_dim)
		attend_put(c, q, c->unit.span, d + lane, o);
}

CU_FN void few_values_of(const struct attend *c, const struct few_memory *f, const int32_t tq)
{
	const int32_t warp = cu_thread() / CU_WARP, log = c->a->log_slices;
	const int32_t first = (warp & ((1 << log) - 1)) * CU_WARP, q0 = (warp >> log) * tq;
	const int32_t d = first + cu_thread() % CU_WARP;
	const float *p[8];
	float o[8];

	if (q0 >= c->n_queries || first >= c->a->head_dim)
		return;
	CU_UNROLL
	for (int32_t i = 0; i < tq; i++) {
		o[i] = 0;
		p[i] = few_query(c, f->p, ATTEND_P, q0 + i);
	}
	if (d < c->a->head_dim)
		few_sums(c, f, d, p, o, tq);
	if (tq == 1) {
		few_result(c, q0, first, o[0]);
		return;
	}
	CU_UNROLL
	for (int32_t i = 0; i < tq; i++) /* through shared memory, for one copy of the code */
		f->q[cu_thread() + i * CU_THREADS] = o[i];
	CU_NO_UNROLL
	for (int32_t i = 0; i < tq && q0 + i < c->n_queries; i++)
		few_result(c, q0 + i, first, f->q[cu_thread() + i * CU_THREADS]);
}

CU_FN void few_values(const struct attend *c, const struct few_memory *f)
{
	const int32_t sets = CU_WARPS >> c->a->log_slices;

	if (c->n_queries <= sets)
		few_values_of(c, f, 1);
	else if (c->n_queries <= 2 * sets)
		few_values_of(c, f, 2);
	else
		few_values_of(c, f, 8);
}

CU_FN void few_unit(struct attend *c)
{
	const struct few_memory f = few_layout(c);
	struct few_held held;

	c->query = 0;
	c->n_queries = c->unit.n_rows * c->a->n_rep;
	few_hold(c, &held);
	few_take(c, &f);
	if (c->a->folds)
		few_compute(c, &f);
	few_turn_keys(c, &f, &held);
	CU_SYNC();
	if (c->a->folds) {
		few_append(c, &f);
		CU_SYNC();
	}
	few_scores(c, &f);
	CU_SYNC();
	few_turn_values(c, &f, &held);
	attend_softmax(c, f.p, c->unit.span, false);
	CU_SYNC();
	few_values(c, &f);
}

#endif

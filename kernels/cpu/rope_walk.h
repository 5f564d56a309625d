/* What the rope ops of all instruction sets share: which thread rotates which head of which row,
 * and where in the cache a head of keys and of values goes. Private to kernels/. Thread: called by
 * all threads of a pool; no state. */
#pragma once

#include "kernels/cpu/isa.h"

/* Rotates a head of q [head_dim] in place and scales it. */
typedef void k_rope_query_fn(const struct k_rope *a, const float *cos, const float *sin, float *q);
/* Rule 10: stores KV head `head` of row r in the cache, in the pages of `seq`; rotated [head_dim]
 * is scratch. */
typedef void k_rope_store_fn(const struct k_rope *a, int32_t r, int32_t seq, int32_t head,
	const float *cos, const float *sin, float *rotated);

/* Stores into further pages: these are few, so each rotates again. */
static inline __attribute__((always_inline)) void k_rope_also(
	const struct k_rope *a, int tid, int n_threads, void *scratch, k_rope_store_fn *store)
{
	const int32_t n_heads = a->kv->n_kv_heads;
	int64_t lo, hi;

	k_split((int64_t)a->n_also * n_heads, tid, n_threads, &lo, &hi);
	for (int64_t unit = lo; unit < hi; unit++) {
		const struct k_also *to = a->also + unit / n_heads;
		size_t at = (size_t)a->rows[to->row].pos * (size_t)(a->rope_dim / 2);

		store(a, to->row, to->seq, (int32_t)(unit % n_heads), a->cos + at, a->sin + at, scratch);
	}
}

/* Splits heads of all rows evenly over threads; both functions are compile-time constants. */
static inline __attribute__((always_inline)) void k_rope_walk(const struct k_op *op, int tid,
	int n_threads, void *scratch, k_rope_query_fn *query, k_rope_store_fn *store)
{
	const struct k_rope *a = &op->u.rope;
	const int32_t n_units = a->n_heads + a->kv->n_kv_heads, head_dim = a->kv->head_dim;
	int64_t lo, hi;

	k_rope_also(a, tid, n_threads, scratch, store);
	k_split((int64_t)a->n * n_units, tid, n_threads, &lo, &hi);
	for (int64_t unit = lo; unit < hi; unit++) {
		int32_t r = (int32_t)(unit / n_units), head = (int32_t)(unit % n_units);
		size_t at = (size_t)a->rows[r].pos * (size_t)(a->rope_dim / 2);

		if (head < a->n_heads)
			query(a, a->cos + at, a->sin + at,
				a->q + k_index(r, a->n_heads, head) * (size_t)head_dim);
		else
			store(a, r, a->rows[r].seq, head - a->n_heads, a->cos + at, a->sin + at, scratch);
	}
}

/* A head of a row, as computed and in the cache: dimension i of the key is element k_at + i *
 * K_GROUP of the group at k_out, that of the value v_at + i of v_out. */
struct k_rope_slot {
	const float *k, *v; /* [head_dim] */
	void *k_out, *v_out;
	size_t k_at, v_at; /* k_at: the token's place in the group */
};

static inline struct k_rope_slot k_rope_slot(
	const struct k_rope *a, int32_t r, int32_t seq, int32_t head)
{
	const struct k_row *row = a->rows + r;
	const size_t head_dim = (size_t)a->kv->head_dim;
	const int32_t page = a->pages[seq][row->pos / a->kv->page_size];
	const int32_t group = row->pos % a->kv->page_size / K_GROUP;
	const size_t token = (size_t)(row->pos % K_GROUP);
	const size_t from = k_index(r, a->kv->n_kv_heads, head) * head_dim;

	return (struct k_rope_slot){
		.k = a->k + from,
		.v = a->v + from,
		.k_out = k_kv_group(a->kv, page, a->layer, 0, head, group),
		.v_out = k_kv_group(a->kv, page, a->layer, 1, head, group),
		.k_at = token,
		.v_at = token * head_dim,
	};
}

/* What the pick ops of all instruction sets share (rule 18): who chooses for which row, and the
 * choice once the bounds are known. Private to kernels/. Thread: called by all threads of a pool;
 * no state. */
#ifndef CUTAWAY_KERNELS_PICK_WALK_H
#define CUTAWAY_KERNELS_PICK_WALK_H

#include "kernels/arith.h"
#include "kernels/cpu/isa.h"
#include "kernels/visible.h"

enum {
	PICK_LANES = 16, /* of a bound's chains */
	/* read in any case: a row's own group, the one before, and the first, which has the sinks */
	PICK_NEWEST = 2,
	PICK_AHEAD = 8, /* groups whose extents are on their way */
};

/* The bound of one group (rule 18): n_rep queries [n_rep, head_dim], its extents [2][head_dim]. */
typedef float k_bound_fn(const float *q, int32_t n_rep, int32_t head_dim, const uint16_t *extent);

/* The least key that is among the `best` greatest of n, found bit by bit; best >= 1. */
static inline uint32_t k_pick_floor(const uint32_t *key, int32_t n, int32_t best)
{
	uint32_t floor = 0;

	for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
		int32_t count = 0;

		for (int32_t i = 0; i < n; i++)
			count += key[i] >= (floor | bit);
		if (count >= best)
			floor |= bit;
	}
	return floor;
}

/* Sets the bits of the `best` groups of greatest key, ties to the lowest. */
static inline void k_pick_best(const uint32_t *key, int32_t n, int32_t best, uint8_t *out)
{
	const uint32_t floor = k_pick_floor(key, n, best);
	int32_t equal = best;

	for (int32_t g = 0; g < n; g++)
		equal -= key[g] > floor;
	for (int32_t g = 0; g < n; g++)
		if (key[g] > floor || (key[g] == floor && equal-- > 0))
			out[g / K_SPAN_GROUPS] |= (uint8_t)(1u << g % K_SPAN_GROUPS);
}

/* Of the groups up to a row's own, those that it reads in any case: from n on, or all. */
static inline void k_pick_begin(int32_t own, int32_t n, bool all, uint8_t *out)
{
	memset(out, 0, (size_t)(own / K_SPAN_GROUPS + 1));
	for (int32_t g = all ? 0 : n; g <= own; g++)
		out[g / K_SPAN_GROUPS] |= (uint8_t)(1u << g % K_SPAN_GROUPS);
}

/* Extents lie as far apart as pages, which no hardware foresees. */
static inline const uint16_t *k_pick_extent(
	const struct k_pick *a, const int32_t *pages, int32_t head, int32_t group)
{
	const int32_t token = group * K_GROUP;

	return k_kv_extent_at(
		a->kv, pages[token / a->kv->page_size], a->layer, head, token % a->kv->page_size / K_GROUP);
}

static inline void k_pick_fetch(const struct k_pick *a, const uint16_t *extent)
{
	for (int32_t i = 0; i < 2 * a->kv->head_dim; i += 32)
		__builtin_prefetch(extent + i);
}

/* One row and head; key has room for all groups. */
static inline __attribute__((always_inline)) void k_pick_row(
	const struct k_pick *a, int32_t r, int32_t head, uint32_t *key, k_bound_fn *bound)
{
	const struct k_kv *kv = a->kv;
	const int32_t *pages = a->pages[a->rows[r].seq];
	const int32_t own = a->rows[r].pos / K_GROUP, n_rep = a->n_heads / kv->n_kv_heads;
	const int32_t n = own + 1 - PICK_NEWEST, best = a->budget[r] - PICK_NEWEST;
	const size_t first = (size_t)r * (size_t)a->n_heads + (size_t)(head * n_rep);
	uint8_t *out = a->out + ((size_t)r * (size_t)kv->n_kv_heads + (size_t)head) * (size_t)a->stride;

	k_pick_begin(own, n, n <= best, out);
	if (n <= best)
		return;
	key[0] = UINT32_MAX;
	for (int32_t g = 1; g < n; g++) {
		if (g + PICK_AHEAD < n)
			k_pick_fetch(a, k_pick_extent(a, pages, head, g + PICK_AHEAD));
		key[g] = k_order_key(bound(a->q + first * (size_t)kv->head_dim, n_rep, kv->head_dim,
			k_pick_extent(a, pages, head, g)));
	}
	k_pick_best(key, n, best, out);
}

static inline __attribute__((always_inline)) void k_pick_walk(
	const struct k_pick *a, int tid, int n_threads, void *scratch, k_bound_fn *bound)
{
	const int32_t heads = a->kv->n_kv_heads;
	int64_t lo, hi;

	k_split((int64_t)a->n * heads, tid, n_threads, &lo, &hi);
	for (int64_t unit = lo; unit < hi; unit++)
		k_pick_row(a, (int32_t)(unit / heads), (int32_t)(unit % heads), scratch, bound);
}

#endif

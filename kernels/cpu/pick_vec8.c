/* The choice of keys (rule 18), vectors of 8. Thread: called by all threads of a pool; no state. */
#include "kernels/cpu/isa.h"
#include "kernels/cpu/vec8.h"
#include "kernels/op/pick.h"

enum {
	AHEAD = 8,            /* groups whose extents are on their way */
	PICK_HEADS = 128,     /* of a row whose groups threads part */
	PICK_QUERY = 1 << 15, /* numbers of a row's query, at most */
};

/* What a thread has of a row: keys of one head, or of its part of the groups all heads'. */
struct pick_room {
	struct k_best_room best;
	uint16_t above[PICK_QUERY]; /* all ones where the query is above 0 */
	uint32_t key[PICK_HEADS * K_PICK_GROUPS];
};
_Static_assert(sizeof(struct pick_room) <= K_SCRATCH_BYTES, "scratch has room for a row's keys");

static void find_above(const float *q, int32_t n, uint16_t *above)
{
	for (int32_t i = 0; i < n; i++)
		above[i] = q[i] > 0 ? UINT16_MAX : 0;
}

static inline __m128i load8(const uint16_t *h)
{
	return _mm_loadu_si128((const __m128i *)(const void *)h);
}

/* The greatest of eight channels where the query is above 0, the least elsewhere: chosen as 16
 * bits, so that half as much is converted. */
static inline __m256 farthest(
	const uint16_t *least, const uint16_t *greatest, const uint16_t *above)
{
	return _mm256_cvtph_ps(_mm_blendv_epi8(load8(least), load8(greatest), load8(above)));
}

/* k_pick_bound(); head_dim is a multiple of 16. */
static float bound(
	const float *q, const uint16_t *above, int32_t n_rep, int32_t head_dim, const uint16_t *least)
{
	const uint16_t *greatest = least + head_dim;
	__m256 lo = _mm256_setzero_ps(), hi = lo;

	for (int32_t h = 0; h < n_rep; h++, q += head_dim, above += head_dim)
		for (int32_t i = 0; i < head_dim; i += K_PICK_LANES) {
			const int32_t j = i + 8;

			lo = _mm256_fmadd_ps(
				_mm256_loadu_ps(q + i), farthest(least + i, greatest + i, above + i), lo);
			hi = _mm256_fmadd_ps(
				_mm256_loadu_ps(q + j), farthest(least + j, greatest + j, above + j), hi);
		}
	return v_tree8(_mm256_add_ps(lo, hi));
}

/* Extents lie as far apart as pages, which no hardware foresees. */
static void fetch(const uint16_t *key_range, int32_t n)
{
	for (int32_t i = 0; i < n; i += 32)
		__builtin_prefetch(key_range + i);
}

/* k_pick_keys() of groups [from, to) and heads [first, end), key[head * stride + group]: what heads
 * read of a group lies together. */
struct pick_part {
	int32_t r, from, to, first, end, stride;
};
static void keys(const struct k_pick *a, struct pick_part p, uint16_t *above, uint32_t *key)
{
	const int32_t n_rep = a->n_heads / a->kv->n_kv_heads, dim = a->kv->head_dim;
	const size_t query = (size_t)(n_rep * dim),
				 head = (size_t)(a->kv->page_size / K_GROUP * 2 * dim);
	const float *q = k_pick_query(a, p.r, p.first);

	find_above(q, (p.end - p.first) * n_rep * dim, above);
	for (int32_t g = p.from; g < p.to; g++) {
		const uint16_t *range = k_pick_key_range(a, p.r, p.first, g);
		const uint16_t *ahead = k_pick_key_range(a, p.r, p.first, k_min(g + AHEAD, p.to - 1));

		for (int32_t h = 0; h < p.end - p.first; h++) {
			const size_t at = (size_t)h * query;

			fetch(ahead + (size_t)h * head, 2 * dim);
			key[h * p.stride + g] =
				k_order_key(bound(q + at, above + at, n_rep, dim, range + (size_t)h * head));
		}
	}
	for (int32_t h = 0; h < p.end - p.first && p.from == 0; h++)
		key[h * p.stride] = UINT32_MAX; /* the first group's */
}

/* The choice of the only row: threads part its groups, then its heads. */
static void pick_together(struct k_op *op, int tid, int n_threads, struct pick_room *s)
{
	const struct k_pick *a = &op->u.pick;
	const int32_t n = k_pick_among(a, 0), n_heads = a->kv->n_kv_heads;
	int64_t lo, hi;

	k_split(n, tid, n_threads, &lo, &hi);
	keys(a, (struct pick_part){ 0, (int32_t)lo, (int32_t)hi, 0, n_heads, n }, s->above, s->key);
	atomic_fetch_add(&op->ticket, 1);
	k_await(&op->ticket, n_threads);
	for (int32_t h = tid; h < n_heads; h += n_threads) {
		for (int t = 0; t < n_threads; t++) {
			const struct pick_room *of = k_scratch_of(s, tid, t);

			k_split(n, t, n_threads, &lo, &hi);
			memcpy(s->best.key + lo, of->key + h * n + lo, (size_t)(hi - lo) * sizeof *of->key);
		}
		k_pick_choose(a, h, n, &s->best);
	}
}

bool k_pick_is_shared(const struct k_pick *a)
{
	return a->n == 1 && a->kv->n_kv_heads <= PICK_HEADS && a->kv->head_dim % K_PICK_LANES == 0;
}

void k_vec8_pick(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_pick *a = &op->u.pick;
	struct pick_room *s = scratch;
	int64_t lo, hi;

	if (a->kv->head_dim % K_PICK_LANES || a->n_heads * a->kv->head_dim > PICK_QUERY) {
		k_ref_pick(op, tid, n_threads, scratch);
		return;
	}
	if (k_pick_is_shared(a)) {
		pick_together(op, tid, n_threads, scratch);
		return;
	}
	k_split(k_pick_units(a), tid, n_threads, &lo, &hi);
	for (int64_t unit = lo; unit < hi; unit++) {
		const int32_t r = (int32_t)unit / a->kv->n_kv_heads, n = k_pick_among(a, r);
		const int32_t head = (int32_t)unit % a->kv->n_kv_heads;

		keys(a, (struct pick_part){ r, 0, n, head, head + 1, n }, s->above, s->best.key);
		k_pick_choose(a, unit, n, &s->best);
	}
}

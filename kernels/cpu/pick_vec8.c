/* The choice of keys (rule 18), vectors of 8. Thread: called by all threads of a pool; no state. */
#include "kernels/cpu/isa.h"
#include "kernels/cpu/vec8.h"
#include "kernels/op/pick.h"

enum {
	AHEAD = 8,        /* groups whose extents are on their way */
	PICK_HEADS = 128, /* of a row whose groups threads part */
};

/* q times the greatest where q > 0, the least elsewhere, added to acc. */
static inline __m256 add_bound(const float *q, __m256 least, __m256 greatest, __m256 acc)
{
	const __m256 v = _mm256_loadu_ps(q);
	const __m256 up = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_GT_OQ);

	return _mm256_fmadd_ps(v, _mm256_blendv_ps(least, greatest, up), acc);
}

/* head_dim is a multiple of 16. */
static float bound(const float *q, int32_t n_rep, int32_t head_dim, const uint16_t *key_range)
{
	__m256 lo = _mm256_setzero_ps(), hi = lo;

	for (int32_t h = 0; h < n_rep; h++, q += head_dim)
		for (int32_t i = 0; i < head_dim; i += K_PICK_LANES) {
			const uint16_t *least = key_range + i, *greatest = least + head_dim;

			lo = add_bound(q + i, v_halves(least), v_halves(greatest), lo);
			hi = add_bound(q + i + 8, v_halves(least + 8), v_halves(greatest + 8), hi);
		}
	return v_tree8(_mm256_add_ps(lo, hi));
}

/* Extents lie as far apart as pages, which no hardware foresees. */
static void fetch(const uint16_t *key_range, int32_t head_dim)
{
	for (int32_t i = 0; i < 2 * head_dim; i += 32)
		__builtin_prefetch(key_range + i);
}

/* k_pick_keys() of groups [from, to) and heads [first, end), key[head * stride + group]: what heads
 * read of a group lies together. */
struct pick_part {
	int32_t r, from, to, first, end, stride;
};
static void keys(const struct k_pick *a, struct pick_part p, uint32_t *key)
{
	const int32_t n_rep = a->n_heads / a->kv->n_kv_heads, dim = a->kv->head_dim;

	for (int32_t g = p.from; g < p.to; g++)
		for (int32_t h = p.first; h < p.end; h++) {
			if (g + AHEAD < p.to)
				fetch(k_pick_key_range(a, p.r, h, g + AHEAD), dim);
			key[(h - p.first) * p.stride + g] = g ? k_order_key(bound(k_pick_query(a, p.r, h),
														n_rep, dim, k_pick_key_range(a, p.r, h, g)))
												  : UINT32_MAX;
		}
}

/* The choice of the only row: threads part its groups, then its heads. */
struct pick_room {
	struct k_best_room best;
	uint32_t key[PICK_HEADS * K_PICK_GROUPS];
};
_Static_assert(sizeof(struct pick_room) <= K_SCRATCH_BYTES, "scratch has room for a row's keys");

static void pick_together(struct k_op *op, int tid, int n_threads, struct pick_room *s)
{
	const struct k_pick *a = &op->u.pick;
	const int32_t n = k_pick_among(a, 0), n_heads = a->kv->n_kv_heads;
	int64_t lo, hi;

	k_split(n, tid, n_threads, &lo, &hi);
	keys(a, (struct pick_part){ 0, (int32_t)lo, (int32_t)hi, 0, n_heads, n }, s->key);
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
	struct k_best_room *s = scratch;
	int64_t lo, hi;

	if (a->kv->head_dim % K_PICK_LANES) {
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

		keys(a, (struct pick_part){ r, 0, n, head, head + 1, n }, s->key);
		k_pick_choose(a, unit, n, s);
	}
}

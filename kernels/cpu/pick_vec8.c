/* The choice of keys (rule 18), vectors of 8. Thread: called by all threads of a pool; no state. */
#include "kernels/cpu/vec8.h"
#include "kernels/cpu/pick_walk.h"

static inline __m256 halves(const uint16_t *h)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)h));
}

/* q times the greatest where q > 0, the least elsewhere, added to acc. */
static inline __m256 add_bound(const float *q, __m256 least, __m256 greatest, __m256 acc)
{
	const __m256 v = _mm256_loadu_ps(q);
	const __m256 up = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_GT_OQ);

	return _mm256_fmadd_ps(v, _mm256_blendv_ps(least, greatest, up), acc);
}

/* head_dim is a multiple of 16. */
static float bound(const float *q, int32_t n_rep, int32_t head_dim, const uint16_t *extent)
{
	__m256 lo = _mm256_setzero_ps(), hi = lo;

	for (int32_t h = 0; h < n_rep; h++, q += head_dim)
		for (int32_t i = 0; i < head_dim; i += PICK_LANES) {
			const uint16_t *least = extent + i, *greatest = least + head_dim;

			lo = add_bound(q + i, halves(least), halves(greatest), lo);
			hi = add_bound(q + i + 8, halves(least + 8), halves(greatest + 8), hi);
		}
	return v_tree8(_mm256_add_ps(lo, hi));
}

void k_vec8_pick(struct k_op *op, int tid, int n_threads, void *scratch)
{
	if (op->u.pick.kv->head_dim % PICK_LANES)
		k_ref_pick(op, tid, n_threads, scratch);
	else
		k_pick_walk(&op->u.pick, tid, n_threads, scratch, bound);
}

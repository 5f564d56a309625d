/* Rotary positions and the append to the cache (rules 9 and 10), vectors of 8.
 * Thread: called by all threads of a pool; no state. */
#include "kernels/cpu/vec8.h"
#include "kernels/cpu/rope_walk.h"

/* k_ref_rotate */
static void rotate(
	const struct k_rope *a, const float *cos, const float *sin, const float *in, float *out)
{
	const int32_t half = a->rope_dim / 2;

	if (half % 8) {
		k_ref_rotate(a, cos, sin, in, out);
		return;
	}
	for (int32_t i = 0; i < half; i += 8) {
		__m256 c = _mm256_loadu_ps(cos + i), s = _mm256_loadu_ps(sin + i), x, y, u, v;

		if (a->neox) {
			x = _mm256_loadu_ps(in + i);
			y = _mm256_loadu_ps(in + i + half);
		} else {
			v_part_pairs(in + 2 * i, &x, &y);
		}
		u = _mm256_fmsub_ps(x, c, _mm256_mul_ps(y, s));
		v = _mm256_fmadd_ps(x, s, _mm256_mul_ps(y, c));
		if (a->neox) {
			_mm256_storeu_ps(out + i, u);
			_mm256_storeu_ps(out + i + half, v);
		} else {
			v_join_pairs(out + 2 * i, u, v);
		}
	}
	for (int32_t i = a->rope_dim; i < a->kv->head_dim; i++)
		out[i] = in[i];
}

/* f16 of eight values, 0 for a NaN; *nan gathers which lanes ever were one. */
static inline __m128i cached(const float *x, __m256 *nan)
{
	__m256 v = _mm256_loadu_ps(x), bad = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);

	*nan = _mm256_or_ps(*nan, bad);
	v = _mm256_andnot_ps(bad, v);
	v = _mm256_min_ps(_mm256_set1_ps(65504.0f), v);
	v = _mm256_max_ps(_mm256_set1_ps(-65504.0f), v);
	return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
}

static void store_kv(const struct k_rope *a, int32_t r, int32_t seq, int32_t head, const float *cos,
	const float *sin, float *rotated)
{
	const struct k_rope_slot at = k_rope_slot(a, r, seq, head);
	const int32_t head_dim = a->kv->head_dim;
	uint16_t *k_out = (uint16_t *)at.k_out + at.k_at, *v_out = (uint16_t *)at.v_out + at.v_at,
			 lane[8];
	__m256 nan = _mm256_setzero_ps();

	rotate(a, cos, sin, at.k, rotated);
	if (a->kv->format != K_CACHE_f16 || head_dim % 8 || a->kv->value_dim) {
		k_ref_append(a, r, &at, rotated);
		return;
	}
	for (int32_t i = 0; i < head_dim; i += 8) {
		_mm_storeu_si128((__m128i *)(void *)(v_out + i), cached(at.v + i, &nan));
		_mm_storeu_si128((__m128i *)(void *)lane, cached(rotated + i, &nan));
		for (int32_t j = 0; j < 8; j++)
			k_out[(i + j) * K_GROUP] = lane[j];
	}
	if (_mm256_movemask_ps(nan))
		k_ref_note_nan(a->nan_row, r);
}

static void turn_query(const struct k_rope *a, const float *cos, const float *sin, float *q)
{
	const int32_t head_dim = a->kv->head_dim;
	int32_t i = 0;

	rotate(a, cos, sin, q, q);
	for (; i + 8 <= head_dim; i += 8)
		_mm256_storeu_ps(q + i, _mm256_mul_ps(_mm256_loadu_ps(q + i), _mm256_set1_ps(a->scale)));
	for (; i < head_dim; i++)
		q[i] *= a->scale;
}

void k_vec8_rope(struct k_op *op, int tid, int n_threads, void *scratch)
{
	k_rope_walk(op, tid, n_threads, scratch, turn_query, store_kv);
}

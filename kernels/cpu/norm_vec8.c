/* RMS norm (rule 7), vectors of 8: the 32 lanes of the sum are four registers. Several threads may
 * share a row: each computes the whole sum, which is the smaller part, and its own blocks of the
 * result. Thread: called by all threads of a pool; no state. */
#include "kernels/cpu/vec8.h"

static float scale_of(const float *x, int32_t dim, float eps)
{
	__m256 a[4] = { _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
		_mm256_setzero_ps() };
	float sum;

	for (int32_t k = 0; k < dim; k += 32)
		for (int i = 0; i < 4; i++) {
			__m256 v = _mm256_loadu_ps(x + k + 8 * i);

			a[i] = _mm256_fmadd_ps(v, v, a[i]);
		}
	sum = v_tree8(_mm256_add_ps(_mm256_add_ps(a[0], a[2]), _mm256_add_ps(a[1], a[3])));
	return 1.0f / sqrtf(sum / (float)dim + eps);
}

void k_vec8_norm(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_norm *a = &op->u.norm;
	const int32_t dim = a->out.dim, n_blocks = dim / 32;
	__m256 scale = _mm256_setzero_ps();
	int64_t lo, hi, known = -1;

	if (dim % 32) {
		k_ref_norm(op, tid, n_threads, scratch);
		return;
	}
	k_split((int64_t)a->n * n_blocks, tid, n_threads, &lo, &hi);
	for (int64_t unit = lo; unit < hi; unit++) {
		int64_t r = unit / n_blocks, at = unit % n_blocks * 32;
		const float *x = a->x + (size_t)(a->pick ? a->pick[r] : r) * (size_t)dim;
		__m256 y[4];

		if (r != known)
			scale = _mm256_set1_ps(scale_of(x, dim, a->eps));
		known = r;
		for (int i = 0; i < 4; i++)
			y[i] = _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + at + 8 * i), scale),
				_mm256_loadu_ps(a->w + at + 8 * i));
		for (int i = 0; a->residual && i < 4; i++)
			y[i] = _mm256_add_ps(y[i], _mm256_loadu_ps(a->residual + unit * 32 + 8 * i));
		v_put_block(&a->out, (size_t)unit * 32, y);
	}
}

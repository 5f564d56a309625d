/* act(gate) * up (rule 8), vectors of 8. Thread: called by all threads of a pool; no state. */
#include "kernels/cpu/vec8.h"

/* k_gate_clamped; a NaN is the second operand, which these instructions return. */
static inline __m256 v_gate_clamped(__m256 gate, __m256 up)
{
	const __m256 one = _mm256_set1_ps(1), most = _mm256_set1_ps(7), least = _mm256_set1_ps(-7);
	__m256 e;

	gate = _mm256_min_ps(most, gate);
	up = _mm256_max_ps(least, _mm256_min_ps(most, up));
	e = v_exp(v_negate(_mm256_mul_ps(_mm256_set1_ps(1.702f), gate)));
	return _mm256_mul_ps(_mm256_div_ps(gate, _mm256_add_ps(one, e)), _mm256_add_ps(up, one));
}

static inline __m256 v_gate(enum k_act act, __m256 gate, __m256 up)
{
	if (act == K_ACT_clamped)
		return v_gate_clamped(gate, up);
	return _mm256_mul_ps(act == K_ACT_gelu ? v_gelu(gate) : v_silu(gate), up);
}

void k_vec8_glu(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_glu *a = &op->u.glu;
	int64_t lo, hi;

	if (a->out.dim % 32) {
		k_ref_glu(op, tid, n_threads, scratch);
		return;
	}
	k_split((int64_t)a->n * (a->out.dim / 32), tid, n_threads, &lo, &hi);
	for (int64_t unit = lo; unit < hi; unit++) {
		const float *gate = a->gate + unit * 32, *up = a->up + unit * 32;
		__m256 y[4];

		for (int i = 0; i < 4; i++)
			y[i] = v_gate(a->act, _mm256_loadu_ps(gate + 8 * i), _mm256_loadu_ps(up + 8 * i));
		v_put_block(&a->out, (size_t)unit * 32, y);
	}
}

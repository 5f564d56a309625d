/* Attention, AVX-512: the tiles of registers, 64 lanes wide; all else is in attention_body.h, whose vectors
 * of 8 it keeps. Thread: called by all threads of a pool; no state. */
#ifdef __x86_64__
#include "kernels/cpu/avx2.h"

#define VEC __m512
#define LANES 16
#define vec_set1 _mm512_set1_ps
#define vec_fma _mm512_fmadd_ps
#define vec_load _mm512_loadu_ps
#define vec_store _mm512_storeu_ps

static inline __m512 vec_half(const uint16_t *h)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)h));
}

#include "kernels/cpu/attention_mix.h"

#define MIXES(nq) MIX(nq, 1) MIX(nq, 2) MIX(nq, 4)
MIXES(1)
MIXES(2)
MIXES(3)
MIXES(4)
MIXES(5)
MIXES(6)

/* By queries, and by lanes / 16. */
#define ROW(nq) [nq] = {NULL, mix_##nq##_1, mix_##nq##_2, NULL, mix_##nq##_4}
static mix_fn *const mix_table[7][5] = {ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6)};
static const int32_t mix_widths[7] = {0, 64, 64, 64, 64, 64, 64};

#include "kernels/cpu/attention_body.h"

void k_avx512_attention(struct k_op *op, int tid, int n_threads, void *scratch)
{
	attention(op, tid, n_threads, scratch);
}
#endif

/* Attention, AVX2: the tiles of registers; all else is in attention_body.h.
 * Thread: called by all threads of a pool; no state. */
#ifdef __x86_64__
#include "kernels/cpu/avx2.h"

#define VEC __m256
#define LANES 8
#define vec_set1 _mm256_set1_ps
#define vec_fma _mm256_fmadd_ps
#define vec_load _mm256_loadu_ps
#define vec_store _mm256_storeu_ps

static inline __m256 vec_half(const uint16_t *h)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)h));
}

#include "kernels/cpu/attention_mix.h"

MIX(1, 2)
MIX(1, 4)
MIX(1, 8)
MIX(2, 2)
MIX(2, 4)
MIX(3, 2)
MIX(3, 4)
MIX(4, 2)
MIX(5, 2)
MIX(6, 2)

/* By queries, and by lanes / 16. */
static mix_fn *const mix_table[7][5] = {
	[1] = {NULL, mix_1_2, mix_1_4, NULL, mix_1_8},
	[2] = {NULL, mix_2_2, mix_2_4},
	[3] = {NULL, mix_3_2, mix_3_4},
	[4] = {NULL, mix_4_2},
	[5] = {NULL, mix_5_2},
	[6] = {NULL, mix_6_2},
};
static const int32_t mix_widths[7] = {0, 64, 32, 32, 16, 16, 16};

#include "kernels/cpu/attention_body.h"

void k_avx2_attention(struct k_op *op, int tid, int n_threads, void *scratch)
{
	attention(op, tid, n_threads, scratch);
}
#endif

/* Attention, AVX-512: the register tiles, 64 lanes wide; all else is in attention_body.h, with its
 * vectors of 8. Thread: called by all threads of a pool; no state. */
#ifdef __x86_64__
#include "kernels/cpu/avx2.h"

#define VEC __m512
#define LANES 16
#define vec_set1 _mm512_set1_ps
#define vec_fma _mm512_fmadd_ps
#define vec_load _mm512_loadu_ps
#define vec_store _mm512_storeu_ps

static inline __m512 vec_f16(const uint16_t *h)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)h));
}

static inline __m512 vec_f32(const float *x)
{
	return _mm512_loadu_ps(x);
}

static inline __m512 vec_bf16(const uint16_t *h)
{
	const __m512i wide =
		_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)h));

	return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline __m512 vec_e4m3(const uint8_t *b)
{
	const __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)b));
	const __m256i sign = _mm256_slli_epi16(_mm256_and_si256(wide, _mm256_set1_epi16(0x80)), 8);
	const __m256i rest = _mm256_slli_epi16(_mm256_and_si256(wide, _mm256_set1_epi16(0x7f)), 7);

	return _mm512_mul_ps(_mm512_cvtph_ps(_mm256_or_si256(sign, rest)), _mm512_set1_ps(256));
}

#include "kernels/cpu/attention_mix.h"

#define MIXES(form, nq) MIX(form, nq, 1) MIX(form, nq, 2) MIX(form, nq, 4)
#define ALL(form, bytes, doc)                                                                      \
	MIXES(form, 1) MIXES(form, 2) MIXES(form, 3) MIXES(form, 4) MIXES(form, 5) MIXES(form, 6)
K_CACHES(ALL)

/* By format, queries, and lanes / 16. */
#define ROW(form, nq)                                                                              \
	[nq] = { NULL, mix_##form##_##nq##_1, mix_##form##_##nq##_2, NULL, mix_##form##_##nq##_4 }
#define TABLE(form, bytes, doc)                                                                    \
	[K_CACHE_##form] = { ROW(form, 1), ROW(form, 2), ROW(form, 3), ROW(form, 4), ROW(form, 5),     \
		ROW(form, 6) },
static mix_fn *const mix_table[K_N_CACHES][7][5] = { K_CACHES(TABLE) };
static const int32_t mix_widths[7] = { 0, 64, 64, 64, 64, 64, 64 };

#include "kernels/cpu/attention_body.h"

void k_avx512_attention(struct k_op *op, int tid, int n_threads, void *scratch)
{
	attention(op, tid, n_threads, scratch);
}
#endif

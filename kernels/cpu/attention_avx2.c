/* Attention, AVX2: the register tiles; all else is in attention_body.h. Thread: called by all
 * threads of a pool; no state. */
#ifdef __x86_64__
#include "kernels/cpu/avx2.h"

#define VEC __m256
#define LANES 8
#define vec_set1 _mm256_set1_ps
#define vec_fma _mm256_fmadd_ps
#define vec_load _mm256_loadu_ps
#define vec_store _mm256_storeu_ps

static inline __m256 vec_f16(const uint16_t *h)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)h));
}

static inline __m256 vec_f32(const float *x)
{
	return _mm256_loadu_ps(x);
}

static inline __m256 vec_bf16(const uint16_t *h)
{
	const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)h));

	return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

static inline __m256 vec_e4m3(const uint8_t *b)
{
	const __m128i wide = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)b));
	const __m128i sign = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x80)), 8);
	const __m128i rest = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x7f)), 7);

	return _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(sign, rest)), _mm256_set1_ps(256));
}

#include "kernels/cpu/attention_mix.h"

#define MIXES(form, bytes, doc)                                                                    \
	MIX(form, 1, 2)                                                                                \
	MIX(form, 1, 4)                                                                                \
	MIX(form, 1, 8)                                                                                \
	MIX(form, 2, 2)                                                                                \
	MIX(form, 2, 4)                                                                                \
	MIX(form, 3, 2)                                                                                \
	MIX(form, 3, 4)                                                                                \
	MIX(form, 4, 2)                                                                                \
	MIX(form, 5, 2)                                                                                \
	MIX(form, 6, 2)
K_CACHES(MIXES)

/* By format, queries, and lanes / 16. */
#define TABLE(form, bytes, doc)                                                                    \
	[K_CACHE_##form] = {                                                                           \
		[1] = { NULL, mix_##form##_1_2, mix_##form##_1_4, NULL, mix_##form##_1_8 },                \
		[2] = { NULL, mix_##form##_2_2, mix_##form##_2_4 },                                        \
		[3] = { NULL, mix_##form##_3_2, mix_##form##_3_4 },                                        \
		[4] = { NULL, mix_##form##_4_2 },                                                          \
		[5] = { NULL, mix_##form##_5_2 },                                                          \
		[6] = { NULL, mix_##form##_6_2 },                                                          \
	},
static mix_fn *const mix_table[K_N_CACHES][7][5] = { K_CACHES(TABLE) };
static const int32_t mix_widths[7] = { 0, 64, 32, 32, 16, 16, 16 };

#include "kernels/cpu/attention_body.h"

void k_avx2_attention(struct k_op *op, int tid, int n_threads, void *scratch)
{
	attention(op, tid, n_threads, scratch);
}
#endif

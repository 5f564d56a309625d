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

static inline __m256 vec_q8(const int8_t *b)
{
	return _mm256_cvtepi32_ps(
		_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)b)));
}

#define VEC_CODES __m256i

static inline __m256i key_words_4(const unsigned char *at)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

static inline __m256i key_words_2(const unsigned char *at)
{
	return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)at));
}

static inline __m256 vec_key_code(__m256i words, int j, int bits)
{
	const __m256i code = _mm256_srli_epi32(words, j * bits);

	return _mm256_cvtepi32_ps(_mm256_and_si256(code, _mm256_set1_epi32((1 << bits) - 1)));
}

static inline __m256i value_words_4(const unsigned char *at, int shift)
{
	return _mm256_srl_epi32(key_words_4(at), _mm_cvtsi32_si128(shift));
}

static inline __m256i value_words_2(const unsigned char *at, int shift)
{
	return _mm256_srl_epi32(key_words_2(at), _mm_cvtsi32_si128(shift));
}

#define vec_value_code vec_key_code

#include "kernels/cpu/attention_mix.h"

/* Queries and vectors of the tiles that registers hold. */
#define TILES(DO, form)                                                                            \
	DO(form, 1, 2)                                                                                 \
	DO(form, 1, 4)                                                                                 \
	DO(form, 1, 8)                                                                                 \
	DO(form, 2, 2)                                                                                 \
	DO(form, 2, 4)                                                                                 \
	DO(form, 3, 2)                                                                                 \
	DO(form, 3, 4)                                                                                 \
	DO(form, 4, 2)                                                                                 \
	DO(form, 5, 2)                                                                                 \
	DO(form, 6, 2)
#define MIXES(form, bytes, doc) TILES(MIX, form)
K_CACHES(MIXES)
MIXES(q8, , )
TILES(VALUES, 4)
TILES(VALUES, 2)
ALL_KEYS(4)
ALL_KEYS(2)

/* By format or bits, queries, and lanes / 16. */
#define ROWS(fn, form)                                                                             \
	{                                                                                              \
		[1] = { NULL, fn##_##form##_1_2, fn##_##form##_1_4, NULL, fn##_##form##_1_8 },             \
		[2] = { NULL, fn##_##form##_2_2, fn##_##form##_2_4 },                                      \
		[3] = { NULL, fn##_##form##_3_2, fn##_##form##_3_4 }, [4] = { NULL, fn##_##form##_4_2 },   \
		[5] = { NULL, fn##_##form##_5_2 }, [6] = { NULL, fn##_##form##_6_2 },                      \
	}
static const int32_t mix_widths[7] = { 0, 64, 32, 32, 16, 16, 16 };

#include "kernels/cpu/attention_body.h"

void k_avx2_attention(struct k_op *op, int tid, int n_threads, void *scratch)
{
	attention(op, tid, n_threads, scratch);
}
#endif

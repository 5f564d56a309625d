/* Attention, AVX2: the register tiles; all else is in attention_body.h. Thread: called by all
 * threads of a pool; no state. */
#ifdef __x86_64__
#include "kernels/cpu/vec8.h"
#include "kernels/format/codes.h"

#define VEC __m256
#define LANES 8
#define vec_set1 _mm256_set1_ps
#define vec_fma _mm256_fmadd_ps
#define vec_load _mm256_loadu_ps
#define vec_store _mm256_storeu_ps
#define vec_f16 v_halves
#define vec_f32 _mm256_loadu_ps

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

#define VEC_INT __m256i
#define vec_set1_int _mm256_set1_epi32
#define CODE_QUERIES 3                    /* for so many 16 tokens' sums stay in registers */
#define CODE_WIDTH(nq) ((nq) < 3 ? 2 : 1) /* times 16 lanes of a tile, at most */
#define vec_zero _mm256_setzero_si256

static inline __m256i vec_int_load(const unsigned char *at)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

static inline __m256i vec_codes(__m256i words, int j, int bits)
{
	return _mm256_and_si256(
		_mm256_srli_epi16(words, j * bits), _mm256_set1_epi8((char)((1 << bits) - 1)));
}

static inline __m256i vec_dot(__m256i sum, __m256i codes, __m256i q)
{
	return _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, q));
}

static inline __m256i vec_total(__m256i total, __m256i sum)
{
	return _mm256_add_epi32(total, _mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
}

static inline __m256 vec_code_sum(const struct k_code_factor *f, __m256i sum)
{
	const __m256i i = _mm256_sub_epi32(sum, _mm256_set1_epi32(f->sum));

	return _mm256_fmadd_ps(
		_mm256_set1_ps(f->step), _mm256_cvtepi32_ps(i), _mm256_set1_ps(f->middles));
}

#define ATTENTION k_avx2_attention
#include "kernels/cpu/attention_body.h"
#endif

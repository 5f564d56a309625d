/* Attention, AVX-512: the register tiles, 64 lanes wide; all else is in attention_body.h, with its
 * vectors of 8. Thread: called by all threads of a pool; no state. */
#ifdef __x86_64__
#include "kernels/cpu/vec8.h"
#include "kernels/format/codes.h"

#define VEC __m512
#define LANES 16
#define vec_set1 _mm512_set1_ps
#define vec_fma _mm512_fmadd_ps
#define vec_load _mm512_loadu_ps
#define vec_store _mm512_storeu_ps
#define vec_f32 _mm512_loadu_ps

static inline __m512 vec_f16(const uint16_t *h)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)h));
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

static inline __m512 vec_q8(const int8_t *b)
{
	return _mm512_cvtepi32_ps(
		_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)b)));
}

#define VEC_INT __m512i
#define vec_set1_int _mm512_set1_epi32
#define CODE_QUERIES 6
#define CODE_WIDTH(nq) 4
#define vec_zero _mm512_setzero_si512
#define vec_int_load _mm512_loadu_si512
#define vec_dot _mm512_dpbusd_epi32
#define vec_total _mm512_add_epi32

static inline __m512i vec_codes(__m512i words, int j, int bits)
{
	return _mm512_and_si512(_mm512_srli_epi32(words, (unsigned)(j * bits)),
		_mm512_set1_epi32(((1 << bits) - 1) * 0x01010101));
}

static inline __m512 vec_code_sum(const struct k_code_factor *f, __m512i sum)
{
	const __m512i i = _mm512_sub_epi32(sum, _mm512_set1_epi32(f->sum));

	return _mm512_fmadd_ps(
		_mm512_set1_ps(f->step), _mm512_cvtepi32_ps(i), _mm512_set1_ps(f->middles));
}

#define TILES_OF(DO, fn, form, nq) DO(fn, form, nq, 1) DO(fn, form, nq, 2) DO(fn, form, nq, 4)
#define TILES(DO, fn, form)                                                                        \
	TILES_OF(DO, fn, form, 1)                                                                      \
	TILES_OF(DO, fn, form, 2)                                                                      \
	TILES_OF(DO, fn, form, 3)                                                                      \
	TILES_OF(DO, fn, form, 4)                                                                      \
	TILES_OF(DO, fn, form, 5)                                                                      \
	TILES_OF(DO, fn, form, 6)

#define ATTENTION k_avx512_attention
#include "kernels/cpu/attention_body.h"
#endif

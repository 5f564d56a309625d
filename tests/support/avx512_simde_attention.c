/* The attention of AVX-512 for processors that lack it, emulated by SIMDe as avx512_simde.c does
 * the products. Thread: as the source. */
#if defined(__AVX2__) && defined(__x86_64__)
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <string.h>

#ifndef EMULATED_PROGRAM
#define k_avx512_attention simde_attention
#endif

/* SIMDe 0.7 does not convert or widen 16 numbers at once: both halves by AVX2. */
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps emulate_cvtph_ps
static inline __m512 emulate_cvtph_ps(__m256i halves)
{
	__m256 part[2] = { _mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
		_mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)) };
	__m512 v;

	memcpy(&v, part, sizeof v);
	return v;
}

#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32 emulate_cvtepu16_epi32
static inline __m512i emulate_cvtepu16_epi32(__m256i halves)
{
	__m256i part[2] = { _mm256_cvtepu16_epi32(_mm256_castsi256_si128(halves)),
		_mm256_cvtepu16_epi32(_mm256_extracti128_si256(halves, 1)) };
	__m512i v;

	memcpy(&v, part, sizeof v);
	return v;
}

#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32 emulate_cvtepi8_epi32
static inline __m512i emulate_cvtepi8_epi32(__m128i bytes)
{
	__m256i part[2] = { _mm256_cvtepi8_epi32(bytes),
		_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)) };
	__m512i v;

	memcpy(&v, part, sizeof v);
	return v;
}

#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps emulate_cvtepi32_ps
static inline __m512 emulate_cvtepi32_ps(__m512i words)
{
	__m256i in[2];
	__m256 part[2];
	__m512 v;

	memcpy(in, &words, sizeof in);
	for (int i = 0; i < 2; i++)
		part[i] = _mm256_cvtepi32_ps(in[i]);
	memcpy(&v, part, sizeof v);
	return v;
}

#include "kernels/cpu/attention_avx512.c"
#endif

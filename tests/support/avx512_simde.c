/* The products of AVX-512 and VNNI for processors that lack them: the same source, its instructions
 * emulated by SIMDe, so that any AVX2 machine tests all lines of it. Thread: as the source. */
#ifdef __AVX2__
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <string.h>

#ifdef EMULATED_PROGRAM /* they are the program's own */
#define __builtin_cpu_supports(name) 1
#else
#define k_isa_avx512 simde_isa
#define k_avx512_attention simde_attention
#endif
#include "tests/support/contexts.h"

/* What SIMDe 0.7 has not, or has wrong. */
#undef _mm512_madd_epi16
#define _mm512_madd_epi16 simde_mm512_madd_epi16
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtepu8_epi32
#undef _mm512_cvtph_ps
#undef _mm512_srai_epi32
#define _mm512_cvtepi32_ps emulate_cvtepi32_ps
#define _mm512_cvtepu16_epi32 emulate_cvtepu16_epi32
#define _mm512_cvtepu8_epi32 emulate_cvtepu8_epi32
#define _mm512_cvtph_ps emulate_cvtph_ps
#define _mm512_srai_epi32 emulate_srai_epi32
#define _mm512_permutevar_ps emulate_permutevar_ps

static inline __m512 emulate_cvtepi32_ps(__m512i words)
{
	int32_t in[16];
	float out[16];
	__m512 v;

	memcpy(in, &words, sizeof in);
	for (int i = 0; i < 16; i++)
		out[i] = (float)in[i];
	memcpy(&v, out, sizeof v);
	return v;
}

static inline __m512i emulate_cvtepu16_epi32(__m256i halves)
{
	uint16_t in[16];
	int32_t out[16];
	__m512i v;

	memcpy(in, &halves, sizeof in);
	for (int i = 0; i < 16; i++)
		out[i] = in[i];
	memcpy(&v, out, sizeof v);
	return v;
}

static inline __m512i emulate_cvtepu8_epi32(__m128i bytes)
{
	return emulate_cvtepu16_epi32(_mm256_cvtepu8_epi16(bytes));
}

static inline __m512 emulate_cvtph_ps(__m256i halves)
{
	__m256 part[2] = { _mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
		_mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)) };
	__m512 v;

	memcpy(&v, part, sizeof v);
	return v;
}

static inline __m512i emulate_srai_epi32(__m512i words, unsigned by)
{
	__m256i part[2];
	__m512i v;

	memcpy(part, &words, sizeof part);
	for (int i = 0; i < 2; i++)
		part[i] = _mm256_srai_epi32(part[i], (int)by);
	memcpy(&v, part, sizeof v);
	return v;
}

static inline __m512 emulate_permutevar_ps(__m512 x, __m512i at)
{
	__m256i by[2];
	__m256 part[2];
	__m512 v;

	memcpy(part, &x, sizeof part);
	memcpy(by, &at, sizeof by);
	for (int i = 0; i < 2; i++)
		part[i] = _mm256_permutevar_ps(part[i], by[i]);
	memcpy(&v, part, sizeof v);
	return v;
}

#define MAX_ROWS 2 /* the same lines, and a compiler done in seconds */
#define __AVX512BW__ 1
#define __AVX512VNNI__ 1
#include "kernels/cpu/matmul_avx512.c"
#ifdef EMULATED_PROGRAM
uint64_t k_avx512_multiply(int64_t n)
{
	return k_avx2_multiply(n);
}

uint64_t k_avx512_fma(int64_t n)
{
	return k_avx2_fma(n);
}
#endif
#endif

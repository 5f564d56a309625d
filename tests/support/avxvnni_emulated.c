/* The products of AVX-VNNI for processors that lack them: the same source, with its one instruction
 * made of AVX2's, so that any AVX2 machine tests all lines of it. Thread: as the source. */
#if defined(__AVX2__) && defined(__x86_64__)
#include <immintrin.h>

#ifdef EMULATED_PROGRAM /* as in avx512_simde.c */
#define __builtin_cpu_supports(name) 1
#else
#define k_isa_avxvnni emulated_vnni_isa
#endif
#include "tests/support/contexts.h"

/* Bytes as words, those at even places and those at odd ones: their products fit. */
static inline __m256i emulate_dpbusd(__m256i sum, __m256i codes, __m256i x)
{
	const __m256i even = _mm256_madd_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0xff)),
		_mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
	const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(codes, 8), _mm256_srai_epi16(x, 8));

	return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
}

#define v_dpbusd emulate_dpbusd
#include "kernels/cpu/matmul_avxvnni.c"
#ifdef EMULATED_PROGRAM
uint64_t k_avxvnni_multiply(int64_t n)
{
	return k_avx2_multiply(n);
}
#endif
#endif

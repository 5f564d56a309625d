/* The products of AVX-VNNI for processors that lack them: the same source, with its one instruction
 * made of AVX2's, so that any AVX2 machine tests all lines of it. Thread: as the source. */
#if defined(__AVX2__) && defined(__x86_64__)
#include <immintrin.h>

#define k_isa_avxvnni emulated_vnni_isa
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
#endif

/* The rates of AVX2's exact 8-bit products, as matmul_avx2.c computes them (products of pairs added
 * in 16 bits, eight to a chain, then widened), and of its f32 products. Thread: any; no state. */
#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/measure_body.h"

uint64_t k_avx2_multiply(int64_t n)
{
	enum { CHAINS = 6, LENGTH = 8 };
	__m256i w = _mm256_set1_epi8(1), x = _mm256_set1_epi8(-1), ones = _mm256_set1_epi16(1);
	__m256i sum[CHAINS];

	for (int c = 0; c < CHAINS; c++)
		sum[c] = _mm256_setzero_si256();
	for (int64_t i = 0; i < n; i++) {
		__m256i chain[CHAINS];

		for (int c = 0; c < CHAINS; c++)
			chain[c] = _mm256_setzero_si256();
#pragma GCC unroll 8
		for (int k = 0; k < LENGTH; k++)
#pragma GCC unroll 6
			for (int c = 0; c < CHAINS; c++) {
				__asm__("" : "+x"(w)); /* or a product would be computed only once */
				chain[c] = _mm256_add_epi16(chain[c], _mm256_maddubs_epi16(w, x));
				__asm__("" : "+x"(chain[c])); /* forces the sum here, in this order */
			}
		for (int c = 0; c < CHAINS; c++)
			sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(chain[c], ones));
	}
	for (int c = 0; c < CHAINS; c++)
		__asm__ volatile("" ::"x"(sum[c])); /* keeps the sum alive */
	return (uint64_t)n * CHAINS * LENGTH * 32;
}

MEASURE_CHAINS(k_avx2_fma, __m256, 8, _mm256_fmadd_ps, _mm256_set1_ps(0.5f), _mm256_set1_ps(1))
#endif

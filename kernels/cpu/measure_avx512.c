/* The rates of VNNI's 8-bit products (vpdpbusd on 512 bits), as matmul_avx512.c uses them, and of
 * f32 products. Thread: any; no state. */
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>

#include "kernels/measure.h"

uint64_t k_avx512_multiply(int64_t n)
{
	enum { CHAINS = 12, LENGTH = 8 };
	__m512i w = _mm512_set1_epi8(1), x = _mm512_set1_epi8(-1);
	__m512i sum[CHAINS];

	for (int c = 0; c < CHAINS; c++)
		sum[c] = _mm512_setzero_si512();
	for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 8
		for (int k = 0; k < LENGTH; k++)
#pragma GCC unroll 12
			for (int c = 0; c < CHAINS; c++) {
				sum[c] = _mm512_dpbusd_epi32(sum[c], w, x);
				__asm__("" : "+v"(sum[c])); /* forces the sum here, in this order */
			}
	for (int c = 0; c < CHAINS; c++)
		__asm__ volatile("" ::"v"(sum[c])); /* keeps the sum alive */
	return (uint64_t)n * CHAINS * LENGTH * 64;
}

uint64_t k_avx512_fma(int64_t n)
{
	enum { CHAINS = 12, LENGTH = 8 };
	__m512 w = _mm512_set1_ps(0.5f), x = _mm512_set1_ps(1);
	__m512 sum[CHAINS];

	for (int c = 0; c < CHAINS; c++)
		sum[c] = _mm512_setzero_ps();
	for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 8
		for (int k = 0; k < LENGTH; k++)
#pragma GCC unroll 12
			for (int c = 0; c < CHAINS; c++) {
				sum[c] = _mm512_fmadd_ps(sum[c], w, x);
				__asm__("" : "+v"(sum[c])); /* forces the sum here, in this order */
			}
	for (int c = 0; c < CHAINS; c++)
		__asm__ volatile("" ::"v"(sum[c])); /* keeps the sum alive */
	return (uint64_t)n * CHAINS * LENGTH * 16;
}
#endif

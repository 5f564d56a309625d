/* The rates of VNNI's 8-bit products (vpdpbusd on 512 bits), as matmul_avx512.c uses them, and of
 * f32 products. Thread: any; no state. */
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/measure_body.h"

MEASURE_CHAINS(
	k_avx512_multiply, __m512i, 64, _mm512_dpbusd_epi32, _mm512_set1_epi8(1), _mm512_set1_epi8(-1))
MEASURE_CHAINS(k_avx512_fma, __m512, 16, _mm512_fmadd_ps, _mm512_set1_ps(0.5f), _mm512_set1_ps(1))
#endif

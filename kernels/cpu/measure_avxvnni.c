/* The rate of vpdpbusd on 256 bits, as matmul_avxvnni.c uses it. Thread: any; no state. */
#if defined(__AVXVNNI__) || (defined(__AVX512VNNI__) && defined(__AVX512VL__))
#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/measure_body.h"
#ifdef __AVXVNNI__
#define v_dpbusd _mm256_dpbusd_avx_epi32
#else
#define v_dpbusd _mm256_dpbusd_epi32
#endif

MEASURE_CHAINS(k_avxvnni_multiply, __m256i, 32, v_dpbusd, _mm256_set1_epi8(1), _mm256_set1_epi8(-1))
#endif

/* Private to kernels/: multiply-adds between registers, for each instruction set (see k_isa). */
#pragma once

#include "kernels/cpu/isa.h"

k_multiply_fn k_scalar_multiply, k_scalar_fma;
#ifdef __x86_64__
k_multiply_fn k_avx2_multiply, k_avxvnni_multiply, k_avx512_multiply, k_avx2_fma, k_avx512_fma;
#elif defined(__aarch64__)
k_multiply_fn k_neon_multiply, k_i8mm_multiply, k_neon_fma;
#endif

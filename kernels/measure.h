/* Private to kernels/: 8-bit multiply-adds between registers, for each instruction set (see
 * k_isa). */
#ifndef CUTAWAY_KERNELS_MEASURE_H
#define CUTAWAY_KERNELS_MEASURE_H

#include "kernels/cpu/isa.h"

k_multiply_fn k_scalar_multiply;
#ifdef __x86_64__
k_multiply_fn k_avx2_multiply, k_avx512_multiply;
#endif

#endif

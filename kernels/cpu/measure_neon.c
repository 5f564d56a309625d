/* The rates of NEON's 8-bit products (sdot on 128 bits), as matmul_neon.c uses them, and of f32
 * products. Thread: any; no state. */
#include <arm_neon.h>
#include <string.h>

#include "kernels/cpu/measure_body.h"

static inline int32x4_t next_dot(int32x4_t sum, int32x4_t w, int32x4_t x)
{
	return vdotq_laneq_s32(sum, (int8x16_t)w, (int8x16_t)x, 0);
}

MEASURE_CHAINS(k_neon_multiply, int32x4_t, 16, next_dot, vdupq_n_s32(0x01010101), vdupq_n_s32(-1))
MEASURE_CHAINS(k_neon_fma, float32x4_t, 4, vfmaq_f32, vdupq_n_f32(0.5f), vdupq_n_f32(1))

/* Matrix products on AArch64 with products of matrices of 8 bits (matmul_neon.h): Neoverse V1 and
 * N2, Apple's M2, Cortex-A510 and what came after them. All else is NEON's. Thread: called by all
 * threads of a pool; no state. */
#define COUPLES 1
#include "kernels/cpu/matmul_neon.h"
#include "kernels/cpu/measure_body.h"

static bool runs_here(void)
{
	return k_isa_neon.runs_here() && getauxval(AT_HWCAP2) & HWCAP2_I8MM;
}

#define NEXT(sum, w, x) vmmlaq_s32(sum, (int8x16_t)(w), (int8x16_t)(x))
MEASURE_CHAINS(k_i8mm_multiply, int32x4_t, 32, NEXT, vdupq_n_s32(0x01010101), vdupq_n_s32(-1))

TILED_ISA(i8mm, k_neon_attention, k_i8mm_multiply, k_neon_fma)

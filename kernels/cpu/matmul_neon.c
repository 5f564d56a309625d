/* Matrix products on AArch64 with dot products (matmul_neon.h). Thread: called by all threads of a
 * pool; no state. */
#include "kernels/cpu/matmul_neon.h"

static bool runs_here(void)
{
	return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
}

TILED_ISA(neon, k_neon_attention, k_neon_multiply, k_neon_fma)

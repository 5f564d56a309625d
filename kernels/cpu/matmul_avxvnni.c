/* Matrix products on AVX-VNNI (matmul_vnni.h), which Intel's cores of client machines have from
 * Alder Lake and AMD's from Zen 5 on: vpdpbusd on 256 bits, and 16 registers, so three and four
 * rows take two tiles at once. All else is AVX2's. A build with AVXVNNI="-mavx512vnni -mavx512vl"
 * has the instruction in the form of AVX-512. Thread: called by all threads of a pool; no state. */
#ifdef __AVX2__
#include <cpuid.h>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/vectors_256.h"

#define MAX_ROWS 4
#define TILES 2
#define FLIP_Q8 0
#define SUB __m256
#ifdef __AVXVNNI__
#define v_dpbusd _mm256_dpbusd_avx_epi32
#elif !defined(v_dpbusd) /* tests emulate it */
#define v_dpbusd _mm256_dpbusd_epi32
#endif

#include "kernels/cpu/matmul_load.h"
#include "kernels/cpu/prepare.h"

#include "kernels/cpu/matmul_vnni.h"
#include "kernels/cpu/matmul_body.h"

static bool runs_here(void)
{
	if (!k_isa_avx2.runs_here())
		return false;
#ifdef __AVXVNNI__
	unsigned a, b, c, d;

	return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1 << 4);
#else
	return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl");
#endif
}

TILED_ISA(avxvnni, k_avx2_attention, k_avxvnni_multiply, k_avx2_fma)
#endif

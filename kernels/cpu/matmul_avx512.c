/* Matrix products on AVX-512 with VNNI (matmul_vnni.h): a tile is 16 rows, a lane of a vector one
 * row (tiles.h). Thread: called by all threads of a pool; no state. */
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>

#include "kernels/cpu/isa.h"

#define LANES 16
#ifndef MAX_ROWS
#define MAX_ROWS 8
#endif
#define TILES 1
#define FLIP_Q8 0
#define VEC __m512
#define VECI __m512i
#define SUB __m512
#define BITS_FLOAT _mm512_castsi512_ps
#define V(name) _mm512_##name
#define v_and _mm512_and_si512
#define v_or _mm512_or_si512
#define v_xor _mm512_xor_si512
#define v_load _mm512_load_si512
#define v_broadcast128 _mm512_broadcast_i32x4
#define v_fours(p) _mm512_broadcast_f32x4(_mm_loadu_ps(p))
#define v_pick _mm512_permutevar_ps

static inline __m512 load_f16(const uint8_t *p)
{
	return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)p));
}

static inline __m512i load_u16(const uint8_t *p)
{
	return _mm512_cvtepu16_epi32(_mm256_load_si256((const __m256i *)(const void *)p));
}

static inline __m512i load_u8(const uint8_t *p)
{
	return _mm512_cvtepu8_epi32(_mm_load_si128((const __m128i *)(const void *)p));
}

static inline __m512 load_bf16(const uint8_t *p)
{
	return _mm512_castsi512_ps(_mm512_slli_epi32(load_u16(p), 16));
}

#include "kernels/cpu/matmul_load.h"
#include "kernels/cpu/prepare.h"

#define v_dpbusd _mm512_dpbusd_epi32

#include "kernels/cpu/matmul_vnni.h"
#include "kernels/cpu/matmul_body.h"

static bool runs_here(void)
{
	return k_isa_avx2.runs_here() && __builtin_cpu_supports("avx512f") &&
		   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
		   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
}

TILED_ISA(avx512, k_avx512_attention, k_avx512_multiply, k_avx512_fma)
#endif

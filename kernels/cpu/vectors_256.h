/* Vectors of 256 bits for matmul_load.h and matmul_body.h: a tile is 8 rows, a lane of a vector one
 * row. Included by the matmul_*.c of such instruction sets. Thread: any; no state. */
#include <immintrin.h>

#define LANES 8
#define VEC __m256
#define VECI __m256i
#define BITS_FLOAT _mm256_castsi256_ps
#define V(name) _mm256_##name
#define v_and _mm256_and_si256
#define v_or _mm256_or_si256
#define v_xor _mm256_xor_si256
#define v_load _mm256_load_si256
#define v_broadcast128 _mm256_broadcastsi128_si256
#define v_fours(p) _mm256_broadcast_ps((const __m128 *)(const void *)(p))
#define v_pick _mm256_permutevar_ps

static inline __m256 load_f16(const uint8_t *p)
{
	return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)p));
}

static inline __m256i load_u16(const uint8_t *p)
{
	return _mm256_cvtepu16_epi32(_mm_load_si128((const __m128i *)(const void *)p));
}

static inline __m256i load_u8(const uint8_t *p)
{
	return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

static inline __m256 load_bf16(const uint8_t *p)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(load_u16(p), 16));
}

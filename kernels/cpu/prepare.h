/* What the tiles read of activations beside their 8-bit integers, made once an op (struct
 * k_tiling): what is common to processors with AVX2. Thread: any; no state. */
#include <immintrin.h>

#include "kernels/format/formats.h"
#include "kernels/cpu/tiles.h"

static inline __m256i load_block(const int8_t *q)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)q);
}

/* The sums of the two halves of a block, in the first two lanes. */
static inline __m128i half_sums(const int8_t *q)
{
	const __m256i above = _mm256_xor_si256(load_block(q), _mm256_set1_epi8((char)0x80));
	const __m256i eighths = _mm256_sad_epu8(above, _mm256_setzero_si256());
	const __m128i lo = _mm256_castsi256_si128(eighths), hi = _mm256_extracti128_si256(eighths, 1);
	const __m128i sums = _mm_add_epi64(_mm_unpacklo_epi64(lo, hi), _mm_unpackhi_epi64(lo, hi));

	return _mm_sub_epi32(_mm_shuffle_epi32(sums, 0xf8), _mm_set_epi32(0, 0, 16 * 128, 16 * 128));
}

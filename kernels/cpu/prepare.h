/* What the tiles read of activations beside their 8-bit integers, made once an op (struct
 * k_tiling): what is common to processors with AVX2. Thread: any; no state. */
#include <immintrin.h>

#include "kernels/format/formats.h"
#include "kernels/cpu/tiles.h"

#define EACH_BLOCK(out_words)                                                                      \
	for (size_t b = 0; b < n_blocks; b++, q += K_QBLOCK, out += (out_words))

static inline __m256i load_block(const int8_t *q)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)q);
}

static inline void store_pair(int16_t *out, __m128i v)
{
	_mm_storeu_si32(out, v);
}

/* Sums of the four quads of each half of a block, in the lanes of each half. */
static inline __m256i quad_sums(const int8_t *q)
{
	const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), load_block(q));

	return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/* Two 16-bit integers a block: the sums of its halves. */
static void prepare_halves(const int8_t *q, size_t n_blocks, int16_t *out)
{
	EACH_BLOCK(2)
	{
		const __m256i v = quad_sums(q);
		const __m128i half =
			_mm_hadd_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
		const __m128i whole = _mm_hadd_epi32(half, half);

		store_pair(out, _mm_packs_epi32(whole, whole));
	}
}

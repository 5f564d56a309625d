/* What products on processors with AVX2 have in common: weights as they are multiplied, and what
 * tiles read of activations beside their integers, made once an op (struct k_tiling). Included
 * after matmul_load.h. Thread: any; no state. */
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

#define v_lookup(book, codes)                                                                      \
	V(shuffle_epi8)(v_broadcast128(_mm_loadu_si128((const __m128i *)(const void *)(book))), codes)

/* Quads j and j + 4 of a block, which exceed the weights by excess_of(). */
INLINE void load_weights(enum k_type type, bool flat, const uint8_t *w, int j, VECI *lo, VECI *hi)
{
	const int book = k_facts_of(type).book;

	if (flat || k_low_bits(type) == 8) {
		*lo = load(w + j * LANES * 4);
		*hi = load(w + (j + 4) * LANES * 4);
		return;
	}
	load_codes(type, w, j, lo, hi);
	if (book) {
		const __m128i values =
			_mm_add_epi8(_mm_loadu_si128((const __m128i *)(const void *)k_books[book]),
				_mm_set1_epi8((char)excess_of(type)));
		const VECI codes = v_broadcast128(values);

		*lo = V(shuffle_epi8)(codes, *lo);
		*hi = V(shuffle_epi8)(codes, *hi);
	}
}

INLINE void load_all(enum k_type type, const uint8_t *w, VECI codes[8])
{
	for (int j = 0; j < 4; j++)
		load_weights(type, false, w, j, &codes[j], &codes[j + 4]);
}

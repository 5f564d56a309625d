/* The tables of the formats of cached keys and values (rule 10). From a line are made the setting,
 * the pages, the choice of kernels and the axis of `certify`. Plain C that CUDA files include too.
 *
 * K_CACHES: an element is a number of its own; its line has the name, the bytes of an element and a
 * description. To add one: its line here, its two conversions in cache.h, its loaders in
 * attention_avx2.c, attention_avx512.c and attention_neon.c (kernels/cpu).
 *
 * K_CODED: an element is a code of so many bits, with scales beside the codes (codes.h). */
#pragma once

#include <stdbool.h>

#include "kernels/arith.h"

#define K_CACHES(X)                                                                                \
	X(f16, 2, "half precision")                                                                    \
	X(f32, 4, "as computed")                                                                       \
	X(bf16, 2, "the upper half of f32")                                                            \
	X(e4m3, 1, "8 bits, 3 of them mantissa")

#define K_CODED(X)                                                                                 \
	X(q8, 8, "8 bits, a scale for each token and head")                                            \
	X(kivi4, 4, "4 bits, keys by channel and values by token, the last tokens in f16")             \
	X(kivi2, 2, "2 bits, likewise")

enum k_cache {
#define X(name, bytes, doc) K_CACHE_##name,
	K_CACHES(X) K_CODED(X)
#undef X
		K_N_CACHES
};
#define K_N_UNCODED K_CACHE_q8

/* NULL: there is no format of this number. */
const char *k_cache_name(int format);

/* Bits of a code; 0: an element is a number of its own. */
K_INLINE int32_t k_cache_bits(int32_t format)
{
#define X(name, bits, doc) format == K_CACHE_##name ? bits:
	return K_CODED(X) 0;
#undef X
}

/* Keys are coded by channel, so only when a block of 16 tokens is there: the last tokens are kept
 * in f16 beside the codes, and read from there. */
K_INLINE bool k_cache_by_channel(int32_t format)
{
	return k_cache_bits(format) && k_cache_bits(format) < 8;
}

/* Bytes of an element that is a number of its own. */
K_INLINE int32_t k_cache_bytes(int32_t format)
{
#define X(name, bytes, doc) format == K_CACHE_##name ? bytes:
	return K_CACHES(X) 0;
#undef X
}

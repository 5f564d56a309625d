/* The table of the formats of cached keys and values (rule 10). A line has the name, the bytes of
 * an element and a description; from it are made the setting, the pages, the choice of kernels and
 * the axis of `certify`. To add one: its line here, its two conversions in cache.h, its loaders in
 * attention_avx2.c and attention_avx512.c (kernels/cpu). Plain C that CUDA files include too. */
#ifndef CUTAWAY_KERNELS_CACHE_TABLE_H
#define CUTAWAY_KERNELS_CACHE_TABLE_H

#include <stdint.h>

#define K_CACHES(X)                                                                                \
	X(f16, 2, "half precision")                                                                    \
	X(f32, 4, "as computed")                                                                       \
	X(bf16, 2, "the upper half of f32")                                                            \
	X(e4m3, 1, "8 bits, 3 of them mantissa")

enum k_cache {
#define X(name, bytes, doc) K_CACHE_##name,
	K_CACHES(X)
#undef X
		K_N_CACHES
};

/* NULL: there is no format of this number. */
const char *k_cache_name(int format);

/* Bytes of an element; written so that CUDA kernels can use it too. */
#ifdef __CUDACC__
static __host__ __device__ __forceinline__
#else
static inline
#endif
	int32_t
	k_cache_bytes(int32_t format)
{
#define X(name, bytes, doc) format == K_CACHE_##name ? bytes:
	return K_CACHES(X) 0;
#undef X
}

#endif

/* Formats of cached keys and values (cache_table.h): how a value is rounded into each and read back
 * (rule 10). Plain C that a CUDA file includes too. Private to kernels/ and its tests. Thread: any;
 * no state. */
#pragma once

#include "kernels/arith.h"
#include "kernels/format/cache_table.h"

K_INLINE float k_clamp(float x, float most)
{
	x = x > most ? most : x;
	return x < -most ? -most : x;
}

/* To the format, to nearest even, saturating at its largest value. x is not NaN. */
K_INLINE uint32_t k_to_f32(float x)
{
	return k_bits(k_clamp(x, 0x1.fffffep127f));
}
K_INLINE uint32_t k_to_f16(float x)
{
	return k_f32_to_f16(k_clamp(x, 65504.0f));
}
K_INLINE uint32_t k_to_bf16(float x)
{
	const uint32_t u = k_bits(k_clamp(x, 0x1.fep127f));

	return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
/* 4 bits of exponent, 3 of mantissa, bias 7, no infinity (Micikevicius et al. 2022, "FP8 formats
 * for deep learning"). Below 2^-6 a multiple of 2^-9. */
K_INLINE uint32_t k_to_e4m3(float x)
{
	const uint32_t sign = k_bits(x) >> 24 & 0x80, u = k_bits(k_clamp(x, 448.0f)) & 0x7fffffffu;

	if (u < 0x3c800000u)
		return sign | (k_bits(k_float(u) + 0x1.8p14f) - k_bits(0x1.8p14f));
	return sign | (((u + 0x7ffff + (u >> 20 & 1)) >> 20) - (120 << 3));
}

/* And back, exact. */
K_INLINE float k_of_f32(uint32_t code)
{
	return k_float(code);
}
K_INLINE float k_of_f16(uint32_t code)
{
	return k_f16_to_f32((uint16_t)code);
}
K_INLINE float k_of_bf16(uint32_t code)
{
	return k_bf16_to_f32((uint16_t)code);
}
/* Its bits read as an f32 (subnormals too) give a value 2^120 times too small. (NaN's codes, 0x7f
 * and 0xff, are never stored.) */
K_INLINE float k_of_e4m3(uint32_t code)
{
	return k_float((code & 0x80) << 24 | (code & 0x7f) << 20) * 0x1p120f;
}

K_INLINE uint32_t k_cache_code(int32_t format, float x)
{
#define X(name, bytes, doc) format == K_CACHE_##name ? k_to_##name(x):
	return K_CACHES(X) 0;
#undef X
}

K_INLINE float k_cache_value(int32_t format, uint32_t code)
{
#define X(name, bytes, doc) format == K_CACHE_##name ? k_of_##name(code):
	return K_CACHES(X) 0;
#undef X
}

/* Stores element i of the array at `at`. */
K_INLINE void k_cache_put(int32_t format, void *at, size_t i, uint32_t code)
{
	const int32_t bytes = k_cache_bytes(format);

	if (bytes == 1)
		((uint8_t *)at)[i] = (uint8_t)code;
	else if (bytes == 2)
		((uint16_t *)at)[i] = (uint16_t)code;
	else
		((uint32_t *)at)[i] = code;
}

K_INLINE float k_cache_get(int32_t format, const void *at, size_t i)
{
	const int32_t bytes = k_cache_bytes(format);

	return k_cache_value(format, bytes == 1   ? ((const uint8_t *)at)[i]
								 : bytes == 2 ? ((const uint16_t *)at)[i]
											  : ((const uint32_t *)at)[i]);
}

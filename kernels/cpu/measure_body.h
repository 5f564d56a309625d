/* A rate of sums between registers: 12 chains, so that no sum waits for the one before it.
 * MEASURE_CHAINS defines `name` (k_multiply_fn) for registers of the type V with `lanes` products:
 * next(sum, w, x) is the instruction that is measured. */
#pragma once

#include "kernels/measure.h"

#ifdef __aarch64__
#define VECTOR "w" /* the constraint of a vector register */
#else
#define VECTOR "v"
#endif
#define MEASURE_CHAINS(name, V, lanes, next, w_value, x_value)                                     \
	uint64_t name(int64_t n)                                                                       \
	{                                                                                              \
		enum { CHAINS = 12, LENGTH = 8 };                                                          \
		V w = w_value, x = x_value, sum[CHAINS];                                                   \
                                                                                                   \
		memset(sum, 0, sizeof sum);                                                                \
		for (int64_t i = 0; i < n; i++)                                                            \
			_Pragma("GCC unroll 8") for (int k = 0; k < LENGTH; k++)                               \
				_Pragma("GCC unroll 12") for (int c = 0; c < CHAINS; c++)                          \
			{                                                                                      \
				sum[c] = next(sum[c], w, x);                                                       \
				__asm__("" : "+" VECTOR(sum[c])); /* forces the sum here, in this order */         \
			}                                                                                      \
		for (int c = 0; c < CHAINS; c++)                                                           \
			__asm__ volatile("" ::VECTOR(sum[c])); /* keeps the sum alive */                       \
		return (uint64_t)n * CHAINS * LENGTH * lanes;                                              \
	}

/* How much parts of a model do, on a text. Thread: any; no state. */
#pragma once

#include <stdint.h>

/* Block influence, summed over tokens: 1 less the cosine between what enters a layer and what
 * leaves it, [rows, dim] each (Men et al. 2024, ShortGPT, equation 1). */
double influence_sum(const float *before, const float *after, int64_t rows, int32_t dim);
/* What columns at … at + n - 1 of w [rows, cols] add to its output: the sum of |w x|² over the
 * inputs x. h [n, n], rows `stride` apart: sum of x transpose(x) of these columns. */
double columns_importance(const float *w, int64_t rows, int32_t cols, int32_t at, int32_t n,
	const float *h, int32_t stride);

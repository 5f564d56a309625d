/* Lists of token ids. Part of base/: may be included from everywhere. Thread: any; no state. */
#pragma once

#include <stdint.h>

/* Tokens with which both begin. */
static inline int32_t ids_common(const int32_t *a, int64_t n_a, const int32_t *b, int64_t n_b)
{
	int32_t n = 0;

	while (n < n_a && n < n_b && a[n] == b[n])
		n++;
	return n;
}

/* Binary search in rows that ascend by their first member, an int64_t. Part of base/: may be
 * included from everywhere. Thread: any; no state. */
#pragma once

#include <stdint.h>
#include <stdlib.h>

static inline int find_compare(const void *number, const void *row)
{
	int64_t a = *(const int64_t *)number, b = *(const int64_t *)row;

	return (a > b) - (a < b);
}

/* The row whose first member is `number`, among n rows of `size` bytes, or NULL. rows may be NULL
 * if n is 0. */
static inline void *find_number(int64_t number, const void *rows, int64_t n, size_t size)
{
	return n > 0 ? bsearch(&number, rows, (size_t)n, size, find_compare) : NULL;
}

/* Bounds of whole numbers, as fmin and fmax are of real ones. Part of base/: may be included from
 * everywhere. Thread: any; no state. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

static inline int64_t at_least(int64_t v, int64_t least)
{
	return v < least ? least : v;
}

static inline int64_t at_most(int64_t v, int64_t most)
{
	return v > most ? most : v;
}

/* least, where most is below it. */
static inline int64_t within(int64_t v, int64_t least, int64_t most)
{
	return at_least(at_most(v, most), least);
}

/* Whether it is an index of a list of n, or a code of such a list. */
static inline bool is_index(int64_t v, int64_t n)
{
	return v >= 0 && v < n;
}

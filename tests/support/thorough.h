/* Whether a suite has time for what needs many computations: a law of large numbers, all pairs of
 * values. Sanitizers and scalar kernels look at the code, which a few computations reach; what many
 * of them show, other kernels show, whose bits are the same. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

static inline bool is_thorough(void)
{
#ifdef __SANITIZE_ADDRESS__
	return false;
#else
	return strcmp(k_isas()[0], "scalar") != 0;
#endif
}

/* The longest of these only when `tests/run --all` asks; in a run of the day a sample. */
static inline bool wants_all(void)
{
	return is_thorough() && getenv("CUTAWAY_TEST_ALL");
}

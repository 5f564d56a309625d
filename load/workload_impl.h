/* What the files of a load share: draws and lengths. Not for others: see workload.h. */
#pragma once

#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "load/workload.h"

/* What is drawn: a counter of philox each. */
enum workload_draw {
	DRAW_GAP = 16, /* 0 to 15 are those of sampling */
	DRAW_PHASE,
	DRAW_KIND,
	DRAW_SLOT,
	DRAW_SHARED,
	DRAW_OWN,
	DRAW_OUTPUT,
	DRAW_LAST,
	DRAW_THINK,
	DRAW_WORD,
	DRAW_ID,
};

/* Uniform on (0, 1), 53 bits. */
double workload_u(uint64_t seed, enum workload_draw what, int64_t a, int32_t b, uint32_t c);
/* The standard normal quantile: Acklam's rational approximation (2003), relative error below
 * 1.2e-9. */
double workload_normal(double u);
/* Gamma of this shape and mean 1: Marsaglia and Tsang (2000). Draws (what, a, 0 …). */
double workload_gamma(uint64_t seed, enum workload_draw what, int64_t a, double shape);

static inline int32_t workload_limit(const struct workload_options *o)
{
	return o->limit ? o->limit : INT32_MAX;
}
static inline int32_t workload_most_output(const struct workload_options *o)
{
	const int32_t most = workload_limit(o) / 4;

	return o->max_output && o->max_output < most ? o->max_output : most;
}
/* Lengths of a turn of a stream, cut to the limits; *cut is set if one was, and else left alone. */
struct workload_lengths {
	int32_t shared, own, output;
};
struct workload_lengths workload_lengths(const struct workload_options *o, enum workload_kind kind,
	int64_t stream, int32_t turn, bool *cut);

/* Counts of values in buckets whose width grows with them (HdrHistogram's form), for quantiles of
 * any number of values in a fixed memory. Up to 63 each value has a bucket of its own; above, 32
 * buckets share each doubling. Values from 2^40 on count as 2^40 - 1. For few values see
 * quantile_of() in base/median.h, which is exact. Thread: any; no state. */
#pragma once

#include <stdint.h>

enum { HISTOGRAM_BITS = 5, HISTOGRAM_MOST = 40 };
enum { HISTOGRAM_BUCKETS = (HISTOGRAM_MOST - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS };
/* A quantile is this far from the value at most, as a part of it: half a bucket. */
#define HISTOGRAM_ERROR (1.0 / (2 << HISTOGRAM_BITS))

struct histogram {
	uint32_t count[HISTOGRAM_BUCKETS];
};

/* A negative value counts as 0. */
void histogram_add(struct histogram *h, int64_t value);
/* The middle of the values that are counted in bucket b. */
double histogram_middle(int b);
int64_t histogram_n(const struct histogram *h);
/* By nearest rank: the middle of the bucket of the least value that a share of at least q does not
 * exceed; NaN without values. */
double histogram_quantile(const struct histogram *h, double q);

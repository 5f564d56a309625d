/* See histogram.h. */
#include "base/histogram.h"

#include <math.h>

enum { PER = 1 << HISTOGRAM_BITS };

static int bucket_of(int64_t value)
{
	int up = 0;

	if (value < 0)
		return 0;
	if (value >> HISTOGRAM_MOST)
		value = (INT64_C(1) << HISTOGRAM_MOST) - 1;
	while (value >> up >= 2 * PER)
		up++;
	return up * PER + (int)(value >> up);
}

/* Bucket b has the values from low on, `width` of them. */
double histogram_middle(int b)
{
	const int up = b < 2 * PER ? 0 : b / PER - 1;
	const int64_t low = (int64_t)(b - up * PER) << up, width = INT64_C(1) << up;

	return (double)low + (double)(width - 1) / 2;
}

void histogram_add(struct histogram *h, int64_t value)
{
	uint32_t *count = &h->count[bucket_of(value)];

	*count += *count < UINT32_MAX;
}

int64_t histogram_n(const struct histogram *h)
{
	int64_t n = 0;

	for (int b = 0; b < HISTOGRAM_BUCKETS; b++)
		n += h->count[b];
	return n;
}

double histogram_quantile(const struct histogram *h, double q)
{
	const double n = (double)histogram_n(h), rank = fmax(1, fmin(n, ceil(q * n)));
	double before = 0;

	for (int b = 0; b < HISTOGRAM_BUCKETS; b++) {
		before += h->count[b];
		if (before >= rank)
			return histogram_middle(b);
	}
	return (double)NAN;
}

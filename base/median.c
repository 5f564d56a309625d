/* See median.h. */
#include "base/median.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* How many values on each side are cut off so that less than 2.5 % of the binomial distribution is
 * beyond the next; *sure: what is then between. In logarithms: 2^-n underflows from n = 1,075 on.
 */
static int cut(int n, double *sure)
{
	double log_p = -n * log(2), tail = exp(log_p), next;
	int k = 0;

	for (; k < (n - 1) / 2; k++) {
		log_p += log((double)(n - k) / (k + 1));
		next = tail + exp(log_p);
		if (next > 0.025)
			break;
		tail = next;
	}
	*sure = fmax(0, 1 - 2 * tail);
	return k;
}

const double *sorted_of(double *value, int n)
{
	if (n > 0)
		qsort(value, (size_t)n, sizeof *value, by_value);
	return value;
}

struct median median_of(double *value, int n)
{
	struct median m = { NAN, NAN, NAN, 0, n };
	int k;

	if (n < 1)
		return m;
	sorted_of(value, n);
	k = cut(n, &m.sure);
	m.value = (value[(n - 1) / 2] + value[n / 2]) / 2;
	m.low = value[k];
	m.high = value[n - 1 - k];
	return m;
}

double quantile_of(const double *sorted, int n, double q)
{
	int rank = (int)ceil(q * n);

	return n < 1 ? (double)NAN : sorted[rank < 1 ? 0 : rank > n ? n - 1 : rank - 1];
}

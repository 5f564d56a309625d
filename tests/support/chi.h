/* Chi-square tests with fixed seeds: they pass always, or never. */
#pragma once

#include <math.h>

/* Upper quantile of chi-square with n degrees of freedom, 1 in 30,000 (Wilson and Hilferty
 * 1931). */
static inline double chi_limit(int n)
{
	double a = 2.0 / (9.0 * n), c = 1 - a + 4.0 * sqrt(a);

	return n * c * c * c;
}

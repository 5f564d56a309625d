/* The median of measured values, and where it lies with 95 % confidence. Thread: any; no state. */
#pragma once

/* low … high: two of the values, between which the median of what they are drawn from lies with
 * probability `sure`, whatever the distribution (order statistics: the sign test turned round;
 * Conover, Practical Nonparametric Statistics, 3.2). That is at least 0.95 from six values on; of
 * fewer, low and high are the extremes. */
struct median {
	double value, low, high; /* NaN without values */
	double sure;
	int n;
};

/* Sorts the values, none of which is NaN. */
struct median median_of(double *value, int n);
/* The same values, sorted. */
const double *sorted_of(double *value, int n);
/* The least of n sorted values that a share of at least q does not exceed; NaN if n is 0. */
double quantile_of(const double *sorted, int n, double q);

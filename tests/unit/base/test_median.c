/* The median and where it lies: against the binomial distribution itself, and by counting how often
 * the range holds the true median of made series, whatever they are drawn from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>

#include <cmocka.h>

#include "base/median.h"

enum { MOST = 5000, SERIES = 4000 };

static double value[MOST];

static double chance(int n, int k) /* of k out of n, at one half */
{
	return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2));
}

/* The range is the narrowest that is sure enough, and says how sure it is. */
static void test_order_statistics(void **state)
{
	(void)state;
	for (int n = 1; n <= MOST; n += 1 + n / 7) {
		struct median m;
		double tail = 0;
		int k;

		for (int i = 0; i < n; i++)
			value[i] = i * 5003 % n; /* a permutation: 5003 is a prime above all n */
		m = median_of(value, n);
		k = (int)m.low;
		for (int i = 0; i <= k; i++)
			tail += chance(n, i);
		assert_true(fabs(m.sure - (1 - 2 * tail)) < 1e-9 || m.sure == 0);
		assert_true(m.low + m.high == n - 1);
		assert_true(m.sure >= 0.95 || (n < 6 && k == 0));
		assert_true(n < 6 || 2 * (tail + chance(n, k + 1)) > 0.05);
		assert_true(m.value == (n - 1) / 2.0 && m.n == n);
	}
}

static double next(uint64_t *s) /* 0 … 1 */
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (double)(*s >> 11) / 0x1p53;
}

/* Ratios of two equal things: disturbances that are as often on one side as on the other, now and
 * then by a factor of ten. So 1 is the true median, and at most a twentieth of the ranges miss it.
 * The series are made, so the count is always the same. */
static void test_equal_sides(void **state)
{
	static const int lengths[] = { 6, 9, 12, 42, 100 };

	(void)state;
	for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
		uint64_t seed = 5 + l;
		int held = 0, beside = 0;

		for (int i = 0; i < SERIES; i++) {
			struct median m;

			for (int k = 0; k < lengths[l]; k++) {
				const double size = next(&seed) < 0.1 ? log(10) : 0.05;

				value[k] = exp(size * (2 * next(&seed) - 1));
			}
			m = median_of(value, lengths[l]);
			assert_true(m.low <= m.value && m.value <= m.high);
			held += m.low <= 1 && 1 <= m.high;
			beside += m.low <= 1.05 && 1.05 <= m.high;
		}
		assert_in_range(held, SERIES * 948 / 1000, SERIES);
		assert_true(beside < held); /* a ratio that is not there is held less often … */
		assert_true(lengths[l] < 42 || beside < SERIES / 100); /* … and by many pairs, not at all */
	}
}

static void test_quantiles(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++)
		value[i] = i + 1;
	assert_true(quantile_of(value, 200, 0.5) == 100);
	assert_true(quantile_of(value, 200, 0.99) == 198);
	assert_true(quantile_of(value, 1, 0.99) == 1);
	assert_true(isnan(quantile_of(value, 0, 0.5)));
	assert_true(isnan(median_of(value, 0).value));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_statistics),
		cmocka_unit_test(test_equal_sides),
		cmocka_unit_test(test_quantiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

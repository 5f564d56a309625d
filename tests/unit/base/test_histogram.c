/* Quantiles of a histogram: against the exact ones of the same values, by nearest rank. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/histogram.h"
#include "base/median.h"

enum { MOST = 3000 };

static const double asked[] = { 0, 0.01, 0.5, 0.9, 0.99, 1 };

static void compare(const int64_t *value, int n)
{
	static struct histogram h;
	static double exact[MOST];

	memset(&h, 0, sizeof h);
	for (int i = 0; i < n; i++) {
		histogram_add(&h, value[i]);
		exact[i] = (double)value[i];
	}
	sorted_of(exact, n);
	assert_int_equal(histogram_n(&h), n);
	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
		const double is = quantile_of(exact, n, asked[i]), got = histogram_quantile(&h, asked[i]);

		assert_true(fabs(got - is) <= HISTOGRAM_ERROR * is);
	}
}

/* Up to 63 they are exact; above, within the error that the header states, at every edge of a
 * bucket. */
static void test_error(void **state)
{
	int64_t value[MOST];
	int n = 0;

	(void)state;
	for (int64_t v = 0; v < 64; v++)
		value[n++] = v;
	compare(value, n);
	for (int up = 0; up < HISTOGRAM_MOST; up++)
		for (int64_t d = -1; d <= 1; d++) {
			const int64_t v = (INT64_C(1) << up) + d;

			compare(&v, 1);
		}
	srand(1);
	for (int round = 0; round < 50; round++) {
		for (n = 0; n < MOST; n++)
			value[n] = (int64_t)(((uint64_t)rand() << 20 ^ (uint64_t)rand()) >> rand() % 40) &
					   ((INT64_C(1) << HISTOGRAM_MOST) - 1);
		compare(value, 1 + rand() % MOST);
	}
}

static void test_edges(void **state)
{
	static struct histogram h;

	(void)state;
	assert_true(isnan(histogram_quantile(&h, 0.5)));
	histogram_add(&h, INT64_MIN);
	assert_true(histogram_quantile(&h, 1) == 0);
	histogram_add(&h, INT64_MAX);
	assert_true(histogram_quantile(&h, 1) > 0.98 * (double)(INT64_C(1) << HISTOGRAM_MOST));
	h.count[0] = UINT32_MAX; /* a file may say so */
	histogram_add(&h, 0);
	assert_int_equal(h.count[0], UINT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_error),
		cmocka_unit_test(test_edges),
	};

	return cmocka_run_group_tests_name("histogram", tests, NULL, NULL);
}

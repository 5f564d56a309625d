/* A link as a user writes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/link.h"

static void links_are_read(void **state)
{
	static const struct {
		const char *text;
		double rate;
		int64_t latency_ns;
	} good[] = { { "1gbit,50us", 125e6, 50000 }, { "100mbit", 12.5e6, 0 }, { "2ms", 0, 2000000 },
		{ "0.5ms,8kbit", 1000, 500000 } };
	struct err e = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		struct link_speed link;

		assert_int_equal(link_parse(&link, good[i].text, &e), 0);
		assert_true(link.rate == good[i].rate && link.latency_ns == good[i].latency_ns);
	}
}

static void nonsense_is_refused(void **state)
{
	static const char *const bad[] = { "", "-", "1", "gbit", "1gbit,", ",1gbit", "1gbit 50us",
		"-1gbit", "0us", "1e9gbit", "nanus", "infms", "1gbits" };

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct err e = { 0 };
		struct link_speed link;

		assert_int_equal(link_parse(&link, bad[i], &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
		assert_non_null(*e.text ? e.text : NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(links_are_read),
		cmocka_unit_test(nonsense_is_refused) };

	return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}

/* What the tests of the kernels use of cmocka, for a processor that it is not installed for
 * (tests/program/test_arm.sh). A failed assertion ends its test. Speaks TAP. Thread: one. */
#pragma once

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

static jmp_buf cross_end;
enum { CROSS_FAILED = 1, CROSS_SKIPPED };

#define fail_msg(...)                                                                              \
	do {                                                                                           \
		printf("# %s:%d: ", __FILE__, __LINE__);                                                   \
		printf(__VA_ARGS__);                                                                       \
		puts("");                                                                                  \
		longjmp(cross_end, CROSS_FAILED);                                                          \
	} while (0)
#define skip() longjmp(cross_end, CROSS_SKIPPED)
#define print_error(...) printf("# " __VA_ARGS__)
#define assert_true(c)                                                                             \
	do {                                                                                           \
		if (!(c))                                                                                  \
			fail_msg("%s", #c);                                                                    \
	} while (0)
#define assert_false(c) assert_true(!(c))
#define assert_null(p) assert_true(!(p))
#define assert_non_null(p) assert_true(p)
#define assert_int_equal(a, b) assert_true((a) == (b))
#define assert_in_range(x, least, most)                                                            \
	assert_true((long)(x) >= (long)(least) && (long)(x) <= (long)(most))
#define assert_string_equal(a, b) assert_true(!strcmp(a, b))
#define assert_memory_equal(a, b, n) assert_true(!memcmp(a, b, n))
#define assert_memory_not_equal(a, b, n) assert_true(memcmp(a, b, n))

struct CMUnitTest {
	const char *name;
	void (*fn)(void **state);
};
#define cmocka_unit_test(fn)                                                                       \
	{                                                                                              \
#fn, fn                                                                                    \
	}

static inline int cross_run(const struct CMUnitTest *test, int number)
{
	void *state = NULL;
	const int end = setjmp(cross_end);

	if (!end)
		test->fn(&state);
	printf("%sok %d - %s%s\n", end == CROSS_FAILED ? "not " : "", number, test->name,
		end == CROSS_SKIPPED ? " # SKIP" : "");
	fflush(stdout);
	return end == CROSS_FAILED;
}

static inline int cross_run_all(
	const struct CMUnitTest *test, int n, int (*open)(void **), int (*close)(void **))
{
	void *state = NULL;
	static int failed; /* survives longjmp */

	printf("1..%d\n", n);
	if (setjmp(cross_end) || (open && open(&state))) {
		puts("Bail out! the tests cannot begin");
		return 1;
	}
	for (int i = 0; i < n; i++)
		failed += cross_run(test + i, i + 1);
	return failed + (close && close(&state));
}
#define cmocka_run_group_tests(tests, open, close)                                                 \
	cross_run_all(tests, sizeof(tests) / sizeof *(tests), open, close)
#define cmocka_run_group_tests_name(name, tests, open, close)                                      \
	cmocka_run_group_tests(tests, open, close)

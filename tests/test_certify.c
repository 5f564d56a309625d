/* certify finds nothing where all is equal, and finds it where something differs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sessions/certify.h"
#include "tests/tiny.h"

struct seen {
	int n_cases, n_equal;
	char axes[512];
	char *model, *other; /* other takes the model's place after the first case, if not NULL */
};

static void tell(void *arg, const struct certify_case *c)
{
	struct seen *s = arg;
	s->n_cases++;
	s->n_equal += c->equal;
	if (!strstr(s->axes, c->axis)) {
		strncat(s->axes, c->axis, sizeof s->axes - strlen(s->axes) - 1);
		strncat(s->axes, ";", sizeof s->axes - strlen(s->axes) - 1);
	}
	if (s->other) {
		assert_int_equal(rename(s->other, s->model), 0);
		free(s->other);
		s->other = NULL;
	}
}

static char *make_model(uint64_t seed)
{
	struct tiny_options o = TINY_DEFAULTS;
	struct err e = {0};
	o.seed = seed;
	char *path = tiny_temp(&o, &e);
	if (!path)
		fail_msg("%s", e.text);
	return path;
}

static void test_equal(void **state)
{
	(void)state;
	struct seen s = {.model = make_model(1)};
	struct certify_options o = {.model = s.model, .quick = true, .seed = 1};
	struct certify_summary sum;
	struct err e = {0};
	assert_int_equal(certify_run(&o, tell, &s, &sum, &e), 0);
	assert_int_equal(sum.n_differ, 0);
	assert_int_equal(sum.n_cases, s.n_cases);
	assert_int_equal(s.n_equal, s.n_cases);
	assert_int_equal(sum.n_pairs, 6);
	assert_true(sum.n_tokens > 1000);
	assert_non_null(strstr(s.axes, "reference;"));
	assert_non_null(strstr(s.axes, "threads;"));
	assert_non_null(strstr(s.axes, "page size;"));
	assert_non_null(strstr(s.axes, "prefill chunk;"));
	assert_non_null(strstr(s.axes, "company;"));
	assert_non_null(strstr(s.axes, "prefix;"));
	assert_non_null(strstr(s.axes, "speculation;"));
	unlink(s.model);
	free(s.model);
}

static void test_difference(void **state)
{
	(void)state;
	struct seen s = {.model = make_model(1), .other = make_model(2)};
	struct certify_options o = {.model = s.model, .quick = true, .seed = 1};
	struct certify_summary sum;
	struct err e = {0};
	assert_int_equal(certify_run(&o, tell, &s, &sum, &e), -1);
	assert_int_equal(e.code, ERR_DIFFERS);
	assert_non_null(strstr(e.text, "first difference is row 0"));
	assert_int_equal(s.n_equal, 1);
	assert_int_equal(sum.n_differ, s.n_cases - 1);
	unlink(s.model);
	free(s.model);
}

static void test_unfit(void **state)
{
	(void)state;
	struct tiny_options t = TINY_DEFAULTS;
	struct certify_summary sum;
	struct err e = {0};
	t.ctx = 64;
	char *path = tiny_temp(&t, &e);
	assert_non_null(path);
	struct certify_options o = {.model = path, .quick = true};
	struct seen s = {0};
	assert_int_equal(certify_run(&o, tell, &s, &sum, &e), -1);
	assert_int_not_equal(e.code, ERR_DIFFERS);
	assert_int_equal(s.n_cases, 0);
	unlink(path);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_difference),
		cmocka_unit_test(test_unfit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

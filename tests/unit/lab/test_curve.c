/* The price of bits (lab/curve): points that are measured, and how they are drawn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/curve.h"
#include "tests/support/tiny.h"

static char folder[] = "/tmp/cutaway-curves-XXXXXX";
static char *model;
static const char text[] =
	"The quick brown fox jumps over the lazy dog, and then it jumps over it again.";

static char calibration[12000];

static int setup(void **state)
{
	struct tiny_options t = TINY_DEFAULTS;
	struct err e = { 0 };

	(void)state;
	t.type = K_F16;
	while (strlen(calibration) + sizeof text < sizeof calibration)
		strcat(calibration, text);
	if (!mkdtemp(folder) || setenv("TMPDIR", folder, 1))
		return -1;
	model = tiny_temp(&t, &e);
	return model ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	unlink(model);
	free(model);
	return rmdir(folder); /* which is empty, or this fails */
}

static bool more(void *arg, const char *what, int64_t done, int64_t all)
{
	(void)what;
	(void)done;
	(void)all;
	return !arg;
}

static struct curve_options options(void)
{
	return (struct curve_options){ .model = model,
		.text = text,
		.size = sizeof text - 1,
		.common = {
			.text = calibration, .size = strlen(calibration), .threads = 1, .progress = more } };
}

/* The model's own file stays alone in the folder. */
static void nothing_is_left(void)
{
	DIR *d = opendir(folder);
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	assert_int_equal(n, 3);
}

static struct curve_point grid(enum quant_method method, int32_t bits)
{
	return (struct curve_point){ .method = method,
		.form = { .type = K_F16, .bits = bits, .group = 32 } };
}

static void fewer_bits_cost_more(void **state)
{
	struct curve_options o = options();
	struct curve_point p[] = { { .form = { .type = K_Q8_0 } }, grid(QUANT_RTN, 8),
		grid(QUANT_RTN, 4), grid(QUANT_RTN, 2), grid(QUANT_GPTQ, 4) };
	enum { N = sizeof p / sizeof *p };

	(void)state;
	for (int i = 0; i < N; i++) {
		struct err e = { 0 };

		if (curve_measure(&p[i], &o, &e))
			fail_msg("%s", e.text);
		assert_true(p[i].done && p[i].prices.n > 10 && p[i].prices.kl > 0 && p[i].error > 0);
		assert_true(p[i].prices.exact_logp == p[0].prices.exact_logp);
		assert_true((p[i].tok_s > 0) == (p[i].form.bits == 0)); /* a file's format has a speed */
		nothing_is_left();
	}
	assert_true(p[0].bits == 8.5 && p[3].bits == 2.5);
	assert_true(p[1].prices.kl < p[2].prices.kl && p[2].prices.kl < p[3].prices.kl);
}

static void a_stop_leaves_nothing(void **state)
{
	struct curve_options o = options();
	struct curve_point p = grid(QUANT_RTN, 4);
	struct err e = { 0 };

	(void)state;
	o.common.arg = &o;
	assert_int_equal(curve_measure(&p, &o, &e), -1);
	assert_int_equal(e.code, ERR_INTERRUPTED);
	assert_false(p.done);
	o.common.arg = NULL;
	o.size = 1;
	e = (struct err){ 0 };
	assert_int_equal(curve_measure(&p, &o, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	nothing_is_left();
}

static char *drawn(int how, const struct curve_point *p, int n)
{
	char *out = NULL;
	size_t size;
	FILE *f = open_memstream(&out, &size);

	if (how == 0)
		curve_draw(p, n, 40, 11, f);
	else
		curve_svg(p, n, "a <script> & \"b\"", f);
	fclose(f);
	return out;
}

static void has(const char *where, const char *words)
{
	if (!strstr(where, words))
		fail_msg("\"%s\" is not in\n%s", words, where);
}

static void points_stand_where_they_belong(void **state)
{
	struct curve_point p[] = { grid(QUANT_RTN, 8), grid(QUANT_GPTQ, 2),
		{ .form = { .type = K_Q4_0 } }, grid(QUANT_AWQ, 3) };
	const double bits[] = { 9, 1, 5, 3 }, kl[] = { 0.001, 1, 0.1, 0.5 };
	char *out;

	(void)state;
	for (int i = 0; i < 4; i++) {
		p[i].done = i < 3; /* the last one was not measured */
		p[i].bits = bits[i];
		p[i].prices = (struct prices){ .n = 1, .kl = kl[i] };
	}
	out = drawn(0, p, 4);
	has(out, "      1 |g");
	has(out, "  0.001 |                                       r\n");
	has(out, "|                    F");
	assert_null(strchr(out, 'a') == strstr(out, "a weight") ? NULL : out); /* no point of awq */
	free(out);
	out = drawn(1, p, 4);
	has(out, "<svg ");
	has(out, ">a  script     b </text>");
	has(out, ">Q4_0</text>");
	assert_null(strstr(out, "<script"));
	free(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fewer_bits_cost_more),
		cmocka_unit_test(a_stop_leaves_nothing),
		cmocka_unit_test(points_stand_where_they_belong),
	};

	return cmocka_run_group_tests_name("curve", tests, setup, teardown);
}

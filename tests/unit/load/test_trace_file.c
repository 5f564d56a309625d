/* Traces of arrivals (load/trace_file.h), also damaged ones. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "load/trace_file.h"
#include "tests/support/arrivals.h"

static char path[] = "/tmp/cutaway-trace-XXXXXX";

static void write_trace(const char *text, size_t size)
{
	FILE *out = fopen(path, "w");

	assert_non_null(out);
	assert_int_equal(fwrite(text, 1, size, out), size);
	assert_int_equal(fclose(out), 0);
}

/* Rows until the end, or -1. */
static int read_trace(struct trace_row *row, int most, struct err *e)
{
	struct trace_file t;
	int n = 0, rc = trace_file_open(&t, path, e);

	while (!rc && n < most && (rc = trace_file_next(&t, &row[n], e)) > 0) {
		n++;
		rc = 0;
	}
	trace_file_close(&t);
	return rc < 0 ? -1 : n;
}

static void test_trace(void **state)
{
	static const char text[] = "\xef\xbb\xbfTIMESTAMP,NumImages,ContextTokens,GeneratedTokens\r\n"
							   "2024-02-28 23:59:59.7500000,0,374,44\r\n"
							   "2024-02-29 01:00:00.2500000+01:00,1,396,0\r\n"
							   "2024-03-01T00:00:00Z,2,\"7\",12\r\n\r\n\n";
	static const double at[] = { 0, 0.5, 86400.25 };
	struct trace_row row[4];
	struct err e = { 0 };

	(void)state;
	write_trace(text, sizeof text - 1);
	assert_int_equal(read_trace(row, 4, &e), 3);
	for (int i = 0; i < 3; i++)
		assert_true(fabs(row[i].at_s - at[i]) < 1e-6);
	assert_int_equal(row[0].n_prompt, 374);
	assert_int_equal(row[1].n_output, 1);
	assert_int_equal(row[2].n_prompt, 7);
}

/* Twice as fast, cut to fit, in order. */
static void test_trace_load(void **state)
{
	static const char text[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n1.5,100,7\n3.5,9000,900\n";
	struct workload_options o = {
		.arrivals = WORKLOAD_TRACE, .trace = path, .rate = 2, .limit = 800
	};
	struct workload *w;
	struct arrival a;

	(void)state;
	write_trace(text, sizeof text - 1);
	w = opened(&o);
	a = next(w);
	assert_true(a.at_s == 0 && a.n_prompt == 100 && a.n_output == 7 && a.prefix == -1);
	a = next(w);
	assert_true(a.at_s == 1 && a.n_prompt == 600 && a.n_output == 200);
	assert_true(isinf(workload_when(w)));
	assert_int_equal(workload_n_cut(w), 1);
	workload_close(w);
}

static void test_hostile_traces(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "", "no column TIMESTAMP" },
		{ "\n", "no column TIMESTAMP" },
		{ "TIMESTAMP,ContextTokens\n", "no column GeneratedTokens" },
		{ "TIMESTAMP,ContextTokens,GeneratedTokens\n1,2\n", "line 2: it has fewer columns" },
		{ "TIMESTAMP,ContextTokens,GeneratedTokens\n", "no request follows" },
		{ "TIMESTAMP,ContextTokens,GeneratedTokens\n\r\n\n", "no request follows" },
		{ "TIMESTAMP,ContextTokens,GeneratedTokens\nx,2,3\n", "line 2: TIMESTAMP is neither" },
		{ "TIMESTAMP,ContextTokens,GeneratedTokens\nnan,2,3\n", "line 2: TIMESTAMP is neither" },
		{ "TIMESTAMP,ContextTokens,GeneratedTokens\n1e300,2,3\n", "line 2: TIMESTAMP is neither" },
		{ "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-01 00:00:00,2,3\n",
			"TIMESTAMP is neither" },
		{ "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-12-01 00:00:,2,3\n",
			"TIMESTAMP is neither" },
		{ "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-12-01 00:00:01+x,2,3\n",
			"TIMESTAMP is neither" },
		{ "TIMESTAMP,ContextTokens,GeneratedTokens\n1,-2,3\n", "whole numbers" },
		{ "TIMESTAMP,ContextTokens,GeneratedTokens\n1,2.5,3\n", "whole numbers" },
		{ "TIMESTAMP,ContextTokens,GeneratedTokens\n1,99999999999999999999,3\n", "whole numbers" },
		{ "TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,3\n0,2,3\n", "line 3: an earlier time" },
	};
	struct trace_row row[4];

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct err e = { 0 };

		write_trace(bad[i].text, strlen(bad[i].text));
		assert_int_equal(read_trace(row, 4, &e), -1);
		assert_int_equal(e.code, ERR_INPUT);
		if (!strstr(e.text, bad[i].says))
			fail_msg("%s: not \"%s\"", e.text, bad[i].says);
	}
}

/* Bytes of a good trace changed at random: rows or an error, and never anything else. */
static void test_random_traces(void **state)
{
	static const char good[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
							   "2023-11-16 18:15:46.68,374,44\n2023-11-16 18:15:50.99,396,109\n";
	static const char bytes[] = "0123456789,-:. +\n\r\"eEx\0\xff";
	struct trace_row row[8];
	int errors = 0;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		char text[sizeof good];
		struct err e = { 0 };
		int n;

		memcpy(text, good, sizeof good);
		for (int k = 0; k < 1 + i % 4; k++)
			text[(int)(workload_u(1, DRAW_OWN, i, k, 0) * (sizeof good - 1))] =
				bytes[(int)(workload_u(1, DRAW_OWN, i, k, 1) * (sizeof bytes - 1))];
		write_trace(text, sizeof good - 1);
		n = read_trace(row, 8, &e);
		errors += n < 0;
		assert_true(n < 0 ? e.code == ERR_INPUT : n <= 6);
		for (int k = 0; k < n; k++)
			assert_true(row[k].at_s >= 0 && row[k].n_prompt >= 1 && row[k].n_output >= 1);
	}
	assert_true(errors > 500 && errors < 3000);
}

static int setup(void **state)
{
	const int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trace),
		cmocka_unit_test(test_trace_load),
		cmocka_unit_test(test_hostile_traces),
		cmocka_unit_test(test_random_traces),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

/* Loads (sessions/load/workload.h): their distributions against closed forms, what streams share,
 * texts, and traces, also damaged ones. Seeds are fixed, so each bound holds or does not for good.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/median.h"
#include "sessions/load/trace_file.h"
#include "sessions/load/workload_impl.h"
#include "tests/support/allocations.h"

enum { N = 40000 };

static struct workload *opened(const struct workload_options *o)
{
	struct workload *w;
	struct err e = { 0 };

	if (workload_open(&w, o, &e))
		fail_msg("%s", e.text);
	return w;
}

static struct arrival next(struct workload *w)
{
	struct arrival a;
	struct err e = { 0 };

	assert_int_equal(workload_next(w, &a, &e), 1);
	return a;
}

static struct arrival *all_of(const struct workload_options *o)
{
	struct arrival *a = calloc((size_t)o->n, sizeof *a);
	struct workload *w = opened(o);
	struct arrival more;
	struct err e = { 0 };

	assert_non_null(a);
	for (int64_t i = 0; i < o->n; i++)
		a[i] = next(w);
	assert_int_equal(workload_next(w, &more, &e), 0);
	assert_true(isinf(workload_when(w)));
	workload_close(w);
	return a;
}

/* ---- distributions ---- */

struct moments {
	double mean, cv;
};

static struct moments moments_of(const double *x, int n)
{
	double sum = 0, squares = 0;

	for (int i = 0; i < n; i++)
		sum += x[i];
	for (int i = 0; i < n; i++)
		squares += (x[i] - sum / n) * (x[i] - sum / n);
	return (struct moments){ sum / n, sqrt(squares / n) / (sum / n) };
}

static double *gaps_of(struct workload_options o)
{
	double *gap = calloc(N, sizeof *gap), before = 0;
	struct workload *w;

	assert_non_null(gap);
	o.n = N;
	o.seed = 11;
	w = opened(&o);
	for (int i = 0; i < N; i++) {
		const struct arrival a = next(w);

		assert_true(a.at_s >= before);
		assert_int_equal(a.number, i);
		gap[i] = a.at_s - before;
		before = a.at_s;
	}
	workload_close(w);
	return gap;
}

/* The largest distance of a sample from a distribution is below 1.95 / sqrt(n) in 99.9 % of samples
 * of it (Kolmogorov). */
static void near_distribution(double *x, int n, double (*cdf)(double x))
{
	double most = 0;

	sorted_of(x, n);
	for (int i = 0; i < n; i++)
		most = fmax(most, fmax(fabs(cdf(x[i]) - (double)i / n), fabs(cdf(x[i]) - (i + 1.0) / n)));
	assert_true(most < 1.95 / sqrt(n));
}

static double exponential_cdf(double x)
{
	return 1 - exp(-5 * x);
}

/* Gamma of shape 2 and mean 1/5. */
static double gamma2_cdf(double x)
{
	return 1 - exp(-10 * x) * (1 + 10 * x);
}

/* Of shape 1/2: the square of a normal. */
static double gamma_half_cdf(double x)
{
	return erf(sqrt(5 * x / 2));
}

static double normal_cdf(double x)
{
	return erfc(-x / sqrt(2)) / 2;
}

static void test_gaps(void **state)
{
	const struct {
		struct workload_options o;
		double (*cdf)(double x);
		double cv;
	} way[] = {
		{ { .arrivals = WORKLOAD_POISSON }, exponential_cdf, 1 },
		{ { .arrivals = WORKLOAD_GAMMA, .cv = sqrt(0.5) }, gamma2_cdf, sqrt(0.5) },
		{ { .arrivals = WORKLOAD_GAMMA, .cv = sqrt(2) }, gamma_half_cdf, sqrt(2) },
		{ { .arrivals = WORKLOAD_GAMMA, .cv = 4 }, NULL, 4 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
		struct workload_options o = way[i].o;
		struct moments m;
		double *gap;

		o.rate = 5;
		gap = gaps_of(o);
		m = moments_of(gap, N);
		assert_true(fabs(m.mean * 5 - 1) < 4 * way[i].cv / sqrt(N));
		assert_true(fabs(m.cv / way[i].cv - 1) < 0.06);
		if (way[i].cdf)
			near_distribution(gap, N, way[i].cdf);
		free(gap);
	}
}

static void test_uniform(void **state)
{
	double *gap = gaps_of((struct workload_options){ .arrivals = WORKLOAD_UNIFORM, .rate = 8 });

	(void)state;
	for (int i = 0; i < N; i++)
		assert_true(gap[i] == 0.125);
	free(gap);
}

/* An interrupted Poisson process: its gaps are hyperexponential, of squared coefficient of
 * variation 1 + 2 lambda a / (a + b)^2, a and b the rates at which on and off end (Kuczura 1973).
 */
static void test_onoff(void **state)
{
	const double on = 2, off = 6, lambda = 5 * (on + off) / on, sum = 1 / on + 1 / off;
	const double cv = sqrt(1 + 2 * lambda / on / (sum * sum));
	double *gap = gaps_of((struct workload_options){
		.arrivals = WORKLOAD_ONOFF, .rate = 5, .on_s = on, .off_s = off });
	const struct moments m = moments_of(gap, N);

	(void)state;
	assert_true(fabs(m.mean * 5 - 1) < 4 * cv / sqrt(N));
	assert_true(fabs(m.cv / cv - 1) < 0.05);
	free(gap);
}

static void test_normal(void **state)
{
	static double x[N];

	(void)state;
	for (int i = 1; i < 100000; i++)
		assert_true(fabs(normal_cdf(workload_normal(i / 1e5)) - i / 1e5) < 1e-8);
	assert_true(fabs(workload_normal(1e-12) + 7.034484) < 1e-5);
	for (int i = 0; i < N; i++)
		x[i] = workload_normal(workload_u(3, DRAW_OWN, i, 0, 0));
	near_distribution(x, N, normal_cdf);
}

/* Of each kind as its row says; n_prefix of a stream counts once. */
static void test_lengths(void **state)
{
	static double own[N], output[N];

	(void)state;
	for (int k = 0; k < WORKLOAD_KINDS; k++) {
		const struct workload_kind_row *row = &workload_kinds[k];
		struct workload_options o = { .rate = 1, .n = N, .kinds = 1u << k, .scale = 3, .seed = 5 };
		struct arrival *a = all_of(&o);
		int64_t streams = 0;
		struct moments m;

		for (int i = 0; i < N; i++) {
			own[i] = a[i].n_prompt - a[i].n_prefix;
			output[i] = a[i].n_output;
			streams += a[i].turn == 0;
			assert_int_equal(a[i].kind, k);
			assert_int_equal(a[i].priority, row->priority);
		}
		m = moments_of(own, N);
		assert_true(fabs(m.mean / 3 / row->own.mean - 1) < 5 * row->own.cv / sqrt(N));
		assert_true(fabs(m.cv / row->own.cv - 1) < 0.05);
		m = moments_of(output, N);
		assert_true(fabs(m.mean / 3 / row->output.mean - 1) < 5 * row->output.cv / sqrt(N));
		assert_true(fabs(m.cv / row->output.cv - 1) < 0.2);
		assert_true(fabs((double)N / (double)streams / row->uses - 1) < 0.12);
		free(a);
	}
}

/* ---- what is shared ---- */

static void test_repeats(void **state)
{
	struct workload_options o = { .rate = 2, .n = 500, .kinds = 15, .seed = 9, .limit = 3000 };
	struct arrival *a = all_of(&o), *b = all_of(&o), *c;

	(void)state;
	assert_memory_equal(a, b, 500 * sizeof *a);
	o.seed = 10;
	c = all_of(&o);
	assert_memory_not_equal(a, c, 500 * sizeof *a);
	free(a);
	free(b);
	free(c);
}

static int32_t common(
	const struct workload_options *o, const struct arrival *a, const struct arrival *b)
{
	int32_t n = 0;

	while (n < a->n_prompt && n < b->n_prompt &&
		   workload_id(o, a, 1 << 30, n) == workload_id(o, b, 1 << 30, n))
		n++;
	return n;
}

/* Two prompts of a stream are equal just as far as their prefix says; of others not at all. */
static void test_prefixes(void **state)
{
	(void)state;
	for (int k = 0; k < WORKLOAD_KINDS; k++) {
		struct workload_options o = {
			.rate = 1, .n = 200, .kinds = 1u << k, .live = 3, .limit = 2000
		};
		struct arrival *a = all_of(&o);

		for (int i = 1; i < 200; i++)
			for (int j = i > 20 ? i - 20 : 0; j < i; j++) {
				const bool same = a[i].stream == a[j].stream;
				const int32_t is = k == WORKLOAD_CHAT ? a[j].n_prompt : a[i].n_prefix;

				assert_int_equal(common(&o, &a[i], &a[j]), same ? is : 0);
				if (same && k != WORKLOAD_CHAT)
					assert_int_equal(a[i].n_prefix, a[j].n_prefix);
			}
		free(a);
	}
}

/* A turn's prefix is the prompt before with its answer, whose tokens are those that it goes on
 * from. */
static void test_conversation(void **state)
{
	struct workload_options o = { .rate = 1, .n = 300, .live = 1, .seed = 2 };
	struct arrival *a = all_of(&o);
	int32_t turns = 0;

	(void)state;
	for (int i = 1; i < 300; i++) {
		const struct arrival *b = &a[i - 1];

		if (a[i].stream != b->stream) {
			assert_int_equal(a[i].turn, 0);
			assert_int_equal(a[i].prefix, -1);
			continue;
		}
		turns++;
		assert_int_equal(a[i].turn, b->turn + 1);
		assert_int_equal(a[i].prefix, a[i].stream);
		assert_int_equal(a[i].n_prefix, b->n_prompt + b->n_output);
		for (int32_t t = 0; t < b->n_output; t++)
			assert_int_equal(workload_id(&o, b, 1 << 30, b->n_prompt + t),
				workload_id(&o, &a[i], 1 << 30, b->n_prompt + t));
	}
	assert_true(turns > 50);
	free(a);
}

static void test_limits(void **state)
{
	struct workload_options o = {
		.rate = 1, .n = 3000, .kinds = 15, .limit = 300, .max_output = 40, .seed = 4
	};
	struct workload *w = opened(&o);

	(void)state;
	for (int i = 0; i < 3000; i++) {
		const struct arrival a = next(w);

		assert_true(a.n_prompt + a.n_output <= 300 && a.n_output <= 40 && a.n_output >= 1);
		assert_true(a.n_prompt > a.n_prefix);
	}
	assert_true(workload_n_cut(w) > 0);
	workload_close(w);
}

/* A million arrivals take no memory. */
static void test_memory(void **state)
{
	struct workload_options o = {
		.arrivals = WORKLOAD_GAMMA, .cv = 2, .rate = 100, .n = 1000000, .kinds = 15, .limit = 8192
	};
	struct workload *w = opened(&o);
	const int64_t before = allocations();

	(void)state;
	for (int i = 0; i < 1000000; i++)
		next(w);
	assert_int_equal(allocations(), before);
	workload_close(w);
}

/* ---- closed loops ---- */

/* Answers take `each` seconds, of even users ten times as long. Returns the first 20 requests of
 * user 3. */
static void run_closed(double each, struct arrival of3[20])
{
	struct workload_options o = {
		.arrivals = WORKLOAD_CLOSED, .users = 5, .think_s = 2, .n = 2000, .kinds = 5
	};
	struct workload *w = opened(&o);
	double ends[5] = { INFINITY, INFINITY, INFINITY, INFINITY, INFINITY }, now = 0;
	int n3 = 0;

	for (int n = 0; n < 1500;) {
		int u = 0;

		for (int i = 1; i < 5; i++)
			u = ends[i] < ends[u] ? i : u;
		if (workload_when(w) <= ends[u]) {
			const struct arrival a = next(w);

			assert_true(a.at_s >= now && isinf(ends[a.user]));
			now = a.at_s;
			ends[a.user] = now + each * (a.user % 2 ? 1 : 10);
			if (a.user == 3 && n3 < 20)
				of3[n3++] = a;
			n++;
		} else {
			now = ends[u];
			ends[u] = INFINITY;
			workload_ended(w, u, now);
		}
	}
	assert_int_equal(n3, 20);
	workload_close(w);
}

/* What a user asks does not depend on how fast anybody is answered. */
static void test_closed(void **state)
{
	struct arrival slow[20], fast[20];

	(void)state;
	run_closed(3, slow);
	run_closed(0.01, fast);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(slow[i].n_prompt, fast[i].n_prompt);
		assert_int_equal(slow[i].n_output, fast[i].n_output);
		assert_int_equal(slow[i].stream, fast[i].stream);
	}
	assert_true(slow[19].at_s > fast[19].at_s + 19 * 2);
}

/* ---- texts ---- */

static int32_t words_of(const char *text)
{
	int32_t n = 0;

	for (bool in = false; *text; text++) {
		const bool letter = (*text | 32) >= 'a' && (*text | 32) <= 'z';

		n += letter ? !in : !strchr(" \n", *text);
		in = letter;
	}
	return n;
}

static void test_texts(void **state)
{
	struct workload_options o = { .rate = 1, .n = 100, .live = 2, .limit = 2000, .kinds = 11 };
	struct arrival *a = all_of(&o);
	struct workload_prompt p, q;
	struct err e = { 0 };

	(void)state;
	for (int i = 0; i < 100; i++) {
		int32_t n;

		assert_int_equal(workload_prompt(&o, &a[i], &p, &e), 0);
		assert_int_equal(p.n % 2, 1);
		n = p.system ? words_of(p.system) : 0;
		assert_int_equal(n, a[i].kind == WORKLOAD_SYSTEM ? a[i].n_prefix : 0);
		for (int32_t k = 0; k < p.n; k++)
			n += words_of(p.text[k]);
		assert_int_equal(n, a[i].n_prompt);
		for (int j = 0; j < i; j++) {
			if (a[j].stream != a[i].stream || a[j].turn != a[i].turn - 1)
				continue;
			assert_int_equal(workload_prompt(&o, &a[j], &q, &e), 0);
			for (int32_t k = 0; a[i].kind == WORKLOAD_CHAT && k < q.n; k++)
				assert_string_equal(p.text[k], q.text[k]);
			if (a[i].kind == WORKLOAD_SYSTEM)
				assert_string_equal(p.system, q.system);
			workload_prompt_free(&q);
		}
		workload_prompt_free(&p);
	}
	free(a);
}

static void test_bad_options(void **state)
{
	const struct workload_options bad[] = {
		{ .rate = 0, .n = 1 },
		{ .rate = (double)NAN, .n = 1 },
		{ .rate = 1 },
		{ .rate = 1, .n = 1, .limit = 7 },
		{ .rate = 1, .n = 1, .kinds = 16 },
		{ .rate = 1, .n = 1, .live = -1 },
		{ .rate = 1, .n = 1, .arrivals = WORKLOAD_GAMMA },
		{ .rate = 1, .n = 1, .arrivals = WORKLOAD_ONOFF, .on_s = 1 },
		{ .rate = 1, .n = 1, .arrivals = WORKLOAD_CLOSED },
		{ .rate = 1, .n = 1, .arrivals = WORKLOAD_CLOSED, .users = WORKLOAD_MOST + 1 },
		{ .rate = 1, .n = 1, .arrivals = WORKLOAD_TRACE },
		{ .rate = 1, .n = 1, .arrivals = WORKLOAD_TRACE, .trace = "/nowhere/at/all" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct workload *w;
		struct err e = { 0 };

		assert_int_equal(workload_open(&w, &bad[i], &e), -1);
		assert_null(w);
		assert_true(e.code == ERR_USAGE || e.code == ERR_IO);
	}
}

/* ---- traces ---- */

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
							   "2024-03-01T00:00:00Z,2,\"7\",12\r\n";
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
		{ "TIMESTAMP,ContextTokens,GeneratedTokens\n\n", "line 2: it has fewer columns" },
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
		cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_uniform),
		cmocka_unit_test(test_onoff),
		cmocka_unit_test(test_normal),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_repeats),
		cmocka_unit_test(test_prefixes),
		cmocka_unit_test(test_conversation),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_closed),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_bad_options),
		cmocka_unit_test(test_trace),
		cmocka_unit_test(test_trace_load),
		cmocka_unit_test(test_hostile_traces),
		cmocka_unit_test(test_random_traces),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

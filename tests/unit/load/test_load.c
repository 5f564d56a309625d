/* A load on the engine inside by counted time (load/load.h): the whole of generator,
 * scheduler and tally against what queueing theory says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "load/load.h"

static const struct cost unit = { .ns = { [COST_step] = 1e6 } }; /* a step is a millisecond */

static void run(const struct load_options *o, const struct engine_options *engine,
	const struct cost *cost, struct load_point *p)
{
	const struct load_engine by = { .engine = *engine, .counted = cost };
	struct err e = { 0 };

	memset(p, 0, sizeof *p);
	p->policy = engine->policy;
	if (load_inside(o, &by, p, &e))
		fail_msg("%s", e.text);
}

static struct load_options edits(double rate, int64_t n)
{
	return (struct load_options){
		.workload = { .rate = rate,
			.n = n,
			.kinds = 1 << WORKLOAD_EDIT,
			.scale = 0.2,
			.limit = 2000,
			.seed = 3 },
		.tally = { .keep = n },
		.answer = &answer_defaults,
	};
}

/* One slot: M/G/1. A request is served in as many steps as its prompt has chunks, and one more for
 * each token after the first; mean waiting is that of Pollaczek and Khinchine, lambda E[S^2] / (2
 * (1 - rho)), with the moments of these requests. An idle server begins a step at once. */
static void test_one_slot(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	const double rate = 18;
	struct load_options l = edits(rate, 30000);
	double mean = 0, square = 0, waits = 0, theory;
	struct load_point p;

	(void)state;
	o.slots = 1;
	o.prefill_chunk = 0;
	o.budget = 64;
	o.prefix_cache = false;
	run(&l, &o, &unit, &p);
	assert_int_equal(p.tally.n_kept, 30000);
	for (int64_t i = 0; i < p.tally.n_kept; i++) {
		const struct tally_request *r = &p.tally.kept[i];
		const double s = 1e-3 * ((r->n_prompt + 63) / 64 + r->n_output - 1);

		assert_true(fabs(r->ended_s - r->admitted_s - s) < 1e-9);
		assert_true(fabs(r->first_s - r->admitted_s - 1e-3 * ((r->n_prompt + 63) / 64)) < 1e-9);
		mean += s / 30000;
		square += s * s / 30000;
		waits += (r->admitted_s - r->arrived_s) / 30000;
	}
	theory = rate * square / (2 * (1 - rate * mean));
	assert_true(rate * mean > 0.1 && rate * mean < 0.9);
	assert_true(fabs(waits / theory - 1) < 0.1);
	/* Little's law: those that wait are the arrivals a second times their mean wait */
	assert_true(fabs(p.result.queue_mean / (30000 / p.result.span_s * waits) - 1) < 1e-9);
	assert_true(fabs(p.result.running_mean / (30000 / p.result.span_s * mean) - 1) < 1e-9);
	tally_close(&p.tally);
}

/* All that is told of a point. */
static char *told(const struct load_point *p, const struct load_options *l)
{
	struct json j = { 0 };
	struct listing_column column[LOAD_COLUMNS];
	struct listing runs, requests;
	struct err e = { 0 };
	char *text = NULL, *figures;
	size_t size, n;
	FILE *out = open_memstream(&text, &size);

	json_array(&j, NULL);
	load_columns(l, column);
	assert_int_equal(listing_open(&runs, column, NULL, &j, NULL, &e), 0);
	load_list(p, &runs);
	assert_int_equal(listing_open(&requests, load_request_columns, NULL, &j, NULL, &e), 0);
	load_list_requests(p, &requests);
	figures = json_take(&j, &n);
	assert_non_null(out);
	assert_non_null(figures);
	fputs(figures, out);
	load_print_point(p, l, out);
	load_gantt(p, 100, 20, out);
	load_gantt_svg(p, out);
	assert_int_equal(fclose(out), 0);
	free(figures);
	return text;
}

/* The same twice, and every token of every request came. */
static void test_deterministic(void **state)
{
	static const char *const policies[] = { "fcfs", "static", "tgi", "shortest", "fair" };
	struct load_options l = edits(40, 300);

	(void)state;
	l.workload.kinds = 15;
	for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
		struct engine_options o = ENGINE_DEFAULTS;
		struct load_point a, b;
		char *first, *second;

		o.policy = policies[i];
		o.pages = 200; /* some are preempted */
		run(&l, &o, &load_cost, &a);
		run(&l, &o, &load_cost, &b);
		assert_int_equal(a.result.n_requests, 300);
		assert_int_equal(a.result.n_failed, 0);
		assert_true(a.result.cached_tokens > 0);
		first = told(&a, &l);
		second = told(&b, &l);
		assert_string_equal(first, second);
		free(first);
		free(second);
		tally_close(&a.tally);
		tally_close(&b.tally);
	}
}

/* The load is the same under all policies: the tokens are, and the arrivals. */
static void test_same_load(void **state)
{
	struct load_options l = edits(40, 200);
	struct engine_options o = ENGINE_DEFAULTS;
	struct load_point a, b;

	(void)state;
	run(&l, &o, &load_cost, &a);
	o.policy = "static";
	run(&l, &o, &load_cost, &b);
	assert_int_equal(a.result.prompt_tokens, b.result.prompt_tokens);
	assert_int_equal(a.result.output_tokens, b.result.output_tokens);
	assert_true(a.result.e2e.mean < b.result.e2e.mean);
	tally_close(&a.tally);
	tally_close(&b.tally);
}

/* Closed loops: never more requests than users; N = X (R + Z), the interactive response time law
 * (users = throughput x (time to the end + thinking)), to what the last answers leave. */
static void test_users(void **state)
{
	struct load_options l = edits(0, 4000);
	struct engine_options o = ENGINE_DEFAULTS;
	struct load_point p;

	(void)state;
	l.workload.arrivals = WORKLOAD_CLOSED;
	l.workload.users = 12;
	l.workload.think_s = 0.05;
	run(&l, &o, &unit, &p);
	assert_int_equal(p.result.n_requests, 4000);
	assert_true(p.result.running_max <= 8 && p.result.running_max + p.result.queue_max <= 13);
	assert_true(fabs(p.result.requests_s * (p.result.e2e.mean + 0.05) / 12 - 1) < 0.02);
	tally_close(&p.tally);
}

static bool stop_soon(void *arg, const struct tally *t, double now_s)
{
	(void)arg;
	(void)now_s;
	return t->n_ended < 20;
}

static void test_stopped(void **state)
{
	struct load_options l = edits(1000, 300);
	struct engine_options o = ENGINE_DEFAULTS;
	struct load_point p;

	(void)state;
	l.progress = stop_soon;
	run(&l, &o, &unit, &p);
	assert_true(p.stopped && p.result.n_requests >= 20 && p.result.n_open > 0);
	tally_close(&p.tally);
}

/* A prompt that no pool holds is refused, and said. */
static void test_refused(void **state)
{
	struct load_options l = edits(40, 50);
	struct engine_options o = ENGINE_DEFAULTS;
	struct load_point p;

	(void)state;
	o.pages = 40; /* of 16 tokens */
	run(&l, &o, &unit, &p);
	assert_true(p.result.n_failed > 0 && p.result.n_failed < 50);
	assert_int_equal(p.result.n_requests, 50);
	assert_non_null(strstr(p.why, "refused"));
	tally_close(&p.tally);
}

static void test_knee(void **state)
{
	struct load_point p[4] = { { .result = { .requests_s = 1, .e2e = { .mean = 1, .n = 1 } } },
		{ .result = { .requests_s = 2, .e2e = { .mean = 1.2, .n = 1 } } },
		{ .result = { .requests_s = 2.5, .e2e = { .mean = 4, .n = 1 } } }, { .policy = "" } };

	(void)state;
	assert_int_equal(load_knee(p, 4), 1);
	assert_int_equal(load_knee(p + 3, 1), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_slot),
		cmocka_unit_test(test_deterministic),
		cmocka_unit_test(test_same_load),
		cmocka_unit_test(test_users),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_knee),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

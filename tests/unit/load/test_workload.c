/* Loads (load/workload.h): what streams share, closed loops, limits, texts. */
#include <stdio.h>
#include <string.h>

#include "tests/support/allocations.h"
#include "tests/support/arrivals.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_repeats),
		cmocka_unit_test(test_prefixes),
		cmocka_unit_test(test_conversation),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_closed),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_bad_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Drafters: the reading of their names, and prompt lookup against a plain search. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/draft.h"

static const struct draft_ops *open_ok(const char *spec, struct drafter **d)
{
	const struct draft_ops *ops;
	struct err e = {0};

	if (draft_open(spec, NULL, &ops, d, &e))
		fail_msg("%s: %s", spec, e.text);
	assert_non_null(ops);
	return ops;
}

static void test_specs(void **state)
{
	static const char *const bad[] = {"ngram:",		  "ngram:0",
									  "ngram:17",	  "ngram:x",
									  "ngram:4,",	  "ngram:4,2",
									  "ngram:4,3,2",  "ngram:4,1,65",
									  "ngram:4,1,4,", "ngram:4,1,4,2",
									  "ngram: 4",	  "ngram:-1",
									  "ngram:4 ",	  "ngram:99999999999999999999"};
	const struct draft_ops *ops;
	struct drafter *d;
	struct err e = {0};

	(void)state;
	assert_int_equal(draft_open("off", NULL, &ops, &d, &e), 0);
	assert_null(ops);
	ops = open_ok("ngram", &d);
	assert_int_equal(ops->width(d), 4);
	ops->close(d);
	ops = open_ok("ngram:7", &d);
	assert_int_equal(ops->width(d), 7);
	ops->close(d);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		memset(&e, 0, sizeof e);
		assert_int_equal(draft_open(bad[i], NULL, &ops, &d, &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
	}
	memset(&e, 0, sizeof e);
	assert_int_equal(draft_open("medusae:3", NULL, &ops, &d, &e), -1);
	assert_non_null(strstr(e.text, "medusae"));
	for (int i = 0; draft_table[i]; i++)
		assert_non_null(strstr(e.text, draft_table[i]->name));
	memset(&e, 0, sizeof e);
	assert_int_equal(draft_open("ngra", NULL, &ops, &d, &e), -1);
	assert_int_equal(draft_open("", NULL, &ops, &d, &e), -1);
}

static void propose(const struct draft_ops *ops, struct drafter *d, const int32_t *ids, int64_t n, int32_t k,
					struct draft *out)
{
	struct draft_job job = {.request = 1, .ids = ids, .n = (int32_t)n, .nodes = k, .depth = k, .out = out};
	struct err e = {0};

	assert_int_equal(ops->propose(d, &job, 1, &e), 0);
	for (int32_t i = 0; i < out->n; i++)
		assert_int_equal(out->parent[i], i - 1);
}

/* The definition: for each length from the longest, for each place from the most recent. */
static void plain_lookup(const int32_t *ids, int64_t n, int32_t min, int32_t max, int32_t k,
						 struct draft *out)
{
	out->n = 0;
	for (int32_t len = max; len >= min; len--) {
		for (int64_t at = n - 1 - len; at >= 0; at--) {
			int32_t text[4200];

			if (memcmp(ids + at, ids + n - len, (size_t)len * sizeof *ids))
				continue;
			memcpy(text, ids, (size_t)n * sizeof *ids);
			for (int32_t i = 0; i < k; i++)
				text[n + i] = out->id[i] = text[at + len + i];
			out->n = k;
			return;
		}
	}
}

static void test_lookup(void **state)
{
	static const struct {
		const char *spec;
		int32_t k, min, max;
	} drafters[] = {{"ngram", 4, 2, 4},
					{"ngram:1", 1, 2, 4},
					{"ngram:16,1,3", 16, 1, 3},
					{"ngram:5,3,9", 5, 3, 9},
					{"ngram:3,1,1", 3, 1, 1}};
	static int32_t ids[4100];
	int64_t drafted = 0, empty = 0;

	(void)state;
	srand(1);
	for (size_t t = 0; t < sizeof drafters / sizeof *drafters; t++) {
		struct drafter *d;
		const struct draft_ops *ops = open_ok(drafters[t].spec, &d);

		for (int round = 0; round < 3000; round++) {
			int alphabet = 1 + rand() % (round % 3 ? 6 : 400);
			int64_t n = rand() % (round % 50 ? 120 : 4096);
			int32_t ask = rand() % 5 ? DRAFT_MAX : rand() % 4;
			int32_t k = ask < drafters[t].k ? ask : drafters[t].k;
			struct draft want, got;

			for (int64_t i = 0; i < n; i++)
				ids[i] = rand() % alphabet;
			propose(ops, d, ids, n, ask, &got);
			plain_lookup(ids, n, drafters[t].min, drafters[t].max, k, &want);
			if (k < 1)
				want.n = 0;
			assert_int_equal(got.n, want.n);
			assert_memory_equal(got.id, want.id, (size_t)want.n * sizeof *want.id);
			for (int32_t i = 0; i < got.n; i++)
				assert_true(got.q[i] == 1);
			drafted += got.n > 0;
			empty += !got.n;
		}
		ops->close(d);
	}
	assert_true(drafted > 1000 && empty > 1000);
}

/* A loop is drafted to the full width, whatever its period. */
static void test_loop(void **state)
{
	int32_t ids[40];
	struct drafter *d;
	const struct draft_ops *ops = open_ok("ngram:16", &d);

	(void)state;
	for (int period = 1; period < 8; period++) {
		struct draft got;

		for (int i = 0; i < 40; i++)
			ids[i] = i % period;
		propose(ops, d, ids, 40, DRAFT_MAX, &got);
		assert_int_equal(got.n, 16);
		for (int i = 0; i < 16; i++)
			assert_int_equal(got.id[i], (40 + i) % period);
	}
	ops->close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_specs),
		cmocka_unit_test(test_lookup),
		cmocka_unit_test(test_loop),
	};

	return cmocka_run_group_tests_name("draft", tests, NULL, NULL);
}

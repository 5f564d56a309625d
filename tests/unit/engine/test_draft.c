/* Drafters: the reading of their names, and prompt lookup against a plain search. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/draft/draft.h"
#include "engine/draft/pool.h"

static const struct draft_env env = { .slots = 3, .ctx = 4096, .vocab = 1000 };

static const struct draft_ops *open_ok(const char *spec, struct drafter **d)
{
	const struct draft_ops *ops;
	struct err e = { 0 };

	if (draft_open(spec, &env, &ops, d, &e))
		fail_msg("%s: %s", spec, e.text);
	assert_non_null(ops);
	return ops;
}

static void test_specs(void **state)
{
	static const char *const bad[] = { "ngram:", "ngram:0", "ngram:17", "ngram:x", "ngram:4,",
		"ngram:4,2", "ngram:4,3,2", "ngram:4,1,65", "ngram:4,1,4,", "ngram:4,1,4,17", "ngram:,pool",
		"ngram:pool,4", "ngram:4,1,4,2,3", "ngram:4pool", "jacobi:0", "jacobi:17", "jacobi:4,2",
		"jacobi:", "lookahead:2", "lookahead:2,3", "lookahead:0,3,2", "lookahead:2,1,2",
		"lookahead:2,9,2", "lookahead:12,3,8", "lookahead:15,8,1",
		"lookahead:", "lookahead:2,3,2,1", "ngram: 4", "ngram:-1", "ngram:4 ",
		"ngram:99999999999999999999" };
	const struct draft_ops *ops;
	struct drafter *d;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(draft_open("off", NULL, &ops, &d, &e), 0);
	assert_null(ops);
	ops = open_ok("ngram", &d);
	assert_int_equal(draft_width(ops, d), 4);
	draft_close(ops, d);
	ops = open_ok("ngram:7", &d);
	assert_int_equal(draft_width(ops, d), 7);
	draft_close(ops, d);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		memset(&e, 0, sizeof e);
		assert_int_equal(draft_open(bad[i], &env, &ops, &d, &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
	}
	memset(&e, 0, sizeof e);
	assert_int_equal(draft_open("jacobi", NULL, &ops, &d, &e), -1); /* without a model */
	assert_int_equal(draft_open("lookahead", NULL, &ops, &d, &e), -1);
	memset(&e, 0, sizeof e);
	assert_int_equal(draft_open("medusae:3", NULL, &ops, &d, &e), -1);
	assert_non_null(strstr(e.text, "medusae"));
	for (int i = 0; draft_table[i]; i++)
		assert_non_null(strstr(e.text, draft_table[i]->name));
	memset(&e, 0, sizeof e);
	assert_int_equal(draft_open("ngra", NULL, &ops, &d, &e), -1);
	assert_int_equal(draft_open("", NULL, &ops, &d, &e), -1);
}

static void propose(const struct draft_ops *ops, struct drafter *d, const int32_t *ids, int64_t n,
	int32_t k, struct draft *out)
{
	struct draft_job job = {
		.request = 1, .ids = ids, .n = (int32_t)n, .nodes = k, .depth = k, .out = out
	};
	struct err e = { 0 };

	assert_int_equal(ops->propose(d, &job, 1, &e), 0);
	for (int32_t i = 0; i < out->n; i++)
		assert_int_equal(out->parent[i], i - 1);
}

/* The definition: for each length from the longest, for each place from the most recent. */
static void plain_lookup(
	const int32_t *ids, int64_t n, int32_t min, int32_t max, int32_t k, struct draft *out)
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
	} drafters[] = { { "ngram", 4, 2, 4 }, { "ngram:1", 1, 2, 4 }, { "ngram:16,1,3", 16, 1, 3 },
		{ "ngram:5,3,9", 5, 3, 9 }, { "ngram:3,1,1", 3, 1, 1 } };
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
		draft_close(ops, d);
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
	draft_close(ops, d);
}

/* ---- branches ---- */

/* The definition: for each length from the longest, for each place from the most recent, what is
 * not there yet. */
static void plain_branches(const int32_t *ids, int32_t n, int32_t min, int32_t max, int32_t k,
	int32_t branches, struct draft *out)
{
	int32_t had[DRAFT_LEAVES][DRAFT_MAX], n_had = 0;

	out->n = 0;
	for (int32_t len = max; len >= min; len--)
		for (int32_t at = n - 1 - len; at >= 0 && n_had < branches; at--) {
			int32_t text[400], same = 0, node = -1;

			if (memcmp(ids + at, ids + n - len, (size_t)len * sizeof *ids))
				continue;
			memcpy(text, ids, (size_t)n * sizeof *ids);
			for (int32_t i = 0; i < k; i++)
				text[n + i] = had[n_had][i] = text[at + len + i];
			for (int32_t i = 0; i < n_had; i++)
				same |= !memcmp(had[i], had[n_had], (size_t)k * sizeof **had);
			if (same)
				continue;
			for (int32_t i = 0; i < k; i++) {
				int32_t child = draft_child(out, node, had[n_had][i]);
				node = child < 0 ? draft_add(out, node, had[n_had][i], 1) : child;
			}
			n_had++;
		}
}

static void test_branches(void **state)
{
	int64_t trees = 0;

	(void)state;
	srand(5);
	for (int32_t branches = 2; branches <= 5; branches++) {
		char spec[40];
		struct drafter *d;
		const struct draft_ops *ops;

		snprintf(spec, sizeof spec, "ngram:6,1,4,%d", branches);
		ops = open_ok(spec, &d);
		assert_int_equal(draft_width(ops, d), 6 * branches);
		for (int round = 0; round < 2000; round++) {
			int32_t ids[400], n = rand() % 200, alphabet = 1 + rand() % 12;
			struct draft want, got;
			struct draft_job job = { .request = 1,
				.ids = ids,
				.n = n,
				.nodes = DRAFT_NODES,
				.depth = DRAFT_MAX,
				.out = &got };
			int8_t branch[DRAFT_NODES];

			for (int32_t i = 0; i < n; i++)
				ids[i] = rand() % alphabet;
			assert_int_equal(ops->propose(d, &job, 1, NULL), 0);
			plain_branches(ids, n, 1, 4, 6, branches, &want);
			assert_int_equal(got.n, want.n);
			assert_memory_equal(got.id, want.id, (size_t)want.n * sizeof *want.id);
			assert_memory_equal(got.parent, want.parent, (size_t)want.n);
			trees += draft_branches(&got, branch) > 0;
		}
		draft_close(ops, d);
	}
	assert_true(trees > 3000);
}

/* ---- the session's texts ---- */

static void fill(int32_t *ids, int32_t n, uint32_t seed, int32_t alphabet)
{
	for (int32_t i = 0; i < n; i++) {
		seed = seed * 1664525u + 1013904223u;
		ids[i] = (int32_t)((seed >> 8) % (uint32_t)alphabet);
	}
}

/* What another request read is guessed here, across blocks of the pool; without the pool it is
 * not. */
static void test_pool(void **state)
{
	static int32_t other[1000], mine[3];
	struct drafter *d;
	struct draft got;
	struct draft_job job[2] = {
		{ .request = 1,
			.ids = other,
			.n = 1000,
			.nodes = DRAFT_NODES,
			.depth = DRAFT_MAX,
			.out = &got },
		{ .request = 2, .ids = mine, .n = 3, .nodes = DRAFT_NODES, .depth = DRAFT_MAX, .out = &got }
	};
	const struct draft_ops *ops = open_ok("ngram:8,3,4,pool", &d);

	(void)state;
	fill(other, 1000, 7, 900);
	for (int32_t at = 0; at + 11 < 1000; at++) {
		memcpy(mine, other + at, sizeof mine);
		assert_int_equal(ops->propose(d, job, 2, NULL), 0);
		assert_int_equal(got.n, 8);
		assert_memory_equal(got.id, other + at + 3, 8 * sizeof *other);
	}
	draft_close(ops, d);
	ops = open_ok("ngram:8,3,4", &d);
	assert_int_equal(ops->propose(d, job, 2, NULL), 0);
	assert_int_equal(got.n, 0);
	draft_close(ops, d);
}

/* Far more text than it holds, of requests that take turns and go back: what it finds is what was
 * there. */
static void test_pool_full(void **state)
{
	enum { TEXTS = 90, LONG = 3000 };
	static int32_t text[TEXTS][LONG], n[TEXTS];
	struct pool *p;
	struct err e = { 0 };
	int64_t found = 0, gone = 0;
	uint32_t chance = 9;

	(void)state;
	assert_int_equal(pool_open(&p, 3, &e), 0);
	for (int32_t t = 0; t < TEXTS; t++)
		fill(text[t], LONG, 100 + (uint32_t)t, 500);
	for (int round = 0; round < 6000; round++) {
		int32_t t, back, k, out[8], place = -1, walk = 0;

		chance = chance * 1664525u + 1013904223u;
		t = (int32_t)((chance >> 8) % TEXTS);
		back = (chance >> 20) % 50 == 0 && n[t] > 10 ? 7 : 0;
		n[t] = n[t] - back + 90 < LONG ? n[t] - back + 90 : LONG;
		pool_add(p, t + 1, text[t], n[t]);
		t = (int32_t)((chance >> 4) % TEXTS);
		k = n[t] > 20 ? 3 + (int32_t)((chance >> 9) % (uint32_t)(n[t] - 12)) : 0;
		while (k && walk++ < 64 && (place = pool_find(p, text[t], k, place)) >= 0)
			if (pool_match(p, place, text[t], k, 4) == 4)
				break;
		if (!k || place < 0 || walk >= 64) {
			gone += k > 0;
			continue;
		}
		for (int32_t i = 0, got = pool_read(p, place, 8, out); i < got && i < 1; i++)
			found += out[i] == text[t][k];
	}
	assert_true(found > 500 && gone > 500);
	pool_close(p);
}

/* ---- those that learn from the target ---- */

enum { TEXT = 600, PERIOD = 37 };

/* The text's next token, by the last one alone: a cycle. */
static int32_t cycle(int32_t id)
{
	return 100 + (id - 100 + 1) % PERIOD;
}

struct target {
	int32_t ids[TEXT + DRAFT_MAX + 2], n;
	bool by_place; /* the next token depends on the position alone */
	int64_t steps, drafted;
};

static int32_t says(const struct target *t, int32_t id, int32_t pos)
{
	return t->by_place ? 100 + (pos * pos) % 71 : cycle(id);
}

/* One step as the engine makes it: propose, compute all nodes, keep a path, learn. Returns tokens
 * won. */
static int32_t step(struct target *t, const struct draft_ops *ops, struct drafter *d,
	int64_t request, struct draft *tree)
{
	int32_t top[DRAFT_NODES + 1], row[DRAFT_MAX + 1] = { 0 }, pos = t->n - 1, node = -1, kept = 0;
	struct draft_job job = { .request = request,
		.ids = t->ids,
		.n = t->n,
		.nodes = DRAFT_NODES,
		.depth = DRAFT_MAX,
		.out = tree };
	struct draft_seen seen = {
		.request = request, .ids = t->ids, .pos = pos, .row = row, .draft = tree, .top = top
	};
	struct err e = { 0 };

	assert_int_equal(ops->propose(d, &job, 1, &e), 0);
	assert_true(tree->n <= draft_width(ops, d));
	draft_prune(tree, DRAFT_NODES, DRAFT_MAX, DRAFT_LEAVES);
	top[0] = says(t, t->ids[pos], pos + 1);
	for (int32_t i = 0; i < tree->n; i++)
		top[i + 1] = says(t, tree->id[i], pos + draft_depth(tree, i) + 1);
	do {
		t->ids[t->n] = top[node + 1];
		node = draft_child(tree, node, t->ids[t->n++]);
		kept += node >= 0;
	} while (node >= 0);
	seen.n = t->n;
	seen.n_kept = kept;
	seen.n_rows = kept + 1;
	assert_int_equal(ops->learn(d, &seen, 1, &e), 0);
	t->steps++;
	t->drafted += tree->n;
	return kept + 1;
}

/* Where the next token depends on the place alone, every guess is right after one step, and
 * stands. */
static void test_jacobi(void **state)
{
	struct target t = { .n = 3, .ids = { 5, 6, 7 }, .by_place = true };
	struct drafter *d;
	const struct draft_ops *ops = open_ok("jacobi:6", &d);
	struct draft tree;

	(void)state;
	for (int round = 0; round < 20; round++) {
		const struct draft_window *w;
		int32_t won = step(&t, ops, d, 4, &tree);

		assert_int_equal(tree.n, 6);
		w = ops->window(d, 4);
		assert_non_null(w);
		assert_true(w->levels == 1 && w->columns == 6 && w->pos == t.n - won);
		assert_memory_equal(w->cell, tree.id, 6 * sizeof *tree.id);
		if (won < 7) { /* what was said behind the wrong guess and those after it is guessed now */
			int32_t before[6], n = 0;

			for (int32_t i = won - 1; i < 6; i++)
				before[n++] = w->next[i];
			won = step(&t, ops, d, 4, &tree);
			assert_memory_equal(tree.id, before, (size_t)n * sizeof *before);
			assert_true(won > n);
		}
	}
	assert_true(t.n > 3 * t.steps);
	assert_null(ops->window(d, 5));
	/* it went back: nothing of before is guessed */
	t.n -= 5;
	step(&t, ops, d, 4, &tree);
	ops->forget(d, 4);
	assert_null(ops->window(d, 4));
	for (int64_t request = 10; request < 20; request++) /* more than it has room for */
		step(&t, ops, d, request, &tree);
	draft_close(ops, d);
}

static bool is_gram_of_target(const int32_t *gram, int32_t n)
{
	return gram[n - 1] == cycle(gram[n - 2]);
}

/* N-grams of the window are what the target says, and where the last token says the next, a text
 * that came round once is won N tokens at a time. */
static void test_lookahead(void **state)
{
	static const char *const specs[] = { "lookahead", "lookahead:1,2,1", "lookahead:5,4,3",
		"lookahead:8,3,8", "lookahead:3,6,2" };

	(void)state;
	for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
		struct target t = { .n = 3, .ids = { 100, 101, 102 } };
		struct drafter *d;
		const struct draft_ops *ops = open_ok(specs[s], &d);
		struct draft tree;
		int32_t entered = 0, gram = 0, last = 0, steps = 0, wins = 0;

		while (t.n < TEXT) {
			int32_t won = step(&t, ops, d, 9, &tree);
			const struct draft_window *w = ops->window(d, 9);

			assert_non_null(w);
			assert_int_equal(w->cell[0], t.ids[w->pos]);
			assert_int_equal(w->pos, t.n - won - 1);
			gram = w->gram;
			for (int32_t i = 0; i < w->n_own; i++)
				assert_true(is_gram_of_target(w->entered + i * gram, gram));
			for (int32_t j = 0; j < w->columns && s != 1; j++) {
				int32_t cell = w->cell[(w->levels - 1) * w->columns + j];

				if (w->next[j] >= 0)
					assert_int_equal(w->next[j], cycle(cell));
			}
			entered += w->n_entered;
			last = w->pool;
			steps += t.n > 4 * PERIOD;
			wins += t.n > 4 * PERIOD && won >= gram;
		}
		/* columns that began by chance may stand before the right one */
		assert_true(wins > steps * 3 / 4);
		assert_true(entered > 0 && last > 0 && last <= entered);
		draft_close(ops, d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_specs),
		cmocka_unit_test(test_lookup),
		cmocka_unit_test(test_loop),
		cmocka_unit_test(test_branches),
		cmocka_unit_test(test_pool),
		cmocka_unit_test(test_pool_full),
		cmocka_unit_test(test_jacobi),
		cmocka_unit_test(test_lookahead),
	};

	return cmocka_run_group_tests_name("draft", tests, NULL, NULL);
}

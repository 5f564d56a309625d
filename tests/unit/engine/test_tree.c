/* Trees of drafts: whatever is guessed, in whatever shape, a request gives the tokens and the
 * hashes of plain decoding, and every node's row is that of its own path. The drafter here knows
 * the text, puts it on a random branch, breaks it off at a random place, and fills the rest with
 * chance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/draft_world.h"
#include "tests/support/tiny.h"

struct drafter { /* of this test */
	const struct world *truth;
	int64_t seen_pos[REQUESTS + 1];
	int32_t n_nodes;
	uint32_t chance;
	int32_t width;
};

static int n_learned;

/* The truth hangs, token by token, at random places among chance. */
static void grow(struct drafter *d, const struct draft_job *job)
{
	const struct world *t = d->truth;
	int64_t r = job->request;
	int32_t good = -1, n = 1 + (int32_t)(world_chance(&d->chance) % (uint32_t)job->nodes);
	int32_t ahead = 0;

	job->out->n = 0;
	for (int32_t i = 0; i < n; i++) {
		bool tell_truth =
			world_chance(&d->chance) % 3 && ahead < job->depth && job->n + ahead < t->n[r];
		int32_t parent = (int32_t)(world_chance(&d->chance) % (uint32_t)(i + 1)) - 1;

		if (tell_truth) {
			good = draft_add(job->out, good, t->id[r][job->n + ahead++], 1);
		} else {
			draft_add(job->out, parent, (int32_t)(world_chance(&d->chance) % 64), 1);
		}
	}
	d->n_nodes += n;
}

static int propose(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	(void)e;
	for (int32_t i = 0; i < n; i++)
		grow(d, &job[i]);
	return 0;
}

/* Each position is told once, in order, and the rows are the step's. */
static int learn(struct drafter *d, const struct draft_seen *seen, int32_t n, struct err *e)
{
	(void)e;
	for (int32_t i = 0; i < n; i++) {
		int64_t *pos = &d->seen_pos[seen[i].request];

		assert_true(seen[i].pos <= *pos || *pos == 0); /* the first may come from the cache */
		*pos = seen[i].pos + seen[i].n_rows;
		/* a prompt may come in parts */
		assert_true(*pos < seen[i].n && (!seen[i].draft || *pos == seen[i].n - 1));
		for (int32_t r = 1; r < seen[i].n_rows; r++)
			assert_true(seen[i].row[r] > seen[i].row[r - 1]);
		assert_true(!seen[i].draft || seen[i].n_kept == seen[i].n_rows - 1);
		n_learned++;
	}
	return 0;
}

static void shut(struct drafter *d)
{
	(void)d;
}

static const struct draft_ops oracle = { .name = "oracle",
	.propose = propose,
	.learn = learn,
	.width_at = offsetof(struct drafter, width),
	.close = shut };

static void run_world(struct world *w)
{
	world_submit(w, 1.2f);
	world_run(w, NULL);
}

static void run_plain(struct world *w)
{
	world_open(w, tiny_model, &(struct place){ "ref", NULL, 1, 16, 64 }, "off");
	run_world(w);
}

/* The drafters of the table that need no file. */
static void with_drafter(
	const struct world *plain, const char *spec, const char *rule, int32_t page_size, int32_t pages)
{
	static struct world w;
	struct err err = { 0 };

	world_open(&w, tiny_model, &(struct place){ "cpu", NULL, 2, page_size, pages }, spec);
	if (engine_set(w.e, "rule", rule, &err))
		fail_msg("%s", err.text);
	run_world(&w);
	/* by rejection those at a temperature have other texts, of the same distribution */
	world_compare(plain, &w, strcmp(rule, "race") != 0);
	assert_true(w.n_rejected > 5);
	assert_true(w.n_other > 5);
}

static void test_drafters(void **state)
{
	static const char *const specs[] = { "ngram:4,1,4", "ngram:5,1,4,4", "ngram:4,1,3,pool",
		"ngram:6,1,4,3,pool", "jacobi", "jacobi:9", "lookahead", "lookahead:4,4,3",
		"lookahead:6,3,8", "lookahead:1,5,4" };
	static struct world plain;

	(void)state;
	run_plain(&plain);
	for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
		with_drafter(&plain, specs[i], "race", i % 2 ? 16 : 64, i % 2 ? 64 : 16);
		with_drafter(&plain, specs[i], "rejection", i % 2 ? 64 : 16, i % 2 ? 16 : 64);
		with_drafter(&plain, specs[i], "race", 16, 20); /* pages run short */
	}
}

static void with_trees(const struct world *plain, struct place place, uint32_t seed)
{
	static struct world w;
	struct drafter *d = malloc(sizeof *d);

	world_open(&w, tiny_model, &place, "ngram");
	draft_close(w.e->draft.ops, w.e->draft.drafter);
	*d = (struct drafter){ .truth = plain, .chance = seed, .width = DRAFT_NODES };
	w.e->draft.ops = &oracle;
	w.e->draft.drafter = d; /* which the engine frees */
	n_learned = 0;
	run_world(&w);
	world_compare(plain, &w, false);
	assert_true(w.n_accepted > 40 && w.n_rejected > 20 && w.n_unread > 20 && w.n_branches > 20);
	assert_true(n_learned > 0);
}

static void test_device(void **state)
{
	static const char *const modes[] = { "launches", "graph" };
	static struct world plain;

	(void)state;
	if (!world_has_device())
		skip();
	run_plain(&plain);
	for (uint32_t i = 0; i < 2; i++)
		with_trees(&plain, (struct place){ "cuda", modes[i], 1, i ? 32 : 16, 64 }, 20 + i);
}

static void test_trees(void **state)
{
	static struct world plain;

	(void)state;
	run_plain(&plain);
	with_trees(&plain, (struct place){ "ref", NULL, 1, 16, 64 }, 1);
	for (uint32_t seed = 2; seed < 8; seed++)
		with_trees(&plain,
			(struct place){ "cpu", NULL, 1 + (int32_t)seed % 3, seed % 2 ? 32 : 16, 64 }, seed);
	with_trees(&plain, (struct place){ "cpu", NULL, 2, 64, 16 }, 9);
	/* pages run short: preemption between */
	with_trees(&plain, (struct place){ "cpu", NULL, 2, 16, 16 }, 10);
}

static void test_prune(void **state)
{
	uint32_t chance = 3;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct draft t = { 0 };
		int32_t n = (int32_t)(world_chance(&chance) % (DRAFT_NODES + 1)),
				nodes = 1 + (int32_t)(world_chance(&chance) % 40);
		int32_t depth = 1 + (int32_t)(world_chance(&chance) % 8),
				leaves = 1 + (int32_t)(world_chance(&chance) % 8);
		int8_t branch[DRAFT_NODES];

		for (int32_t i = 0; i < n; i++)
			draft_add(&t, (int32_t)(world_chance(&chance) % (uint32_t)(i + 1)) - 1,
				(int32_t)(world_chance(&chance) % 5), 1);
		draft_prune(&t, nodes, depth, leaves);
		assert_true(
			t.n <= nodes && draft_reach(&t) <= depth && draft_branches(&t, branch) < leaves);
		assert_true(!n || t.n > 0);
		for (int32_t i = 0; i < t.n; i++) {
			assert_true(t.parent[i] < i);
			for (int32_t j = 0; j < i; j++)
				assert_false(t.parent[i] == t.parent[j] && t.id[i] == t.id[j]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_prune), cmocka_unit_test(test_trees),
		cmocka_unit_test(test_drafters), cmocka_unit_test(test_device) };

	return cmocka_run_group_tests(tests, tiny_model_make, tiny_model_drop);
}

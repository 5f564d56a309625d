/* The GPU's statistics of logits, run by the shim, against the reference: rows of many shapes,
 * sizes of vocabularies, grids and schedules. Both phases, as two launches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"
#include "tests/cuda/shim/shim.h"
#include "tests/support/rows.h"

static struct k_ctx *ref;
static const struct shim *both[2];
static int n_both;

static void fill(float *l, int32_t n, int32_t vocab, int shape)
{
	for (int32_t r = 0; r < n; r++)
		make_row(l + (size_t)r * (size_t)vocab, vocab, (shape + r) % 9);
	for (int64_t i = 0; i < (int64_t)n * vocab; i++) {
		if (shape == 9)
			l[i] = -INFINITY;
		if (shape == 10)
			l[i] = next() % 2 ? 0.0f : -0.0f;
		if (shape == 11 && next() % 3 == 0)
			l[i] = NAN;
	}
}

static void try_stats(const struct shim *s, int32_t n, int32_t vocab, int shape)
{
	const size_t bytes = (size_t)n * (size_t)vocab * 4;
	float *logits = s->alloc(bytes);
	struct k_logit_stats *got = s->alloc((size_t)n * sizeof *got), want[40];
	struct k_op op = { .kind = K_OP_stats,
		.u.stats = { .logits = logits, .vocab = vocab, .n = n, .out = want } };
	struct k_program program = { .op = &op, .n_ops = 1 };
	struct err e = { 0 };
	struct shim_op stage[2];
	struct shim_step step;

	fill(logits, n, vocab, shape);
	s->written(logits, bytes);
	assert_int_equal(k_run(ref, &program, &e), 0);
	if (shape < 9)
		assert_true(stats_of(logits, vocab).mass == want[0].mass);
	op.u.stats.out = got;
	assert_int_equal(cu_n_phases(&op), 2);
	assert_in_range(cu_scratch_least(&op), 0, SHIM_SCRATCH_BYTES);
	memset(stage, 0, sizeof stage);
	stage[0].op = stage[1].op = op;
	stage[1].phase = 1;
	for (int turn = 0; turn < 3; turn++) {
		static const int grids[] = { 1, 5, 33 };
		const struct shim_options o = { .seed = (uint64_t)turn };

		memset(got, 0x33, (size_t)n * sizeof *got);
		s->unwritten(got, (size_t)n * sizeof *got);
		shim_step_open(s, &step, stage, 2);
		if (!shim_step_all(s, &step, grids[turn], &o))
			fail_msg("%s", s->report());
		shim_step_close(s, &step);
		for (int32_t r = 0; r < n; r++)
			if (memcmp(&want[r], &got[r], sizeof *got))
				fail_msg("%s: row %d of %d, vocabulary of %d, shape %d, %d blocks", s->name, (int)r,
					(int)n, (int)vocab, shape, grids[turn]);
	}
	s->free(logits);
	s->free(got);
}

static void test_stats(void **state)
{
	static const int32_t vocabs[] = { 1, 7, 8, 300, 1024, 1031, 5000 };

	(void)state;
	for (int i = 0; i < n_both; i++)
		for (int v = 0; v < 7; v++)
			for (int shape = 0; shape < 12; shape++) {
				try_stats(both[i], 1, vocabs[v], shape);
				if (shape % 4 == 0)
					try_stats(both[i], shape ? 3 : 17, vocabs[v], shape);
			}
}

/* What draws ask for: temperatures, lengths of the list, races, an id. */
static void make_asks(struct k_draw_request *ask, int32_t n, int32_t vocab)
{
	static const float factors[] = { 1.0f, 1.4285715f, 0.5f, 100.0f, 1e-3f };
	static const int32_t best[] = { 8, 256, 1, 40 };

	memset(ask, 0, (size_t)n * sizeof *ask);
	for (int32_t r = 0; r < n; r++) {
		ask[r].factor = factors[next() % 5];
		ask[r].best = best[next() % 4];
		ask[r].id = next() % 2 ? (int32_t)(next() % (uint32_t)vocab) : -1;
		ask[r].race = next() % 2;
		ask[r].pos = (uint32_t)next();
		ask[r].sample = (uint32_t)r;
		ask[r].seed = next();
	}
}

struct draws {
	struct k_logit_stats stats[8];
	struct k_draw_reply reply[8];
	struct k_draw_entry list[8 * K_DRAW_LIST];
};

static void check_draws(const struct k_stats *got, const struct draws *want, const char *what)
{
	for (int32_t r = 0; r < got->n; r++) {
		const int32_t n = want->reply[r].n;

		if (memcmp(&got->out[r], &want->stats[r], sizeof *got->out) ||
			memcmp(&got->reply[r], &want->reply[r], sizeof *got->reply))
			fail_msg("%s, row %d: %d ids, winner %d, not %d, %d", what, (int)r,
				(int)got->reply[r].n, (int)got->reply[r].winner, (int)n,
				(int)want->reply[r].winner);
		if (n <= K_DRAW_LIST && memcmp(got->list + r * K_DRAW_LIST, want->list + r * K_DRAW_LIST,
									(size_t)n * sizeof *got->list))
			fail_msg("%s, row %d: the list of %d", what, (int)r, (int)n);
	}
}

static int n_lists, n_long, n_nan; /* all kinds of answers came */

static void try_draws(const struct shim *s, int32_t n, int32_t vocab, int shape)
{
	const size_t bytes = (size_t)n * (size_t)vocab * 4;
	static struct draws want;
	struct draws *got = s->alloc(sizeof *got);
	struct k_draw_request ask[8], *asked = s->alloc(sizeof ask);
	float *logits = s->alloc(bytes);
	struct k_op op = { .kind = K_OP_stats,
		.u.stats = { .logits = logits, .vocab = vocab, .n = n } };
	struct k_stats *a = &op.u.stats;
	struct k_program program = { .op = &op, .n_ops = 1 };
	struct shim_op stage[2];
	struct shim_step step;
	struct err e = { 0 };
	char what[128];

	fill(logits, n, vocab, shape);
	s->written(logits, bytes);
	make_asks(ask, n, vocab);
	s->put(asked, ask, sizeof ask);
	memset(&want, 0, sizeof want);
	a->out = want.stats, a->ask = asked, a->reply = want.reply, a->list = want.list;
	assert_int_equal(k_run(ref, &program, &e), 0);
	for (int32_t r = 0; r < n; r++)
		++*(want.reply[r].n == INT32_MAX    ? &n_nan
			: want.reply[r].n > K_DRAW_LIST ? &n_long
											: &n_lists);
	a->out = got->stats, a->reply = got->reply, a->list = got->list;
	assert_in_range(cu_scratch_least(&op), 0, SHIM_SCRATCH_BYTES);
	memset(stage, 0, sizeof stage);
	stage[0].op = stage[1].op = op;
	stage[1].phase = 1;
	for (int turn = 0; turn < 2; turn++) {
		const struct shim_options o = { .seed = (uint64_t)turn };
		const int grid = turn ? 33 : 3;

		memset(got, 0x33, sizeof *got);
		s->unwritten(got, sizeof *got);
		shim_step_open(s, &step, stage, 2);
		if (!shim_step_all(s, &step, grid, &o))
			fail_msg("%s", s->report());
		shim_step_close(s, &step);
		snprintf(what, sizeof what, "%s: %d rows, vocabulary of %d, shape %d, %d blocks", s->name,
			(int)n, (int)vocab, shape, grid);
		check_draws(a, &want, what);
	}
	s->free(got);
	s->free(asked);
	s->free(logits);
}

static void test_draws(void **state)
{
	static const int32_t vocabs[] = { 1, 63, 300, 1031, 5000, 20000 };

	(void)state;
	n_lists = n_long = n_nan = 0;
	for (int i = 0; i < n_both; i++)
		for (int v = 0; v < 6; v++)
			for (int shape = 0; shape < 12; shape++)
				if (vocabs[v] < 10000 || !both[i]->checked || shape % 4 == 1)
					try_draws(both[i], vocabs[v] < 2000 ? 5 : 2, vocabs[v], shape);
	assert_true(n_lists > 100 && n_long > 5 && n_nan > 5);
}

/* More blocks of ids than a block has threads, and than shared memory has room for. */
static void test_large(void **state)
{
	(void)state;
	for (int i = 0; i < n_both; i++) {
		try_stats(both[i], 1, 300000, 1);
		try_draws(both[i], 1, 300000, 1);
		try_draws(both[i], 1, 300000, 4);
	}
}

static int setup(void **state)
{
	struct err e = { 0 };

	(void)state;
	n_both = shim_open_both(both);
	return n_both ? k_open(&ref, "ref", NULL, 1, &e) : -1;
}

static int teardown(void **state)
{
	(void)state;
	k_close(ref);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_stats), cmocka_unit_test(test_draws),
		cmocka_unit_test(test_large) };

	return cmocka_run_group_tests(tests, setup, teardown);
}

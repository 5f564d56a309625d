/* The GPU's statistics of logits, run by the shim, against the reference: rows of many shapes, sizes of
 * vocabularies, grids and schedules. Both phases, as two launches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"
#include "tests/cuda_shim/shim.h"
#include "tests/rows.h"

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
	struct k_op op = {.kind = K_OP_stats,
					  .u.stats = {.logits = logits, .vocab = vocab, .n = n, .out = want}};
	struct k_program program = {.op = &op, .n_ops = 1};
	struct err e = {0};
	struct cu_stage stage[2];
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
		static const int grids[] = {1, 5, 33};
		const struct shim_options o = {.seed = (uint64_t)turn};

		memset(got, 0x33, (size_t)n * sizeof *got);
		s->unwritten(got, (size_t)n * sizeof *got);
		shim_step_open(s, &step, stage, 2);
		if (!shim_step_launches(s, &step, grids[turn], &o))
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
	static const int32_t vocabs[] = {1, 7, 8, 300, 1024, 1031, 5000};

	(void)state;
	for (int i = 0; i < n_both; i++)
		for (int v = 0; v < 7; v++)
			for (int shape = 0; shape < 12; shape++) {
				try_stats(both[i], 1, vocabs[v], shape);
				if (shape % 4 == 0)
					try_stats(both[i], shape ? 3 : 17, vocabs[v], shape);
			}
}

static void test_large(void **state)
{
	(void)state;
	for (int i = 0; i < n_both; i++)
		try_stats(both[i], 1, 300000, 1); /* more blocks of ids than a block has threads */
}

static int setup(void **state)
{
	const char *why = NULL;
	struct err e = {0};

	(void)state;
	for (int checked = 0; checked < 2; checked++) {
		both[n_both] = shim_open(checked, &why);
		if (both[n_both])
			n_both++;
		else
			print_message("# not run here: %s\n", why);
	}
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
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_stats), cmocka_unit_test(test_large)};

	return cmocka_run_group_tests(tests, setup, teardown);
}

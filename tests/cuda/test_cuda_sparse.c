/* The GPU's op sparse, run by the shim, against the reference: counts, masks and values, of rows
 * that are observed or not, sizes, grids and schedules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"
#include "tests/cuda/shim/shim.h"

enum { MOST_ROWS = 9, MOST_DIM = 4128, OBSERVED = 3 };

static struct k_ctx *ref;
static const struct shim *both[2];
static int n_both;

static uint32_t next(void)
{
	static uint32_t s = 1;

	s = s * 1664525 + 1013904223;
	return s >> 8;
}

/* All that the op reads and writes, in one piece, so that it can be compared as one. */
struct all {
	struct k_row rows[MOST_ROWS];
	float x[MOST_ROWS * MOST_DIM];
	int8_t q[MOST_ROWS * MOST_DIM];
	float d[MOST_ROWS * MOST_DIM / 32], sx[MOST_ROWS * MOST_DIM / 32];
	uint32_t mask[MOST_ROWS * MOST_DIM / 32];
	int32_t near_zero[2 * OBSERVED * K_NEAR];
};

/* The first rows are observed, in another order; odd numbers are there, too. */
static void fill(struct all *a, int shape)
{
	memset(a, 0x5a, sizeof *a);
	for (int r = 0; r < MOST_ROWS; r++)
		a->rows[r] = (struct k_row){ .pos = r, .observe = r < OBSERVED ? OBSERVED - 1 - r : -1 };
	for (int i = 0; i < MOST_ROWS * MOST_DIM; i++) {
		const float u = (float)(next() % 20001) / 10000 - 1;

		a->x[i] = shape == 1 && next() % 500 == 0 ? NAN : shape == 2 ? 0 : u * u * u * u * u;
	}
}

/* An even number of rows that are only counted is of two layers. */
static struct k_op op_of(
	struct all *a, int32_t n, int32_t dim, bool quantised, bool mask, float least)
{
	const int32_t layers = least > 0 || n % 2 ? 1 : 2;
	struct k_op op = { .kind = K_OP_sparse };

	op.u.sparse = (struct k_sparse){ .a = { .x = a->x, .dim = dim },
		.least = least,
		.mark = least > 0 ? least
				: n % 3   ? 0.01f
						  : 0,
		.rows = a->rows,
		.mask = mask ? a->mask : NULL,
		.near_zero = a->near_zero,
		.n = n / layers,
		.layers = layers,
		.n_observed = OBSERVED };
	if (quantised) {
		op.u.sparse.a.q = a->q;
		op.u.sparse.a.d = a->d;
		op.u.sparse.a.sx = a->sx;
	}
	return op;
}

static void try_sparse(const struct shim *s, int32_t n, int32_t dim, int shape, int turn)
{
	static const int grids[] = { 1, 4, 33 };
	struct all *got = s->alloc(sizeof *got), *want = malloc(sizeof *want);
	const float least = turn % 2 ? 0.05f : 0;
	const struct shim_options o = { .seed = (uint64_t)turn };
	struct shim_op stage = { 0 };
	struct k_op op = op_of(want, n, dim, turn % 4 > 1, turn < 6, least);
	struct k_program program = { .op = &op, .n_ops = 1 };
	struct err e = { 0 };
	struct shim_step step;

	fill(want, shape);
	memcpy(got, want, sizeof *got);
	s->written(got, sizeof *got);
	assert_int_equal(k_run(ref, &program, &e), 0);
	stage.op = op_of(got, n, dim, turn % 4 > 1, turn < 6, least);
	shim_step_open(s, &step, &stage, 1);
	if (!shim_step_all(s, &step, grids[turn % 3], &o))
		fail_msg("%s", s->report());
	shim_step_close(s, &step);
	if (memcmp(got, want, sizeof *got))
		fail_msg("%s: %d rows of %d, shape %d, turn %d", s->name, (int)n, (int)dim, shape, turn);
	s->free(got);
	free(want);
}

static void test_sparse(void **state)
{
	static const int32_t dims[] = { 32, 288, MOST_DIM };

	(void)state;
	for (int b = 0; b < n_both; b++)
		for (int d = 0; d < 3; d++)
			for (int shape = 0; shape < 3; shape++)
				for (int turn = 0; turn < 8; turn++)
					try_sparse(both[b], turn == 7 ? MOST_ROWS : 1 + turn, dims[d], shape, turn);
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
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_sparse) };

	return cmocka_run_group_tests(tests, setup, teardown);
}

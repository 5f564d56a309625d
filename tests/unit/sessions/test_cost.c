/* The cost of a step: known prices are found again, errors are of steps held out, and a file is
 * read as it was written or refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sessions/whatif/cost.h"

static const struct cost known = {
	.ns = { [COST_step] = 2e6, [COST_row] = 25e4, [COST_first_rows] = 1e5, [COST_pair] = 300 },
	.token_bytes = 23040,
};

static uint32_t draw(uint32_t *seed, uint32_t n)
{
	*seed = *seed * 1664525 + 1013904223;
	return (*seed >> 8) % n;
}

/* Steps as an engine has them: newest tokens, in every third a chunk of a prompt too. noise: each
 * is so much longer or shorter, by turns of a coin. */
static struct cost_rows steps(int n, double noise)
{
	struct cost_rows r = { .row = calloc((size_t)n, sizeof *r.row), .n = n, .token_bytes = 23040 };
	uint32_t seed = 7;

	assert_non_null(r.row);
	for (int i = 0; i < n; i++) {
		struct step_shape *s = &r.row[i].shape;

		for (uint32_t k = 1 + draw(&seed, 8); k; k--)
			step_shape_add(s, (int32_t)draw(&seed, 1000), 1, 1);
		if (i % 3 == 0)
			step_shape_add(s, (int32_t)draw(&seed, 500), 1 + (int32_t)draw(&seed, 128),
				(int32_t)draw(&seed, 2));
		r.row[i].ns = cost_step_s(&known, s) * 1e9 * (draw(&seed, 2) ? 1 + noise : 1 - noise);
	}
	return r;
}

static void test_shape(void **state)
{
	struct step_shape s = { 0 };

	(void)state;
	step_shape_add(&s, 10, 1, 1);
	step_shape_add(&s, 4, 3, 0); /* sees 5, 6 and 7 positions */
	assert_int_equal(s.rows, 4);
	assert_int_equal(s.outs, 1);
	assert_int_equal(s.requests, 2);
	assert_int_equal(s.positions, 11 + 7);
	assert_int_equal(s.pairs, 11 + 5 + 6 + 7);
}

static void test_events(void **state)
{
	struct cost_rows r = { 0 };
	struct event ev;

	(void)state;
	for (int i = 0; i < 2; i++) {
		ev_init(&ev, EV_batch);
		ev.u.batch.pos = 7, ev.u.batch.rows = 3;
		cost_take(&r, &ev);
		ev_init(&ev, EV_token);
		cost_take(&r, &ev);
		ev_init(&ev, EV_step);
		ev.t_ns = 1000 + 500 * i;
		ev.u.step.ns = 300, ev.u.step.rejected = 2, ev.u.step.running = 1, ev.u.step.waiting = 0;
		cost_take(&r, &ev);
	}
	assert_int_equal(r.n, 2);
	assert_int_equal(r.row[1].shape.rows, 3);
	assert_int_equal(r.row[1].shape.outs, 3);
	assert_true(r.row[0].ns == 300); /* the first has none before it */
	assert_true(r.row[1].ns == 500); /* from the end of that, which left work */
	cost_rows_free(&r);
}

/* Numbers of a recording from elsewhere: any. */
static void test_hostile_events(void **state)
{
	static const int64_t number[] = { EV_NULL_I, INT64_MAX, INT64_MIN + 1, 1 << 24, 0 };
	struct cost_rows r = { 0 };
	struct event ev;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		const int64_t a = number[i % 5], b = number[i / 5 % 5];

		ev_init(&ev, EV_batch);
		ev.u.batch.pos = ev.u.batch.rows = 1 << 24;
		cost_take(&r, &ev);
		ev_init(&ev, EV_handover);
		ev.u.handover.pos = a, ev.u.handover.tokens = ev.u.handover.computed = b;
		ev.u.handover.start_ns = a, ev.u.handover.end_ns = b;
		cost_take(&r, &ev);
		ev_init(&ev, EV_step);
		ev.t_ns = a, ev.u.step.ns = b, ev.u.step.running = a, ev.u.step.waiting = a;
		if (i > 500)
			cost_take(&r, &ev);
	}
	assert_in_range(r.now.rows, 0, 1 << 24);
	cost_rows_free(&r);
}

/* A prompt that a rank of its own computed is a row, too: all of its chunks. */
static void test_handover(void **state)
{
	struct cost_rows r = { 0 };
	struct event ev;

	(void)state;
	ev_init(&ev, EV_setting);
	ev.u.setting.name = ev_text("prefill-chunk");
	ev.u.setting.value = ev_text("100");
	cost_take(&r, &ev);
	ev.u.setting.name = ev_text("prefill-ranks");
	ev.u.setting.value = ev_text("1");
	cost_take(&r, &ev);
	ev_init(&ev, EV_handover);
	ev.u.handover.pos = 16, ev.u.handover.tokens = ev.u.handover.computed = 250;
	ev.u.handover.start_ns = 1000, ev.u.handover.end_ns = 251000;
	cost_take(&r, &ev);
	ev.u.handover.computed = 100; /* it was called back */
	cost_take(&r, &ev);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.row[0].shape.more, 2);
	assert_int_equal(r.row[0].shape.rows, 250);
	assert_int_equal(r.row[0].shape.positions, 116 + 216 + 266);
	assert_true(r.row[0].ns == 250000 && cost_step_s(&known, &r.row[0].shape) > 3 * 2e-3);
	for (int i = 0; i < 2; i++) { /* the time between two steps may be a wait for a prompt */
		ev_init(&ev, EV_batch);
		ev.u.batch.pos = 7, ev.u.batch.rows = 1;
		cost_take(&r, &ev);
		ev_init(&ev, EV_step);
		ev.t_ns = 300000 + 900 * i;
		ev.u.step.ns = 300, ev.u.step.rejected = 0, ev.u.step.running = 1, ev.u.step.waiting = 0;
		cost_take(&r, &ev);
	}
	assert_true(r.n == 3 && r.row[2].ns == 300);
	cost_rows_free(&r);
}

static void test_known_prices(void **state)
{
	struct cost_rows r = steps(2000, 0), noisy = steps(20000, 0.2);
	struct cost c;

	(void)state;
	assert_int_equal(cost_fit(&c, &r, NULL), 0);
	for (int i = 0; i < N_COST_TERMS; i++)
		assert_true(fabs(c.ns[i] - known.ns[i]) <= 1e-3 * known.ns[i] + 1);
	assert_true(c.error < 1e-3 && fabs(c.bias) < 1e-3);
	/* the noise is the error, and the sum is right in spite of it */
	assert_int_equal(cost_fit(&c, &noisy, NULL), 0);
	assert_true(c.error > 0.15 && c.error < 0.27);
	assert_true(fabs(c.bias) < 0.01);
	assert_true(fabs(c.ns[COST_row] / known.ns[COST_row] - 1) < 0.05);
	cost_rows_free(&r);
	cost_rows_free(&noisy);
}

/* Steps that the prices of a round say to take no time at all keep a weight that is a number. */
static void test_free_steps(void **state)
{
	struct cost_rows r = { .row = calloc(200, sizeof *r.row), .n = 200 };
	struct cost c;

	(void)state;
	assert_non_null(r.row);
	for (int i = 0; i < r.n; i++) {
		const int outs = i % 40 ? 1 + i % 3 : 0;

		step_shape_add(&r.row[i].shape, 4, 4, outs);
		r.row[i].ns = outs ? (outs * outs * 5 - 4) * 1e4 : 1e4;
	}
	assert_int_equal(cost_fit(&c, &r, NULL), 0);
	for (int i = 0; i < N_COST_TERMS; i++)
		assert_true(isfinite(c.ns[i]) && c.ns[i] >= 0);
	assert_true(c.ns[COST_logits] > 0 && isfinite(c.error) && isfinite(c.bias));
	cost_rows_free(&r);
}

static void test_too_few(void **state)
{
	struct cost_rows r = steps(31, 0);
	struct err e = { 0 };
	struct cost c;

	(void)state;
	assert_int_equal(cost_fit(&c, &r, &e), -1);
	assert_int_equal(e.code, ERR_INPUT);
	cost_rows_free(&r);
	r = steps(32, 0); /* of which some are held out all the same */
	assert_int_equal(cost_fit(&c, &r, &e), 0);
	assert_true(c.error < 0.5 && fabs(c.bias) < 0.5);
	cost_rows_free(&r);
}

static int read_text(const char *text, struct cost *c, struct err *e)
{
	char path[] = "/tmp/cutaway-cost-XXXXXX";
	int fd = mkstemp(path), rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	*e = (struct err){ 0 };
	rc = cost_read(c, path, e);
	unlink(path);
	return rc;
}

static void test_file(void **state)
{
	char path[] = "/tmp/cutaway-cost-XXXXXX";
	struct cost c = known, back;
	struct err e = { 0 };

	(void)state;
	close(mkstemp(path));
	c.ns[COST_row] = 250123.456;
	assert_int_equal(cost_write(&c, path, &e), 0);
	assert_int_equal(cost_read(&back, path, &e), 0);
	for (int i = 0; i < N_COST_TERMS; i++)
		assert_true(fabs(back.ns[i] - c.ns[i]) <= 1e-8 * c.ns[i]);
	assert_int_equal(back.token_bytes, c.token_bytes);
	unlink(path);
}

#define FILE_OF(step, row, rest)                                                                   \
	"cutaway cost 1\nstep " step "\nrow " row                                                      \
	"\nrequest 0\nfirst_rows 0\nlogits 0\nposition 0\npair 0\n" rest

static void test_hostile_files(void **state)
{
	static const char *const bad[] = { "", "cutaway cost 2\n", "cutaway cost 1\n",
		"SQLite format 3", FILE_OF("nan", "1", ""), FILE_OF("-1", "1", ""), FILE_OF("inf", "1", ""),
		FILE_OF("1e400", "1", ""), FILE_OF("1 2", "1", ""), FILE_OF("", "1", ""),
		FILE_OF("0x", "1", ""), FILE_OF("0", "0", ""), FILE_OF("1", "1", "row 2\n"),
		FILE_OF("1", "1", "colour 2\n"), FILE_OF("1e16", "1", ""),
		FILE_OF("1", "1", "token_bytes -4\n"), FILE_OF("1", "1", "layers 2\nlayers 2\n"),
		FILE_OF("1", "1", "product qkv Q4_1 576 960 30\n"),
		FILE_OF("1", "1", "product qkv Q4_1 576 960 30 0\n"),
		FILE_OF("1", "1", "product sky Q4_1 576 960 30 1\n"),
		FILE_OF("1", "1", "product qkv Q4\x1b[1m 576 960 30 1\n"),
		FILE_OF("1", "1", "product qkv Q4_1 576 960 30 1 1\n"), FILE_OF("1", "1", "product\n") };
	char *wide = malloc(5000);
	struct cost c;
	struct err e;

	(void)state;
	assert_non_null(wide);
	assert_int_equal(read_text(FILE_OF("5 # ms", "1e3", "\n# nothing\n"), &c, &e), 0);
	assert_true(c.ns[COST_row] == 1000 && c.token_bytes == 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (read_text(bad[i], &c, &e) != -1)
			fail_msg("accepted: %s", bad[i]);
		assert_int_equal(e.code, ERR_INPUT);
	}
	memset(wide, 'x', 4999);
	wide[4999] = 0;
	memcpy(wide, "cutaway cost 1\n", 15);
	assert_int_equal(read_text(wide, &c, &e), -1);
	assert_int_equal(cost_read(&c, "/nowhere/cost", &e), -1);
	free(wide);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_shape), cmocka_unit_test(test_events),
		cmocka_unit_test(test_hostile_events), cmocka_unit_test(test_handover),
		cmocka_unit_test(test_known_prices), cmocka_unit_test(test_free_steps),
		cmocka_unit_test(test_too_few), cmocka_unit_test(test_file),
		cmocka_unit_test(test_hostile_files) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

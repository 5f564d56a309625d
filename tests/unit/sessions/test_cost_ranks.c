/* What steps cost on several ranks: closed forms of a small model, prices found again in events,
 * and files. That ranks exchange what the formula says is test_exchanged's. */
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

#include "sessions/whatif/cost_ranks.h"

#define assert_near(got, expected, within)                                                         \
	do {                                                                                           \
		const double got_ = (got), expected_ = (expected);                                         \
		if (!(fabs(got_ - expected_) <= (within)*fabs(expected_)))                                 \
			fail_msg("%.9g, not %.9g", got_, expected_);                                           \
	} while (0)

enum { LAYERS = 8, DIM = 256, INNER = 512, VOCAB = 1024 };

static struct cost model(void)
{
	struct cost c = { .ns = { [COST_step] = 1e6, [COST_row] = 1e5, [COST_pair] = 100 },
		.token_bytes = 8192,
		.model = { .layers = LAYERS,
			.kv_heads = 4,
			.head_dim = 64,
			.parallel = 1,
			.split = { 1, 1, 1, 1 } } };
	static const struct tl_product p[] = { { EV_STAGE_qkv, DIM, 3 * DIM, LAYERS, .bytes = 3000 },
		{ EV_STAGE_out, DIM, DIM, LAYERS, .bytes = 1000 },
		{ EV_STAGE_gate_up, DIM, INNER, 2 * LAYERS, .bytes = 2000 },
		{ EV_STAGE_down, INNER, DIM, LAYERS, .bytes = 1000 },
		{ EV_STAGE_head, DIM, VOCAB, 1, .bytes = 0 } }; /* stages are equal */

	c.model.n_products = sizeof p / sizeof *p;
	memcpy(c.model.product, p, sizeof p);
	for (int i = 0; i < c.model.n_products; i++)
		strcpy(c.model.product[i].format, "Q4_1");
	return c;
}

static struct step_shape rows_at(int32_t pos, int32_t rows, int32_t members)
{
	struct step_shape s = { 0 };

	for (int32_t i = 0; i < members; i++)
		step_shape_add(&s, pos, rows / members, 1);
	return s;
}

static const struct cost_ranks one = { .tensor = 1, .pipeline = 1, .sequence = 1 };

static void test_one_rank(void **state)
{
	const struct cost c = model();
	const struct step_shape s = rows_at(10, 4, 2);
	const struct cost_ranks_step step = cost_ranks_step(&c, &one, &s);

	(void)state;
	assert_true(step.s == cost_step_s(&c, &s) && !(step.exchange_s > 0) && !(step.sent > 0));
	assert_int_equal(cost_ranks_number(&one), 1);
}

/* Work in equal parts, and exchanges as the formula counts them. */
static void test_tensor(void **state)
{
	struct cost c = model();
	const struct step_shape s = rows_at(10, 2, 2);
	struct cost_ranks k = one;
	struct formula_split of = { .product = c.model.product,
		.n_products = c.model.n_products,
		.layers = LAYERS,
		.kv_heads = 4,
		.head_dim = 64,
		.rows = 2,
		.out_rows = 2 };
	struct cost_ranks_step step;

	(void)state;
	k.link = (struct link_speed){ 1e9, 50000 };
	for (k.tensor = of.ranks = 2; k.tensor <= 4; k.tensor = of.ranks *= 2) {
		double most = 0, exchanges = 1 + 4 * LAYERS;

		for (int32_t r = 0; r < of.ranks; r++)
			most = fmax(most, (double)formula_exchanged(&of, r).sent / (of.ranks - 1));
		step = cost_ranks_step(&c, &k, &s);
		assert_near(step.sent, (double)formula_exchanged_bytes(&of), 1e-9);
		assert_near(step.exchange_s, exchanges * 50e-6 + most / 1e9, 1e-6);
		assert_near(step.s - step.exchange_s, cost_step_s(&c, &s) / k.tensor, 1e-6);
	}
	/* three ranks of four heads: one has two */
	k.tensor = 3;
	step = cost_ranks_step(&c, &k, &s);
	assert_true(step.s - step.exchange_s > cost_step_s(&c, &s) / 2.9);
	/* what is not split takes as long as ever */
	c.model.parallel = 0.5;
	k.tensor = 2;
	step = cost_ranks_step(&c, &k, &s);
	assert_near(step.s - step.exchange_s, 0.75 * cost_step_s(&c, &s), 1e-6);
}

/* "GPipe": of m micro-batches through s stages, (s - 1) / (m + s - 1) is bubble. */
static void test_pipeline(void **state)
{
	struct cost c = model();
	struct cost_ranks k = one;
	struct step_shape s = rows_at(0, 64, 64);

	(void)state;
	c.model.exchange_ns = 1e-3; /* next to nothing */
	for (k.pipeline = 2; k.pipeline <= 8; k.pipeline *= 2)
		for (k.micro_batches = 1; k.micro_batches <= 16; k.micro_batches *= 2) {
			const struct cost_ranks_step step = cost_ranks_step(&c, &k, &s);
			const double m = k.micro_batches, n = k.pipeline;

			assert_near(step.bubble_s / step.s, (n - 1) / (m + n - 1), 1e-3);
		}
	/* one row goes from stage to stage, and back to rank 0 with its logits: no faster than on one
	 */
	k.pipeline = 4;
	s = rows_at(10, 1, 1);
	assert_near(cost_ranks_step(&c, &k, &s).s, cost_step_s(&c, &s), 1e-3);
	k.link.latency_ns = 1000000;
	assert_near(cost_ranks_step(&c, &k, &s).s, cost_step_s(&c, &s) + 5e-3, 1e-3);
}

static void test_sequence(void **state)
{
	struct cost c = model();
	struct cost_ranks k = one;
	const struct step_shape few = rows_at(0, 63, 1), many = rows_at(0, 1024, 1);
	struct cost_ranks_step step;

	(void)state;
	k.sequence = 2;
	c.model.exchange_ns = 1e-3;
	step = cost_ranks_step(&c, &k, &few); /* rank 0's, whose pages go to the other */
	assert_near(step.s, cost_step_s(&c, &few), 1e-3);
	assert_near(step.sent, 63 * 8192, 1e-9);
	step = cost_ranks_step(&c, &k, &many); /* half the rows, three quarters of the pairs */
	assert_near(step.s, 1e-9 * (1e6 + 512e5 + 0.75 * 100 * 1024 * 1025 / 2), 1e-3);
	assert_near(step.sent, 1024 * 8192 + 512 * 4 * DIM, 1e-9);
}

static void refused(struct cost c, struct cost_ranks k, const char *word)
{
	struct err e = { 0 };

	assert_int_equal(cost_ranks_check(&c, &k, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	if (!strstr(e.text, word))
		fail_msg("no \"%s\" in: %s", word, e.text);
}

static void test_refused(void **state)
{
	struct cost c = model();
	struct cost_ranks k = one;
	struct err e = { 0 };

	(void)state;
	k.tensor = 2;
	refused(c, k, "--link");
	k.link.latency_ns = 1000;
	assert_int_equal(cost_ranks_check(&c, &k, &e), 0);
	k.sequence = 2;
	refused(c, k, "sequence");
	k.sequence = 1;
	k.pipeline = 9;
	refused(c, k, "8 layers");
	k.pipeline = 64;
	refused(c, k, "at most");
	k.pipeline = 1;
	c.model.split.ranks = 2;
	refused(c, k, "2 ranks");
	c.model.split.ranks = 1;
	c.model.layers = 1e15;
	refused(c, k, "not simulated");
	c.model.layers = LAYERS;
	c.model.product[2].each_row = true;
	refused(c, k, "not simulated");
	c.model.n_products = 0;
	refused(c, k, "--fit");
}

/* ---- from events ---- */

/* A step of so many rows on two ranks, of which the second waits 30 us: 40 us an exchange and 2 ns
 * a byte; three quarters of its time in products and attention. */
static void tell_step(struct cost_rows *r, int i, int64_t rows)
{
	const struct ev_stage_time times[] = { { EV_STAGE_norm, 1000, 1, 1 },
		{ EV_STAGE_qkv, 500000, 1, 1 }, { EV_STAGE_attention, 250000, 1, 1 } };
	struct event ev;

	ev_init(&ev, EV_batch);
	ev.u.batch.pos = 3;
	ev.u.batch.rows = rows;
	cost_take(r, &ev);
	for (int rank = 0; rank < 2; rank++) {
		ev_init(&ev, EV_traffic);
		ev.u.traffic.rank = rank;
		ev.u.traffic.exchanges = 121;
		ev.u.traffic.sent = 1000 * rows;
		ev.u.traffic.slowed_ns = 5000;
		ev.u.traffic.exchange_ns = 121 * 40000 + 2000 * rows + 30000 * rank + 5000;
		cost_take(r, &ev);
	}
	ev_init(&ev, EV_time);
	ev.u.time.stages = (struct ev_span){ times, sizeof times };
	cost_take(r, &ev);
	ev_init(&ev, EV_step);
	ev.t_ns = 1000000 * i;
	ev.u.step.ns = 1000000;
	ev.u.step.running = ev.u.step.waiting = ev.u.step.rejected = 0;
	cost_take(r, &ev);
}

static void test_events(void **state)
{
	struct cost_rows r = { 0 };
	struct cost_model m;
	struct event ev;

	(void)state;
	ev_init(&ev, EV_session);
	ev.u.session.n_layers = 30;
	ev.u.session.n_kv_heads = 3;
	ev.u.session.head_dim = 64;
	cost_take(&r, &ev);
	for (int rank = 0; rank < 2; rank++) {
		ev_init(&ev, EV_rank);
		ev.u.rank.rank = ev.u.rank.part = rank;
		cost_take(&r, &ev);
	}
	for (int i = 0; i < 40; i++)
		tell_step(&r, i, 1 + i % 7);
	ev_init(&ev, EV_traffic); /* of nothing known */
	ev.u.traffic.exchanges = 1;
	ev.u.traffic.exchange_ns = 5;
	cost_take(&r, &ev);
	cost_model_of(&m, &r);
	assert_int_equal(m.split.ranks, 2);
	assert_near(m.layers, 30, 1e-9);
	assert_near(m.parallel, 0.75, 1e-9);
	assert_near(m.exchange_ns, 40000, 1e-6);
	assert_near(m.byte_ns, 2, 1e-6);
	cost_rows_free(&r);
}

/* Of steps that two ranks made, sharing 60 % of the work, that share is found again. */
static void test_calibrate(void **state)
{
	struct cost_rows r = { .row = calloc(64, sizeof *r.row), .n = 64 };
	struct cost c = model(), truth = c;
	struct cost_ranks k = one;
	struct err e = { 0 };

	(void)state;
	assert_non_null(r.row);
	assert_int_equal(cost_ranks_calibrate(&c, &r, &e), -1);
	assert_int_equal(e.code, ERR_INPUT);
	k.tensor = 2;
	truth.model.parallel = 0.6;
	truth.model.exchange_ns = 30000;
	r.model.split = (struct tl_split){ 2, 2, 1, 1 };
	for (int i = 0; i < r.n; i++) {
		const struct step_shape s = rows_at(i, 1 + i % 40, 1);
		const struct cost_ranks_step step = cost_ranks_step(&truth, &k, &s);

		r.row[i] = (struct cost_row){ s, 1e9 * step.s, 1e9 * step.exchange_s };
		r.line[0]++;
		r.line[3] += 30000;
	}
	assert_int_equal(cost_ranks_calibrate(&c, &r, &e), 0);
	assert_near(c.model.exchange_ns, 30000, 1e-6);
	assert_near(c.model.parallel, 0.6, 0.05); /* what a step's messages take counts as work */
	r.model.split = (struct tl_split){ 2, 1, 2, 1 };
	assert_int_equal(cost_ranks_calibrate(&c, &r, &e), -1);
	free(r.row);
}

/* ---- files ---- */

static void test_file(void **state)
{
	char path[] = "/tmp/cutaway-cost-XXXXXX";
	struct cost c = model(), back;
	struct err e = { 0 };

	(void)state;
	close(mkstemp(path));
	c.model.exchange_ns = 12345.5;
	c.model.product[4].bytes = 7;
	assert_int_equal(cost_write(&c, path, &e), 0);
	assert_int_equal(cost_read(&back, path, &e), 0);
	unlink(path);
	assert_near(back.model.exchange_ns, 12345.5, 1e-9);
	assert_near(back.model.layers, LAYERS, 1e-9);
	assert_int_equal(back.model.n_products, c.model.n_products);
	for (int i = 0; i < back.model.n_products; i++) {
		const struct tl_product *a = &c.model.product[i], *b = &back.model.product[i];

		assert_true(a->stage == b->stage && a->inputs == b->inputs && a->outputs == b->outputs &&
					a->n == b->n && a->bytes == b->bytes && !strcmp(a->format, b->format));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_one_rank),
		cmocka_unit_test(test_tensor), cmocka_unit_test(test_pipeline),
		cmocka_unit_test(test_sequence), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_events), cmocka_unit_test(test_calibrate),
		cmocka_unit_test(test_file) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

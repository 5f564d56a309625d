/* Replicas in simulated time: what queueing theory says, what the engine inside says by counted
 * time, and what routers and pages that move do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/router.h"
#include "simulate/replica.h"
#include "simulate/simulate.h"
#include "tests/support/invariants.h"
#include "tests/support/thorough.h"

static const struct cost by_step = { .ns = { [COST_step] = 1e9 }, .token_bytes = 1000 };
static const struct cost by_rows = {
	.ns = { [COST_step] = 2e6, [COST_row] = 25e4, [COST_pair] = 300 }, .token_bytes = 1000
};

static struct simulation simulation(
	const struct cost *cost, int32_t replicas, double rate, int64_t n)
{
	struct simulation s = { .engine = ENGINE_DEFAULTS,
		.fleet = { .cost = cost, .replicas = replicas, .router = "round-robin", .bandwidth = 1e9 },
		.load.workload = { .n = n, .rate = rate, .scale = 0.2, .seed = 3 } };

	s.engine.ctx = 1024;
	return s;
}

/* ---- requests of one size, for the closed forms ---- */

struct plain {
	int64_t at, n;
	double rate, at_s;
	int32_t outputs; /* 0: geometric with a mean of 10 */
	uint64_t random;
};

static double uniform(struct plain *p)
{
	p->random = p->random * 6364136223846793005u + 1442695040888963407u;
	return ((double)(p->random >> 11) + 0.5) * 0x1p-53;
}

static double plain_when(void *arg)
{
	const struct plain *p = arg;

	return p->at < p->n ? p->at_s : (double)INFINITY;
}

static int plain_next(void *arg, struct arrival *a, int32_t **ids, struct err *e)
{
	struct plain *p = arg;

	(void)e;
	*a = (struct arrival){ .number = p->at, .at_s = p->at_s, .n_prompt = 1, .prefix = -1 };
	a->n_output = p->outputs ? p->outputs : 1 + (int32_t)(log(uniform(p)) / log(0.9));
	*ids = calloc((size_t)a->n_output + 2, sizeof **ids);
	assert_non_null(*ids);
	(*ids)[0] = (int32_t)(p->at++ % 1000000);
	p->at_s -= log(uniform(p)) / p->rate;
	return 1;
}

static void plain_ended(void *arg, const struct arrival *a, double now_s)
{
	(void)arg, (void)a, (void)now_s;
}

/* One slot, one second a token, first come first served: mean seconds in the queue. */
static double mean_wait(double rate, int32_t outputs)
{
	struct simulation s = simulation(&by_step, 1, 1, 1);
	struct plain p = {
		.n = wants_all() ? 400000 : 100000, .rate = rate, .outputs = outputs, .random = 5
	};
	const struct fleet_source source = { &p, plain_when, plain_next, plain_ended };
	const struct tally_options o = { 0 };
	double wait;

	s.engine.slots = 1;
	assert_int_equal(simulate_fleet(&s, &source, &o, NULL), 0);
	assert_int_equal(s.point.result.n_requests, p.n);
	wait = s.point.result.ttft.mean - 1; /* its own first step */
	tally_close(&s.point.tally);
	return wait;
}

/* Pollaczek and Khinchine: W = rate E[S^2] / (2 (1 - rate E[S])). */
static void test_queues(void **state)
{
	const double second = 10 * 10 + 90; /* of a geometric with a mean of 10: variance 90 */

	(void)state;
	/* M/D/1, 10 s of service, 70 % busy: 11.67 s */
	assert_true(fabs(mean_wait(0.07, 10) / (0.07 * 100 / (2 * 0.3)) - 1) < 0.03);
	/* M/Geo/1, the discrete M/M/1 */
	assert_true(fabs(mean_wait(0.07, 0) / (0.07 * second / (2 * 0.3)) - 1) < 0.05);
}

/* ---- the engine inside, by counted time ---- */

static void same(double a, double b)
{
	if (!(fabs(a - b) <= 1e-9 * fabs(a) + 1e-12))
		fail_msg("%.12g is not %.12g", a, b);
}

static void compare_with_engine(const char *policy, struct simulation *s)
{
	struct load_engine by = { .engine = s->engine, .counted = s->fleet.cost };
	const struct answer_settings answer = { 0 };
	struct load_options o = s->load;
	struct load_point p = { 0 };
	struct err e = { 0 };

	s->engine.policy = by.engine.policy = policy;
	o.answer = &answer;
	if (load_inside(&o, &by, &p, &e) || simulate_run(s, &e))
		fail_msg("%s", e.text);
	same(p.result.span_s, s->point.result.span_s);
	same(p.result.ttft.mean, s->point.result.ttft.mean);
	same(p.result.ttft.p99, s->point.result.ttft.p99);
	same(p.result.itl.mean, s->point.result.itl.mean);
	same(p.result.itl.max, s->point.result.itl.max);
	same(p.result.e2e.p50, s->point.result.e2e.p50);
	same(p.result.queue_mean, s->point.result.queue_mean);
	assert_int_equal(p.result.cached_tokens, s->point.result.cached_tokens);
	assert_int_equal(p.result.output_tokens, s->point.result.output_tokens);
	assert_true(p.result.n_requests == s->point.result.n_requests);
	tally_close(&p.tally);
	tally_close(&s->point.tally);
}

/* The whole engine, with nothing computed, takes the same simulated time for the same load, under
 * every policy; open, closed, and short of pages. */
static void test_is_the_engine(void **state)
{
	(void)state;
	for (int i = 0; sched_policies[i]; i++) {
		struct simulation open = simulation(&by_rows, 1, 12, 120), closed = open, tight = open;

		closed.load.workload.arrivals = WORKLOAD_CLOSED;
		closed.load.workload.users = 20;
		tight.load.workload.kinds = 1u << WORKLOAD_CHAT | 1u << WORKLOAD_SYSTEM;
		tight.engine.pages = 66;
		compare_with_engine(sched_policies[i]->name, &open);
		compare_with_engine(sched_policies[i]->name, &closed);
		compare_with_engine(sched_policies[i]->name, &tight);
	}
}

/* ---- fleets ---- */

static struct tally_result run(struct simulation *s)
{
	struct err e = { 0 };

	if (simulate_run(s, &e))
		fail_msg("%s", e.text);
	tally_close(&s->point.tally);
	return s->point.result;
}

static void test_twice(void **state)
{
	(void)state;
	for (int i = 0; router_name(i); i++) {
		struct simulation a = simulation(&by_rows, 7, 80, 2000), b = a;
		struct tally_result x, y;

		a.fleet.router = b.fleet.router = router_name(i);
		x = run(&a);
		y = run(&b);
		assert_int_equal(x.n_requests, 2000);
		assert_int_equal(x.n_failed, 0);
		assert_true(x.span_s == y.span_s && x.ttft.mean == y.ttft.mean && x.itl.p99 == y.itl.p99);
		assert_true(a.counts.steps == b.counts.steps && a.counts.busy_s == b.counts.busy_s);
	}
}

/* Four replicas with four times the load: four times the throughput, and no worse latency if a
 * conversation stays where its pages are. */
static void test_replicas(void **state)
{
	struct simulation one = simulation(&by_rows, 1, 10, 4000),
					  four = simulation(&by_rows, 4, 40, 16000), apart;
	struct tally_result a, b, c;

	(void)state;
	four.load.workload.live = 32;
	apart = four;
	four.fleet.router = "prefix";
	a = run(&one);
	b = run(&four);
	c = run(&apart);
	assert_true(b.tokens_s / a.tokens_s > 3.8 && b.tokens_s / a.tokens_s < 4.2);
	assert_true(b.ttft.p50 < 1.1 * a.ttft.p50 && b.ttft.p99 < 1.1 * a.ttft.p99);
	assert_true(c.ttft.p50 > 1.1 * a.ttft.p50 && c.cached_tokens < 2 * a.cached_tokens);
}

static void test_routers(void **state)
{
	struct simulation s[3];
	struct tally_result r[3];
	static const char *const router[] = { "random", "least-loaded", "prefix" };

	(void)state;
	for (int i = 0; i < 3; i++) {
		s[i] = simulation(&by_rows, 8, 60, 4000);
		s[i].load.workload.kinds = 1u << WORKLOAD_SYSTEM;
		s[i].load.workload.live = 16;
		s[i].load.workload.scale = 0.4;
		s[i].fleet.router = router[i];
		r[i] = run(&s[i]);
	}
	assert_true(r[1].ttft.p99 < r[0].ttft.p99);
	assert_true(r[2].cached_tokens > 1.05 * (double)r[1].cached_tokens);
	assert_true(s[2].counts.rows < s[1].counts.rows);
}

/* ---- prompts on ranks of their own ---- */

static void test_apart(void **state)
{
	struct simulation s = simulation(&by_rows, 2, 8, 500), slow, many;
	struct tally_result together = run(&s), r, late, wide;
	int64_t most, rows = s.counts.rows;

	(void)state;
	s.engine.prefill_ranks = 1;
	s.engine.prefill_least = 1;
	many = slow = s;
	slow.fleet.bandwidth = 1e6;
	many.engine.prefill_ranks = 4;
	r = run(&s);
	late = run(&slow);
	wide = run(&many);
	assert_int_equal(r.n_requests, 500);
	assert_int_equal(r.n_failed, 0);
	most = (r.prompt_tokens - r.cached_tokens) * by_rows.token_bytes;
	assert_true(s.counts.moved_bytes > 0.8 * (double)most && s.counts.moved_bytes < most);
	assert_true(llabs(s.counts.rows - rows) < rows / 50); /* each is computed once */
	assert_true(r.itl.max < 0.5 * together.itl.max);      /* no prompt is between two tokens */
	assert_true(late.ttft.mean > r.ttft.mean);            /* pages come before the first token */
	assert_true(wide.ttft.p99 <= r.ttft.p99);
	most = s.counts.moved_bytes;
	for (s.engine.prefill_least = 64; s.engine.prefill_least <= 4096;
		 s.engine.prefill_least *= 64) { /* short ones stay */
		r = run(&s);
		assert_int_equal(r.n_requests - r.n_failed, 500);
		assert_true(s.counts.moved_bytes < most);
		most = s.counts.moved_bytes;
	}
	assert_int_equal(most, 0);
}

/* Requests that are away are called back where pages are few. */
static void test_recalled(void **state)
{
	struct simulation s = simulation(&by_rows, 1, 8, 300);
	struct tally_result r;

	(void)state;
	s.engine.prefill_ranks = 1;
	s.engine.pages = 40;
	r = run(&s);
	assert_int_equal(r.n_requests, 300);
	assert_true(s.counts.preempted > 0);
}

/* ---- ranks ---- */

/* Of a model whose layers are four products. */
static struct cost split_model(void)
{
	static const struct tl_product p[] = { { EV_STAGE_qkv, 256, 768, 4, .bytes = 3000 },
		{ EV_STAGE_out, 256, 256, 4, .bytes = 1000 },
		{ EV_STAGE_gate_up, 256, 512, 8, .bytes = 2000 },
		{ EV_STAGE_down, 512, 256, 4, .bytes = 1000 },
		{ EV_STAGE_head, 256, 1024, 1, .bytes = 1000 } };
	struct cost c = by_rows;

	c.model = (struct cost_model){
		.layers = 4, .kv_heads = 4, .head_dim = 64, .parallel = 1, .n_products = 5
	};
	memcpy(c.model.product, p, sizeof p);
	return c;
}

/* Two ranks compute in half the time; on a link of 1 ms, 17 exchanges make each step 17 ms longer.
 */
static void test_ranks(void **state)
{
	const struct cost c = split_model();
	struct simulation one = simulation(&c, 1, 4, 200), two = one;
	struct tally_result a, b;

	(void)state;
	two.engine.tensor_parallel = 2;
	two.engine.link = "1000gbit,1us";
	a = run(&one);
	b = run(&two);
	assert_true(b.itl.p50 < 0.6 * a.itl.p50 && b.itl.p50 > 0.4 * a.itl.p50);
	assert_true(two.counts.sent > 0 && two.counts.exchange_s < 0.2 * two.counts.busy_s);
	two.engine.link = "1000gbit,1ms";
	run(&two);
	assert_true(fabs(two.counts.exchange_s / (double)two.counts.steps / 17e-3 - 1) < 0.05);
	two.engine.tensor_parallel = 1;
	two.engine.pipeline_parallel = 2;
	run(&two);
	assert_true(two.counts.bubble_s > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_queues),
		cmocka_unit_test(test_is_the_engine), cmocka_unit_test(test_twice),
		cmocka_unit_test(test_replicas), cmocka_unit_test(test_routers),
		cmocka_unit_test(test_apart), cmocka_unit_test(test_recalled),
		cmocka_unit_test(test_ranks) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

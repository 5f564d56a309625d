/* The scheduler without a model: pages are only counted, and a token is drawn by adding one.
 * Policies: what order they give, and that none starves anybody; invariants after every step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/sched/sched.h"

enum { CTX = 512, MOST = 400 };

struct world {
	struct memory memory;
	struct prefix prefix;
	struct stream stream;
	struct sched sched;
	struct plan plan;
	int64_t n, step;
	int32_t preempted;
	int64_t admitted[MOST], n_admitted; /* requests, in order of admission */
	int64_t prompts[MOST], n_prompts;   /* requests of prefill items of the newest plan, in order */
	int64_t done[MOST];                 /* step in which each ended, 0: not yet */
	int32_t most_overtaken;
};

static void on_event(void *arg, const struct event *ev)
{
	struct world *w = arg;

	if (ev->kind == EV_admit && w->n_admitted < MOST)
		w->admitted[w->n_admitted++] = ev->u.admit.request;
	w->preempted += ev->kind == EV_preempt;
}

static void world_open_memory(struct world *w, const char *policy, int32_t slots, int32_t pages,
	const struct memory_specs *specs)
{
	struct err e = { 0 };

	memset(w, 0, sizeof *w);
	assert_int_equal(memory_open(&w->memory, NULL, specs, 16, pages, slots, 0, &e), 0);
	assert_int_equal(prefix_open(&w->prefix, &w->memory, CTX / 16 + 1, &e), 0);
	assert_int_equal(stream_open(&w->stream, 0, NULL, NULL, &e), 0);
	assert_int_equal(sched_open(&w->sched, &w->memory, &w->prefix, &w->stream, slots, &e), 0);
	w->sched.policy = sched_policy_find(policy, &e);
	assert_non_null(w->sched.policy);
	w->sched.budget = 64;
	w->sched.chunk = 32;
	w->sched.max_out = 64;
	w->plan.item = calloc((size_t)slots, sizeof *w->plan.item);
	stream_add(&w->stream, on_event, w);
	stream_begin(&w->stream);
}

static void world_open(struct world *w, const char *policy, int32_t slots, int32_t pages)
{
	const struct memory_specs specs = memory_paged_specs(1, 1, 1);

	world_open_memory(w, policy, slots, pages, &specs);
}

static void world_close(struct world *w)
{
	sched_close(&w->sched);
	prefix_close(&w->prefix);
	memory_close(&w->memory);
	stream_close(&w->stream);
	free(w->plan.item);
}

/* A prompt of n tokens that begin with `first` and of as many to draw. Prompts of the same `first`
 * share. */
static int64_t submit(struct world *w, int32_t first, int32_t n, int32_t drawn)
{
	int32_t ids[CTX];
	struct engine_request q = {
		.kind = EV_REQUEST_KIND_run, .ids = ids, .n_ids = n, .max_tokens = drawn
	};
	struct request *r;
	struct err e = { 0 };

	for (int32_t i = 0; i < n; i++)
		ids[i] = first + i;
	r = request_new(&q, CTX, &w->memory);
	assert_non_null(r);
	r->id = ++w->n;
	assert_true(w->n < MOST);
	assert_int_equal(sched_add(&w->sched, r, &e), 0);
	return r->id;
}

static void compute(struct world *w, const struct plan_item *item)
{
	struct request *r = item->r;

	r->computed += item->n_rows;
	if (item->n_out) {
		r->ids[r->n_ids] = r->ids[r->n_ids - 1] + 1;
		r->n_ids++;
	}
	sched_register(&w->sched, r);
	w->most_overtaken = r->overtaken > w->most_overtaken ? r->overtaken : w->most_overtaken;
	if (r->n_ids == r->limit) {
		w->done[r->id] = w->step;
		sched_remove(&w->sched, r);
		request_free(r);
	}
}

static void step(struct world *w)
{
	w->sched.step = ++w->step;
	w->n_prompts = 0;
	sched_plan(&w->sched, &w->plan);
	assert_true(w->plan.n_rows <= w->sched.budget);
	for (int32_t i = 0; i < w->plan.n_items; i++) {
		if (w->plan.item[i].work == EV_WORK_prefill)
			w->prompts[w->n_prompts++] = w->plan.item[i].r->id;
		assert_false(w->plan.item[i].r->starved);
		compute(w, &w->plan.item[i]);
	}
	memory_check(&w->memory);
	prefix_check(&w->prefix);
	sched_check(&w->sched);
}

static void test_fcfs(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, "fcfs", 2, 64);
	submit(&w, 1000, 100, 2);
	submit(&w, 2000, 60, 2);
	submit(&w, 3000, 3, 2);
	step(&w);
	assert_int_equal(w.n_admitted, 2);
	assert_int_equal(w.prompts[0], 1); /* a chunk each, and the budget is spent */
	assert_int_equal(w.prompts[1], 2);
	for (int i = 0; i < 10; i++)
		step(&w);
	for (int64_t i = 0; i < 3; i++)
		assert_int_equal(w.admitted[i], i + 1);
	assert_int_equal(w.most_overtaken, 0);
	world_close(&w);
}

static void test_shortest(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, "shortest", 3, 64);
	submit(&w, 1000, 100, 40);
	submit(&w, 2000, 60, 40);
	submit(&w, 3000, 3, 40);
	submit(&w, 4000, 60, 40); /* as short as the second: later */
	step(&w);
	assert_int_equal(w.n_admitted, 3);
	assert_int_equal(w.admitted[0], 3);
	assert_int_equal(w.admitted[1], 2);
	assert_int_equal(w.admitted[2], 4);
	/* of the budget of 64: 3 rows, then 32, then the 29 that are left; what runs is in order of
	 * what is left */
	assert_int_equal(w.n_prompts, 3);
	assert_int_equal(w.prompts[0], 3);
	assert_int_equal(w.prompts[1], 2);
	assert_int_equal(w.plan.item[2].n_rows, 29);
	world_close(&w);
}

/* The tokens that count are those that the cache lacks. */
static void test_shortest_by_cache(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, "shortest", 1, 64);
	submit(&w, 1000, 100, 2);
	for (int i = 0; i < 8; i++)
		step(&w);
	assert_true(w.done[1] > 0);
	submit(&w, 2000, 60, 2);
	submit(&w, 1000, 110, 2); /* 96 of them are cached */
	step(&w);
	assert_int_equal(w.admitted[1], 3);
	world_close(&w);
}

/* Short prompts come in every step, for ever: the long one is served all the same, overtaken 8
 * times. */
static void test_nobody_starves(void **state)
{
	struct world w;
	int64_t patient;

	(void)state;
	world_open(&w, "shortest", 2, 64);
	submit(&w, 9000, 4, 20);
	submit(&w, 9500, 4, 20);
	step(&w);
	patient = submit(&w, 20000, 200, 4);
	for (int i = 0; i < 150 && !w.done[patient]; i++) {
		submit(&w, 100 * i, 5, 3);
		submit(&w, 100 * i + 50, 40, 3);
		step(&w);
	}
	assert_true(w.done[patient] > 0);
	assert_int_equal(w.most_overtaken, 8);
	world_close(&w);
}

/* The same where it runs already, and others take the budget. */
static void test_nobody_starves_running(void **state)
{
	struct world w;
	int64_t patient;

	(void)state;
	world_open(&w, "shortest", 8, 200);
	w.sched.budget = 20;
	patient = submit(&w, 20000, 200, 4);
	step(&w);
	assert_int_equal(w.admitted[0], patient);
	for (int i = 0; i < 60 && !w.done[patient]; i++) {
		for (int k = 0; k < 4; k++)
			submit(&w, 1000 * i + 200 * k, 30, 2);
		step(&w);
	}
	assert_true(w.done[patient] > 0);
	assert_true(w.most_overtaken > 0 && w.most_overtaken <= 8);
	world_close(&w);
}

static uint32_t next_random(uint32_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 17;
	*s ^= *s << 5;
	return *s;
}

/* Few pages, many requests: whatever the policy, all end, and every invariant holds. */
static void test_all_end(void **state)
{
	int32_t preempted = 0;

	(void)state;
	for (int p = 0; sched_policies[p]; p++)
		for (uint32_t seed = 1; seed <= 40; seed++) {
			struct world w;
			uint32_t random = seed * 2654435761u;
			int64_t ended = 0;

			world_open(&w, sched_policies[p]->name, 4, 10 + (int32_t)(seed % 7));
			for (int i = 0; i < 800 && ended < 40; i++) {
				if (w.n < 40 && next_random(&random) % 3)
					submit(&w, (int32_t)(next_random(&random) % 3) * 1000,
						1 + (int32_t)(next_random(&random) % 90),
						1 + (int32_t)(next_random(&random) % 60));
				step(&w);
				ended = 0;
				for (int64_t r = 1; r <= w.n; r++)
					ended += w.done[r] > 0;
			}
			if (ended != 40)
				fail_msg("%s, seed %u: %lld of 40 ended", sched_policies[p]->name, seed,
					(long long)ended);
			assert_true(w.most_overtaken <= 8 || w.sched.policy == sched_policies[0]);
			preempted += w.preempted;
			world_close(&w);
		}
	assert_true(preempted > 40);
}

static void test_unknown(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_null(sched_policy_find("longest", &e));
	assert_int_equal(e.code, ERR_USAGE);
	assert_string_equal(e.text, "policy longest: there are fcfs, shortest");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fcfs),
		cmocka_unit_test(test_shortest),
		cmocka_unit_test(test_shortest_by_cache),
		cmocka_unit_test(test_nobody_starves),
		cmocka_unit_test(test_nobody_starves_running),
		cmocka_unit_test(test_all_end),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

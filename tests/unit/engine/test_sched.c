/* The scheduler without a model: what order policies give, that none starves whom its doc does not
 * name, and invariants after every step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sched_toy.h"

static int64_t submit(struct toy *w, int32_t first, int32_t n, int32_t drawn)
{
	return toy_submit(w, (struct toy_submission){ first, n, drawn, NULL, 0, 0 });
}

static void test_fcfs(void **state)
{
	struct toy w;

	(void)state;
	toy_open(&w, "fcfs", 2, 64);
	submit(&w, 1000, 100, 2);
	submit(&w, 2000, 60, 2);
	submit(&w, 3000, 3, 2);
	toy_step(&w);
	assert_int_equal(w.n_admitted, 2);
	assert_int_equal(w.prompts[0], 1); /* a chunk each, and the budget is spent */
	assert_int_equal(w.prompts[1], 2);
	for (int i = 0; i < 10; i++)
		toy_step(&w);
	for (int64_t i = 0; i < 3; i++)
		assert_int_equal(w.admitted[i], i + 1);
	assert_int_equal(w.most_overtaken, 0);
	toy_close(&w);
}

static void test_shortest(void **state)
{
	struct toy w;

	(void)state;
	toy_open(&w, "shortest", 3, 64);
	submit(&w, 1000, 100, 40);
	submit(&w, 2000, 60, 40);
	submit(&w, 3000, 3, 40);
	submit(&w, 4000, 60, 40); /* as short as the second: later */
	toy_step(&w);
	assert_int_equal(w.n_admitted, 3);
	assert_int_equal(w.admitted[0], 3);
	assert_int_equal(w.admitted[1], 2);
	assert_int_equal(w.admitted[2], 4);
	/* of the budget of 64: 3 rows, then 32, then the 29 that are left; what runs is in order of
	 * what is left */
	assert_int_equal(w.n_prompts, 3);
	assert_int_equal(w.prompts[0], 3);
	assert_int_equal(w.prompts[1], 2);
	assert_int_equal(w.replica.plan.item[2].n_rows, 29);
	toy_close(&w);
}

/* The tokens that count are those that the cache lacks. */
static void test_shortest_by_cache(void **state)
{
	struct toy w;

	(void)state;
	toy_open(&w, "shortest", 1, 64);
	submit(&w, 1000, 100, 2);
	for (int i = 0; i < 8; i++)
		toy_step(&w);
	assert_true(w.request[1].done > 0);
	submit(&w, 2000, 60, 2);
	submit(&w, 1000, 110, 2); /* 96 of them are cached */
	toy_step(&w);
	assert_int_equal(w.admitted[1], 3);
	toy_close(&w);
}

/* Short prompts come in every step, for ever: the long one is served all the same, overtaken 8
 * times. */
static void test_nobody_starves(void **state)
{
	struct toy w;
	int64_t patient;

	(void)state;
	toy_open(&w, "shortest", 2, 64);
	submit(&w, 9000, 4, 20);
	submit(&w, 9500, 4, 20);
	toy_step(&w);
	patient = submit(&w, 20000, 200, 4);
	for (int i = 0; i < 150 && !w.request[patient].done; i++) {
		submit(&w, 100 * i, 5, 3);
		submit(&w, 100 * i + 50, 40, 3);
		toy_step(&w);
	}
	assert_true(w.request[patient].done > 0);
	assert_int_equal(w.most_overtaken, 8);
	toy_close(&w);
}

/* The same where it runs already, and others take the budget. */
static void test_nobody_starves_running(void **state)
{
	struct toy w;
	int64_t patient;

	(void)state;
	toy_open(&w, "shortest", 8, 200);
	w.replica.sched.budget = 20;
	patient = submit(&w, 20000, 200, 4);
	toy_step(&w);
	assert_int_equal(w.admitted[0], patient);
	for (int i = 0; i < 60 && !w.request[patient].done; i++) {
		for (int k = 0; k < 4; k++)
			submit(&w, 1000 * i + 200 * k, 30, 2);
		toy_step(&w);
	}
	assert_true(w.request[patient].done > 0);
	assert_true(w.most_overtaken > 0 && w.most_overtaken <= 8);
	toy_close(&w);
}

static bool is_patient(const struct sched_policy *p)
{
	return !strncmp(p->name, "shortest", 8);
}

/* 40 requests of any shape on few pages. Returns how many were preempted. */
static int32_t run_all(const char *policy, uint32_t seed)
{
	struct toy w;
	uint32_t random = seed * 2654435761u;
	int32_t preempted;

	toy_open(&w, policy, 4, 10 + (int32_t)(seed % 7));
	for (int i = 0; i < 1200 && w.ended < 40; i++) {
		if (w.n < 40 && toy_random(&random, 3) > 1)
			toy_submit(
				&w, (struct toy_submission){ toy_random(&random, 3) * 1000, toy_random(&random, 90),
						toy_random(&random, 60), toy_random(&random, 2) > 1 ? "one" : NULL,
						toy_random(&random, 3), 50 * (toy_random(&random, 3) - 1) });
		toy_step(&w);
	}
	if (w.ended != 40)
		fail_msg("%s, seed %u: %lld of 40 ended", policy, seed, (long long)w.ended);
	assert_true(w.most_overtaken <= SCHED_PATIENCE || !is_patient(w.replica.sched.policy));
	preempted = w.preempted;
	toy_close(&w);
	return preempted;
}

/* Few pages, many requests: whatever the policy, all end, and every invariant holds. */
static void test_all_end(void **state)
{
	(void)state;
	for (int p = 0; sched_policies[p]; p++) {
		int32_t preempted = 0;

		for (uint32_t seed = 1; seed <= 40; seed++)
			preempted += run_all(sched_policies[p]->name, seed);
		assert_true(preempted > 20);
	}
}

/* ---- when the policy is not open ---- */

static void test_static(void **state)
{
	struct toy w;

	(void)state;
	toy_open(&w, "static", 3, 64);
	submit(&w, 1000, 20, 9);
	submit(&w, 1000, 20, 3); /* the same prompt: it does not wait for it, or would miss the batch */
	toy_step(&w);
	submit(&w, 3000, 20, 3);
	while (!w.request[1].done) {
		assert_int_equal(w.n_admitted, 2);
		assert_int_equal(w.replica.sched.hold, w.step > 1 ? EV_HOLD_policy : EV_NULL_I);
		toy_step(&w);
	}
	toy_step(&w);
	assert_int_equal(w.request[3].admitted, w.request[1].done + 1);
	assert_false(w.joined);
	toy_close(&w);
}

/* A batch is what waits when nothing runs, whatever comes later. */
static void test_static_never_joins(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 30; seed++) {
		struct toy w;
		uint32_t random = seed;

		toy_open(&w, "static", 4, 12 + (int32_t)(seed % 5));
		for (int i = 0; i < 300; i++) {
			if (toy_random(&random, 8) == 1)
				submit(&w, toy_random(&random, 3) * 1000, toy_random(&random, 60),
					toy_random(&random, 40));
			toy_step(&w);
		}
		assert_true(w.n_admitted > 9);
		assert_false(w.joined);
		toy_close(&w);
	}
}

/* Ten run; those that wait join when they are floor(10 · 0.3) = 3, or after 20 tokens. */
static void test_tgi(void **state)
{
	struct toy w;

	(void)state;
	toy_open(&w, "tgi", 16, 400);
	w.replica.sched.budget = 256;
	for (int i = 0; i < 10; i++)
		submit(&w, 1000 * i, 5, 200);
	toy_step(&w);
	assert_int_equal(w.n_admitted, 10);
	submit(&w, 20000, 70, 2);
	submit(&w, 21000, 5, 2);
	toy_step(&w);
	assert_int_equal(w.n_admitted, 10);
	assert_int_equal(w.replica.sched.hold, EV_HOLD_policy);
	submit(&w, 22000, 5, 2);
	toy_step(&w);
	assert_int_equal(w.n_admitted, 13);
	assert_int_equal(w.replica.plan.n_items, 3); /* the ten pause; prompts are whole */
	assert_int_equal(w.replica.plan.n_rows, 80);
	submit(&w, 23000, 5, 2);
	for (int i = 0; i < 19; i++) { /* counted from 1 */
		toy_step(&w);
		assert_int_equal(w.n_admitted, 13);
	}
	toy_step(&w);
	assert_int_equal(w.n_admitted, 14);
	toy_close(&w);
}

/* A ratio above 1, and one that slots leave no room for. */
static void test_tgi_ratio(void **state)
{
	struct toy w;

	(void)state;
	toy_open(&w, "tgi", 3, 100);
	w.replica.sched.served_ratio = 1.5f;
	submit(&w, 1000, 5, 9);
	submit(&w, 2000, 5, 90);
	toy_step(&w);
	for (int i = 0; i < 3; i++)
		submit(&w, 3000 + 1000 * i, 5, 9);
	while (!w.request[1].done) {
		toy_step(&w);
		assert_int_equal(w.n_admitted, 2); /* three wait, one slot is free */
	}
	toy_step(&w);
	assert_int_equal(w.n_admitted, 4); /* floor(1.5) */
	toy_close(&w);
}

/* ---- whose turn ---- */

/* Rows of prompts, and of newest tokens, in the newest step. */
static int32_t rows_of(const struct toy *w, bool prompts)
{
	int32_t n = 0;

	for (int32_t i = 0; i < w->replica.plan.n_items; i++)
		if (prompts == (w->replica.plan.item[i].work == EV_WORK_prefill))
			n += w->replica.plan.item[i].n_rows;
	return n;
}

/* Two requests decode when a prompt of 100 comes, at 64 rows a step and chunks of 32. */
static void test_turns(void **state)
{
	static const struct {
		const char *policy;
		int32_t prompts[4], newest[4]; /* rows in the steps after its arrival */
	} expected[] = {
		{ "fcfs", { 32, 32, 32, 4 }, { 2, 2, 2, 2 } },
		{ "prefill-first", { 64, 36, 0, 0 }, { 0, 0, 3, 3 } },
		{ "decode-first", { 0, 0, 64, 36 }, { 2, 2, 0, 0 } },
		{ "static", { 0, 0, 64, 36 }, { 2, 2, 0, 0 } },
	};

	(void)state;
	for (size_t p = 0; p < sizeof expected / sizeof *expected; p++) {
		struct toy w;
		const bool long_run = p < 2;

		toy_open(&w, expected[p].policy, 4, 64);
		submit(&w, 1000, 5, long_run ? 50 : 4);
		submit(&w, 2000, 5, long_run ? 50 : 4);
		toy_step(&w);
		toy_step(&w);
		submit(&w, 3000, 100, 5);
		for (int i = 0; i < 4; i++) {
			toy_step(&w);
			assert_int_equal(rows_of(&w, true), expected[p].prompts[i]);
			assert_int_equal(rows_of(&w, false), expected[p].newest[i]);
		}
		toy_close(&w);
	}
}

/* Prompts come without end. Decoding pauses where prompts go first and end with their answers, and
 * no longer. */
static int64_t longest_gap(const char *policy, int32_t drawn)
{
	struct toy w;
	int64_t gap;

	toy_open(&w, policy, 4, 100);
	submit(&w, 1000, 5, 30);
	toy_step(&w);
	for (int i = 0; i < 120; i++) {
		submit(&w, 2000 + 100 * i, 60, drawn);
		toy_step(&w);
	}
	gap = w.request[1].gap;
	if (!w.request[1].done && w.step - w.request[1].newest > gap)
		gap = w.step - w.request[1].newest;
	toy_close(&w);
	return gap;
}

static void test_gaps(void **state)
{
	(void)state;
	assert_int_equal(longest_gap("fcfs", 1), 1);
	assert_int_equal(longest_gap("prefill-first", 1), 120); /* starved, as its file says */
	assert_int_equal(longest_gap("prefill-first", 8), 4);   /* the slots are taken soon */
	assert_int_equal(longest_gap("decode-first", 8), 1);
	assert_int_equal(longest_gap("static", 8), 1);
}

static void test_shortest_job(void **state)
{
	struct toy w;

	(void)state;
	toy_open(&w, "shortest-job", 1, 64);
	submit(&w, 1000, 10, 90);
	submit(&w, 2000, 60, 5);
	submit(&w, 3000, 30, 50);
	while (w.ended < 3)
		toy_step(&w);
	assert_int_equal(w.admitted[0], 2); /* 65, 80, 100 */
	assert_int_equal(w.admitted[1], 3);
	assert_int_equal(w.admitted[2], 1);
	toy_close(&w);
}

/* ---- classes, users, deadlines ---- */

static int64_t ask(struct toy *w, int32_t first, const char *user, int32_t priority, int32_t due)
{
	return toy_submit(w, (struct toy_submission){ first, 20, 6, user, priority, due });
}

static void test_priority(void **state)
{
	struct toy w;

	(void)state;
	toy_open(&w, "priority", 1, 64);
	ask(&w, 1000, NULL, 0, 0);
	ask(&w, 2000, NULL, 1, 0);
	ask(&w, 3000, NULL, -1, 0);
	ask(&w, 4000, NULL, 0, 0);
	while (w.ended < 4)
		toy_step(&w);
	assert_int_equal(w.admitted[0], 3);
	assert_int_equal(w.admitted[1], 1);
	assert_int_equal(w.admitted[2], 4);
	assert_int_equal(w.admitted[3], 2);
	toy_close(&w);
}

/* Three run that pages cannot hold together. The highest class of those admitted later gives up its
 * pages, not the youngest. */
static void test_priority_victim(void **state)
{
	struct toy w;

	(void)state;
	toy_open(&w, "priority", 3, 9);
	toy_submit(&w, (struct toy_submission){ 1000, 30, 60, NULL, 0, 0 });
	toy_step(&w);
	toy_submit(&w, (struct toy_submission){ 2000, 30, 60, NULL, 5, 0 });
	toy_step(&w);
	toy_submit(&w, (struct toy_submission){ 3000, 30, 60, NULL, 1, 0 });
	while (!w.preempted)
		toy_step(&w);
	assert_int_equal(w.n_admitted, 3);
	assert_int_equal(w.replica.sched.queue[0]->id, 2);
	toy_close(&w);
}

/* Served as its class allows: never, as long as lower ones come. Those without a deadline likewise.
 */
static void test_classes_starve(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct toy w;
		int64_t patient;

		toy_open(&w, i ? "deadline" : "priority", 1, 64);
		ask(&w, 1000, NULL, 0, 10);
		toy_step(&w);
		patient = ask(&w, 2000, NULL, 1, 0);
		for (int k = 0; k < 100; k++) {
			if (k % 4 == 0)
				ask(&w, 3000 + 100 * k, NULL, 0, 100);
			toy_step(&w);
		}
		assert_int_equal(w.request[patient].admitted, 0);
		while (w.ended < w.n)
			toy_step(&w);
		assert_int_equal(w.request[patient].done, w.step);
		toy_close(&w);
	}
}

/* Of those that wait the one that is due first, whenever it came. */
static void test_deadline(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct toy w;
		uint32_t random = seed;
		int64_t due[TOY_MOST] = { 0 };

		toy_open(&w, "deadline", 2, 64);
		for (int i = 0; i < 200; i++) {
			const int64_t before = w.n_admitted;

			if (toy_random(&random, 3) == 1) {
				const int32_t in = toy_random(&random, 100);
				const int64_t id = ask(&w, 100 * i, NULL, 0, in);

				due[id] = w.step + in;
			}
			toy_step(&w);
			for (int64_t a = before; a < w.n_admitted; a++)
				for (int32_t q = 0; q < w.replica.sched.n_queue; q++)
					assert_true(due[w.admitted[a]] <= due[w.replica.sched.queue[q]->id]);
		}
		assert_true(w.n_admitted > 20);
		toy_close(&w);
	}
}

static bool waits(const struct toy *w, const char *user)
{
	for (int32_t i = 0; i < w->replica.sched.n_queue; i++)
		if (!strcmp(w->replica.sched.queue[i]->account->name, user))
			return true;
	return false;
}

static int64_t served(const struct toy *w, const char *user)
{
	for (int32_t i = 0; i < w->replica.sched.n_users; i++)
		if (!strcmp(w->replica.sched.user[i]->name, user))
			return w->replica.sched.user[i]->served;
	return -1;
}

/* Counters of two users, and the most by which they part while both wait; by what more one was
 * served since both do. */
struct race {
	bool on;
	int64_t lead, apart, since; /* lead: when both began to wait */
};

static void race_step(struct race *r, const struct toy *w)
{
	const int64_t lead = served(w, "short") - served(w, "long");
	const bool on = waits(w, "short") && waits(w, "long");

	if (on && !r->on)
		r->lead = lead;
	r->on = on;
	if (on && llabs(lead) > r->apart)
		r->apart = llabs(lead);
	if (on && llabs(lead - r->lead) > r->since)
		r->since = llabs(lead - r->lead);
}

/* Sheng et al. (2024): counters of users who wait are at most U = max(w_p L, w_q M) apart
 * (lemma 4.3), so one of them is served at most 2 U more while both wait (theorem 4.4). L is the
 * longest prompt, M the tokens that a batch holds, w_p 1 and w_q 2. A prompt is counted when it is
 * admitted, so of M only what is still to be drawn counts beside one prompt: that is less, and
 * holds here. One sends many short requests, the other long ones, as many at once as there are
 * slots. */
static void test_fair_bound(void **state)
{
	enum {
		LONGEST = 120,
		SLOTS = 4,
		DRAWN = 60,
		LEMMA = 2 * SLOTS * (LONGEST + DRAWN),
		HERE = LONGEST + 2 * SLOTS * DRAWN,
	};
	struct race race = { 0 };

	(void)state;
	assert_true(HERE < LEMMA);
	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct toy w;
		uint32_t random = seed;

		toy_open(&w, "fair", SLOTS, 60);
		race.on = false;
		for (int i = 0; i < 500; i++) {
			toy_submit(
				&w, (struct toy_submission){ 100 * i, toy_random(&random, 10), 5, "short", 0, 0 });
			for (int k = 0; i % 50 == 0 && k < SLOTS; k++)
				toy_submit(
					&w, (struct toy_submission){ 100 * i + 7 * k, LONGEST, DRAWN, "long", 0, 0 });
			toy_step(&w);
			race_step(&race, &w);
		}
		assert_true(served(&w, "long") > 1000);
		toy_close(&w);
	}
	assert_true(race.apart > LONGEST);
	assert_true(race.apart <= HERE);
	assert_true(race.since <= 2 * HERE);
}

/* Who was away gets no credit for it, and who sends more gets no more. */
static void test_fair_lift(void **state)
{
	struct toy w;
	int64_t busy = 0, late = 0;

	(void)state;
	toy_open(&w, "fair", 1, 64);
	ask(&w, 1, "late", 0, 0);
	for (int i = 0; i < 100; i++)
		ask(&w, 100 * i, "busy", 0, 0);
	while (w.ended < 30)
		toy_step(&w);
	for (int i = 0; i < 20; i++)
		ask(&w, 20000 + 100 * i, "late", 0, 0);
	assert_true(llabs(served(&w, "late") - served(&w, "busy")) <= 2 * (20 + 2 * 6));
	for (int64_t at = w.n_admitted; w.n_admitted < at + 20;)
		toy_step(&w);
	for (int64_t a = w.n_admitted - 20; a < w.n_admitted; a++)
		*(w.admitted[a] > 101 ? &late : &busy) += 1;
	assert_true(late >= 9 && late <= 11);
	toy_close(&w);
}

/* Users who would be lifted if they came back are forgotten. */
static void test_fair_forgets(void **state)
{
	struct toy w;

	(void)state;
	toy_open(&w, "fair", 2, 64);
	for (int i = 0; i < 300; i++) {
		char name[16];

		snprintf(name, sizeof name, "user %d", i);
		ask(&w, 100 * i, name, 0, 0);
		for (int k = 0; k < 8; k++)
			toy_step(&w);
	}
	assert_true(w.replica.sched.n_users <= 4);
	toy_close(&w);
}

static void test_unknown(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_null(sched_policy_find("longest", &e));
	assert_int_equal(e.code, ERR_USAGE);
	assert_string_equal(e.text,
		"policy longest: there are fcfs, static, prefill-first, decode-first, tgi, shortest, "
		"shortest-job, priority, fair, deadline");
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
		cmocka_unit_test(test_static),
		cmocka_unit_test(test_static_never_joins),
		cmocka_unit_test(test_tgi),
		cmocka_unit_test(test_tgi_ratio),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_shortest_job),
		cmocka_unit_test(test_priority),
		cmocka_unit_test(test_priority_victim),
		cmocka_unit_test(test_classes_starve),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_fair_bound),
		cmocka_unit_test(test_fair_lift),
		cmocka_unit_test(test_fair_forgets),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

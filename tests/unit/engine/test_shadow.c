/* Shadow mode: what is counted beside a run is what happens when the drafter is switched on, step
 * by step; the run itself is not touched; and the cost of steps and the predictions made of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/engine_impl.h"
#include "engine/core/measure.h"
#include "engine/draft/shadow.h"
#include "tests/support/invariants.h"
#include "tests/support/tiny.h"

enum { TOKENS = 400, SPECS = 8 };

struct told {
	bool counted; /* the time: no cost was measured */
	int32_t id[4][TOKENS], n[4];
	int64_t hash[4][TOKENS], pages[512];
	int n_pages;
	int64_t steps, tokens, accepted[DRAFT_MAX], verified[DRAFT_MAX]; /* of drafts that were checked
																	  */
	int n_costs, n_choices;
	int64_t drafters_ns; /* of all steps */
	struct {
		char drafter[64];
		int64_t steps, tokens, used;
		uint32_t verified[DRAFT_MAX], accepted[DRAFT_MAX];
		double predicted;
	} shadow[SPECS];
};

static void note_shadow(struct told *w, const struct ev_shadow *s)
{
	for (int i = 0; i < SPECS; i++) {
		if (*w->shadow[i].drafter &&
			(strlen(w->shadow[i].drafter) != s->drafter.size ||
				memcmp(w->shadow[i].drafter, s->drafter.data, s->drafter.size)))
			continue;
		memcpy(w->shadow[i].drafter, s->drafter.data, s->drafter.size);
		w->shadow[i].steps = s->steps;
		w->shadow[i].tokens = s->tokens;
		w->shadow[i].used = s->used;
		w->shadow[i].predicted = s->predicted;
		if (s->verified.size == sizeof w->shadow[i].verified) {
			memcpy(w->shadow[i].verified, s->verified.data, s->verified.size);
			memcpy(w->shadow[i].accepted, s->accepted.data, s->accepted.size);
		}
		return;
	}
	fail();
}

static void on_event(void *arg, const struct event *ev)
{
	struct told *w = arg;

	if (ev->kind == EV_token) {
		int64_t r = ev->u.token.request;

		w->id[r][w->n[r]] = (int32_t)ev->u.token.id;
		w->hash[r][w->n[r]++] = ev->u.token.hash;
		w->tokens++;
	} else if (ev->kind == EV_draft && ev->u.draft.verdict != EV_VERDICT_discarded) {
		w->verified[ev->u.draft.nth - 1]++;
		w->accepted[ev->u.draft.nth - 1] += ev->u.draft.verdict == EV_VERDICT_accepted;
	} else if (ev->kind == EV_page && w->n_pages < 512) {
		w->pages[w->n_pages++] = ev->u.page.page * 100 + ev->u.page.action;
	} else if (ev->kind == EV_step) {
		const struct ev_step *s = &ev->u.step;

		w->steps += s->decode_rows;
		assert_true(
			s->drafters_ns >= 0 && s->kernel_ns > 0 && s->drafters_ns <= s->ns - s->kernel_ns);
		w->drafters_ns += s->drafters_ns;
	} else if (ev->kind == EV_cost) {
		assert_true(ev->u.cost.ns > 0 && (w->counted || ev->u.cost.runs > 0));
		w->n_costs++;
	} else if (ev->kind == EV_choice) {
		w->n_choices++;
	} else if (ev->kind == EV_shadow) {
		note_shadow(w, &ev->u.shadow);
	}
}

/* cost: of counted time, as in struct engine_options. */
static struct engine *open_counting(
	struct told *w, const char *spec, const char *shadow, const double *cost)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *e;
	struct err err = { 0 };

	memset(w, 0, sizeof *w);
	w->counted = cost != NULL;
	o.model = tiny_model;
	o.threads = 1;
	o.ctx = 512;
	o.slots = 2;
	o.spec = spec;
	o.shadow = shadow;
	o.counted_cost = cost;
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, on_event, w);
	engine_begin(e, NULL);
	return e;
}

static struct engine *open_engine(struct told *w, const char *spec, const char *shadow)
{
	return open_counting(w, spec, shadow, NULL);
}

/* A text that repeats itself with flaws, so that guesses are right and wrong. */
static void submit(struct engine *e, int which, int32_t tokens)
{
	int32_t ids[90];
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = 60 + 10 * which,
		.max_tokens = tokens,
		.params = SAMPLE_DEFAULTS,
		.sample = which,
		.ignore_end = true };
	struct err err = { 0 };

	for (int i = 0; i < q.n_ids; i++)
		ids[i] = i % 7 == 3 ? i / 7 % 3 : 3 + i % 7 + which;
	q.params.temperature = which ? 0.4f : 0;
	if (engine_submit(e, &q, &err) < 0)
		fail_msg("%s", err.text);
}

static void run(struct engine *e)
{
	struct err err = { 0 };
	int rc;

	while ((rc = engine_step(e, &err)) > 0)
		engine_check(e);
	if (rc < 0)
		fail_msg("%s", err.text);
}

static void run_one(struct told *w, const char *spec, const char *shadow, int requests)
{
	struct engine *e = open_engine(w, spec, shadow);

	for (int i = 0; i < requests; i++)
		submit(e, i, 150);
	run(e);
	engine_close(e);
}

static void test_untouched(void **state)
{
	static struct told plain, with;

	(void)state;
	run_one(&plain, "off", "off", 3);
	assert_int_equal(plain.n_costs, 0);
	assert_int_equal(plain.drafters_ns, 0);
	for (int i = 0; i < 2; i++) {
		run_one(&with, "off", i ? "free" : "all", 3);
		assert_true(with.n_costs > 17);
		assert_true(with.drafters_ns > 0);
		assert_memory_equal(plain.id, with.id, sizeof plain.id);
		assert_memory_equal(plain.hash, with.hash, sizeof plain.hash);
		assert_int_equal(plain.n_pages, with.n_pages);
		assert_memory_equal(plain.pages, with.pages, sizeof plain.pages);
		assert_true(with.shadow[1].steps > 0);
	}
}

/* Beside plain decoding it counts what the drafter does when it is on, but for the last guess,
 * which the end of the request leaves open. */
static void test_exact(void **state)
{
	static const char *const specs[] = { "ngram:1", "ngram:4", "ngram:8,1,3" };
	static struct told shadow, real;

	(void)state;
	run_one(&shadow, "off", "ngram:1+ngram:4+ngram:8,1,3", 1);
	for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
		int k = 0;

		run_one(&real, specs[i], "off", 1);
		assert_true(real.drafters_ns > 0);
		while (strcmp(shadow.shadow[k].drafter, specs[i]) != 0)
			assert_true(++k < SPECS);
		assert_true(real.accepted[0] > 2 && real.verified[0] > real.accepted[0]);
		assert_in_range(real.steps - shadow.shadow[k].steps, 0, 1);
		for (int p = 0; p < DRAFT_MAX; p++) {
			assert_in_range(real.verified[p] - shadow.shadow[k].verified[p], 0, 1);
			assert_in_range(real.accepted[p] - shadow.shadow[k].accepted[p], 0, 1);
		}
		assert_true(shadow.shadow[k].predicted > 0);
	}
}

/* The one that is on is scored by its own drafts, once. */
static void test_used(void **state)
{
	static struct told w;
	int k = 0;

	(void)state;
	run_one(&w, "ngram:4", "ngram:4+ngram:2", 1);
	while (strcmp(w.shadow[k].drafter, "ngram:4") != 0)
		assert_true(++k < SPECS);
	assert_int_equal(w.shadow[k].used, 1);
	assert_in_range(w.steps - w.shadow[k].steps, 0, 1);
	assert_in_range(w.accepted[0] - w.shadow[k].accepted[0], 0, 1);
}

static void test_settings(void **state)
{
	static const char *const bad[] = { "nobody", "ngram:4+", "+", "", "ngram:99", "off+ngram",
		"auto", "free+ngram" };
	static struct told w;
	struct engine *e = open_engine(&w, "off", NULL);
	char now[128];

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct err err = { 0 };

		assert_int_equal(engine_set(e, "shadow", bad[i], &err), -1);
		assert_int_equal(err.code, ERR_USAGE);
		assert_int_equal(engine_get(e, "shadow", now, sizeof now), 0);
		assert_string_equal(now, "off");
	}
	/* on, other, off, while requests run and go back */
	submit(e, 0, 150);
	submit(e, 1, 150);
	for (int i = 0; i < 90; i++) {
		struct err err = { 0 };

		if (i % 9 == 0 && engine_set(e, "shadow", i % 2 ? "free" : i % 3 ? "ngram:3" : "off", &err))
			fail_msg("%s", err.text);
		if (i % 25 == 24 && engine_rewind(e, 1, 60 + i / 5, -1, &err))
			fail_msg("%s", err.text);
		assert_int_equal(engine_step(e, &err), 1);
	}
	run(e);
	engine_close(e);
}

static void test_cost(void **state)
{
	static struct told w;
	struct engine *e = open_engine(&w, "off", "free");
	const struct draft_cost *c = &e->measure.cost;

	(void)state;
	for (int rows = 1; rows < DRAFT_COST_ROWS; rows++)
		assert_true(c->ns[rows] > 0 && c->ns[rows] <= c->ns[rows + 1]);
	assert_true(draft_cost_ns(c, 2.5, 0) >= draft_cost_ns(c, 2, 0) &&
				draft_cost_ns(c, 80, 0) >= draft_cost_ns(c, 64, 0));
	assert_true(draft_cost_ns(c, 4, 300) >= draft_cost_ns(c, 4, 0));
	engine_close(e);
}

/* c(K) = 1 + (K - 1) / 10: arithmetic by hand. */
static void test_predictions(void **state)
{
	static struct draft_cost c;
	struct shadow_sums s = {
		.steps = 10, .tokens = 24, .have = { 10, 10, 10 }, .hit = { 8, 5, 1 }
	};
	double speed;

	(void)state;
	c.n = 1;
	c.drift = 1;
	for (int rows = 1; rows <= DRAFT_COST_ROWS; rows++)
		c.ns[rows] = 1000 + 100 * (rows - 1);
	assert_float_equal(shadow_speed(&s, &c, 1, 1), 1.8 / 1.1, 1e-6);
	assert_float_equal(shadow_speed(&s, &c, 3, 1), 2.4 / 1.3, 1e-6);
	assert_int_equal(shadow_best(&s, &c, DRAFT_NODES, 1, &speed), 2);
	assert_float_equal(speed, 2.3 / 1.2, 1e-6);
	assert_int_equal(shadow_best(&s, &c, 1, 1, &speed), 1);
	/* 500 ns each guess: half a step, dearer than what the third is worth */
	s.propose_ns = 30 * 500;
	assert_float_equal(shadow_speed(&s, &c, 2, 1), 2.3 / 2.2, 1e-6);
	assert_int_equal(shadow_best(&s, &c, DRAFT_NODES, 1, &speed), 1);
	s.propose_ns = 30 * 2000;
	assert_int_equal(shadow_best(&s, &c, DRAFT_NODES, 1, &speed), 0);
	assert_float_equal(speed, 1, 0);
	/* two requests: two rows more a guess, shared by two */
	s.propose_ns = 0;
	assert_float_equal(shadow_speed(&s, &c, 1, 2), 1.8 / (1300.0 / 1100), 1e-6);
	memset(&s, 0, sizeof s);
	assert_true(isnan(shadow_speed(&s, &c, 4, 1)));
}

/* auto gives the text of plain decoding, says when it changes its mind, and sees which drafter is
 * the better one: by counted time, since the clock of a busy machine can make any guess pay. */
static void test_auto(void **state)
{
	static struct told plain, w;
	double pays[DRAFT_COST_ROWS + 1], dear[DRAFT_COST_ROWS + 1];
	struct engine *e;

	(void)state;
	for (int rows = 0; rows <= DRAFT_COST_ROWS; rows++) {
		pays[rows] = 1e6 * (1 + 0.1 * (rows - 1));
		dear[rows] = 1e6 * rows;
	}
	run_one(&plain, "off", "off", 3);
	e = open_counting(&w, "auto:ngram:1+ngram:4+skip:1,2", NULL, pays);
	for (int i = 0; i < 3; i++)
		submit(e, i, 150);
	run(e);
	engine_close(e);
	assert_memory_equal(plain.id, w.id, sizeof plain.id);
	assert_memory_equal(plain.hash, w.hash, sizeof plain.hash);
	assert_true(w.n_choices > 0 && w.accepted[0] > 5);
	assert_true(w.steps < plain.steps);
	/* where a row more costs a step more, no drafter pays */
	e = open_counting(&w, "auto:ngram:1+ngram:4", NULL, dear);
	for (int i = 0; i < 2; i++)
		submit(e, i, 150);
	run(e);
	engine_close(e);
	assert_int_equal(w.accepted[0] + w.verified[0], 0);
}

/* ---- by counted time ---- */

struct counted {
	double ns, tokens, at; /* of the steps behind prompts; the clock when the step before ended */
	struct engine *e;
	int n_choices;
	uint64_t drafts;  /* of who guessed what, where */
	double predicted; /* of the first drafter in the shadow, at the end */
};

static void on_counted(void *arg, const struct event *ev)
{
	struct counted *c = arg;

	if (ev->kind == EV_step) {
		c->ns += ev->u.step.prefill_rows ? 0 : engine_counted_ns(c->e) - c->at;
		c->tokens += ev->u.step.prefill_rows ? 0 : (double)ev->u.step.tokens;
		c->at = engine_counted_ns(c->e);
	} else if (ev->kind == EV_choice) {
		c->n_choices++;
	} else if (ev->kind == EV_draft) {
		c->drafts =
			(c->drafts ^ (uint64_t)(ev->u.draft.pos * 64 + ev->u.draft.nth)) * 0x100000001b3u;
	}
}

/* A session of prompts by turns: some repeat themselves, in some there is nothing to find. Rows
 * cost `slope` of a step each. */
static void run_session(struct counted *c, const char *spec, const char *shadow, double slope)
{
	struct engine_shadow s;
	double cost[DRAFT_COST_ROWS + 1];
	struct engine_options o = ENGINE_DEFAULTS;
	struct err err = { 0 };

	memset(c, 0, sizeof *c);
	for (int i = 0; i <= DRAFT_COST_ROWS; i++)
		cost[i] = 1e6 * (1 + slope * (i - 1));
	o.model = tiny_model;
	o.threads = 1;
	o.ctx = 512;
	o.slots = 2;
	o.prefix_cache = false;
	o.spec = spec;
	o.shadow = shadow;
	o.counted_cost = cost;
	if (engine_open(&c->e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(c->e, on_counted, c);
	engine_begin(c->e, NULL);
	for (int i = 0; i < 6; i++) {
		int32_t ids[TINY_PROMPT];
		struct engine_request q = { .kind = EV_REQUEST_KIND_run,
			.ids = ids,
			.n_ids = TINY_PROMPT,
			.max_tokens = 80,
			.params = SAMPLE_DEFAULTS,
			.ignore_end = true };

		q.params.temperature = tiny_prompt(i, ids);
		if (engine_submit(c->e, &q, &err) < 0)
			fail_msg("%s", err.text);
		run(c->e);
	}
	c->predicted = engine_shadow_at(c->e, 0, &s) ? s.speed : 0;
	engine_close(c->e);
}

/* The time is what the table says: plain decoding's is a step for each token. */
static void test_counted_clock(void **state)
{
	struct counted plain, first, again;

	(void)state;
	run_session(&plain, "off", "off", 0.1);
	assert_true(plain.tokens > 400);
	assert_float_equal(plain.ns, 1e6 * plain.tokens, 1);
	run_session(&first, "ngram:4", "off", 0.1);
	assert_true(first.ns < 0.9 * plain.ns);
	run_session(&first, "auto:ngram:4+skip:1,2+lookahead", "off", 0.1);
	run_session(&again, "auto:ngram:4+skip:1,2+lookahead", "off", 0.1);
	assert_true(
		first.ns == again.ns && first.drafts == again.drafts && first.n_choices == again.n_choices);
}

/* What shadow mode says beside plain decoding is what comes when the drafter is switched on: with
 * time counted, within a twentieth. What is not alike are the ends of answers, which cut guesses
 * short. */
static void test_predictions_hold(void **state)
{
	static const char *const specs[] = { "ngram:4", "ngram:8,1,3", "skip:1,2", "skip:1,4,0" };
	struct counted plain, with;

	(void)state;
	for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
		double speed;

		run_session(&plain, "off", specs[i], 0.1);
		run_session(&with, specs[i], "off", 0.1);
		speed = 1e6 / (with.ns / with.tokens);
		if (fabs(plain.predicted / speed - 1) > 0.05)
			fail_msg("%s: predicted %.3f, came %.3f", specs[i], plain.predicted, speed);
	}
}

/* On machines where rows are dear, cheap, and almost free, a session that changes under it is
 * nearly as fast with auto as with the best of the others, which it does not know, all the time of
 * learning counted. */
static void test_auto_best(void **state)
{
	static const char *const fixed[] = { "off", "ngram:4", "lookahead", "skip:1,2" };
	static const double slopes[] = { 0.5, 0.1, 0.01 };
	struct counted best = { 0 }, c;

	(void)state;
	for (size_t k = 0; k < sizeof slopes / sizeof *slopes; k++) {
		for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
			run_session(&c, fixed[i], "off", slopes[k]);
			if (!i || c.ns / c.tokens < best.ns / best.tokens)
				best = c;
		}
		run_session(&c, "auto:ngram:4+lookahead+skip:1,2", "off", slopes[k]);
		if (best.ns / best.tokens < 0.95 * c.ns / c.tokens)
			fail_msg("rows at %g: auto takes %.3f of a step for a token, the best %.3f", slopes[k],
				c.ns / c.tokens / 1e6, best.ns / best.tokens / 1e6);
	}
}

static void test_auto_args(void **state)
{
	static const char *const bad[] = { "auto:nobody", "auto:off", "auto:auto",
		"auto:ngram:4+ngram:77" };
	static struct told w;
	struct engine *e = open_engine(&w, "off", NULL);

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct err err = { 0 };

		assert_int_equal(engine_set(e, "spec", bad[i], &err), -1);
		assert_int_equal(err.code, ERR_USAGE);
	}
	engine_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_predictions),
		cmocka_unit_test(test_cost),
		cmocka_unit_test(test_untouched),
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_used),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_counted_clock),
		cmocka_unit_test(test_auto_best),
		cmocka_unit_test(test_predictions_hold),
		cmocka_unit_test(test_auto),
		cmocka_unit_test(test_auto_args),
	};

	return cmocka_run_group_tests(tests, tiny_model_make, tiny_model_drop);
}

/* Draws that the threads of the kernels do side by side: every token event, with its candidates and
 * what each stage left, is the one of an engine with one thread, which draws one row after the
 * other. Some requests cannot be drawn ahead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/core/engine_impl.h"
#include "tests/support/tiny.h"

enum { REQUESTS = 9, PROMPT = 20, TOKENS = 30, SPAN_BYTES = 1024 };

/* Of a token what a draw gives. */
struct told {
	int32_t id, survivors, rank;
	double p, p_draw, entropy;
	size_t n_candidates, n_stages;
	char candidates[SPAN_BYTES], stages[SPAN_BYTES];
};
struct run {
	struct told told[REQUESTS][TOKENS];
	int n[REQUESTS];
	int32_t most_ahead;
};

static size_t keep(char *to, struct ev_span from)
{
	assert_true(from.size <= SPAN_BYTES);
	memcpy(to, from.data, from.size);
	return from.size;
}

static void on_event(void *arg, const struct event *ev)
{
	struct run *run = arg;
	const struct ev_token *t = &ev->u.token;
	struct told *to;

	if (ev->kind != EV_token)
		return;
	to = &run->told[t->request - 1][run->n[t->request - 1]++];
	to->id = (int32_t)t->id;
	to->survivors = (int32_t)t->survivors;
	to->rank = (int32_t)t->rank;
	to->p = t->p;
	to->p_draw = t->p_draw;
	to->entropy = t->entropy;
	to->n_candidates = keep(to->candidates, t->candidates);
	to->n_stages = keep(to->stages, t->stages);
}

/* One of each kind: all cuts, greedy, none, a penalty, a bias, more candidates, a grammar. */
static void submit(struct engine *e, int n)
{
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.n_ids = PROMPT + n,
		.max_tokens = TOKENS,
		.params = SAMPLE_DEFAULTS,
		.text = "test",
		.ignore_end = true };
	int32_t ids[PROMPT + REQUESTS];
	struct err err = { 0 };

	for (int k = 0; k < q.n_ids; k++)
		ids[k] = 10 + (k * 7 + n) % 40;
	q.ids = ids;
	q.params.seed = (uint64_t)n;
	q.params.temperature = n == 1 ? 0 : 1.5f;
	if (n == 2)
		q.params.top_k = 0, q.params.top_p = 1, q.params.min_p = 0;
	q.params.repeat_penalty = n == 3 ? 1.3f : 1;
	if (n == 4)
		sample_bias_add(&q.params.logit_bias, 30, 2, NULL);
	q.top = n == 5 ? 12 : 0;
	q.grammar = n == 6 ? "regex:[a-z ]*" : NULL;
	q.ignore_end = n != 6;
	if (engine_submit(e, &q, &err) < 0)
		fail_msg("%s", err.text);
}

static void run(struct run *r, int32_t threads, const char *spec)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *e;
	struct err err = { 0 };

	memset(r, 0, sizeof *r);
	o.model = tiny_model;
	o.threads = threads;
	o.slots = REQUESTS;
	o.spec = spec;
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, on_event, r);
	engine_begin(e, NULL);
	for (int n = 0; n < REQUESTS; n++)
		submit(e, n);
	while (!engine_idle(e)) {
		assert_true(engine_step(e, &err) >= 0);
		r->most_ahead = e->ahead.n > r->most_ahead ? e->ahead.n : r->most_ahead;
	}
	engine_close(e);
}

static void check(const char *spec, int32_t ahead)
{
	static struct run one, several;

	run(&one, 1, spec);
	assert_int_equal(one.most_ahead, 0);
	for (int32_t threads = 2; threads < 6; threads++) {
		run(&several, threads, spec);
		assert_in_range(several.most_ahead, ahead, REQUESTS - 2);
		assert_memory_equal(one.n, several.n, sizeof one.n);
		assert_memory_equal(one.told, several.told, sizeof one.told);
	}
}

static void test_same(void **state)
{
	(void)state;
	check("off", REQUESTS - 2);
	check("ngram", 4); /* of drafted tokens each draw waits for the one before */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same),
	};

	return cmocka_run_group_tests_name("ahead", tests, tiny_model_make, tiny_model_drop);
}

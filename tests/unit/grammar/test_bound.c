/* Requests that a grammar rules: whatever batch, drafter, rule, pages and preemption, their tokens
 * are the same bit for bit, and every one of them follows the grammar; runs without a choice take
 * fewer steps; what cannot be bound is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/engine_impl.h"
#include "tests/support/tiny.h"

enum { MOST = 96, REQUESTS = 6, PROMPT = 24 };

static const char *const specs[REQUESTS] = { "json", "regex:[a-f]{3}(-[0-9]{2}){2,4}",
	"choice:alpha|alphabet|beta",
	"gbnf:root ::= \"<list>\" item (\", \" item){1,3} \"</list>\"\nitem ::= [a-z]{1,5}",
	"schema:{\"type\":\"object\",\"properties\":{\"kind\":{\"enum\":[\"one\",\"two\"]},"
	"\"n\":{\"type\":\"integer\",\"minimum\":3,\"maximum\":17}},\"required\":[\"kind\",\"n\"],"
	"\"additionalProperties\":false}",
	"gbnf:root ::= %until(9) \"</t>\" %token \"</t>\" %token \"<|im_start|>\" [a-c]{2}" };

struct seen {
	int32_t id[REQUESTS][MOST];
	int64_t hash[REQUESTS][MOST];
	int n[REQUESTS], finish[REQUESTS], n_bound, n_forced, n_forbidden;
	int64_t first, steps;
	char why[128];
};

static char *model;

static void on_event(void *arg, const struct event *ev)
{
	struct seen *s = arg;

	if (ev->kind == EV_token) {
		const int64_t i = ev->u.token.request - s->first;

		assert_true(i >= 0 && i < REQUESTS && s->n[i] < MOST);
		s->id[i][s->n[i]] = (int32_t)ev->u.token.id;
		s->hash[i][s->n[i]++] = ev->u.token.hash;
	} else if (ev->kind == EV_finish) {
		s->finish[ev->u.finish.request - s->first] = (int)ev->u.finish.reason;
		if (ev->u.finish.why.data)
			snprintf(s->why, sizeof s->why, "%.*s", (int)ev->u.finish.why.size,
				(const char *)ev->u.finish.why.data);
	} else if (ev->kind == EV_bound) {
		s->n_bound++;
		s->n_forced += ev->u.bound.forced == 1;
		s->n_forbidden += ev->u.bound.forbidden.size > 0;
		assert_true(ev->u.bound.allowed > 0);
	}
}

static struct engine_request request(int i, float temperature)
{
	static int32_t prompt[REQUESTS][PROMPT];
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = prompt[i],
		.n_ids = PROMPT,
		.max_tokens = MOST,
		.params = SAMPLE_DEFAULTS,
		.sample = i,
		.grammar = specs[i] };

	for (int k = 0; k < PROMPT; k++)
		prompt[i][k] = 3 + (k * 7 + i) % 200;
	q.params.temperature = temperature;
	q.params.top_p = 0.95f;
	q.params.top_k = 40;
	return q;
}

static struct engine *open_engine(struct engine_options o, struct seen *s)
{
	struct engine *e;
	struct err err = { 0 };

	o.model = model;
	o.threads = 1;
	o.ctx = 256;
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	memset(s, 0, sizeof *s);
	s->first = 1;
	engine_add_sink(e, on_event, s);
	engine_begin(e, NULL);
	return e;
}

static void run(struct engine *e, struct seen *s)
{
	struct err err = { 0 };

	while (engine_step(e, &err) > 0)
		;
	assert_int_equal(err.code, 0);
	s->steps = engine_steps(e);
}

static void answer_all(struct engine_options o, float temperature, bool together, struct seen *s)
{
	struct engine *e = open_engine(o, s);
	struct err err = { 0 };

	for (int i = 0; i < REQUESTS; i++) {
		const struct engine_request q = request(i, temperature);

		if (engine_submit(e, &q, &err) < 0)
			fail_msg("%s", err.text);
		if (!together)
			run(e, s);
	}
	run(e, s);
	engine_close(e);
}

static void same(const struct seen *a, const struct seen *b)
{
	for (int i = 0; i < REQUESTS; i++) {
		assert_int_equal(a->n[i], b->n[i]);
		assert_memory_equal(a->id[i], b->id[i], (size_t)a->n[i] * sizeof *a->id[i]);
		assert_memory_equal(a->hash[i], b->hash[i], (size_t)a->n[i] * sizeof *a->hash[i]);
		assert_int_equal(a->finish[i], b->finish[i]);
	}
}

/* By a constraint of its own, byte by byte: a whole answer ends where the text may. */
static void follows(const struct seen *s)
{
	struct engine_options o = ENGINE_DEFAULTS;
	static struct seen ignored;
	struct engine *e = open_engine(o, &ignored);
	struct err err = { 0 };

	for (int i = 0; i < REQUESTS; i++) {
		struct bound *b;
		int32_t n = s->n[i], state;

		assert_int_equal(bound_open(&b, &e->constraints, e->tokenizer, specs[i], 0, &err), 0);
		if (s->finish[i] == EV_FINISH_end)
			n--;
		state = bound_state(b, s->id[i], n);
		assert_true(state >= 0);
		if (s->finish[i] != EV_FINISH_length)
			assert_true(b->constraint->automaton.state[state].ends);
		bound_close(b);
	}
	engine_close(e);
}

static void laws(void **state)
{
	static struct seen plain, other;
	struct engine_options o = ENGINE_DEFAULTS;

	(void)state;
	for (int hot = 0; hot < 2; hot++) {
		const float temperature = hot ? 1.2f : 0;

		o = ENGINE_DEFAULTS;
		answer_all(o, temperature, false, &plain);
		follows(&plain);
		for (int i = 0; i < REQUESTS; i++)
			assert_true(plain.n[i] > 0);
		assert_true(plain.n_bound > 20 && plain.n_forced > 3 && plain.n_forbidden > 20);
		answer_all(o, temperature, true, &other);
		same(&plain, &other);
		o.spec = "ngram:4";
		answer_all(o, temperature, true, &other);
		same(&plain, &other);
		o.spec = "jacobi:6";
		o.prefill_chunk = 7;
		answer_all(o, temperature, true, &other);
		same(&plain, &other);
		o = ENGINE_DEFAULTS;
		o.slots = 4;
		o.pages = 14; /* they do not fit at once: some are preempted, or wait */
		answer_all(o, temperature, true, &other);
		same(&plain, &other);
		o = ENGINE_DEFAULTS;
		o.kv_cache = false; /* nothing is drafted, not even what has no choice */
		answer_all(o, temperature, true, &other);
		same(&plain, &other);
	}
}

/* A control token of the vocabulary, which no other grammar allows; and the end of a text that has
 * a limit of tokens. */
static void parts(void **state)
{
	static struct seen s;
	struct engine *e = open_engine(ENGINE_DEFAULTS, &s);
	const int32_t start = tokenizer_id_of(e->tokenizer, "<|im_start|>");
	struct bound *b;
	struct err err = { 0 };
	const struct mask *m;
	const char *why;

	(void)state;
	assert_int_equal(bound_open(&b, &e->constraints, e->tokenizer,
						 "gbnf:root ::= %token \"<|im_start|>\" \"x\"", 0, &err),
		0);
	m = bound_mask(b, bound_state(b, &start, 0), &why);
	assert_true(m && m->word[start / 64] >> (start % 64) & 1);
	assert_true(bound_state(b, &start, 1) >= 0);
	bound_close(b);
	assert_int_equal(bound_open(&b, &e->constraints, e->tokenizer, "gbnf:root ::= .*", 0, &err), 0);
	m = bound_mask(b, bound_state(b, &start, 0), &why);
	assert_false(m->word[start / 64] >> (start % 64) & 1);
	bound_close(b);
	engine_close(e);
}

/* By modified rejection the text is another, and follows the grammar all the same. */
static void rejection(void **state)
{
	static struct seen s;
	struct engine_options o = ENGINE_DEFAULTS;

	(void)state;
	o.spec = "ngram:4";
	o.rule = "rejection";
	answer_all(o, 1.2f, true, &s);
	follows(&s);
}

/* What has no choice is computed in one step. */
static void forced(void **state)
{
	static struct seen s;
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *e = open_engine(o, &s);
	struct engine_request q = request(0, 0.7f);
	struct err err = { 0 };
	int64_t before;

	(void)state;
	q.grammar = "gbnf:root ::= [\\x00-\\x01]{12}"; /* tokens of one byte, which none other begins */
	assert_true(engine_submit(e, &q, &err) > 0);
	run(e, &s);
	assert_int_equal(s.n[0], 12);
	assert_int_equal(s.finish[0], EV_FINISH_whole);
	assert_int_equal(s.n_forced, 0);
	before = s.steps;
	engine_close(e);
	e = open_engine(o, &s);
	q.grammar = "gbnf:root ::= \"\\x01\"{12}";
	assert_true(engine_submit(e, &q, &err) > 0);
	run(e, &s);
	assert_int_equal(s.n[0], 12);
	assert_int_equal(s.n_forced, 12);
	assert_true(s.steps * 3 < before);
	engine_close(e);
}

static void rewinds(void **state)
{
	static struct seen s;
	struct engine *e = open_engine(ENGINE_DEFAULTS, &s);
	struct engine_request q = request(1, 1.2f);
	struct err err = { 0 };

	(void)state;
	assert_true(engine_submit(e, &q, &err) > 0);
	for (int i = 0; i < 6; i++)
		assert_true(engine_step(e, &err) > 0);
	assert_int_equal(engine_rewind(e, 1, PROMPT + 2, -1, &err), 0);
	s.n[0] = 2;
	run(e, &s);
	assert_int_equal(s.finish[0], EV_FINISH_whole);
	engine_close(e);
	/* a token that the grammar forbids, put there by the user, leaves nothing to draw: also in the
	 * newest one's place */
	for (int newest = 0; newest < 2; newest++) {
		e = open_engine(ENGINE_DEFAULTS, &s);
		assert_true(engine_submit(e, &q, &err) > 0);
		for (int i = 0; i < 6; i++)
			assert_true(engine_step(e, &err) > 0);
		assert_int_equal(engine_rewind(e, 1, PROMPT + (newest ? s.n[0] - 1 : 2), 3 + '!', &err), 0);
		run(e, &s);
		assert_int_equal(s.finish[0], EV_FINISH_failed);
		assert_non_null(strstr(s.why, "does not follow the grammar"));
		engine_close(e);
	}
}

static void refused(struct engine *e, const struct engine_request *q, const char *says)
{
	struct err err = { 0 };

	assert_int_equal(engine_submit(e, q, &err), -1);
	if (!strstr(err.text, says))
		fail_msg("%s: %s", says, err.text);
}

static void refusals(void **state)
{
	static struct seen s;
	struct engine *e = open_engine(ENGINE_DEFAULTS, &s);
	struct engine_request q = request(0, 0);

	(void)state;
	q.grammar = "/etc/passwd"; /* the engine opens no files */
	refused(e, &q, "is needed");
	q.grammar = "regex:(a";
	refused(e, &q, "not closed");
	q.grammar = "gbnf:root ::= root";
	refused(e, &q, "never ends");
	q.grammar = "json";
	q.ignore_end = true;
	refused(e, &q, "ignore_eos");
	q.ignore_end = false;
	q.bound_from = PROMPT + 2;
	refused(e, &q, "position");
	engine_close(e);
}

static int make(void **state)
{
	struct tiny_options o = TINY_DEFAULTS;
	struct err err = { 0 };

	(void)state;
	model = tiny_temp(&o, &err);
	return model ? 0 : -1;
}

static int drop(void **state)
{
	(void)state;
	unlink(model);
	free(model);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(laws),
		cmocka_unit_test(parts),
		cmocka_unit_test(rejection),
		cmocka_unit_test(forced),
		cmocka_unit_test(rewinds),
		cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, make, drop);
}

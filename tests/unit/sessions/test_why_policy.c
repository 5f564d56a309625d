/* What `why wait` says of the policies of the scheduler: sessions of the same requests under
 * several of them, each answer held against the events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine.h"
#include "tests/support/tiny.h"
#include "tests/support/why_answer.h"
#include "trace/recording.h"

enum { REQUESTS = 7, PROMPT = 24, MOST = 4096 };

struct session {
	char model[64], file[64];
	struct recording *rec;
	/* of each request, from 1: steps */
	int64_t arrived[REQUESTS + 1], admitted[REQUESTS + 1], first[REQUESTS + 1], ended[REQUESTS + 1];
	int64_t closed[REQUESTS + 1];  /* steps that ended while it waited for the policy to open */
	int64_t rows_of[REQUESTS + 1]; /* steps with rows of its prompt */
	int64_t steps;
	int slots;
};

static void on_event(void *s_, const struct event *ev)
{
	struct session *s = s_;
	struct err e = { 0 };
	int64_t r;

	if (recording_add(s->rec, ev, &e))
		fail_msg("%s", e.text);
	if (ev->kind == EV_request)
		s->arrived[ev->u.request.request] = s->steps;
	if (ev->kind == EV_admit)
		s->admitted[ev->u.admit.request] = s->steps + 1;
	if (ev->kind == EV_token && !s->first[r = ev->u.token.request])
		s->first[r] = s->steps + 1;
	if (ev->kind == EV_finish)
		s->ended[ev->u.finish.request] = ev->u.finish.step;
	if (ev->kind == EV_batch && ev->u.batch.work == EV_WORK_prefill)
		s->rows_of[ev->u.batch.request]++;
	if (ev->kind != EV_step)
		return;
	s->steps++;
	for (r = 1; r <= REQUESTS; r++)
		if (ev->u.step.hold == EV_HOLD_policy && s->arrived[r] < s->steps && !s->admitted[r])
			s->closed[r]++;
}

static void submit(struct engine *e, int which)
{
	int32_t ids[PROMPT];
	struct engine_request q = { .kind = EV_REQUEST_KIND_load,
		.ids = ids,
		.n_ids = PROMPT,
		.max_tokens = 4 + which * 5 % 11,
		.params = SAMPLE_DEFAULTS,
		.text = "test",
		.deadline = which % 2 ? 9 : 0,
		.ignore_end = true };
	struct err err = { 0 };

	for (int i = 0; i < PROMPT; i++)
		ids[i] = 5 + (which * 37 + i * 11) % 200;
	if (engine_submit(e, &q, &err) < 0)
		fail_msg("%s", err.text);
}

/* Four requests at once, and three more while those run. */
static void record(struct session *s, const char *policy)
{
	struct tiny_options tiny = TINY_DEFAULTS;
	struct engine_options o = ENGINE_DEFAULTS;
	struct err err = { 0 };
	struct engine *e;
	char *path = tiny_temp(&tiny, &err);

	assert_non_null(path);
	snprintf(s->model, sizeof s->model, "%s", path);
	free(path);
	snprintf(s->file, sizeof s->file, "/tmp/cutaway-why-policy-%d.db", (int)getpid());
	o.model = s->model;
	o.threads = 1;
	o.ctx = 160;
	o.slots = s->slots;
	o.policy = policy;
	o.waiting_served_ratio = 0.9f; /* of 4 that run: 3 must wait */
	assert_int_equal(recording_create(&s->rec, s->file, &err), 0);
	assert_int_equal(engine_open(&e, &o, &err), 0);
	engine_add_sink(e, on_event, s);
	engine_begin(e, NULL);
	for (int i = 0; i < REQUESTS; i++) {
		submit(e, i);
		if (i > 2)
			assert_true(engine_step(e, &err) >= 0);
	}
	for (int i = 0; i < MOST && !engine_idle(e); i++)
		assert_true(engine_step(e, &err) >= 0);
	assert_true(engine_idle(e));
	engine_close(e);
	assert_int_equal(recording_commit(s->rec, &err), 0);
	recording_close(s->rec, false);
}

static void forget(struct session *s)
{
	unlink(s->model);
	unlink(s->file);
}

static const char *ask(const struct session *s, int64_t request)
{
	char where[24];

	snprintf(where, sizeof where, "%lld", (long long)request);
	return why_answer(s->file, "wait", where, NULL);
}

static void who_waits_for_a_batch_hears_its_rule(void **state)
{
	struct session s = { .slots = 4 };
	int n = 0;

	(void)state;
	record(&s, "static");
	for (int64_t r = 1; r <= REQUESTS; r++) {
		why_says(ask(&s, r), s.closed[r] > 0,
			"static waited for every request of the batch that ran to end");
		if (s.closed[r])
			why_says(ask(&s, r), true, "    %lld steps: static waited", (long long)s.closed[r]);
		n += s.closed[r] > 0;
	}
	assert_int_equal(n, 3);
	forget(&s);
}

static void who_joins_late_hears_the_ratio(void **state)
{
	struct session s = { .slots = 6 };
	int n = 0;

	(void)state;
	record(&s, "tgi");
	for (int64_t r = 1; r <= REQUESTS; r++) {
		why_says(ask(&s, r), s.closed[r] > 0, "tgi waited for waiting-served-ratio times as many");
		n += s.closed[r] > 0;
	}
	assert_true(n > 0);
	forget(&s);
}

static void a_prompt_that_pauses_hears_for_whom(void **state)
{
	struct session s = { .slots = 6 };
	int n = 0;

	(void)state;
	record(&s, "decode-first");
	for (int64_t r = 1; r <= REQUESTS; r++) {
		const int64_t idle = s.first[r] - s.admitted[r] + 1 - s.rows_of[r];

		why_says(ask(&s, r), idle > 0,
			"had no row of it: the policy computes prompts only while nothing decodes");
		if (idle)
			why_says(ask(&s, r), true, "  %lld steps in between", (long long)idle);
		n += idle > 0;
	}
	assert_true(n > 0);
	forget(&s);
}

static void a_deadline_is_told_with_its_end(void **state)
{
	struct session s = { .slots = 2 };

	(void)state;
	record(&s, "deadline");
	for (int64_t r = 1; r <= REQUESTS; r++)
		if (r % 2)
			why_says(ask(&s, r), false, "it was due");
		else
			why_says(ask(&s, r), true, "it was due in step %lld and ended in step %lld\n",
				(long long)s.arrived[r] + 9, (long long)s.ended[r]);
	forget(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_waits_for_a_batch_hears_its_rule),
		cmocka_unit_test(who_joins_late_hears_the_ratio),
		cmocka_unit_test(a_prompt_that_pauses_hears_for_whom),
		cmocka_unit_test(a_deadline_is_told_with_its_end),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

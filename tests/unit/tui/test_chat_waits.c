/* What a person does while the engine is in a long step: none of it waits for the step, all of it
 * takes effect after it, in order. The engine's thread is held until everything has been done that
 * must not wait for it; if something does, neither goes on, and the alarm ends the suite. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>

#include "tests/support/tiny.h"
#include "tui/chat/chat.h"
#include "tests/support/actor_submit.h"
#include "tests/support/open_chat.h"

enum { PATIENCE_S = 50, PATIENCE_MS = 20000 };

struct held {
	struct actor *actor;
	sem_t begun, go_on;
	pthread_t caller;
};

static void hold(struct engine *e, void *arg)
{
	struct held *h = arg;

	(void)e;
	sem_post(&h->begun);
	sem_wait(&h->go_on);
}

static void *call(void *arg)
{
	struct held *h = arg;

	actor_call(h->actor, hold, h);
	return NULL;
}

static void begin_to_hold(struct held *h, struct actor *actor)
{
	h->actor = actor;
	sem_init(&h->begun, 0, 0);
	sem_init(&h->go_on, 0, 0);
	assert_int_equal(pthread_create(&h->caller, NULL, call, h), 0);
	sem_wait(&h->begun);
}

static void let_go(struct held *h)
{
	sem_post(&h->go_on);
	pthread_join(h->caller, NULL);
	sem_destroy(&h->begun);
	sem_destroy(&h->go_on);
}

static int64_t begin_answer(struct app *a, struct chat *c)
{
	int32_t ids[] = { 3, 4, 5, 6 };
	struct engine_request q = { .kind = EV_REQUEST_KIND_load,
		.ids = ids,
		.n_ids = 4,
		.max_tokens = 200,
		.params = SAMPLE_DEFAULTS,
		.text = "x",
		.ignore_end = true };
	int64_t id;

	actor_pause(c->live.session.actor);
	id = actor_submit(c->live.session.actor, &q, NULL);
	live_feed(&c->live, &a->timeline, INT64_MAX / 2);
	assert_non_null(timeline_request(&a->timeline, id));
	return id;
}

static void take_answers(struct app *a, struct chat *c, const char *until)
{
	struct pollfd p = { .fd = actor_fd(c->live.session.actor), .events = POLLIN };

	while (!strstr(a->message, until)) {
		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
		actor_answers(c->live.session.actor, a);
	}
}

static void test_nothing_waits_for_a_step(void **state)
{
	static struct app a;
	static struct chat c;
	struct tui_options o = { .engine = ENGINE_DEFAULTS, .answer = ANSWER_DEFAULTS };
	struct err e = { 0 };
	struct held held;
	int64_t id;

	(void)state;
	alarm(PATIENCE_S);
	o.engine.model = *state;
	o.engine.threads = 1;
	o.engine.ctx = 256;
	open_chat(&a, &c, &o);
	id = begin_answer(&a, &c);
	begin_to_hold(&held, c.live.session.actor);
	chat_note(&a, "temp", "0.5");
	a.state.layer = a.state.head = 0;
	chat_observe(&a);
	assert_int_equal(chat_engine_set(&a, "budget", "64", &e), 1);
	assert_int_equal(chat_engine_set(&a, "spec", "no such drafter", &e), 1);
	assert_int_equal(chat_act(&a, ACT_LOAD, "2", 0, &e), 0);
	assert_int_equal(chat_stop(&a, true), 1);
	live_feed(&c.live, &a.timeline, INT64_MAX / 2);
	assert_int_equal(timeline_request(&a.timeline, id)->state == TL_FINISHED, 0);
	let_go(&held);
	take_answers(&a, &c, "no such drafter");
	actor_call(c.live.session.actor, NULL, NULL);
	live_feed(&c.live, &a.timeline, INT64_MAX / 2);
	assert_string_equal(timeline_setting(&a.timeline, "temp"), "0.5");
	assert_string_equal(timeline_setting(&a.timeline, "observe-layer"), "0");
	assert_string_equal(timeline_setting(&a.timeline, "observe-head"), "0");
	assert_string_equal(timeline_setting(&a.timeline, "budget"), "64");
	assert_string_equal(timeline_setting(&a.timeline, "spec"), "off");
	assert_int_equal(timeline_request(&a.timeline, id)->finish.reason, EV_FINISH_cancelled);
	assert_int_equal(a.timeline.n_requests, 3);
	assert_int_equal(chat_engine_set(&a, "budget", "96", &e), 1);
	take_answers(&a, &c, "budget is now 96");
	timeline_free(&a.timeline);
	assert_int_equal(live_close(&c.live, NULL), 0);
	alarm(0);
}

static int set_up(void **state)
{
	struct tiny_options t = TINY_DEFAULTS;

	*state = tiny_temp(&t, NULL);
	return !*state;
}

static int tear_down(void **state)
{
	unlink(*state);
	free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_nothing_waits_for_a_step) };

	return cmocka_run_group_tests_name("chat_waits", tests, set_up, tear_down);
}

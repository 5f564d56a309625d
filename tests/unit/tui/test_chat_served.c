/* A chat in a server's terminal: the requests of its clients are in the same timeline, and what the
 * chat does to its own turns must not take them for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <poll.h>

#include "tests/support/actor_submit.h"
#include "tests/support/open_chat.h"
#include "tests/support/tiny.h"

enum { PATIENCE_S = 50, PATIENCE_MS = 20000 };

static struct app a;
static struct chat c;
static struct tui_options o;

/* Until every request has ended. */
static void wait_idle(void)
{
	struct pollfd p = { .fd = ring_fd(c.live.session.ring), .events = POLLIN };
	bool runs = true;

	while (runs) {
		live_feed(&c.live, &a.timeline, INT64_MAX / 2);
		runs = false;
		for (int32_t i = 0; i < a.timeline.n_requests; i++)
			runs |= a.timeline.request[i].state != TL_FINISHED;
		if (runs)
			assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	}
}

static const struct tl_request *newest(void)
{
	return &a.timeline.request[a.timeline.n_requests - 1];
}

/* The chat's turn, answered. */
static int64_t query(const char *text)
{
	chat_ask(&a, text);
	wait_idle();
	return newest()->id;
}

/* A request of a client, answered. */
static int64_t serve(void)
{
	int32_t ids[] = { 3, 4, 5, 6 };
	const struct engine_request q = { .kind = EV_REQUEST_KIND_served,
		.ids = ids,
		.n_ids = 4,
		.max_tokens = 4,
		.params = SAMPLE_DEFAULTS,
		.text = "a client's" };
	const int64_t id = actor_submit(c.live.session.actor, &q, NULL);

	wait_idle();
	assert_int_equal(newest()->id, id);
	assert_ptr_equal(timeline_chat(&a.timeline), newest());
	return id;
}

static void act(enum command_act what, const char *text, double number)
{
	struct err e = { 0 };

	if (chat_act(&a, what, text, number, &e))
		fail_msg("%s", e.text);
}

static void test_forks_have_the_chats_answer_for_parent(void **state)
{
	const int64_t own = query("one two");

	(void)state;
	serve();
	act(ACT_FORK, "", 2);
	wait_idle();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(newest()[-i].kind, EV_REQUEST_KIND_fork);
		assert_int_equal(newest()[-i].parent, own);
		assert_string_equal(newest()[-i].text, "one two");
	}
}

static void test_compares_the_chats_turn(void **state)
{
	const int64_t own = query("three");

	(void)state;
	serve();
	act(ACT_COMPARE, "'temp 0' 'temp 1'", 0);
	assert_string_equal(c.compare.text, "three");
	assert_int_equal(c.compare.n_ids, timeline_request(&a.timeline, own)->n_prompt);
	chat_compare_free(&c.compare);
}

static void test_goes_back_in_the_chats_answer(void **state)
{
	const int64_t own = query("four");

	(void)state;
	serve();
	act(ACT_REWIND, "-2", 0);
	live_feed(&c.live, &a.timeline, INT64_MAX / 2);
	assert_int_equal(newest()->kind, EV_REQUEST_KIND_fork);
	assert_int_equal(newest()->parent, own);
	assert_int_equal(c.left[c.n_left - 1].request, own);
	act(ACT_UNDO, "", 0);
	actor_resume(c.live.session.actor);
	wait_idle();
	assert_int_equal(a.state.branch, own);
}

/* What is said at an earlier step follows the chat's turn of then. */
static void test_stands_after_the_chats_turn(void **state)
{
	const int64_t own = query("five");
	struct err e = { 0 };

	(void)state;
	serve();
	a.past = &a.timeline;
	assert_int_equal(chat_stand_here(&a, &e), 0);
	assert_int_equal(a.state.branch, own);
	a.past = NULL;
	actor_resume(c.live.session.actor);
}

static const char *recording(struct app *app, struct err *e)
{
	(void)app, (void)e;
	return "none";
}

static int set_up(void **state)
{
	static const struct app_mode mode = { .recording = recording };
	struct tiny_options t = TINY_DEFAULTS;

	alarm(PATIENCE_S);
	o = (struct tui_options){ .engine = ENGINE_DEFAULTS, .answer = ANSWER_DEFAULTS };
	*state = tiny_temp(&t, NULL);
	o.engine.model = *state;
	o.engine.threads = 1;
	o.engine.ctx = 256;
	c.settings = o.answer;
	c.settings.max_tokens = 6;
	a.mode = &mode;
	open_chat(&a, &c, &o);
	return 0;
}

static void test_a_server_keeps_its_model(void **state)
{
	struct tui_guest guest = { 0 };
	struct err e = { 0 };

	o.guest = &guest;
	assert_int_equal(chat_act(&a, ACT_MODEL, *state, 0, &e), -1);
	assert_non_null(strstr(e.text, "a server keeps its model"));
	assert_null(c.model);
	o.guest = NULL;
}

static int tear_down(void **state)
{
	timeline_free(&a.timeline);
	live_close(&c.live, NULL);
	unlink(*state);
	free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forks_have_the_chats_answer_for_parent),
		cmocka_unit_test(test_compares_the_chats_turn),
		cmocka_unit_test(test_goes_back_in_the_chats_answer),
		cmocka_unit_test(test_stands_after_the_chats_turn),
		cmocka_unit_test(test_a_server_keeps_its_model),
	};

	return cmocka_run_group_tests_name("chat_served", tests, set_up, tear_down);
}

/* The chat view: joining bytes of tokens, wrapping, following and scrolling, the cursor over
 * tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/support/demo_events.h"
#include "tests/support/view_check.h"
#include "tui/views/view_util.h"
#include "tui/views/views.h"

static void characters_over_two_tokens(void **state)
{
	struct said d;

	(void)state;
	say_begin(&d, "hi");
	say_token(&d, "caf");
	say_token(&d, "\xc3");
	/* not a stand-in for half of it */
	assert_shows(&view_chat, &d.t, &fresh, 40, 5, "ai  caf\n", true);
	say_token(&d, "\xa9");
	assert_shows(&view_chat, &d.t, &fresh, 40, 5, "café", true);
	say_token(&d, "\xe8\x93\x9d");
	assert_shows(&view_chat, &d.t, &fresh, 40, 5, "café蓝", true);
	timeline_free(&d.t);
}

static void words_wrap(void **state)
{
	struct said d;

	(void)state;
	say_begin(&d, "q");
	say_token(&d, "alpha beta");
	say_token(&d, "gamma delta");
	say_token(&d, " epsilon\nzeta ");
	say_token(&d, "abcdefghijklmnopqrstuvwxyz");
	/* 14 columns of text; a word that is made of two tokens stays whole */
	assert_shows(&view_chat, &d.t, &fresh, 18, 8,
		"ai  alpha\n    betagamma\n    delta epsilon\n    zeta\n    abcdefghijklmn\n    "
		"opqrstuvwxyz\n",
		true);
	timeline_free(&d.t);
}

static void ends_are_told(void **state)
{
	static const struct {
		enum ev_code_finish reason;
		const char *why, *words;
	} ends[] = { { EV_FINISH_cancelled, NULL, "stopped by you" },
		{ EV_FINISH_context, "8192 of 8192 tokens", "the context is full: 8192 of 8192 tokens" },
		{ EV_FINISH_length, NULL, "stopped at its limit of 1 token" },
		{ EV_FINISH_refused, "needs 40 pages, has 8", "refused: needs 40 pages, has 8" },
		{ EV_FINISH_lost,
			"the answer broke off: http://host:1: transfer closed with data remaining",
			"    lost: the answer broke off: http://host:1: transfer\n"
			"    closed with data remaining\n" } };

	(void)state;
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		struct said d;

		say_begin(&d, "q");
		say_token(&d, "word");
		say_finish(&d, ends[i].reason, ends[i].why);
		assert_shows(&view_chat, &d.t, &fresh, 60, 6, ends[i].words, true);
		timeline_free(&d.t);
	}
}

/* What a greedy answer of a small model often comes to is said while it runs, and no longer when it
 * goes on. */
static void loops_are_told(void **state)
{
	const struct view_waiting paused = { .paused = true }, goes_on = { .paused = false };
	struct view_state held = fresh, live = fresh;
	struct said d;
	int32_t la;

	(void)state;
	held.waiting = &paused;
	live.waiting = &goes_on;
	say_begin(&d, "q");
	la = (int32_t)d.pos;
	say_token(&d, "la ");
	say_token(&d, "le ");
	for (int i = 0; i < 40; i++)
		say_again(&d, la + i % 2);
	assert_shows(&view_chat, &d.t, &live, 60, 12, "in a loop of 2 tokens: ^C stops it", true);
	/* in a replay nothing can be stopped or set */
	assert_shows(&view_chat, &d.t, &fresh, 60, 12, "in a loop of 2 tokens\n", true);
	assert_shows(
		&view_chat, &d.t, &held, 66, 12, "2 tokens: F5 goes on, ^C ends, /temp 0.7 helps\n", true);
	say_token(&d, "fin");
	assert_shows(&view_chat, &d.t, &fresh, 60, 12, "in a loop", false);
	for (int i = 0; i < 40; i++)
		say_again(&d, la + i % 2);
	say_finish(&d, EV_FINISH_length, NULL);
	assert_shows(&view_chat, &d.t, &live, 80, 12,
		"stopped at its limit of 83 tokens · in a loop: /temp 0.7 helps", true);
	assert_shows(&view_chat, &d.t, &fresh, 80, 12, "tokens · in a loop\n", true);
	timeline_free(&d.t);
}

static void chat_follows_and_scrolls(void **state)
{
	struct view_state s = fresh;
	struct said d;
	char word[24];

	(void)state;
	say_begin(&d, "count");
	for (int i = 0; i < 60; i++) {
		snprintf(word, sizeof word, "line%02d\n", i);
		say_token(&d, word);
	}
	s.focused = true;
	assert_shows(&view_chat, &d.t, &s, 40, 10, "line59", true);
	assert_shows(&view_chat, &d.t, &s, 40, 10, "line40", false);
	assert_true(view_chat.key(KEY_HOME_, &d.t, &s));
	assert_shows(&view_chat, &d.t, &s, 40, 10, "you count", true);
	assert_shows(&view_chat, &d.t, &s, 40, 10, "line59", false);
	assert_true(view_chat.key(KEY_END_, &d.t, &s));
	assert_true(view_chat.key(KEY_PAGE_UP, &d.t, &s));
	assert_shows(&view_chat, &d.t, &s, 40, 10, "line49", true);
	assert_shows(&view_chat, &d.t, &s, 40, 10, "line59", false);
	assert_true(view_chat.key(KEY_PAGE_DOWN, &d.t, &s));
	assert_shows(&view_chat, &d.t, &s, 40, 10, "line59", true);
	timeline_free(&d.t);
}

/* The cursor is kept in view, shared with the other views, and leaves at the end. */
static void cursor_walks_over_tokens(void **state)
{
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);
	const struct tl_request *r = timeline_request(&t, 2);
	struct view_state s = fresh;
	char expected[64];
	int steps = r->n_tokens + 1;

	(void)state;
	s.focused = true;
	assert_true(view_chat.key(KEY_LEFT_, &t, &s));
	assert_int_equal(s.request, 2);
	assert_int_equal(s.token, r->n_tokens - 1);
	assert_shows(&view_sampler, &t, &s, 80, 9, "request b", true);
	for (int i = 1; i < steps; i++)
		view_chat.key(KEY_LEFT_, &t, &s);
	assert_int_equal(s.request, 1); /* over the beginning, into the answer before */
	assert_int_equal(s.token, timeline_request(&t, 1)->n_tokens - 1);
	view_chat.key(KEY_LEFT_, &t, &s);
	snprintf(expected, sizeof expected, "cursor on token %d",
		(int)timeline_request(&t, 1)->token[s.token].pos);
	assert_shows(&view_chat, &t, &s, 60, 6, expected, true);
	assert_shows(&view_chat, &t, &s, 60, 6, "ideas.", true); /* scrolled there */
	assert_shows(&view_next, &t, &s, 80, 9, "won", true);
	for (int i = 0; i < steps + 1; i++)
		view_chat.key(KEY_RIGHT_, &t, &s);
	assert_int_equal(s.request, 0);
	assert_int_equal(s.token, -1);
	timeline_free(&t);
}

static void background_is_counted_not_shown(void **state)
{
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);

	(void)state;
	assert_shows(&view_chat, &t, &fresh, 80, 30, "3 in the background", true);
	assert_shows(&view_chat, &t, &fresh, 80, 30, "List the first", false);
	timeline_free(&t);
}

/* ---- clients of a server ---- */

static void client_asks(struct said *d, int64_t request, const char *user, int64_t sample)
{
	struct event ev;

	ev_init(&ev, EV_request);
	ev.u.request.request = request;
	ev.u.request.kind = EV_REQUEST_KIND_served;
	ev.u.request.sample = sample;
	ev.u.request.text = (struct ev_span){ "why?", 4 };
	if (user)
		ev.u.request.user = (struct ev_span){ user, strlen(user) };
	say_event(d, &ev);
	ev_init(&ev, EV_admit);
	ev.u.admit = (struct ev_admit){ request, request, 0, 0, 0 };
	say_event(d, &ev);
}

static void client_gets(struct said *d, int64_t request, const char *bytes)
{
	struct event ev;

	ev_init(&ev, EV_vocab);
	ev.u.vocab = (struct ev_vocab){ d->pos, { bytes, strlen(bytes) }, 0 };
	say_event(d, &ev);
	ev_init(&ev, EV_token);
	ev.u.token.request = request;
	ev.u.token.id = ev.u.token.step = ev.u.token.pos = d->pos++;
	ev.u.token.source = EV_SOURCE_plain;
	say_event(d, &ev);
}

static void client_ends(struct said *d, int64_t request, enum ev_code_finish reason)
{
	struct event ev;

	ev_init(&ev, EV_finish);
	ev.u.finish.request = request;
	ev.u.finish.reason = reason;
	say_event(d, &ev);
}

static void clients_are_named(void **state)
{
	struct said d;

	(void)state;
	say_begin(&d, "q");
	client_asks(&d, 2,
		"Gr\xc3\xb6\xc3\x9f"
		"e\x1b[2J\n",
		0);
	client_gets(&d, 2, "so");
	assert_shows(&view_chat, &d.t, &fresh, 60, 12,
		"b   Gr\xc3\xb6\xc3\x9f"
		"e",
		true);
	assert_shows(&view_chat, &d.t, &fresh, 60, 12, ": why?\nai  so\n", true);
	client_asks(&d, 3, NULL, 0);
	client_gets(&d, 3, "thus");
	client_ends(&d, 3, EV_FINISH_cancelled);
	assert_shows(
		&view_chat, &d.t, &fresh, 60, 16, "c   why?\nai  thus\n    its client went away\n", true);
	timeline_free(&d.t);
}

/* Of several choices the question stands once, and each answer has its letter. */
static void choices_of_a_client(void **state)
{
	struct said d;

	(void)state;
	say_begin(&d, "q");
	client_asks(&d, 2, "eva", 0);
	client_asks(&d, 3, "eva", 1);
	client_gets(&d, 2, "one");
	client_gets(&d, 3, "two");
	assert_shows(&view_chat, &d.t, &fresh, 60, 12, "b   eva: why?\nb   one\nc   two\n", true);
	client_ends(&d, 2, EV_FINISH_end);
	assert_shows(&view_chat, &d.t, &fresh, 60, 16, "c   eva: why?\n", true);
	timeline_free(&d.t);
}

/* Answers that run stand last, whenever they were asked for, and share the lines. */
static void running_clients_stand_last(void **state)
{
	struct said d;

	(void)state;
	say_begin(&d, "q");
	say_finish(&d, EV_FINISH_end, NULL);
	client_asks(&d, 2, "eva", 0);
	for (int i = 0; i < 30; i++)
		client_gets(&d, 2, i < 29 ? "line\n" : "newest");
	client_asks(&d, 3, "ben", 0);
	client_gets(&d, 3, "over");
	assert_shows(&view_chat, &d.t, &fresh, 60, 14, "newest\n\nc   ben: why?\nai  over\n", true);
	assert_shows(&view_chat, &d.t, &fresh, 60, 14, "b   eva: why?\nai", true);
	client_ends(&d, 3, EV_FINISH_end);
	assert_shows(&view_chat, &d.t, &fresh, 60, 50, "over\n\nb   eva: why?\nai  line\n", true);
	assert_int_equal(view_request(&d.t, &fresh)->id, 2);
	timeline_free(&d.t);
}

/* A recording may lie about how many, or not say it. */
static void turns_left_out(void **state)
{
	static const int64_t turns[] = { EV_NULL_I, INT32_MAX, INT32_MAX };
	struct said d;
	struct event ev;

	(void)state;
	say_begin(&d, "q");
	for (int i = 0; i < 3; i++) {
		if (i)
			client_asks(&d, i + 1, "eva", 0);
		ev_init(&ev, EV_trim);
		ev.u.trim = (struct ev_trim){ .request = i + 1, .turns = turns[i], .tokens = 5 };
		say_event(&d, &ev);
		d.t.request[i].kind = EV_REQUEST_KIND_chat;
		assert_shows(&view_chat, &d.t, &fresh, 60, 14, i ? "2147483647 turns" : ": 0 turns", true);
	}
	timeline_free(&d.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(characters_over_two_tokens),
		cmocka_unit_test(words_wrap),
		cmocka_unit_test(ends_are_told),
		cmocka_unit_test(loops_are_told),
		cmocka_unit_test(chat_follows_and_scrolls),
		cmocka_unit_test(cursor_walks_over_tokens),
		cmocka_unit_test(background_is_counted_not_shown),
		cmocka_unit_test(clients_are_named),
		cmocka_unit_test(choices_of_a_client),
		cmocka_unit_test(running_clients_stand_last),
		cmocka_unit_test(turns_left_out),
	};

	return cmocka_run_group_tests_name("view_chat", tests, NULL, NULL);
}

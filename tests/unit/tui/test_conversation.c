/* A conversation grows by whole turns, keeps its ids, forks, drops its oldest turns. With the tiny
 * model's tokenizer; the engine's events are played by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/model/gguf.h"
#include "engine/text/tokenizer_private.h"
#include "tests/support/allocations.h"
#include "tests/support/tiny.h"
#include "tui/chat/conversation_impl.h"

enum { CTX = 200 };

static uint8_t *file;
static struct gguf *gguf;
static struct tokenizer *tokenizer;
static const struct chat_template *chat;
static struct conversation *c;
static int64_t next_request;

/* Of the conversation, with the chosen answer. */
static int32_t n_ids(void)
{
	return c->turn->n + (c->n_answers ? c->answer[c->chosen].n : 0);
}

static int group_setup(void **state)
{
	size_t size;
	int known;

	(void)state;
	if (tiny_make(&TINY_DEFAULTS, &file, &size, NULL) < 0 ||
		gguf_open_memory(&gguf, file, size, NULL) < 0 || tokenizer_open(&tokenizer, gguf, NULL) < 0)
		return -1;
	chat = template_of(gguf, &known);
	return known ? 0 : -1;
}

static int group_teardown(void **state)
{
	(void)state;
	tokenizer_close(tokenizer);
	gguf_close(gguf);
	free(file);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	const struct chat_input of = { .c = chat, .t = tokenizer, .now = 1 };

	next_request = 1;
	return conversation_open(&c, &of, CTX, "", NULL);
}

static int teardown(void **state)
{
	(void)state;
	conversation_close(c);
	return 0;
}

static int64_t begin_sample(enum ev_code_request_kind kind, int64_t sample)
{
	struct event ev;

	ev_init(&ev, EV_request);
	ev.u.request.request = next_request;
	ev.u.request.kind = kind;
	ev.u.request.sample = sample;
	conversation_sink(c, &ev);
	return next_request++;
}

static int64_t begin_request(enum ev_code_request_kind kind)
{
	return begin_sample(kind, 0);
}

static void token(int64_t request, int32_t id)
{
	struct event ev;

	ev_init(&ev, EV_token);
	ev.u.token.request = request;
	ev.u.token.id = id;
	conversation_sink(c, &ev);
}

static void finish(int64_t request)
{
	struct event ev;

	ev_init(&ev, EV_finish);
	ev.u.finish.request = request;
	conversation_sink(c, &ev);
}

static struct conversation_prompt ask(const char *text, bool drop)
{
	struct conversation_prompt p;
	struct err e = { 0 };

	if (conversation_ask(c, text, strlen(text), 10, drop, &p, &e) < 0)
		fail_msg("%s", e.text);
	conversation_expect(c, 1);
	return p;
}

static void answer(int32_t id, int n)
{
	int64_t request = begin_request(EV_REQUEST_KIND_chat);

	for (int i = 0; i < n; i++)
		token(request, id);
	finish(request);
}

static void turns_only_append(void **state)
{
	struct conversation_prompt p = ask("hi", false);
	int32_t first[CTX], n_first = p.n_ids;

	(void)state;
	memcpy(first, p.ids, (size_t)p.n_ids * sizeof *first);
	assert_false(conversation_busy(c));
	answer(100, 3);
	p = ask("more", false);
	assert_memory_equal(p.ids, first, (size_t)n_first * sizeof *first);
	for (int i = 0; i < 3; i++)
		assert_int_equal(p.ids[n_first + i], 100);
	/* the answer had none of its own */
	assert_true(tokenizer_is_end(tokenizer, p.ids[n_first + 3]));
	assert_int_equal(c->turn->n_turns, 2);
}

static void rewind_to(int64_t request, int64_t kept)
{
	struct event ev;

	ev_init(&ev, EV_rewind);
	ev.u.rewind.request = request;
	ev.u.rewind.kept = kept;
	conversation_sink(c, &ev);
}

/* A request whose prompt has a part of the answer in it. */
static int64_t begin_fork(const int32_t *ids, int32_t n)
{
	struct event ev;

	ev_init(&ev, EV_request);
	ev.u.request.request = next_request;
	ev.u.request.kind = EV_REQUEST_KIND_fork;
	ev.u.request.n_prompt = n;
	ev.u.request.prompt = (struct ev_span){ ids, (size_t)n * sizeof *ids };
	conversation_sink(c, &ev);
	return next_request++;
}

static void going_back_within_an_answer(void **state)
{
	struct conversation_prompt p = ask("hi", false);
	int64_t request = begin_request(EV_REQUEST_KIND_chat);
	int32_t open = p.n_ids;

	(void)state;
	for (int i = 0; i < 6; i++)
		token(request, 100 + i);
	rewind_to(request, open + 2);
	token(request, 90);
	finish(request);
	p = ask("more", false);
	assert_int_equal(p.ids[open], 100);
	assert_int_equal(p.ids[open + 1], 101);
	assert_int_equal(p.ids[open + 2], 90);
	assert_true(tokenizer_is_end(tokenizer, p.ids[open + 3]));
}

/* Two turns, back into the first answer, a fork from there, and a new second turn: the ids are
 * those of the new branch, also when the oldest turns were dropped or a new conversation began
 * meanwhile. */
static void going_back_to_an_earlier_turn(void **state)
{
	struct conversation_prompt p = ask("first", false), back;
	int32_t ids[CTX], open = p.n_ids;
	struct err e = { 0 };
	int64_t fork;

	(void)state;
	/* p is that of the first turn until the next is asked */
	memcpy(ids, p.ids, (size_t)open * sizeof *ids);
	answer(100, 5);
	ask("second", false);
	answer(110, 5);
	assert_int_equal(conversation_open_pos(c, 1), open);
	assert_int_equal(conversation_open_pos(c, 77), -1);
	assert_int_equal(conversation_new(c, "", &e), 0);
	ask("elsewhere", false);
	answer(120, 1);
	/* what the caller read from the log */
	assert_int_equal(conversation_resume(c, 2, ids, open, &back, &e), -1);
	p = ask("elsewhere", false);
	for (int i = 0; i < 3; i++)
		ids[open + i] = 100;
	assert_int_equal(conversation_resume(c, 1, ids, open - 1, &back, &e), -1);
	assert_non_null(strstr(e.text, "begins at position"));
	assert_int_equal(conversation_resume(c, 1, ids, open + 3, &back, &e), 0);
	assert_string_equal(back.text, "first");
	assert_int_equal(c->turn->n_turns, 1);
	assert_int_equal(n_ids(), open + 3);
	assert_false(conversation_busy(c));
	conversation_expect(c, 1);
	fork = begin_fork(ids, open + 3);
	assert_true(conversation_has(c, fork) && conversation_has(c, 1) && !conversation_has(c, 2));
	assert_int_equal(conversation_open_pos(c, fork), open);
	token(fork, 99);
	finish(fork);
	p = ask("another second", false);
	assert_int_equal(c->turn->n_turns, 2);
	for (int i = 0; i < 3; i++)
		assert_int_equal(p.ids[open + i], 100);
	assert_int_equal(p.ids[open + 3], 99);
	assert_true(tokenizer_is_end(tokenizer, p.ids[open + 4]));
}

static void strangers_are_not_collected(void **state)
{
	int64_t request;
	int32_t n;

	(void)state;
	ask("hi", false);
	n = n_ids();
	token(begin_request(EV_REQUEST_KIND_load), 100);
	assert_int_equal(n_ids(), n);
	assert_false(conversation_busy(c));
	request = begin_request(EV_REQUEST_KIND_chat);
	assert_true(conversation_busy(c));
	token(request, 100);
	token(request + 7, 100); /* a request nobody knows */
	assert_int_equal(n_ids(), n + 1);
	begin_request(EV_REQUEST_KIND_chat); /* one more than was expected */
	finish(request);
	assert_false(conversation_busy(c));
}

static void a_turn_without_an_answer_leaves(void **state)
{
	struct conversation_prompt p = ask("hi", false);
	int32_t n = p.n_ids;

	(void)state;
	finish(begin_request(EV_REQUEST_KIND_chat)); /* refused, say */
	p = ask("hi", false);
	assert_int_equal(p.n_ids, n);
	assert_int_equal(c->turn->n_turns, 1);
}

static void forks_and_retries_share_the_prompt(void **state)
{
	struct conversation_prompt p = ask("hi", false), q;
	int32_t n = p.n_ids;
	int64_t id[4];

	(void)state;
	answer(100, 5);
	assert_int_equal(conversation_repeat(c, &q, NULL), 0);
	assert_int_equal(q.n_ids, n);
	assert_int_equal(q.sample, 1);
	conversation_expect(c, 2);
	id[0] = begin_sample(EV_REQUEST_KIND_fork, q.sample);
	id[1] = begin_sample(EV_REQUEST_KIND_fork, q.sample + 1);
	token(id[0], 100);
	token(id[1], 101);
	assert_int_equal(conversation_running(c, id, 4), 2);
	finish(id[0]);
	finish(id[1]);
	conversation_choose(c, id[1]);
	p = ask("next", false);
	assert_int_equal(p.ids[n], 101);
}

/* Forks that are all stopped before their first token are not gone on with: the answer before them
 * is, also when it was answered again twice. */
static void what_was_stopped_at_once_is_not_followed(void **state)
{
	struct conversation_prompt p = ask("hi", false);
	int32_t n = p.n_ids;
	int64_t first, stopped;
	bool other;

	(void)state;
	first = next_request;
	answer(100, 5);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(conversation_repeat(c, &p, NULL), 0);
		conversation_expect(c, 1);
		stopped = begin_sample(EV_REQUEST_KIND_fork, p.sample);
		assert_int_equal(conversation_goes_on(c, stopped, &other), stopped);
		finish(stopped);
		assert_int_equal(conversation_goes_on(c, stopped, &other), first);
		assert_true(other);
	}
	p = ask("next", false);
	assert_int_equal(p.ids[n], 100);
	assert_int_equal(c->turn->n_turns, 2);
}

static int64_t next_sample(void)
{
	struct conversation_prompt p;

	assert_int_equal(conversation_repeat(c, &p, NULL), 0);
	return p.sample;
}

/* Whoever answers a turn again, after forks, searches and journeys to other turns, has a number of
 * his own. */
static void no_two_answers_share_a_sample(void **state)
{
	struct conversation_prompt p = ask("hi", false), back;
	int32_t ids[CTX], n = p.n_ids;
	int64_t first;

	(void)state;
	memcpy(ids, p.ids, (size_t)n * sizeof *ids);
	first = begin_sample(EV_REQUEST_KIND_chat, 0);
	finish(first);
	assert_int_equal(next_sample(), 1);
	conversation_expect(c, 3);
	for (int i = 1; i <= 3; i++)
		finish(begin_sample(EV_REQUEST_KIND_fork, i));
	assert_int_equal(next_sample(), 4);
	finish(begin_sample(EV_REQUEST_KIND_search, 4));
	finish(begin_sample(EV_REQUEST_KIND_search, 9));
	begin_sample(EV_REQUEST_KIND_load, 20);
	assert_int_equal(next_sample(), 10);
	p = ask("another turn", false);
	assert_int_equal(p.sample, 0);
	answer(100, 5);
	assert_int_equal(conversation_resume(c, first, ids, n, &back, NULL), 0);
	assert_int_equal(next_sample(), 10);
}

static void a_full_context_stops_or_drops(void **state)
{
	struct conversation_prompt p;
	struct err e = { 0 };
	int32_t head[8];
	int n = 0;

	(void)state;
	for (; n < 100; n++) {
		if (conversation_ask(c, "a b c d", 7, 10, false, &p, &e) < 0)
			break;
		conversation_expect(c, 1);
		answer(100, 20);
		memcpy(head, p.ids, 4 * sizeof *head);
	}
	assert_true(n > 1 && n < 20);
	assert_non_null(strstr(e.text, "200"));
	assert_int_equal(c->turn->n_turns, n);
	p = ask("a b c d", true);
	assert_true(p.trimmed_turns >= 1 && p.trimmed_tokens > 20);
	assert_true(p.n_ids + 10 <= CTX);
	assert_int_equal(c->turn->n_turns, n + 1 - p.trimmed_turns);
	assert_memory_equal(p.ids, head, 2 * sizeof *head); /* still a turn's opening */
	answer(100, 20);
	for (int i = 0; i < 30; i++) {
		p = ask("a b c d", true);
		assert_true(p.n_ids + 10 <= CTX);
		answer(100, 20);
	}
}

/* What is said of a turn before it is asked is what happens then, and nothing changes by asking. */
static void the_end_is_seen_ahead(void **state)
{
	struct conversation_prompt ahead, p;
	struct err e = { 0 };
	int32_t left, before, left_out = 0;

	(void)state;
	assert_int_equal(conversation_ahead(c, 10, true, &ahead, &left, &e), -1);
	ask("a b", true);
	for (int i = 0; i < 30; i++) {
		answer(100 + i, 20);
		before = n_ids();
		assert_int_equal(conversation_ahead(c, 10, true, &ahead, &left, &e), 0);
		assert_int_equal(n_ids(), before);
		p = ask("", true);
		assert_int_equal(p.trimmed_turns, ahead.trimmed_turns);
		assert_int_equal(p.trimmed_tokens, ahead.trimmed_tokens);
		assert_int_equal(p.moved, ahead.moved);
		assert_int_equal(CTX - 10 - p.n_ids - p.trimmed_tokens, left);
		assert_true((left < 0) == (p.trimmed_turns > 0));
		if (p.trimmed_turns) /* the turns that stay stand behind the opening of a turn */
			assert_true(p.same < 30 && p.moved > 20 && p.same + p.moved < p.n_ids);
		else
			assert_true(!p.moved && p.same == before);
		left_out += p.trimmed_turns;
	}
	assert_true(left_out > 10);
	conversation_expect(c, 1);
	begin_request(EV_REQUEST_KIND_chat);
	assert_int_equal(conversation_ahead(c, 10, true, &ahead, &left, &e), -1);
	assert_int_equal(e.code, 0);
}

static void what_can_never_fit_is_refused(void **state)
{
	struct conversation_prompt p;
	struct err e = { 0 };
	char text[4 * CTX];
	int64_t request;
	int32_t size;

	(void)state;
	ask("hi", false);
	answer(100, 3);
	size = conversation_size(c, &request);
	memset(text, '7', sizeof text);
	assert_int_equal(conversation_ask(c, text, sizeof text, 10, true, &p, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_int_equal(c->turn->n_turns, 1); /* nothing was lost by trying, or counted twice */
	assert_int_equal(conversation_size(c, &request), size);
	p = ask("hi", false);
	assert_int_equal(c->turn->n_turns, 2);
	assert_int_equal(conversation_repeat(c, &p, NULL), 0);
	conversation_new(c, "", NULL);
	assert_int_equal(conversation_repeat(c, &p, NULL), -1);
}

static void saving_does_not_overwrite(void **state)
{
	char path[] = "/tmp/cutaway-talk-XXXXXX", text[256] = "";
	struct err e = { 0 };
	struct stat st;
	FILE *f;

	(void)state;
	close(mkstemp(path));
	ask("hello there", false);
	answer(100, 3);
	assert_int_equal(conversation_save(c, path, &e), -1);
	assert_non_null(strstr(e.text, "exists"));
	unlink(path);
	assert_int_equal(conversation_save(c, path, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600); /* as private as a recording */
	f = fopen(path, "r");
	assert_true(fread(text, 1, sizeof text - 1, f) > 0);
	fclose(f);
	unlink(path);
	assert_non_null(strstr(text, "you: hello there\n\nai: "));
}

static void saving_leaves_no_half(void **state)
{
	char path[] = "/tmp/cutaway-talk-XXXXXX";
	struct rlimit all, few = { 0 };
	struct err e = { 0 };

	(void)state;
	close(mkstemp(path));
	unlink(path);
	ask("hello there", false);
	answer(100, 3);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
	few.rlim_max = all.rlim_max;
	few.rlim_cur = 5;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
	assert_int_equal(conversation_save(c, path, &e), -1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
	assert_non_null(strstr(e.text, "could not be written"));
	assert_int_equal(access(path, F_OK), -1);
}

/* ---- what the engine's thread must not wait for ---- */

static int texts_on_the_lock, texts;

static int encode(struct encoder *en, const char *text, size_t size)
{
	const bool free = !pthread_mutex_trylock(&c->lock);

	if (free)
		pthread_mutex_unlock(&c->lock);
	texts++;
	texts_on_the_lock += !free && size > 100;
	return tokenizer_bpe.encode(en, text, size);
}

/* The engine's thread takes the lock at each token: a long text is not tokenised behind it. */
static void the_engine_does_not_wait_for_a_long_text(void **state)
{
	const struct tokenizer_ops *ops = tokenizer->ops;
	struct tokenizer_ops counted = *ops;
	char text[151];

	(void)state;
	assert_ptr_equal(ops, &tokenizer_bpe);
	counted.encode = encode;
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	tokenizer->ops = &counted;
	ask(text, true);
	answer(5, 10);
	ask(text, true);
	tokenizer->ops = ops;
	assert_true(texts >= 2);
	assert_int_equal(texts_on_the_lock, 0);
}

static void a_token_allocates_nothing(void **state)
{
	int64_t request;
	long before;

	(void)state;
	ask("one", false);
	request = begin_request(EV_REQUEST_KIND_chat);
	before = allocations();
	for (int i = 0; i < CTX / 2; i++)
		token(request, 5);
	if (before < 0)
		skip();
	assert_int_equal(allocations(), before);
	assert_true(n_ids() > CTX / 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(turns_only_append),
		TEST(going_back_within_an_answer),
		TEST(going_back_to_an_earlier_turn),
		TEST(strangers_are_not_collected),
		TEST(a_turn_without_an_answer_leaves),
		TEST(forks_and_retries_share_the_prompt),
		TEST(what_was_stopped_at_once_is_not_followed),
		TEST(no_two_answers_share_a_sample),
		TEST(a_full_context_stops_or_drops),
		TEST(the_end_is_seen_ahead),
		TEST(what_can_never_fit_is_refused),
		TEST(saving_does_not_overwrite),
		TEST(saving_leaves_no_half),
		TEST(the_engine_does_not_wait_for_a_long_text),
		TEST(a_token_allocates_nothing),
	};

	return cmocka_run_group_tests_name("conversation", tests, group_setup, group_teardown);
}

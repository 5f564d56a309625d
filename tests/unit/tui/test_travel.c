/* Going back, without a screen: branches of the timeline, where a command goes to, which token is
 * meant, what of the settings changed. */
#include "tests/support/view_script.h"

#include "engine/model/gguf.h"
#include "tests/support/tiny.h"
#include "tests/support/view_check.h"
#include "tui/replay/travel.h"
#include "tui/views/chat_turn.h"
#include "tui/views/view_util.h"
#include "tui/views/views.h"

static void rewind_to(struct script *k, int64_t id, int had, int kept)
{
	struct event ev;

	ev_init(&ev, EV_rewind);
	ev.u.rewind = (struct ev_rewind){
		.request = id, .had = had, .kept = kept, .forced = EV_NULL_I, .pages = 1, .recompute = 1
	};
	tell(k, &ev);
}

static void forked(struct script *k, int64_t id, int64_t parent, int pos, const int *ids, int n)
{
	unsigned char prompt[4 * 256];
	struct event ev;

	for (int i = 0; i < n; i++)
		memcpy(prompt + 4 * i, (unsigned char[]){ (unsigned char)ids[i], 0, 0, 0 }, 4);
	ev_init(&ev, EV_request);
	ev.u.request.request = id;
	ev.u.request.kind = pos ? EV_REQUEST_KIND_fork : EV_REQUEST_KIND_chat;
	ev.u.request.parent = parent;
	ev.u.request.text = text("a question");
	ev.u.request.prompt = (struct ev_span){ prompt, (size_t)(4 * n) };
	ev.u.request.n_prompt = n;
	tell(k, &ev);
	if (!pos)
		return;
	ev_init(&ev, EV_fork);
	ev.u.fork =
		(struct ev_fork){ .request = id, .parent = parent, .pos = pos, .forced = EV_NULL_I };
	tell(k, &ev);
}

/* One answer of six tokens behind a prompt of four: taken back to 7, two others, taken back to 5,
 * one other. */
static void history(struct script *k)
{
	script_begin(k, 8, 0);
	request(k, 1, "a question", 3, SKY, 4);
	for (int i = 0; i < 6; i++)
		token(k, i + 1, 1, 4 + i, BLUE, EV_SOURCE_plain);
	rewind_to(k, 1, 10, 7);
	token(k, 7, 1, 7, DEEP, EV_SOURCE_plain);
	token(k, 8, 1, 8, DEEP, EV_SOURCE_plain);
	rewind_to(k, 1, 9, 5);
	token(k, 9, 1, 5, RED, EV_SOURCE_plain);
}

static void ids_are(const struct timeline *t, struct tl_branch b, const int *ids, int n)
{
	assert_int_equal(timeline_branch_length(t, b), n);
	for (int i = 0; i < n; i++)
		assert_int_equal(timeline_branch_id(t, b, i), ids[i]);
	assert_int_equal(timeline_branch_id(t, b, n), -1);
	assert_int_equal(timeline_branch_id(t, b, -1), -1);
}

static void what_is_left_stays_as_a_branch(void **state)
{
	static const int now[] = { SYS, SYSTEM, LINE, SKY, BLUE, RED };
	static const int first[] = { SYS, SYSTEM, LINE, SKY, BLUE, BLUE, BLUE, BLUE, BLUE, BLUE };
	static const int second[] = { SYS, SYSTEM, LINE, SKY, BLUE, BLUE, BLUE, DEEP, DEEP };
	struct script k;

	(void)state;
	history(&k);
	assert_int_equal(k.t.n_abandoned, 2);
	ids_are(&k.t, (struct tl_branch){ 1, -1, 0 }, now, 6);
	ids_are(&k.t, (struct tl_branch){ 1, 0, 0 }, first, 10);
	ids_are(&k.t, (struct tl_branch){ 1, 1, 0 }, second, 9);
	/* the first parts from the second, now that both have left */
	assert_int_equal(k.t.abandoned[0].origin.abandoned, 1);
	assert_int_equal(k.t.abandoned[0].origin.pos, 7);
	assert_int_equal(k.t.abandoned[1].origin.abandoned, -1);
	assert_int_equal(k.t.abandoned[1].origin.pos, 5);
	assert_int_equal(
		timeline_branch_common(&k.t, (struct tl_branch){ 1, 0, 0 }, (struct tl_branch){ 1, 1, 0 }),
		7);
	assert_int_equal(timeline_branch_token(&k.t, (struct tl_branch){ 1, 0, 0 }, 6)->step, 3);
	assert_null(timeline_branch_token(&k.t, (struct tl_branch){ 1, 0, 0 }, 3));
	timeline_free(&k.t);
}

static void who_goes_on_from_where(void **state)
{
	static const int fork[] = { SYS, SYSTEM, LINE, SKY, BLUE, BLUE, BLUE, DEEP, RED };
	static const int turn[] = { SYS, SYSTEM, LINE, SKY, BLUE, RED, LINE, SEA };
	static const int again[] = { SYS, SYSTEM, LINE, SKY };
	const struct tl_request *r;
	struct script k;

	(void)state;
	history(&k);
	forked(&k, 2, 1, 8, fork, 9);
	r = timeline_request(&k.t, 2);
	assert_int_equal(r->origin.request, 1);
	/* its tokens are those of the second future, not of the present */
	assert_int_equal(r->origin.abandoned, 1);
	assert_int_equal(r->origin.pos, 8);
	forked(&k, 3, 0, 0, turn, 8);
	r = timeline_request(&k.t, 3);
	assert_int_equal(r->origin.request, 1);
	assert_int_equal(r->origin.abandoned, -1);
	assert_int_equal(r->origin.pos, 6);
	forked(&k, 4, 0, 0, again, 4); /* asks the same: it goes on from nothing */
	assert_int_equal(timeline_request(&k.t, 4)->origin.request, 0);
	timeline_free(&k.t);
}

static void end_all(struct script *k, int64_t first, int64_t n)
{
	struct event ev;

	ev_init(&ev, EV_finish);
	for (int64_t id = first; id <= n; id++) {
		ev.u.finish = (struct ev_finish){ .request = id, .reason = EV_FINISH_stop };
		tell(k, &ev);
	}
}

static void shown_are(const struct timeline *t, int64_t branch, const bool *want, int left)
{
	const struct view_state s = { .branch = branch, .token = -1 };
	int n_left;
	bool *shown = view_shown(t, &s, &n_left);

	for (int32_t i = 0; i < t->n_requests; i++)
		assert_int_equal(shown[i], want[i]);
	assert_int_equal(n_left, left);
	free(shown);
}

/* What follows an answer that was left, or another conversation, is not what the model goes on
 * from. */
static void no_more_is_shown_than_the_conversation_stands_on(void **state)
{
	static const int ask[] = { SYS, SYSTEM, LINE, SKY }, other[] = { SYS, SYSTEM, LINE, SEA };
	static const int fork[] = { SYS, SYSTEM, LINE, SKY, BLUE, BLUE };
	struct script k;

	(void)state;
	script_begin(&k, 8, 0);
	forked(&k, 1, 0, 0, ask, 4);
	forked(&k, 2, 0, 0, ask, 4); /* asked again */
	for (int i = 0; i < 2; i++)
		token(&k, i + 1, 2, 4 + i, BLUE, EV_SOURCE_plain);
	forked(&k, 3, 2, 6, fork, 6);
	forked(&k, 4, 0, 0, other, 4); /* a new conversation */
	end_all(&k, 1, 4);
	shown_are(&k.t, 1, (bool[]){ true, true, false, false }, 2);
	shown_are(&k.t, 3, (bool[]){ true, false, true, false }, 2); /* which shows what it has of 2 */
	shown_are(&k.t, 4, (bool[]){ true, true, true, true }, 0);
	timeline_free(&k.t);
}

static void trimmed(struct script *k, int64_t id, int turns)
{
	struct event ev;

	ev_init(&ev, EV_trim);
	ev.u.trim = (struct ev_trim){ .request = id, .tokens = 3, .turns = turns };
	tell(k, &ev);
}

static void left_are(const struct timeline *t, int64_t branch, int32_t from, int32_t end)
{
	const struct view_state s = { .branch = branch, .token = -1 };
	int n_left;
	bool *shown = view_shown(t, &s, &n_left);
	const struct chat_left left = chat_left(t, shown);

	assert_int_equal(left.from, from);
	assert_int_equal(left.end, end);
	free(shown);
}

/* The inks of the questions that are shown. */
static void questions_are_dim(const struct timeline *t, const bool *want, int n)
{
	struct canvas c = canvas_of(60, 60, false);
	struct pen p = pen_of(&c, (struct rect){ 0, 0, 60, 60 });
	struct view_state s = fresh;
	int seen = 0;

	view_chat.draw(&p, t, &s);
	for (int y = 0; y < 60; y++)
		if (!strcmp(c.cell[y * 60].text, "y")) {
			assert_true(seen < n);
			assert_int_equal(c.cell[y * 60 + 4].ink == INK_DIM, want[seen++]);
		}
	assert_int_equal(seen, n);
	canvas_free(&c);
}

/* Turns that the context had no room for, and where the conversation was before that. */
static void what_was_left_out(void **state)
{
	static const int a[] = { SYS, SYSTEM, LINE, SKY }, b[] = { SYS, SYSTEM, LINE, SKY, BLUE, SEA },
					 c[] = { SYS, SYSTEM, LINE, SEA, BLUE, SEA }, d[] = { SYS, SYSTEM, LINE, DEEP },
					 e[] = { SYS, SYSTEM, LINE, RED };
	struct script k;

	(void)state;
	script_begin(&k, 8, 0);
	forked(&k, 1, 0, 0, a, 4);
	token(&k, 1, 1, 4, BLUE, EV_SOURCE_plain);
	forked(&k, 2, 0, 0, b, 6);
	left_are(&k.t, 0, 0, 0);
	forked(&k, 3, 0, 0, c, 6);
	trimmed(&k, 3, 1);
	end_all(&k, 1, 3);
	left_are(&k.t, 0, 0, 1);
	left_are(&k.t, 2, 0, 0);
	forked(&k, 4, 0, 0, c, 6); /* the third turn again */
	end_all(&k, 4, 4);
	left_are(&k.t, 0, 0, 1);
	assert_shows(&view_chat, &k.t, &fresh, 60, 60, "left out of the context from here up", true);
	questions_are_dim(&k.t, (bool[]){ true, false, false, false }, 4);
	forked(&k, 5, 0, 0, d, 4);
	trimmed(&k, 5, 2);
	end_all(&k, 5, 5);
	left_are(&k.t, 0, 0, 4);
	questions_are_dim(&k.t, (bool[]){ true, true, true, true, false }, 5);
	forked(&k, 6, 0, 0, e, 4); /* a new conversation */
	left_are(&k.t, 0, 0, 0);
	assert_shows(&view_chat, &k.t, &fresh, 60, 60, "left out of the context from", false);
	timeline_free(&k.t);
}

/* --- where --- */

static int32_t where(const struct travel_from *f, const char *text)
{
	struct err e = { 0 };
	struct tl_branch to;

	return travel_where(f, "rewind", text, &to, &e) < 0 ? -1 : to.pos;
}

static void where_a_command_goes_to(void **state)
{
	static const int turn[] = { SYS, SYSTEM, LINE, SKY, BLUE, RED, LINE, SEA };
	struct travel_from f;
	struct tl_branch to;
	struct err e = { 0 };
	struct script k;

	(void)state;
	history(&k);
	forked(&k, 2, 0, 0, turn, 8);
	for (int i = 0; i < 5; i++)
		token(&k, 10 + i, 2, 8 + i, DEEP, EV_SOURCE_plain);
	f = (struct travel_from){ &k.t, 2, 8, -1 };
	assert_int_equal(where(&f, "10"), 10);
	assert_int_equal(where(&f, "@10"), 10);
	assert_int_equal(where(&f, "-2"), 11);
	assert_int_equal(where(&f, ""), 13);
	assert_int_equal(where(&f, "7"), -1); /* that is another turn's */
	assert_int_equal(where(&f, "14"), -1);
	assert_int_equal(where(&f, "-6"), -1);
	assert_int_equal(where(&f, "99999999999999999999"), -1);
	assert_int_equal(where(&f, "x"), -1);
	f.cursor = 3;
	assert_int_equal(where(&f, ""), 11);
	assert_int_equal(travel_where(&f, "rewind", "turn 1", &to, &e), 0);
	assert_int_equal(to.request, 1);
	assert_int_equal(to.pos, 4);
	assert_int_equal(travel_where(&f, "rewind", "turn 2", &to, &e), 0);
	assert_int_equal(to.request, 2);
	assert_int_equal(to.pos, 8);
	assert_int_equal(travel_where(&f, "rewind", "turn 3", &to, &e), -1);
	assert_non_null(strstr(e.text, "turns 1 to 2"));
	timeline_free(&k.t);
}

/* --- tokens --- */

static void which_token_is_meant(void **state)
{
	const struct ev_candidate drawn[] = { { RED, 1, 0.5f, 1, EV_CUT_kept },
		{ DEEP, 1, 0.25f, 2, EV_CUT_kept } };
	struct tokenizer *tokenizer;
	struct gguf *gguf;
	uint8_t *file;
	size_t size;
	struct travel_from f;
	struct tl_branch at = { 1, -1, 5 };
	struct err e = { 0 };
	struct event ev;
	struct script k;
	int32_t id;

	(void)state;
	assert_int_equal(tiny_make(&TINY_DEFAULTS, &file, &size, NULL), 0);
	assert_int_equal(gguf_open_memory(&gguf, file, size, NULL), 0);
	assert_int_equal(tokenizer_open(&tokenizer, gguf, NULL), 0);
	history(&k);
	ev_init(&ev, EV_token);
	ev.u.token.step = 10;
	ev.u.token.request = 1;
	ev.u.token.pos = 6;
	ev.u.token.id = RED;
	ev.u.token.source = EV_SOURCE_plain;
	ev.u.token.candidates = (struct ev_span){ drawn, sizeof drawn };
	tell(&k, &ev);
	f = (struct travel_from){ &k.t, 1, 4, -1 };
	assert_int_equal(travel_token(tokenizer, &f, at, "#7", &id, &e), 0);
	assert_int_equal(id, 7);
	at.pos = 6; /* there ' deep' was a candidate: its text is enough */
	assert_int_equal(travel_token(tokenizer, &f, at, "deep", &id, &e), 0);
	assert_int_equal(id, DEEP);
	at.pos = 5;
	assert_int_equal(travel_token(tokenizer, &f, at, "'a'", &id, &e), 0);
	assert_int_equal(tokenizer_bytes(tokenizer, id).size, 1);
	assert_int_equal(tokenizer_bytes(tokenizer, id).data[0], 'a');
	assert_int_equal(travel_token(tokenizer, &f, at, "#99999999", &id, &e), -1);
	assert_int_equal(travel_token(tokenizer, &f, at, "", &id, &e), -1);
	e.code = 0;
	assert_int_equal(travel_token(tokenizer, &f, at, "qqqq zzzz qqqq", &id, &e), -1);
	assert_non_null(strstr(e.text, "one is needed"));
	timeline_free(&k.t);
	tokenizer_close(tokenizer);
	gguf_close(gguf);
	free(file);
}

static void what_changed(void **state)
{
	struct answer_settings s = ANSWER_DEFAULTS;
	struct tl_request r = { .n_prompt = 10 };
	const struct sample_params *p = &s.params;
	char out[200];

	(void)state;
	s.max_tokens = 20;
	r.params = (struct ev_request){ .temperature = (double)p->temperature,
		.top_k = p->top_k,
		.top_p = (double)p->top_p,
		.min_p = (double)p->min_p,
		.repeat_penalty = (double)p->repeat_penalty,
		.frequency_penalty = (double)p->frequency_penalty,
		.presence_penalty = (double)p->presence_penalty,
		.penalty_window = p->penalty_window,
		.seed = (int64_t)p->seed,
		.max_tokens = 20 };
	assert_false(travel_changed(&r, 10, &s, 256, out, sizeof out));
	r.n_prompt = 15; /* a fork, five tokens into the answer */
	r.params.max_tokens = 15;
	assert_false(travel_changed(&r, 10, &s, 256, out, sizeof out));
	s.params.temperature = 1.5f;
	s.params.seed = UINT64_MAX;
	assert_true(travel_changed(&r, 10, &s, 256, out, sizeof out));
	assert_string_equal(out, "temp 0.7 to 1.5, seed 0 to 18446744073709551615");
	assert_true(travel_changed(&r, 10, &s, 256, out, 12));
	assert_int_equal(strlen(out), 11);
	s = ANSWER_DEFAULTS;
	s.max_tokens = 20;
	sample_bias_add(&s.params.logit_bias, 7, -2.5, NULL);
	assert_true(travel_changed(&r, 10, &s, 256, out, sizeof out));
	assert_string_equal(out, "logit-bias off to 7:-2.5");
	r.bias = (int32_t[]){ 7, (int32_t)0xc0200000 }; /* -2.5f */
	r.n_bias = 2;
	assert_false(travel_changed(&r, 10, &s, 256, out, sizeof out));
	r.n_bias = 0;
	s = ANSWER_DEFAULTS; /* until the context is full */
	assert_true(travel_changed(&r, 10, &s, 256, out, sizeof out));
	assert_string_equal(out, "max-tokens 20 to 246");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_left_stays_as_a_branch),
		cmocka_unit_test(who_goes_on_from_where),
		cmocka_unit_test(where_a_command_goes_to),
		cmocka_unit_test(which_token_is_meant),
		cmocka_unit_test(what_changed),
		cmocka_unit_test(no_more_is_shown_than_the_conversation_stands_on),
		cmocka_unit_test(what_was_left_out),
	};

	return cmocka_run_group_tests_name("travel", tests, NULL, NULL);
}

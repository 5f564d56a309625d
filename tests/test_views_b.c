/* The views of pages, speculation, prefix cache, attention and time: what they say of a small
 * session whose numbers are known, what their keys do, and that no size and no stream of events
 * makes them draw outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/demo_events.h"
#include "tests/demo_random.h"
#include "tui/view_heat.h"
#include "tui/views.h"

static const struct view *const mine[] = { &view_pages, &view_speculation, &view_prefix,
										   &view_attention, &view_time };
enum { N_MINE = sizeof mine / sizeof *mine };

/* A session written by hand. */

struct script {
	struct timeline t;
	struct view_state s;
	int64_t seq;
};

static void tell(struct script *k, struct event *ev)
{
	ev->seq = ++k->seq;
	ev->t_ns = k->seq * 1000;
	timeline_fold(&k->t, ev);
	assert_int_equal(k->t.n_odd, 0);
}

static struct ev_span text(const char *s)
{
	return (struct ev_span){ s, strlen(s) };
}

/* Words of the vocabulary, by id. */
static const char *const words[] = { "<|im_start|>", "system", "\n",	" be",	" kind", " sky",
									 " sea",		 " blue",  " deep", " red", " is",	 "?" };
enum { SYS, SYSTEM, LINE, BE, KIND, SKY, SEA, BLUE, DEEP, RED, IS, ASK, N_WORDS };

static void script_begin(struct script *k, int pages, double bandwidth)
{
	struct event ev;

	memset(k, 0, sizeof *k);
	timeline_init(&k->t);
	k->s = (struct view_state){ .token = -1, .page = -1, .layer = -1, .head = -1 };
	ev_init(&ev, EV_session);
	ev.u.session.vocab = 100;
	ev.u.session.pages = pages;
	ev.u.session.page_size = 16;
	ev.u.session.n_layers = 2;
	ev.u.session.n_heads = 3;
	ev.u.session.ctx = 256;
	ev.u.session.read_bandwidth = bandwidth;
	tell(k, &ev);
	for (int i = 0; i < N_WORDS; i++) {
		ev_init(&ev, EV_vocab);
		ev.u.vocab.id = i;
		ev.u.vocab.bytes = text(words[i]);
		ev.u.vocab.special = i == SYS;
		tell(k, &ev);
	}
}

static void setting(struct script *k, const char *name, const char *value)
{
	struct event ev;

	ev_init(&ev, EV_setting);
	ev.u.setting.name = text(name);
	ev.u.setting.value = text(value);
	tell(k, &ev);
}

/* A prompt of n_same tokens of a system text, then `own` to the length n. */
static void request(struct script *k, int64_t id, const char *label, int n_same, int own, int n)
{
	unsigned char ids[4 * 256];
	struct event ev;

	assert_true(n <= 256);
	for (int i = 0; i < n; i++) {
		int w = i == 0 ? SYS : i == 1 ? SYSTEM : i == 2 ? LINE : i < n_same ? BE : own;

		memcpy(ids + 4 * i, (unsigned char[]){ (unsigned char)w, 0, 0, 0 }, 4);
	}
	ev_init(&ev, EV_request);
	ev.u.request.request = id;
	ev.u.request.kind = EV_REQUEST_KIND_chat;
	ev.u.request.text = text(label);
	ev.u.request.prompt = (struct ev_span){ ids, (size_t)(4 * n) };
	ev.u.request.n_prompt = n;
	tell(k, &ev);
	ev_init(&ev, EV_admit);
	ev.u.admit.request = id;
	ev.u.admit.slot = id - 1;
	tell(k, &ev);
}

static void lookup(struct script *k, int64_t id, int asked, int hit, enum ev_code_prefix reason,
				   int pos, int expected, int got)
{
	struct event ev;

	ev_init(&ev, EV_lookup);
	ev.u.lookup = (struct ev_lookup){ .request = id,
									  .asked = asked,
									  .hit = hit,
									  .hit_pages = hit / 16,
									  .reason = reason,
									  .nearest = 1,
									  .diverge_pos = pos,
									  .expected = expected,
									  .got = got };
	tell(k, &ev);
}

static void page(struct script *k, int page, enum ev_code_page_action action, int64_t id, int block,
				 int refs, bool cached)
{
	struct event ev;

	ev_init(&ev, EV_page);
	ev.u.page = (struct ev_page){ .page = page,
								  .action = action,
								  .request = id,
								  .block = block,
								  .refs = refs,
								  .cached = cached,
								  .other = 7 };
	tell(k, &ev);
}

static void token(struct script *k, int64_t step, int64_t id, int pos, int word,
				  enum ev_code_source source)
{
	struct event ev;

	ev_init(&ev, EV_token);
	ev.u.token.step = step;
	ev.u.token.request = id;
	ev.u.token.pos = pos;
	ev.u.token.id = word;
	ev.u.token.source = source;
	tell(k, &ev);
}

static void draft(struct script *k, int64_t step, int64_t id, int pos, int nth, int word,
				  enum ev_code_verdict verdict, int winner)
{
	struct event ev;

	ev_init(&ev, EV_draft);
	ev.u.draft = (struct ev_draft){ .step = step,
									.request = id,
									.pos = pos,
									.nth = nth,
									.id = word,
									.drafter = text("ngram"),
									.rule = EV_RULE_race,
									.verdict = verdict,
									.q = 1,
									.p = 0.25,
									.arrival = 1.5,
									.winner = winner,
									.winner_arrival = 0.5 };
	tell(k, &ev);
}

static void batch(struct script *k, int64_t step, int64_t id, enum ev_code_work work, int pos,
				  int rows)
{
	struct event ev;

	ev_init(&ev, EV_batch);
	ev.u.batch = (struct ev_batch){
		.step = step, .request = id, .slot = id - 1, .work = work, .pos = pos, .rows = rows
	};
	tell(k, &ev);
}

static void stage(struct script *k, int64_t step, const char *name, int64_t us, int64_t bytes,
				  int64_t ops)
{
	struct event ev;

	ev_init(&ev, EV_time);
	ev.u.time = (struct ev_time){
		.step = step, .stage = text(name), .ns = us * 1000, .bytes = bytes, .ops = ops
	};
	tell(k, &ev);
}

static void step(struct script *k, int64_t number, int64_t us, int prefill_rows, int tokens)
{
	struct event ev;

	ev_init(&ev, EV_step);
	ev.u.step.step = number;
	ev.u.step.running = 1;
	ev.u.step.ns = us * 1000;
	ev.u.step.prefill_rows = prefill_rows;
	ev.u.step.tokens = tokens;
	ev.u.step.tail_waste_bytes = 64000;
	ev.u.step.reserve_waste_bytes = 5000000;
	tell(k, &ev);
}

/* What a view draws, in a static buffer. */
static const char *drawn_as(struct script *k, const struct view *v, int w, int h, bool ascii)
{
	static char out[20000];
	struct canvas c = { .ascii = ascii };
	struct err e;
	char *rows;
	struct pen p;

	assert_int_equal(canvas_resize(&c, w, h, &e), 0);
	p = pen_of(&c, (struct rect){ 0, 0, w, h });
	v->draw(&p, &k->t, &k->s);
	rows = canvas_to_text(&c);
	assert_non_null(rows);
	snprintf(out, sizeof out, "%s", rows);
	free(rows);
	canvas_free(&c);
	return out;
}

static const char *drawn(struct script *k, const struct view *v, int w, int h)
{
	return drawn_as(k, v, w, h, false);
}

static void has(const char *screen, const char *part)
{
	if (!strstr(screen, part))
		fail_msg("'%s' is not in:\n%s", part, screen);
}

static void has_not(const char *screen, const char *part)
{
	if (strstr(screen, part))
		fail_msg("'%s' is in:\n%s", part, screen);
}

/* KV pages */

/* a has pages 0, 1, 2; b reads 0 and has 3; page 4 is only cached, page 5 was evicted. */
static void pages_script(struct script *k, int pages)
{
	script_begin(k, pages, NAN);
	request(k, 1, "first", 40, SKY, 48);
	for (int i = 0; i < 3; i++)
		page(k, i, EV_PAGE_alloc, 1, i, 1, false);
	page(k, 0, EV_PAGE_cache, 1, 0, 1, true);
	request(k, 2, "second", 20, SEA, 32);
	page(k, 0, EV_PAGE_share, 2, 0, 2, true);
	page(k, 3, EV_PAGE_alloc, 2, 1, 1, false);
	for (int i = 4; i < 6; i++) {
		page(k, i, EV_PAGE_alloc, 1, i - 1, 1, false);
		page(k, i, EV_PAGE_cache, 1, i - 1, 1, true);
	}
	page(k, 5, EV_PAGE_release, 1, 4, 0, true);
	page(k, 4, EV_PAGE_release, 1, 3, 0, true);
	page(k, 5, EV_PAGE_evict, EV_NULL_I, -1, 0, false);
	page(k, 5, EV_PAGE_free, EV_NULL_I, -1, 0, false);
	batch(k, 1, 1, EV_WORK_prefill, 0, 48);
	step(k, 1, 1000, 48, 0);
}

static void pages_show_who_what_and_how_many(void **state)
{
	struct script k;

	(void)state;
	pages_script(&k, 14);
	assert_string_equal(drawn(&k, &view_pages, 44, 3),
						"KV pages ──────────────── 4 of 14 · 1 shared\n"
						"a²a a b a ◆ · · · · · · · ·\n\n");
	timeline_free(&k.t);
}

static void pages_in_ascii_are_letters_and_digits(void **state)
{
	struct script k;

	(void)state;
	pages_script(&k, 14);
	has(drawn_as(&k, &view_pages, 44, 3, true), "\na2a a b a e . . . .");
	timeline_free(&k.t);
}

static void pages_that_do_not_fit_are_counted(void **state)
{
	struct script k;

	(void)state;
	pages_script(&k, 300);
	/* 20 a row, 2 rows, and the note takes the room of 5 pages: 300 - 35 */
	has(drawn(&k, &view_pages, 40, 3), "+265 free");
	k.s.page = 299; /* the cursor is kept in sight */
	has(drawn(&k, &view_pages, 40, 3), "free");
	assert_true(k.s.scroll[VIEW_PAGES] > 0);
	timeline_free(&k.t);
}

static void pages_keys_move_the_cursor(void **state)
{
	struct script k;

	(void)state;
	pages_script(&k, 30);
	drawn(&k, &view_pages, 20, 8); /* 10 a row */
	assert_true(view_pages.key(KEY_RIGHT_, &k.t, &k.s));
	assert_int_equal(k.s.page, 0);
	view_pages.key(KEY_RIGHT_, &k.t, &k.s);
	assert_int_equal(k.s.page, 1);
	view_pages.key(KEY_DOWN_, &k.t, &k.s);
	assert_int_equal(k.s.page, 11);
	view_pages.key(KEY_LEFT_, &k.t, &k.s);
	assert_int_equal(k.s.page, 10);
	view_pages.key(KEY_UP_, &k.t, &k.s);
	assert_int_equal(k.s.page, 0);
	view_pages.key(KEY_UP_, &k.t, &k.s);
	assert_int_equal(k.s.page, 0);
	view_pages.key(KEY_END_, &k.t, &k.s);
	assert_int_equal(k.s.page, 29);
	view_pages.key(KEY_HOME_, &k.t, &k.s);
	assert_int_equal(k.s.page, 0);
	assert_true(view_pages.key(KEY_ESC, &k.t, &k.s));
	assert_int_equal(k.s.page, -1);
	assert_false(view_pages.key(KEY_ESC, &k.t, &k.s));
	assert_false(view_pages.key('x', &k.t, &k.s));
	timeline_free(&k.t);
}

static void pages_tell_their_story(void **state)
{
	struct script k;
	const char *screen;

	(void)state;
	pages_script(&k, 30);
	k.s.page = 0;
	k.s.zoomed = true;
	screen = drawn(&k, &view_pages, 110, 24);
	has(screen, "page 0 · tokens 0-15 · read by b a · cached");
	has(screen, "a takes it for its block 0");
	has(screen, "a filled it: kept by the prefix cache");
	has(screen, "b reads it: same beginning, 2 readers");
	has(screen, "system\\n be be");
	has(screen, "unused 64.0 KB · without pages 5.00 MB");
	k.s.page = 5;
	screen = drawn(&k, &view_pages, 110, 24);
	has(screen, "page 5 · free");
	k.s.page = -1;
	has(drawn(&k, &view_pages, 110, 24),
		"unused room in last pages 64.0 KB · without pages (256 tokens reserved for each) 5.00 MB");
	k.s.page = 5;
	screen = drawn(&k, &view_pages, 110, 24);
	has(screen, "◆ evicted, unused for 7 steps");
	timeline_free(&k.t);
}

static void pages_show_the_page_of_the_chosen_token(void **state)
{
	struct script k;

	(void)state;
	pages_script(&k, 30);
	k.s.request = 2;
	token(&k, 1, 2, 32, BLUE, EV_SOURCE_plain);
	page(&k, 9, EV_PAGE_alloc, 2, 2, 1, false);
	has_not(drawn(&k, &view_pages, 60, 8), "page 9");
	k.s.token = 0;
	has(drawn(&k, &view_pages, 60, 8), "page 9 · tokens 32-47 · read by b");
	timeline_free(&k.t);
}

static void an_old_eviction_flashes_no_more(void **state)
{
	struct script k;

	(void)state;
	pages_script(&k, 14);
	has(drawn(&k, &view_pages, 44, 3), "a ◆ ·");
	for (int i = 2; i < 12; i++) {
		batch(&k, i, 1, EV_WORK_decode, 46 + i, 1);
		step(&k, i, 1000, 0, 1);
	}
	has_not(drawn(&k, &view_pages, 44, 3), "◆");
	timeline_free(&k.t);
}

/* Speculation */

/* Two verify steps of a, and a plain one between: 3 + 1 + 1 tokens in 3 steps. */
static void spec_script(struct script *k)
{
	script_begin(k, 8, NAN);
	setting(k, "spec", "ngram:3");
	request(k, 1, "first", 3, SKY, 4);
	draft(k, 1, 1, 4, 1, SKY, EV_VERDICT_accepted, SKY);
	token(k, 1, 1, 4, SKY, EV_SOURCE_accepted);
	draft(k, 1, 1, 5, 2, IS, EV_VERDICT_accepted, IS);
	token(k, 1, 1, 5, IS, EV_SOURCE_accepted);
	token(k, 1, 1, 6, BLUE, EV_SOURCE_bonus);
	batch(k, 1, 1, EV_WORK_verify, 3, 3);
	step(k, 1, 1000, 0, 3);
	token(k, 2, 1, 7, ASK, EV_SOURCE_plain);
	batch(k, 2, 1, EV_WORK_decode, 6, 1);
	step(k, 2, 1000, 0, 1);
	draft(k, 3, 1, 8, 1, SEA, EV_VERDICT_rejected, RED);
	draft(k, 3, 1, 9, 2, DEEP, EV_VERDICT_unread, 0);
	token(k, 3, 1, 8, RED, EV_SOURCE_corrected);
	batch(k, 3, 1, EV_WORK_verify, 7, 3);
	step(k, 3, 1000, 0, 1);
}

static void speculation_reads_from_left_to_right(void **state)
{
	struct script k;

	(void)state;
	spec_script(&k);
	assert_string_equal(drawn(&k, &view_speculation, 50, 4),
						"speculation ────── n-gram k=3 · 1.67 tokens a step\n"
						"✓sky ✓is +blue\n"
						"✗sea →red ·deep\n"
						"accepted  1 ▄  50 % 2 █ 100 % 3       –\n");
	assert_string_equal(drawn_as(&k, &view_speculation, 50, 3, true) + 51, "+sky +is +blue\n"
																		   "xsea >red .deep\n");
	timeline_free(&k.t);
}

static void speculation_zoomed_has_the_numbers(void **state)
{
	struct script k;
	const char *screen;

	(void)state;
	spec_script(&k);
	k.s.zoomed = true;
	screen = drawn(&k, &view_speculation, 110, 30);
	has(screen, "50 %  1 of 2");
	has(screen, "3  a  1  ␣sea");
	has(screen, "1.000   0.250     1.500  ␣red              0.500  ✗ rejected");
	has(screen, "unjudged");
	timeline_free(&k.t);
}

static void speculation_off_says_how_to_turn_it_on(void **state)
{
	struct script k;

	(void)state;
	script_begin(&k, 8, NAN);
	has(drawn(&k, &view_speculation, 60, 3), "/spec ngram");
	setting(&k, "spec", "off");
	has(drawn(&k, &view_speculation, 60, 3), "/spec ngram");
	setting(&k, "spec", "ngram");
	has(drawn(&k, &view_speculation, 60, 3), "n-gram\nnothing drafted yet");
	timeline_free(&k.t);
}

/* Prefix cache */

static void prefix_script(struct script *k)
{
	script_begin(k, 64, NAN);
	request(k, 1, "first", 40, SKY, 60);
	lookup(k, 1, 60, 0, EV_PREFIX_empty, 0, 0, 0);
	request(k, 2, "second", 40, SEA, 100);
	lookup(k, 2, 100, 32, EV_PREFIX_diverged, 40, SKY, SEA);
	request(k, 3, "third", 40, SEA, 110);
	lookup(k, 3, 110, 96, EV_PREFIX_tail, 0, 0, 0);
}

static void prefix_tree_shows_who_begins_like_whom(void **state)
{
	struct script k;

	(void)state;
	prefix_script(&k);
	assert_string_equal(drawn(&k, &view_prefix, 50, 6),
						"prefix cache ──────────────── hit 96 of 110 tokens\n"
						"system prompt 2 pages a b c\n"
						"├─ a first            2 pages  nothing alike\n"
						"└─ …be be be be be be be b… 4 pages b c\n"
						"   ├─ b second        1 page   miss at 40: ' sea'\n"
						"   └─ c third         1 page   new from 96 on\n");
	timeline_free(&k.t);
}

static void prefix_on_one_line_tells_the_newest(void **state)
{
	struct script k;

	(void)state;
	prefix_script(&k);
	k.s.request = 2;
	assert_string_equal(drawn(&k, &view_prefix, 40, 2), "prefix cache ────── hit 32 of 100 tokens\n"
														"b miss at 40: ' sea'\n");
	timeline_free(&k.t);
}

static void prefix_zoomed_adds_up_the_session(void **state)
{
	struct script k;
	const char *screen;

	(void)state;
	prefix_script(&k);
	k.s.zoomed = true;
	screen = drawn(&k, &view_prefix, 110, 30);
	has(screen, "in this session 128 of 270 prompt tokens were found: 47 %");
	has(screen, "b second                         100      32       2    32 %   at 40 it says ' "
				"sea', a said ' sky'");
	timeline_free(&k.t);
}

static void a_turn_that_goes_on_is_one_line(void **state)
{
	struct script k;
	struct event ev;
	const char *screen;

	(void)state;
	script_begin(&k, 64, NAN);
	request(&k, 1, "turn one", 40, SKY, 48);
	lookup(&k, 1, 48, 0, EV_PREFIX_empty, 0, 0, 0);
	ev_init(&ev, EV_finish);
	ev.u.finish.request = 1;
	ev.u.finish.reason = EV_FINISH_end;
	tell(&k, &ev);
	screen = drawn(&k, &view_prefix, 50, 5);
	has(screen, "turn one");
	request(&k, 2, "turn two", 40, SKY, 80);
	screen = drawn(&k, &view_prefix, 50, 5);
	has(screen, "turn two");
	has_not(screen, "turn one");
	timeline_free(&k.t);
}

/* Attention */

/* Two layers over 8 pages. Packed shares: (v / 255)^2. */
static void attention_script(struct script *k)
{
	static const unsigned char share[2][8] = { { 255, 0, 0, 0, 0, 0, 0, 0 },
											   { 0, 0, 0, 180, 0, 0, 0, 180 } };
	static const unsigned char near[4] = { 0xff, 0x7f, 0xff, 0xff }; /* a half, and all */
	struct event ev;

	script_begin(k, 16, NAN);
	request(k, 1, "first", 40, SKY, 120);
	for (int i = 0; i < 8; i++)
		page(k, i, EV_PAGE_alloc, 1, i, 1, false);
	ev_init(&ev, EV_attention);
	ev.u.attention = (struct ev_attention){ .step = 1,
											.request = 1,
											.pos = 119,
											.pages = 8,
											.share = { share, sizeof share },
											.threshold = 0.001,
											.near_zero = { near, sizeof near } };
	tell(k, &ev);
}

static void attention_adds_up_shares(void **state)
{
	struct script k;

	(void)state;
	attention_script(&k);
	/* the mean: a half in the first page, a quarter in pages 3 and 7 */
	assert_string_equal(drawn(&k, &view_attention, 60, 4),
						"attention ─────────────── all layers · 100 % in 3 of 8 pages\n"
						"███      ▄▄▄         ▄▄▄\n"
						"sink        recent\n"
						"share  sink  50 %  last 4 pages  25 %  near zero  75 %\n");
	k.s.layer = 0;
	has(drawn(&k, &view_attention, 60, 4), "layer 0 · 100 % in 1 of 8 pages");
	has(drawn(&k, &view_attention, 60, 4), "sink 100 %  last 4 pages   0 %  near zero  50 %");
	timeline_free(&k.t);
}

static void attention_shows_a_head_once_it_was_observed(void **state)
{
	static const unsigned char share[8] = { 0, 255, 0, 0, 0, 0, 0, 0 };
	struct script k;
	struct event ev;

	(void)state;
	attention_script(&k);
	k.s.layer = 1;
	k.s.head = 2;
	has(drawn(&k, &view_attention, 80, 4), "head 2 from the next step · layer 1 · ");
	ev_init(&ev, EV_head);
	ev.u.head = (struct ev_head){
		.step = 1, .request = 1, .layer = 1, .head = 2, .share = { share, sizeof share }
	};
	tell(&k, &ev);
	has(drawn(&k, &view_attention, 80, 4), "layer 1 head 2 · 100 % in 1 of 8 pages");
	has(drawn(&k, &view_attention, 80, 4), "\n   ███\n");
	timeline_free(&k.t);
}

static void attention_keys_choose_layer_and_head(void **state)
{
	struct script k;

	(void)state;
	attention_script(&k);
	for (int i = 0; i < 4; i++) /* two layers: it stops at the last */
		assert_true(view_attention.key(KEY_DOWN_, &k.t, &k.s));
	assert_int_equal(k.s.layer, 1);
	for (int i = 0; i < 5; i++)
		view_attention.key(KEY_RIGHT_, &k.t, &k.s);
	assert_int_equal(k.s.head, 2);
	view_attention.key(KEY_LEFT_, &k.t, &k.s);
	assert_int_equal(k.s.head, 1);
	view_attention.key(KEY_HOME_, &k.t, &k.s);
	assert_int_equal(k.s.layer, -1);
	assert_int_equal(k.s.head, -1);
	view_attention.key(KEY_RIGHT_, &k.t, &k.s); /* a head needs a layer */
	assert_int_equal(k.s.layer, 0);
	assert_int_equal(k.s.head, 0);
	view_attention.key(KEY_UP_, &k.t, &k.s);
	assert_int_equal(k.s.head, -1);
	timeline_free(&k.t);
}

static void attention_zoomed_has_all_layers(void **state)
{
	struct script k;
	const char *screen;

	(void)state;
	attention_script(&k);
	k.s.zoomed = true;
	screen = drawn(&k, &view_attention, 110, 24);
	has(screen, " mean ");
	has(screen, "100 %        0 %       50 %"); /* layer 0: sink, recent, near zero */
	has(screen, "0 %       50 %      100 %");	/* layer 1 */
	has(screen, "values below 0.001");
	timeline_free(&k.t);
}

/* Heat is one scale, so equal colours mean equal shares. */
static void heat_grows_and_ends(void **state)
{
	(void)state;
	assert_int_equal(view_heat_ink(0), INK_HEAT_0);
	assert_int_equal(view_heat_ink((double)NAN), INK_HEAT_0);
	assert_int_equal(view_heat_ink(VIEW_HEAT_FULL), INK_HEAT_15);
	assert_int_equal(view_heat_ink(1), INK_HEAT_15);
	for (int i = 1; i <= 1000; i++)
		assert_true(view_heat_ink(i / 1000.0) >= view_heat_ink((i - 1) / 1000.0));
}

/* Time */

static void time_script(struct script *k, double bandwidth)
{
	script_begin(k, 8, bandwidth);
	request(k, 1, "first", 3, SKY, 40);
	stage(k, 1, "qkv", 40000, 10000000, 4000000000);
	batch(k, 1, 1, EV_WORK_prefill, 0, 40);
	step(k, 1, 50000, 40, 0);
	for (int i = 2; i < 4; i++) { /* 2 and 4 ms: mean 3 */
		stage(k, i, "qkv", (i - 1) * 1000, 15000000, 60000000);
		stage(k, i, "head", (i - 1) * 500, 7500000, 30000000);
		batch(k, i, 1, EV_WORK_decode, 38 + i, 1);
		step(k, i, (i - 1) * 2000, 0, 1);
	}
}

static void time_is_a_mean_of_steps_of_one_kind(void **state)
{
	struct script k;

	(void)state;
	time_script(&k, 20e9);
	/* 22.5 MB in 2.25 ms of kernels: 10 GB/s */
	has(drawn(&k, &view_time, 60, 4), "3.00 ms a step · 50 % of 20.0 GB/s");
	has(drawn(&k, &view_time, 60, 4), "■ qkv 50 ");
	has(drawn(&k, &view_time, 60, 4), "■ head 25 ");
	has(drawn(&k, &view_time, 60, 4), "■ rest 25");
	assert_true(view_time.key(KEY_RIGHT_, &k.t, &k.s));
	has(drawn(&k, &view_time, 60, 4), "50.0 ms a prompt step · 100.0 Gop/s");
	has(drawn(&k, &view_time, 60, 4), "■ qkv 80 ");
	view_time.key(KEY_LEFT_, &k.t, &k.s);
	has(drawn(&k, &view_time, 60, 4), "3.00 ms a step");
	timeline_free(&k.t);
}

static void time_claims_no_fraction_without_a_measurement(void **state)
{
	struct script k;
	const char *screen;

	(void)state;
	time_script(&k, (double)NAN);
	has(drawn(&k, &view_time, 60, 4), "3.00 ms a step · 10.0 GB/s");
	k.s.zoomed = true;
	screen = drawn(&k, &view_time, 110, 30);
	has_not(screen, "GB/s of the");
	has_not(screen, "takes");
	timeline_free(&k.t);
}

static void time_zoomed_says_what_each_stage_reached(void **state)
{
	struct script k;
	const char *screen;

	(void)state;
	time_script(&k, 20e9);
	k.s.zoomed = true;
	screen = drawn(&k, &view_time, 100, 30);
	has(screen, "qkv             1.500    50 %");
	has(screen, "15.00     60.00     4.00   10.00     50 %");
	has(screen, "mean of 2 decode steps");
	timeline_free(&k.t);
}

/* All of them */

static void guarded_draw(const struct view *v, const struct timeline *t, struct view_state *s,
						 struct canvas *c, int w, int h)
{
	struct pen p;

	canvas_clear(c);
	p = pen_of(c, (struct rect){ 2, 1, w, h });
	v->draw(&p, t, s);
	for (int y = 0; y < c->h; y++)
		for (int x = 0; x < c->w; x++)
			if (x < 2 || x >= 2 + w || y < 1 || y >= 1 + h)
				assert_string_equal(c->cell[y * c->w + x].text, " ");
}

static void sink(void *arg, const struct event *ev)
{
	timeline_fold(arg, ev);
}

static void sweep(const struct timeline *t, int steps)
{
	static const int some[] = { 1, 2, 3, 4, 5, 7, 9, 11, 13, 16, 19, 23, 28, 33, 38, 43, 50 };
	struct canvas c = { 0 };
	struct err e;

	assert_int_equal(canvas_resize(&c, 124, 52, &e), 0);
	for (int v = 0; v < N_MINE; v++)
		for (int w = 1; w <= 120; w += steps)
			for (size_t i = 0; i < sizeof some / sizeof *some; i++)
				for (int zoom = 0; zoom < 2; zoom++) {
					struct view_state s = { .token = w % 3 - 1,
											.page = w % 40 - 1,
											.layer = w % 7 - 1,
											.head = w % 5 - 1,
											.zoomed = zoom,
											.request = w % 6 };
					c.ascii = w % 2;
					guarded_draw(mine[v], t, &s, &c, w, some[i]);
				}
	canvas_free(&c);
}

static void no_size_draws_outside(void **state)
{
	static const int at[] = { 0, 1, 20, DEMO_CHAT_STEPS, DEMO_STEPS };
	struct timeline t;

	(void)state;
	for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
		timeline_init(&t);
		if (i)
			demo_play(sink, &t, at[i]);
		sweep(&t, i < 2 ? 7 : 3);
		timeline_free(&t);
	}
}

static void no_stream_of_events_breaks_a_view(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct demo_random d = { .state = seed };
		struct timeline t;

		timeline_init(&t);
		for (int i = 0; i < 3000; i++) {
			struct event ev;

			demo_random_event(&d, &ev);
			timeline_fold(&t, &ev);
		}
		sweep(&t, 29);
		timeline_free(&t);
	}
}

/* Any key at any time, before anything happened and after. */
static void keys_are_safe_and_known(void **state)
{
	static const int keys[] = { KEY_UP_,   KEY_DOWN_,  KEY_LEFT_,	KEY_RIGHT_,
								KEY_HOME_, KEY_END_,   KEY_PAGE_UP, KEY_PAGE_DOWN,
								KEY_ESC,   KEY_ENTER_, 'q',			0x1f600 };
	enum { N_KEYS = sizeof keys / sizeof *keys };
	struct canvas c = { 0 };
	struct err e;

	(void)state;
	assert_int_equal(canvas_resize(&c, 124, 52, &e), 0);
	for (int steps = 0; steps <= DEMO_CHAT_STEPS; steps += DEMO_CHAT_STEPS)
		for (int v = 0; v < N_MINE; v++) {
			struct view_state s = { .token = -1, .page = -1, .layer = -1, .head = -1 };
			struct timeline t;

			timeline_init(&t);
			if (steps)
				demo_play(sink, &t, steps);
			for (int i = 0; i < 300; i++) {
				s.zoomed = i / 30 % 2;
				mine[v]->key(keys[(i * i + 7 * i) % N_KEYS], &t, &s);
				guarded_draw(mine[v], &t, &s, &c, 20 + i % 100, 1 + i % 50);
			}
			assert_false(mine[v]->key('q', &t, &s));
			timeline_free(&t);
		}
	canvas_free(&c);
}

static void each_explains_itself(void **state)
{
	(void)state;
	for (int v = 0; v < N_MINE; v++) {
		const char *help = mine[v]->help;

		assert_ptr_equal(views[mine[v]->index], mine[v]);
		has(help, "Why it matters:");
		has(help, "Try:");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_show_who_what_and_how_many),
		cmocka_unit_test(pages_in_ascii_are_letters_and_digits),
		cmocka_unit_test(pages_that_do_not_fit_are_counted),
		cmocka_unit_test(pages_keys_move_the_cursor),
		cmocka_unit_test(pages_tell_their_story),
		cmocka_unit_test(pages_show_the_page_of_the_chosen_token),
		cmocka_unit_test(an_old_eviction_flashes_no_more),
		cmocka_unit_test(speculation_reads_from_left_to_right),
		cmocka_unit_test(speculation_zoomed_has_the_numbers),
		cmocka_unit_test(speculation_off_says_how_to_turn_it_on),
		cmocka_unit_test(prefix_tree_shows_who_begins_like_whom),
		cmocka_unit_test(prefix_on_one_line_tells_the_newest),
		cmocka_unit_test(prefix_zoomed_adds_up_the_session),
		cmocka_unit_test(a_turn_that_goes_on_is_one_line),
		cmocka_unit_test(attention_adds_up_shares),
		cmocka_unit_test(attention_shows_a_head_once_it_was_observed),
		cmocka_unit_test(attention_keys_choose_layer_and_head),
		cmocka_unit_test(attention_zoomed_has_all_layers),
		cmocka_unit_test(heat_grows_and_ends),
		cmocka_unit_test(time_is_a_mean_of_steps_of_one_kind),
		cmocka_unit_test(time_claims_no_fraction_without_a_measurement),
		cmocka_unit_test(time_zoomed_says_what_each_stage_reached),
		cmocka_unit_test(no_size_draws_outside),
		cmocka_unit_test(no_stream_of_events_breaks_a_view),
		cmocka_unit_test(keys_are_safe_and_known),
		cmocka_unit_test(each_explains_itself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

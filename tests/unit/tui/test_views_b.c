/* The views of speculation, prefix cache, attention and time: what they say of a small
 * session whose numbers are known, and what their keys do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "tests/support/view_script.h"
#include "tui/views/view_util.h"
#include "tui/state/lens.h"

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
	draft(k, 3, 1, 9, 2, DEEP, EV_VERDICT_discarded, 0);
	token(k, 3, 1, 8, RED, EV_SOURCE_corrected);
	batch(k, 3, 1, EV_WORK_verify, 7, 3);
	step(k, 3, 1000, 0, 1);
}

static void speculation_reads_from_left_to_right(void **state)
{
	struct script k;

	(void)state;
	script_begin(&k, 8, NAN);
	setting(&k, "spec", "ngram:3");
	has(drawn(&k, &view_speculation, 60, 4), "nothing drafted yet: nothing was asked");
	timeline_free(&k.t);
	spec_script(&k);
	assert_string_equal(drawn(&k, &view_speculation, 50, 4),
		"speculation ─── ngram:3 · 2 of 3 kept, 1.67 a step\n"
		"✓sky ✓is +blue\n"
		"✗sea →red ·deep\n"
		"accepted  1 ▄  50 % 2 █ 100 %\n");
	assert_string_equal(drawn_as(&k, &view_speculation, 50, 3, true) + 51, "=sky =is +blue\n"
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
	has(screen, "1.000   0.250     1.500  ␣red              0.500  ✗     ✓");
	has(screen, "discarded");
	timeline_free(&k.t);
}

/* In a recording whose steps count backwards, or that ends within its first. */
static void speculation_zoomed_needs_no_step(void **state)
{
	struct script k;

	(void)state;
	script_begin(&k, 8, NAN);
	setting(&k, "spec", "ngram:3");
	request(&k, 1, "first", 3, SKY, 4);
	draft(&k, 1, 1, 4, 1, SKY, EV_VERDICT_accepted, SKY);
	k.s.zoomed = true;
	has(drawn(&k, &view_speculation, 110, 30), "sky");
	timeline_free(&k.t);
}

/* What another drafter reached says nothing of this one: its lines have its name, its numbers are
 * gone. */
static void speculation_counts_begin_with_the_setting(void **state)
{
	struct script k;
	const char *screen;

	(void)state;
	spec_script(&k);
	setting(&k, "spec", "skip:20");
	screen = drawn(&k, &view_speculation, 60, 4);
	has(screen, "─ skip 20 layers\n");
	has(screen, "before: ngram");
	has_not(screen, "50 %");
	draft(&k, 4, 1, 9, 1, SEA, EV_VERDICT_accepted, SEA);
	token(&k, 4, 1, 9, SEA, EV_SOURCE_accepted);
	token(&k, 4, 1, 10, DEEP, EV_SOURCE_bonus);
	batch(&k, 4, 1, EV_WORK_verify, 8, 2);
	step(&k, 4, 1000, 0, 2);
	screen = drawn(&k, &view_speculation, 100, 6);
	has(screen, "skip 20 layers · 1 of 1 kept, 2.00 tokens a step · 1 step");
	has(screen, "accepted  1 █ 100 %\n");
	request(&k, 2, "second", 3, SKY, 4);
	token(&k, 5, 1, 11, SEA, EV_SOURCE_plain);
	token(&k, 5, 2, 4, SEA, EV_SOURCE_plain);
	batch(&k, 5, 1, EV_WORK_decode, 10, 1);
	batch(&k, 5, 2, EV_WORK_decode, 3, 1);
	step(&k, 5, 1000, 0, 2);
	has(drawn(&k, &view_speculation, 100, 6),
		"skip 20 layers · 1 of 1 kept, 1.33 tokens a step · 3 steps");
	timeline_free(&k.t);
}

/* Two answers: the numbers are those of the one in focus, and all are named as such. */
static void speculation_counts_one_answer(void **state)
{
	struct script k;

	(void)state;
	spec_script(&k);
	request(&k, 2, "second", 3, SKY, 4);
	draft(&k, 4, 2, 4, 1, SEA, EV_VERDICT_rejected, RED);
	token(&k, 4, 2, 4, RED, EV_SOURCE_corrected);
	batch(&k, 4, 2, EV_WORK_verify, 3, 2);
	step(&k, 4, 1000, 0, 1);
	has(drawn(&k, &view_speculation, 60, 4), "ngram:3 · b 0 of 1 kept, 1.00 a step, all 1.50\n");
	has(drawn(&k, &view_speculation, 60, 4), "accepted  1     0 %\n");
	has(drawn(&k, &view_speculation, 100, 4),
		"b 0 of 1 kept, 1.00 tokens a step in this answer, all 1.50");
	k.s.request = 1;
	has(drawn(&k, &view_speculation, 60, 4), "ngram:3 · a 2 of 3 kept, 1.67 a step, all 1.50\n");
	k.s.zoomed = true;
	has(drawn(&k, &view_speculation, 110, 30), "3 steps, answer a");
	setting(&k, "spec", "off");
	k.s.zoomed = false;
	has_not(drawn(&k, &view_speculation, 60, 4), "accepted");
	for (int32_t i = 0; i < k.t.n_drafts; i++) /* those of a are no longer kept */
		k.t.draft[i].request = 2;
	has(drawn(&k, &view_speculation, 60, 4), "its steps lie too far back");
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
	has(drawn(&k, &view_speculation, 60, 3), "ngram\nnothing drafted yet");
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
		"├─ a first            2 pages  cache was empty\n"
		"└─ …be be be be be be be b… 4 pages b c\n"
		"   ├─ b second        1 page   miss at 40: ' sea'\n"
		"   └─ c third         1 page   new from 96 on\n");
	timeline_free(&k.t);
}

static void asks_first(struct script *k, int64_t id, const char *adapter)
{
	k->adapter = adapter;
	request(k, id, "ask", 0, SKY, 60);
	lookup(k, id, 60, 0, EV_PREFIX_empty, 0, 0, 0);
	k->s.request = id;
}

static void prefix_has_a_tree_for_each_adapter(void **state)
{
	struct script k;
	struct event ev;

	(void)state;
	script_begin(&k, 64, NAN);
	ev_init(&ev, EV_adapter);
	ev.u.adapter.adapter = 1;
	ev.u.adapter.name = text("sailor");
	tell(&k, &ev);
	asks_first(&k, 1, NULL);
	assert_string_equal(drawn(&k, &view_prefix, 40, 2), "prefix cache ──────── hit 0 of 60 tokens\n"
														"a first with none\n");
	asks_first(&k, 2, "sailor");
	assert_string_equal(drawn(&k, &view_prefix, 40, 2), "prefix cache ──────── hit 0 of 60 tokens\n"
														"b first with sailor\n");
	asks_first(&k, 3, "sailor");
	assert_string_equal(drawn(&k, &view_prefix, 40, 2), "prefix cache ──────── hit 0 of 60 tokens\n"
														"c no match\n");
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

/* What a setting emptied is not drawn; of an ended request the cache has the whole pages. */
static void only_what_is_cached_is_in_the_tree(void **state)
{
	struct script k;
	struct event ev;

	(void)state;
	script_begin(&k, 64, NAN);
	request(&k, 1, "before", 47, SKY, 47);
	lookup(&k, 1, 47, 0, EV_PREFIX_empty, 0, 0, 0);
	token(&k, 1, 1, 47, SKY, EV_SOURCE_plain);
	has(drawn(&k, &view_prefix, 50, 5), "a before              3 pages");
	ev_init(&ev, EV_finish);
	ev.u.finish.request = 1;
	ev.u.finish.reason = EV_FINISH_length;
	tell(&k, &ev);
	has(drawn(&k, &view_prefix, 50, 5), "a before              2 pages");
	ev_init(&ev, EV_page);
	ev.u.page.page = 1;
	ev.u.page.action = EV_PAGE_evict;
	tell(&k, &ev);
	has(drawn(&k, &view_prefix, 60, 5), "empty: a setting emptied the cache");
	request(&k, 2, "after", 47, SKY, 47);
	has(drawn(&k, &view_prefix, 50, 5), "b after");
	has_not(drawn(&k, &view_prefix, 50, 5), "before");
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
		"share  sink  50 %  last 4 pages  25 %  sparsity  75 %\n");
	k.s.layer = 0;
	has(drawn(&k, &view_attention, 60, 4), "layer 0 · 100 % in 1 of 8 pages");
	has(drawn(&k, &view_attention, 60, 4), "sink 100 %  last 4 pages   0 %  sparsity  50 %");
	timeline_free(&k.t);
}

/* Where rows read only some of what they see: how much of each page, and bytes. */
static void what_was_not_read_is_drawn(void **state)
{
	static const unsigned char share[2][8] = { { 255 }, { 255 } };
	static const unsigned char read[8] = { 255, 0, 128, 0, 64, 0, 255, 255 };
	struct script k;
	struct event ev;

	(void)state;
	attention_script(&k);
	has_not(drawn(&k, &view_attention, 90, 20), "read");
	has_not(drawn(&k, &view_pages, 60, 6), "▄");
	ev_init(&ev, EV_attention);
	ev.u.attention = (struct ev_attention){ .step = 1,
		.request = 1,
		.pos = 119,
		.pages = 8,
		.share = { share, sizeof share },
		.threshold = 0.001,
		.read = { read, sizeof read } };
	tell(&k, &ev);
	has(drawn(&k, &view_pages, 60, 6), "a█a a▄a a▂a a█a█");
	k.s.page = 1;
	has(drawn(&k, &view_pages, 90, 10), "page 1 · tokens 16-31 · read by a · not read");
	k.s.page = 2;
	has(drawn(&k, &view_pages, 90, 10), "read by a · 50 % read");
	ev_init(&ev, EV_step);
	ev.u.step.step = 1;
	ev.u.step.kv_bytes = 12000000;
	ev.u.step.kv_whole_bytes = 47000000;
	tell(&k, &ev);
	has(drawn(&k, &view_attention, 90, 4), "KV read 12.0 MB of 47.0 MB");
	k.s.zoomed = true;
	has(drawn(&k, &view_attention, 90, 20), " read");
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
	has(screen, "0 %       50 %      100 %");   /* layer 1 */
	has(screen, "values below 0.001");
	timeline_free(&k.t);
}

/* Layer 0 has none: its zeros are no part of the mean sparsity. */
static void attention_says_where_there_is_none(void **state)
{
	static const unsigned char share[2][2] = { { 0, 0 }, { 180, 180 } };
	static const unsigned char near[4] = { 0, 0, 0xff, 0x7f };
	struct script k;
	struct event ev;

	(void)state;
	attention_script(&k);
	ev_init(&ev, EV_attention);
	ev.u.attention = (struct ev_attention){ .step = 1,
		.request = 1,
		.pos = 20,
		.pages = 2,
		.share = { share, sizeof share },
		.threshold = 0.001,
		.near_zero = { near, sizeof near } };
	tell(&k, &ev);
	has(drawn(&k, &view_attention, 60, 4), "sparsity  50 %");
	k.s.layer = 0;
	has(drawn(&k, &view_attention, 60, 4), " layer 0 has no attention\n");
	timeline_free(&k.t);
	script_begin(&k, 4, NAN);
	has(drawn(&k, &view_attention, 60, 4), "nothing yet");
	k.t.session.n_heads = 0;
	has(drawn(&k, &view_attention, 60, 4),
		"this model has no attention: a layer reads its own state");
	has_not(drawn(&k, &view_attention, 60, 4), "nothing yet");
	timeline_free(&k.t);
	script_begin(&k, 16, NAN); /* a request that was computed, but whose rows are not kept */
	request(&k, 1, "first", 3, SKY, 4);
	token(&k, 1, 1, 4, SEA, EV_SOURCE_plain);
	has(drawn(&k, &view_attention, 60, 4), "its steps lie too far back");
	timeline_free(&k.t);
}

/* A deep look into a model without attention and feed-forward shows neither as zeros. */
static void a_deep_look_says_what_the_model_lacks(void **state)
{
	struct probe_layer layer = { .entropy = 1.5f, .token_rank = 2, .residual_rms = 0.4f };
	float logits[1] = { 1 };
	struct probe probe = { .n = 3, .n_layers = 1, .vocab = 1, .layer = &layer, .logits = logits };
	const struct lens_look look = {
		.state = LENS_DONE, .request = 1, .n = 3, .hash = EV_NULL_I, .probe = &probe
	};
	struct script k;

	(void)state;
	script_begin(&k, 4, NAN);
	k.s.lens = &look;
	has(drawn(&k, &view_lens, 120, 30), "1.50     –    0.4");
	has(drawn(&k, &view_lens, 120, 30), "none in this model");
	has_not(drawn(&k, &view_lens, 120, 30), "positions"); /* the row */
	timeline_free(&k.t);
}

/* Layers without attention left no row: what lies there counts for nothing. */
static void a_deep_look_has_rows_of_layers_with_attention(void **state)
{
	struct probe_layer layer[2] = { { .residual_rms = 1 }, { .residual_rms = 1, .attends = true } };
	float logits[1] = { 1 }, attention[] = { NAN, 5e29f, NAN, 0.25f, 0.5f, 0.25f };
	const int32_t ids[3] = { 0 };
	struct probe probe = { .n = 3,
		.n_layers = 2,
		.n_heads = 1,
		.vocab = 1,
		.layer = layer,
		.attention = attention,
		.logits = logits };
	const struct lens_look look = {
		.state = LENS_DONE, .n = 3, .hash = EV_NULL_I, .ids = ids, .probe = &probe
	};
	struct script k;

	(void)state;
	script_begin(&k, 4, NAN);
	k.s.lens = &look;
	k.s.layer = -1;
	has(drawn(&k, &view_lens, 120, 30), "0.50000");
	k.s.layer = 1;
	has(drawn(&k, &view_lens, 120, 30), "0.50000");
	k.s.layer = 0;
	has(drawn(&k, &view_lens, 120, 30), "none in this layer");
	layer[1].attends = false;
	k.s.layer = -1;
	has(drawn(&k, &view_lens, 120, 30), "none in this model");
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
	stage(k, 1, EV_STAGE_qkv, 40000, 10000000, 4000000000);
	batch(k, 1, 1, EV_WORK_prefill, 0, 40);
	step(k, 1, 50000, 40, 0);
	for (int i = 2; i < 4; i++) { /* 2 and 4 ms: mean 3 */
		stage(k, i, EV_STAGE_qkv, (i - 1) * 1000, 15000000, 60000000);
		stage(k, i, EV_STAGE_head, (i - 1) * 500, 7500000, 30000000);
		batch(k, i, 1, EV_WORK_decode, 38 + i, 1);
		step(k, i, (i - 1) * 2000, 0, 1);
	}
}

static void time_is_a_mean_of_steps_of_one_kind(void **state)
{
	struct script k;

	(void)state;
	time_script(&k, 20e9);
	/* 22.5 MB in 3 ms: 7.5 GB/s, which the table says of the step, too */
	has(drawn(&k, &view_time, 60, 4), "3.00 ms a step · MBU 38 % of 20.0 GB/s");
	has(drawn(&k, &view_time, 60, 4), "■ qkv 50 ");
	has(drawn(&k, &view_time, 60, 4), "■ LM head 25 ");
	has(drawn(&k, &view_time, 60, 4), "■ rest 25");
	k.s.zoomed = true;
	has_not(drawn(&k, &view_time, 110, 30), "2:4");
	has(drawn(&k, &view_time, 110, 30), " 38 %\n");
	k.t.session.pair_bytes = 7500000;
	has(drawn(&k, &view_time, 110, 30), "2:4: 7.50 MB of these weights");
	k.s.zoomed = false;
	assert_true(view_time.key(KEY_RIGHT_, &k.t, &k.s));
	has(drawn(&k, &view_time, 60, 4), "50.0 ms a prompt step · 80.0 Gop/s");
	has(drawn(&k, &view_time, 60, 4), "■ qkv 80 ");
	view_time.key(KEY_LEFT_, &k.t, &k.s);
	has(drawn(&k, &view_time, 60, 4), "3.00 ms a step");
	timeline_free(&k.t);
}

/* Where the scan has nearly all of the time, the rest has not; what the model lacks is not
 * there. */
static void time_shows_a_scan(void **state)
{
	struct script k;

	(void)state;
	script_begin(&k, 8, NAN);
	request(&k, 1, "first", 3, SKY, 40);
	stage(&k, 1, EV_STAGE_qkv, 4, 1000, 1000);
	stage(&k, 1, EV_STAGE_scan, 1992, 1000, 1000);
	batch(&k, 1, 1, EV_WORK_decode, 40, 1);
	step(&k, 1, 2000, 0, 1);
	has(drawn(&k, &view_time, 60, 4), "\n■ in proj  0 ■ scan 100 ■ rest  0\n");
	has(drawn_as(&k, &view_time, 60, 4, true), "\nssssssssssss");
	timeline_free(&k.t);
}

/* The view's size at 120x40: every part of a dense model has room, so that the shares add up. */
static void time_has_room_for_all_parts(void **state)
{
	static const enum ev_code_stage all[] = { EV_STAGE_qkv, EV_STAGE_attention, EV_STAGE_out,
		EV_STAGE_gate_up, EV_STAGE_down, EV_STAGE_head };
	struct script k;

	(void)state;
	script_begin(&k, 8, NAN);
	request(&k, 1, "first", 3, SKY, 40);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		stage(&k, 1, all[i], 100, 1000, 1000);
	batch(&k, 1, 1, EV_WORK_decode, 40, 1);
	step(&k, 1, 1000, 0, 1);
	has(drawn(&k, &view_time, 67, 3), "■head 10 ■rest 40\n");
	has(drawn(&k, &view_time, 52, 3), "■head 10 …\n"); /* and less is not silent */
	timeline_free(&k.t);
}

/* The header's share of bandwidth and the view's are of the same steps. */
static void the_header_means_the_same_steps(void **state)
{
	struct tl_sample decode;
	struct script k;
	struct event ev;

	(void)state;
	time_script(&k, 40e9);
	for (int i = 4; i < 44; i++) { /* 10 GB/s, and the newest sixteen 20 */
		int us = i < 28 ? 2000 : 1000;

		stage(&k, i, EV_STAGE_qkv, us, 20000000, 1);
		ev_init(&ev, EV_step);
		ev.u.step = (struct ev_step){
			.step = i, .ns = us * 1000, .kernel_ns = us * 1000, .bytes = 20000000
		};
		tell(&k, &ev);
	}
	decode = timeline_sample(&k.t, TL_DECODE);
	assert_float_equal(timeline_bandwidth(&decode), 20e9, 1);
	has(drawn(&k, &view_time, 60, 4), "1.00 ms a step · MBU 50 % of 40.0 GB/s");
	timeline_free(&k.t);
}

/* Numbers of a step that decodes one row of a product of 1,000 weights in 500 bytes. */
static void product_step(struct script *k, int64_t n, int prefill, int64_t ns)
{
	struct ev_stage_time told = { EV_STAGE_down, (uint64_t)ns, 500, 2000 };
	struct event ev;

	batch(k, n, 1, EV_WORK_decode, 3 + n, 1);
	ev_init(&ev, EV_time);
	ev.u.time = (struct ev_time){ n, { &told, sizeof told } };
	tell(k, &ev);
	ev_init(&ev, EV_step);
	ev.u.step.step = n;
	ev.u.step.ns = ev.u.step.kernel_ns = ns;
	ev.u.step.rows = 1 + (prefill == 2);
	ev.u.step.prefill_rows = prefill ? 1 : 0;
	ev.u.step.bytes = 500;
	ev.u.step.ops = 2000;
	ev.u.step.tokens = 1;
	tell(k, &ev);
}

static void roof_event(struct script *k, double reads, double ints)
{
	struct event ev;

	ev_init(&ev, EV_roof);
	ev.u.roof.reads = ev.u.roof.least = reads;
	ev.u.roof.ints = ints;
	tell(k, &ev);
}

static void formulas_script(struct script *k)
{
	struct event ev;

	script_begin(k, 8, NAN);
	k->t.session.weight_bytes = 500;
	ev_init(&ev, EV_product);
	ev.u.product = (struct ev_product){ EV_STAGE_down, { "Q4_1", 4 }, 50, 20, 1, 500, 0, 0 };
	tell(k, &ev);
	roof_event(k, 2e9, 100e9);
	request(k, 1, "first", 3, SKY, 4);
	product_step(k, 1, 0, 1000);
}

/* Decode steps alone: a step with rows of both sorts is in neither mean, and is said to be left
 * out. */
static void roofline_has_points_under_roofs(void **state)
{
	struct script k;
	const char *screen;

	(void)state;
	formulas_script(&k);
	product_step(&k, 2, 2, 9000);
	k.s.zoomed = true;
	screen = drawn(&k, &view_roofline, 140, 40);
	has(screen, "d down          4.00     2.0    25 %"); /* 2 Gop/s of 4 op/byte at 2 GB/s */
	has(screen, "int8 roof: 100 Gop/s, from the ridge at 50 op/byte on");
	has(screen, "left out: 1 step of prompt rows and newest tokens at once");
	has_not(screen, "> roof");
	for (int n = 3; n < 8; n++)
		product_step(&k, n, 0, 10);
	screen = drawn(&k, &view_roofline, 140, 40);
	has(screen, "above a roof: it was read while the machine was busy");
	roof_event(&k, 200e9, 1000e9); /* the best of all counts */
	roof_event(&k, 1e9, 1e9);
	screen = drawn(&k, &view_roofline, 140, 40);
	has(screen, "memory roof: 200 GB/s, best of 3 readings, least 1.00 GB/s");
	has_not(screen, "above a roof");
	timeline_free(&k.t);
}

/* A token of a part of a character is told by its bytes. */
static void bytes_of_characters_are_seen(void **state)
{
	struct script k;
	struct event ev;

	(void)state;
	script_begin(&k, 4, NAN);
	ev_init(&ev, EV_vocab);
	ev.u.vocab.id = 50;
	ev.u.vocab.bytes = (struct ev_span){ "a\xf0\x9f", 3 };
	tell(&k, &ev);
	assert_string_equal(view_quote(&k.t, 50).text, "'a<F0><9F>'");
	timeline_free(&k.t);
}

static void formulas_predict_what_was_not_run(void **state)
{
	struct script k;
	const char *screen;

	(void)state;
	formulas_script(&k);
	screen = drawn(&k, &view_formulas, 84, 60);
	has(screen, "beside the last 1 decode step");
	has(screen,
		"down Q4_1 50x20           2·rows·w / (bytes + rows·act)          4.000       4.000");
	assert_true(view_formulas.key(KEY_RIGHT_, &k.t, &k.s)); /* B: 1 to 2 */
	screen = drawn(&k, &view_formulas, 84, 60);
	has(screen, "prediction: this was not run");
	has(screen, "down Q4_1 50x20           2·rows·w / (bytes + rows·act)          8.000\n");
	has_not(screen, "seen");
	assert_true(view_formulas.key(KEY_UP_, &k.t, &k.s)); /* the machine: the last of the table */
	assert_true(view_formulas.key(KEY_LEFT_, &k.t, &k.s));
	has(drawn(&k, &view_formulas, 84, 60), "on H200 SXM   4.80 TB/s");
	assert_true(view_formulas.key(KEY_RIGHT_, &k.t, &k.s)); /* and round */
	assert_true(view_formulas.key(KEY_HOME_, &k.t, &k.s));
	has(drawn(&k, &view_formulas, 84, 60), "beside the last 1 decode step");
	timeline_free(&k.t);
}

static void formulas_say_where_a_step_lost_time(void **state)
{
	struct script k;

	(void)state;
	formulas_script(&k);
	product_step(&k, 2, 0, 1999000); /* mean of both steps: 1 ms, and 0.25 us at the roof */
	has(drawn(&k, &view_formulas, 84, 60),
		"down: 1.00 ms, its roof allows 0.00; unpacking, barriers, planning");
	k.t.step[1].s.run_delay_ns = 1000000;
	has(drawn(&k, &view_formulas, 84, 60),
		"down: 1.00 ms, its roof allows 0.00; a thread waited 0.5 ms for a CPU");
	k.t.roof.reads = 1e5; /* 5 ms */
	has(drawn(&k, &view_formulas, 84, 60),
		"faster than the roof: it was read while the machine was busy (/roof measure)");
	timeline_free(&k.t);
}

/* A step faster than the roof says that the roof was wrong, and is no share of it; the newest
 * reading counts. */
static void time_is_no_more_than_the_roof(void **state)
{
	struct script k;
	const char *screen;

	(void)state;
	time_script(&k, 5e9);
	has(drawn(&k, &view_time, 70, 4),
		"3.00 ms a step · 7.50 GB/s: the roof of 5.00 GB/s was wrong");
	k.s.zoomed = true;
	screen = drawn(&k, &view_time, 120, 30);
	has(screen, "> roof");
	has(screen, "faster than the roof (5.00 GB/s): that is wrong");
	roof_event(&k, 40e9, NAN);
	setting(&k, "roof", "40.00 GB/s, best of 2 readings from 4.90, the last after step 3");
	screen = drawn(&k, &view_time, 120, 30);
	has(screen, "MBU 19 % of 40.0 GB/s");
	has(screen, "roof: 40.00 GB/s, best of 2 readings from 4.90, the last after step 3");
	has_not(screen, "> roof");
	timeline_free(&k.t);
}

static void time_claims_no_fraction_without_a_measurement(void **state)
{
	struct script k;
	const char *screen;

	(void)state;
	time_script(&k, (double)NAN);
	has(drawn(&k, &view_time, 60, 4), "3.00 ms a step · 7.50 GB/s");
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
	has(screen, "15.00     60.00       4.00   10.00     50 %");
	has(screen, "mean of 2 decode steps");
	timeline_free(&k.t);
}

/* Steps of one drafted token; drafters_us < 0: the recording does not say how long that took. */
static void drafted_script(struct script *k, int64_t drafters_us)
{
	script_begin(k, 8, 20e9);
	request(k, 1, "first", 3, SKY, 40);
	for (int i = 1; i < 3; i++) {
		struct event ev;

		stage(k, i, EV_STAGE_qkv, 2000, 20000000, 60000000);
		batch(k, i, 1, EV_WORK_verify, 38 + i, 2);
		ev_init(&ev, EV_step);
		ev.u.step.step = i;
		ev.u.step.ns = 4000000;
		ev.u.step.kernel_ns = 2000000;
		ev.u.step.decode_rows = ev.u.step.draft_rows = ev.u.step.tokens = ev.u.step.running = 1;
		if (drafters_us >= 0)
			ev.u.step.drafters_ns = drafters_us * 1000 * i; /* mean: one and a half times that */
		tell(k, &ev);
	}
}

static void time_has_a_part_for_drafters(void **state)
{
	struct script k;
	const char *screen;

	(void)state;
	drafted_script(&k, 800);
	has(drawn(&k, &view_time, 70, 4), "4.00 ms a step · MBU 25 % of 20.0 GB/s");
	has(drawn(&k, &view_time, 70, 4), "■ drafters 30 ");
	has(drawn(&k, &view_time, 30, 3), "■qkv 50 ■spec 30 ■rest 20\n");
	has(drawn(&k, &view_time, 70, 4), "■ rest 20");
	has(drawn_as(&k, &view_time, 40, 5, true), "qqqqqqqqqqqqqqqqqqqqddddddddddddrrrrrrrr");
	k.s.zoomed = true;
	screen = drawn(&k, &view_time, 100, 32);
	has(screen, "drafters        1.200    30 %");
	has(screen, "no kernel       0.800    20 %");
	has(screen, "drafters: guessing");
	timeline_free(&k.t);
}

static void time_without_drafters_has_no_part_for_them(void **state)
{
	struct script k;

	(void)state;
	drafted_script(&k, 0);
	has_not(drawn(&k, &view_time, 70, 4), "drafters");
	has(drawn(&k, &view_time, 70, 4), "■ rest 50");
	k.s.zoomed = true;
	has_not(drawn(&k, &view_time, 100, 32), "drafters");
	timeline_free(&k.t);
}

static void time_of_untold_drafters_says_where_they_are(void **state)
{
	struct script k;
	const char *screen;

	(void)state;
	drafted_script(&k, -1);
	has_not(drawn(&k, &view_time, 70, 4), "drafters");
	has(drawn(&k, &view_time, 70, 4), "■ rest 50");
	k.s.zoomed = true;
	screen = drawn(&k, &view_time, 100, 32);
	has(screen, "no kernel       2.000    50 %");
	has(screen, "no kernel: drafters are in it");
	timeline_free(&k.t);
	time_script(&k, 20e9); /* nor said of the time, but nobody guessed */
	k.s.zoomed = true;
	has_not(drawn(&k, &view_time, 100, 32), "drafters");
	timeline_free(&k.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(speculation_reads_from_left_to_right),
		cmocka_unit_test(speculation_zoomed_has_the_numbers),
		cmocka_unit_test(speculation_zoomed_needs_no_step),
		cmocka_unit_test(speculation_counts_begin_with_the_setting),
		cmocka_unit_test(speculation_counts_one_answer),
		cmocka_unit_test(speculation_off_says_how_to_turn_it_on),
		cmocka_unit_test(prefix_tree_shows_who_begins_like_whom),
		cmocka_unit_test(prefix_on_one_line_tells_the_newest),
		cmocka_unit_test(prefix_has_a_tree_for_each_adapter),
		cmocka_unit_test(prefix_zoomed_adds_up_the_session),
		cmocka_unit_test(a_turn_that_goes_on_is_one_line),
		cmocka_unit_test(only_what_is_cached_is_in_the_tree),
		cmocka_unit_test(attention_adds_up_shares),
		cmocka_unit_test(what_was_not_read_is_drawn),
		cmocka_unit_test(attention_shows_a_head_once_it_was_observed),
		cmocka_unit_test(attention_keys_choose_layer_and_head),
		cmocka_unit_test(attention_zoomed_has_all_layers),
		cmocka_unit_test(attention_says_where_there_is_none),
		cmocka_unit_test(time_shows_a_scan),
		cmocka_unit_test(a_deep_look_says_what_the_model_lacks),
		cmocka_unit_test(a_deep_look_has_rows_of_layers_with_attention),
		cmocka_unit_test(time_has_room_for_all_parts),
		cmocka_unit_test(heat_grows_and_ends),
		cmocka_unit_test(time_is_a_mean_of_steps_of_one_kind),
		cmocka_unit_test(the_header_means_the_same_steps),
		cmocka_unit_test(time_is_no_more_than_the_roof),
		cmocka_unit_test(roofline_has_points_under_roofs),
		cmocka_unit_test(bytes_of_characters_are_seen),
		cmocka_unit_test(formulas_predict_what_was_not_run),
		cmocka_unit_test(formulas_say_where_a_step_lost_time),
		cmocka_unit_test(time_claims_no_fraction_without_a_measurement),
		cmocka_unit_test(time_zoomed_says_what_each_stage_reached),
		cmocka_unit_test(time_has_a_part_for_drafters),
		cmocka_unit_test(time_without_drafters_has_no_part_for_them),
		cmocka_unit_test(time_of_untold_drafters_says_where_they_are),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The views: their text from the made-up session against files, every size without a cell outside,
 * live against replay cell by cell, and what their keys do.
 *
 * UPDATE_GOLDEN=1 writes the files anew: look at what changed before it is committed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "engine/draft/draft.h"
#include "engine/core/engine.h"
#include "tests/support/demo_events.h"
#include "tests/support/demo_random.h"
#include "tests/support/tiny.h"
#include "tests/support/view_check.h"
#include "tui/views/view_util.h"
#include "tui/views/views.h"

/* ---- golden ---- */

struct golden {
	const char *name;
	const struct view *view;
	int w, h, steps;
	bool ascii, zoomed;
	int64_t request, token;
};
static const struct golden goldens[] = {
	{ "chat-68x20", &view_chat, 68, 20, DEMO_CHAT_STEPS, false, false, 0, -1 },
	{ "chat-78x7", &view_chat, 78, 7, DEMO_CHAT_STEPS, false, false, 0, -1 },
	{ "chat-30x24-cursor", &view_chat, 30, 24, DEMO_CHAT_STEPS, false, false, 2, 20 },
	{ "chat-60x30-forks", &view_chat, 60, 30, 105, false, true, 0, -1 },
	{ "chat-60x30-ascii", &view_chat, 60, 30, 105, true, true, 0, -1 },
	{ "chat-40x8-nothing", &view_chat, 40, 8, 0, false, false, 0, -1 },
	{ "next-68x6", &view_next, 68, 6, DEMO_CHAT_STEPS, false, false, 0, -1 },
	{ "next-38x4", &view_next, 38, 4, DEMO_CHAT_STEPS, false, false, 0, -1 },
	{ "next-100x20", &view_next, 100, 20, DEMO_CHAT_STEPS, false, true, 2, 20 },
	{ "next-68x6-ascii", &view_next, 68, 6, DEMO_CHAT_STEPS, true, false, 0, -1 },
	{ "next-40x4-nothing", &view_next, 40, 4, 0, false, false, 0, -1 },
	{ "batch-49x6", &view_batch, 49, 6, DEMO_CHAT_STEPS, false, false, 0, -1 },
	{ "batch-38x4", &view_batch, 38, 4, 60, false, false, 0, -1 },
	{ "batch-49x7-preempted", &view_batch, 49, 7, 62, false, false, 0, -1 },
	{ "batch-110x30", &view_batch, 110, 30, DEMO_STEPS, false, true, 0, -1 },
	{ "batch-49x6-ascii", &view_batch, 49, 6, DEMO_CHAT_STEPS, true, false, 0, -1 },
	{ "batch-40x4-nothing", &view_batch, 40, 4, 0, false, false, 0, -1 },
	{ "sampler-68x9", &view_sampler, 68, 9, DEMO_CHAT_STEPS, false, false, 2, 20 },
	{ "sampler-68x6", &view_sampler, 68, 6, DEMO_CHAT_STEPS, false, false, 2, 21 },
	{ "sampler-120x40", &view_sampler, 120, 40, DEMO_CHAT_STEPS, false, true, 2, 22 },
	{ "time-60x4", &view_time, 60, 4, DEMO_CHAT_STEPS, false, false, 0, -1 },
	{ "time-38x3-ascii", &view_time, 38, 3, DEMO_CHAT_STEPS, true, false, 0, -1 },
	{ "time-110x30", &view_time, 110, 30, DEMO_CHAT_STEPS, false, true, 0, -1 },
	{ "formulas-80x24", &view_formulas, 80, 24, DEMO_CHAT_STEPS, false, true, 0, -1 },
	{ "formulas-160x50", &view_formulas, 160, 50, DEMO_CHAT_STEPS, false, true, 0, -1 },
	{ "formulas-56x10-nothing", &view_formulas, 56, 10, 0, true, true, 0, -1 },
	{ "roofline-80x24", &view_roofline, 80, 24, DEMO_CHAT_STEPS, false, true, 0, -1 },
	{ "roofline-140x36", &view_roofline, 140, 36, DEMO_CHAT_STEPS, false, true, 0, -1 },
	{ "roofline-80x24-ascii", &view_roofline, 80, 24, DEMO_CHAT_STEPS, true, true, 0, -1 },
	{ "sampler-60x6-nothing", &view_sampler, 60, 6, 0, false, false, 0, -1 },
};

static void golden_texts(void **state)
{
	int differ = 0;

	(void)state;
	for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
		const struct golden *g = &goldens[i];
		struct view_state s = fresh;
		struct timeline t = demo_timeline(g->steps);

		s.zoomed = s.focused = g->zoomed;
		s.request = g->request;
		s.token = g->token;
		differ += golden_differs(g->name, text_of(g->view, &t, &s, g->w, g->h, g->ascii));
		timeline_free(&t);
	}
	assert_int_equal(differ, 0);
}

/* ---- golden, of drafters: an engine's own session, whose time is what a table says
 * (engine_options.counted_cost), so that what is predicted, reached and chosen depends on the
 * tokens alone ---- */

static void fold_sink(void *arg, const struct event *ev)
{
	timeline_fold(arg, ev);
}

/* Prompts that repeat themselves, and by turns some in which there is nothing to find. */
static void answer(struct engine *e, int n)
{
	struct err err = { 0 };

	for (int i = 0; i < n; i++) {
		int32_t ids[TINY_PROMPT];
		struct engine_request q = { .kind = EV_REQUEST_KIND_run,
			.ids = ids,
			.n_ids = TINY_PROMPT,
			.max_tokens = 40,
			.params = SAMPLE_DEFAULTS,
			.ignore_end = true };

		q.params.temperature = tiny_prompt(i, ids);
		assert_true(engine_submit(e, &q, &err) > 0);
		while (engine_step(e, &err) > 0)
			;
		assert_int_equal(err.code, 0);
	}
}

static struct timeline drafters_session(const char *spec, const char *shadow, int n)
{
	double cost[DRAFT_NODES + 2];
	struct engine_options o = ENGINE_DEFAULTS;
	struct err err = { 0 };
	struct timeline t;
	struct engine *e;

	for (int i = 0; i < DRAFT_NODES + 2; i++)
		cost[i] = 1e6 * (1 + 0.1 * (i - 1));
	o.model = tiny_model;
	o.threads = 1;
	o.prefix_cache = false;
	o.spec = spec;
	o.shadow = shadow;
	o.counted_cost = cost;
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	timeline_init(&t);
	engine_add_sink(e, fold_sink, &t);
	engine_begin(e, NULL);
	answer(e, n);
	engine_close(e);
	return t;
}

/* The arrow is at the drafter of the setting, in a row of its own if no shadow row is its. */
static void the_drafter_in_use_has_the_arrow(void **state)
{
	struct timeline t = drafters_session("auto:ngram:4+skip:1,2", "off", 2);
	struct view_state small = fresh;
	struct event ev;
	char *screen;

	(void)state;
	ev_init(&ev, EV_setting);
	ev.seq = t.last_seq + 1;
	ev.t_ns = t.last_t_ns;
	ev.u.setting.name = ev_text("spec");
	ev.u.setting.value = ev_text("ngram:7");
	timeline_fold(&t, &ev);
	screen = text_of(&view_drafters, &t, &small, 78, 8, true);
	assert_non_null(strstr(screen, "> ngram:7"));
	assert_null(strstr(screen, "> auto"));
	free(screen);
	timeline_free(&t);
}

static void golden_drafters(void **state)
{
	struct timeline shadows =
		drafters_session("off", "ngram:4+ngram:8+lookahead:3,3,2+jacobi:3+skip:1,2", 4);
	struct timeline chosen = drafters_session("auto:ngram:4+skip:1,2+lookahead", "off", 6);
	struct view_state small = fresh, zoomed = fresh;
	int differ = 0;

	(void)state;
	zoomed.zoomed = zoomed.focused = true;
	differ +=
		golden_differs("drafters-78x8", text_of(&view_drafters, &shadows, &small, 78, 8, false));
	differ += golden_differs(
		"drafters-44x6-ascii", text_of(&view_drafters, &shadows, &small, 44, 6, true));
	differ += golden_differs(
		"drafters-110x20", text_of(&view_drafters, &shadows, &zoomed, 110, 20, false));
	differ += golden_differs(
		"drafters-78x20-auto", text_of(&view_drafters, &chosen, &zoomed, 78, 20, false));
	timeline_free(&shadows);
	timeline_free(&chosen);
	shadows = demo_timeline(0);
	differ += golden_differs(
		"drafters-60x4-nothing", text_of(&view_drafters, &shadows, &small, 60, 4, false));
	timeline_free(&shadows);
	assert_int_equal(differ, 0);
}

/* One row for the race: it is that of whoever won, though another was more probable. */
static void the_winner_is_always_seen(void **state)
{
	struct timeline t = demo_timeline(100000);
	int looked = 0, far = 0;

	(void)state;
	for (int32_t i = 0; i < t.n_requests; i++)
		for (int32_t k = 0; k < t.request[i].n_tokens; k++) {
			const struct tl_token *token = &t.request[i].token[k];
			struct view_state s = fresh;
			int at = 0;
			char *text;

			while (at < token->n_candidates && token->candidate[at].id != (uint32_t)token->id)
				at++;
			if (at == token->n_candidates)
				continue;
			s.request = t.request[i].id;
			s.token = k;
			text = text_of(&view_next, &t, &s, 60, 2, false);
			assert_non_null(strstr(text, "won"));
			free(text);
			/* a click takes what is shown there */
			s.click.on = true;
			s.click.y = 1;
			free(text_of(&view_next, &t, &s, 60, 2, false));
			assert_int_equal(s.cursor[VIEW_NEXT], at + 1);
			looked++;
			far += at >= 1;
		}
	assert_true(looked > 0 && far > 0);
	timeline_free(&t);
}

/* ---- sizes ---- */

/* A view draws in the middle of a field of marks; none of them may change. */
static void draw_in_field(
	const struct view *v, const struct timeline *t, struct view_state *s, int w, int h, bool ascii)
{
	enum { MARGIN = 2 };
	struct canvas c = canvas_of(w + 2 * MARGIN, h + 2 * MARGIN, ascii);
	struct pen p = pen_of(&c, (struct rect){ MARGIN, MARGIN, w, h });

	for (int i = 0; i < c.w * c.h; i++)
		strcpy(c.cell[i].text, "@");
	v->draw(&p, t, s);
	for (int y = 0; y < c.h; y++)
		for (int x = 0; x < c.w; x++) {
			const struct cell *k = &c.cell[y * c.w + x];
			bool inside = x >= MARGIN && y >= MARGIN && x < MARGIN + w && y < MARGIN + h;

			if (!inside && (strcmp(k->text, "@") != 0 || k->ink || k->paper || k->attr))
				fail_msg("%s at %dx%d drew outside, at %d,%d", v->id, w, h, x - MARGIN, y - MARGIN);
			if (strlen(k->text) >= sizeof k->text || (unsigned char)k->text[0] == 0x1b)
				fail_msg("%s at %dx%d: a cell is broken", v->id, w, h);
		}
	canvas_free(&c);
}

static void sweep(const struct timeline *t)
{
	for (int i = 0; views[i]; i++)
		for (int w = 1; w <= 120; w += w < 24 ? 1 : 12)
			for (int h = 1; h <= 50; h += h < 10 ? 1 : 8)
				for (int variant = 0; variant < 2; variant++) {
					struct view_state s = fresh;

					s.focused = s.zoomed = variant;
					s.token = variant ? 3 : -1;
					s.request = variant ? 2 : 0;
					s.page = variant ? 1 : -1;
					s.layer = s.head = variant ? 1 : -1;
					draw_in_field(views[i], t, &s, w, h, variant);
				}
}

static void sizes_of_a_session(void **state)
{
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);

	(void)state;
	sweep(&t);
	timeline_free(&t);
}

static void sizes_of_nothing(void **state)
{
	struct timeline t;

	(void)state;
	timeline_init(&t);
	sweep(&t);
}

/* Whatever a file says, and wherever a person's keys lead, nothing breaks. */
static void random_sessions_and_keys(void **state)
{
	static const int keys[] = { KEY_UP_, KEY_DOWN_, KEY_LEFT_, KEY_RIGHT_, KEY_HOME_, KEY_END_,
		KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_ENTER_, KEY_ESC, KEY_TAB_, 'a', 'h', 'l', '+', '-', ' ' };

	(void)state;
	for (uint64_t seed = 100; seed < 112; seed++) {
		struct demo_random d = { .state = seed };
		struct view_state s = fresh;
		struct timeline t;
		struct event ev;

		timeline_init(&t);
		for (int i = 0; i < 1200; i++) {
			demo_random_event(&d, &ev);
			timeline_fold(&t, &ev);
			if (i % 20)
				continue;
			for (int v = 0; views[v]; v++) {
				uint64_t r = d.state * 0x9e3779b97f4a7c15u >> (v + 8);

				s.focused = true;
				s.zoomed = r & 1;
				if (views[v]->key)
					views[v]->key(keys[(r >> 1) % (sizeof keys / sizeof *keys)], &t, &s);
				draw_in_field(views[v], &t, &s, 1 + (int)((r >> 8) % 110),
					1 + (int)((r >> 16) % 40), r >> 30 & 1);
			}
		}
		timeline_free(&t);
	}
}

/* ---- live and replay ---- */

struct mirror {
	struct timeline live, replayed;
	unsigned char buf[1 << 16];
};

static void mirror_sink(void *arg, const struct event *ev)
{
	struct mirror *m = arg;
	size_t size = ev_pack(ev, m->buf, sizeof m->buf);
	struct event back;

	assert_true(size <= sizeof m->buf);
	assert_int_equal(ev_unpack(&back, m->buf, size), 0);
	timeline_fold(&m->live, ev);
	timeline_fold(&m->replayed, &back);
	memset(m->buf, 0xa5, size);
}

static void assert_same_drawing(const struct view *v, const struct mirror *m, int w, int h)
{
	struct canvas a = canvas_of(w, h, false), b = canvas_of(w, h, false);
	struct pen pa = pen_of(&a, (struct rect){ 0, 0, w, h }),
			   pb = pen_of(&b, (struct rect){ 0, 0, w, h });
	struct view_state sa = fresh, sb = fresh;

	v->draw(&pa, &m->live, &sa);
	v->draw(&pb, &m->replayed, &sb);
	for (int i = 0; i < w * h; i++) {
		const struct cell *x = &a.cell[i], *y = &b.cell[i];

		if (strcmp(x->text, y->text) || x->ink != y->ink || x->paper != y->paper ||
			x->attr != y->attr)
			fail_msg("%s differs at %d,%d: '%s' live, '%s' in replay", v->id, i % w, i / w, x->text,
				y->text);
	}
	canvas_free(&a);
	canvas_free(&b);
}

static void live_and_replay_are_equal(void **state)
{
	static struct mirror m;
	static const int steps[] = { 0, 1, 17, DEMO_CHAT_STEPS, 62, 100, DEMO_STEPS };

	(void)state;
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		memset(&m, 0, sizeof m);
		demo_play(mirror_sink, &m, steps[i]);
		for (int v = 0; views[v]; v++) {
			assert_same_drawing(views[v], &m, 38, 6);
			assert_same_drawing(views[v], &m, 110, 30);
		}
		timeline_free(&m.live);
		timeline_free(&m.replayed);
	}
}

/* ---- the table and the shared helpers ---- */

static void table_of_views(void **state)
{
	int n = 0;

	(void)state;
	for (; views[n]; n++) {
		const struct view *v = views[n];

		assert_int_equal(v->index, n);
		assert_non_null(v->draw);
		assert_true(v->name && v->id && v->help && strlen(v->help) > 200);
		assert_true(v->min_w > 0 && v->min_h > 0 && v->want_h >= v->min_h);
		assert_true(strlen(v->name) <= (size_t)v->min_w);
	}
	assert_int_equal(n, VIEW_N);
}

static void digits_reach_every_view(void **state)
{
	bool reached[VIEW_N] = { false };
	int now = -1;

	(void)state;
	for (int key = '1'; key <= '9'; key++)
		reached[view_of_digit(key, now)] = true;
	for (int i = 0; i < VIEW_N; i++)
		reached[now = view_of_digit('0', now)] = true;
	for (int i = 0; i < VIEW_N; i++)
		assert_true(reached[i]);
	assert_int_equal(view_of_digit('a', 3), -1);
}

static void numbers(void **state)
{
	(void)state;
	assert_string_equal(view_count(0).text, "0");
	assert_string_equal(view_count(999).text, "999");
	assert_string_equal(view_count(1024).text, "1,024");
	assert_string_equal(view_count(-1234567).text, "-1,234,567");
	assert_string_equal(view_count(INT64_MAX).text, "9,223,372,036,854,775,807");
	assert_string_equal(view_count(EV_NULL_I).text, "–");
	assert_string_equal(view_ns(870e3).text, "870 µs");
	assert_string_equal(view_ns(3.48e6).text, "3.48 ms");
	assert_string_equal(view_ns(41e6).text, "41.0 ms");
	assert_string_equal(view_ns(412e6).text, "412 ms");
	assert_string_equal(view_ns(1.25e9).text, "1.25 s");
	assert_string_equal(view_ns((double)NAN).text, "–");
	assert_string_equal(view_rate(33.6e9).text, "33.6 GB/s");
	assert_string_equal(view_bytes(512).text, "512 B");
	assert_string_equal(view_bytes(1.5e6).text, "1.50 MB");
	assert_string_equal(view_percent(0.86).text, "86 %");
	assert_string_equal(view_percent(0.004).text, "0.4 %");
	assert_string_equal(view_percent((double)NAN).text, "–");
	assert_string_equal(view_tokens_s(287.4).text, "287 tok/s");
}

static void letters_and_inks(void **state)
{
	static const struct {
		int64_t request;
		const char *label;
	} labels[] = { { 1, "a" }, { 26, "z" }, { 27, "aa" }, { 52, "az" }, { 702, "zz" },
		{ 703, "aaa" } };

	(void)state;
	for (size_t i = 0; i < sizeof labels / sizeof *labels; i++)
		assert_string_equal(view_label(labels[i].request).text, labels[i].label);
	for (int64_t i = 1; i < 30000; i++)
		assert_int_equal(view_label_width(i), strlen(view_label(i).text));
	assert_string_equal(view_label(0).text, " ");
	assert_true(strlen(view_label(INT64_MAX).text) < sizeof view_label(1).text);
	assert_int_equal(view_ink(1), INK_REQUEST_0);
	assert_int_equal(view_ink(9), INK_REQUEST_0);
	assert_int_equal(view_ink(8), INK_REQUEST_7);
	assert_int_equal(view_ink(-3), INK_DIM);
}

/* ---- what may come out, and how it is told ---- */

static void controls_never_arrive(void **state)
{
	static const char *const evil[] = { "\x1b[31m", "\x07", "\r", "\x9b", "\xc2\x9b",
		"\xe2\x80\xae", "\x7f", "\xe2\x80\x8b", "\xff" };
	struct said d;

	(void)state;
	say_begin(&d, "\x1b]0;title\x07 x");
	for (size_t i = 0; i < sizeof evil / sizeof *evil; i++)
		say_token(&d, evil[i]);
	for (int v = 0; views[v]; v++) {
		struct view_state s = fresh;
		char *text = text_of(views[v], &d.t, &s, 100, 30, false);

		for (const unsigned char *p = (unsigned char *)text; *p; p++) {
			if ((*p < 0x20 && *p != '\n') || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0))
				fail_msg("%s let a control through", views[v]->id);
			if (*p == 0xe2 && p[1] == 0x80 && (p[2] == 0xae || p[2] == 0x8b))
				fail_msg("%s let a format control through", views[v]->id);
		}
		free(text);
	}
	timeline_free(&d.t);
}

/* A table that does not fit says how many requests it leaves out, on both sides. */
static void batch_tells_of_what_does_not_fit(void **state)
{
	struct timeline t = demo_timeline(100000);
	struct view_state s = fresh;
	char words[64];

	(void)state;
	s.zoomed = s.focused = true;
	assert_true(t.n_requests > 6);
	assert_shows(&view_batch, &t, &s, 110, 40, "more before", false);
	snprintf(words, sizeof words, "… %d more before, 0 after", t.n_requests - 4);
	s.request = t.request[t.n_requests - 1].id;
	assert_shows(&view_batch, &t, &s, 110, 12, words, true);
	s.request = t.request[0].id;
	snprintf(words, sizeof words, "… 0 more before, %d after: up and down", t.n_requests - 4);
	assert_shows(&view_batch, &t, &s, 110, 12, words, true);
	/* where none was chosen, the newest are seen, though the conversation is older */
	s = fresh;
	s.zoomed = true;
	s.branch = t.request[0].id;
	snprintf(words, sizeof words, "… %d more before, 0 after\n", t.n_requests - 4);
	assert_shows(&view_batch, &t, &s, 110, 12, words, true);
	timeline_free(&t);
}

/* Zoomed on the first request, which has ended. */
static struct timeline first_ended(struct view_state *s)
{
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);

	*s = fresh;
	s->zoomed = s->focused = true;
	s->request = t.request[0].id;
	assert_true(t.request[0].finished);
	return t;
}

static void batch_has_a_word_for_each_end(void **state)
{
	struct view_state s;
	struct timeline t = first_ended(&s);

	(void)state;
	for (int i = 0; i < EV_N_finish; i++) {
		t.request[0].finish.reason = i;
		assert_shows(&view_batch, &t, &s, 110, 40, "(null)", false);
	}
	t.request[0].finish.reason = EV_FINISH_dropped;
	assert_shows(&view_batch, &t, &s, 110, 40, "pruned", true); /* a branch of a search */
	timeline_free(&t);
}

static void batch_tells_why_a_request_has_no_time_line(void **state)
{
	struct view_state s;
	struct timeline t = first_ended(&s);

	(void)state;
	assert_shows(&view_batch, &t, &s, 110, 40, "too far back", false);
	t.step[0].s.step = 2; /* the first that is kept, and after its end */
	t.step[0].t_ns = t.last_t_ns;
	assert_shows(&view_batch, &t, &s, 110, 40, "a over time: its steps lie too far back", true);
	timeline_free(&t);
}

static void batch_says_that_it_shows_not_all_slots(void **state)
{
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);
	struct view_state s = fresh;

	(void)state;
	assert_shows(&view_batch, &t, &s, 49, 6, "shown", false);
	assert_shows(&view_batch, &t, &s, 49, 3, "4 of 8 slots, 2 shown", true);
	timeline_free(&t);
}

static void batch_chooses_a_request(void **state)
{
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);
	struct view_state s = fresh;

	(void)state;
	s.focused = true;
	assert_true(view_batch.key(KEY_DOWN_, &t, &s));
	assert_int_equal(s.request, 3);
	assert_shows(&view_next, &t, &s, 60, 8, "won", true);
	assert_shows(&view_sampler, &t, &s, 60, 8, "request c", true);
	assert_true(view_batch.key(KEY_HOME_, &t, &s));
	assert_int_equal(s.request, 1);
	assert_true(view_batch.key(KEY_UP_, &t, &s));
	assert_int_equal(s.request, 1);
	/* the keys that the line at the bottom names for a view alone on the screen */
	assert_true(view_batch.key(KEY_PAGE_DOWN, &t, &s));
	assert_int_equal(s.request, t.n_requests);
	assert_true(view_tree.key(KEY_PAGE_UP, &t, &s));
	assert_int_equal(s.cursor[VIEW_TREE], 1);
	assert_true(view_batch.key(KEY_ESC, &t, &s));
	assert_int_equal(s.request, 0);
	assert_shows(&view_batch, &t, &fresh, 60, 6, "4 of 8 slots", true);
	timeline_free(&t);
}

static void greedy_has_no_race(void **state)
{
	struct event ev;
	struct said d;
	struct ev_candidate c[2] = { { 0, 9, 0.8f, NAN, EV_CUT_kept },
		{ 1, 8, 0.2f, NAN, EV_CUT_greedy } };

	(void)state;
	say_begin(&d, "q");
	d.t.request[0].params.temperature = 0;
	say_token(&d, " yes");
	ev_init(&ev, EV_token);
	ev.u.token.request = 1;
	ev.u.token.step = ev.u.token.pos = 5;
	ev.u.token.id = 0;
	ev.u.token.source = EV_SOURCE_plain;
	ev.u.token.entropy = 0.72;
	ev.u.token.candidates = (struct ev_span){ c, sizeof c };
	say_event(&d, &ev);
	assert_shows(
		&view_next, &d.t, &fresh, 70, 6, "0.72 bits · greedy: the most probable wins", true);
	assert_shows(&view_next, &d.t, &fresh, 70, 6, "won", true);
	assert_shows(&view_next, &d.t, &fresh, 70, 6, "not the first", true);
	assert_shows(&view_sampler, &d.t, &fresh, 70, 9, "stages were not recorded", true);
	timeline_free(&d.t);
}

/* Bits are of the model's own distribution, the bars of the tempered one: where these are two, each
 * says which. */
static void bits_and_bars_say_of_which_distribution_they_are(void **state)
{
	struct ev_candidate c[2] = { { 0, 9, 0.83f, 0.1f, EV_CUT_kept },
		{ 1, 8, 0.1f, 0.4f, EV_CUT_kept } };
	struct event ev;
	struct said d;

	(void)state;
	say_begin(&d, "q");
	ev_init(&ev, EV_token);
	say_token(&d, " yes");
	ev.u.token.request = 1;
	ev.u.token.step = ev.u.token.pos = 5;
	ev.u.token.id = 0;
	ev.u.token.source = EV_SOURCE_plain;
	ev.u.token.entropy = 3.9;
	ev.u.token.candidates = (struct ev_span){ c, sizeof c };
	say_event(&d, &ev);
	d.t.request[0].params.temperature = 0.3;
	assert_shows(&view_next, &d.t, &fresh, 70, 6, "3.90 bits before temp 0.3 ·", true);
	assert_shows(&view_next, &d.t, &fresh, 90, 8, "p after temp 0.3", true);
	d.t.request[0].params.repeat_penalty = 1.2;
	assert_shows(&view_next, &d.t, &fresh, 70, 6, "3.90 bits before penalties, temp 0.3", true);
	d.t.request[0].params.temperature = 1;
	assert_shows(&view_next, &d.t, &fresh, 70, 6, "3.90 bits before penalties ·", true);
	d.t.request[0].params.repeat_penalty = 1;
	assert_shows(&view_next, &d.t, &fresh, 70, 6, "3.90 bits ·", true); /* they are one */
	timeline_free(&d.t);
}

/* What is improbable is not told as impossible. */
static void small_probabilities_are_no_zeros(void **state)
{
	struct ev_candidate c[1] = { { 0, 9, 0.0042f, 0.1f, EV_CUT_kept } };
	struct ev_stage stages[EV_N_STAGES] = { { 272, 1, 3 }, { 272, 1, 1 }, { 272, 1, 1 },
		{ 272, 1, 1 }, { 272, 1, 1 } };
	struct event ev;
	struct said d;

	(void)state;
	say_begin(&d, "q");
	d.t.request[0].params.temperature = 3;
	say_token(&d, " yes");
	ev_init(&ev, EV_token);
	ev.u.token.request = 1;
	ev.u.token.step = ev.u.token.pos = 5;
	ev.u.token.id = 0;
	ev.u.token.source = EV_SOURCE_plain;
	ev.u.token.p = 0.0031;
	ev.u.token.candidates = (struct ev_span){ c, sizeof c };
	ev.u.token.stages = (struct ev_span){ stages, sizeof stages };
	say_event(&d, &ev);
	assert_shows(&view_sampler, &d.t, &fresh, 80, 9, "probability 0.0031 becomes 0.0042", true);
	assert_shows(&view_sampler, &d.t, &fresh, 80, 10, "logit bias", false);
	timeline_free(&d.t);
}

static void logit_bias_is_a_stage(void **state)
{
	struct ev_candidate c[1] = { { 0, 1.5f, 0.9f, 0.1f, EV_CUT_kept } };
	struct ev_stage stages[EV_MOST_STAGES] = { { 272, 1, 3.5f }, { 272, 1, 3.5f }, { 40, 0.5f, 1 },
		{ 40, 1, 1 }, { 40, 1, 1 }, { 272, 1, 4 } };
	struct ev_bias bias = { 0, 2.5f };
	struct event ev;
	struct said d;

	(void)state;
	say_begin(&d, "q");
	d.t.request[0].params.temperature = 1;
	d.t.request[0].params.top_k = 40;
	d.t.request[0].params.presence_penalty = 0.5;
	d.t.request[0].bias = malloc(sizeof bias);
	memcpy(d.t.request[0].bias, &bias, sizeof bias);
	d.t.request[0].n_bias = 2;
	say_token(&d, " yes");
	ev_init(&ev, EV_token);
	ev.u.token.request = 1;
	ev.u.token.step = ev.u.token.pos = 5;
	ev.u.token.id = 0;
	ev.u.token.source = EV_SOURCE_plain;
	ev.u.token.entropy = 3.9;
	ev.u.token.candidates = (struct ev_span){ c, sizeof c };
	ev.u.token.stages = (struct ev_span){ stages, sizeof stages };
	say_event(&d, &ev);
	assert_shows(&view_sampler, &d.t, &fresh, 80, 10, "logit bias       4.00", true);
	assert_shows(&view_sampler, &d.t, &fresh, 80, 10, "+2.5: the request moves it", true);
	assert_shows(&view_sampler, &d.t, &fresh, 80, 10, "-0.50: it was there within", true);
	assert_shows(&view_sampler, &d.t, &fresh, 80, 10, "40 left, 50.0 % of the mass", true);
	assert_shows(&view_next, &d.t, &fresh, 80, 8, "3.90 bits before bias, penalties", true);
	timeline_free(&d.t);
}

/* Modified rejection is told by its own numbers, not as a race. */
static void rejection_is_told(void **state)
{
	struct ev_candidate c[2] = { { 0, 9, 0.8f, NAN, EV_CUT_kept },
		{ 1, 8, 0.2f, NAN, EV_CUT_kept } };
	struct event ev;
	struct said d;

	(void)state;
	say_begin(&d, "q");
	d.t.request[0].params.temperature = 1;
	say_token(&d, " yes");
	say_token(&d, " no");
	ev_init(&ev, EV_draft);
	ev.u.draft = (struct ev_draft){ 7, 1, 7, 1, { "ngram", 5 }, 1, EV_RULE_rejection,
		EV_VERDICT_rejected, 1, 0.2, 0.91, 0, 0.2, 0, EV_NULL_I, 1, EV_NULL_I, 0, 0 };
	say_event(&d, &ev);
	ev_init(&ev, EV_token);
	ev.u.token.request = 1;
	ev.u.token.step = ev.u.token.pos = 7;
	ev.u.token.id = 0;
	ev.u.token.source = EV_SOURCE_corrected;
	ev.u.token.candidates = (struct ev_span){ c, sizeof c };
	say_event(&d, &ev);
	assert_int_equal(d.t.n_odd, 0);
	assert_shows(
		&view_sampler, &d.t, &fresh, 80, 9, "ngram said ' no': drew 0.91 against p/q 0.20", true);
	assert_shows(&view_sampler, &d.t, &fresh, 80, 9, "rejected", true);
	assert_shows(&view_next, &d.t, &fresh, 80, 9, "rejection sampling", true);
	assert_shows(&view_next, &d.t, &fresh, 80, 9, "race", false);
	timeline_free(&d.t);
}

/* A recording names its lesson as it likes: what comes after it is sought where one can go there.
 */
static void a_lesson_that_is_replayed_opens_no_file(void **state)
{
	char path[] = "/tmp/cutaway-views-XXXXXX";
	const int file = mkstemp(path), opened = inotify_init1(IN_NONBLOCK);
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);
	struct inotify_event heard;
	struct event ev;

	(void)state;
	assert_true(file >= 0 && inotify_add_watch(opened, path, IN_OPEN) >= 0);
	for (int i = 0; i < 2; i++) {
		ev_init(&ev, EV_lesson);
		ev.seq = t.last_seq + 1;
		ev.t_ns = t.last_t_ns;
		ev.u.lesson.action = i ? EV_LESSON_go_on : EV_LESSON_begin;
		ev.u.lesson.name = ev_text(path);
		ev.u.lesson.text = ev_text("# Title\n\nWords.\n");
		ev.u.lesson.part = 9;
		timeline_fold(&t, &ev);
	}
	assert_shows(&view_lesson, &t, &fresh, 80, 20, "The end", true);
	assert_true(read(opened, &heard, sizeof heard) < 0);
	close(opened);
	close(file);
	unlink(path);
	timeline_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_winner_is_always_seen),
		cmocka_unit_test(golden_texts),
		cmocka_unit_test(the_drafter_in_use_has_the_arrow),
		cmocka_unit_test(golden_drafters),
		cmocka_unit_test(sizes_of_a_session),
		cmocka_unit_test(sizes_of_nothing),
		cmocka_unit_test(random_sessions_and_keys),
		cmocka_unit_test(live_and_replay_are_equal),
		cmocka_unit_test(table_of_views),
		cmocka_unit_test(digits_reach_every_view),
		cmocka_unit_test(numbers),
		cmocka_unit_test(letters_and_inks),
		cmocka_unit_test(controls_never_arrive),
		cmocka_unit_test(batch_tells_of_what_does_not_fit),
		cmocka_unit_test(batch_chooses_a_request),
		cmocka_unit_test(batch_has_a_word_for_each_end),
		cmocka_unit_test(batch_tells_why_a_request_has_no_time_line),
		cmocka_unit_test(batch_says_that_it_shows_not_all_slots),
		cmocka_unit_test(greedy_has_no_race),
		cmocka_unit_test(bits_and_bars_say_of_which_distribution_they_are),
		cmocka_unit_test(rejection_is_told),
		cmocka_unit_test(small_probabilities_are_no_zeros),
		cmocka_unit_test(logit_bias_is_a_stage),
		cmocka_unit_test(a_lesson_that_is_replayed_opens_no_file),
	};

	return cmocka_run_group_tests_name("views", tests, tiny_model_make, tiny_model_drop);
}

/* The comparison of two configurations: the fold of made events gives the figures that they were
 * made from, and engines that run by turns give equal texts for equal settings. No figure here
 * depends on the machine's speed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sessions/compare/compare_run.h"
#include "tests/support/canvas_text.h"
#include "tests/support/tiny.h"
#include "tui/inspect/inspect.h"
#include "tui/views/view.h"

/* ---- made events ---- */

static void emit(struct compare *c, int side, struct event ev, int64_t ms)
{
	ev.t_ns = ms * 1000000;
	compare_fold(c, side, &ev);
}

static void mark(struct compare *c, int side, const char *text)
{
	struct event ev;

	ev_init(&ev, EV_setting);
	ev.u.setting.name = ev_text(COMPARE_MARK);
	ev.u.setting.value = ev_text(text);
	emit(c, side, ev, 0);
}

static void token_is(struct compare *c, int side, int64_t id, const char *text)
{
	struct event ev;

	ev_init(&ev, EV_vocab);
	ev.u.vocab.id = id;
	ev.u.vocab.bytes = ev_text(text);
	emit(c, side, ev, 0);
}

static void request(struct compare *c, int side, int64_t number, const char *text, int64_t ms)
{
	struct event ev;

	ev_init(&ev, EV_request);
	ev.u.request.request = number;
	ev.u.request.kind = EV_REQUEST_KIND_run;
	ev.u.request.text = ev_text(text);
	ev.u.request.n_prompt = 10;
	emit(c, side, ev, ms);
}

/* A step that gives n tokens from `id` on, in 5 rows and 100 bytes. */
static void step(
	struct compare *c, int side, int64_t number, int64_t nth, int n, int64_t id, int64_t ms)
{
	struct event ev;

	ev_init(&ev, EV_batch);
	ev.u.batch.step = nth;
	ev.u.batch.request = number;
	emit(c, side, ev, ms);
	for (int i = 0; i < n; i++) {
		ev_init(&ev, EV_token);
		ev.u.token.step = nth;
		ev.u.token.request = number;
		ev.u.token.id = id + i;
		emit(c, side, ev, ms);
	}
	ev_init(&ev, EV_step);
	ev.u.step.step = nth;
	ev.u.step.rows = 5;
	ev.u.step.bytes = 100;
	ev.u.step.pages_used = 3 + nth;
	emit(c, side, ev, ms);
}

static void finish(struct compare *c, int side, int64_t number, enum ev_code_finish reason)
{
	struct event ev;

	ev_init(&ev, EV_finish);
	ev.u.finish.request = number;
	ev.u.finish.reason = reason;
	emit(c, side, ev, 0);
}

/* An answer of 1 token after 20 ms and then `each` tokens every 10 ms, nine times. */
static void answer(struct compare *c, int side, int64_t number, const char *text, int each)
{
	const int64_t begin = number * 1000, first = number * 20;

	request(c, side, number, text, begin);
	for (int i = 0; i < 10; i++)
		step(c, side, number, first + i, i ? each : 1, 5 + i, begin + 20 + 10 * i);
	finish(c, side, number, EV_FINISH_length);
}

static struct compare_table table_of(const struct compare *c)
{
	struct compare_table t;
	struct err e = { 0 };

	assert_int_equal(compare_table(c, &t, &e), 0);
	return t;
}

static void test_figures(void **state)
{
	struct compare c = { 0 };
	struct compare_table t;

	(void)state;
	for (int side = 0; side < 2; side++) {
		mark(&c, side, side ? "B warm-up: fast" : "A warm-up: slow");
		answer(&c, side, 1, "x", 7); /* does not count */
		mark(&c, side, side ? "B run: fast" : "A run: slow");
		for (int64_t i = 2; i < 8; i++)
			answer(&c, side, i, "x", 1 + side);
		mark(&c, side, "off");
		answer(&c, side, 9, "x", 7); /* nor does this */
	}
	t = table_of(&c);
	assert_string_equal(c.side[1].label, "fast");
	assert_int_equal(t.n_pairs, 6);
	assert_int_equal(t.n_prompts, 1);
	assert_true(fabs(t.rate.side[0].value - 100) < 1e-9);
	assert_true(fabs(t.rate.side[1].value - 200) < 1e-9);
	assert_true(t.rate.ratio.low == t.rate.ratio.high && fabs(t.rate.ratio.value - 2) < 1e-9);
	assert_true(t.rate.ratio.sure > 0.95);
	assert_true(t.ttft.side[0].value == 20 && t.ttft.ratio.value == 1);
	assert_true(t.itl50[0] == 10 && t.itl99[1] == 10);
	assert_int_equal(t.total[0].tokens, 60);
	assert_int_equal(t.total[1].tokens, 6 * 19);
	assert_int_equal(t.total[0].steps, 60);
	assert_true(t.total[0].rows == 300 && t.total[0].bytes == 6000);
	assert_int_equal(t.total[0].pages, 3 + 7 * 20 + 9);
	assert_true(isnan(t.perplexity[0]));
	compare_table_free(&t);
	compare_free(&c);
}

/* In one recording the marks say which side it is; what has none is not compared. */
static void test_one_recording(void **state)
{
	struct compare c = { 0 };
	struct compare_table t;
	struct err e = { 0 };

	(void)state;
	answer(&c, -1, 1, "a turn of the chat", 1);
	assert_int_equal(compare_check(&c, "chat.db", &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	for (int64_t i = 2; i < 6; i++) {
		mark(&c, -1, i & 1 ? "A run: " : "B run: spec=ngram");
		answer(&c, -1, i, "x", i & 1 ? 1 : 3);
	}
	mark(&c, -1, "off");
	answer(&c, -1, 7, "x", 1);
	assert_int_equal(compare_check(&c, "chat.db", NULL), 0);
	t = table_of(&c);
	assert_int_equal(t.n_pairs, 2);
	assert_true(fabs(t.rate.ratio.value - 3) < 1e-9);
	assert_string_equal(c.side[0].label, "");
	assert_string_equal(c.side[1].label, "spec=ngram");
	compare_table_free(&t);
	compare_free(&c);
}

/* Without marks all answers count, but not those that were stopped; each has a partner with the
 * same prompt, or none. */
static void test_pairs(void **state)
{
	struct compare c = { 0 };
	struct compare_table t;
	char text[400];

	(void)state;
	token_is(&c, 0, 6, " sea");
	token_is(&c, 0, 7, " and\n");
	token_is(&c, 1, 6, " sea");
	for (int side = 0; side < 2; side++) {
		answer(&c, side, 1, side ? "z" : "x", 1);
		answer(&c, side, 2, side ? "x" : "y", 1);
		request(&c, side, 3, "w", 0);
		step(&c, side, 3, 90, 1, 5, 1);
		step(&c, side, 3, 91, 1, side ? 9 : 6, 2);
		step(&c, side, 3, 92, 1, 7, 3);
		finish(&c, side, 3, EV_FINISH_end);
		request(&c, side, 4, "x", 0);
		step(&c, side, 4, 99, 1, 5, 1);
		finish(&c, side, 4, side ? EV_FINISH_cancelled : EV_FINISH_end);
	}
	t = table_of(&c);
	assert_int_equal(t.n_pairs, 2);
	assert_int_equal(t.n_equal, 1);
	assert_int_equal(t.n_differences, 1);
	assert_int_equal(t.difference[0].at, 1);
	compare_quote(&c, &t.difference[0], 0, text, sizeof text);
	assert_non_null(strstr(text, "\" sea and"));
	compare_quote(&c, &t.difference[0], 1, text, sizeof text);
	assert_string_equal(text, "\"??\"");
	compare_table_free(&t);
	token_is(&c, 1, 6, " lake"); /* another vocabulary */
	t = table_of(&c);
	assert_false(t.same_vocab);
	assert_int_equal(t.n_equal + t.n_differences, 0);
	compare_table_free(&t);
	compare_free(&c);
}

/* Perplexity is of the answer alone, from the token that the mark names on. */
static void test_scores(void **state)
{
	struct compare c = { 0 };
	struct compare_table t;
	struct event ev;

	(void)state;
	for (int side = 0; side < 2; side++) {
		mark(&c, side, side ? "B score 3: b" : "A score 3: a");
		request(&c, side, 1, "x", 0);
		for (int i = 1; i < 7; i++) {
			ev_init(&ev, EV_score);
			ev.u.score.request = 1;
			ev.u.score.pos = i;
			ev.u.score.logp = i < 3 ? -50 : side ? -2 : -1;
			emit(&c, side, ev, 0);
		}
	}
	t = table_of(&c);
	assert_true(fabs(t.perplexity[0] - exp(1)) < 1e-9 && fabs(t.perplexity[1] - exp(2)) < 1e-9);
	assert_int_equal(t.n_pairs, 0);
	compare_table_free(&t);
	compare_free(&c);
}

/* ---- the screen ---- */

static const char *drawn(struct compare_screen *s, struct canvas *c, int w, int h)
{
	static char *text;
	struct err e = { 0 };

	free(text);
	text = NULL;
	if (!s)
		return NULL;
	assert_int_equal(canvas_resize(c, w, h, &e), 0);
	assert_int_equal(screen_draw(&s->screen, c, &e), 0);
	text = canvas_to_text(c);
	assert_non_null(text);
	return text;
}

static void expect_drawn(struct compare_screen *s, struct canvas *c, const char *words)
{
	if (!strstr(drawn(s, c, 80, 24), words))
		fail_msg("no \"%s\" in:\n%s", words, drawn(s, c, 80, 24));
}

static void test_screen(void **state)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	atomic_bool over = false;
	struct compare c = { 0 };
	struct compare_screen s = { .screen.kind = &compare_screen,
		.c = &c,
		.lock = &lock,
		.over = &over,
		.n_prompts = 2,
		.repeat = 3 };
	struct canvas canvas = { 0 };

	(void)state;
	expect_drawn(&s, &canvas, "not answered yet");
	for (int side = 0; side < 2; side++) {
		token_is(&c, side, 5, "sea");
		token_is(&c, side, 6, side ? "shore" : "sand");
		mark(&c, side, side ? "B warm-up: fast" : "A warm-up: slow");
		answer(&c, side, 1, "by the sea", 1);
	}
	expect_drawn(&s, &canvas, "prompt 1 of 2, to warm up, B");
	expect_drawn(&s, &canvas, "no pair has been answered yet");
	for (int side = 0; side < 2; side++) {
		mark(&c, side, side ? "B run: fast" : "A run: slow");
		answer(&c, side, 2, "by the sea", 1 + side);
		request(&c, side, 3, "in the hills", 0);
		step(&c, side, 3, 90, 1, side ? 6 : 5, 1);
	}
	expect_drawn(&s, &canvas, "prompt 2 of 2, run 1 of 3, B");
	expect_drawn(&s, &canvas, "in the hills");
	expect_drawn(&s, &canvas, "A slow");
	expect_drawn(&s, &canvas, "shore");
	expect_drawn(&s, &canvas, "2.000");
	assert_true(screen_key(&s.screen, 'p', 80, 24));
	expect_drawn(&s, &canvas, "by the sea");
	assert_true(screen_key(&s.screen, 'p', 80, 24)); /* there is no earlier one */
	expect_drawn(&s, &canvas, "by the sea");
	assert_true(screen_key(&s.screen, 'n', 80, 24));
	expect_drawn(&s, &canvas, "in the hills");
	assert_true(screen_key(&s.screen, KEY_F1_, 80, 24));
	expect_drawn(&s, &canvas, "by turns");
	assert_true(screen_key(&s.screen, 'q', 80, 24)); /* closes the help alone */
	atomic_store(&over, true);
	expect_drawn(&s, &canvas, "over; q prints the table");
	for (int i = 0; i < 60 * 40; i++)
		drawn(&s, &canvas, 1 + i % 60 * 3, 1 + i / 60);
	assert_false(screen_key(&s.screen, 'q', 80, 24));
	drawn(NULL, NULL, 0, 0);
	screen_free(&s.screen);
	canvas_free(&canvas);
	compare_free(&c);
}

/* ---- engines ---- */

static char order[256];

static void note_turn(void *arg, int prompt, int run, int side)
{
	const size_t n = strlen(order);

	(void)arg;
	snprintf(order + n, sizeof order - n, "%d%c%c", prompt, run < 0 ? '-' : '0' + run, 'A' + side);
}

struct rig {
	struct session session[2];
	struct compare compare;
	struct compare_sink sink[2];
	struct answer_settings answer;
	atomic_bool stop;
	int64_t hits;
};

static void count_hits(void *arg, const struct event *ev)
{
	if (ev->kind == EV_lookup)
		*(int64_t *)arg += ev->u.lookup.hit;
}

static void open_rig(struct rig *r, const char *spec, const char *record)
{
	*r = (struct rig){ .answer = ANSWER_DEFAULTS };
	r->answer.max_tokens = 12;
	order[0] = '\0';
	for (int i = 0; i < 2; i++) {
		struct session_options o = {
			.engine = ENGINE_DEFAULTS, .sink = compare_sink, .arg = &r->sink[i]
		};
		struct err e = { 0 };

		r->sink[i] = (struct compare_sink){ &r->compare, i, NULL };
		o.engine.model = tiny_model;
		o.engine.threads = 1;
		o.engine.spec = i ? spec : "off";
		o.record = i ? record : NULL;
		if (session_open(&r->session[i], &o, &e))
			fail_msg("%s", e.text);
		engine_add_sink(r->session[i].engine, count_hits, &r->hits);
		assert_int_equal(session_begin(&r->session[i], NULL, NULL, &e), 0);
	}
}

static void close_rig(struct rig *r)
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(session_close(&r->session[i], NULL), 0);
	compare_free(&r->compare);
}

static int run(struct rig *r, int repeat, struct err *e)
{
	static int32_t ids[2][40];
	struct compare_prompt prompt[2];

	for (int k = 0; k < 2; k++) {
		for (int i = 0; i < 40; i++)
			ids[k][i] = 3 + (i * (k + 3)) % 11; /* longer than a page; repeats itself */
		prompt[k] = (struct compare_prompt){ k ? "y" : "x", { ids[k], ids[k] }, { 40, 40 } };
	}
	struct compare_plan p = { .session = { &r->session[0], &r->session[1] },
		.answer = { &r->answer, &r->answer },
		.label = { "a", "b" },
		.prompt = prompt,
		.n_prompts = 2,
		.repeat = repeat,
		.stop = &r->stop,
		.report = note_turn };
	return compare_run(&p, &r->compare, e);
}

/* A with A: equal texts, proper ranges, no prompt found in the cache, turns A B B A. */
static void test_equal_settings(void **state)
{
	struct rig r;
	struct compare_table t;
	struct err e = { 0 };

	(void)state;
	open_rig(&r, "off", NULL);
	assert_int_equal(run(&r, 3, &e), 0);
	assert_string_equal(order, "0-A0-B00B00A01A01B02B02A1-A1-B10B10A11A11B12B12A");
	t = table_of(&r.compare);
	assert_int_equal(t.n_pairs, 6);
	assert_int_equal(t.n_equal, 6);
	assert_int_equal(t.n_prompts, 2);
	assert_int_equal(r.hits, 0);
	assert_int_equal(t.rate.ratio.n, 6);
	assert_true(t.rate.ratio.low <= t.rate.ratio.value && t.rate.ratio.value <= t.rate.ratio.high);
	assert_true(t.rate.ratio.low > 0 && t.rate.ratio.sure > 0.95);
	assert_memory_equal(&t.total[0], &t.total[1], sizeof t.total[0]);
	assert_int_equal(t.total[0].tokens, 6 * 12);
	assert_true(t.perplexity[0] > 1 && t.perplexity[0] == t.perplexity[1]);
	compare_table_free(&t);
	close_rig(&r);
}

static void same_medians(const struct compare_figure *a, const struct compare_figure *b)
{
	const struct median *x[] = { &a->side[0], &a->side[1], &a->ratio };
	const struct median *y[] = { &b->side[0], &b->side[1], &b->ratio };

	for (int i = 0; i < 3; i++) {
		assert_true(x[i]->value == y[i]->value && x[i]->sure == y[i]->sure);
		assert_true(x[i]->low == y[i]->low && x[i]->high == y[i]->high);
		assert_int_equal(x[i]->n, y[i]->n);
	}
}

static void same_figures(const struct compare_table *a, const struct compare_table *b)
{
	assert_memory_equal(a->total, b->total, sizeof a->total);
	same_medians(&a->rate, &b->rate);
	same_medians(&a->ttft, &b->ttft);
	assert_memory_equal(a->itl99, b->itl99, sizeof a->itl99);
	assert_memory_equal(a->perplexity, b->perplexity, sizeof a->perplexity);
}

/* Drafts save steps and change no text; the recordings give the same table. */
static void test_recorded(void **state)
{
	char path[] = "/tmp/cutaway-test-compare-XXXXXX";
	struct compare read = { 0 };
	struct compare_table t, again;
	struct err e = { 0 };
	struct rig r;

	(void)state;
	assert_true(close(mkstemp(path)) == 0);
	open_rig(&r, "ngram:4", path);
	assert_int_equal(run(&r, 2, &e), 0);
	t = table_of(&r.compare);
	assert_int_equal(t.n_equal, 4);
	assert_true(t.total[1].steps < t.total[0].steps);
	assert_int_equal(t.total[0].tokens, t.total[1].tokens);
	if (compare_read(&read, 1, path, &e))
		fail_msg("%s", e.text);
	/* side A has no file here: its fold is lent */
	struct compare_side own = read.side[0];
	read.side[0] = r.compare.side[0];
	again = table_of(&read);
	same_figures(&t, &again);
	read.side[0] = own;
	compare_table_free(&again);
	compare_table_free(&t);
	compare_free(&read);
	close_rig(&r);
	unlink(path);
}

static void test_stopped(void **state)
{
	struct rig r;
	struct compare_table t;
	struct err e = { 0 };

	(void)state;
	open_rig(&r, "off", NULL);
	atomic_store(&r.stop, true);
	assert_int_equal(run(&r, 3, &e), -1);
	assert_int_equal(e.code, ERR_INTERRUPTED);
	t = table_of(&r.compare);
	assert_int_equal(t.n_pairs, 0);
	compare_table_free(&t);
	assert_true(engine_idle(r.session[0].engine));
	close_rig(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_figures),
		cmocka_unit_test(test_one_recording),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_scores),
		cmocka_unit_test(test_screen),
		cmocka_unit_test(test_equal_settings),
		cmocka_unit_test(test_recorded),
		cmocka_unit_test(test_stopped),
	};

	return cmocka_run_group_tests(tests, tiny_model_make, tiny_model_drop);
}

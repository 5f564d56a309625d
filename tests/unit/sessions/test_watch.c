/* Expressions over a step: what they see, what is wrong with them and where, that they can read
 * nothing else, and that a search of a file finds what a watch of the live events found. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sessions/watch/watch.h"
#include "tests/support/demo_events.h"
#include "trace/recording.h"

enum { STEPS = 60 };

static struct watch_set *open_set(void)
{
	struct watch_set *s;
	struct err e = { 0 };

	if (watch_open(&s, &e))
		fail_msg("%s", e.text);
	return s;
}

static int add(struct watch_set *s, const char *expr)
{
	struct err e = { 0 };
	int n = watch_add(s, expr, NULL, &e);

	if (n < 0)
		fail_msg("%s", e.text);
	return n;
}

static void feed_vocab(struct watch_set *s, int64_t id, const char *text)
{
	struct event ev;

	ev_init(&ev, EV_vocab);
	ev.u.vocab.id = id;
	ev.u.vocab.bytes = (struct ev_span){ text, strlen(text) };
	assert_false(watch_feed(s, &ev));
}

static void feed_token(struct watch_set *s, int64_t request, int64_t id, double entropy, int source)
{
	struct event ev;

	ev_init(&ev, EV_token);
	ev.u.token.request = request;
	ev.u.token.id = id;
	ev.u.token.entropy = entropy;
	ev.u.token.source = source;
	assert_false(watch_feed(s, &ev));
}

static void feed_step(struct watch_set *s, int64_t step, int64_t rejected)
{
	struct event ev;

	ev_init(&ev, EV_step);
	ev.u.step.step = step;
	ev.u.step.rejected = rejected;
	ev.u.step.ns = 3000000;
	assert_true(watch_feed(s, &ev));
}

static void test_values(void **state)
{
	struct watch_set *s = open_set();
	int entropy = add(s, "entropy > 3"), text = add(s, "text = ' Paris'"),
		source = add(s, "source = 'accepted'");
	int rejected = add(s, "rejected > 0 AND step % 2"), ms = add(s, "ns / 1e6"),
		none = add(s, "p IS NULL"), later = add(s, "entropy < 1"), sum = add(s, "max(entropy) > 3");
	struct event ev;

	(void)state;
	feed_vocab(s, 7, " Paris");
	feed_token(s, 1, 7, 2.5, EV_SOURCE_plain);
	feed_step(s, 1, 0);
	assert_false(watch_holds(s, entropy));
	assert_true(watch_holds(s, text));
	assert_false(watch_holds(s, source));
	assert_false(watch_holds(s, rejected));
	assert_true(fabs(watch_value(s, ms) - 3) < 1e-9);
	assert_true(watch_holds(s, none));
	/* several tokens: it holds if it does for one */
	feed_token(s, 1, 8, 3.5, EV_SOURCE_accepted);
	feed_token(s, 2, 9, 0.5, EV_SOURCE_plain);
	feed_step(s, 3, 2);
	assert_true(watch_holds(s, entropy) && watch_holds(s, source) && watch_holds(s, rejected));
	assert_false(watch_holds(s, text));
	assert_true(watch_value(s, entropy) == 0); /* of the last */
	/* the token for which it holds first, where it is about tokens */
	assert_int_equal(watch_hit(s, entropy).step, 3);
	assert_int_equal(watch_hit(s, entropy).request, 1);
	assert_int_equal(watch_hit(s, later).request, 2);
	assert_int_equal(watch_hit(s, rejected).request, 0);
	assert_int_equal(watch_hit(s, sum).request, 0);
	assert_int_equal(watch_hit(s, text).request, 0);
	/* none: what is of a token is NULL, and holds nothing */
	ev_init(&ev, EV_preempt);
	watch_feed(s, &ev);
	assert_true(watch_remove(s, none));
	none = add(s, "preempted");
	feed_step(s, 4, 0);
	assert_false(watch_holds(s, entropy));
	assert_true(isnan(watch_value(s, entropy)));
	assert_true(watch_holds(s, none));
	feed_step(s, 5, 0);
	assert_false(watch_holds(s, none));
	watch_close(s);
}

static void test_errors(void **state)
{
	static const struct {
		const char *expr, *words;
		int where;
	} cases[] = {
		{ "entropi > 3", "no column \"entropi\"; did you mean entropy?", 0 },
		{ "foo > 3", "no column \"foo\": Tab in the chat lists them, docs/trace.md explains",
			0 }, /* two of three letters differ */
		{ "rejected > 0 AND txt = 'a'", "did you mean text?", 17 },
		{ "entropy >", "entropy >: something is missing at its end", 9 },
		{ "(p > 1", "(p > 1: something is missing at its end", -2 },
		{ "p >> > 1", "near \">\": syntax error", -2 },
		{ "1) FROM now; DROP TABLE x; --", "an expression ends", 1 },
		{ "1; SELECT 2", "an expression ends", 1 },
		{ "p -- comment", "an expression ends", 2 },
		{ "(SELECT count(*) FROM sqlite_schema)", "", -2 },
		{ "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n)",
			"", -2 },
		{ "load_extension('x')", "", -2 },
		{ "\"nothing\" = 1", "no column", -2 },
		{ "length(randomblob(10))", "", -2 },
		{ "", "an expression is needed", -1 },
		{ "frobnicate(p)", "no such function", -2 },
		{ "sum(tokens) > 3",
			"sum(tokens) would count a number of the step once for each of its tokens: say tokens "
			"alone",
			4 },
		{ "p > 0 AND TOTAL ( p + \"rows\" )", "say rows alone", 23 },
		{ "count(preempted)", "say preempted alone", 6 },
		{ "count(*)", "count(*) is 1 in a step without tokens: tokens is their number", 6 },
	};
	/* of tokens, in texts, or the same for any number of rows */
	static const char *const sums[] = { "sum(p)", "count(id) > 2", "avg(tokens)", "max(rows)",
		"text = 'sum(tokens)'", "sum(text = 'tokens') / tokens", "sum(p) FILTER (WHERE rows > 1)" };
	struct watch_set *s = open_set();
	char longer[WATCH_EXPR + 8];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct err e = { 0 };
		int where = 99;

		if (watch_add(s, cases[i].expr, &where, &e) >= 0)
			fail_msg("taken: %s", cases[i].expr);
		assert_int_equal(e.code, ERR_USAGE);
		if (!strstr(e.text, cases[i].words))
			fail_msg("%s: %s", cases[i].expr, e.text);
		if (cases[i].where != -2)
			assert_int_equal(where, cases[i].where);
		assert_null(watch_expr(s, 0));
	}
	memset(longer, '1', sizeof longer);
	longer[sizeof longer - 1] = '\0';
	assert_int_equal(watch_add(s, longer, NULL, NULL), -1);
	for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
		watch_remove(s, add(s, sums[i]));
	for (int i = 0; i < WATCH_MAX; i++)
		add(s, "p > 0.5");
	assert_int_equal(watch_add(s, "p", NULL, NULL), -1);
	assert_true(watch_remove(s, 3));
	assert_false(watch_remove(s, 3));
	assert_int_equal(add(s, "p < 2"), 3);
	watch_close(s);
}

/* One that does not end is stopped, and says so; the others go on. */
static void test_too_long(void **state)
{
	struct watch_set *s = open_set();
	int slow = add(s, "(SELECT count(a.id) FROM now a, now b, now c)");
	int longer = add(s, "printf('%.1000000c','a') = 'b'");
	int pattern = add(s, "printf('%.4000c','a') LIKE '%'||printf('%.2000c','a')||'b'");
	int quick = add(s, "step");

	(void)state;
	assert_int_equal(watch_add(s, "trim('aa', 'ba')", NULL, NULL), -1);
	for (int i = 0; i < 200; i++)
		feed_token(s, 1, i, 1, 0);
	feed_step(s, 9, 0);
	assert_string_equal(watch_trouble(s, slow), "takes too long");
	assert_false(watch_holds(s, slow));
	assert_true(isnan(watch_value(s, longer))); /* as NULL */
	assert_non_null(strstr(watch_trouble(s, pattern), "pattern too complex"));
	assert_true(watch_value(s, quick) == 9);
	assert_string_equal(watch_trouble(s, quick), "");
	watch_close(s);
}

static void test_columns(void **state)
{
	struct watch_set *s = open_set();
	int n = 0;

	(void)state;
	for (const struct watch_column *c; (c = watch_column(n)); n++) {
		struct err e = { 0 };
		int at = watch_add(s, c->name, NULL, &e);

		if (at < 0)
			fail_msg("%s: %s", c->name, e.text);
		assert_true(c->doc && *c->doc);
		assert_true(watch_remove(s, at));
	}
	assert_true(n > 35);
	watch_close(s);
}

struct found {
	struct watch_set *set;
	struct recording *rec;
	int64_t step[STEPS + 1];
	int n;
};

static void on_event(void *arg, const struct event *ev)
{
	struct found *f = arg;

	assert_int_equal(recording_add(f->rec, ev, NULL), 0);
	if (watch_feed(f->set, ev) && watch_holds(f->set, 0))
		f->step[f->n++] = ev->u.step.step;
}

static void test_find(void **state)
{
	static const char expr[] = "entropy > 2 OR rejected > 0";
	struct found f = { .set = open_set() };
	char path[64];
	struct err e = { 0 };
	struct watch_hit at = { 0 };

	(void)state;
	snprintf(path, sizeof path, "/tmp/cutaway-watch-%d.db", (int)getpid());
	add(f.set, expr);
	assert_int_equal(recording_create(&f.rec, path, &e), 0);
	demo_play(on_event, &f, STEPS);
	assert_int_equal(recording_commit(f.rec, &e), 0);
	recording_close(f.rec, false);
	assert_true(f.n > 2 && f.n < STEPS);
	for (int i = 0; i < f.n; i++) {
		assert_int_equal(watch_find(path, expr, at.step, false, NULL, NULL, &at, &e), 1);
		assert_int_equal(at.step, f.step[i]);
	}
	assert_int_equal(watch_find(path, expr, at.step, false, NULL, NULL, &at, &e), 0);
	for (int i = f.n - 1; i > 0; i--) {
		assert_int_equal(watch_find(path, expr, at.step, true, NULL, NULL, &at, &e), 1);
		assert_int_equal(at.step, f.step[i - 1]);
	}
	assert_int_equal(watch_find(path, expr, at.step, true, NULL, NULL, &at, &e), 0);
	assert_int_equal(watch_find(path, "nonsense", 0, false, NULL, NULL, &at, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	watch_close(f.set);
	unlink(path);
}

/* What a step has, in words: one value, one for each token, all columns. */
static void test_print(void **state)
{
	struct found f = { .set = open_set() };
	char path[64], *say;
	struct err e = { 0 };
	int where;

	(void)state;
	snprintf(path, sizeof path, "/tmp/cutaway-print-%d.db", (int)getpid());
	add(f.set, "tokens > 1");
	assert_int_equal(recording_create(&f.rec, path, &e), 0);
	demo_play(on_event, &f, STEPS);
	assert_int_equal(recording_commit(f.rec, &e), 0);
	recording_close(f.rec, false);
	assert_true(f.n > 0);
	assert_int_equal(watch_print(path, "2 + step", f.step[0], &say, &where, &e), 0);
	assert_int_equal(atoll(say), f.step[0] + 2); /* the same for all tokens: once */
	assert_null(strchr(say, ','));
	free(say);
	assert_int_equal(watch_print(path, "text", f.step[0], &say, &where, &e), 0);
	assert_true(*say == '\'' && strchr(say, ','));
	free(say);
	assert_int_equal(watch_print(path, "NULL", 1, &say, &where, &e), 0);
	assert_string_equal(say, "NULL");
	free(say);
	assert_int_equal(watch_print(path, "", 1, &say, &where, &e), 0);
	for (int i = 0; watch_column(i); i++)
		assert_non_null(strstr(say, watch_column(i)->name));
	free(say);
	assert_int_equal(watch_print(path, "1 + entropie", 1, &say, &where, &e), -1);
	assert_non_null(strstr(e.text, "did you mean entropy?"));
	assert_int_equal(where, 4);
	e = (struct err){ 0 };
	assert_int_equal(watch_print(path, "step", 1 << 20, &say, &where, &e), -1);
	assert_non_null(strstr(e.text, "not in the recording"));
	assert_null(say);
	watch_close(f.set);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_print),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

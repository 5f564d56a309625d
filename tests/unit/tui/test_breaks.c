/* Breakpoints, watches and searches as a person sets them: listing, taking away, errors that point,
 * the step that stops, the values behind a sparkline, live and in a replay alike, and a search
 * beside. */
#include <limits.h>
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
#include <sqlite3.h>

#include "tests/support/allocations.h"
#include "tests/support/demo_events.h"
#include "tests/support/view_check.h"
#include "trace/recording.h"
#include "tui/state/breaks.h"
#include "tui/views/views.h"

enum { STEPS = 80 };

struct seen {
	struct breaks *b;
	struct recording *rec;
	int64_t step, stopped[STEPS];
	int n;
};

static void on_stop(void *arg)
{
	struct seen *s = arg;

	s->stopped[s->n++] = s->step;
}

static void on_event(void *arg, const struct event *ev)
{
	struct seen *s = arg;

	if (ev->kind == EV_step)
		s->step = ev->u.step.step;
	if (s->rec)
		assert_int_equal(recording_add(s->rec, ev, NULL), 0);
	breaks_feed(s->b, ev);
}

static void must(int rc, char *say, const struct err *e)
{
	if (rc)
		fail_msg("%s", e->text);
	free(say);
}

/* What it says of a command. */
static void says(struct breaks *b, enum breaks_kind kind, const char *text, const char *words)
{
	char *say;

	assert_int_equal(breaks_command(b, kind, text, &say, NULL), 0);
	if (!strstr(say, words))
		fail_msg("%s: %s", text, say);
	free(say);
}

static void set(struct breaks *b, const char *expr)
{
	struct err e = { 0 };
	char *say = NULL;
	int rc = breaks_command(b, BREAKS_BREAK, expr, &say, &e);

	must(rc, say, &e);
}

static void watch(struct breaks *b, const char *text)
{
	struct err e = { 0 };
	char *say = NULL;
	int rc = breaks_command(b, BREAKS_WATCH, text, &say, &e);

	must(rc, say, &e);
}

static char path[64];

static void record(struct seen *s)
{
	struct err e = { 0 };

	memset(s, 0, sizeof *s);
	unlink(path);
	assert_int_equal(breaks_open(&s->b, &e), 0);
	breaks_on_stop(s->b, on_stop, s);
	assert_int_equal(recording_create(&s->rec, path, &e), 0);
}

static void finish(struct seen *s)
{
	assert_int_equal(recording_commit(s->rec, NULL), 0);
	recording_close(s->rec, false);
	s->rec = NULL;
}

/* One that is set for once stops at the first step for which it holds, and is gone. */
static void test_once(void **state)
{
	struct seen s;
	struct err e = { 0 };
	char *say;

	(void)state;
	record(&s);
	assert_int_equal(breaks_command(s.b, BREAKS_ONCE, "", &say, &e), -1);
	e.code = 0;
	says(s.b, BREAKS_ONCE, "step % 10 = 4", "for once");
	says(s.b, BREAKS_BREAK, "", "(once)");
	demo_play(on_event, &s, STEPS);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.stopped[0], 4);
	assert_false(breaks_any(s.b));
	finish(&s);
	breaks_close(s.b);
}

/* A watch has no value before the first step after it was set, which is not NULL. */
static void test_watch_before_its_first_step(void **state)
{
	struct view_state looks = fresh;
	struct timeline t = demo_timeline(STEPS);
	struct seen s;

	(void)state;
	record(&s);
	watch(s.b, "surprise entropy");
	looks.breaks = s.b;
	assert_shows(&view_watch, &t, &looks, 60, 5, "entropy   from the next step on", true);
	assert_shows(&view_watch, &t, &looks, 60, 5, "NULL", false);
	demo_play(on_event, &s, STEPS);
	assert_shows(&view_watch, &t, &looks, 60, 5, " \xe2\x80\xa6 ", true);
	finish(&s);
	breaks_close(s.b);
	timeline_free(&t);
}

static void test_commands(void **state)
{
	struct seen s;
	struct err e = { 0 };
	char *say;

	(void)state;
	record(&s);
	assert_false(breaks_any(s.b));
	says(s.b, BREAKS_BREAK, "", "no breakpoints");
	says(s.b, BREAKS_BREAK, "", "entropy"); /* the columns */
	set(s.b, "entropy > 3");
	watch(s.b, "surprise entropy");
	set(s.b, " rejected");
	assert_true(breaks_any(s.b));
	says(s.b, BREAKS_BREAK, "", " 1  entropy > 3\n 3  rejected\n");
	says(s.b, BREAKS_WATCH, "", "surprise");
	says(s.b, BREAKS_WATCH, "offset entropy", "watching offset entropy"); /* no "off" */
	/* a breakpoint is not a watch */
	assert_int_equal(breaks_command(s.b, BREAKS_BREAK, "off 2", &say, &e), -1);
	e.code = 0;
	says(s.b, BREAKS_WATCH, "off surprise", "of the watches surprise is taken away");
	says(s.b, BREAKS_WATCH, "off", "all watches are taken away");
	says(s.b, BREAKS_BREAK, "off 3", "of the breakpoints 3 is taken away");
	says(s.b, BREAKS_BREAK, "off", "all breakpoints are taken away");
	assert_false(breaks_any(s.b));
	assert_int_equal(breaks_command(s.b, BREAKS_BREAK, "rejected > 0 AND txt = 'a'", &say, &e), -1);
	assert_non_null(strstr(e.text, "did you mean text?  at: rejected > 0 AND \xc2\xbbtxt = 'a'"));
	e.code = 0;
	assert_int_equal(breaks_command(s.b, BREAKS_WATCH, "alone", &say, &e), -1);
	finish(&s);
	breaks_close(s.b);
}

/* Live and in a replay, step by step, the same steps stop and the same values are seen. */
static void test_live_and_replay(void **state)
{
	struct seen live, again;
	struct breaks_series a, b;
	char why[80];
	struct err e = { 0 };

	(void)state;
	record(&live);
	set(live.b, "entropy > 2.5 OR rejected > 0");
	watch(live.b, "surprise entropy");
	demo_play(on_event, &live, STEPS);
	finish(&live);
	assert_true(live.n > 2 && live.n < STEPS);
	assert_true(breaks_stopped(live.b, why, sizeof why).step == live.stopped[live.n - 1]);
	assert_non_null(strstr(why, "break 1: entropy > 2.5"));
	assert_true(breaks_stopped(live.b, why, sizeof why).step == 0);

	memset(&again, 0, sizeof again);
	assert_int_equal(breaks_open(&again.b, &e), 0);
	breaks_on_stop(again.b, on_stop, &again);
	set(again.b, "entropy > 2.5 OR rejected > 0");
	watch(again.b, "surprise entropy");
	breaks_follow(again.b, path, 1);
	for (again.step = 2; again.step <= STEPS; again.step++)
		breaks_follow(again.b, path, again.step);
	for (int i = 0; i < again.n; i++)
		assert_int_equal(again.stopped[again.n - 1 - i], live.stopped[live.n - 1 - i]);
	assert_true(again.n >= live.n - 1); /* the first step was gone to, not played */
	/* a jump stops nowhere, and shows the values before it */
	again.n = 0;
	breaks_follow(again.b, path, STEPS / 2);
	breaks_follow(again.b, path, STEPS);
	assert_int_equal(again.n, 0);
	assert_true(breaks_series(live.b, 0, &a) && breaks_series(again.b, 0, &b));
	assert_int_equal(a.n, b.n);
	for (int i = 0; i < a.n; i++) {
		assert_int_equal(a.step[i], b.step[i]);
		assert_true(a.value[i] == b.value[i] || (isnan(a.value[i]) && isnan(b.value[i])));
	}
	assert_false(breaks_series(live.b, 1, &a));
	breaks_close(live.b);
	breaks_close(again.b);
}

static enum breaks_search wait_search(struct breaks *b, struct watch_hit *at, struct err *e)
{
	enum breaks_search s;

	while ((s = breaks_found(b, at, e)) == SEARCH_RUNS)
		usleep(1000);
	return s;
}

static void test_search(void **state)
{
	struct seen s;
	struct err e = { 0 };
	struct watch_hit at;

	(void)state;
	record(&s);
	set(s.b, "step % 20 = 7");
	demo_play(on_event, &s, STEPS);
	finish(&s);
	assert_int_equal(breaks_find(s.b, path, "step % 20 = 7", 30, false, &e), 0);
	assert_int_equal(wait_search(s.b, &at, &e), SEARCH_FOUND);
	assert_int_equal(at.step, 47);
	assert_int_equal(breaks_find(s.b, path, "", 47, false, &e), 0); /* again */
	assert_int_equal(wait_search(s.b, &at, &e), SEARCH_FOUND);
	assert_int_equal(at.step, 67);
	assert_int_equal(breaks_find(s.b, path, "", 27, true, &e), 0);
	assert_int_equal(wait_search(s.b, &at, &e), SEARCH_FOUND);
	assert_int_equal(at.step, 7);
	/* "break" is any of the breakpoints */
	set(s.b, "off");
	assert_int_equal(breaks_find(s.b, path, "break", 27, true, &e), -1);
	assert_non_null(strstr(e.text, "no breakpoint"));
	e.code = 0;
	set(s.b, "step = 13");
	set(s.b, "step = 22 OR step = 400");
	assert_int_equal(breaks_find(s.b, path, "break", 27, true, &e), 0);
	assert_int_equal(wait_search(s.b, &at, &e), SEARCH_FOUND);
	assert_int_equal(at.step, 22);
	assert_int_equal(breaks_find(s.b, path, "break", 22, true, &e), 0);
	assert_int_equal(wait_search(s.b, &at, &e), SEARCH_FOUND);
	assert_int_equal(at.step, 13);
	assert_int_equal(breaks_find(s.b, path, "step > 1000", 0, false, &e), 0);
	assert_int_equal(wait_search(s.b, &at, &e), SEARCH_NOTHING);
	assert_int_equal(breaks_found(s.b, &at, &e), SEARCH_NONE);
	assert_int_equal(breaks_find(s.b, path, "stepp > 1", 0, false, &e), -1);
	e.code = 0;
	assert_int_equal(breaks_find(s.b, "/nonexistent.db", "step", 0, false, &e), 0);
	assert_int_equal(wait_search(s.b, &at, &e), SEARCH_FAILED);
	assert_int_equal(breaks_find(s.b, path, "step = 0", 0, false, &e), 0);
	breaks_close(s.b); /* also while it searches */
}

/* ---- what a frame and a step must not wait for ---- */

static struct breaks *looked_at;
static int n_looks;

/* Called from within an expression, as a frame that is drawn while it is evaluated. */
static void look(sqlite3_context *out, int n, sqlite3_value **value)
{
	struct breaks_series series;
	char why[80];

	(void)n;
	(void)value;
	breaks_stopped(looked_at, why, sizeof why);
	n_looks += breaks_series(looked_at, 0, &series) && !strcmp(series.name, "seen");
	sqlite3_result_int(out, n_looks);
}

static int add_look(sqlite3 *db, const char **why, const struct sqlite3_api_routines *api)
{
	(void)why;
	(void)api;
	return sqlite3_create_function(db, "look", 0, SQLITE_UTF8, NULL, look, NULL, NULL);
}

static void test_a_frame_does_not_wait(void **state)
{
	struct seen s;

	(void)state;
	alarm(60); /* it would for ever */
	assert_int_equal(sqlite3_auto_extension((void (*)(void))add_look), SQLITE_OK);
	record(&s);
	sqlite3_cancel_auto_extension((void (*)(void))add_look);
	looked_at = s.b;
	n_looks = 0;
	watch(s.b, "seen look()");
	demo_play(on_event, &s, STEPS);
	assert_in_range(n_looks, STEPS, INT_MAX);
	finish(&s);
	breaks_close(s.b);
	alarm(0);
}

struct counted {
	struct breaks *b;
	long most;
	sqlite3_int64 used;
	int n_steps, n_grown;
};

/* The demo's own allocations come between the calls; texts that are new are kept. */
static void count_allocations(void *arg, const struct event *ev)
{
	struct counted *c = arg;
	long n = allocations();

	breaks_feed(c->b, ev);
	n = allocations() - n;
	if (ev->kind == EV_step) {
		c->n_grown += ++c->n_steps > 2 && sqlite3_memory_used() != c->used;
		c->used = sqlite3_memory_used();
	}
	if (ev->kind != EV_vocab && n > c->most)
		c->most = n;
}

/* Without expressions nothing is allocated; SQLite takes a little for each that it evaluates, and
 * gives it back. */
static void test_a_step_keeps_nothing(void **state)
{
	struct counted c = { 0 };

	(void)state;
	assert_int_equal(breaks_open(&c.b, NULL), 0);
	demo_play(count_allocations, &c, STEPS);
	assert_int_equal(c.most, 0);
	set(c.b, "entropy > 100 AND text = 'a'");
	watch(c.b, "ms ns / 1e6");
	c.n_steps = 0;
	demo_play(count_allocations, &c, STEPS);
	assert_int_equal(c.n_grown, 0);
	breaks_close(c.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_watch_before_its_first_step),
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_once),
		cmocka_unit_test(test_live_and_replay),
		cmocka_unit_test(test_search),
		cmocka_unit_test(test_a_frame_does_not_wait),
		cmocka_unit_test(test_a_step_keeps_nothing),
	};
	int failed;

	snprintf(path, sizeof path, "/tmp/cutaway-breaks-%d.db", (int)getpid());
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}

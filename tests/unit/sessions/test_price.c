/* What each of several lossy settings costs (sessions/price), and what `why price` says of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "sessions/price/apart.h"
#include "sessions/why/why.h"
#include "tests/support/tiny.h"
#include "trace/recording.h"

enum { PROMPT = 40, TOKENS = 24, MOST = PROMPT + TOKENS };

static char *model, file[64];
static struct recording *rec;
static struct apart apart;
static int32_t ids[MOST], n_ids;

static void on_event(void *arg, const struct event *ev)
{
	struct err e = { 0 };

	(void)arg;
	if (recording_add(rec, ev, &e))
		fail_msg("%s", e.text);
	apart_see(&apart, ev);
	if (ev->kind == EV_token && n_ids < MOST)
		ids[n_ids++] = (int32_t)ev->u.token.id;
}

static struct engine *opened(void)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *e = NULL;
	struct err err = { 0 };

	o.model = model;
	o.threads = 1;
	o.ctx = 256;
	apart = (struct apart){ .n = 0 };
	snprintf(file, sizeof file, "/tmp/cutaway-price-%d.db", (int)getpid());
	if (recording_create(&rec, file, &err) || engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, on_event, NULL);
	engine_begin(e, NULL);
	return e;
}

static void closed(struct engine *e)
{
	struct err err = { 0 };

	engine_close(e);
	assert_int_equal(recording_commit(rec, &err), 0);
	recording_close(rec, true);
}

static void set(struct engine *e, const char *name, const char *value)
{
	struct err err = { 0 };

	if (engine_set(e, name, value, &err))
		fail_msg("%s", err.text);
}

static void is(struct engine *e, const char *name, const char *value)
{
	char now[64];

	assert_int_equal(engine_get(e, name, now, sizeof now), 0);
	assert_string_equal(now, value);
}

/* Goes back once if `from` is not 0, when so many tokens are there. */
static void answer_from(struct engine *e, int from)
{
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = PROMPT,
		.max_tokens = TOKENS,
		.params = SAMPLE_DEFAULTS,
		.text = "test",
		.ignore_end = true };
	struct err err = { 0 };

	for (n_ids = 0; n_ids < PROMPT; n_ids++)
		ids[n_ids] = 10 + n_ids * 7 % 40;
	assert_true(engine_submit(e, &q, &err) > 0);
	while (n_ids < from && engine_step(e, &err) > 0)
		;
	if (from)
		assert_int_equal(engine_rewind(e, 1, n_ids = PROMPT + 1, -1, &err), 0);
	while (engine_step(e, &err) > 0)
		;
	assert_int_equal(n_ids, MOST);
}

static void answer(struct engine *e)
{
	answer_from(e, 0);
}

static void three_settings_are_taken_apart(struct engine *e)
{
	struct err err = { 0 };
	int more, n = 0;

	if (apart_begin(&apart, e, ids, n_ids, &err))
		fail_msg("%s", err.text);
	while ((more = apart_next(&apart, e, &err)) > 0) {
		n++;
		while (engine_step(e, &err) > 0)
			;
	}
	assert_int_equal(more, 0);
	assert_int_equal(n, 7); /* all, three alone, three all but one */
	for (int i = 0; i < n; i++) {
		assert_int_equal(apart.one[i].sum.n, n_ids - 1);
		assert_true(apart.one[i].sum.kl > 0);
		assert_true(apart.one[i].sum.exact_logp == apart.one[0].sum.exact_logp);
	}
	assert_string_equal(apart.one[0].name, "all: window:16, cache-format e4m3, skip-below 0.2");
	assert_string_equal(apart.one[2].name, "alone: cache-format e4m3");
	assert_string_equal(apart.one[4].name, "all but one: cache-format e4m3, skip-below 0.2");
	assert_true(apart.one[1].sum.kl > apart.one[2].sum.kl); /* a window of 16 costs more than 8 bits
															 */
	is(e, "visible", "window:16");
	is(e, "cache-format", "e4m3");
	is(e, "twin", "on");
}

static void has(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("\"%s\" is not in\n%s", words, text);
}

static char *why_price_of(const char *where)
{
	char *text = NULL;
	size_t size;
	struct err e = { 0 };
	struct why *w;
	FILE *out = open_memstream(&text, &size);

	if (why_open(&w, file, &e) || why_find(w, "price", where, NULL, out, &e))
		fail_msg("%s", e.text);
	why_close(w);
	fclose(out);
	return text;
}

static void which_costs_most(void **state)
{
	struct engine *e = opened();
	char *text;

	(void)state;
	set(e, "twin", "on");
	set(e, "visible", "window:16");
	set(e, "cache-format", "e4m3");
	set(e, "skip-below", "0.2");
	answer(e);
	three_settings_are_taken_apart(e);
	closed(e);
	text = why_price_of(NULL);
	has(text, "window:16, cache-format e4m3, skip-below 0.2: KL ");
	has(text, "it costs most at:\n    position ");
	has(text, "    cache-format e4m3: KL ");
	has(text, "    window:16: KL ");
	assert_true(strstr(text, "    window:16: KL ") < strstr(text, "    cache-format e4m3: KL "));
	free(text);
	unlink(file);
}

static void update(const char *sql)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void nothing_of_a_file_reaches_the_terminal_raw(void **state)
{
	struct engine *e = opened();
	char *text;

	(void)state;
	set(e, "twin", "on");
	set(e, "visible", "window:16");
	answer(e);
	closed(e);
	update("UPDATE setting SET value = char(27) || '[1m' || value || char(7)"
		   " WHERE name IN ('twin', 'visible')");
	text = why_price_of(NULL);
	has(text, "window:16");
	has(text, "twin ");
	assert_false(strchr(text, '\x1b') || strchr(text, '\a'));
	free(text);
	unlink(file);
}

static void stopping_puts_all_back(void **state)
{
	struct engine *e = opened();
	struct err err = { 0 };

	(void)state;
	answer(e);
	assert_int_equal(apart_begin(&apart, e, ids, n_ids, &err), -1);
	has(err.text, "nothing lossy is set");
	err = (struct err){ 0 };
	set(e, "cache-format", "bf16");
	assert_int_equal(apart_begin(&apart, e, ids, n_ids, &err), 0);
	assert_int_equal(apart.n, 1);
	assert_int_equal(apart_next(&apart, e, &err), 1);
	is(e, "twin", "on");
	while (engine_step(e, &err) > 0)
		;
	assert_int_equal(apart_end(&apart, e, &err), 0);
	is(e, "twin", "off");
	is(e, "cache-format", "bf16");
	closed(e);
	unlink(file);
}

static void without_a_twin_it_says_so(void **state)
{
	struct engine *e = opened();
	char *text;

	(void)state;
	answer(e);
	closed(e);
	text = why_price_of(NULL);
	has(text, "No price is recorded");
	free(text);
	unlink(file);
}

static void what_was_rewound_costs_nothing(void **state)
{
	struct engine *e = opened();
	char *text;

	(void)state;
	set(e, "twin", "on");
	set(e, "cache-format", "bf16");
	answer_from(e, PROMPT + 8);
	closed(e);
	text = why_price_of(NULL);
	has(text, " of 24\n");
	free(text);
	unlink(file);
}

static void score_all(struct engine *e)
{
	struct err err = { 0 };

	assert_int_equal(apart_begin(&apart, e, ids, n_ids, &err), 0);
	while (apart_next(&apart, e, &err) > 0)
		while (engine_step(e, &err) > 0)
			;
	assert_int_equal(err.code, 0);
}

/* The answer itself was drawn without a twin. */
static void what_was_scored_later_is_told(void **state)
{
	struct engine *e = opened();
	char *text;

	(void)state;
	answer(e);
	set(e, "twin", "on");
	set(e, "visible", "window:16");
	score_all(e);
	assert_int_equal(apart.n, 1);
	set(e, "twin", model);
	score_all(e);
	assert_int_equal(apart.n, 2); /* all, and the weights alone */
	closed(e);
	text = why_price_of("1");
	has(text, "its text, scored under some of the settings");
	has(text, "    window:16: KL ");
	has(text, "    exact settings, twin ");
	free(text);
	unlink(file);
}

static int make_model(void **state)
{
	const struct tiny_options t = TINY_DEFAULTS;
	struct err e = { 0 };

	(void)state;
	model = tiny_temp(&t, &e);
	return model ? 0 : -1;
}

static int remove_model(void **state)
{
	(void)state;
	unlink(model);
	free(model);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(which_costs_most),
		cmocka_unit_test(nothing_of_a_file_reaches_the_terminal_raw),
		cmocka_unit_test(stopping_puts_all_back),
		cmocka_unit_test(without_a_twin_it_says_so),
		cmocka_unit_test(what_was_rewound_costs_nothing),
		cmocka_unit_test(what_was_scored_later_is_told),
	};

	return cmocka_run_group_tests_name("price", tests, make_model, remove_model);
}

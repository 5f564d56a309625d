/* The table of settings: every row is whole, its default is what an engine reports, and what is out
 * of range is refused with the row's name and range, by the table's own reading and by an
 * engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/arch/arch.h"
#include "engine/core/engine.h"
#include "engine/lossy.h"
#include "tests/support/tiny.h"

static char *model;

/* What may be opened stands where a user looks: no family is forgotten when one is added. */
static void every_family_has_a_row(void **state)
{
	char models[1 << 16] = "", row[64];
	FILE *f = fopen("docs/models.md", "r");

	(void)state;
	assert_non_null(f);
	assert_true(fread(models, 1, sizeof models - 1, f) > 1000);
	fclose(f);
	for (int i = 0; arch_table[i]; i++) {
		snprintf(row, sizeof row, "\n| %s | ", arch_table[i]->name);
		if (!strstr(models, row))
			fail_msg("docs/models.md has no row of %s", arch_table[i]->name);
	}
}

static void check_row(const struct setting *table, const struct setting *s)
{
	char arg[64];

	assert_string_not_equal(s->name, "");
	for (const char *c = s->name; *c; c++)
		assert_true(islower((unsigned char)*c) || *c == '-');
	if (!s->doc || strlen(s->doc) < 10 || !s->group)
		fail_msg("%s has no help", s->name);
	assert_non_null(setting_arg(s, arg, sizeof arg));
	assert_true(s->type == SETTING_FLAG || *arg);
	assert_ptr_equal(setting_find(table, s->name), s); /* its name is its own */
	assert_true(s->low <= s->high && s->step >= 0);
	/* a number without a range takes nothing but 0 */
	assert_true((s->type != SETTING_INT && s->type != SETTING_FLOAT) || s->high > s->low);
	/* what may change in a chat has words to complete, but where a number says it all */
	if (s->when >= SETTING_IDLE &&
		(s->type == SETTING_CHOICE || s->type == SETTING_SWITCH || s->type == SETTING_TEXT))
		assert_non_null(setting_word(s, 0));
	for (int i = 0; setting_word(s, i); i++) {
		struct err e = { 0 };

		if (setting_check(s, setting_word(s, i), &e))
			fail_msg("completion offers what is refused: %s", e.text);
	}
}

static void test_rows(void **state)
{
	(void)state;
	for (const struct setting *s = engine_settings; s->name; s++) {
		check_row(engine_settings, s);
		assert_null(setting_find(answer_settings, s->name));
	}
	for (const struct setting *s = answer_settings; s->name; s++)
		check_row(answer_settings, s);
	assert_string_equal(engine_settings[ENGINE_AT_budget].name, "budget");
	assert_string_equal(answer_settings[ANSWER_AT_seed].name, "seed");
}

static void refused(const struct setting *s, const char *value, const char *says)
{
	struct engine_options o = ENGINE_DEFAULTS, was = o;
	struct err e = { 0 };

	if (!setting_check(s, value, &e))
		fail_msg("%s %s is taken", s->name, value);
	assert_int_equal(e.code, ERR_USAGE);
	if (strncmp(e.text, s->name, strlen(s->name)) || !strstr(e.text, says))
		fail_msg("%s %s: \"%s\" does not say \"%s\"", s->name, value, e.text, says);
	if (setting_find(engine_settings, s->name) == s) { /* a refused value leaves what was */
		assert_int_equal(setting_put(s, &o, value, &e), -1);
		assert_memory_equal(&o, &was, sizeof o);
	}
}

static void refused_number(const struct setting *s, double value, const char *says)
{
	char text[40];

	snprintf(text, sizeof text, "%.10g", value);
	refused(s, text, says);
}

static void check_range(const struct setting *s)
{
	char range[64];

	switch (s->type) {
	case SETTING_INT:
	case SETTING_FLOAT:
		snprintf(range, sizeof range,
			s->type == SETTING_INT ? "from %.0f to %.0f" : "from %g to %g", s->low, s->high);
		refused_number(s, s->low - 1, range);
		refused_number(s, s->high + 1, range);
		refused(s, "nan", range);
		refused(s, "1x", range);
		refused(s, "", range);
		refused(s, "99999999999999999999999", range);
		if (s->step > 1)
			refused_number(s, s->low + 1, "a multiple of");
		break;
	case SETTING_U64:
		refused(s, "-9223372036854775809", "from -2^63 to 2^64-1");
		refused(s, "18446744073709551616", "from -2^63 to 2^64-1");
		break;
	case SETTING_CHOICE:
	case SETTING_SWITCH:
		refused(s, "nonsense", setting_word(s, 0));
		refused(s, "", setting_word(s, 1));
		break;
	default: break;
	}
}

static void test_ranges(void **state)
{
	(void)state;
	for (const struct setting *s = engine_settings; s->name; s++)
		check_range(s);
	for (const struct setting *s = answer_settings; s->name; s++)
		check_range(s);
}

/* Text and back. */
static void test_texts(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS, p = { 0 };
	struct answer_settings a = ANSWER_DEFAULTS;
	struct err e = { 0 };
	char text[128];

	(void)state;
	for (const struct setting *s = engine_settings; s->name; s++) {
		setting_text(s, &o, text, sizeof text);
		if (s->type < SETTING_TEXT && *text && setting_put(s, &p, text, &e))
			fail_msg("%s", e.text);
	}
	assert_int_equal(p.budget, o.budget);
	assert_true(p.prefix_cache);
	assert_string_equal(p.evict, "lru");
	assert_string_equal(p.policy, "fcfs");
	assert_int_equal(setting_put(&answer_settings[ANSWER_AT_stop], &a, "a\\nb", &e), 0);
	assert_int_equal(setting_put(&answer_settings[ANSWER_AT_stop], &a, "c", &e), 0);
	assert_string_equal(a.stop.text[0], "a\nb");
	setting_text(&answer_settings[ANSWER_AT_stop], &a, text, sizeof text);
	assert_string_equal(text, "'a\nb' 'c'");
	assert_int_equal(setting_put(&answer_settings[ANSWER_AT_stop], &a, "off", &e), 0);
	assert_null(a.stop.text[0]);
	for (int i = 0; i < SETTING_STOPS_MAX; i++)
		assert_int_equal(setting_put(&answer_settings[ANSWER_AT_stop], &a, "x", &e), 0);
	assert_int_equal(setting_put(&answer_settings[ANSWER_AT_stop], &a, "x", &e), -1);
	setting_stops_free(&a.stop);
}

/* Where the default is 0 or nothing, or -1 tokens of a prompt, the engine chooses. */
static void check_reported(
	const struct engine *engine, const struct setting *s, const struct engine_options *o)
{
	char wanted[300], value[300];

	setting_text(s, o, wanted, sizeof wanted);
	assert_int_equal(engine_get(engine, s->name, value, sizeof value), 0);
	if (*wanted && strcmp(wanted, "0") != 0 && s != &engine_settings[ENGINE_AT_prefill_chunk])
		assert_string_equal(value, wanted);
}

static void test_engine(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *engine;
	struct err e = { 0 };

	(void)state;
	o.model = model;
	if (engine_open(&engine, &o, &e))
		fail_msg("%s", e.text);
	for (const struct setting *s = engine_settings; s->name; s++) {
		check_reported(engine, s, &o);
		e = (struct err){ 0 };
		if (s->when == SETTING_OPEN) {
			assert_int_equal(engine_set(engine, s->name, "1", &e), -1);
			assert_non_null(strstr(e.text, "fixed"));
		} else if (s->type != SETTING_TEXT) {
			assert_int_equal(engine_set(engine, s->name, "-2", &e), -1);
		}
		assert_true(!e.code || !strncmp(e.text, s->name, strlen(s->name)));
	}
	assert_int_equal(engine_set(engine, "observe-head", "4000", &e), -1);
	assert_non_null(strstr(e.text, "as the model has"));
	assert_int_equal(engine_set(engine, "no-such", "1", &e), -1);
	assert_int_equal(engine_get(engine, "no-such", (char[8]){ 0 }, 8), -1);
	engine_close(engine);
}

/* Options out of range are refused before a file is read. */
static void test_open(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *engine;
	struct err e = { 0 };

	(void)state;
	o.model = "/nonexistent";
	o.slots = 257;
	assert_int_equal(engine_open(&engine, &o, &e), -1);
	assert_non_null(strstr(e.text, "slots 257: a whole number of requests from 1 to 256"));
	o.slots = 8;
	o.evict = "none";
	e = (struct err){ 0 };
	assert_int_equal(engine_open(&engine, &o, &e), -1);
	assert_non_null(strstr(e.text, "evict none: one of lru|fifo|lfu"));
	o.evict = NULL; /* the default */
	o.model = model;
	o.budget = 4; /* of 8 slots */
	e = (struct err){ 0 };
	assert_int_equal(engine_open(&engine, &o, &e), -1);
	assert_non_null(strstr(e.text, "budget 4: a whole number of rows from 8"));
}

static int write_model(void **state)
{
	struct tiny_options t = TINY_DEFAULTS;

	(void)state;
	model = tiny_temp(&t, NULL);
	return model ? 0 : -1;
}

static int remove_model(void **state)
{
	(void)state;
	unlink(model);
	free(model);
	return 0;
}

/* What says that logits are lossy asks the table: no row of it is forgotten, and a default is not
 * named. */
static const char *value_of(void *of, const char *name)
{
	return strcmp(name, "visible") ? NULL : of;
}

static void test_lossy(void **state)
{
	struct lossy_settings exact = lossy_query(value_of, "full"),
						  window = lossy_query(value_of, "window:32");
	char text[64];
	int n = 0;

	(void)state;
	for (const struct setting *s = engine_settings; s->name; s++)
		n += s->effect == SETTING_LOSSY;
	assert_int_equal(exact.n, n);
	assert_string_equal(lossy_print(&exact, text, sizeof text), "");
	assert_string_equal(lossy_print(&window, text, sizeof text), "window:32");
	assert_false(lossy_same(&exact, &window));
	snprintf(window.value[1], sizeof window.value[1], "e4m3");
	assert_string_equal(lossy_print(&window, text, sizeof text), "window:32, cache-format e4m3");
	window = lossy_query(value_of, "\x1b[31mwindow:3\a");
	lossy_print(&window, text, sizeof text);
	assert_non_null(strstr(text, "[31mwindow:3"));
	assert_false(strchr(text, '\x1b') || strchr(text, '\a'));
	exact = lossy_query(value_of, NULL);
	assert_string_equal(lossy_print(&exact, text, sizeof text), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_family_has_a_row),
		cmocka_unit_test(test_rows), cmocka_unit_test(test_ranges), cmocka_unit_test(test_texts),
		cmocka_unit_test(test_engine), cmocka_unit_test(test_open), cmocka_unit_test(test_lossy) };

	return cmocka_run_group_tests_name("settings", tests, write_model, remove_model);
}

/* The palette: what a filter finds and in which order, how the list moves, what is drawn in every
 * size, and what any keys leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/near.h"
#include "tests/support/canvas_text.h"
#include "tui/app/palette.h"

static void test_fuzzy(void **state)
{
	(void)state;
	assert_int_equal(fuzzy_score("temp", "temp", 4), FUZZY_BEST);
	assert_true(fuzzy_score("temperature", "temp", 4) < FUZZY_BEST);
	assert_true(fuzzy_score("temperature", "TEMP", 4) > fuzzy_score("max-tokens", "tok", 3));
	assert_true(fuzzy_score("max-tokens", "tok", 3) > fuzzy_score("tokens", "ken", 3));
	assert_true(fuzzy_score("tokens", "ken", 3) > fuzzy_score("prefix cache", "pfxc", 4));
	assert_true(fuzzy_score("prefix cache", "pfxc", 4) > FUZZY_NONE);
	assert_int_equal(fuzzy_score("prefix cache", "cp", 2), FUZZY_NONE);
	assert_int_equal(fuzzy_score("", "a", 1), FUZZY_NONE);
	assert_int_equal(fuzzy_score("attention", "ann", 3), FUZZY_NONE); /* too far apart */
	assert_int_equal(fuzzy_within("next token", "nt", 2), FUZZY_NONE);
}

static void add(struct palette *p, const char *group, const char *name, const char *value,
	const char *text, const char *more, const char *line)
{
	palette_add(p, &(struct palette_item){ .group = group,
					   .name = name,
					   .value = value,
					   .text = text,
					   .more = more,
					   .key = strcmp(name, "pause") ? NULL : "F5",
					   .line = line });
}

static void fill(struct palette *p, const char *filter)
{
	palette_begin(p, "commands", filter);
	add(p, "Time", "pause", NULL, "holds between two steps", "stop", "/pause");
	add(p, "Time", "step", NULL, "runs N steps, then holds", "s next", "/step ");
	add(p, "Views", "speculation", NULL, "A cheap drafter proposes tokens", "spec", "/view spec");
	add(p, "Settings", "spec", "off", "who guesses tokens ahead", NULL, "/spec ");
	add(p, "Settings", "temp", "0.7", "temperature of the draw", NULL, "/temp ");
	palette_show(p);
	assert_true(p->open);
}

static const char *chosen_after(struct palette *p, const char *keys)
{
	const struct palette_item *item;
	struct term_key k = { 0 };

	for (; *keys; keys++) {
		const char seq[2] = { *keys, 0 };

		k.code = *keys;
		k.seq = seq;
		assert_int_equal(palette_key(p, &k, &item), PALETTE_STAYS);
	}
	k.code = '\r';
	k.seq = "\r";
	return palette_key(p, &k, &item) == PALETTE_RUN ? item->line : "";
}

static void press(struct palette *p, int key, enum palette_answer expected)
{
	const struct palette_item *item;
	const struct term_key k = { .code = key, .seq = "" };

	assert_int_equal(palette_key(p, &k, &item), expected);
}

static void press_char(struct palette *p, const char *seq)
{
	const struct palette_item *item;
	const struct term_key k = { .code = KEY_CHAR_, .seq = seq };

	assert_int_equal(palette_key(p, &k, &item), PALETTE_STAYS);
}

static void what_a_filter_finds(void **state)
{
	static const struct {
		const char *typed, *line;
		int n;
	} cases[] = { { "", "/pause", 5 }, { "spec", "/spec ", 2 }, { "specu", "/view spec", 1 },
		{ "tokens", "/view spec", 2 }, { "next", "/step ", 1 }, { "temperature", "/temp ", 1 },
		{ "tokens ahead", "/spec ", 1 }, { "zebra", "", 0 }, { "VIEWS", "/view spec", 1 },
		{ "/temp", "/temp ", 1 }, { "tmp", "/temp ", 1 } };
	struct palette p = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		fill(&p, "");
		if (strcmp(chosen_after(&p, cases[i].typed), cases[i].line) != 0 || p.n_shown != cases[i].n)
			fail_msg("%s: %d, %s", cases[i].typed, p.n_shown, chosen_after(&p, ""));
		fill(&p, cases[i].typed);
		assert_string_equal(chosen_after(&p, ""), cases[i].line);
	}
	palette_close(&p);
	palette_begin(&p, "nothing", "");
	palette_show(&p);
	assert_string_equal(chosen_after(&p, ""), "");
	palette_close(&p);
}

static void how_it_moves(void **state)
{
	struct palette p = { 0 };

	(void)state;
	fill(&p, "");
	for (int i = 0; i < 20; i++)
		press(&p, KEY_DOWN_, PALETTE_STAYS);
	assert_string_equal(chosen_after(&p, ""), "/temp ");
	press(&p, KEY_UP_, PALETTE_STAYS);
	press(&p, KEY_UP_, PALETTE_STAYS); /* over a heading */
	assert_string_equal(chosen_after(&p, ""), "/view spec");
	for (int i = 0; i < 20; i++)
		press(&p, KEY_UP_, PALETTE_STAYS);
	assert_string_equal(chosen_after(&p, ""), "/pause"); /* a heading is above it */
	assert_string_equal(chosen_after(&p, "zz"), "");
	press(&p, KEY_DOWN_, PALETTE_STAYS);
	press(&p, 127, PALETTE_STAYS);
	press(&p, 127, PALETTE_STAYS);
	assert_string_equal(chosen_after(&p, ""), "/pause");
	press_char(&p, "\xc3\xa4");
	assert_string_equal(chosen_after(&p, ""), "");
	press(&p, 127, PALETTE_STAYS); /* both bytes */
	assert_string_equal(p.filter, "");
	press_char(&p, "\xc3\xa4");
	press(&p, 21, PALETTE_STAYS);
	assert_string_equal(p.filter, "");
	press(&p, '\t', PALETTE_TYPE);
	press(&p, KEY_F1_, PALETTE_EXPLAIN);
	press(&p, 27, PALETTE_LEFT);
	palette_close(&p);
}

static void a_click_chooses(void **state)
{
	const struct palette_item *item;
	struct palette p = { 0 };
	struct canvas c = { 0 };
	struct term_key k = { .code = KEY_MOUSE_, .button = MOUSE_CLICK, .seq = "" };
	struct err e = { 0 };

	(void)state;
	fill(&p, "");
	assert_int_equal(canvas_resize(&c, 80, 24, &e), 0);
	palette_draw(&p, &c);
	k.y = p.y0; /* a heading */
	assert_int_equal(palette_key(&p, &k, &item), PALETTE_STAYS);
	k.y = p.y0 + 2;
	assert_int_equal(palette_key(&p, &k, &item), PALETTE_RUN);
	assert_string_equal(item->line, "/step ");
	k.y = 23;
	assert_int_equal(palette_key(&p, &k, &item), PALETTE_STAYS);
	canvas_free(&c);
	palette_close(&p);
}

/* What is typed moves no column, and no line but the list's. */
static void as_drawn(void **state)
{
	struct palette p = { 0 };
	struct canvas c = { 0 };
	struct err e = { 0 };
	char *text;

	(void)state;
	fill(&p, "");
	assert_int_equal(canvas_resize(&c, 80, 24, &e), 0);
	palette_draw(&p, &c);
	text = canvas_to_text(&c);
	assert_non_null(strstr(text, "commands "));
	assert_non_null(strstr(text, "5 of 5"));
	assert_non_null(strstr(text, "\n Time\n  pause "));
	assert_non_null(strstr(text, " F5\n"));
	assert_non_null(strstr(text, "\n holds between two steps\n"));
	free(text);
	chosen_after(&p, "guesses");
	palette_draw(&p, &c);
	text = canvas_to_text(&c);
	assert_non_null(strstr(text, "1 of 5"));
	assert_null(strstr(text, "Time"));
	assert_non_null(strstr(text, "\n who guesses tokens ahead\n"));
	free(text);
	for (int w = 1; w < 140; w += 3)
		for (int h = 1; h < 40; h += 2) {
			assert_int_equal(canvas_resize(&c, w, h, &e), 0);
			for (int key = 0; key < 2; key++) {
				palette_draw(&p, &c);
				press(&p, key ? KEY_PAGE_UP : KEY_PAGE_DOWN, PALETTE_STAYS);
			}
		}
	canvas_free(&c);
	palette_close(&p);
}

static void any_keys_leave_it_whole(void **state)
{
	struct palette p = { 0 };
	struct canvas c = { 0 };
	struct err e = { 0 };
	uint32_t seed = 7;

	(void)state;
	assert_int_equal(canvas_resize(&c, 100, 20, &e), 0);
	fill(&p, "");
	for (int i = 0; i < 20000; i++) {
		static const int keys[] = { KEY_UP_, KEY_DOWN_, KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_HOME_,
			KEY_END_, 127, 21, 23, 's', 'p', ' ', 'e', '/', KEY_CHAR_ };
		const struct palette_item *item;
		struct term_key k = { .seq = "" };

		seed = seed * 1664525 + 1013904223;
		k.code = keys[(seed >> 8) % (sizeof keys / sizeof *keys)];
		k.seq = k.code == KEY_CHAR_ ? "\xc3\xa4" : (char[]){ (char)k.code, 0 };
		palette_key(&p, &k, &item);
		assert_true(p.chosen >= 0 && (!p.n_rows || p.chosen < p.n_rows));
		assert_true(!p.n_rows || !p.row[p.chosen].heading);
		if (i % 16 == 0)
			palette_draw(&p, &c);
	}
	canvas_free(&c);
	palette_close(&p);
}

/* Of a list that grows while one looks at it, what is chosen stays. */
static void test_grows(void **state)
{
	struct palette p = { 0 };
	char name[8];

	(void)state;
	fill(&p, "");
	press(&p, KEY_DOWN_, PALETTE_STAYS);
	press(&p, KEY_DOWN_, PALETTE_STAYS);
	assert_string_equal(p.item[p.row[p.chosen].item].name, "speculation");
	for (int i = 0; i < 400; i++) {
		snprintf(name, sizeof name, "n%d", i);
		add(&p, "More", name, NULL, "", NULL, "/more");
		palette_grow(&p);
		assert_string_equal(p.item[p.row[p.chosen].item].name, "speculation");
	}
	palette_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_fuzzy), cmocka_unit_test(test_grows),
		cmocka_unit_test(what_a_filter_finds), cmocka_unit_test(how_it_moves),
		cmocka_unit_test(a_click_chooses), cmocka_unit_test(as_drawn),
		cmocka_unit_test(any_keys_leave_it_whole) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

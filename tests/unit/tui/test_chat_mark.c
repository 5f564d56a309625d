/* Markdown as the chat draws it: marks are left out, every byte keeps its token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/views/chat_turn.h"

/* Every byte is a token of its own. */
static struct wrap marked_as(const char *text, int width, bool ascii)
{
	const size_t n = strlen(text);
	struct wrap w = { 0 };

	for (size_t i = 0; i < n; i++)
		wrap_add_styled(&w, text + i, 1, &(int32_t){ (int32_t)i }, 0);
	mark_down(&w, width, ascii);
	assert_false(w.failed);
	return w;
}

static struct wrap marked(const char *text, int width)
{
	return marked_as(text, width, false);
}

static void assert_reads(const char *text, int width, const char *want)
{
	struct wrap w = marked(text, width);
	char got[256];

	assert_true(w.size < sizeof got);
	snprintf(got, sizeof got, "%.*s", (int)w.size, w.text);
	assert_string_equal(got, want);
	/* what has a token is that byte of the source */
	for (size_t i = 0; i < w.size; i++)
		assert_true(w.owner[i] == WRAP_NOBODY || text[w.owner[i]] == w.text[i]);
	wrap_free(&w);
}

static void marks_are_left_out(void **state)
{
	(void)state;
	assert_reads("plain", 40, "plain");
	assert_reads("# Head\ntext **bold** and `code` *em*", 40, "Head\n\ntext bold and code em");
	assert_reads("one\n\n\n\ntwo\nthree", 40, "one\n\ntwo\nthree");
	assert_reads("2 * 3 * 4, a_b_c, x < y & z", 40, "2 * 3 * 4, a_b_c, x < y & z");
	assert_reads("unfinished **bold and `code", 40, "unfinished **bold and `code");
	assert_reads(">>>", 40, ">>>");
	assert_reads("<b>html</b>", 40, "<b>html</b>");
}

static void lists(void **state)
{
	(void)state;
	assert_reads("- a\n- b\n  - c\n- d", 40, "• a\n• b\n  • c\n• d");
	assert_reads("Steps:\n\n3. x\n4. y\n\nEnd", 40, "Steps:\n\n3. x\n4. y\n\nEnd");
	assert_reads("0. x\n1. y", 40, "0. x\n1. y");
	assert_reads("- a\n\n- b", 40, "• a\n\n• b");
	assert_reads("> said\n> so", 40, "│ said\n│ so");
}

static void code(void **state)
{
	struct wrap w = marked("a\n```c\nint x;\n\n\ty();\n```\nb", 40);
	static const char want[] = "a\n\n  int x;\n\n      y();\n\nb";
	const char *at = strstr(want, "int");

	(void)state;
	assert_reads("a\n```c\nint x;\n\n\ty();\n```\nb", 40, want);
	assert_int_equal(w.style[at - want], MARK_CODE | MARK_BLOCK);
	assert_int_equal(w.style[0], 0);
	wrap_free(&w);
	assert_reads("```\nnot closed", 40, "  not closed");
}

static void tables(void **state)
{
	static const char text[] = "| a | long |\n|---|---|\n| **xyz** | 1 |\n| é | 2 |\n";

	(void)state;
	assert_reads(text, 40, "a   │ long\n────┼─────\nxyz │ 1\né   │ 2");
	assert_reads(text, 5, "a │ long\nxyz │ 1\né │ 2");
}

static void whatever_is_written(void **state)
{
	static const char *const piece[] = { "`", "*", "|", "\n", "- ", "1. ", "> ", "#", "a", "\t",
		"[", "](", ")", "```", "|-", "\\", "&amp;", "é", "\xf0\x9f", "    " };
	uint32_t r = 1;

	(void)state;
	for (int n = 0; n < 3000; n++) {
		char text[256] = "";

		for (int i = 0; i < 40; i++) {
			r = r * 1664525 + 1013904223;
			strcat(text, piece[(r >> 16) % (sizeof piece / sizeof *piece)]);
		}
		struct wrap w = marked(text, 1 + n % 60);

		for (size_t i = 0; i < w.size; i++)
			assert_true(w.owner[i] == WRAP_NOBODY || text[w.owner[i]] == w.text[i]);
		wrap_lines(&w, 1 + n % 60, false);
		for (int32_t i = 0; i < w.n_lines; i++)
			assert_int_equal(w.line[i].from, i ? w.line[i - 1].to : 0);
		wrap_free(&w);
	}
}

static void in_ascii(void **state)
{
	struct wrap w = marked_as("- a\n\n> b\n\n***\n\n|a|b|\n|---|---|\n|c|d|", 40, true);
	static const char want[] = "- a\n\n| b\n\n---\n\na | b\n--+--\nc | d";

	(void)state;
	assert_int_equal(w.size, strlen(want));
	assert_memory_equal(w.text, want, w.size);
	wrap_free(&w);
}

/* A line that goes on begins below the text of its bullet. */
static void lines_hang(void **state)
{
	struct wrap w = marked("- one two three\n\nplain words here", 9);

	(void)state;
	wrap_lines(&w, 9, false);
	assert_int_equal(w.line[0].indent, 0);
	assert_int_equal(w.line[1].indent, 2);
	assert_int_equal(w.line[w.n_lines - 1].indent, 0);
	wrap_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(marks_are_left_out),
		cmocka_unit_test(lists), cmocka_unit_test(code), cmocka_unit_test(tables),
		cmocka_unit_test(in_ascii), cmocka_unit_test(whatever_is_written),
		cmocka_unit_test(lines_hang) };

	return cmocka_run_group_tests_name("chat_mark", tests, NULL, NULL);
}

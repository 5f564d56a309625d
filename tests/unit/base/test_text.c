/* base/text.h: whatever goes in, nothing that steers a terminal comes out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <utf8proc.h>

#include "base/text.h"
#include "engine/text/tokenizer.h"
#include "tests/support/tiny.h"

static const char model[] = "models/SmolLM2-135M-Instruct.Q4_1.gguf";

/* A decoder of this test's own, so that the library is not judged by itself. -1: not UTF-8. */
static int32_t decode(const char *text, size_t *size)
{
	const unsigned char *s = (const unsigned char *)text;
	int n = s[0] < 0x80             ? 1
			: (s[0] & 0xe0) == 0xc0 ? 2
			: (s[0] & 0xf0) == 0xe0 ? 3
			: (s[0] & 0xf8) == 0xf0 ? 4
									: 0;
	int32_t c = n == 1 ? s[0] : n == 2 ? s[0] & 0x1f : n == 3 ? s[0] & 0x0f : s[0] & 7;

	if (!n)
		return -1;
	for (int i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return -1;
		c = c << 6 | (s[i] & 0x3f);
	}
	*size = (size_t)n;
	return c < (n == 2      ? 0x80
				   : n == 3 ? 0x800
				   : n == 4 ? 0x10000
							: 0) ||
				   (c >= 0xd800 && c < 0xe000)
			   ? -1
			   : c;
}

/* Listed here by hand: the characters that must never reach a terminal. */
static bool steers(int32_t c)
{
	return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0xad || c == 0x34f || c == 0x61c ||
		   c == 0x115f || c == 0x1160 || c == 0x180e || (c >= 0x200b && c <= 0x200f) ||
		   (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0x3164 ||
		   (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff || c == 0xffa0 ||
		   (c >= 0xfff0 && c <= 0xfffb) || (c >= 0xe000 && c <= 0xf8ff) || c >= 0xe0000;
}

/* Splits text into runs and holds every one against the contract. */
static void check_runs(const char *text, size_t size, bool ascii)
{
	int width = 0;

	for (size_t at = 0; at < size;) {
		struct glyph_run g = text_next(text + at, size - at, ascii);
		int marks = 0;

		assert_true(g.used >= 1 && g.used <= size - at);
		assert_true(g.width == 1 || g.width == 2);
		assert_true(strnlen(g.text, sizeof g.text) < sizeof g.text);
		assert_true(g.newline ? !*g.text : *g.text);
		for (size_t i = 0, n = 0; g.text[i]; i += n, marks++) {
			int32_t c = decode(g.text + i, &n);

			assert_true(c >= 0 && !steers(c));
			assert_true(!ascii || c < 0x7f);
		}
		assert_true(marks <= (ascii ? 2 : 4));
		at += g.used;
		width += g.width;
	}
	assert_int_equal(text_width(text, size, ascii), width);
}

static void check_clean(const char *text, size_t size, bool keep)
{
	size_t n = 0;
	char *clean = text_clean(text, size, keep, &n);

	assert_non_null(clean);
	assert_int_equal(strlen(clean), n);
	for (size_t i = 0, step; i < n; i += step) {
		int32_t c = decode(clean + i, &step);

		assert_true(c >= 0 && (!steers(c) || (keep && c == '\n')));
	}
	free(clean);
}

static void check_json(const char *text, size_t size)
{
	char *json = text_json(text, size);
	size_t n;

	assert_non_null(json);
	n = strlen(json);
	assert_true(n >= 2 && json[0] == '"' && json[n - 1] == '"');
	for (size_t i = 1, step; i < n - 1; i += step) {
		int32_t c = decode(json + i, &step);

		assert_true(c >= 0 && c != '"');
		assert_true(!steers(c) || (c >= 0xfe0e && c <= 0xfe0f)); /* these two only style */
		step += c == '\\';
	}
	free(json);
}

static void check_all(const char *text, size_t size)
{
	check_runs(text, size, false);
	check_runs(text, size, true);
	check_clean(text, size, false);
	check_clean(text, size, true);
	check_json(text, size);
}

static void check_vocabulary(const char *path)
{
	struct gguf *g;
	struct tokenizer *t;
	struct err e = { 0 };
	char two[4096];

	assert_int_equal(gguf_open(&g, path, &e), 0);
	assert_int_equal(tokenizer_open(&t, g, &e), 0);
	for (int32_t id = 0; id < tokenizer_n_vocab(t); id++) {
		struct gguf_text a = tokenizer_bytes(t, id);
		/* and with another behind it: sequences may be split over two tokens */
		struct gguf_text b = tokenizer_bytes(t, (id * 7919 + 13) % tokenizer_n_vocab(t));

		check_all(a.data, a.size);
		assert_true(a.size + b.size <= sizeof two);
		memcpy(two, a.data, a.size);
		memcpy(two + a.size, b.data, b.size);
		check_all(two, a.size + b.size);
	}
	tokenizer_close(t);
	gguf_close(g);
}

static void test_tiny_vocabulary(void **state)
{
	struct err e = { 0 };
	char *path = tiny_temp(&TINY_DEFAULTS, &e);

	(void)state;
	assert_non_null(path);
	check_vocabulary(path);
	unlink(path);
	free(path);
}

static void test_model_vocabulary(void **state)
{
	(void)state;
	if (access(model, R_OK))
		skip();
	check_vocabulary(model);
}

static void test_random_bytes(void **state)
{
	uint64_t r = 1;
	char text[40];

	(void)state;
	for (int i = 0; i < 40000; i++) {
		size_t size = (size_t)(r >> 60) + (size_t)(r >> 40 & 15);

		for (size_t k = 0; k < size; k++) {
			r = r * 6364136223846793005u + 1442695040888963407u;
			/* half of the time bytes that are likely to make sequences */
			text[k] = r >> 62 & 1
						  ? "\xe2\x80\x8f\xcc\x81\xf0\x9f\x98\xed\xef\xbb\xbf\x1b[31"[r >> 50 & 15]
						  : (char)(r >> 33);
		}
		r = r * 6364136223846793005u + 1442695040888963407u;
		check_all(text, size);
	}
}

static void test_every_code_point(void **state)
{
	(void)state;
	for (int32_t c = 0; c < 0x110000; c++) {
		char text[8];
		size_t size;
		struct glyph_run g;

		if (c >= 0xd800 && c < 0xe000)
			continue;
		size = (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)text);
		g = text_next(text, size, false);
		assert_int_equal(g.used, size);
		if (steers(c) && c != '\n' && c != '\t')
			assert_true(g.standin);
		if (g.standin || g.newline || g.tab)
			continue;
		assert_int_equal(strlen(g.text), size);
		assert_memory_equal(g.text, text, size);
		/* spacing marks are the one exception to utf8proc's widths: terminals give them a column */
		assert_int_equal(
			g.width, utf8proc_category(c) == UTF8PROC_CATEGORY_MC ? 1 : utf8proc_charwidth(c));
	}
}

static void expect(
	const char *text, bool ascii, const char *shown, int width, size_t used, bool standin)
{
	struct glyph_run g = text_next(text, strlen(text), ascii);

	assert_string_equal(g.text, shown);
	assert_int_equal(g.width, width);
	assert_int_equal(g.used, used);
	assert_int_equal(g.standin, standin);
}

static void test_runs(void **state)
{
	(void)state;
	expect("ab", false, "a", 1, 1, false);
	expect("\xe4\xb8\xad", false, "\xe4\xb8\xad", 2, 3, false);
	expect("e\xcc\x81x", false, "e\xcc\x81", 1, 3, false);
	expect("\xcc\x81", false, "\xe2\x97\x8c\xcc\x81", 1, 2, true);
	expect("\x1b[31m", false, "\xe2\x90\x9b", 1, 1, true);
	expect("\x1b[31m", true, "^[", 2, 1, true);
	expect("\x7f", false, "\xe2\x90\xa1", 1, 1, true);
	expect("\x7f", true, "^?", 2, 1, true);
	expect("\xe2\x80\xae", false, "\xef\xbf\xbd", 1, 3, true);
	expect("\xc2\x9b", false, "\xef\xbf\xbd", 1, 2, true);
	expect("\xff", false, "\xef\xbf\xbd", 1, 1, true);
	expect("\xe2\x82", false, "\xef\xbf\xbd", 1, 1, true);
	expect("\xe4\xb8\xad", true, "?", 1, 3, true);
	expect("\xe2\x80\x99s", true, "'", 1, 3, true);
	expect("\xc2\xb7", true, ".", 1, 2, true);
	expect("\xe2\x86\x91 \xe2\x86\x93", true, "^", 1, 3, true);
	expect("\xe2\x9c\x93", true, "=", 1, 3, true);
	expect("\xe2\x9d\xa4\xef\xb8\x8fx", false, "\xe2\x9d\xa4", 1, 6, false);
	/* emoji that U+200D joins: the parts, with the joiner unseen; also behind a skin tone or
	 * U+FE0F */
	expect("\xf0\x9f\x91\xa9\xe2\x80\x8d", false, "\xf0\x9f\x91\xa9", 2, 7, false);
	expect("\xf0\x9f\x8f\xbd\xe2\x80\x8d", false, "\xf0\x9f\x8f\xbd", 2, 7, false);
	expect(
		"\xe2\x9d\xa4\xef\xb8\x8f\xe2\x80\x8d\xf0\x9f\x94\xa5", false, "\xe2\x9d\xa4", 1, 9, false);
	/* so in scripts that join (Persian, Devanagari); in others, alone or twice it is seen */
	expect("\xdb\x8c\xe2\x80\x8c\xd8\xae", false, "\xdb\x8c", 1, 5, false);
	expect("\xe0\xa4\x95\xe0\xa5\x8d\xe2\x80\x8d", false, "\xe0\xa4\x95\xe0\xa5\x8d", 1, 9, false);
	expect("\xdb\x8c\xe2\x80\x8c\xe2\x80\x8c", false, "\xdb\x8c", 1, 5, false);
	expect("a\xe2\x80\x8d", false, "a", 1, 1, false);
	expect("\xe4\xb8\xad\xe2\x80\x8d", false, "\xe4\xb8\xad", 2, 3, false);
	expect("\xe2\x80\x8d", false, "\xef\xbf\xbd", 1, 3, true);
	expect("\r\nx", false, "", 1, 2, false);
	expect("\rx", false, "\xe2\x90\x8d", 1, 1, true);
	assert_true(text_next("\n", 1, false).newline);
	assert_true(text_next("\t", 1, false).tab);
	assert_int_equal(text_next("", 0, false).used, 0);
	assert_int_equal(text_next("", 0, false).width, 0);
}

static void test_other_encodings(void **state)
{
	(void)state;
	expect("\xc3\xa9x", true, "?", 1, 2, true);
	text_show_also(0xe9);
	expect("\xc3\xa9x", true, "\xc3\xa9", 1, 2, false);
	expect("\xc3\xa8x", true, "?", 1, 2, true);
	expect("\xf0\x9f\x91\xa9", true, "?", 1, 4, true);
}

static void test_marks_are_clamped(void **state)
{
	char text[2001] = "x";
	struct glyph_run g;

	(void)state;
	for (int i = 0; i < 1000; i++)
		memcpy(text + 1 + 2 * i, "\xcc\x81", 2);
	g = text_next(text, sizeof text, false);
	assert_string_equal(g.text, "x\xcc\x81\xcc\x81\xcc\x81");
	assert_int_equal(g.used, sizeof text);
	assert_int_equal(g.width, 1);
}

static void test_clean(void **state)
{
	size_t n;
	char *s = text_clean("a\tb\nc\x1b", 6, true, &n);

	(void)state;
	assert_string_equal(s, "a       b\nc\xe2\x90\x9b");
	free(s);
	s = text_clean("a\tb\nc", 5, false, &n);
	assert_string_equal(s, "a b\xe2\x90\x8a"
						   "c");
	free(s);
	s = text_clean("", 0, false, &n);
	assert_string_equal(s, "");
	assert_int_equal(n, 0);
	free(s);
}

static void test_json(void **state)
{
	static const char nul[] = "a\0b";
	char *s = text_json("\"\\\n\x1b\xff\xe2\x80\xae\xf3\xa0\x80\x81\xc3\xa9", 14);

	(void)state;
	assert_string_equal(s, "\"\\\"\\\\\\n\\u001b\\ufffd\\u202e\\udb40\\udc01\xc3\xa9\"");
	free(s);
	s = text_json(nul, 3);
	assert_string_equal(s, "\"a\\u0000b\"");
	free(s);
}

static void assert_word(const char *text, const char *word)
{
	char *s = text_shell(text);

	assert_string_equal(s, word);
	free(s);
}

static void words_for_a_shell(void **state)
{
	(void)state;
	assert_word("/tmp/a-b_c.1.db", "/tmp/a-b_c.1.db");
	assert_word("", "''");
	assert_word("-x.db", "./-x.db");
	assert_word("it's $a", "'it'\\''s $a'");
	assert_word("~/a", "'~/a'");
	assert_word("\xc3\xa9.db", "\xc3\xa9.db");
	assert_word("a'\n\x1b\\b", "$'a\\047\\012\\033\\134b'");
	assert_word("\xff", "$'\\377'");
}

static void lines_end_between_words_and_choices(void **state)
{
	size_t next;

	(void)state;
	assert_int_equal(text_line("some words", 7, false, &next), 4);
	assert_int_equal(next, 5);
	assert_int_equal(text_line("fair|fcfs|priority", 12, false, &next), 10);
	assert_int_equal(next, 10);
	assert_int_equal(text_line("one fair|fcfs", 9, false, &next), 3);
	assert_int_equal(text_line("indivisible", 5, false, &next), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_end_between_words_and_choices), cmocka_unit_test(test_runs),
		cmocka_unit_test(test_marks_are_clamped), cmocka_unit_test(test_clean),
		cmocka_unit_test(test_json), cmocka_unit_test(words_for_a_shell),
		cmocka_unit_test(test_every_code_point), cmocka_unit_test(test_random_bytes),
		cmocka_unit_test(test_tiny_vocabulary), cmocka_unit_test(test_model_vocabulary),
		cmocka_unit_test(test_other_encodings), /* last: it
												   is not
												   undone
												 */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

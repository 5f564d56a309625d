/* The prompt: readline fed with bytes, drawn on a canvas, and silent on the terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tui/term/prompt.h"
#include "tests/support/canvas_text.h"

static char history[] = "/tmp/cutaway-history-XXXXXX";
static char inputrc[] = "/tmp/cutaway-inputrc-XXXXXX";

static char **complete(void *arg, const char *line, int start, int end, bool *files)
{
	static const char *const all[] = { "/save", "/seed", "/spec" };
	char **list = calloc(4, sizeof *list);
	int n = 0;

	(void)arg;
	*files = start > 0;
	for (int i = 0; i < 3; i++)
		if (!start && !strncmp(all[i], line, (size_t)end))
			list[n++] = strdup(all[i]);
	return list;
}

/* While readline works, standard output and error lead to a file, which must stay empty. */
static int quiet_file = -1, was[2];

static void quiet_begin(void)
{
	fflush(stdout);
	fflush(stderr);
	for (int i = 0; i < 2; i++) {
		was[i] = dup(i + 1);
		dup2(quiet_file, i + 1);
	}
}

static void quiet_end(void)
{
	fflush(stdout);
	fflush(stderr);
	for (int i = 0; i < 2; i++) {
		dup2(was[i], i + 1);
		close(was[i]);
	}
}

static int open_prompt(void **state)
{
	int result;

	(void)state;
	quiet_begin();
	result =
		prompt_open(&(struct prompt_options){ .history = history, .complete = complete }, NULL);
	quiet_end();
	return result;
}

static int close_prompt(void **state)
{
	(void)state;
	quiet_begin();
	prompt_close();
	quiet_end();
	return 0;
}

static void feed(const char *bytes)
{
	quiet_begin();
	prompt_feed(bytes, strlen(bytes));
	quiet_end();
}

static void took(const char *expected)
{
	char *line = prompt_take();

	if (!expected) {
		assert_null(line);
		return;
	}
	assert_non_null(line);
	assert_string_equal(line, expected);
	free(line);
}

static void lines_are_edited(void **state)
{
	(void)state;
	feed("hallo\002\002\002\002\004e\005 wörld\r"); /* ^B four times, ^D, e, ^E */
	took("hello wörld");
	took(NULL);
	feed("one\rtwo\r");
	took("one");
	took("two");
	feed("abc\033[D\033[D\033[3~x\r"); /* cursor keys and Delete */
	took("axc");
}

static void keys_may_arrive_in_pieces(void **state)
{
	const char *text = "a\303\244\033[Db\r";

	(void)state;
	for (; *text; text++)
		prompt_feed(text, 1);
	took("abä");
}

static void history_comes_back(void **state)
{
	(void)state;
	feed("first\rsecond\r");
	took("first");
	took("second");
	feed("\033[A\033[A\r");
	took("first");
	feed("\022sec"); /* incremental search */
	assert_true(prompt_busy());
	feed("\r");
	took("second");
	assert_false(prompt_busy());
}

static void history_is_kept_in_its_file(void **state)
{
	(void)state;
	feed("remember me");
	feed("\033\r"); /* Alt-Enter */
	feed("two lines\r");
	took("remember me\ntwo lines");
	prompt_close();
	assert_int_equal(open_prompt(NULL), 0);
	feed("\033[A\r");
	took("remember me\ntwo lines");
}

static void pastes_keep_their_newlines(void **state)
{
	const char text[] = "int a;\r\nint b;\rc\0d";

	(void)state;
	prompt_paste(text, sizeof text - 1);
	assert_string_equal(prompt_text(), "int a;\nint b;\ncd");
	took(NULL);
	feed("\r");
	took("int a;\nint b;\ncd");
}

static void tab_completes(void **state)
{
	(void)state;
	feed("/sa\t");
	assert_string_equal(prompt_text(), "/save ");
	prompt_set("/s");
	feed("\t");
	assert_int_equal(prompt_n_matches(), 3);
	assert_string_equal(prompt_match(1), "/seed");
	feed("p");
	assert_int_equal(prompt_n_matches(), 0);
	prompt_set("/save /etc/pass");
	feed("\t");
	assert_memory_equal(prompt_text(), "/save /etc/passwd", 17);
	prompt_set("");
}

static void control_d_ends(void **state)
{
	(void)state;
	assert_false(prompt_take_eof());
	feed("\004");
	assert_true(prompt_take_eof());
	assert_false(prompt_take_eof());
}

static void inputrc_is_honoured(void **state)
{
	(void)state;
	feed("abc\030q\r"); /* bound in the inputrc below */
	took("abc, as the inputrc says");
}

static void draw(struct canvas *c, int w, int h, const char *expected)
{
	struct pen p;
	char *text;

	assert_int_equal(canvas_resize(c, w, h, NULL), 0);
	p = pen_of(c, (struct rect){ 0, 0, w, h });
	prompt_draw(&p, "you ›", "ask", true);
	text = canvas_to_text(c);
	assert_string_equal(text, expected);
	free(text);
}

/* A character is one, typed at once or in bytes, also where the inputrc has the 8th bit mean
 * Alt. */
static void text_beyond_ascii(void **state)
{
	(void)state;
	prompt_feed("z\xc3\xa9\xe6\x9c\x88", 6);
	for (const char *byte = "\xf0\x9f\x91\x8d"; *byte; byte++)
		prompt_feed(byte, 1);
	assert_string_equal(prompt_text(), "z\xc3\xa9\xe6\x9c\x88\xf0\x9f\x91\x8d");
	prompt_feed("\177\177", 2);
	assert_string_equal(prompt_text(), "z\xc3\xa9");
	prompt_sequence("\033[15;2~"); /* no key that readline knows */
	prompt_sequence("\033[1");     /* the beginning of one */
	prompt_sequence("\033[D");     /* left */
	prompt_feed("x", 1);
	assert_string_equal(prompt_text(), "zx\xc3\xa9");
	prompt_set("");
}

static void lines_wrap_and_scroll(void **state)
{
	struct canvas c = { 0 };

	(void)state;
	prompt_set("");
	draw(&c, 12, 1, "you › ask\n");
	prompt_set("abcdefghij");
	assert_int_equal(prompt_lines(12, "you ›", false), 2);
	draw(&c, 12, 2, "you › abcdef\n      ghij\n");
	assert_int_equal(c.cursor_x, 10);
	assert_int_equal(c.cursor_y, 1);
	draw(&c, 12, 1, "      ghij\n"); /* the cursor's line is the one that is seen */
	prompt_set("日本語日");
	draw(&c, 12, 2, "you › 日本語\n      日\n");
	prompt_set("a\nb");
	draw(&c, 12, 2, "you › a\n      b\n");
	prompt_set("\033[31m");
	draw(&c, 12, 2, "you › ␛[31m\n\n");
	prompt_set("");
	for (int w = 1; w < 20; w++)
		prompt_lines(w, "you ›", false);
	canvas_free(&c);
}

static void nothing_reached_the_terminal(void **state)
{
	(void)state;
	assert_int_equal(lseek(quiet_file, 0, SEEK_END), 0);
}

static int group_setup(void **state)
{
	FILE *f;

	(void)state;
	setlocale(LC_CTYPE, "C.UTF-8");
	f = fdopen(mkstemp(inputrc), "w");
	fputs("\"\\C-xq\": \", as the inputrc says\"\nset bell-style audible\n"
		  "set convert-meta on\nset input-meta off\n",
		f);
	fclose(f);
	setenv("INPUTRC", inputrc, 1);
	setenv("TERM", "xterm-256color", 1);
	close(mkstemp(history));
	quiet_file = fileno(tmpfile());
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	unlink(history);
	unlink(inputrc);
	return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_prompt, close_prompt)
	const struct CMUnitTest quiet[] = {
		TEST(lines_are_edited),
		TEST(keys_may_arrive_in_pieces),
		TEST(history_comes_back),
		TEST(history_is_kept_in_its_file),
		TEST(pastes_keep_their_newlines),
		TEST(tab_completes),
		TEST(control_d_ends),
		TEST(inputrc_is_honoured),
		TEST(text_beyond_ascii),
		TEST(lines_wrap_and_scroll),
		cmocka_unit_test(nothing_reached_the_terminal),
	};

	return cmocka_run_group_tests_name("prompt", quiet, group_setup, group_teardown);
}

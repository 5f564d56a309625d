/* The file of --commands: lines in pieces, pipes without a writer, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tui/app/script.h"

static bool starved;

/* In place of the library's, for all that is linked here. */
char *strndup(const char *text, size_t most)
{
	const size_t n = strnlen(text, most);
	char *copy = starved ? NULL : calloc(1, n + 1);

	return copy ? memcpy(copy, text, n) : NULL;
}

static char folder[] = "/tmp/cutaway-script-XXXXXX", path[64];

static int setup(void **state)
{
	(void)state;
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof path, "%s/s", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

static struct script *opened(void)
{
	struct script *s = NULL;
	struct err e = { 0 };

	if (script_open(&s, path, &e))
		fail_msg("%s", e.text);
	return s;
}

static void gives(struct script *s, int expected, const char *text)
{
	struct err e = { 0 };
	char *line = NULL;

	assert_int_equal(script_line(s, &line, &e), expected);
	assert_int_equal(e.code, 0);
	if (expected > 0)
		assert_string_equal(line, text);
	free(line);
}

static void a_file_has_lines(void **state)
{
	FILE *f = fopen(path, "w");
	struct script *s;
	char *line;

	(void)state;
	assert_non_null(f);
	fputs("one\r\n\ntwo words\n", f);
	for (int i = 0; i < 10000; i++)
		fputc('x', f);
	fputs("\nno newline", f);
	fclose(f);
	s = opened();
	gives(s, 1, "one");
	gives(s, 1, "");
	gives(s, 1, "two words");
	assert_int_equal(script_line(s, &line, NULL), 1);
	assert_int_equal(strlen(line), 10000);
	free(line);
	gives(s, 1, "no newline");
	gives(s, -1, NULL);
	gives(s, -1, NULL);
	script_close(s);
}

static void a_pipe_may_take_its_time(void **state)
{
	struct script *s;
	int fd;

	(void)state;
	assert_int_equal(mkfifo(path, 0600), 0);
	s = opened();
	gives(s, 0, NULL); /* nobody writes yet: it has not ended */
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	gives(s, 0, NULL);
	assert_int_equal(write(fd, "/te", 3), 3);
	gives(s, 0, NULL);
	assert_int_equal(write(fd, "mp 1\nrest", 9), 9);
	gives(s, 1, "/temp 1");
	gives(s, 0, NULL);
	close(fd);
	gives(s, 1, "rest");
	gives(s, -1, NULL);
	script_close(s);
}

static void refused(const char *what, const char *why)
{
	struct script *s = NULL;
	struct err e = { 0 };
	char *line;

	if (!script_open(&s, what, &e))
		assert_int_equal(script_line(s, &line, &e), -1);
	assert_non_null(strstr(e.text, what));
	assert_non_null(strstr(e.text, why));
	script_close(s);
}

static void what_has_no_lines_is_an_error(void **state)
{
	(void)state;
	refused("/nowhere/at/all", "No such file");
	refused("/", "directory");
	refused("/dev/zero", "longer than");
}

/* A line is not dropped in silence: what follows it may hang on it. */
static void a_line_without_memory_is_an_error(void **state)
{
	FILE *f = fopen(path, "w");
	struct script *s = NULL;
	struct err e = { 0 };
	char *line;

	(void)state;
	fputs("one\ntwo\n", f);
	fclose(f);
	s = opened();
	starved = true;
	assert_int_equal(script_line(s, &line, &e), -1);
	starved = false;
	assert_non_null(strstr(e.text, "no memory"));
	gives(s, 1, "one");
	gives(s, 1, "two");
	gives(s, -1, NULL);
	script_close(s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_file_has_lines),
		TEST(a_pipe_may_take_its_time),
		TEST(what_has_no_lines_is_an_error),
		TEST(a_line_without_memory_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Files that a text names are sent before it, and found again in what was sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/with_files.h"

static void write_file(const char *name, const char *text, size_t n)
{
	FILE *f = fopen(name, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static int in_a_folder(void **state)
{
	char name[] = "/tmp/cutaway-files-XXXXXX";

	(void)state;
	return mkdtemp(name) && !chdir(name) ? 0 : -1;
}

static void sent_before_the_text(void **state)
{
	struct err e = { 0 };
	struct with_file f;
	char unknown[80], *text;
	size_t n;

	(void)state;
	write_file("a.txt", "one\ntwo", 7);
	write_file("b c.md", "```\ncode\n```\n", 13);
	text = with_files("@a.txt, @\"b c.md\" and @a.txt: me@a.txt?", unknown, sizeof unknown, &e);
	assert_non_null(text);
	assert_string_equal(text,
		"`a.txt`:\n```\none\ntwo\n```\n\n`b c.md`:\n````\n```\ncode\n```\n````\n\n"
		"@a.txt, @\"b c.md\" and @a.txt: me@a.txt?");
	assert_string_equal(unknown, "");
	n = with_files_next(text, &f);
	assert_memory_equal(f.name, "a.txt", f.name_size);
	assert_int_equal(f.lines, 2);
	assert_int_equal(f.size, 8);
	n += with_files_next(text + n, &f);
	assert_memory_equal(f.name, "b c.md", f.name_size);
	assert_int_equal(f.lines, 3);
	assert_int_equal(with_files_next(text + n, &f), 0);
	assert_string_equal(with_files_typed(text), "@a.txt, @\"b c.md\" and @a.txt: me@a.txt?");
	free(text);
}

static void words_that_name_no_file(void **state)
{
	static const char typed[] = "mail me@x.org, @nobody or @nowhere.txt; @ @\"open";
	struct err e = { 0 };
	char unknown[80], *text = with_files(typed, unknown, sizeof unknown, &e);

	(void)state;
	assert_string_equal(text, typed);
	assert_string_equal(unknown, "nobody");
	free(text);
}

static void what_cannot_be_sent(void **state)
{
	static const char *const bad[] = { "@empty", "@bytes", "@nul", "@long" };
	char *longer = malloc(WITH_FILES_BYTES + 1);

	(void)state;
	assert_non_null(longer);
	memset(longer, 'x', WITH_FILES_BYTES + 1);
	write_file("empty", "", 0);
	write_file("bytes", "\xff\xfe", 2);
	write_file("nul", "a\0b", 3);
	write_file("long", longer, WITH_FILES_BYTES + 1);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct err e = { 0 };
		char unknown[80];

		assert_null(with_files(bad[i], unknown, sizeof unknown, &e));
		assert_int_equal(e.code, ERR_INPUT);
		assert_non_null(strstr(e.text, bad[i] + 1));
	}
	free(longer);
}

/* A FIFO would keep its reader waiting: it is no file. */
static void a_fifo_is_not_read(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_null(with_files_read("fifo", "/file", NULL, &e));
	assert_string_equal(e.text, "/file fifo: that is no file");
}

/* Of somebody else's text: whatever looks like a file and is none is what was typed. */
static void text_that_only_looks_so(void **state)
{
	static const char *const typed[] = { "", "`", "`a", "`a`:", "`a`:\n", "`a`:\n``\nx\n``\n\n",
		"`a`:\n```\nx", "`a`:\n```\nx\n```", "`a`:\n```\nx\n```\n", "`a`:\n```\nx\n````\n\n",
		"``:\n```\nx\n```\n\n" };
	struct with_file f;

	(void)state;
	for (size_t i = 0; i < sizeof typed / sizeof *typed; i++) {
		char *copy = strdup(typed[i]); /* of its exact size, for the sanitizer */

		assert_int_equal(with_files_next(copy, &f), 0);
		assert_ptr_equal(with_files_typed(copy), copy);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(sent_before_the_text),
		cmocka_unit_test(words_that_name_no_file), cmocka_unit_test(what_cannot_be_sent),
		cmocka_unit_test(a_fifo_is_not_read), cmocka_unit_test(text_that_only_looks_so) };

	return cmocka_run_group_tests_name("with_files", tests, in_a_folder, NULL);
}

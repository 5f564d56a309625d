/* A table told as text, JSON and CSV, from the same values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/listing.h"

static const struct listing_column columns[] = { { "name", "name", -6 }, { "path", NULL, 0 },
	{ "bytes", "size", 8 }, { "share", "share", 5 }, { "ok", "ok", 3 }, { NULL, "", 0 }, { 0 } };

static void tell(struct listing *l)
{
	listing_text(l, "plain");
	listing_text(l, "/a,b");
	listing_as(l, "%.1f MB", 1.5);
	listing_int(l, 1500000);
	listing_real(l, 0.25, 4);
	listing_bool(l, true);
	listing_text(l, "");
	listing_text(l, "=cmd|' \"x\"\x1b[2J\xff longer than its column");
	listing_text(l, NULL);
	listing_int(l, -1);
	listing_real(l, (double)NAN, 4);
	listing_bool(l, false);
	listing_text(l, "why\nnot");
}

static void as_text(void **state)
{
	struct err e = { 0 };
	struct listing l;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	assert_int_equal(listing_open(&l, columns, f, NULL, NULL, &e), 0);
	tell(&l);
	fclose(f);
	assert_ptr_equal(strstr(text, "name       size share  ok\nplain    1.5 MB  0.25 yes\n"), text);
	assert_null(strpbrk(text, "\x1b\xff"));
	assert_non_null(strstr(text, "       -1     -  no why"));
	assert_int_equal(strchr(strstr(text, "=cmd"), '\n')[1], '\0'); /* a row is a line */
	free(text);
}

static void as_json(void **state)
{
	struct err e = { 0 };
	struct json j = { 0 };
	struct listing l;
	char *text;
	size_t size;

	(void)state;
	json_array(&j, NULL);
	assert_int_equal(listing_open(&l, columns, stdout, &j, NULL, &e), 0);
	tell(&l);
	text = json_take(&j, &size);
	assert_non_null(text);
	assert_int_equal(strncmp(text,
						 "[{\"name\":\"plain\",\"path\":\"/a,b\",\"bytes\":1500000,\"share\":0.25,"
						 "\"ok\":true},{\"name\":\"=cmd",
						 81),
		0);
	assert_non_null(strstr(text, "\"path\":null,\"bytes\":-1,\"share\":null,\"ok\":false}]"));
	free(text);
}

static void as_csv(void **state)
{
	char path[] = "/tmp/listing-XXXXXX", got[400] = "";
	const int fd = mkstemp(path);
	struct err e = { 0 };
	struct listing l;

	(void)state;
	assert_int_equal(listing_open(&l, columns, NULL, NULL, path, &e), 0);
	tell(&l);
	assert_int_equal(listing_close(&l, 0, &e), 0);
	close(fd);
	FILE *f = fopen(path, "r");
	assert_true(f && fread(got, 1, sizeof got - 1, f) > 0);
	fclose(f);
	unlink(path);
	assert_string_equal(got, "name,path,bytes,share,ok\r\n"
							 "\"plain\",\"/a,b\",1500000,0.25,1\r\n"
							 "\"'=cmd|' \"\"x\"\"\x1b[2J<FF> longer than its column\",,-1,,0\r\n");
	assert_int_equal(listing_open(&l, columns, NULL, NULL, "/nowhere/x.csv", &e), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(as_text), cmocka_unit_test(as_json),
		cmocka_unit_test(as_csv) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

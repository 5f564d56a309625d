/* The writer of JSON (base/json.h): what it writes, nested and in order, and that nothing hides in
 * its strings. And of what reads that of others (base/foreign_json.h) what tests of programs do not
 * try. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <unistd.h>

#include "base/foreign_json.h"
#include "base/json.h"

/* What json_print() writes to standard output, without the newline. */
static void expect(struct json *j, const char *text)
{
	char got[512], name[] = "/tmp/cutaway-test-json-XXXXXX";
	int file = mkstemp(name), out;
	struct err e = { 0 };
	ssize_t n;

	fflush(stdout);
	out = dup(STDOUT_FILENO);
	dup2(file, STDOUT_FILENO);
	assert_int_equal(json_print(j, &e), 0);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	close(out);
	n = pread(file, got, sizeof got - 1, 0);
	close(file);
	unlink(name);
	assert_true(n > 0 && got[n - 1] == '\n');
	got[n - 1] = '\0';
	assert_string_equal(got, text);
	assert_true(!j->text && !j->depth);
}

static void nests_and_separates(void **state)
{
	struct json j = { 0 };

	(void)state;
	json_object(&j, NULL);
	json_array(&j, "none");
	json_end(&j);
	json_ids(&j, "ids", (const int32_t[]){ 1, -2, 3 }, 3);
	json_object(&j, "in");
	json_bool(&j, "yes", true);
	json_int(&j, "n", INT64_MIN);
	json_end(&j);
	json_array(&j, "last"); /* ended by json_print */
	json_object(&j, NULL);
	json_end(&j);
	json_object(&j, NULL);
	expect(&j, "{\"none\":[],\"ids\":[1,-2,3],\"in\":{\"yes\":true,\"n\":-9223372036854775808},"
			   "\"last\":[{},{}]}");
}

static void numbers_and_texts(void **state)
{
	struct json j = { 0 };

	(void)state;
	json_array(&j, NULL);
	json_real(&j, NULL, 0.1, 6);
	json_real(&j, NULL, (double)NAN, 6);
	json_real(&j, NULL, -(double)INFINITY, 6);
	json_hash(&j, NULL, 0xabc);
	json_text(&j, NULL, "a\"b\\\n\x1b");
	json_bytes(&j, NULL, "\xe2\x80\xae\xff\0z", 6);
	expect(&j,
		"[0.1,null,null,\"0000000000000abc\",\"a\\\"b\\\\\\n\\u001b\",\"\\u202e\\ufffd\\u0000z\"]");
}

static void puts_several_at_once(void **state)
{
	static const char *volatile none; /* as far as gcc can tell, no NULL */
	struct json j = { 0 };

	(void)state;
	json_put(&j, "{'a': %s, 'no': %s, 'b': [%d, %ld, %zu], 'c': {}", "x\"y", none, -1, INT64_MAX,
		(size_t)2);
	json_int(&j, "between", 1);
	json_put(
		&j, "'word': 'o.k.', 't': true, 'v1': null, 'r': %.3g, 'h': %lx", 0.12345, (uint64_t)0xabc);
	json_put(&j, "'yes': %hhd, 'open': [{", (bool)true);
	json_text(&j, "in", "");
	expect(&j, "{\"a\":\"x\\\"y\",\"no\":null,\"b\":[-1,9223372036854775807,2],\"c\":{},"
			   "\"between\":1,\"word\":\"o.k.\",\"t\":true,\"v1\":null,\"r\":0.123,"
			   "\"h\":\"0000000000000abc\",\"yes\":true,\"open\":[{\"in\":\"\"}]}");
}

static void is_dropped(void **state)
{
	struct json j = { 0 };

	(void)state;
	json_drop(&j);
	json_object(&j, NULL);
	json_drop(&j);
	assert_true(!j.text && !j.follows);
}

/* cJSON takes an escape without four hexadecimal digits for a NUL, which would cut the text. */
static void foreign_escapes_have_four_digits(void **state)
{
	static const char *const bare[] = { "\\uZZZZ", "\\u0x00", "\\u12G4", "\\u00", "\\\\\\u-001" };
	struct err e = { 0 };
	char text[32] = "{\"a\":\"x\\u0000y\"}";
	cJSON *o = foreign_json_parse(text, strlen(text));

	(void)state;
	assert_true(o && foreign_is(foreign_member(o, "a"), "x\xef\xbf\xbdy"));
	cJSON_Delete(o);
	for (size_t i = 0; i < sizeof bare / sizeof *bare; i++) {
		snprintf(text, sizeof text, "{\"a\":\"x%sy\"}", bare[i]);
		e.code = ERR_NONE;
		assert_null(foreign_json_read(text, strlen(text), &e));
		assert_non_null(strstr(e.text, "no JSON"));
		assert_null(foreign_json_parse(text, strlen(text)));
	}
	strcpy(text, "{\"a\":\"\\\\uZZZZ\"}");
	e.code = ERR_NONE;
	o = foreign_json_read(text, strlen(text), &e);
	assert_true(o && foreign_is(foreign_member(o, "a"), "\\uZZZZ"));
	cJSON_Delete(o);
}

/* What cJSON takes and RFC 8259 does not. */
static void foreign_text_is_strict(void **state)
{
	static const struct {
		const char *text, *flaw;
	} tests[] = {
		{ "{\"a\":\"x\ny\"}", "a control character at byte 7" },
		{ "{\"a\":\"\\\"\x01\"}", "a control character at byte 8" },
		{ "\x01{}", "a control character at byte 0" },
		{ "[01]", "no number of JSON at byte 1" },
		{ "[1, -]", "no number of JSON at byte 4" },
		{ "[1.]", "no number of JSON at byte 1" },
		{ "[2.e0]", "no number of JSON at byte 1" },
		{ "[2e]", "no number of JSON at byte 1" },
		{ "[1e+-2]", "no number of JSON at byte 1" },
		{ "[-00.5]", "no number of JSON at byte 1" },
		{ "1-2", "no number of JSON at byte 0" },
		{ " [0, -0, 10.50e-3, 1E+2,\t-0.0 ,\r\n\"01\x7f 1.\"] ", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
		struct err e = { 0 };
		cJSON *o = foreign_json_read(tests[i].text, strlen(tests[i].text), &e);

		if (!o != (tests[i].flaw != NULL) || (!o && !strstr(e.text, tests[i].flaw)))
			fail_msg("%s: %s", tests[i].text, e.text);
		cJSON_Delete(o);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(nests_and_separates),
		cmocka_unit_test(numbers_and_texts),
		cmocka_unit_test(puts_several_at_once),
		cmocka_unit_test(is_dropped),
		cmocka_unit_test(foreign_escapes_have_four_digits),
		cmocka_unit_test(foreign_text_is_strict),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

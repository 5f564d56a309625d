/* Chat templates in Jinja: each construct, filter, test and method, as jinja2 rendered it
 * (tests/data/jinja.jsonl; tests/program/test_jinja.py holds that file against jinja2), and hostile
 * templates, which end with an error and never harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "engine/text/jinja/jinja.h"

static cJSON *next_line(FILE *f)
{
	char *line = NULL;
	size_t cap = 0;
	cJSON *out = getline(&line, &cap, f) > 0 ? cJSON_Parse(line) : NULL;

	free(line);
	return out;
}

static const char *member(const cJSON *of, const char *name)
{
	return cJSON_GetStringValue(cJSON_GetObjectItem(of, name));
}

/* The text, malloc'd, or NULL with the error in *e. */
static char *rendered(
	const char *text, size_t size, const cJSON *vars, const struct jinja_options *o, struct err *e)
{
	struct jinja *j;
	char *out = NULL;
	const cJSON *v;

	if (jinja_open(&j, text, size, o, e))
		return NULL;
	cJSON_ArrayForEach(v, vars)
	{
		char *value = cJSON_PrintUnformatted(v);

		assert_int_equal(jinja_set(j, v->string, value, strlen(value), e), 0);
		free(value);
	}
	if (jinja_render(j, &out, &size, e))
		assert_null(out);
	else
		assert_int_equal(strlen(out), size);
	jinja_close(j);
	return out;
}

static void check_line(const cJSON *line, const cJSON *vars)
{
	const char *template = member(line, "template"), *text = member(line, "text"),
			   *refused = member(line, "refused"), *why = member(line, "error");
	struct err e = { 0 };
	char *out = rendered(template, strlen(template), vars, NULL, &e), want[600];

	snprintf(want, sizeof want, "%s%s", refused ? "the template refuses: " : "",
		refused ? refused
		: why   ? why
				: "");
	if (text && (!out || strcmp(out, text)))
		print_message("%s\n%s\n", template, out ? out : e.text);
	if (text) {
		assert_non_null(out);
		assert_string_equal(out, text);
	} else {
		assert_null(out);
		assert_string_equal(e.text, want);
		assert_int_equal(e.code, ERR_INPUT);
	}
	free(out);
}

static void test_as_jinja2(void **state)
{
	FILE *f = fopen("tests/data/jinja.jsonl", "r");
	cJSON *first, *line;
	int n = 0;

	(void)state;
	assert_non_null(f);
	first = next_line(f);
	for (; (line = next_line(f)); n++) {
		check_line(line, cJSON_GetObjectItem(first, "vars"));
		cJSON_Delete(line);
	}
	cJSON_Delete(first);
	fclose(f);
	assert_true(n > 100);
}

/* Rendered twice, the second time is like the first, also where the first one failed. */
static void test_again(void **state)
{
	static const char text[] =
		"{% set ns = namespace(n=0) %}{% for i in range(n) %}{% set ns.n = ns.n + i %}"
		"{% endfor %}{{ ns.n }}{{ 1 // n }}";
	struct jinja *j;
	struct err e = { 0 };
	char *out;
	size_t size;

	(void)state;
	assert_int_equal(jinja_open(&j, text, sizeof text - 1, NULL, &e), 0);
	for (int i = 0; i < 4; i++) {
		const char *n = i % 2 ? "0" : "3";

		e = (struct err){ 0 };
		assert_int_equal(jinja_set(j, "n", n, 1, &e), 0);
		assert_int_equal(jinja_render(j, &out, &size, &e), i % 2 ? -1 : 0);
		if (i % 2) {
			assert_string_equal(e.text, "line 1 of the template: division by zero");
		} else {
			assert_string_equal(out, "30");
			free(out);
		}
	}
	jinja_close(j);
}

static void test_date(void **state)
{
	static const char text[] =
		"{{ strftime_now('%d %b %Y') if strftime_now is defined else 'no date' }}";
	struct jinja_options o = { .now = 1721952000 };
	struct err e = { 0 };
	char *out = rendered(text, sizeof text - 1, NULL, &o, &e);

	(void)state;
	assert_string_equal(out, "26 Jul 2024");
	free(out);
	out = rendered(text, sizeof text - 1, NULL, NULL, &e);
	assert_string_equal(out, "no date");
	free(out);
}

/* A loop that goes on to its end while its condition is asked about one of its values. */
#define ASKING(of)                                                                                 \
	{                                                                                              \
		"{% set ns = namespace(c=0) %}{% macro m() %}{% if ns.c == 1 %}{% set ns.c = 2 %}"         \
		"{{ ns.l." of " }}{% endif %}{% endmacro %}{% for x in [1, 2] if (m() or true) %}"         \
		"{% set ns.l = loop %}{% if ns.c == 0 %}{% set ns.c = 1 %}{% endif %}{{ x }}{% endfor %}", \
			"asks for its own items"                                                               \
	}

static const struct {
	const char *text, *why;
} hostile[] = {
	{ "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
		"more than 33554432 bytes" },
	{ "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested deeper" },
	{ "{% macro f(x) %}{{ g(x) }}{% endmacro %}{% macro g(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
		"nested deeper" },
	{ "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% "
	  "endfor %}",
		"more than 33554432 bytes" },
	{ "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s * 9 %}{% endfor "
	  "%}",
		"longer than" },
	{ "{{ '' * 999999999999 }}{{ 'x' * 999999999999 }}", "longer than" },
	{ "{{ range(999999999) }}", "more than 100000 values" },
	{ "{{ range(0, 9223372036854775807, 4611686018427387904)[0] }}{{ 9223372036854775807 + 1 }}",
		"64 bits" },
	{ "{{ -9223372036854775807 - 1 }}{{ (-9223372036854775807 - 1) // -1 }}", "64 bits" },
	{ "{{ (-9223372036854775807 - 1) % -1 }}{{ 4611686018427387904 * 2 }}", "64 bits" },
	{ "{{ 99999999999999999999 }}", "64 bits" },
	{ "{{ '{:>99999}'.format(1) }}", "only {} is known" },
	{ "{{ '{}{}'.format(1) }}", "more places than values" },
	{ "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", "nested deeper" },
	{ "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ [ns] == [ns] }}{{ ns.a | tojson }}",
		"cannot be written as JSON" },
	{ "{% set ns = namespace(l=[1]) %}{% for i in range(200) %}{% set ns.l = [ns.l, ns.l] %}{% "
	  "endfor %}{{ ns.l }}",
		"longer than" },
	{ "{% set ns = namespace(l=[1]) %}{% for i in range(200) %}{% set ns.l = [ns.l, ns.l] %}{% "
	  "endfor %}{{ ns.l == ns.l }}",
		"does not end within" },
	{ "{% set ns = namespace(l=[1]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor "
	  "%}{{ ns.l | tojson }}",
		"nested deeper" },
	{ "{{ 'a' | indent(99999999999) }}", "longer than" },
	{ "{{ 'x' | tojson(indent=99999999) }}", "larger than 16" },
	{ "{{ range(3) }}", "a range has no text" },
	{ "{{ 'ab' | map('upper') ~ '' }}", "a generator has no text" },
	{ "{{ '7' | int(0, 8) }}", "only 10 and 16 are known" },
	{ "{% set ns = namespace(l=[]) %}{% for x in [1, 2, 3] if ns.l | length < 9 %}{% set ns.l = "
	  "loop %}{% endfor %}",
		"asks for its own items" },
	ASKING("length"),
	ASKING("last"),
	ASKING("nextitem"),
	{ "{{ lipsum() }}", "'lipsum' is undefined" },
	{ "{{ ''.__class__ }}{{ ''.__class__.__mro__ }}", "'__class__' is undefined" },
	{ "{% import 'x' as y %}", "'import' is not known" },
	{ "{{ 1 | wordcount }}", "the filter 'wordcount' is not known" },
	{ "{{ [1] | map('wordcount') | list }}", "the filter 'wordcount' is not known" },
	{ "{{ 1 is odd }}", "the test 'odd' is not known" },
	{ "{{ [1] | select('odd') | list }}", "the test 'odd' is not known" },
	{ "{{ 'a'.swapcase() }}", "'swapcase' is undefined, or not known" },
	{ "{{ dict(a=1) }}", "'dict' is undefined, or not known" },
	{ "{% for x in [1] %}{{ loop.cycle(1, 2) }}{% endfor %}", "'cycle' is undefined" },
	{ "{% call f() %}{% endcall %}", "the statement 'call' is not known" },
	{ "{% with a = 1 %}{% endwith %}", "the statement 'with' is not known" },
	{ "{% set ns = namespace() %}{% set ns.__x = 1 %}", "underscore" },
	{ "{% set s = ('a' * 1000) * 1000 %}{{ s.strip(s ~ 'b') }}", "does not end within" },
	{ "{% set s = ('b' * 1000) * 1000 ~ 'a' %}{% for i in range(999) %}"
	  "{% set x = ('a' * 99).strip(chars=s) %}{% endfor %}",
		"does not end within" },
	{ "{% set s = ('a' * 1000) * 1000 %}{% for i in range(110) %}{% set x = s.strip('abc') %}"
	  "{% endfor %}",
		"does not end within" },
	{ "{% set s = ('a' * 1000) * 1000 %}{% for i in range(110) %}{% set x = s[-1] %}{% endfor %}",
		"does not end within" },
	{ "{% set s = ('a' * 1000) * 1000 %}{% set b = s ~ 'b' %}"
	  "{% for i in range(999) %}{% set x = b.endswith((s, s, s, s, s)) %}{% endfor %}",
		"does not end within" },
	{ "{% set s = ('a' * 1000) * 1000 %}{% for i in range(999) %}{% set x = 1[s] %}{% endfor %}",
		"does not end within" },
	{ "{% set s = ('a' * 1000) * 1000 %}{{ range(999) | map(attribute=s) | list }}",
		"does not end within" },
};

static void test_hostile(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
		struct err e = { 0 };
		char *out = rendered(hostile[i].text, strlen(hostile[i].text), NULL, NULL, &e);

		if (out || !strstr(e.text, hostile[i].why))
			fail_msg("%s: %s", hostile[i].text, out ? out : e.text);
		assert_int_equal(e.code, ERR_INPUT);
	}
}

/* A number in an attribute ends where the text does, though others follow it in memory, or none. */
static void test_attribute_at_the_end(void **state)
{
	static const char text[] = "{% set s = (('1' * 65534) ~ 'x1') | upper %}"
							   "{{ [[1, 2]] | map(attribute=s.split('X') | last) | join }}";
	struct err e = { 0 };
	char *out = rendered(text, sizeof text - 1, NULL, NULL, &e);

	(void)state;
	assert_string_equal(out, "2");
	free(out);
}

/* `n` times a text, with something before, between and after. */
static void check_repeated(
	const char *before, const char *each, size_t n, const char *after, const char *why)
{
	size_t one = strlen(each), size = 0;
	char *text = malloc(strlen(before) + n * one + strlen(after) + 1), *out;
	struct err e = { 0 };

	size = strlen(strcpy(text, before));
	for (size_t i = 0; i < n; i++, size += one)
		memcpy(text + size, each, one);
	strcpy(text + size, after);
	size += strlen(after);
	out = rendered(text, size, NULL, NULL, &e);
	if (!why != !!out || (why && !strstr(e.text, why)))
		fail_msg("%s%s…: %s", before, each, out ? "no error" : e.text);
	free(out);
	free(text);
}

static void test_deep_texts(void **state)
{
	(void)state;
	check_repeated("{{ ", "(", 100000, "", "nested deeper");
	check_repeated("{{ ", "[", 100000, "", "nested deeper");
	check_repeated("{{ ", "{1:", 100000, "", "nested deeper");
	check_repeated("{{ ", "-", 100000, "1 }}", "nested deeper");
	check_repeated("{{ ", "not ", 100000, "1 }}", "nested deeper");
	check_repeated("{{ 1", " + 1", 100000, " }}", "nested deeper");
	check_repeated("{{ 1", ".a", 100000, " }}", "nested deeper");
	check_repeated("{{ 1", " | int", 100000, " }}", "nested deeper");
	check_repeated("{{ 1", " if 1 else 1", 100000, " }}", "nested deeper");
	check_repeated("", "{% if 1 %}", 100000, "", "nested deeper");
	check_repeated("", "{% for a in b %}", 100000, "", "nested deeper");
	check_repeated("{% for ", "(", 100000, "", "nested deeper");
	check_repeated("{{ [", "1,", 500000, "] }}", "more than 33554432 bytes");
	check_repeated("", "{{", 500000, "", "nested deeper");
	check_repeated("", "{#", 500000, "", "does not end");
	check_repeated("{% if 0 %}", "{% elif 0 %}", 10000, "{% endif %}", NULL);
}

/* Text that is added to a million times is not copied each time: the limit of steps, which counts
 * copies, would not let it. */
static void test_appending(void **state)
{
	static const char text[] =
		"{% set ns = namespace(s='') %}{% for i in range(90000) %}{% set ns.s = ns.s + 'abcdefgh' "
		"%}{% endfor %}{{ ns.s | length }}";
	struct jinja_options o = { .steps = 2000000 };
	struct err e = { 0 };
	char *out = rendered(text, sizeof text - 1, NULL, &o, &e);

	(void)state;
	assert_string_equal(e.text, "");
	assert_string_equal(out, "720000");
	free(out);
}

/* Each limit alone, and a template cut off at each byte: text or an error, within bounds. */
static void test_limits_and_cuts(void **state)
{
	static const char text[] =
		"{%- for m in [{'a': [1, 'x']}] if m is mapping -%}{{ m['a'][1:] | join(\"\\n\") ~ 'y' }}"
		"{# c #}{% set x %}z{% endset %}{%- raw %}{{{% endraw -%}{% endfor %}";
	struct jinja_options small[] = { { .steps = 20 }, { .bytes = 1000 }, { .output = 1 },
		{ .depth = 2 } };
	struct err e = { 0 };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		e = (struct err){ 0 };
		assert_null(rendered(text, sizeof text - 1, NULL, &small[i], &e));
		assert_int_equal(e.code, ERR_INPUT);
	}
	for (size_t n = 0; n < sizeof text; n++) {
		char *cut = malloc(n + 1);

		memcpy(cut, text, n);
		e = (struct err){ 0 };
		free(rendered(cut, n, NULL, NULL, &e));
		free(cut);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_jinja2),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_date),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_attribute_at_the_end),
		cmocka_unit_test(test_deep_texts),
		cmocka_unit_test(test_appending),
		cmocka_unit_test(test_limits_and_cuts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

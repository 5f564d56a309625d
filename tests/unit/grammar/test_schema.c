/* JSON schemas as grammars: what each keyword allows and does not, byte by byte; what is refused,
 * and in which words; hostile schemas, which end in bounded time. tests/program/test_schema.py
 * holds the reader against the suite of json-schema.org and the jsonschema package. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/grammar/automaton.h"
#include "engine/grammar/readers.h"

/* 0, or -1 with the error. */
static int opened(struct automaton *a, const char *schema, size_t size, struct err *e)
{
	struct grammar g = { 0 };
	struct program p = { 0 };
	int rc;

	schema_read(&g, schema, size);
	rc = grammar_compile(&g, &p, e) || automaton_open(a, &p, e) ? -1 : 0;
	grammar_free(&g);
	return rc;
}

static int32_t after(struct automaton *a, const char *text)
{
	int32_t at = a->start;

	for (; *text && at >= 0; text++)
		at = automaton_next(a, at, (unsigned char)*text);
	return at;
}

static bool takes(struct automaton *a, const char *text)
{
	const int32_t at = after(a, text);

	return at >= 0 && a->state[at].ends;
}

/* yes, no: texts with a line each. */
struct line {
	const char *schema, *yes, *no;
};

static void check_texts(struct automaton *a, const char *schema, const char *texts, bool yes)
{
	char *all = strdup(texts), *rest = all, *text;

	while ((text = strsep(&rest, "\n")) && *texts) {
		if (takes(a, text) != yes)
			print_message("%s: %s\n", schema, text);
		assert_int_equal(takes(a, text), yes);
	}
	free(all);
}

static void check_lines(const struct line *line, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct automaton a;
		struct err e = { 0 };

		if (opened(&a, line[i].schema, strlen(line[i].schema), &e))
			print_message("%s: %s\n", line[i].schema, e.text);
		assert_int_equal(e.code, 0);
		check_texts(&a, line[i].schema, line[i].yes, true);
		check_texts(&a, line[i].schema, line[i].no, false);
		assert_null(a.failed);
		automaton_close(&a);
	}
}

#define CHECK(lines) check_lines(lines, sizeof lines / sizeof *lines)

static void test_any(void **state)
{
	static const struct line lines[] = {
		{ "{}",
			"null\ntrue\n-1.5e+10\n\"a\\u00e9\\n\"\n[]\n[ 1, [2, 3]]\n{\"a\":{\"b\": []}, \"c\":0}",
			"\nnul\n01\n-\n1.\n[1,]\n{\"a\"}\n{\"a\":1,}\n\"\\x\"\n\"\\ud800\"\n"
			"\"\\udc00x\"\n\"\x01\"\n\"\xff\"\n"
			"1 2\n1e100\n1234567890123456\n{a:1}\n 1" },
		{ "true", "0\n\"\\ud83d\\ude00\"\n\"\\uD7ff\"", "\"\\ud83d\\ud83d\"" },
		{ "{\"title\":\"x\",\"description\":\"not\",\"default\":3,\"made up\":{}}", "1\n[]", "" },
		{ "", "{\"a\":1}\n3", "x" },
	};
	struct automaton a;
	struct grammar g = { 0 };
	struct program p = { 0 };
	struct err e = { 0 };

	(void)state;
	CHECK(lines);
	json_read(&g, "", 0);
	assert_int_equal(grammar_compile(&g, &p, &e), 0);
	assert_int_equal(automaton_open(&a, &p, &e), 0);
	assert_true(takes(&a, "{}") && takes(&a, "{\"a\": [1, {}]}"));
	assert_true(takes(&a, "{\n  \"a\": [\n\t\t1,\n    {\n}\n  ]\n}"));
	assert_false(takes(&a, "{  }") || takes(&a, "{\n                     }"));
	assert_false(takes(&a, "[]") || takes(&a, "1"));
	automaton_close(&a);
	grammar_free(&g);
}

static void test_types_and_values(void **state)
{
	static const struct line lines[] = {
		{ "{\"type\":\"integer\"}", "0\n-7\n123456789012345",
			"-0\n1.0\n1e2\n1234567890123456\n\"1\"" },
		{ "{\"type\":[\"null\",\"boolean\"]}", "null\ntrue\nfalse", "0\n\"null\"" },
		{ "{\"enum\":[1,\"a\\\"b\",null,[1,{\"x\":2}],1.5]}",
			"1\n\"a\\\"b\"\nnull\n[1,{\"x\":2}]\n1.5", "2\n\"a\n[1]\n1.50\n\"a\"" },
		{ "{\"const\":{\"b\":1,\"a\":\"\\u0001\"}}", "{\"b\":1,\"a\":\"\\u0001\"}", "{}" },
		{ "{\"type\":\"string\",\"enum\":[1,\"a\",\"b\"],\"const\":\"b\"}", "\"b\"", "\"a\"\n1" },
		{ "{\"enum\":[1,5,\"abc\",\"x\",[1]],\"minimum\":3,\"maxLength\":2}", "5\n\"x\"\n[1]",
			"1\n\"abc\"" },
		{ "{\"anyOf\":[{\"type\":\"string\"},{\"const\":1}]}", "\"x\"\n1", "2\nnull" },
		{ "{\"type\":\"integer\",\"anyOf\":[{\"minimum\":5},{\"maximum\":1}],\"not\":false}",
			"5\n1\n-3", "2\n4\n5.5" },
		{ "{\"oneOf\":[{\"const\":\"a\",\"title\":\"A\"},{\"const\":\"b\"},{\"type\":\"null\"}]}",
			"\"a\"\n\"b\"\nnull", "\"c\"" },
		{ "{\"allOf\":[{\"minimum\":2},{\"maximum\":3,\"type\":\"integer\"}],\"maximum\":9}",
			"2\n3", "1\n4\n\"x\"" },
	};

	(void)state;
	CHECK(lines);
}

static void test_numbers(void **state)
{
	static const struct line lines[] = {
		{ "{\"type\":\"integer\",\"minimum\":-3,\"exclusiveMaximum\":120}",
			"-3\n-1\n0\n9\n10\n99\n119", "-4\n120\n1000\n-0\n007" },
		{ "{\"type\":\"integer\",\"minimum\":1.5,\"maximum\":3.2}", "2\n3", "1\n4" },
		{ "{\"minimum\":0.25,\"maximum\":1.5}", "0.25\n0.3\n1\n1.5\n1.500\n\"x\"\nnull\n1.4999",
			"0.2\n0\n1.51\n1.5001\n2\n-1\n0.24999\n1e0" },
		{ "{\"type\":\"number\",\"exclusiveMinimum\":0}",
			"0.1\n0.00000000000001\n1\n999999999999999\n5.5", "0\n0.0\n-1\n0.000" },
		{ "{\"type\":\"number\",\"exclusiveMaximum\":-0.5}", "-0.6\n-0.51\n-1\n-100.25",
			"-0.5\n-0.50\n0\n-0.4" },
		{ "{\"type\":\"number\",\"minimum\":-1.5,\"maximum\":-1.25}", "-1.5\n-1.3\n-1.25",
			"-1.6\n-1.2\n-1\n-2" },
		{ "{\"type\":\"integer\",\"multipleOf\":7}", "0\n7\n-14\n700000000000007",
			"1\n-8\n07\n70000000000001" },
		{ "{\"type\":\"integer\",\"multipleOf\":5,\"minimum\":1,\"maximum\":12}", "5\n10",
			"0\n15\n6" },
		{ "{\"allOf\":[{\"multipleOf\":4},{\"multipleOf\":6}],\"type\":\"number\",\"minimum\":0}",
			"0\n12\n120", "4\n6\n-12" },
	};

	(void)state;
	CHECK(lines);
}

static void test_strings(void **state)
{
	static const struct line lines[] = {
		{ "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
			"\"ab\"\n\"\\n月😀\"\n\"\\ud83d\\ude00a\"", "\"a\"\n\"abcd\"\n\"\\ud83d\\ude00\"" },
		{ "{\"type\":\"string\",\"pattern\":\"b.\"}", "\"abc\"\n\"b\\\\\"\n\"b\\\"\"\n\"bü\"",
			"\"ab\"\n\"b\"\n\"b\\n\"\n\"\\u0062c\"" },
		{ "{\"pattern\":\"^[a-z]+$\",\"maxLength\":3,\"minLength\":2,\"type\":\"string\"}",
			"\"ab\"\n\"abc\"", "\"a\"\n\"abcd\"" },
		{ "{\"pattern\":\"^x[0-9]*$\",\"maxLength\":3,\"type\":\"string\"}", "\"x\"\n\"x12\"",
			"\"x123\"" },
		{ "{\"pattern\":\"^a{3}$\",\"minLength\":2}", "\"aaa\"\n1", "\"aa\"" },
		{ "{\"type\":\"string\",\"format\":\"date\"}", "\"2024-02-29\"\n\"1999-12-31\"",
			"\"2023-02-29\"\n\"1900-02-29\"\n\"2024-13-01\"\n\"2024-04-31\"\n\"x\"" },
		{ "{\"type\":\"string\",\"format\":\"date-time\"}", "\"2024-02-29T23:59:59.5+01:00\"",
			"\"2024-02-29\"\n\"2024-02-29T24:00:00Z\"" },
		{ "{\"type\":\"string\",\"format\":\"uuid\"}", "\"123e4567-e89b-12d3-a456-426614174000\"",
			"\"123e4567e89b12d3a456426614174000\"" },
		{ "{\"type\":\"string\",\"format\":\"ipv4\"}", "\"127.0.0.1\"\n\"255.255.255.255\"",
			"\"256.1.1.1\"\n\"01.1.1.1\"\n\"1.1.1\"" },
		{ "{\"type\":\"string\",\"format\":\"email\",\"maxLength\":254}", "\"a.b@example.org\"",
			"\"a..b@example.org\"\n\"a@\"" },
		{ "{\"type\":\"string\",\"format\":\"duration\"}", "\"P1DT12H\"\n\"P4W\"",
			"\"P\"\n\"PT\"\n\"P1D2H\"" },
		{ "{\"type\":\"string\",\"format\":\"made up\"}", "\"x\"", "1" },
	};

	(void)state;
	CHECK(lines);
}

static void test_arrays(void **state)
{
	static const struct line lines[] = {
		{ "{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":1,\"maxItems\":2}",
			"[null]\n[ null, null ]", "[]\n[null,null,null]\n[1]" },
		{ "{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":false}",
			"[]\n[1]\n[1,2]\n[ ]", "[2]\n[1,2,3]\n[,2]" },
		{ "{\"type\":\"array\",\"prefixItems\":[{\"const\":1}],\"items\":{\"const\":3},"
		  "\"minItems\":3}",
			"[1,3,3]\n[1,3,3,3]", "[1]\n[1,3]\n[3,3,3]" },
		{ "{\"type\":\"array\",\"maxItems\":1,\"uniqueItems\":true}", "[]\n[1]", "[1,2]" },
		{ "{\"items\":false}", "[]\n1", "[1]" },
		{ "{\"type\":\"array\",\"allOf\":[{\"prefixItems\":[{\"type\":\"integer\"}]},"
		  "{\"items\":{\"maximum\":2}}]}",
			"[1,2]\n[1,\"x\"]", "[\"x\"]\n[3]\n[1,3]" },
		{ "{\"type\":\"array\",\"allOf\":[{\"prefixItems\":[{\"const\":1}]}],"
		  "\"unevaluatedItems\":false}",
			"[1]\n[]", "[1,2]" },
	};

	(void)state;
	CHECK(lines);
}

static void test_objects(void **state)
{
	static const struct line lines[] = {
		{ "{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},"
		  "\"c\":{\"const\":3}},"
		  "\"required\":[\"b\"],\"additionalProperties\":false}",
			"{\"b\":2}\n{\"a\":1,\"b\":2}\n{\"b\":2, \"c\":3}",
			"{}\n{\"a\":1}\n{\"b\":2,\"a\":1}\n{\"b\":2,\"b\":2}\n{\"b\":2,\"d\":1}\n"
			"{\"a\":1,\"c\":3}" },
		{ "{\"type\":\"object\",\"properties\":{\"ab\":{\"const\":1},\"a\":false}}",
			"{}\n{\"ab\":1}\n{\"abc\":2}\n{\"b\":1,\"\":2}\n{\"ab\":1,\"é\":3}\n{\"\\n\":1}\n"
			"{\"A\":1}",
			"{\"a\":1}\n{\"ab\":2}\n{\"\\u0061\":1}\n{\"a\\u0062\":2}\n{\"x\":1,\"ab\":1}" },
		{ "{\"type\":\"object\",\"properties\":{\"é\\n\":{\"const\":1}},"
		  "\"additionalProperties\":{\"const\":2}}",
			"{\"é\\n\":1}\n{\"é\":2,\"\\n\":2}\n{\"è\\n\":2}",
			"{\"é\\n\":2}\n{\"x\":1}\n{\"é\\u000a\":2}" },
		{ "{\"type\":\"object\",\"required\":[\"x\"],\"additionalProperties\":{\"type\":\"null\"}}",
			"{\"x\":null}\n{\"x\":null,\"y\":null}", "{}\n{\"y\":null}\n{\"x\":1}" },
		{ "{\"type\":\"object\",\"properties\":{\"a\":true,\"b\":true,\"c\":true},"
		  "\"minProperties\":2,"
		  "\"additionalProperties\":false}",
			"{\"a\":1,\"c\":1}\n{\"a\":1,\"b\":1,\"c\":1}", "{}\n{\"b\":1}" },
		{ "{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}",
			"{\"a\":1}\n{\"a\":1,\"b\":2}", "{}\n{\"a\":1,\"b\":1,\"c\":1}" },
		{ "{\"type\":\"object\",\"properties\":{\"a\":true},\"minProperties\":2}",
			"{\"a\":1,\"b\":2}", "{\"b\":1,\"b\":2}\n{\"a\":1}" },
		{ "{\"type\":\"object\",\"patternProperties\":{\"^x-\":{\"type\":\"integer\"}},"
		  "\"properties\":{\"n\":{\"const\":1}},\"additionalProperties\":false}",
			"{\"n\":1,\"x-a\":5}\n{\"x-\":1}", "{\"x-a\":\"b\"}\n{\"y\":1}\n{\"n\":2}" },
		{ "{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",\"b\",3]},"
		  "\"additionalProperties\":{\"type\":\"integer\"}}",
			"{}\n{\"a\":1,\"b\":2}", "{\"c\":1}\n{3:1}\n{\"a\":null}" },
		{ "{\"type\":\"object\",\"allOf\":[{\"properties\":{\"a\":{\"minimum\":2}}},"
		  "{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"const\":1}},"
		  "\"required\":[\"b\"]}]}",
			"{\"a\":2,\"b\":1}\n{\"b\":1}", "{\"a\":1,\"b\":1}\n{\"a\":2}" },
		{ "{\"type\":\"object\",\"allOf\":[{\"properties\":{\"a\":{\"const\":2}}}],"
		  "\"anyOf\":[{\"properties\":{\"b\":{\"const\":1}},\"required\":[\"b\"]},true],"
		  "\"unevaluatedProperties\":false}",
			"{\"a\":2}\n{\"a\":2,\"b\":1}\n{}", "{\"c\":1}\n{\"a\":2,\"b\":2}" },
		{ "{\"type\":\"object\",\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"a\"},"
		  "\"v\":{\"type\":\"null\"}},"
		  "\"required\":[\"k\",\"v\"]},{\"properties\":{\"k\":{\"const\":\"b\"}},"
		  "\"required\":[\"k\"]}]}",
			"{\"k\":\"a\",\"v\":null}\n{\"k\":\"b\",\"v\":1}",
			"{\"k\":\"a\",\"v\":1}\n{\"k\":\"c\"}" },
	};

	(void)state;
	CHECK(lines);
}

static void test_references(void **state)
{
	static const struct line lines[] = {
		{ "{\"$ref\":\"#/$defs/list\",\"$defs\":{\"list\":{\"type\":\"object\","
		  "\"required\":[\"next\"],"
		  "\"properties\":{\"next\":{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#/$defs/list\"}]}},"
		  "\"additionalProperties\":false}}}",
			"{\"next\":null}\n{\"next\":{\"next\": {\"next\":null}}}", "{}\n{\"next\":{}}" },
		{ "{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}", "[]\n[[],[[]]]", "[1]" },
		{ "{\"$ref\":\"#/definitions/a~1b~0%20c\",\"maximum\":3,"
		  "\"definitions\":{\"a/b~ c\":{\"type\":\"integer\"}}}",
			"3\n0", "4\n\"x\"" },
		{ "{\"prefixItems\":[{\"const\":1},{\"$ref\":\"#/prefixItems/0\"}],\"type\":\"array\"}",
			"[1,1]", "[1,2]" },
		/* the branch that refers to itself adds nothing */
		{ "{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "null", "1" },
		{ "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/a\"}},"
		  "\"$defs\":{\"a\":{\"$ref\":\"#/$defs/a\"}},\"additionalProperties\":false}",
			"{}", "{\"a\":1}" },
	};

	(void)state;
	CHECK(lines);
}

static bool described(struct automaton *a, const char *text, const char *end)
{
	char told[200];

	automaton_describe(a, after(a, text), told, sizeof told);
	if (!strlen(told) || strcmp(told + strlen(told) - strlen(end), end))
		print_message("%s\n", told);
	return strlen(told) >= strlen(end) && !strcmp(told + strlen(told) - strlen(end), end);
}

/* The stack of rules, as people see it. */
static void test_names(void **state)
{
	static const char schema[] =
		"{\"type\":\"object\",\"properties\":{\"address\":{\"type\":\"object\",\"properties\":{"
		"\"street\":{\"minLength\":3,\"type\":\"string\"},\"to\":{\"$ref\":\"#/$defs/person\"}}}},"
		"\"$defs\":{\"person\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}}}";
	struct automaton a;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(opened(&a, schema, strlen(schema), &e), 0);
	assert_true(described(&a, "{\"address\":{\"street\":\"x", "address > street"));
	assert_true(described(&a, "{\"address\":{\"to\":[", "address > person > integer"));
	automaton_close(&a);
}

/* ---- what is refused ---- */

static void expect_error(const char *schema, size_t size, const char *text)
{
	struct automaton a;
	struct err e = { 0 };

	assert_int_equal(opened(&a, schema, size, &e), -1);
	if (!strstr(e.text, text))
		print_message("%.200s: %s\n", schema, e.text);
	assert_non_null(strstr(e.text, text));
	assert_int_equal(e.code, ERR_USAGE);
}

static void test_refused(void **state)
{
	static const char *const cases[][2] = {
		{ "{\"properties\":{\"a\":{\"not\":{\"type\":\"null\"}}}}",
			"schema: /properties/a: `not` is not supported" },
		{ "{\"if\":{},\"then\":{\"type\":\"null\"}}", "schema: `then` is not supported" },
		{ "{\"contains\":{}}", "schema: `contains` is not supported" },
		{ "{\"dependentSchemas\":{\"title\":{}}}", "`dependentSchemas` is not supported" },
		{ "{\"dependentRequired\":{\"a\":[\"b\"]}}", "`dependentRequired` is not supported" },
		{ "{\"uniqueItems\":true}", "`uniqueItems` is supported together with maxItems 1 alone" },
		{ "{\"multipleOf\":0.5}", "`multipleOf` is supported for whole numbers up to 1000" },
		{ "{\"type\":\"integer\",\"multipleOf\":3,\"minimum\":50}", "`multipleOf` with bounds" },
		{ "{\"minimum\":\"3\"}", "`minimum` must be a number" },
		{ "{\"minimum\":1.23456789012345678}", "with up to 15 decimal digits" },
		{ "{\"type\":\"text\"}", "`type` must be null, boolean" },
		{ "{\"items\":[{}]}", "a list of them is `prefixItems`" },
		{ "{\"pattern\":\"(?=a)\"}", "`pattern`: " },
		{ "{\"pattern\":\"(aa)+\",\"maxLength\":3}", "`pattern` with minLength or maxLength" },
		{ "{\"pattern\":\"a\",\"format\":\"date\"}", "two patterns or formats" },
		{ "{\"patternProperties\":{\"a\":{},\"b\":{}}}", "more than one pattern" },
		{ "{\"type\":\"object\",\"minProperties\":2}", "schema: `minProperties` beyond" },
		{ "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"object\","
		  "\"properties\":{\"b\":{},\"c\":false},\"minProperties\":3}}}",
			"schema: /properties/a: `minProperties` beyond the named properties and one more" },
		{ "{\"type\":\"object\",\"minProperties\":2,\"maxProperties\":1}", "no text satisfies it" },
		{ "{\"type\":\"object\",\"minProperties\":2,\"additionalProperties\":false}",
			"no text satisfies it" },
		{ "{\"properties\":{\"ab\":{}},\"patternProperties\":{\"a\":{}}}",
			"named properties (ab)" },
		{ "{\"oneOf\":[{\"type\":\"number\"},{\"type\":\"integer\"}]}",
			"`oneOf`: one value may satisfy branches 0 and 1" },
		{ "{\"$ref\":\"http://example.org/\"}", "`$ref` is supported to" },
		{ "{\"$ref\":\"#/$defs/none\"}", "there is no schema at #/$defs/none" },
		{ "{\"properties\":{\"a\":{\"$id\":\"http://example.org/\"}}}", "an `$id` inside" },
		{ "{\"enum\":[9007199254740993]}", "more digits than are supported" },
		{ "{\"a\":1,\"b\":{\"c\":1,\"c\":2}}", "schema: /b: it has two members \"c\"" },
		{ "{\"const\":\"a\\u0000b\"}", "a zero byte" },
		{ "{\"const\":\"\xff\"}", "no valid UTF-8" },
		{ "{\"type\":", "it is no JSON" },
		{ "{} x", "it is no JSON" },
		{ "3", "a schema must be an object, true or false" },
		{ "false", "no text satisfies it" },
		{ "{\"type\":\"string\",\"const\":1}", "no text satisfies it" },
		{ "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"$ref\":\"#\"}}}",
			"never ends" },
		{ "{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},"
		  "\"b\":{\"$ref\":\"#/$defs/a\"}}}",
			"never ends" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		expect_error(cases[i][0], strlen(cases[i][0]), cases[i][1]);
	expect_error("{}\0", 3, "a zero byte");
}

/* ---- large and hostile ---- */

struct text {
	char *at;
	size_t n, cap;
};

static void put(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *fmt, ...)
{
	va_list args;

	if (t->cap < t->n + 4096)
		t->at = realloc(t->at, t->cap = t->cap * 2 + 8192);
	va_start(args, fmt);
	t->n += (size_t)vsnprintf(t->at + t->n, t->cap - t->n, fmt, args);
	va_end(args);
}

/* Nodes of the grammar of n properties, every third of which is in a text that it allows. */
static int32_t check_properties(int n)
{
	struct text schema = { 0 }, value = { 0 };
	struct automaton a;
	struct err e = { 0 };
	int32_t nodes;

	put(&schema, "{\"type\":\"object\",\"properties\":{");
	put(&value, "{");
	for (int i = 0; i < n; i++) {
		put(&schema, "%s\"property_%d\":{\"type\":\"string\"}", i ? "," : "", i);
		if (i % 3 == 0)
			put(&value, "%s\"property_%d\": \"x\"", i ? ", " : "", i);
	}
	put(&schema, "}}");
	put(&value, ", \"property_%d\": 1}", n);
	assert_int_equal(opened(&a, schema.at, schema.n, &e), 0);
	assert_true(takes(&a, value.at));
	assert_false(takes(&a, "{\"property_9\": 1}"));
	nodes = a.program.n_nodes;
	automaton_close(&a);
	free(schema.at);
	free(value.at);
	return nodes;
}

static void test_many_properties(void **state)
{
	(void)state;
	assert_true(check_properties(1000) < 5 * check_properties(250));
}

static void test_many_words(void **state)
{
	struct text schema = { 0 };
	struct automaton a;
	struct err e = { 0 };

	(void)state;
	put(&schema, "{\"enum\":[");
	for (int i = 0; i < 5000; i++)
		put(&schema, "%s\"word %d\"", i ? "," : "", i * 7);
	put(&schema, "]}");
	assert_int_equal(opened(&a, schema.at, schema.n, &e), 0);
	assert_true(takes(&a, "\"word 34993\"") && takes(&a, "\"word 7\""));
	assert_false(takes(&a, "\"word 8\"") || takes(&a, "\"word 3499\""));
	automaton_close(&a);
	free(schema.at);
}

/* `open` and `close` n times around 1; the same of the value. */
static void check_nested(
	int n, const char *open, const char *close, const char *open_value, const char *close_value)
{
	struct text schema = { 0 }, value = { 0 };
	struct automaton a;
	struct err e = { 0 };

	for (int i = 0; i < n; i++) {
		put(&schema, "%s", open);
		put(&value, "%s", open_value);
	}
	put(&schema, "{\"const\":1}");
	put(&value, "1");
	for (int i = 0; i < n; i++) {
		put(&schema, "%s", close);
		put(&value, "%s", close_value);
	}
	if (opened(&a, schema.at, schema.n, &e))
		print_message("%s %d: %s\n", open, n, e.text);
	assert_int_equal(e.code, 0);
	assert_true(takes(&a, value.at));
	automaton_close(&a);
	free(schema.at);
	free(value.at);
}

static void test_nested(void **state)
{
	(void)state;
	check_nested(200, "{\"type\":\"array\",\"items\":", "}", "[", "]");
	check_nested(200, "{\"required\":[\"a\"],\"properties\":{\"a\":", "}}", "{\"a\":", "}");
	check_nested(200, "{\"anyOf\":[", "]}", "", "");
	check_nested(200, "{\"allOf\":[", "]}", "", "");
	check_nested(200, "{\"oneOf\":[", "]}", "", "");
}

/* Values that are compared: equal ones, however deep and wide, take bounded time. */
static void test_compared(void **state)
{
	struct text schema = { 0 };

	(void)state;
	put(&schema, "{\"oneOf\":[");
	for (int side = 0; side < 2; side++) {
		put(&schema, side ? "},{\"const\":" : "{\"const\":");
		for (int i = 0; i < 60; i++)
			put(&schema, "{\"a\":");
		put(&schema, "1");
		for (int i = 0; i < 60; i++)
			put(&schema, "}");
	}
	put(&schema, "}]}");
	expect_error(schema.at, schema.n, "too much work");
	schema.n = 0;
	put(&schema, "{\"allOf\":[{\"enum\":[");
	for (int i = 0; i < 3000; i++)
		put(&schema, "%s\"x\"", i ? "," : "");
	put(&schema, "]},{\"const\":\"");
	for (int i = 0; i < 200; i++)
		put(&schema, "%01000d", i);
	put(&schema, "\"}]}");
	expect_error(schema.at, schema.n, "too much work");
	free(schema.at);
}

/* A text of `head`, `unit` again and again, `tail`, as large as is allowed, takes bounded time:
 * whatever the answer is. */
static void check_large(const char *head, const char *unit, const char *tail)
{
	struct text schema = { 0 };
	struct automaton a;
	struct err e = { 0 };

	put(&schema, "%s", head);
	for (int i = 0; schema.n + 200 < GRAMMAR_MOST_TEXT; i++) {
		put(&schema, "%s", i ? "," : "");
		put(&schema, unit, i, i + 1); /* NOLINT: the formats are ours */
	}
	put(&schema, "%s", tail);
	if (!opened(&a, schema.at, schema.n, &e))
		automaton_close(&a);
	else
		assert_true(strlen(e.text) > 10);
	free(schema.at);
}

static void test_hostile(void **state)
{
	struct text deep = { 0 };

	(void)state;
	check_large("{\"properties\":{", "\"%d\":{}", "}}");
	check_large(
		"{\"properties\":{", "\"%d\":{\"pattern\":\"a*\"}", "},\"additionalProperties\":false}");
	check_large("{\"required\":[", "\"%d\"", "]}");
	check_large("{\"enum\":[", "%d", "]}");
	check_large("{\"minimum\":3,\"enum\":[", "%d", "]}");
	check_large("{\"anyOf\":[", "{\"const\":%d}", "]}");
	check_large("{\"oneOf\":[", "{\"const\":%d}", "]}");
	check_large("{\"allOf\":[", "{\"minimum\":%d}", "]}");
	check_large("{\"allOf\":[", "{\"anyOf\":[{\"minimum\":%d},{\"maximum\":%d}]}", "]}");
	check_large("{\"prefixItems\":[", "{\"const\":%d}", "]}");
	check_large("{\"$ref\":\"#/$defs/0\",\"$defs\":{", "\"%d\":{\"$ref\":\"#/$defs/%d\"}", "}}");
	check_large("{\"$ref\":\"#/$defs/0\",\"$defs\":{",
		"\"%d\":{\"anyOf\":[{\"$ref\":\"#/$defs/%d\"},{\"$ref\":\"#/$defs/1\"}]}", "}}");
	check_large("{\"$ref\":\"#/$defs/0\",\"$defs\":{",
		"\"%d\":{\"items\":{\"$ref\":\"#/$defs/%d\"},\"type\":\"array\"}", "}}");
	check_large("{\"patternProperties\":{\"^a\":{}},\"properties\":{", "\"b%d\":{}", "}}");
	for (int i = 0; i < 100000; i++)
		put(&deep, "[");
	expect_error(deep.at, deep.n, "nests too deeply");
	while (deep.n <= GRAMMAR_MOST_TEXT)
		put(&deep, " ");
	expect_error(deep.at, deep.n, "more than a megabyte");
	free(deep.at);
}

/* Schemas cut off anywhere, and with any byte changed, are read or refused. */
static void test_damaged(void **state)
{
	static const char schema[] =
		"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/x\"},"
		"\"b\":{\"pattern\":\"a[b-d]{2}\"},"
		"\"c\":{\"enum\":[1,\"x\"],\"minimum\":1}},\"required\":[\"a\"],"
		"\"$defs\":{\"x\":{\"minimum\":-1.5}}}";
	char damaged[sizeof schema];

	(void)state;
	for (size_t i = 0; i < 2 * (sizeof schema - 1); i++) {
		const size_t n = i < sizeof schema ? i : sizeof schema - 1;
		struct automaton a;
		struct err e = { 0 };

		memcpy(damaged, schema, sizeof schema);
		if (i >= n)
			damaged[i - n] = "}\"[0\\:e"[i % 7];
		if (!opened(&a, damaged, n, &e))
			automaton_close(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any),
		cmocka_unit_test(test_types_and_values),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_objects),
		cmocka_unit_test(test_references),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_many_properties),
		cmocka_unit_test(test_many_words),
		cmocka_unit_test(test_nested),
		cmocka_unit_test(test_compared),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

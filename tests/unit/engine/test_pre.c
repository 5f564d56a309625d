/* Pre-tokenizers: the words of Hugging Face's tokenizers with the published expressions
 * (tests/data/words.py), the language of the expressions, and texts that are long and alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/text/tokenizer_pre.h"
#include "tests/support/jsonl.h"
#include "tests/support/thorough.h"

static void expect_words(
	const struct pre_rule *rule, const char *text, size_t size, const int32_t *want, size_t n)
{
	struct pre *pre = pre_compile(rule);
	struct pre_words w = { .pre = pre, .text = text, .size = size };

	assert_non_null(pre);
	for (size_t i = 0; i < n; i++)
		if (pre_next(&w) != (size_t)want[i])
			fail_msg("%s: word %zu of \"%s\" ends at %zu", rule->names, i, text, w.at);
	assert_int_equal(pre_next(&w), 0);
	assert_int_equal(w.at, size);
	free(pre);
}

/* Every rule, by the first of its names. */
static void test_golden_words(void **state)
{
	FILE *f = fopen("tests/data/words.jsonl", "r");
	char *line = NULL, name[32];
	size_t cap = 0, size, n;
	int lines = 0;

	(void)state;
	assert_non_null(f);
	while (getline(&line, &cap, f) > 0) {
		char *text = jsonl_string(jsonl_find(line, "text"), &size);

		for (size_t i = 0; i < n_pre_rules; i++) {
			const char *words;
			int32_t *want;

			snprintf(name, sizeof name, "%.*s", (int)strcspn(pre_rules[i].names, " "),
				pre_rules[i].names);
			words = jsonl_find(line, name);
			if (!words)
				fail_msg("tests/data/words.py has no rule %s", name);
			want = jsonl_ints(words, &n);
			expect_words(&pre_rules[i], text, size, want, n);
			free(want);
		}
		free(text);
		lines++;
	}
	assert_int_equal(lines, 120);
	free(line);
	fclose(f);
}

static void test_names(void **state)
{
	static const struct {
		const char *alias, *name;
	} same[] = { { "llama3", "llama-bpe" }, { "gpt2", "gpt-2" }, { "default", "gpt-2" },
		{ "llama4", "gpt-4o" }, { "command-r", "starcoder" } };
	char known[512];

	(void)state;
	for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
		assert_non_null(pre_by_name(same[i].name, strlen(same[i].name)));
		assert_ptr_equal(pre_by_name(same[i].alias, strlen(same[i].alias)),
			pre_by_name(same[i].name, strlen(same[i].name)));
	}
	assert_null(pre_by_name("tekke", 5));
	assert_null(pre_by_name("gpt-2 gpt2", 10));
	assert_null(pre_by_name("", 0));
	/* no name in two rows */
	for (size_t i = 0; i < n_pre_rules; i++)
		for (const char *at = pre_rules[i].names; *at; at += strspn(at, " ")) {
			assert_ptr_equal(pre_by_name(at, strcspn(at, " ")), &pre_rules[i]);
			at += strcspn(at, " ");
		}
	assert_int_equal(strncmp(pre_known(known, sizeof known), "gpt-2, smollm, ", 15), 0);
	assert_true(strlen(known) < sizeof known - 1);
}

static void test_language(void **state)
{
	static const struct {
		struct pre_rule rule;
		const char *text;
		int32_t want[8];
		size_t n;
	} cases[] = {
		{ { "greedy", .regex = { "a+b?" } }, "aabxab", { 3, 1, 2 }, 3 },
		{ { "gives back", .regex = { "[ab]+b" } }, "abba", { 3, 1 }, 2 },
		{ { "gives back characters", .regex = { "[é日]*日" } }, "é日é", { 5, 2 }, 2 },
		{ { "gives back bytes", .regex = { "[^x]+日" } }, "\xff\xc3日\x80x", { 5, 2 }, 2 },
		{ { "counts", .regex = { "a{2,3}|b{2}" } }, "aaaaabbb", { 3, 2, 2, 1 }, 4 },
		{ { "first of two", .regex = { "a|ab" } }, "ab", { 1, 1 }, 2 },
		{ { "group", .regex = { "x(?:a|ab)c|x" } }, "xabcxc", { 4, 1, 1 }, 3 },
		{ { "group that may miss", .regex = { "a+(?:b|c)?d" } }, "aabdad", { 4, 2 }, 2 },
		{ { "folds", .regex = { "(?i:sk)s" } }, "SKs\xc5\xbf\xe2\x84\xaasSKS", { 3, 6, 3 }, 3 },
		{ { "nothing follows", .regex = { "\\s+(?!\\S)|a" } }, "  a \n", { 1, 1, 1, 2 }, 4 },
		{ { "last", .regex = { "\\s+$" } }, "  a  ", { 3, 2 }, 2 },
		{ { "pieces of pieces", .regex = { "b+", "\\s+$|bb" } }, "a  bbb ", { 1, 2, 2, 1, 1 }, 5 },
		{ { "but", .regex = { "[\\p{L}&&[^a-c日]]+" } }, "xbyé日", { 1, 1, 3, 3 }, 4 },
		{ { "escapes", .regex = { "[\\]\\-\\n]+|\\d|\\$" } }, "]-\n3$", { 3, 1, 1 }, 3 },
		{ { "never empty", .regex = { "a*" } }, "baa", { 1, 2 }, 2 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		expect_words(
			&cases[i].rule, cases[i].text, strlen(cases[i].text), cases[i].want, cases[i].n);
}

static void test_beyond_language(void **state)
{
	static const char *const bad[] = { "(a)", "a**", "a++", "[b-a]", "(?:a)+", "(?:a", "a)", "[a",
		"\\p{Xx}", "\\p{", "a{2", "a{x}", "a{9999}", ".", "^a", "(?=a)", "[a&&[b]c]", "\\", "\xff",
		"a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p|q" };

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (pre_compile(&(struct pre_rule){ "bad", .regex = { bad[i] } }))
			fail_msg("%s is taken", bad[i]);
}

/* What looks at the rest of a text at each place is not done before the suite is ended. */
static void test_long_texts(void **state)
{
	const size_t size = is_thorough() ? 1 << 18 : 1 << 16;
	static const char *const part[] = { " ", "a", "A", "1", "\n", "!", "'", "\xcc\x81", "A\xcc\x81",
		" \n", "\xe4\xb8\xad", "\xff" };
	char *text = malloc(size + 8);

	(void)state;
	for (size_t i = 0; i < n_pre_rules; i++)
		for (size_t k = 0; k < sizeof part / sizeof *part; k++) {
			struct pre *pre = pre_compile(&pre_rules[i]);
			struct pre_words w = { .pre = pre, .text = text };

			while (w.size < size) {
				memcpy(text + w.size, part[k], strlen(part[k]));
				w.size += strlen(part[k]);
			}
			text[w.size++] = '7';
			while (pre_next(&w))
				;
			assert_int_equal(w.at, w.size);
			free(pre);
		}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_words),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_language),
		cmocka_unit_test(test_beyond_language),
		cmocka_unit_test(test_long_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

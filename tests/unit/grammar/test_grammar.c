/* Grammars: which texts GBNF, regular expressions and choices take; which grammars are refused, and
 * in what time; and masks, which are compared bit for bit with asking token by token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/constraint.h"
#include "engine/grammar/readers.h"
#include "engine/model/gguf.h"

typedef void reader(struct grammar *g, const char *text, size_t size);

static int open_text(struct automaton *a, reader *read, const char *text, struct err *e)
{
	struct grammar g = { 0 };
	struct program p = { 0 };
	int rc;

	read(&g, text, strlen(text));
	rc = grammar_compile(&g, &p, e) ? -1 : automaton_open(a, &p, e);
	program_free(&p);
	grammar_free(&g);
	return rc;
}

static bool takes(struct automaton *a, const char *text)
{
	int32_t state = a->start;

	for (; *text && state >= 0; text++)
		state = automaton_next(a, state, (unsigned char)*text);
	return state >= 0 && a->state[state].ends;
}

static void check(reader *read, const char *grammar, const char *const *yes, const char *const *no)
{
	struct automaton a;
	struct err e = { 0 };

	if (open_text(&a, read, grammar, &e))
		fail_msg("%s: %s", grammar, e.text);
	for (; *yes; yes++)
		if (!takes(&a, *yes))
			fail_msg("%s does not take \"%s\"", grammar, *yes);
	for (; *no; no++)
		if (takes(&a, *no))
			fail_msg("%s takes \"%s\"", grammar, *no);
	automaton_close(&a);
}

static void refused(reader *read, const char *grammar, const char *says)
{
	struct automaton a;
	struct err e = { 0 };

	if (!open_text(&a, read, grammar, &e))
		fail_msg("%.60s is taken", grammar);
	if (!strstr(e.text, says))
		fail_msg("%.60s: \"%s\" does not say \"%s\"", grammar, e.text, says);
}

#define TEXTS(...)                                                                                 \
	(const char *const[])                                                                          \
	{                                                                                              \
		__VA_ARGS__, NULL                                                                          \
	}

static void gbnf(void **state)
{
	(void)state;
	check(gbnf_read, "root ::= \"a\" | \"bc\"", TEXTS("a", "bc"), TEXTS("", "b", "ab", "bcc"));
	check(gbnf_read, "root ::= [a-c]+ x? # so\nx ::=\n  \"\\n\" | \"\\x41\"\n  | \"\\u00e9\"",
		TEXTS("abc", "a\n", "cA", "b\xc3\xa9"), TEXTS("", "A", "aAA"));
	check(gbnf_read, "root ::= \"(\" root \")\" | \"x\"", TEXTS("x", "(x)", "((((x))))"),
		TEXTS("", "()", "(x", "((x)"));
	check(gbnf_read, "root ::= (\"a\" \"b\"){2,3} [^\\n]{0,1}", TEXTS("abab", "ababab", "ababz"),
		TEXTS("ab", "abababab", "abab\n"));
	check(gbnf_read, "root ::= .{2}", TEXTS("ab", "\xe2\x82\xac\xf0\x9f\x98\x80"),
		TEXTS("a", "abc", "\xe2\x82"));
	check(gbnf_read, "root ::= a{1000} b\na ::= [0-9]*\nb ::= \"\"", TEXTS("", "12"), TEXTS("x"));
	refused(gbnf_read, "a ::= \"b\"", "no rule root");
	refused(gbnf_read, "root ::= b", "rule b is used and not defined");
	refused(gbnf_read, "root ::= root \"a\" | \"a\"", "begins with itself");
	refused(gbnf_read, "root ::= a\na ::= \"x\"? b | \"z\"\nb ::= a", "begins with itself");
	refused(gbnf_read, "root ::= \"a\" root", "never ends");
	refused(gbnf_read, "root ::= \"a", "does not end");
	refused(gbnf_read, "root ::= [a", "[ that does not end");
	refused(gbnf_read, "root ::= (\"a\"", "not closed");
	refused(gbnf_read, "root ::= \"a\"\nroot ::= \"b\"", "there is already");
	refused(gbnf_read, "root ::= \"a\"{3,2}", "above the most");
	refused(gbnf_read, "root ::= \"a\"{2000000}", "more than");
	refused(gbnf_read, "", "no rule root");
}

/* What GBNF has not. */
static void parts(void **state)
{
	(void)state;
	check(gbnf_read, "root ::= %until \"</t>\" \"</t>\"",
		TEXTS("</t>", "a</t>", "<</t>", "</</t>", "</t\xc3\xa9</t>"),
		TEXTS("", "a", "</t></t>", "</t>a", "\xc3</t>", "\xff</t>"));
	check(gbnf_read, "root ::= %until \"aab\", \"ac\"", TEXTS("", "aa", "aaaa", "ab", "abab"),
		TEXTS("aab", "aaab", "ac", "xaac"));
	check(gbnf_read, "root ::= %token \"[A]\" \"x\"", TEXTS("[A]x", "\xff[A]x"),
		TEXTS("x", "\xff[A]", "\xffx"));
	check(gbnf_read,
		"root ::= string %json {\"enum\": [\"}\", 1]} \"!\"\nstring ::= %spec \"choice:a|b\"",
		TEXTS("a\"}\"!", "b1!"), TEXTS("a1", "1!", "a\"\"!"));
	check(gbnf_read,
		"root ::= \"<\" %spec \"gbnf:root ::= a\\na ::= \\\"x\\\"\" \">\" a\na ::= \"y\"",
		TEXTS("<x>y"), TEXTS("<x>x", "<y>y"));
	refused(gbnf_read, "root ::= %until \"\"", "empty text");
	refused(gbnf_read, "root ::= %until", "a text in \"");
	refused(gbnf_read, "root ::= %until(3) \"a\" %until(4) \"a\"", "another limit");
	refused(gbnf_read, "root ::= %json {\"contains\": {}}", "contains");
	refused(gbnf_read, "root ::= %json 7", "a JSON schema");
	refused(gbnf_read, "root ::= %spec \"what\"", "is needed");
	check(gbnf_read, "root ::= \"\"", TEXTS(""), TEXTS("a"));
	refused(gbnf_read, "root ::= %what", "%until");
	refused(gbnf_read, "root ::= %spec \"gbnf:root ::= b\"\nb ::= \"x\"", "rule b is used");
}

/* Past its limit a text is left, before a whole character. */
static void limit(void **state)
{
	struct automaton a;
	struct err e = { 0 };
	int32_t at, left;

	(void)state;
	assert_int_equal(open_text(&a, gbnf_read, "root ::= %until(5) \"</t>\" \"</t>\"", &e), 0);
	assert_int_equal(a.program.limit, 5);
	at = automaton_next(&a, a.start, '<');
	left = automaton_leave(&a, at);
	assert_int_equal(automaton_next(&a, left, 'x'), STATE_DEAD);
	assert_int_not_equal(automaton_next(&a, left, '<'), STATE_DEAD);
	assert_int_not_equal(automaton_next(&a, left, '/'), STATE_DEAD);
	assert_int_equal(automaton_leave(&a, left), left);
	at = automaton_next(&a, a.start, 0xc3);
	assert_int_equal(automaton_leave(&a, at), at);
	automaton_close(&a);
}

static void regex(void **state)
{
	(void)state;
	check(regex_read, "\\d{4}-\\d\\d", TEXTS("2026-11"), TEXTS("2026-1", "x2026-11"));
	check(regex_read, "^(?:a|b+?)$|c", TEXTS("a", "bb", "c"), TEXTS("", "ab", "cc"));
	check(regex_read, "[^a-z\\d]\\.\\u00e9", TEXTS("A.\xc3\xa9", "\xe2\x82\xac.\xc3\xa9"),
		TEXTS("a.\xc3\xa9", "1.\xc3\xa9"));
	check(regex_read, "(?<n>x|y){2,}\\/", TEXTS("xy/", "xxx/"), TEXTS("x/", "xy"));
	check(regex_read, "\\w+\\s\\W", TEXTS("ab_ !", "x\t\xe2\x82\xac"), TEXTS("a b", "a \xc3\xa9"));
	refused(regex_read, "(?=a)b", "looking ahead");
	refused(regex_read, "(?<!a)b", "looking ahead or behind");
	refused(regex_read, "(?i)abc", "inline flags");
	refused(regex_read, "a\\01", "an escape that is not supported"); /* octal to some readers */
	refused(regex_read, "(a)\\1", "not supported");
	refused(regex_read, "a**", "meaning of its own");
	refused(regex_read, "a|b)", "meaning of its own");
	refused(regex_read, "\\bx", "not supported");
	refused(regex_read, "a^b", "at the ends");
	refused(regex_read, "[b-a]", "range that is none");
}

static void choice(void **state)
{
	(void)state;
	check(choice_read, "yes|no|not", TEXTS("yes", "no", "not"), TEXTS("", "n", "yesno", "nott"));
	check(
		choice_read, "[\"a|b\", \"\", \"\\u00e9\"]", TEXTS("a|b", "", "\xc3\xa9"), TEXTS("a", "b"));
	refused(choice_read, "[1]", "among texts");
	refused(choice_read, "", "nothing to choose from");
}

/* What strangers send: an error, and not a second of work. */
static void hostile(void **state)
{
	enum { MANY = 60000 };
	char *text = malloc(MANY * 20);
	struct automaton a;
	struct err e = { 0 };
	int32_t at;

	(void)state;
	memset(text, '(', MANY);
	text[MANY] = 0;
	refused(regex_read, text, "too many parentheses");
	memcpy(text, "root ::= ", 9);
	refused(gbnf_read, text, "too many parentheses");
	/* every reading of a run of letters at once */
	refused(regex_read, "((a{0,500}){0,500}){0,500}b", "ambiguous");
	assert_int_equal(open_text(&a, regex_read, "((a{1,500}){1,500}){1,500}b", &e), 0);
	at = a.start;
	for (int i = 0; i < 3000 && at >= 0; i++)
		at = automaton_next(&a, at, 'a');
	assert_int_equal(at, STATE_DEAD);
	assert_non_null(strstr(a.failed, "ambiguous"));
	automaton_close(&a);
	/* rules each of which needs the next, in an order that no pass likes */
	strcpy(text, "root ::= r0\n");
	for (int i = 0; i < 20000; i++)
		sprintf(text + strlen(text), "r%d ::= r%d\n", i, (i + 7919) % 20011);
	refused(gbnf_read, text, "");
	free(text);
}

/* What shows at the first byte of an answer is refused before there is one. */
static void checked_before_it_begins(void **state)
{
	enum { DEEP = 300 };
	char *text = malloc(DEEP * 40);
	struct err e = { 0 };
	int n;

	(void)state;
	n = sprintf(text, "gbnf:root ::= a0\n");
	for (int i = 0; i < DEEP; i++)
		n += sprintf(text + n, "a%d ::= a%d a%d | \"x\"\n", i, i + 1, i + 1);
	sprintf(text + n, "a%d ::= \"y\"", DEEP);
	assert_int_equal(constraint_check(text, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.text, "too ambiguous"));
	e = (struct err){ 0 };
	assert_int_equal(constraint_check("regex:((a{1,500}){1,500}){1,500}b", &e), 0);
	assert_int_equal(constraint_check("regex:", &e), 0); /* no byte leads on */
	free(text);
}

/* ---- masks ---- */

static uint64_t seed = 7;

static uint32_t below(uint32_t n) /* xorshift64* (Vigna 2016) */
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (uint32_t)((seed * 0x2545f4914f6cdd1d) >> 33) % n;
}

enum { VOCAB = 700, LONGEST = 7 };

static void make_vocab(struct gguf_text *token, char text[VOCAB][LONGEST + 1])
{
	static const char letters[] = "ab\"{}:, 01\\n\xc3\xa9\xe2\x82\xac";

	for (int i = 0; i < VOCAB; i++) {
		const int n = i < 256 ? 1 : (int)below(LONGEST + 1);

		for (int k = 0; k < n; k++)
			text[i][k] = i < 256 ? (char)i : letters[below(sizeof letters - 1)];
		token[i] = (struct gguf_text){ text[i], (size_t)n };
	}
}

static void compare(struct masks *m, int32_t state)
{
	const struct mask *k = mask_of(m, state);
	int32_t n = 0, only = -1;

	assert_non_null(k);
	for (int32_t id = 0; id < VOCAB; id++) {
		const bool alone = masks_next(m, state, id) != STATE_DEAD;

		if ((k->word[id / 64] >> (id % 64) & 1) != alone)
			fail_msg("state %d, token %d: %d alone", state, id, alone);
		n += alone;
		only = alone ? id : only;
	}
	assert_int_equal(k->n, n);
	assert_int_equal(k->only, n == 1 ? only : -1);
}

static void masks(void **state)
{
	static const char *const grammars[] = {
		("root ::= \"{\" ws (\"\\\"\" [^\"\\\\]* \"\\\":\" ws root (\",\" ws)?)* \"}\""
		 " | [0-9]{1,3}\nws ::= \" \"{0,2}"),
		"root ::= [ab]{3,9} (\"\\\"\" | root)?",
		"root ::= .{0,5} \"ab\" .*",
		"root ::= (\"a\" | \"b\" | \"ab\" | \"ba\"){2,} \"0\"",
		"root ::= ([ab0] .){4,40}",
	};
	static char text[VOCAB][LONGEST + 1];
	struct gguf_text token[VOCAB];
	struct spell s;
	struct err e = { 0 };

	(void)state;
	make_vocab(token, text);
	assert_int_equal(spell_open(&s, token, VOCAB, &e), 0);
	for (size_t g = 0; g < sizeof grammars / sizeof *grammars; g++) {
		struct automaton a;
		struct masks m;

		assert_int_equal(open_text(&a, gbnf_read, grammars[g], &e), 0);
		assert_int_equal(masks_open(&m, &s, NULL, 0, &a, &e), 0);
		m.most = 16; /* so that some are made room for */
		for (int walk = 0; walk < 12; walk++)
			for (int32_t at = a.start, step = 0; at >= 0 && step < 20; step++) {
				int32_t id;

				compare(&m, at);
				for (id = (int32_t)below(VOCAB); masks_next(&m, at, id) < 0;)
					if (!mask_of(&m, at)->n)
						break;
					else
						id = (id + 1) % VOCAB;
				at = masks_next(&m, at, id);
			}
		masks_close(&m);
		automaton_close(&a);
	}
	spell_close(&s);
}

/* What a mask of a client's grammar may cost is a bound, also where whole characters are tried. */
static void laborious(void **state)
{
	static char text[VOCAB][LONGEST + 1];
	struct gguf_text token[VOCAB];
	struct automaton a;
	struct masks m;
	struct spell s;
	struct err e = { 0 };
	int64_t before;

	(void)state;
	for (int i = 0; i < VOCAB; i++)
		token[i] = (struct gguf_text){ text[i],
			(size_t)sprintf(text[i], "\xe2\x82\xac%c%c", 'a' + i % 26, 'A' + i / 26) };
	assert_int_equal(spell_open(&s, token, VOCAB, &e), 0);
	assert_int_equal(open_text(&a, regex_read, "(\\W|\\D|\\S){1000}", &e), 0);
	assert_int_equal(masks_open(&m, &s, NULL, 0, &a, &e), 0);
	before = a.work;
	assert_null(mask_of(&m, a.start));
	assert_in_range(a.work - before, MASK_WORK, MASK_WORK + 1);
	assert_non_null(strstr(a.failed, "takes too long to find"));
	masks_close(&m);
	automaton_close(&a);
	spell_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gbnf),
		cmocka_unit_test(parts),
		cmocka_unit_test(limit),
		cmocka_unit_test(regex),
		cmocka_unit_test(choice),
		cmocka_unit_test(hostile),
		cmocka_unit_test(checked_before_it_begins),
		cmocka_unit_test(masks),
		cmocka_unit_test(laborious),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

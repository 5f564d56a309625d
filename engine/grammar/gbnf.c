/* GBNF, llama.cpp's form of grammars: see readers.h. */
#include <string.h>

#include "engine/grammar/cursor.h"
#include "engine/grammar/readers.h"

static int32_t alternatives(struct cursor *c, bool inside);

void cursor_blanks(struct cursor *c, bool lines)
{
	for (;;) {
		while (cursor_take(c, ' ') || cursor_take(c, '\t') || cursor_take(c, '\r') ||
			   (lines && cursor_take(c, '\n')))
			;
		if (cursor_byte(c) != '#')
			return;
		while (c->at < c->end && *c->at != '\n')
			c->at++;
	}
}

static bool is_name(uint32_t b)
{
	return (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9') || b == '-' ||
		   b == '_';
}

static size_t name(struct cursor *c)
{
	size_t n = 0;

	while (c->at + n < c->end && is_name((unsigned char)c->at[n]))
		n++;
	return n;
}

static uint32_t escape(struct cursor *c)
{
	const uint32_t b = cursor_byte(c);

	c->at += b != CURSOR_END;
	switch (b) {
	case 'n': return '\n';
	case 'r': return '\r';
	case 't': return '\t';
	case 'x': return cursor_hex(c, 2);
	case 'u': return cursor_hex(c, 4);
	case 'U': return cursor_hex(c, 8);
	default:
		if (b != CURSOR_END && strchr("\\\"[]-^", (int)b))
			return b;
		cursor_fail(c, "an escape that there is not, before this");
		return CURSOR_END;
	}
}

uint32_t cursor_character(struct cursor *c)
{
	return cursor_take(c, '\\') ? escape(c) : cursor_point(c);
}

static int32_t literal(struct cursor *c)
{
	int32_t all = expr_empty(c->g);

	while (!cursor_take(c, '"')) {
		const uint32_t point = cursor_character(c);

		if (point == CURSOR_END)
			return cursor_fail(c, "a literal that does not end with \"");
		all = expr_then(c->g, all, expr_points(c->g, point, point));
	}
	return all;
}

static int32_t set(struct cursor *c)
{
	struct points p = { 0 };
	const bool but = cursor_take(c, '^');

	while (!cursor_take(c, ']')) {
		const uint32_t from = cursor_character(c);
		uint32_t to = from;

		if (from != CURSOR_END && c->at + 1 < c->end && c->at[0] == '-' && c->at[1] != ']') {
			c->at++;
			to = cursor_character(c);
		}
		if (from == CURSOR_END || to == CURSOR_END || to < from) {
			points_free(&p);
			return cursor_fail(c, "[ that does not end with ], or a range that is none");
		}
		points_add(&p, from, to);
	}
	if (but)
		points_invert(&p);
	return expr_of_points(c->g, &p);
}

static int32_t group(struct cursor *c)
{
	int32_t x;

	if (++c->depth > GRAMMAR_NESTING)
		return cursor_fail(c, "too many parentheses inside one another");
	x = alternatives(c, true);
	c->depth--;
	return cursor_take(c, ')') || x < 0 ? x : cursor_fail(c, "a parenthesis that is not closed");
}

static int32_t named(struct cursor *c, size_t n)
{
	int32_t rule = rule_find(c->g, c->at, n);

	if (rule < 0)
		rule = rule_new(c->g, c->at, n);
	c->at += n;
	return expr_rule(c->g, rule);
}

/* EXPR_FAILED without an error: nothing is next. */
static int32_t item(struct cursor *c)
{
	const size_t n = name(c);

	if (cursor_take(c, '"'))
		return literal(c);
	if (cursor_take(c, '['))
		return set(c);
	if (cursor_take(c, '('))
		return group(c);
	if (cursor_take(c, '.'))
		return expr_points(c->g, 0, POINTS_LAST);
	if (cursor_take(c, '%'))
		return gbnf_part(c);
	return n ? named(c, n) : EXPR_FAILED;
}

static int32_t sequence(struct cursor *c, bool inside)
{
	int32_t all = expr_empty(c->g), one, least, most;

	for (;;) {
		cursor_blanks(c, inside);
		one = item(c);
		if (c->g->err.code)
			return EXPR_FAILED;
		if (one < 0)
			return all;
		cursor_blanks(c, inside);
		while (cursor_repeat(c, &least, &most))
			one = expr_repeat(c->g, one, least, most);
		all = expr_then(c->g, all, one);
	}
}

static bool goes_on(struct cursor *c, bool inside)
{
	const char *here = c->at;

	cursor_blanks(c, true);
	if (cursor_take(c, '|')) {
		cursor_blanks(c, true);
		return true;
	}
	if (!inside)
		c->at = here;
	return false;
}

static int32_t alternatives(struct cursor *c, bool inside)
{
	int32_t all = sequence(c, inside);

	while (goes_on(c, inside))
		all = expr_or(c->g, all, sequence(c, inside));
	return all;
}

/* The number of the rule that is defined next, behind its "NAME ::=". */
static int32_t head(struct cursor *c)
{
	const size_t n = name(c);
	int32_t number = rule_find(c->g, c->at, n);

	if (!n)
		return cursor_fail(c, "a rule's name is needed");
	if (number >= 0 && c->g->rule[number].expr >= 0)
		return cursor_fail(c, "a rule that there is already");
	if (number < 0)
		number = rule_new(c->g, c->at, n);
	c->at += n;
	cursor_blanks(c, false);
	if (c->end - c->at < 3 || memcmp(c->at, "::=", 3) != 0)
		return cursor_fail(c, "::= is needed");
	c->at += 3;
	cursor_blanks(c, true);
	return number;
}

static void rule(struct cursor *c)
{
	const int32_t number = head(c), x = number < 0 ? EXPR_FAILED : alternatives(c, false);

	if (x < 0)
		return;
	c->g->rule[number].expr = x;
	cursor_blanks(c, false);
	if (c->at < c->end && !cursor_take(c, '\n'))
		cursor_fail(c, "something that is no part of a rule");
}

void gbnf_read(struct grammar *g, const char *text, size_t size)
{
	struct cursor c = { .g = g, .text = text, .at = text, .end = text + size };
	const int32_t base = g->base, root = g->n_rules;

	g->base = root;
	rule_new(g, "root", 4);
	for (cursor_blanks(&c, true); c.at < c.end && !g->err.code; cursor_blanks(&c, true))
		rule(&c);
	if (!g->err.code && g->rule[root].expr < 0)
		grammar_fail(g, ERR_USAGE, "there is no rule root, which an answer is made of");
	gbnf_read_inner(&c);
	g->base = base;
}

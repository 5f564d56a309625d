/* GBNF, llama.cpp's form of grammars: see readers.h. */
#include <stdio.h>

#include <utf8proc.h>

#include "base/array.h"
#include "engine/grammar/cursor.h"
#include "engine/grammar/readers.h"
#include "engine/model/gguf.h"

enum { MOST_UNTIL = 8, MOST_INNER_DEPTH = 4 };

static int32_t alternatives(struct cursor *c, bool inside);

/* Blanks and comments. New lines end a rule, unless it is inside parentheses or | follows. */
static void blanks(struct cursor *c, bool lines)
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

/* A character of a literal or set, with its escapes; CURSOR_END at the end. */
static uint32_t character(struct cursor *c)
{
	return cursor_take(c, '\\') ? escape(c) : cursor_point(c);
}

/* ---- what grammars of answers with several parts need beside GBNF (readers.h) ---- */

static void put_point(FILE *f, uint32_t c)
{
	utf8proc_uint8_t bytes[4];

	fwrite(bytes, 1, (size_t)utf8proc_encode_char((utf8proc_int32_t)c, bytes), f);
}

/* A literal as text, malloc'd; NULL with the error: none is next. */
static char *read_literal(struct cursor *c, size_t *size)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, size);
	bool ok = f;

	blanks(c, false);
	if (ok && !cursor_take(c, '"')) {
		cursor_fail(c, "a text in \" is needed");
		ok = false;
	}
	while (ok && !cursor_take(c, '"')) {
		const uint32_t point = character(c);

		ok = point != CURSOR_END;
		if (ok)
			put_point(f, point);
		else
			cursor_fail(c, "a literal that does not end with \"");
	}
	if (!f || fclose(f))
		grammar_no_memory(c->g);
	if (ok && !c->g->err.code)
		return text;
	free(text);
	return NULL;
}

/* (N), or nothing: 0. */
static int32_t limit(struct cursor *c)
{
	int32_t n;

	if (!cursor_take(c, '('))
		return 0;
	n = cursor_number(c);
	if (n < 1 || n > GRAMMAR_MOST_REPEAT || !cursor_take(c, ')'))
		return cursor_fail(c, "(tokens) of a limit are needed");
	if (c->g->limit && c->g->limit != n)
		return cursor_fail(c, "another limit than before, before this");
	return c->g->limit = n;
}

static int32_t until(struct cursor *c)
{
	const int32_t tokens = limit(c);
	struct gguf_text not_in[MOST_UNTIL];
	int32_t n = 0, x = EXPR_FAILED;

	do {
		size_t size;
		char *text = tokens < 0 ? NULL : read_literal(c, &size);

		if (text)
			not_in[n++] = (struct gguf_text){ text, size };
		blanks(c, false);
	} while (!c->g->err.code && n < MOST_UNTIL && cursor_take(c, ','));
	if (!c->g->err.code)
		x = expr_until(c->g, not_in, n, tokens > 0);
	while (n)
		free((void *)(uintptr_t)not_in[--n].data);
	return x;
}

static int32_t token(struct cursor *c)
{
	size_t size = 0;
	char *name = read_literal(c, &size);
	const int32_t x = !name  ? EXPR_FAILED
					  : size ? expr_token(c->g, name, size)
							 : cursor_fail(c, "a token's name, before this");

	free(name);
	return x;
}

/* The spec of a text that comes later; takes it. */
static int32_t inner(struct cursor *c, char *spec)
{
	const int32_t rule = spec ? rule_new(c->g, "%", 1) : EXPR_FAILED;

	if (rule < 0 || !ARRAY_ROOM(c->inner, c->cap_inner, c->n_inner + 1)) {
		free(spec);
		return grammar_no_memory(c->g);
	}
	c->inner[c->n_inner++] = (struct gbnf_inner){ rule, spec };
	return expr_rule(c->g, rule);
}

/* Bytes of a JSON object, or of true; whether it is one is the schema reader's affair. */
static size_t json_bytes(const struct cursor *c)
{
	size_t n = 0, depth = 0;
	bool text = false;

	if (cursor_byte(c) == 't')
		return strlen("true");
	for (const char *at = c->at; at < c->end; at++, n++) {
		if (text && *at == '\\')
			at++, n++;
		else if (*at == '"')
			text = !text;
		else if (!text)
			depth = depth + (*at == '{') - (*at == '}');
		if (!depth)
			return n + 1;
	}
	return 0;
}

static int32_t schema(struct cursor *c)
{
	char *spec = NULL;
	size_t n;

	blanks(c, false);
	n = json_bytes(c);
	if (!n || (size_t)(c->end - c->at) < n || (*c->at != '{' && *c->at != 't'))
		return cursor_fail(c, "a JSON schema {…} is needed");
	if (asprintf(&spec, "schema:%.*s", (int)n, c->at) < 0)
		spec = NULL;
	c->at += n;
	return inner(c, spec);
}

static int32_t other_spec(struct cursor *c)
{
	size_t size;
	char *spec = read_literal(c, &size);

	return spec ? inner(c, spec) : EXPR_FAILED;
}

/* What begins with %, which was taken. */
static int32_t gbnf_part(struct cursor *c)
{
	static const struct {
		const char *name;
		int32_t (*read)(struct cursor *c);
	} parts[] = { { "until", until }, { "token", token }, { "json", schema },
		{ "spec", other_spec } };

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		const size_t n = strlen(parts[i].name);

		if ((size_t)(c->end - c->at) < n || memcmp(c->at, parts[i].name, n) != 0)
			continue;
		c->at += n;
		return parts[i].read(c);
	}
	return cursor_fail(c, "%until, %token, %json or %spec is needed, before this");
}

/* ---- GBNF ---- */

static int32_t literal(struct cursor *c)
{
	int32_t all = expr_empty(c->g);

	while (!cursor_take(c, '"')) {
		const uint32_t point = character(c);

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
		const uint32_t from = character(c);
		uint32_t to = from;

		if (from != CURSOR_END && c->at + 1 < c->end && c->at[0] == '-' && c->at[1] != ']') {
			c->at++;
			to = character(c);
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
		blanks(c, inside);
		one = item(c);
		if (c->g->err.code)
			return EXPR_FAILED;
		if (one < 0)
			return all;
		blanks(c, inside);
		while (cursor_repeat(c, &least, &most))
			one = expr_repeat(c->g, one, least, most);
		all = expr_then(c->g, all, one);
	}
}

static bool goes_on(struct cursor *c, bool inside)
{
	const char *here = c->at;

	blanks(c, true);
	if (cursor_take(c, '|')) {
		blanks(c, true);
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
	blanks(c, false);
	if (c->end - c->at < 3 || memcmp(c->at, "::=", 3) != 0)
		return cursor_fail(c, "::= is needed");
	c->at += 3;
	blanks(c, true);
	return number;
}

static void rule(struct cursor *c)
{
	const int32_t number = head(c), x = number < 0 ? EXPR_FAILED : alternatives(c, false);

	if (x < 0)
		return;
	c->g->rule[number].expr = x;
	blanks(c, false);
	if (c->at < c->end && !cursor_take(c, '\n'))
		cursor_fail(c, "something that is no part of a rule");
}

/* Reads the inner texts; in any case frees them. */
static void read_inner(struct cursor *c)
{
	struct grammar *g = c->g;

	if (c->n_inner && ++g->depth > MOST_INNER_DEPTH)
		grammar_fail(g, ERR_USAGE, "too many texts inside one another");
	for (int32_t i = 0; i < c->n_inner; i++) {
		const int32_t root = g->n_rules;

		g->base = root;
		if (!g->err.code)
			spec_read(g, c->inner[i].spec);
		if (!g->err.code)
			g->rule[c->inner[i].rule].expr = expr_rule(g, root);
		free(c->inner[i].spec);
	}
	g->depth -= c->n_inner > 0;
	free(c->inner);
}

void gbnf_read(struct grammar *g, const char *text, size_t size)
{
	struct cursor c = { .g = g, .text = text, .at = text, .end = text + size };
	const int32_t base = g->base, root = g->n_rules;

	g->base = root;
	rule_new(g, "root", 4);
	for (blanks(&c, true); c.at < c.end && !g->err.code; blanks(&c, true))
		rule(&c);
	if (!g->err.code && g->rule[root].expr < 0)
		grammar_fail(g, ERR_USAGE, "there is no rule root, which an answer is made of");
	read_inner(&c);
	g->base = base;
}

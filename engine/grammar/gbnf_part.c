/* What grammars of answers with several parts need beside GBNF: see readers.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/array.h"
#include "engine/grammar/cursor.h"
#include "engine/grammar/readers.h"
#include "engine/model/gguf.h"

enum { MOST_UNTIL = 8, MOST_INNER_DEPTH = 4 };

static void put_point(FILE *f, uint32_t c)
{
	utf8proc_uint8_t bytes[4];

	fwrite(bytes, 1, (size_t)utf8proc_encode_char((utf8proc_int32_t)c, bytes), f);
}

/* A literal as text, malloc'd; NULL with the error: none is next. */
static char *literal(struct cursor *c, size_t *size)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, size);
	bool ok = f;

	cursor_blanks(c, false);
	if (ok && !cursor_take(c, '"')) {
		cursor_fail(c, "a text in \" is needed");
		ok = false;
	}
	while (ok && !cursor_take(c, '"')) {
		const uint32_t point = cursor_character(c);

		ok = point != CURSOR_END;
		if (ok)
			put_point(f, point);
		else
			cursor_fail(c, "a literal that does not end with \"");
	}
	if (!f || fclose(f))
		grammar_fail(c->g, ERR_MEMORY, "no memory");
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
		char *text = tokens < 0 ? NULL : literal(c, &size);

		if (text)
			not_in[n++] = (struct gguf_text){ text, size };
		cursor_blanks(c, false);
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
	char *name = literal(c, &size);
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
		return grammar_fail(c->g, ERR_MEMORY, "no memory");
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

	cursor_blanks(c, false);
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
	char *spec = literal(c, &size);

	return spec ? inner(c, spec) : EXPR_FAILED;
}

int32_t gbnf_part(struct cursor *c)
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

void gbnf_read_inner(struct cursor *c)
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

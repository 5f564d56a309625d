/* The arguments of a call, from each format to JSON. See parts.h. */
#include <stdio.h>
#include <string.h>

#include "engine/text/parts_private.h"

/* Inside a JSON string. */
static void put_escaped(struct parts *t, struct parts_text *to, const char *text, size_t n)
{
	char code[8];

	for (size_t i = 0; i < n; i++) {
		const unsigned char b = (unsigned char)text[i];

		if (b == '"' || b == '\\')
			snprintf(code, sizeof code, "\\%c", b);
		else if (b == '\n')
			strcpy(code, "\\n");
		else if (b < 0x20)
			snprintf(code, sizeof code, "\\u%04x", b);
		else
			snprintf(code, sizeof code, "%c", b);
		parts_word(t, to, code);
	}
}

/* JSON, as it is. */
static bool value_json(struct parts *t, const struct parts_raw *r)
{
	const size_t from = t->at;
	bool whole = false;

	for (; t->at < r->n && !whole; t->at++) {
		const char c = r->text[t->at];

		if (t->quoted && !t->escaped && c == '"')
			t->quoted = false;
		else if (!t->quoted && c == '"')
			t->quoted = true;
		else if (!t->quoted)
			t->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
		t->escaped = t->quoted && !t->escaped && c == '\\';
		whole = !t->depth && (c == '}' || c == ']');
	}
	parts_put(t, &parts_now(t)->args, r->text + from, t->at - from);
	return whole;
}

/* Texts between quotes of a token of their own, and names without any. */
static bool value_bare(struct parts *t, const struct parts_raw *r)
{
	struct parts_text *to = &parts_now(t)->args;
	const char *quote = t->calls->quote;

	while (t->at < r->n) {
		const enum parts_is is = parts_begins(r, t->at, quote);
		const char c = r->text[t->at];

		if (is == PARTS_BEGUN)
			return false;
		if (is == PARTS_WHOLE) {
			parts_word(t, to, "\"");
			t->quoted = !t->quoted;
			t->at += strlen(quote);
			continue;
		}
		t->at++;
		if (t->quoted) {
			put_escaped(t, to, &c, 1);
			continue;
		}
		if (t->key && c != '}') {
			parts_word(t, to, "\"");
			t->key = false;
		}
		if (c == ':')
			parts_word(t, to, "\"");
		parts_put(t, to, &c, 1);
		t->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
		if ((c == '{' || c == '[') && t->depth >= 0 && t->depth < 64)
			t->lists = (t->lists & ~(UINT64_C(1) << t->depth)) | (uint64_t)(c == '[') << t->depth;
		t->key =
			(c == '{' || c == ',') && t->depth > 0 && t->depth < 64 && !(t->lists >> t->depth & 1);
		if (!t->depth && c == '}')
			return true;
	}
	return false;
}

/* Whether a parameter is a text in its tool's schema. */
static bool is_text(const struct parts *t, const char *tool, const char *name, size_t size)
{
	const cJSON *one, *p, *type = NULL;

	cJSON_ArrayForEach(one, t->tools)
	{
		const char *its = foreign_text(one, "name");

		if (!its || strcmp(its, tool) != 0)
			continue;
		cJSON_ArrayForEach(p, foreign_member(foreign_member(one, "parameters"), "properties"))
		{
			if (strlen(p->string) == size && !memcmp(p->string, name, size))
				type = foreign_member(p, "type");
		}
	}
	return foreign_is(type, "string");
}

/* The head of the next parameter; *end: there is none any more. */
static bool xml_head(struct parts *t, const struct parts_raw *r, bool *end)
{
	static const char head[] = "<parameter=";
	struct parts_text *to = &parts_now(t)->args;
	const enum parts_is is = parts_begins(r, t->at, head);
	const char *name = r->text + t->at + strlen(head), *close;

	*end = is == PARTS_NOT;
	if (is != PARTS_WHOLE)
		return false;
	close = memchr(name, '>', r->n - (size_t)(name - r->text));
	if (!close || close + 1 == r->text + r->n)
		return false;
	parts_word(t, to, to->n > 1 ? ", \"" : "\"");
	put_escaped(t, to, name, (size_t)(close - name));
	parts_word(t, to, "\": ");
	t->quoted = is_text(t, parts_now(t)->name.text, name, (size_t)(close - name));
	if (t->quoted)
		parts_word(t, to, "\"");
	t->at = (size_t)(close - r->text) + 1 + (close[1] == '\n');
	t->key = true;
	return true;
}

/* JSON, or a word of Python's, which templates write. */
static void put_value(struct parts *t, struct parts_text *to, const char *text, size_t n)
{
	static const char *const words[][2] = { { "True", "true" }, { "False", "false" },
		{ "None", "null" } };

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strlen(words[i][0]) == n && !memcmp(words[i][0], text, n)) {
			parts_word(t, to, words[i][1]);
			return;
		}
	parts_put(t, to, text, n);
}

static bool value_xml(struct parts *t, const struct parts_raw *r)
{
	static const char tail[] = "\n</parameter>\n";
	struct parts_text *to = &parts_now(t)->args;
	bool whole, end;
	size_t at;

	if (!to->n)
		parts_word(t, to, "{");
	for (;;) {
		if (!t->key && !xml_head(t, r, &end)) {
			if (end)
				parts_word(t, to, "}");
			return end;
		}
		at = parts_find(r, t->looked > t->at ? t->looked : t->at, tail, &whole);
		t->looked = at;
		if (t->quoted)
			put_escaped(t, to, r->text + t->at, at - t->at);
		else if (whole)
			put_value(t, to, r->text + t->at, at - t->at);
		if (t->quoted || whole)
			t->at = at;
		if (!whole)
			return false;
		if (t->quoted)
			parts_word(t, to, "\"");
		t->at += strlen(tail);
		t->key = t->quoted = false;
	}
}

bool parts_value(struct parts *t, const struct parts_raw *r)
{
	switch (t->calls->kind) {
	case PARTS_XML: return value_xml(t, r);
	case PARTS_BARE: return value_bare(t, r);
	default: return value_json(t, r);
	}
}

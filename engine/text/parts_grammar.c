/* The grammar of a turn, in GBNF with what engine/grammar/readers.h adds to it. See parts.h. */
#include "engine/text/parts.h"

/* MOST_TEXT: as GRAMMAR_MOST_TEXT; MOST_PROPERTIES: each is looked for among the others. */
enum { MOST_NESTING = 16, MOST_TEXT = 1 << 20, MOST_PROPERTIES = 1000 };

struct writing {
	const struct parts_calls *calls;
	FILE *f;
	int32_t n; /* rules made so far */
	struct err *e;
	const char *tool; /* whose arguments are written */
};

/* ---- literals ---- */

/* Between quotes. */
static void put_quoted(FILE *f, const char *text, size_t n)
{
	for (; n; n--, text++)
		if (*text == '"' || *text == '\\')
			fprintf(f, "\\%c", *text);
		else if (*text == '\n')
			fputs("\\n", f);
		else if ((unsigned char)*text < ' ')
			fprintf(f, "\\x%02x", *text);
		else
			fputc(*text, f);
}

static void put_literal(FILE *f, const char *text, size_t n)
{
	if (!n)
		return;
	fputs(" \"", f);
	put_quoted(f, text, n);
	fputc('"', f);
}

static void put_token(FILE *f, const char *name)
{
	fputs(" %token", f);
	put_literal(f, name, strlen(name));
}

/* Bytes of the control token that a text begins with, or 0. */
static size_t token_at(const struct parts_calls *c, const char *text)
{
	for (size_t i = 0; i < sizeof c->token / sizeof *c->token; i++)
		if (c->token[i] && !strncmp(text, c->token[i], strlen(c->token[i])))
			return strlen(c->token[i]);
	return 0;
}

/* A mark of the format, its control tokens apart. */
static void put_mark(struct writing *w, const char *text)
{
	const char *from = text;

	while (*text) {
		const size_t n = token_at(w->calls, text);
		const bool id = *text == *PARTS_ID;

		if (n || id)
			put_literal(w->f, from, (size_t)(text - from));
		if (n)
			fprintf(w->f, " %%token \"%.*s\"", (int)n, text);
		if (id)
			fputs(" [a-zA-Z0-9]{9}", w->f);
		text += n ? n : 1;
		from = n || id ? text : from;
	}
	put_literal(w->f, from, (size_t)(text - from));
}

/* ---- arguments ---- */

static void refuse(struct writing *w, const char *name, const char *what)
{
	err_set(w->e, ERR_USAGE, "tools: %.64s: parameter %.64s: the format %s has no form for %s",
		w->tool, name, w->calls->name, what);
}

static bool refers(const cJSON *schema)
{
	const cJSON *one;

	cJSON_ArrayForEach(one, schema)
	{
		if ((one->string && !strcmp(one->string, "$ref")) || refers(one))
			return true;
	}
	return false;
}

/* The schema of a value, with the definitions that it refers to. */
static void put_schema(struct writing *w, const cJSON *schema, const cJSON *whole)
{
	static const char *const defs[] = { "$defs", "definitions" };
	cJSON *copy = cJSON_Duplicate(schema, true);
	char *text = NULL;

	for (int i = 0; copy && schema != whole && refers(copy) && i < 2; i++)
		if (foreign_member(whole, defs[i]) && !foreign_member(copy, defs[i]))
			cJSON_AddItemToObject(
				copy, defs[i], cJSON_Duplicate(foreign_member(whole, defs[i]), true));
	text = copy ? foreign_json_print(copy) : NULL;
	if (text)
		fprintf(w->f, " %%json %s", text);
	else
		err_no_memory(w->e, "a grammar");
	if (ftell(w->f) > MOST_TEXT)
		err_set(w->e, ERR_USAGE, "tools: their grammar is longer than %d bytes", MOST_TEXT);
	cJSON_free(text);
	cJSON_Delete(copy);
}

/* One of the texts of an enum. */
static void put_choice(struct writing *w, const char *name, const cJSON *list)
{
	const cJSON *one;

	fputs(" (", w->f);
	cJSON_ArrayForEach(one, list)
	{
		if (!cJSON_IsString(one))
			refuse(w, name, "an enum of other values than texts");
		else if (one != list->child)
			fputs(" |", w->f);
		if (cJSON_IsString(one) && !*one->valuestring)
			fputs(" \"\"", w->f);
		else if (cJSON_IsString(one))
			put_literal(w->f, one->valuestring, strlen(one->valuestring));
	}
	fputs(" )", w->f);
}

static bool asks(const cJSON *schema, const char *const *names)
{
	for (; *names; names++)
		if (foreign_member(schema, *names))
			return true;
	return false;
}

/* A text, up to what ends it. */
static void put_text(struct writing *w, const char *name, const cJSON *p, const char *end)
{
	static const char *const bounds[] = { "pattern", "format", "minLength", "maxLength", "const",
		"anyOf", "oneOf", "allOf", "$ref", NULL };

	if (asks(p, bounds))
		refuse(w, name, "a text with bounds");
	else if (foreign_member(p, "enum"))
		put_choice(w, name, foreign_member(p, "enum"));
	else {
		fputs(" %until", w->f);
		put_literal(w->f, end, strlen(end));
	}
}

static const char *type_of(const cJSON *p)
{
	const char *type = foreign_text(p, "type");

	return type ? type : "";
}

static bool is_required(const cJSON *schema, const char *name)
{
	const cJSON *one;

	cJSON_ArrayForEach(one, foreign_member(schema, "required"))
	{
		if (cJSON_IsString(one) && !strcmp(one->valuestring, name))
			return true;
	}
	return false;
}

/* Of an object whose properties are written one by one. */
static bool check_object(struct writing *w, const char *name, const cJSON *schema)
{
	static const char *const others[] = { "anyOf", "oneOf", "allOf", "not", "if", "$ref",
		"patternProperties", "minProperties", "maxProperties", "dependentRequired", "const", "enum",
		NULL };
	const cJSON *properties = foreign_member(schema, "properties"),
				*required = foreign_member(schema, "required"), *one;

	if (asks(schema, others))
		refuse(w, name, "objects but for properties and required");
	if (cJSON_GetArraySize(properties) > MOST_PROPERTIES ||
		cJSON_GetArraySize(required) > MOST_PROPERTIES)
		refuse(w, name, "so many properties");
	cJSON_ArrayForEach(one, (w->e->code ? NULL : required))
	{
		if (!cJSON_IsString(one) || !foreign_member(properties, one->valuestring))
			refuse(w, name, "a required property that is not among the properties");
	}
	return !w->e->code;
}

static void put_xml(struct writing *w, const cJSON *schema)
{
	const cJSON *p;

	if (!check_object(w, "object", schema))
		return;
	cJSON_ArrayForEach(p, foreign_member(schema, "properties"))
	{
		if (w->e->code)
			return;
		const bool must = is_required(schema, p->string);

		fputs(must ? " \"<parameter=" : " ( \"<parameter=", w->f);
		put_quoted(w->f, p->string, strlen(p->string));
		fputs(">\\n\"", w->f);
		if (!strcmp(type_of(p), "string"))
			put_text(w, p->string, p, "\n</parameter>");
		else if (!strcmp(type_of(p), "boolean"))
			fputs(" ( \"true\" | \"false\" | \"True\" | \"False\" )", w->f);
		else
			put_schema(w, p, schema);
		fputs(must ? " \"\\n</parameter>\\n\"" : " \"\\n</parameter>\\n\" )?", w->f);
	}
}

static int32_t put_bare(struct writing *w, const char *name, const cJSON *p, int depth);

/* By the order of their names, as templates have them. */
static int by_name(const void *a, const void *b)
{
	return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

/* Rules for what may follow in an object from a property on: `a` where none was before it, `b`
 * where one was. */
static void put_members(struct writing *w, const cJSON *schema, const cJSON **p, int n,
	const int32_t *value, int32_t id)
{
	for (int i = 0; i < n; i++)
		for (char way = 'a'; way <= 'b'; way++) {
			fprintf(w->f, "m%d%c%d ::= %s\"", id, way, i, way == 'b' ? "\",\" " : "");
			put_quoted(w->f, p[i]->string, strlen(p[i]->string));
			fprintf(w->f, ":\" v%d m%db%d", value[i], id, i + 1);
			if (!is_required(schema, p[i]->string))
				fprintf(w->f, " | m%d%c%d", id, way, i + 1);
			fputc('\n', w->f);
		}
	fprintf(w->f, "m%da%d ::= \"\"\nm%db%d ::= \"\"\n", id, n, id, n);
}

static void put_object(
	struct writing *w, const char *name, const cJSON *schema, int32_t id, int depth)
{
	const cJSON *of = foreign_member(schema, "properties"), *one;
	const int n = cJSON_GetArraySize(of);
	const cJSON **p = calloc((size_t)n + 1, sizeof *p);
	int32_t *value = calloc((size_t)n + 1, sizeof *value);
	int i = 0;

	if (!p || !value)
		err_no_memory(w->e, "a grammar");
	else if (check_object(w, name, schema)) {
		cJSON_ArrayForEach(one, of) p[i++] = one;
		qsort(p, (size_t)n, sizeof *p, by_name);
		for (i = 0; i < n && !w->e->code; i++)
			value[i] = put_bare(w, p[i]->string, p[i], depth + 1);
		put_members(w, schema, p, n, value, id);
		fprintf(w->f, "v%d ::= \"{\" m%da0 \"}\"\n", id, id);
	}
	free(p);
	free(value);
}

static void put_array(struct writing *w, const char *name, const cJSON *p, int32_t id, int depth)
{
	static const char *const bounds[] = { "prefixItems", "minItems", "maxItems", "uniqueItems",
		"contains", NULL };
	int32_t item;

	if (asks(p, bounds) || !cJSON_IsObject(foreign_member(p, "items"))) {
		refuse(w, name, "lists but for items of one kind");
		return;
	}
	item = put_bare(w, name, foreign_member(p, "items"), depth + 1);
	fprintf(w->f, "v%d ::= \"[\" ( v%d ( \",\" v%d )* )? \"]\"\n", id, item, item);
}

/* A rule v<n> for a value; returns n. */
static int32_t put_bare(struct writing *w, const char *name, const cJSON *p, int depth)
{
	const int32_t id = ++w->n;
	const char *type = type_of(p);

	if (depth > MOST_NESTING)
		refuse(w, name, "so many levels");
	else if (!strcmp(type, "object"))
		put_object(w, name, p, id, depth);
	else if (!strcmp(type, "array"))
		put_array(w, name, p, id, depth);
	else if (!strcmp(type, "string")) {
		fprintf(w->f, "v%d ::=", id);
		put_token(w->f, w->calls->quote);
		put_text(w, name, p, w->calls->quote);
		put_token(w->f, w->calls->quote);
		fputc('\n', w->f);
	} else if (*type && !foreign_member(p, "enum")) {
		fprintf(w->f, "v%d ::=", id);
		put_schema(w, p, p);
		fputc('\n', w->f);
	} else
		refuse(w, name, "a value without one type, or another enum than of texts");
	return id;
}

/* The schema of a tool's arguments: always an object. */
static cJSON *parameters_of(const cJSON *tool)
{
	cJSON *p = cJSON_IsObject(foreign_member(tool, "parameters"))
				   ? cJSON_Duplicate(foreign_member(tool, "parameters"), true)
				   : cJSON_CreateObject();

	if (p && !foreign_member(p, "type"))
		cJSON_AddStringToObject(p, "type", "object");
	if (p && !foreign_member(p, "properties") && !foreign_member(p, "additionalProperties") &&
		!foreign_member(p, "$ref"))
		cJSON_AddNumberToObject(p, "maxProperties", 0);
	return p;
}

static void put_args(struct writing *w, const cJSON *tool, int i)
{
	cJSON *p = parameters_of(tool);
	int32_t value = 0;

	w->tool = foreign_text(tool, "name");
	if (!p)
		err_no_memory(w->e, "a grammar");
	else if (w->calls->kind != PARTS_JSON && !foreign_member(p, "properties"))
		cJSON_DeleteItemFromObject(p, "maxProperties");
	if (w->calls->kind == PARTS_BARE && p)
		value = put_bare(w, "object", p, 0);
	fprintf(w->f, "arguments-%d ::=", i);
	if (p && w->calls->kind == PARTS_JSON)
		put_schema(w, p, p);
	else if (p && w->calls->kind == PARTS_XML)
		put_xml(w, p);
	else
		fprintf(w->f, " v%d", value);
	fputs(" \"\"\n", w->f);
	cJSON_Delete(p);
}

/* ---- the turn ---- */

static bool is_called(const struct parts_rules *r, const cJSON *tool)
{
	const char *name = foreign_text(tool, "name");

	return name && (!r->name || !strcmp(r->name, name));
}

static void put_calls(struct writing *w, const struct parts_rules *r)
{
	const cJSON *tool;
	int i = 0, n = 0;

	fputs("calls ::=", w->f);
	put_mark(w, w->calls->open);
	fputs(" call", w->f);
	if (w->calls->between && !r->one) {
		fputs(" (", w->f);
		put_mark(w, w->calls->between);
		fputs(*w->calls->between == '\n' ? "? call )*" : " call )*", w->f);
	}
	put_mark(w, w->calls->close);
	fputs("\ncall ::=", w->f);
	put_mark(w, w->calls->call);
	fputs(" (", w->f);
	cJSON_ArrayForEach(tool, r->tools)
	{
		const char *name = foreign_text(tool, "name");

		i++;
		if (!is_called(r, tool))
			continue;
		fputs(n++ ? " |" : "", w->f);
		put_literal(w->f, name, strlen(name));
		put_mark(w, w->calls->args);
		fprintf(w->f, " arguments-%d", i);
	}
	fputs(" )", w->f);
	put_mark(w, w->calls->done);
	fputc('\n', w->f);
	i = 0;
	cJSON_ArrayForEach(tool, r->tools)
	{
		i++;
		if (is_called(r, tool) && !w->e->code)
			put_args(w, tool, i);
	}
}

static void put_thought(struct writing *w, const struct parts_rules *r)
{
	const struct parts_thought *h = r->thought;

	if (!h)
		return;
	fputs(r->begun ? " thought [ \\n]{0,4}" : " (", w->f);
	if (!r->begun) {
		put_token(w->f, h->open);
		fputs(" thought [ \\n]{0,4} )?", w->f);
	}
}

/* What the answer is bound to after its thought. */
static void put_spec(struct writing *w, const char *spec)
{
	static const char schema[] = "schema:";

	if (!strncmp(spec, schema, strlen(schema)) && spec[strlen(schema)] == '{') {
		fprintf(w->f, " %%json %s", spec + strlen(schema));
		return;
	}
	fputs(" %spec", w->f);
	put_literal(w->f, spec, strlen(spec));
}

static void put_root(struct writing *w, const struct parts_rules *r)
{
	fputs("root ::=", w->f);
	put_thought(w, r);
	if (r->spec)
		put_spec(w, r->spec);
	else if (!r->calls)
		fputs(" .*", w->f);
	else if (r->must)
		fputs(" calls", w->f);
	else if (r->calls->first)
		fputs(" ( calls | text )?", w->f);
	else
		fputs(" text calls?", w->f);
	fputc('\n', w->f);
	if (r->thought) {
		fputs("thought ::= %until", w->f);
		if (r->budget)
			fprintf(w->f, "(%d)", r->budget);
		put_literal(w->f, r->thought->close, strlen(r->thought->close));
		put_token(w->f, r->thought->close);
		fputc('\n', w->f);
	}
	if (r->calls && !r->must && r->calls->first)
		fputs("text ::= [^{ \\n] .*\n", w->f);
	else if (r->calls && !r->must) {
		fputs("text ::= %until", w->f);
		put_literal(w->f, r->calls->mark, strlen(r->calls->mark));
		fputc('\n', w->f);
	}
}

char *parts_grammar(const struct parts_rules *r, struct err *e)
{
	char *text = NULL;
	size_t size;
	struct writing w = { .calls = r->calls, .e = e };

	w.f = open_memstream(&text, &size);
	if (w.f) {
		fputs("gbnf:", w.f);
		put_root(&w, r);
		if (r->calls)
			put_calls(&w, r);
	}
	if (!w.f || fclose(w.f))
		err_no_memory(e, "a grammar");
	if (!e->code)
		return text;
	free(text);
	return NULL;
}

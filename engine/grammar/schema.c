/* JSON schemas: the document, its rules. See readers.h and schema_impl.h. */
#include <stdarg.h>

#include "base/array.h"
#include "base/foreign_json.h"
#include "base/text.h"
#include "engine/grammar/schema_impl.h"

/* ---- errors ---- */

/* The way to `at` as a JSON pointer; false: it is not below `of`. */
static bool find_path(const cJSON *of, const cJSON *at, char *path, size_t used, size_t cap)
{
	const cJSON *one;
	int i = 0;

	if (of == at)
		return true;
	cJSON_ArrayForEach(one, of)
	{
		int n = cJSON_IsArray(of) ? snprintf(path + used, cap - used, "/%d", i++)
								  : snprintf(path + used, cap - used, "/%s", one->string);

		if (find_path(one, at, path, used + (size_t)n < cap ? used + (size_t)n : cap - 1, cap))
			return true;
		path[used] = 0;
	}
	return false;
}

int32_t schema_fail(struct schema *s, const cJSON *at, const char *fmt, ...)
{
	char path[200] = "", what[240];
	va_list args;

	if (s->g->err.code)
		return EXPR_FAILED;
	va_start(args, fmt);
	vsnprintf(what, sizeof what, fmt, args);
	va_end(args);
	find_path(s->doc, at, path, 0, sizeof path);
	for (char *c = path; *c; c++)
		*c = (char)((unsigned char)*c < ' ' ? '?' : *c);
	return grammar_fail(s->g, ERR_USAGE, "schema: %s%s%s", path, *path ? ": " : "", what);
}

bool schema_works(struct schema *s, int64_t n)
{
	s->work += n;
	if (s->work > SCHEMA_WORK)
		grammar_fail(s->g, ERR_USAGE,
			"schema: it takes too much work to read: it is too large, or "
			"too many of its parts apply to one another");
	return !s->g->err.code;
}

/* ---- rules ---- */

static const char *type_name(int types)
{
	static const char *const name[] = { "null", "boolean", "object", "array", "string", "integer" };

	for (int i = 0; i < 6; i++)
		if (types == 1 << i)
			return name[i];
	return types == TYPE_NUMBER ? "number" : "value";
}

static int32_t of_types(struct schema *s, const struct demand *d, int types)
{
	struct grammar *g = s->g;
	int32_t all = expr_never(g);

	if (types & TYPE_OBJECT)
		all = expr_or(g, all, schema_object(s, d));
	if (types & TYPE_ARRAY)
		all = expr_or(g, all, schema_array(s, d));
	if (types & TYPE_STRING)
		all = expr_or(g, all, schema_string(s, d));
	if (types & TYPE_INTEGER)
		all = expr_or(g, all, schema_numbers(s, d, !(types & TYPE_FRACTION)));
	if (types & TYPE_BOOLEAN)
		all = EXPR_ANY(g, all, expr_word(g, "true"), expr_word(g, "false"));
	return types & TYPE_NULL ? expr_or(g, all, expr_word(g, "null")) : all;
}

/* Branches of anyOf or oneOf, each with the rest of the demand. */
static int32_t of_branches(
	struct schema *s, const struct demand *d, int32_t at, const cJSON *list, bool one)
{
	const int n = cJSON_GetArraySize(list);
	struct demand *branch = calloc((size_t)n + 1, sizeof *branch);
	const cJSON *schema = list->child;
	int32_t all = branch ? expr_never(s->g) : grammar_no_memory(s->g);

	for (int i = 0; branch && i < n; i++, schema = schema->next) {
		demand_copy(s, &branch[i], d, 0);
		if (s->g->err.code)
			break;
		branch[i].part[at].used |= one ? USED_ONE_OF : USED_ANY_OF;
		demand_add(s, &branch[i], schema, at);
		for (int k = 0; one && k < i && !s->g->err.code; k++)
			if (!demands_differ(s, &branch[k], &branch[i], 0))
				schema_fail(s, d->part[at].schema,
					"`oneOf`: one value may satisfy branches %d and %d; give them different "
					"types, or "
					"a required property with a different const each, or use anyOf",
					k, i);
	}
	for (int i = 0; branch && i < n; i++)
		all =
			expr_or(s->g, all, schema_value(s, &branch[i], type_name(demand_types(s, &branch[i]))));
	free(branch);
	return s->g->err.code ? EXPR_FAILED : all;
}

static int32_t body(struct schema *s, const struct demand *d)
{
	const int types = demand_types(s, d);
	bool is_const;

	for (int32_t i = 0; i < d->n; i++)
		if (!(d->part[i].used & USED_ENUM) && schema_enum_of(s, &d->part[i], &is_const))
			return schema_enum(s, d);
	for (int32_t i = 0; i < d->n; i++)
		schema_refuse(s, &d->part[i], types);
	for (int32_t i = 0; i < d->n; i++)
		for (int one = 0; one < 2; one++) {
			const char *name = one ? "oneOf" : "anyOf";
			const cJSON *list = d->part[i].used & (one ? USED_ONE_OF : USED_ANY_OF)
									? NULL
									: schema_typed(s, d->part[i].schema, name, TYPE_ARRAY);

			if (list)
				return of_branches(s, d, i, list, one);
		}
	return s->g->err.code ? EXPR_FAILED : of_types(s, d, types);
}

/* ---- equal demands ---- */

static int by_key(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The parts that ask for something; schemas lie apart by more than what is used may say. */
static bool make_key(struct schema *s, struct made *m)
{
	m->key = calloc((size_t)m->demand.n + 1, sizeof *m->key);
	if (!m->key) {
		grammar_no_memory(s->g);
		return false;
	}
	for (int32_t i = 0; i < m->demand.n; i++)
		if (schema_asks(s, &m->demand.part[i]))
			m->key[m->n_key++] =
				(uint64_t)(uintptr_t)m->demand.part[i].schema | m->demand.part[i].used;
	qsort(m->key, (size_t)m->n_key, sizeof *m->key, by_key);
	m->hash = 1;
	for (int32_t i = 0; i < m->n_key; i++)
		m->hash = (m->hash ^ (uint32_t)(m->key[i] ^ m->key[i] >> 32)) * 0x9e3779b1u;
	m->hash ^= m->hash >> 15;
	return !s->g->err.code;
}

static int32_t find_made(const struct schema *s, const struct made *m)
{
	int32_t i = s->bucket[m->hash % SCHEMA_BUCKETS];

	while (i >= 0 && (s->made[i].hash != m->hash || s->made[i].n_key != m->n_key ||
						 memcmp(s->made[i].key, m->key, (size_t)m->n_key * sizeof *m->key)))
		i = s->made[i].next;
	return i;
}

static void made_free(struct made *m)
{
	demand_free(&m->demand);
	free(m->key);
}

/* Its own name; of a definition, which many may refer to, that of the definition. */
static const char *name_of(struct schema *s, const struct made *m, const char *name)
{
	const struct demand *d = &m->demand;

	if (!m->n_key)
		return "value";
	for (int32_t i = d->n - 1; i > 0; i--)
		if (d->part[i].schema->string && schema_asks(s, &d->part[i]))
			return d->part[i].schema->string;
	return name && *name ? name : type_name(demand_types(s, d));
}

int32_t schema_value(struct schema *s, struct demand *d, const char *name)
{
	struct made m = { .demand = *d, .rule = -1 };
	int32_t same = -1;

	*d = (struct demand){ 0 };
	if (s->g->err.code || m.demand.never || !make_key(s, &m)) {
		made_free(&m);
		return s->g->err.code ? EXPR_FAILED : expr_never(s->g);
	}
	same = find_made(s, &m);
	if (same < 0) {
		const char *its = name_of(s, &m, name);

		m.rule = rule_new(s->g, its, text_fit(its, strnlen(its, 40)));
		if (m.rule >= 0 && !ARRAY_ROOM(s->made, s->cap_made, s->n_made + 1))
			m.rule = grammar_no_memory(s->g);
	}
	if (same >= 0 || m.rule < 0) {
		made_free(&m);
		return same >= 0 ? expr_rule(s->g, s->made[same].rule) : EXPR_FAILED;
	}
	m.next = s->bucket[m.hash % SCHEMA_BUCKETS];
	s->bucket[m.hash % SCHEMA_BUCKETS] = s->n_made;
	s->made[s->n_made++] = m;
	return expr_rule(s->g, m.rule);
}

void schema_rules(struct schema *s, struct demand *d)
{
	int32_t root;

	for (int i = 0; i < SCHEMA_BUCKETS; i++)
		s->bucket[i] = -1;
	root = rule_new(s->g, "root", 4);
	json_exprs(s);
	if (!s->g->err.code)
		rule_set(s->g, root, schema_value(s, d, NULL));
	demand_free(d);
	for (int32_t i = 0; i < s->n_made && !s->g->err.code; i++) {
		/* a copy: rules that this one needs move the array */
		const struct demand one = s->made[i].demand;
		const int32_t rule = s->made[i].rule;

		s->rule = s->g->rule[rule].name;
		rule_set(s->g, rule, body(s, &one));
	}
	for (int32_t i = 0; i < s->n_made; i++)
		made_free(&s->made[i]);
	free(s->made);
	if (s->pattern)
		automaton_close(&s->keys_of_pattern);
}

/* ---- the document ---- */

/* Which of two members of one name counts depends on who reads it. */
static void refuse_duplicates(struct schema *s, const cJSON *of)
{
	struct err e = { 0 };
	const char *twice = cJSON_IsObject(of) ? foreign_json_twice(of, &e) : NULL;
	const cJSON *one;

	if (e.code)
		grammar_fail(s->g, e.code, "no memory");
	if (twice)
		schema_fail(s, of, "it has two members \"%.60s\"", twice);
	cJSON_ArrayForEach(one, of)
	{
		refuse_duplicates(s, one);
	}
}

/* A zero byte, written as such or escaped: cJSON would end the string there. */
static bool has_zero(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (!text[i] || (text[i] == '\\' && size - i >= 6 && !memcmp(text + i + 1, "u0000", 5)))
			return true;
		i += text[i] == '\\';
	}
	return false;
}

static cJSON *parse(struct grammar *g, const char *text, size_t size)
{
	size_t end;
	cJSON *doc;

	if (size > GRAMMAR_MOST_TEXT || has_zero(text, size) || !text_is_utf8(text, size)) {
		grammar_fail(g, ERR_USAGE, "schema: it has %s",
			size > GRAMMAR_MOST_TEXT ? "more than a megabyte" : "a zero byte or no valid UTF-8");
		return NULL;
	}
	doc = foreign_json_whole(text, size, &end);
	if (!doc)
		grammar_fail(g, ERR_USAGE, "schema: it is no JSON, or nests too deeply, at byte %zu of %zu",
			end, size);
	return doc;
}

void schema_read(struct grammar *g, const char *text, size_t size)
{
	cJSON *doc = size ? parse(g, text, size) : cJSON_CreateTrue(),
		  *keys = cJSON_Parse("{\"type\":\"string\"}");
	struct schema s = { .g = g, .doc = doc, .keys = keys };
	struct demand d = { 0 };

	if (doc && keys) {
		refuse_duplicates(&s, doc);
		demand_add(&s, &d, doc, -1);
		schema_rules(&s, &d);
	} else {
		grammar_no_memory(g);
	}
	cJSON_Delete(doc);
	cJSON_Delete(keys);
}

void json_read(struct grammar *g, const char *none, size_t size)
{
	(void)none, (void)size;
	schema_read(g, "{\"type\":\"object\"}", 17);
}

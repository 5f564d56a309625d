/* Demands: schemas that apply to one value, and what they ask of its parts. See schema_impl.h. */
#include "base/array.h"
#include "base/text.h"
#include "engine/grammar/schema_impl.h"

void demand_free(struct demand *d)
{
	free(d->part);
	*d = (struct demand){ 0 };
}

void demand_copy(struct schema *s, struct demand *to, const struct demand *d, unsigned used)
{
	*to = (struct demand){ .never = d->never };
	if (!schema_works(s, d->n) || !d->n)
		return;
	if (!ARRAY_ROOM(to->part, to->cap, d->n + 1)) {
		grammar_no_memory(s->g);
		return;
	}
	memcpy(to->part, d->part, (size_t)d->n * sizeof *d->part);
	to->n = d->n;
	for (int32_t i = 0; i < to->n; i++)
		to->part[i].used |= used;
}

/* ---- $ref ---- */

/* One name of a pointer, up to the next '/': %XX, then ~0 and ~1. */
static const char *next_name(const char *at, char *name, size_t cap)
{
	size_t n = 0;

	for (; *at && *at != '/' && n + 1 < cap; at++) {
		char c = *at;

		if (c == '%' && text_hex(at[1]) >= 0 && text_hex(at[2]) >= 0) {
			c = (char)(text_hex(at[1]) * 16 + text_hex(at[2]));
			at += 2;
		}
		if (n && name[n - 1] == '~' && (c == '0' || c == '1'))
			name[n - 1] = c == '0' ? '\xff' : '/'; /* \xff: a '~' that begins no other escape */
		else
			name[n++] = c;
	}
	for (size_t i = 0; i < n; i++)
		name[i] = (char)(name[i] == '\xff' ? '~' : name[i]);
	name[n] = 0;
	return *at == '/' || !*at ? at : NULL;
}

static const cJSON *element(const cJSON *array, const char *number)
{
	char *end;
	const long i = strtol(number, &end, 10);

	return *number >= '0' && *number <= '9' && !*end && i < INT32_MAX
			   ? cJSON_GetArrayItem(array, (int)i)
			   : NULL;
}

static bool has_other_base(struct schema *s, const cJSON *schema)
{
	const cJSON *id = schema == s->doc ? NULL : schema_member(s, schema, "$id");

	return cJSON_IsString(id) && *id->valuestring != '#';
}

/* NULL with the error. */
static const cJSON *referred(struct schema *s, const cJSON *schema, const cJSON *ref)
{
	const cJSON *to = s->doc;
	const char *at = cJSON_IsString(ref) ? ref->valuestring : "";
	char name[512];

	if (*at++ != '#' || (*at && *at != '/')) {
		schema_fail(
			s, schema, "`$ref` is supported to \"#\" and \"#/...\" of the same schema alone");
		return NULL;
	}
	while (at && *at && to) {
		at = next_name(at + 1, name, sizeof name);
		to = cJSON_IsArray(to) ? element(to, name) : schema_member(s, to, name);
		if (has_other_base(s, to)) {
			schema_fail(s, schema, "`$ref` into a schema that has an `$id` is not supported");
			return NULL;
		}
	}
	if (!at || (!cJSON_IsObject(to) && !cJSON_IsBool(to)))
		schema_fail(s, schema, "`$ref`: there is no schema at %.80s", ref->valuestring);
	return s->g->err.code ? NULL : to;
}

/* ---- what applies to the same value ---- */

static bool comes_from(struct schema *s, const struct demand *d, int32_t at, const cJSON *schema)
{
	for (; at >= 0; at = d->part[at].from)
		if (!schema_works(s, 1) || d->part[at].schema == schema)
			return true;
	return false;
}

static void add_one(struct schema *s, struct demand *d, const cJSON *schema, int32_t from)
{
	if (cJSON_IsTrue(schema) || !schema_works(s, d->n + 1))
		return;
	if (comes_from(s, d, from, schema) || cJSON_IsFalse(schema)) { /* it would never end */
		d->never = true;
		return;
	}
	for (int32_t i = 0; i < d->n; i++)
		if (d->part[i].schema == schema)
			return;
	if (!cJSON_IsObject(schema))
		schema_fail(s, schema, "a schema must be an object, true or false");
	else if (has_other_base(s, schema))
		schema_fail(s, schema, "an `$id` inside of a schema is not supported");
	else if (!ARRAY_ROOM(d->part, d->cap, d->n + 1))
		grammar_no_memory(s->g);
	else
		d->part[d->n++] = (struct part){ schema, from, 0 };
}

void demand_add(struct schema *s, struct demand *d, const cJSON *schema, int32_t from)
{
	int32_t i = d->n;

	add_one(s, d, schema, from);
	for (; i < d->n && !s->g->err.code; i++) {
		const cJSON *own = d->part[i].schema, *ref = schema_member(s, own, "$ref"),
					*all = schema_typed(s, own, "allOf", TYPE_ARRAY), *one;
		const cJSON *to = ref ? referred(s, own, ref) : NULL;

		if (to)
			add_one(s, d, to, i);
		cJSON_ArrayForEach(one, all)
		{
			add_one(s, d, one, i);
		}
	}
}

/* ---- what applies to a part of the value ---- */

bool schema_pattern_is_open(const char *pattern)
{
	static const char *const open[] = { "", "^", ".*", "^.*", ".*$" };

	for (size_t i = 0; i < sizeof open / sizeof *open; i++)
		if (!strcmp(pattern, open[i]))
			return true;
	return false;
}

/* The automaton of a pattern, which is kept until another one is asked for. */
static bool open_pattern(struct schema *s, const cJSON *pattern)
{
	struct grammar g = { 0 };
	struct program p = { 0 };
	struct err e = { 0 };

	if (s->pattern == pattern)
		return true;
	if (s->pattern)
		automaton_close(&s->keys_of_pattern);
	s->pattern = NULL;
	rule_set(&g, rule_new(&g, "pattern", 7),
		regex_expr(&g, pattern->string, strlen(pattern->string), true, expr_of_points));
	if (grammar_compile(&g, &p, &e) || automaton_open(&s->keys_of_pattern, &p, &e))
		schema_fail(s, pattern, "this pattern is not supported: %.150s", e.text);
	else if (schema_works(s, g.n_exprs))
		s->pattern = pattern;
	else
		automaton_close(&s->keys_of_pattern);
	grammar_free(&g);
	return s->pattern;
}

bool schema_takes(struct schema *s, struct automaton *a, const char *text)
{
	const int64_t before = a->work;
	int32_t at = a->start;

	for (; *text && at >= 0; text++)
		at = automaton_next(a, at, (unsigned char)*text);
	return schema_works(s, (a->work - before) * 4 + 1) && at >= 0 && a->state[at].ends;
}

bool schema_key_matches(struct schema *s, const cJSON *pattern, const char *name)
{
	return schema_pattern_is_open(pattern->string) ||
		   (open_pattern(s, pattern) && schema_takes(s, &s->keys_of_pattern, name));
}

/* What a schema itself says of the property, which is added to *out unless that is NULL. False: it
 * says nothing of it. */
static bool knows_property(
	struct schema *s, const cJSON *schema, const char *name, struct demand *out)
{
	const cJSON *own = name ? schema_member(s, schema_member(s, schema, "properties"), name) : NULL;
	const cJSON *others = schema_member(s, schema, "additionalProperties"), *one;
	bool known = own;

	if (own && out)
		demand_add(s, out, own, -1);
	cJSON_ArrayForEach(one, schema_member(s, schema, "patternProperties"))
	{
		if (name && !schema_key_matches(s, one, name))
			continue;
		known = true;
		if (out)
			demand_add(s, out, one, -1);
	}
	if (!known && others && out)
		demand_add(s, out, others, -1);
	return known || others;
}

static bool knows_item(struct schema *s, const cJSON *schema, int32_t i, struct demand *out)
{
	const cJSON *first = schema_typed(s, schema, "prefixItems", TYPE_ARRAY),
				*items = schema_member(s, schema, "items");

	if (cJSON_IsArray(items))
		schema_fail(s, schema, "`items` must be one schema; a list of them is `prefixItems`");
	first = first && schema_works(s, i + 1) ? cJSON_GetArrayItem(first, i) : NULL;
	items = first ? first : items;
	if (items && out)
		demand_add(s, out, items, -1);
	return items;
}

/* unevaluatedProperties (or Items) of a part hold where neither it nor what it brought in says
 * anything. Branches that are still to come may, so only without these it is asked for. */
static void add_unevaluated(struct schema *s, const struct demand *d, int32_t at, const char *name,
	int32_t i, struct demand *out)
{
	const char *keyword = i < 0 ? "unevaluatedProperties" : "unevaluatedItems";
	const cJSON *own = d->part[at].schema, *asked = schema_member(s, own, keyword);

	for (int32_t k = 0; k < d->n && asked; k++) {
		const struct part *p = &d->part[k];

		if ((schema_member(s, p->schema, "anyOf") && !(p->used & USED_ANY_OF)) ||
			(schema_member(s, p->schema, "oneOf") && !(p->used & USED_ONE_OF)))
			return;
		if (comes_from(s, d, k, own) && ((k != at && schema_member(s, p->schema, keyword)) ||
											(i < 0 ? knows_property(s, p->schema, name, NULL)
												   : knows_item(s, p->schema, i, NULL))))
			return;
	}
	if (asked)
		demand_add(s, out, asked, -1);
}

void demand_of_property(
	struct schema *s, const struct demand *d, const char *name, struct demand *out)
{
	for (int32_t i = 0; i < d->n && !s->g->err.code; i++) {
		knows_property(s, d->part[i].schema, name, out);
		add_unevaluated(s, d, i, name, -1, out);
	}
}

void demand_of_item(struct schema *s, const struct demand *d, int32_t i, struct demand *out)
{
	for (int32_t k = 0; k < d->n && !s->g->err.code; k++) {
		knows_item(s, d->part[k].schema, i, out);
		add_unevaluated(s, d, k, NULL, i, out);
	}
}

/* ---- types ---- */

int type_of_value(const cJSON *v)
{
	if (cJSON_IsNumber(v))
		return v->valuedouble == floor(v->valuedouble) ? TYPE_INTEGER : TYPE_FRACTION;
	return cJSON_IsNull(v)     ? TYPE_NULL
		   : cJSON_IsBool(v)   ? TYPE_BOOLEAN
		   : cJSON_IsObject(v) ? TYPE_OBJECT
		   : cJSON_IsArray(v)  ? TYPE_ARRAY
							   : TYPE_STRING;
}

static int type_of_name(struct schema *s, const cJSON *schema, const cJSON *name)
{
	static const char names[] = "null boolean object array string integer number";
	const char *word = cJSON_GetStringValue(name);
	const int i = word ? text_word(names, ' ', word, strlen(word)) : -1;

	if (i >= 0)
		return i == 6 ? TYPE_NUMBER : 1 << i;
	schema_fail(s, schema,
		"`type` must be null, boolean, object, array, string, integer or number, "
		"or a list of these");
	return 0;
}

static int types_of(struct schema *s, const struct part *p)
{
	const cJSON *type = schema_member(s, p->schema, "type"), *one;
	const cJSON *but = schema_member(s, p->schema, "not");
	bool is_const;
	int types = type ? 0 : TYPE_ANY, values = 0;

	if (type && !cJSON_IsArray(type))
		types = type_of_name(s, p->schema, type);
	for (one = cJSON_IsArray(type) ? type->child : NULL; one; one = one->next)
		types |= type_of_name(s, p->schema, one);
	if (but && schema_is_open(s, but))
		return 0;
	type = p->used & USED_ENUM ? NULL : schema_enum_of(s, p, &is_const);
	if (!type)
		return types;
	if (is_const)
		return types & type_of_value(type);
	cJSON_ArrayForEach(one, type)
	{
		values |= type_of_value(one);
	}
	return types & values;
}

int demand_types(struct schema *s, const struct demand *d)
{
	int types = d->never ? 0 : TYPE_ANY;

	for (int32_t i = 0; i < d->n && types; i++)
		types &= types_of(s, &d->part[i]);
	return types;
}

/* ---- whether two demands exclude each other ---- */

const cJSON *schema_enum_of(struct schema *s, const struct part *p, bool *one)
{
	const cJSON *values = schema_typed(s, p->schema, "enum", TYPE_ARRAY),
				*value = schema_member(s, p->schema, "const");

	*one = value;
	return value ? value : values;
}

/* cJSON_Compare looks at each member of an object from both sides, so its time doubles with each
 * level, and looks for it among all of them. */
int64_t schema_effort(const cJSON *v)
{
	int64_t n = 1, below = v->valuestring ? (int64_t)strlen(v->valuestring) / 64 : 0;

	for (const cJSON *one = v->child; one; one = one->next, n++)
		below += schema_effort(one);
	below = 2 * below + n * n;
	return below < SCHEMA_WORK ? below : SCHEMA_WORK;
}

/* cJSON takes numbers that nearly equal each other for equal, and members in any order. */
static bool may_equal(struct schema *s, const cJSON *a, bool one_a, const cJSON *b, bool one_b)
{
	for (const cJSON *x = one_a ? a : a->child; x; x = one_a ? NULL : x->next)
		for (const cJSON *y = one_b ? b : b->child; y; y = one_b ? NULL : y->next)
			if (!schema_works(s, schema_effort(x) + schema_effort(y) + 2) ||
				cJSON_Compare(x, y, true))
				return true;
	return false;
}

static bool values_differ(struct schema *s, const struct demand *a, const struct demand *b)
{
	for (int32_t i = 0; i < a->n; i++)
		for (int32_t k = 0; k < b->n; k++) {
			bool one_x, one_y;
			const cJSON *x = schema_enum_of(s, &a->part[i], &one_x),
						*y = schema_enum_of(s, &b->part[k], &one_y);

			if (x && y && x != y && !may_equal(s, x, one_x, y, one_y))
				return true;
		}
	return false;
}

static bool requires(struct schema *s, const struct demand *d, const char *name)
{
	for (int32_t i = 0; i < d->n; i++) {
		const cJSON *list = schema_member(s, d->part[i].schema, "required"), *one;

		cJSON_ArrayForEach(one, list)
		{
			if (schema_works(s, 1) && cJSON_IsString(one) && !strcmp(one->valuestring, name))
				return true;
		}
	}
	return false;
}

/* An object of both would need a property with a value that satisfies both. */
static bool property_differs(
	struct schema *s, const struct demand *a, const struct demand *b, const char *name, int depth)
{
	struct demand x = { 0 }, y = { 0 };
	bool differ;

	demand_of_property(s, a, name, &x);
	demand_of_property(s, b, name, &y);
	differ = x.never || y.never || (requires(s, b, name) && demands_differ(s, &x, &y, depth + 1));
	demand_free(&x);
	demand_free(&y);
	return differ;
}

bool demands_differ(struct schema *s, const struct demand *a, const struct demand *b, int depth)
{
	enum { DEEPEST = 3 };
	const int types = demand_types(s, a) & demand_types(s, b);

	if (!types || values_differ(s, a, b))
		return true;
	if (types != TYPE_OBJECT || depth == DEEPEST)
		return false;
	for (int turn = 0; turn < 2; turn++)
		for (int32_t i = 0; i < (turn ? b : a)->n; i++) {
			const struct demand *d = turn ? b : a;
			const cJSON *list = schema_member(s, d->part[i].schema, "required"), *one;

			cJSON_ArrayForEach(one, list)
			{
				if (cJSON_IsString(one) && !s->g->err.code &&
					property_differs(s, d, turn ? a : b, one->valuestring, depth))
					return true;
			}
		}
	return false;
}

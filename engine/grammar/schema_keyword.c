/* Keywords of a schema: what of it asks for something, and what of that no grammar is made of. See
 * schema_impl.h. */
#include "base/text.h"
#include "engine/grammar/schema_impl.h"

const cJSON *schema_member(struct schema *s, const cJSON *of, const char *name)
{
	const cJSON *one;
	int64_t n = 1;

	if (!cJSON_IsObject(of))
		return NULL;
	for (one = of->child; one && strcmp(one->string, name); one = one->next)
		n++;
	return schema_works(s, n) ? one : NULL;
}

const cJSON *schema_typed(struct schema *s, const cJSON *of, const char *name, int types)
{
	const cJSON *v = schema_member(s, of, name);

	if (v && !(type_of_value(v) & types))
		schema_fail(s, of, "`%s` must be %s", name,
			types == TYPE_ARRAY    ? "a list"
			: types == TYPE_OBJECT ? "an object"
			: types == TYPE_STRING ? "a string"
								   : "a number");
	return s->g->err.code ? NULL : v;
}

bool schema_number(struct schema *s, const cJSON *of, const char *name, double *x)
{
	const cJSON *n = schema_typed(s, of, name, TYPE_NUMBER);

	if (n)
		*x = n->valuedouble;
	return n;
}

int64_t schema_count(
	struct schema *s, const struct demand *d, const char *name, int sign, int64_t none)
{
	int64_t most = none;
	bool any = false;

	for (int32_t i = 0; i < d->n; i++) {
		double x;
		int64_t n;

		if (!schema_number(s, d->part[i].schema, name, &x))
			continue;
		if (x < 0 || x != (double)(int64_t)(x < 1e15 ? x : 1e15)) {
			schema_fail(s, d->part[i].schema, "`%s` must be a whole number from 0 to 1e15", name);
			return none;
		}
		n = (int64_t)x;
		most = !any || (sign > 0 ? n > most : n < most) ? n : most;
		any = true;
	}
	return most;
}

static const struct {
	const char *names;
	int types;                               /* that they are about */
	int used;                                /* once these are used up they ask for nothing */
	enum { TAKEN, OPEN_ALONE, REFUSED } how; /* OPEN_ALONE: what asks for nothing */
} keyword[] = {
	{ "type", TYPE_ANY, USED_TYPE, TAKEN },
	{ "enum const", TYPE_ANY, USED_ENUM, TAKEN },
	{ "anyOf", TYPE_ANY, USED_ANY_OF, TAKEN },
	{ "oneOf", TYPE_ANY, USED_ONE_OF, TAKEN },
	{ "properties required additionalProperties patternProperties minProperties maxProperties "
	  "dependentRequired propertyNames unevaluatedProperties",
		TYPE_OBJECT, 0, TAKEN },
	{ "items prefixItems minItems maxItems uniqueItems unevaluatedItems", TYPE_ARRAY, 0, TAKEN },
	{ "minLength maxLength pattern format", TYPE_STRING, 0, TAKEN },
	{ "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf", TYPE_NUMBER, 0, TAKEN },
	{ "not $dynamicRef $recursiveRef", TYPE_ANY, 0, REFUSED },
	{ "then else", TYPE_ANY, 0, OPEN_ALONE },
	{ "contains", TYPE_ARRAY, 0, REFUSED },
	{ "additionalItems", TYPE_ARRAY, 0, OPEN_ALONE },
	{ "dependentSchemas dependencies", TYPE_OBJECT, 0, OPEN_ALONE },
};
enum { KEYWORDS = sizeof keyword / sizeof *keyword };

static int keyword_number(const char *name)
{
	for (int i = 0; i < KEYWORDS; i++)
		if (text_word(keyword[i].names, ' ', name, strlen(name)) >= 0)
			return i;
	return -1;
}

bool schema_asks(struct schema *s, const struct part *p)
{
	const cJSON *one;

	cJSON_ArrayForEach(one, p->schema)
	{
		const int k = keyword_number(one->string);

		if (!schema_works(s, 4) ||
			(k >= 0 && (!keyword[k].used || (keyword[k].used & ~(int)p->used))))
			return true;
	}
	return false;
}

bool schema_is_open(struct schema *s, const cJSON *schema)
{
	const struct part p = { .schema = schema };

	return cJSON_IsTrue(schema) || (cJSON_IsObject(schema) && !schema_member(s, schema, "$ref") &&
									   !schema_member(s, schema, "allOf") && !schema_asks(s, &p));
}

void schema_refuse(struct schema *s, const struct part *p, int types)
{
	const bool when = schema_member(s, p->schema, "if");
	const cJSON *one;

	cJSON_ArrayForEach(one, p->schema)
	{
		const int k = keyword_number(one->string);

		if (k < 0 || keyword[k].how == TAKEN || !(keyword[k].types & types))
			continue;
		if ((!strcmp(one->string, "then") || !strcmp(one->string, "else")) && !when)
			continue;
		if (strncmp(one->string, "depend", 6)
				? keyword[k].how == OPEN_ALONE && schema_is_open(s, one)
				: !one->child)
			continue;
		if (strcmp(one->string, "not") || !cJSON_IsFalse(one))
			schema_fail(s, p->schema, "`%s` is not supported", one->string);
	}
}

/* Arrays of a demand: elements with a schema of their own, then any number of others. See
 * schema_impl.h. */
#include "engine/grammar/schema_impl.h"

struct array {
	struct schema *s;
	const struct demand *d;
	int64_t least, most; /* most -1: any number */
	int32_t n;           /* elements with a schema of their own */
};

static void find_limits(struct array *a)
{
	struct schema *s = a->s;

	a->least = schema_count(s, a->d, "minItems", 1, 0);
	a->most = schema_count(s, a->d, "maxItems", -1, -1);
	for (int32_t i = 0; i < a->d->n; i++) {
		const cJSON *schema = a->d->part[i].schema,
					*first = schema_member(s, schema, "prefixItems");
		const int n = cJSON_GetArraySize(first);

		a->n = n > a->n ? n : a->n;
		if (cJSON_IsTrue(schema_member(s, schema, "uniqueItems")) && (a->most < 0 || a->most > 1))
			schema_fail(s, schema, "`uniqueItems` is supported together with maxItems 1 alone");
	}
	if (a->least > GRAMMAR_MOST_REPEAT)
		schema_fail(
			s, a->d->part[0].schema, "`minItems` is supported up to %d", GRAMMAR_MOST_REPEAT);
	a->most = a->most > GRAMMAR_MOST_REPEAT ? GRAMMAR_MOST_REPEAT : a->most;
	if (a->most >= 0 && a->n > a->most)
		a->n = (int32_t)a->most;
}

static int32_t item(struct array *a, int32_t i)
{
	struct demand d = { 0 };

	demand_of_item(a->s, a->d, i, &d);
	return schema_value(a->s, &d, NULL);
}

static int32_t comma(struct array *a, int32_t x)
{
	struct grammar *g = a->s->g;

	return EXPR_SEQ(g, expr_word(g, ","), a->s->space, x);
}

/* Elements after those that have a schema of their own; where there are none of these, at least
 * one. */
static int32_t others(struct array *a)
{
	struct grammar *g = a->s->g;
	const int32_t first = !a->n;
	const int64_t least = a->least > a->n ? a->least - a->n : 0,
				  most = a->most < 0 ? -1 : a->most - a->n;
	int32_t x;

	if (most == 0)
		return first ? expr_never(g) : expr_empty(g);
	x = item(a, a->n);
	return expr_then(g, first ? x : expr_empty(g),
		expr_repeat(g, comma(a, x), (int32_t)least - (first && least),
			most < 0 ? -1 : (int32_t)most - first));
}

int32_t schema_array(struct schema *s, const struct demand *d)
{
	struct grammar *g = s->g;
	struct array a = { .s = s, .d = d };
	int32_t x;

	find_limits(&a);
	if (s->g->err.code)
		return EXPR_FAILED;
	if (a.most >= 0 && a.most < a.least)
		return expr_never(g);
	x = others(&a);
	/* a rule for each element, so that a long list is no deep expression */
	for (int32_t i = a.n - 1; i >= 0 && x >= 0; i--) {
		const int32_t one = item(&a, i), rule = rule_new(g, s->rule, strlen(s->rule));

		rule_set(g, rule, x);
		x = expr_then(g, i ? comma(&a, one) : one, expr_rule(g, rule));
		if (i && i >= a.least)
			x = expr_maybe(g, x);
	}
	x = EXPR_SEQ(g, s->space, x, s->space);
	if (!a.least)
		x = expr_or(g, s->space, x);
	return EXPR_SEQ(g, expr_word(g, "["), x, expr_word(g, "]"));
}

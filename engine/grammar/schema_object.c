/* Objects of a demand. See schema_impl.h.
 *
 * Named properties come in the order of the schema, others after them. The rule need(i, c) is what
 * may follow where one property from the i-th on must be written next, and c are; so a schema of n
 * properties that may all be left out takes n rules. c counts only where minProperties or
 * maxProperties ask for it. */
#include "base/array.h"
#include "engine/grammar/schema_impl.h"

struct property {
	const char *name;
	int32_t value; /* key, colon and value */
	bool required, possible;
};

struct object {
	struct schema *s;
	const struct demand *d;
	struct property *p;
	int32_t n, cap;
	int32_t other;       /* the same of a property without a name, or EXPR_NEVER */
	int64_t least, most; /* most -1: any number */
	int32_t levels;      /* counts that make a difference */
	int32_t n_required, last_required;
	int32_t *need;        /* [(n + 1) * levels] rules */
	struct property none; /* after a failure */
};

/* ---- which properties there are ---- */

/* The property of that name. */
static struct property *add_property(struct object *o, const char *name, bool is_new)
{
	int32_t i = is_new ? o->n : 0;

	while (i < o->n && strcmp(o->p[i].name, name))
		i++;
	if (!schema_works(o->s, is_new ? 1 : i + 1))
		return &o->none;
	if (i < o->n)
		return &o->p[i];
	if (!ARRAY_ROOM(o->p, o->cap, o->n + 1)) {
		grammar_no_memory(o->s->g);
		return &o->none;
	}
	o->p[o->n] = (struct property){ .name = name };
	return &o->p[o->n++];
}

static void add_required(struct object *o, const cJSON *schema)
{
	const cJSON *one;

	cJSON_ArrayForEach(one, schema_typed(o->s, schema, "required", TYPE_ARRAY))
	{
		if (!cJSON_IsString(one)) {
			schema_fail(o->s, schema, "`required` must be a list of names");
			return;
		}
		add_property(o, one->valuestring, false)->required = true;
	}
}

static void find_properties(struct object *o)
{
	for (int32_t i = 0; i < o->d->n; i++) {
		const cJSON *schema = o->d->part[i].schema, *one;
		const bool first = !o->n;

		cJSON_ArrayForEach(one, schema_typed(o->s, schema, "properties", TYPE_OBJECT))
		{
			add_property(o, one->string, first);
		}
	}
	for (int32_t i = 0; i < o->d->n; i++)
		add_required(o, o->d->part[i].schema);
	for (int32_t i = 0; i < o->n; i++) {
		o->n_required += o->p[i].required;
		o->last_required = o->p[i].required ? i : o->last_required;
	}
}

static int32_t after_key(struct object *o, int32_t key, int32_t value)
{
	struct grammar *g = o->s->g;

	return EXPR_SEQ(g, key, expr_word(g, ":"), o->s->space, value);
}

static bool is_never(const struct grammar *g, int32_t x)
{
	return x >= 0 && g->expr[x].kind == EXPR_NEVER;
}

static void find_values(struct object *o)
{
	for (int32_t i = 0; i < o->n && !o->s->g->err.code; i++) {
		struct property *p = &o->p[i];
		struct demand value = { 0 };
		int32_t x;

		demand_of_property(o->s, o->d, p->name, &value);
		x = schema_value(o->s, &value, p->name);
		p->possible = !is_never(o->s->g, x);
		if (p->possible)
			p->value = after_key(o, json_string_expr(o->s->g, p->name), x);
	}
}

/* ---- other properties ---- */

/* The only one of the demand's patterns, or NULL. */
static const cJSON *only_pattern(struct object *o)
{
	const cJSON *only = NULL, *one;

	for (int32_t i = 0; i < o->d->n; i++) {
		const cJSON *schema = o->d->part[i].schema;

		cJSON_ArrayForEach(one, schema_typed(o->s, schema, "patternProperties", TYPE_OBJECT))
		{
			if (only)
				schema_fail(o->s, schema,
					"`patternProperties` with more than one pattern is not "
					"supported");
			only = one;
		}
	}
	return only;
}

/* A key in quotes that no named property has. */
static int32_t other_key(struct object *o, const cJSON *pattern)
{
	struct grammar *g = o->s->g;
	struct word *w = calloc((size_t)o->n + 1, sizeof *w);
	int32_t x = w ? EXPR_FAILED : grammar_no_memory(g);

	for (int32_t i = 0; w && i < o->n; i++) {
		w[i] = (struct word){ o->p[i].name, strlen(o->p[i].name) };
		if (pattern && schema_key_matches(o->s, pattern, w[i].text))
			schema_fail(o->s, pattern,
				"a pattern that named properties (%.60s) have, too, is not supported", w[i].text);
	}
	if (pattern && !g->err.code)
		x = regex_expr(g, pattern->string, strlen(pattern->string), true, json_points);
	else if (!g->err.code)
		x = json_other_keys(o->s, w, o->n);
	free(w);
	return EXPR_SEQ(g, expr_word(g, "\""), x, expr_word(g, "\""));
}

/* The same by propertyNames. False: there are none. */
static bool key_by_names(struct object *o, const cJSON *pattern, int32_t *x)
{
	struct demand key = { 0 };

	for (int32_t i = 0; i < o->d->n; i++) {
		const cJSON *schema = o->d->part[i].schema,
					*names = schema_member(o->s, schema, "propertyNames");

		if (!names || schema_is_open(o->s, names))
			continue;
		if (o->n || pattern)
			schema_fail(o->s, schema,
				"`propertyNames` beside named properties or patterns is not "
				"supported");
		if (!key.n)
			demand_add(o->s, &key, o->s->keys, -1);
		demand_add(o->s, &key, names, -1);
	}
	if (!key.n)
		return false;
	*x = schema_value(o->s, &key, "key");
	return true;
}

static void find_other(struct object *o)
{
	const cJSON *pattern = only_pattern(o);
	struct demand value = { 0 };
	int32_t key, x;

	demand_of_property(o->s, o->d, NULL, &value);
	x = schema_value(o->s, &value, NULL);
	if (pattern && schema_pattern_is_open(pattern->string))
		pattern = NULL;
	if (x < 0 || is_never(o->s->g, x) || o->most == 0) {
		o->other = expr_never(o->s->g);
		return;
	}
	if (!key_by_names(o, pattern, &key))
		key = other_key(o, pattern);
	o->other = after_key(o, key, x);
}

/* ---- how many ---- */

/* Of others one counts (see need_other()), so more than one cannot be asked for. */
static void check_least(struct object *o)
{
	int64_t named = 0;
	double n;

	for (int32_t i = 0; i < o->n; i++)
		named += o->p[i].possible;
	for (int32_t i = 0; i < o->d->n && o->least > named + 1; i++) {
		const cJSON *schema = o->d->part[i].schema;

		if (schema_number(o->s, schema, "minProperties", &n) && n > (double)named + 1)
			schema_fail(o->s, schema,
				"`minProperties` beyond the named properties and one more is not supported");
	}
}

static void find_levels(struct object *o)
{
	const bool others = !is_never(o->s->g, o->other);

	if (o->least <= o->n_required)
		o->least = 0;
	if (o->most >= o->n && !others)
		o->most = -1;
	if (others && (o->most < 0 || o->most >= o->least))
		check_least(o);
	if (o->least > o->n + others || (o->most >= 0 && o->most < o->least)) {
		o->levels = 0; /* there is no such object */
		return;
	}
	o->levels = (int32_t)((o->most >= 0 ? o->most : o->least) + 1);
	if (o->levels > 1 && (int64_t)o->levels * (o->n + 1) > 5000)
		schema_fail(o->s, o->d->part[0].schema,
			"`minProperties` and `maxProperties` are supported up to 5000 divided by the number of "
			"properties");
}

/* ---- the expression ---- */

/* What may follow where c properties are written, and from the i-th on none is. */
static int32_t rest(struct object *o, int32_t i, int64_t c)
{
	struct grammar *g = o->s->g;
	const bool may_end = c >= o->least && (i > o->last_required || !o->n_required),
			   full = o->most >= 0 && c >= o->most;
	const int64_t level = c < o->levels ? c : o->levels - 1;
	int32_t more = expr_never(g);

	if (!full)
		more = EXPR_SEQ(
			g, expr_word(g, ","), o->s->space, expr_rule(g, o->need[i * o->levels + level]));
	return may_end ? expr_maybe(g, more) : more;
}

static int32_t need_named(struct object *o, int32_t i, int32_t c)
{
	struct grammar *g = o->s->g;
	const struct property *p = &o->p[i];
	const bool full = o->most >= 0 && c >= o->most;
	int32_t x = expr_never(g);

	if (p->possible && !full)
		x = expr_then(g, p->value, rest(o, i + 1, c + 1));
	return p->required ? x : expr_or(g, x, expr_rule(g, o->need[(i + 1) * o->levels + c]));
}

/* Keys that come twice count once for whoever reads them, so of others one counts, until there are
 * too many. */
static int32_t need_other(struct object *o, int32_t c)
{
	struct grammar *g = o->s->g;
	int32_t more;

	if (c + 1 < o->least || (o->most >= 0 && c >= o->most))
		return expr_never(g);
	more = EXPR_SEQ(g, expr_word(g, ","), o->s->space, o->other);
	return expr_then(
		g, o->other, expr_repeat(g, more, 0, o->most < 0 ? -1 : (int32_t)(o->most - c - 1)));
}

/* From the last on, so that what a rule begins with is there before it. */
static void make_rules(struct object *o)
{
	struct grammar *g = o->s->g;

	for (int32_t i = o->n; i >= 0 && !g->err.code; i--)
		for (int32_t c = 0; c < o->levels && !g->err.code; c++) {
			const int32_t rule = o->need[i * o->levels + c] =
				rule_new(g, o->s->rule, strlen(o->s->rule));

			rule_set(g, rule, i < o->n ? need_named(o, i, c) : need_other(o, c));
		}
}

/* Objects that ask for properties only if others are there. */
static void check_dependent(struct object *o)
{
	for (int32_t i = 0; i < o->d->n; i++) {
		const cJSON *schema = o->d->part[i].schema, *of, *one;

		cJSON_ArrayForEach(of, schema_member(o->s, schema, "dependentRequired"))
		{
			cJSON_ArrayForEach(one, of)
			{
				bool required = false;

				for (int32_t k = 0; k < o->n && schema_works(o->s, 1); k++)
					required = required || (o->p[k].required && cJSON_IsString(one) &&
											   !strcmp(o->p[k].name, one->valuestring));
				if (!required)
					schema_fail(o->s, schema, "`dependentRequired` is not supported");
			}
		}
	}
}

static int32_t object_expr(struct object *o)
{
	struct grammar *g = o->s->g;
	int32_t inside;

	find_levels(o);
	if (!o->levels || g->err.code)
		return expr_never(g);
	o->need = calloc((size_t)o->levels * ((size_t)o->n + 1), sizeof *o->need);
	if (!o->need)
		return grammar_no_memory(g);
	make_rules(o);
	if (g->err.code)
		return EXPR_FAILED;
	inside = o->most == 0 ? expr_never(g)
						  : EXPR_SEQ(g, o->s->space, expr_rule(g, o->need[0]), o->s->space);
	if (!o->n_required && !o->least)
		inside = expr_or(g, o->s->space, inside);
	return EXPR_SEQ(g, expr_word(g, "{"), inside, expr_word(g, "}"));
}

int32_t schema_object(struct schema *s, const struct demand *d)
{
	struct object o = { .s = s, .d = d };
	int32_t x;

	o.least = schema_count(s, d, "minProperties", 1, 0);
	o.most = schema_count(s, d, "maxProperties", -1, -1);
	find_properties(&o);
	check_dependent(&o);
	find_values(&o);
	if (!s->g->err.code)
		find_other(&o);
	x = s->g->err.code ? EXPR_FAILED : object_expr(&o);
	free(o.p);
	free(o.need);
	return x;
}

/* enum and const. A value must satisfy the rest of the demand, too: where that asks for more than a
 * type, a grammar of the rest is tried with the value's text. See schema_impl.h. */
#include "base/array.h"
#include "engine/grammar/schema_impl.h"

struct trial {
	bool needed, open;
	struct automaton a;
};

/* Whether the schemas ask for more than types. */
static bool asks_more(struct schema *s, const struct demand *d)
{
	for (int32_t i = 0; i < d->n; i++) {
		const struct part p = d->part[i];

		if (schema_asks(s, &(struct part){ .schema = p.schema, .used = p.used | USED_TYPE }))
			return true;
	}
	return false;
}

/* The rest as a grammar of its own. Where nothing satisfies it, no value does. */
static void trial_open(struct schema *s, const struct demand *d, struct trial *t)
{
	struct grammar g = { 0 };
	struct schema own = {
		.g = &g, .doc = s->doc, .keys = s->keys, .work = s->work, .trials = s->trials + 1
	};
	struct program p = { 0 };
	struct demand rest;
	struct err e = { 0 };

	demand_copy(s, &rest, d, USED_ENUM);
	t->needed = asks_more(s, &rest);
	if (!t->needed || s->g->err.code) {
		demand_free(&rest);
		return;
	}
	if (own.trials > SCHEMA_TRIALS) {
		schema_fail(s, d->part[0].schema,
			"`enum` inside of others with more conditions is not "
			"supported more than %d times",
			SCHEMA_TRIALS);
		demand_free(&rest);
		return;
	}
	schema_rules(&own, &rest);
	s->work = own.work + g.n_exprs * 4;
	if (g.err.code)
		grammar_fail(s->g, g.err.code, "%s", g.err.text);
	else if (!grammar_compile(&g, &p, &e))
		t->open = !automaton_open(&t->a, &p, &e);
	if (e.code == ERR_MEMORY)
		grammar_fail(s->g, e.code, "%s", e.text);
	grammar_free(&g);
}

static bool trial_takes(struct schema *s, struct trial *t, const char *text)
{
	return !t->needed || (t->open && schema_takes(s, &t->a, text));
}

static bool has(struct schema *s, const cJSON *v, bool one, const char *text)
{
	bool found = false;

	for (v = one ? v : v->child; v && !found; v = one ? NULL : v->next) {
		char *its = schema_works(s, schema_effort(v) + 7) ? json_canonical(v) : NULL;

		found = its && !strcmp(its, text);
		free(its);
	}
	return found;
}

/* Whether each other enum and const has the value. They are compared as they are written: members
 * in another order are another value, which is safe here. */
static bool others_have(
	struct schema *s, const struct demand *d, const cJSON *source, const char *text)
{
	for (int32_t i = 0; i < d->n; i++) {
		const cJSON *schema = d->part[i].schema, *values = schema_member(s, schema, "enum"),
					*value = schema_member(s, schema, "const");

		if (d->part[i].used & USED_ENUM)
			continue;
		if ((values && values != source && !has(s, values, false, text)) ||
			(value && value != source && !has(s, value, true, text)))
			return false;
	}
	return true;
}

static int32_t of_texts(struct schema *s, char **text, int32_t n)
{
	struct word *w = calloc((size_t)n + 1, sizeof *w);
	int32_t x = w ? EXPR_FAILED : grammar_no_memory(s->g);

	for (int32_t i = 0; w && i < n; i++)
		w[i] = (struct word){ text[i], strlen(text[i]) };
	if (!s->g->err.code)
		x = expr_words(s->g, w, n);
	for (int32_t i = 0; i < n; i++)
		free(text[i]);
	free(text);
	free(w);
	return x;
}

int32_t schema_enum(struct schema *s, const struct demand *d)
{
	const int types = demand_types(s, d);
	const cJSON *values = NULL;
	struct trial t = { .needed = false };
	char **kept = NULL;
	int32_t n = 0, cap = 0;
	bool one = false;

	for (int32_t i = 0; i < d->n && !values; i++)
		if (!(d->part[i].used & USED_ENUM))
			values = schema_enum_of(s, &d->part[i], &one);
	if (!values)
		return EXPR_FAILED;
	trial_open(s, d, &t);
	for (const cJSON *v = one ? values : values->child; v && !s->g->err.code;
		 v = one ? NULL : v->next) {
		char *text = type_of_value(v) & types ? json_canonical(v) : NULL;

		if (!text && type_of_value(v) & types)
			schema_fail(s, v, "a number of this value has more digits than are supported");
		else if (text && !ARRAY_ROOM(kept, cap, n + 1))
			grammar_no_memory(s->g);
		else if (text && others_have(s, d, values, text) && trial_takes(s, &t, text)) {
			kept[n++] = text;
			text = NULL;
		}
		free(text);
	}
	if (t.open)
		automaton_close(&t.a);
	return of_texts(s, kept, n);
}

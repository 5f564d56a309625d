/* What an answer is bound to, in the words of those who defined a field for it: each becomes a spec
 * of engine/grammar/constraint.h, or is refused with what is wrong. */
#include "serve/serve_impl.h"

#include "engine/grammar/constraint.h"

enum value { TEXT_OF, JSON_OF, FLAG_OF };

static const struct form {
	const char *name; /* OF.NAME: a member of another field */
	enum value value; /* JSON_OF: a schema or list, as JSON or as a text that is */
	const char *scheme;
} forms[] = {
	{ "guided_json", JSON_OF, "schema:" },
	{ "guided_regex", TEXT_OF, "regex:" },
	{ "guided_choice", JSON_OF, "choice:" },
	{ "guided_grammar", TEXT_OF, "gbnf:" },
	{ "guided_json_object", FLAG_OF, "json" },
	{ "grammar", TEXT_OF, "gbnf:" },
	{ "json_schema", JSON_OF, "schema:" },
	{ "regex", TEXT_OF, "regex:" },
	{ "ebnf", TEXT_OF, "gbnf:" },
	{ "structured_outputs.json", JSON_OF, "schema:" },
	{ "structured_outputs.regex", TEXT_OF, "regex:" },
	{ "structured_outputs.choice", JSON_OF, "choice:" },
	{ "structured_outputs.grammar", TEXT_OF, "gbnf:" },
	{ "structured_outputs.json_object", FLAG_OF, "json" },
};

/* ---- specs ---- */

int query_bound(struct query *a, const char *field, char *spec, struct err *e)
{
	struct err why = { 0 };

	free(a->grammar);
	a->set.grammar = a->grammar = spec;
	if (!spec)
		return err_no_memory(e, "a grammar");
	if (a->kind == QUERY_SCORE || a->kind == QUERY_PIN)
		return err_set(e, ERR_USAGE, "%s: there is no answer here", field);
	if (a->ignore_end)
		return err_set(
			e, ERR_USAGE, "%s: it says where the answer ends: not with ignore_eos", field);
	if (constraint_check(spec, &why)) /* whose words begin with the option */
		return err_set(e, why.code, "%s%s", field, why.text + strcspn(why.text, ":"));
	return 0;
}

static int bind_to(
	struct query *a, const char *field, const char *scheme, const char *text, struct err *e)
{
	char *spec = NULL;

	if (a->grammar)
		return err_set(e, ERR_USAGE, "%s: another field binds the answer already", field);
	if (asprintf(&spec, "%s%s", scheme, text) < 0)
		spec = NULL;
	return query_bound(a, field, spec, e);
}

static int bind_json(
	struct query *a, const char *field, const char *scheme, const cJSON *v, struct err *e)
{
	char *text;
	int rc;

	if (cJSON_IsString(v))
		return bind_to(a, field, scheme, v->valuestring, e);
	text = foreign_json_print(v);
	rc = text ? bind_to(a, field, scheme, text, e) : err_no_memory(e, "a grammar");
	cJSON_free(text);
	return rc;
}

static int bind_form(struct query *a, const struct form *f, const cJSON *v, struct err *e)
{
	switch (f->value) {
	case TEXT_OF:
		return cJSON_IsString(v) ? bind_to(a, f->name, f->scheme, v->valuestring, e)
								 : err_set(e, ERR_USAGE, "%s: a text is needed", f->name);
	case FLAG_OF:
		return cJSON_IsTrue(v) ? bind_to(a, f->name, f->scheme, "", e)
							   : err_set(e, ERR_USAGE, "%s: true or false is needed", f->name);
	default: return bind_json(a, f->name, f->scheme, v, e);
	}
}

static int bind_forms(struct query *a, const cJSON *o, struct err *e)
{
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		const char *dot = strchr(forms[i].name, '.');
		const cJSON *v = dot ? query_member(foreign_member(o, "structured_outputs"), dot + 1)
							 : query_member(o, forms[i].name);

		/* an empty schema allows any JSON: an object of nothing is something here */
		if (v && !cJSON_IsFalse(v) && !foreign_is(v, "") && bind_form(a, &forms[i], v, e))
			return -1;
	}
	return 0;
}

/* ---- fields of a form of their own ---- */

/* {"type": "json_schema", "json_schema": {"name": …, "schema": {…}}} of OpenAI; json_object, which
 * llama-server lets have a schema, too. */
static int read_response_format(struct query *a, const cJSON *v, struct err *e)
{
	static const char name[] = "response_format";
	const char *type = foreign_text(v, "type");
	const cJSON *held = foreign_member(v, "json_schema");
	const cJSON *schema = foreign_member(held ? held : v, "schema");

	if (!v || (type && !strcmp(type, "text")))
		return 0;
	if (type && !strcmp(type, "json_object"))
		return schema ? bind_json(a, name, "schema:", schema, e) : bind_to(a, name, "json", "", e);
	if (!type || strcmp(type, "json_schema") != 0)
		return err_set(e, ERR_USAGE,
			"%s: its type is text, json_object or json_schema (the schema in json_schema.schema)",
			name);
	return schema ? bind_json(a, name, "schema:", schema, e)
				  : err_set(e, ERR_USAGE, "%s: json_schema.schema is missing", name);
}

/* ollama: "json", or a schema */
static int read_format(struct query *a, const cJSON *v, struct err *e)
{
	if (foreign_is(v, "json"))
		return bind_to(a, "format", "json", "", e);
	if (cJSON_IsObject(v))
		return bind_json(a, "format", "schema:", v, e);
	return !v || foreign_is(v, "")
			   ? 0
			   : err_set(e, ERR_USAGE, "format: \"json\" or a schema is needed");
}

int query_grammar(struct query *a, const cJSON *o, struct err *e)
{
	return read_response_format(a, query_member(o, "response_format"), e) ||
				   read_format(a, query_member(o, "format"), e) || bind_forms(a, o, e)
			   ? -1
			   : 0;
}

/* Whether and how long a model thinks before it answers, in the words of those who defined a field
 * for it, and the variables of its template. See serve_impl.h. */
#include "serve/serve_impl.h"

#include "base/text.h"

int query_variable(struct query *a, const char *name, const cJSON *value, struct err *e)
{
	struct chat_variable v = { NULL, NULL };

	if (a->n_variables == QUERY_VARIABLES)
		return err_set(
			e, ERR_USAGE, "chat_template_kwargs: at most %d can be set", QUERY_VARIABLES);
	v.name = strdup(name);
	v.value = foreign_json_print(value);
	a->variable[a->n_variables++] = v;
	return v.name && v.value ? 0 : err_no_memory(e, "the template");
}

static int read_variables(struct query *a, const cJSON *o, struct err *e)
{
	/* what the conversation, the tokenizer and other fields say */
	static const char own[] = "messages tools add_generation_prompt bos_token eos_token";
	const cJSON *of = query_member(o, "chat_template_kwargs"), *v;

	if (of && !cJSON_IsObject(of))
		return err_set(e, ERR_USAGE, "chat_template_kwargs: an object is needed");
	cJSON_ArrayForEach(v, of)
	{
		if (text_word(own, ' ', v->string, strlen(v->string)) >= 0)
			return err_set(e, ERR_USAGE, "chat_template_kwargs: %s is set otherwise", v->string);
		if (query_variable(a, v->string, v, e))
			return -1;
	}
	return 0;
}

/* ---- thinking ---- */

/* What fields say: -1 nothing, 0 no, 1 yes; effort: a word, or NULL. */
struct wish {
	const char *field;
	int think;
	const char *effort;
	double budget; /* -1: none */
};

/* What a value says: true or false; the same, else a word of effort; that alone; a type, of which
 * "disabled" asks for no thought; tokens. */
enum says { ENABLED, SWITCH, EFFORT, TYPE, BUDGET };

static const struct {
	const char *name, *member; /* member: of an object, what says it; NULL: the value itself */
	enum says says;
} wishes[] = {
	{ "enable_thinking", NULL, SWITCH },
	{ "think", NULL, SWITCH },
	{ "reasoning_effort", NULL, EFFORT },
	{ "thinking", "type", TYPE },
	{ "thinking", "budget_tokens", BUDGET },
	{ "reasoning", "enabled", ENABLED },
	{ "reasoning", "effort", EFFORT },
	{ "reasoning", "max_tokens", BUDGET },
	{ "thinking_token_budget", NULL, BUDGET },
	{ "thinking_budget", NULL, BUDGET },
};

/* A word of effort, "none", asks for no thought. */
static void wish(struct wish *w, enum says says, const cJSON *v)
{
	const char *word = cJSON_GetStringValue(v);

	if (says <= SWITCH && cJSON_IsBool(v)) {
		w->think = cJSON_IsTrue(v);
	} else if (says == BUDGET && cJSON_IsNumber(v)) {
		w->budget = v->valuedouble;
	} else if (says == TYPE && word) {
		w->think = strcmp(word, "disabled") != 0;
	} else if ((says == SWITCH || says == EFFORT) && word) {
		w->think = strcmp(word, "none") != 0;
		w->effort = w->think ? word : NULL;
	}
}

/* What the template cannot be told is refused. */
static int tell_template(
	struct query *a, const struct wish *w, const struct chat_template *c, struct err *e)
{
	const bool knows = template_can_think(c);
	cJSON *v;
	int rc = 0;

	if (w->think > 0 && !c->thought && !(w->effort && strstr(c->jinja, "reasoning_effort")))
		return err_set(e, ERR_USAGE, "%s: this model's template has no thoughts", w->field);
	if (w->think == 0 && c->thought && !knows)
		return err_set(
			e, ERR_USAGE, "%s: this model's template has no way to leave thoughts out", w->field);
	if (w->effort && strstr(c->jinja, "reasoning_effort")) {
		v = cJSON_CreateString(w->effort);
		rc = query_variable(a, "reasoning_effort", v, e);
		cJSON_Delete(v);
	}
	if (!rc && w->think >= 0 && knows) {
		v = cJSON_CreateBool(w->think);
		rc = query_variable(a, "enable_thinking", v, e);
		cJSON_Delete(v);
	}
	return rc;
}

static int read_budget(
	struct query *a, const struct wish *w, const struct chat_template *c, struct err *e)
{
	if (w->budget == -1)
		return 0;
	if (!c->thought)
		return err_set(e, ERR_USAGE, "%s: this model's template has no thoughts", w->field);
	if (!(w->budget >= 1 && w->budget <= 1000000) || w->budget != floor(w->budget))
		return err_set(e, ERR_USAGE, "%s: tokens from 1 to 1000000 are needed", w->field);
	a->budget = (int32_t)w->budget;
	return 0;
}

/* What the server was told, if the template can be. */
static int default_of(const struct query *a, const struct chat_template *c)
{
	const char *word = a->set.thinking;

	if (!word || !strcmp(word, "auto") || !template_can_think(c))
		return -1;
	return !strcmp(word, "on");
}

int query_thought(struct query *a, const cJSON *o, const struct serve *s, struct err *e)
{
	const cJSON *format = foreign_member(o, "reasoning_format");
	struct wish w = { .field = "--thinking", .think = default_of(a, s->info->chat), .budget = -1 };

	a->apart = !cJSON_IsFalse(foreign_member(o, "include_reasoning")) &&
			   !cJSON_IsFalse(foreign_member(o, "separate_reasoning")) &&
			   !foreign_is(format, "none");
	for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
		const cJSON *v = query_member(o, wishes[i].name);

		if (v) {
			w.field = wishes[i].name;
			wish(&w, wishes[i].says, wishes[i].member ? foreign_member(v, wishes[i].member) : v);
		}
	}
	a->thoughtless = !w.think;
	return read_variables(a, o, e) || tell_template(a, &w, s->info->chat, e) ||
				   read_budget(a, &w, s->info->chat, e)
			   ? -1
			   : 0;
}

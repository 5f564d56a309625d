/* Functions that a model may call: what a request tells of them, and the grammar that its answer
 * keeps to. See serve_impl.h and engine/text/parts.h. */
#include "serve/serve_impl.h"

/* ---- calls of before ---- */

/* Clients send arguments as a text of JSON; some as JSON. */
static cJSON *arguments_of(const cJSON *function, struct err *e)
{
	const cJSON *v = query_member(function, "arguments");
	const char *text = cJSON_GetStringValue(v);
	struct err ignored = { 0 };
	cJSON *o = NULL;

	if (cJSON_IsObject(v))
		o = cJSON_Duplicate(v, true);
	else if (text && *text)
		o = foreign_json_read(text, strlen(text), &ignored);
	else if (!v || text)
		o = cJSON_CreateObject();
	if (cJSON_IsObject(o))
		return o;
	cJSON_Delete(o);
	err_set(e, ERR_USAGE, "messages: tool_calls: arguments are a text that is a JSON object");
	return NULL;
}

static cJSON *call_of(const cJSON *call, bool as_text, struct err *e)
{
	const cJSON *function = foreign_member(call, "function");
	const char *name = foreign_text(function, "name"), *id = foreign_text(call, "id");
	cJSON *args = name ? arguments_of(function, e) : NULL, *one = cJSON_CreateObject(), *to;
	char *text = args && as_text ? foreign_json_print(args) : NULL;

	if (!name)
		err_set(e, ERR_USAGE, "messages: tool_calls: a function with a name is needed");
	if (id)
		cJSON_AddStringToObject(one, "id", id);
	cJSON_AddStringToObject(one, "type", "function");
	to = cJSON_AddObjectToObject(one, "function");
	cJSON_AddStringToObject(to, "name", name ? name : "");
	if (as_text)
		cJSON_AddStringToObject(to, "arguments", text ? text : "");
	else
		cJSON_AddItemToObject(to, "arguments", args);
	if (as_text)
		cJSON_Delete(args);
	cJSON_free(text);
	return one;
}

char *query_calls(const cJSON *list, bool as_text, struct err *e)
{
	cJSON *all = cJSON_CreateArray();
	const cJSON *call;
	char *text = NULL;

	cJSON_ArrayForEach(call, list) cJSON_AddItemToArray(all, call_of(call, as_text, e));
	if (!e->code && !(text = foreign_json_print(all)))
		err_no_memory(e, "a message");
	cJSON_Delete(all);
	return text;
}

/* ---- functions ---- */

static int check_name(const char *name, struct err *e)
{
	const size_t n = name ? strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
										 "0123456789_-.")
						  : 0;

	return n && n <= 64 && !name[n]
			   ? 0
			   : err_set(e, ERR_USAGE,
					 "tools: a function's name has 1 to 64 letters, digits, _ - and .");
}

static int add_tool(struct query *a, const cJSON *tool, struct err *e)
{
	const char *type = foreign_text(tool, "type");
	const cJSON *function = foreign_member(tool, "function"),
				*p = query_member(function, "parameters");
	cJSON *copy;

	if ((type && strcmp(type, "function") != 0) || !cJSON_IsObject(function))
		return err_set(e, ERR_USAGE,
			"tools: {\"type\": \"function\", \"function\": {\"name\": …, \"parameters\": …}} is "
			"needed");
	if (check_name(foreign_text(function, "name"), e))
		return -1;
	if (p && !cJSON_IsObject(p))
		return err_set(e, ERR_USAGE, "tools: parameters are a JSON schema of an object");
	copy = cJSON_Duplicate(function, true);
	if (!copy || !cJSON_AddItemToArray(a->tools, copy))
		return err_no_memory(e, "tools");
	return 0;
}

/* "none", "auto", "required", or {"type": "function", "function": {"name": …}} */
static int read_choice(struct query *a, const cJSON *choice, struct err *e)
{
	const char *word = cJSON_GetStringValue(choice);
	const char *name = foreign_text(foreign_member(choice, "function"), "name");
	const cJSON *tool;

	if (!choice || (word && !strcmp(word, "auto")))
		return 0;
	a->no_call = word && !strcmp(word, "none");
	a->must_call = !a->no_call;
	if (a->no_call || (word && !strcmp(word, "required")))
		return 0;
	cJSON_ArrayForEach(tool, a->tools)
	{
		if (name && !strcmp(name, foreign_text(tool, "name")))
			a->call_name = foreign_text(tool, "name");
	}
	return a->call_name
			   ? 0
			   : err_set(e, ERR_USAGE,
					 "tool_choice: none, auto, required, or {\"type\": \"function\", \"function\": "
					 "{\"name\": …}} with one of the tools is needed");
}

int query_tools(struct query *a, const cJSON *o, const struct serve *s, struct err *e)
{
	const cJSON *tools = foreign_member(o, "tools"), *tool,
				*choice = query_member(o, "tool_choice");

	a->one_call = cJSON_IsFalse(foreign_member(o, "parallel_tool_calls"));
	if (query_nothing(tools, NULL))
		return query_nothing(choice, "none|auto")
				   ? 0
				   : err_set(e, ERR_USAGE, "tool_choice: there are no tools");
	if (!cJSON_IsArray(tools) || cJSON_GetArraySize(tools) > QUERY_TOOLS)
		return err_set(e, ERR_USAGE, "tools: a list of up to %d is needed", QUERY_TOOLS);
	if (!s->info->chat->calls)
		return err_set(e, ERR_USAGE,
			"tools: this model's template has calls in a form that is not known here");
	a->tools = cJSON_CreateArray();
	cJSON_ArrayForEach(tool, tools) if (add_tool(a, tool, e)) return -1;
	if (read_choice(a, choice, e))
		return -1;
	if (a->grammar && a->must_call)
		return err_set(e, ERR_USAGE, "tool_choice: another field binds the answer already");
	return query_variable(a, "tools", tools, e);
}

/* ---- the grammar of the answer ---- */

/* Nothing is bound where the answer is free, and any text a turn. */
int query_parts(struct query *a, const struct serve *s, struct err *e)
{
	const struct chat_template *c = s->info->chat;
	const bool calls = a->tools && !a->no_call && !a->grammar;
	const bool thinks =
		a->kind == QUERY_CHAT && c->thought && !a->silent && (a->begun || !a->thoughtless);
	const struct parts_rules r = { .thought = thinks ? c->thought : NULL,
		.begun = a->begun,
		.budget = a->budget,
		.calls = calls ? c->calls : NULL,
		.tools = a->tools,
		.must = a->must_call,
		.one = a->one_call,
		.name = a->call_name,
		.spec = a->grammar };

	a->calls = calls && a->kind == QUERY_CHAT;
	if (a->kind != QUERY_CHAT || !(calls || (thinks && (a->grammar || a->budget))))
		return 0;
	return query_bound(a,
		calls        ? "tools"
		: a->grammar ? "grammar"
					 : "thinking_token_budget",
		parts_grammar(&r, e), e);
}

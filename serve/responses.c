/* OpenAI's Responses: /v1/responses. Answers are not kept, so that each request has its whole
 * conversation as `input`. See dialect.h. */
#include "serve/dialect.h"

/* ---- fields ---- */

/* {"type": "function", "name": …, "parameters": …} */
static void read_tools(cJSON *chat, const cJSON *v, struct err *e)
{
	cJSON *all = cJSON_AddArrayToObject(chat, "tools"), *to;
	const cJSON *tool, *one;

	cJSON_ArrayForEach(tool, v)
	{
		if (!foreign_is(foreign_member(tool, "type"), "function"))
			err_set(e, ERR_USAGE, "tools: only those of type function are served here");
		to = dialect_tool(all);
		cJSON_ArrayForEach(one, tool)
		{
			if (strcmp(one->string, "type") != 0)
				dialect_copy(to, one->string, one);
		}
	}
}

static void read_choice(cJSON *chat, const cJSON *v, struct err *e)
{
	cJSON *to = cJSON_Duplicate(v, true), *name = cJSON_DetachItemFromObject(to, "name");

	(void)e;
	if (name)
		cJSON_AddItemToObject(cJSON_AddObjectToObject(to, "function"), "name", name);
	cJSON_AddItemToObject(chat, "tool_choice", to);
}

/* {"format": {"type": "json_schema", "schema": …}} */
static void read_text(cJSON *chat, const cJSON *v, struct err *e)
{
	const cJSON *format = foreign_member(v, "format");
	cJSON *to = format ? cJSON_Duplicate(format, true) : NULL;

	(void)e;
	dialect_copy(chat, "verbosity", foreign_member(v, "verbosity"));
	if (to && foreign_member(to, "schema"))
		cJSON_AddItemToObject(cJSON_AddObjectToObject(to, "json_schema"), "schema",
			cJSON_DetachItemFromObject(to, "schema"));
	if (to)
		cJSON_AddItemToObject(chat, "response_format", to);
}

#define NOT_KEPT ": answers are not kept; send the whole conversation as input"

static const struct dialect_field fields[] = {
	{ "input", .as = NULL },
	{ "messages", .refused = ": the conversation is called input" },
	{ "instructions", .as = NULL },
	{ "max_output_tokens", .as = "max_tokens" },
	{ "tools", .read = read_tools },
	{ "tool_choice", .read = read_choice },
	{ "text", .as = "response_format", .read = read_text },
	{ "include", .as = NULL },
	{ "stream_options", .as = NULL },
	{ "previous_response_id", .refused = NOT_KEPT },
	{ "conversation", .refused = NOT_KEPT },
	{ "background", .refused = NOT_KEPT },
	{ "prompt", .refused = ": the text is called input" },
	{ "max_tool_calls", .refused = "" },
	{ "logprobs", .refused = ": /v1/chat/completions has it" },
	{ "top_logprobs", .refused = ": /v1/chat/completions has it" },
	{ "n", .refused = ": there is one answer" },
	{ "best_of", .refused = ": there is one answer" },
};

/* ---- input ---- */

/* input_text and output_text are texts of the chat's. */
static cJSON *content_of(const cJSON *content)
{
	cJSON *copy = cJSON_Duplicate(content, true), *part;

	if (cJSON_IsArray(copy))
		cJSON_ArrayForEach(part, copy)
		{
			const cJSON *type = foreign_member(part, "type");

			if (foreign_is(type, "input_text") || foreign_is(type, "output_text"))
				cJSON_ReplaceItemInObjectCaseSensitive(part, "type", cJSON_CreateString("text"));
		}
	return copy;
}

static void add_message(cJSON *messages, const cJSON *item, struct err *e)
{
	const cJSON *role = foreign_member(item, "role"), *content = foreign_member(item, "content");
	cJSON *m;

	if (!cJSON_IsString(role) || !content) {
		err_set(e, ERR_USAGE, "input: a message has a role and a content");
		return;
	}
	m = foreign_is(role, "assistant") ? dialect_assistant(messages)
									  : dialect_message(messages, role->valuestring);
	if (foreign_member(m, "content") || foreign_member(m, "tool_calls"))
		m = dialect_message(messages, role->valuestring);
	cJSON_AddItemToObject(m, "content", content_of(content));
}

static void add_output(cJSON *messages, const cJSON *item)
{
	cJSON *m = dialect_message(messages, "tool");

	dialect_copy(m, "tool_call_id", foreign_member(item, "call_id"));
	cJSON_AddItemToObject(m, "content", content_of(foreign_member(item, "output")));
}

static void add_item(cJSON *messages, const cJSON *item, struct err *e)
{
	const cJSON *type = foreign_member(item, "type");

	if (!type || foreign_is(type, "message"))
		add_message(messages, item, e);
	else if (foreign_is(type, "reasoning"))
		dialect_add_thought(
			dialect_message(messages, "assistant"), foreign_member(item, "content"), NULL, "text");
	else if (foreign_is(type, "function_call"))
		dialect_add_call(dialect_assistant(messages), foreign_member(item, "call_id"),
			foreign_member(item, "name"), foreign_member(item, "arguments"));
	else if (foreign_is(type, "function_call_output"))
		add_output(messages, item);
	else
		err_set(e, ERR_USAGE,
			"input: items are messages, function_call, function_call_output and reasoning");
}

static void read_input(cJSON *chat, const cJSON *o, struct err *e)
{
	cJSON *messages = cJSON_AddArrayToObject(chat, "messages");
	const cJSON *input = foreign_member(o, "input"), *item,
				*first = foreign_member(o, "instructions");

	if (cJSON_IsString(first))
		dialect_copy(dialect_message(messages, "system"), "content", first);
	if (cJSON_IsString(input))
		dialect_copy(dialect_message(messages, "user"), "content", input);
	else if (!cJSON_IsArray(input) || !input->child)
		err_set(e, ERR_USAGE, "input: a text or a list of items is needed");
	else
		cJSON_ArrayForEach(item, input) add_item(messages, item, e);
}

/* ---- answers ---- */

static const char *status_of(const struct job *job)
{
	const struct choice *c = &job->choice[0];

	return !dialect_ended(job)                  ? "in_progress"
		   : !strcmp(reply_reason(c), "length") ? "incomplete"
		   : !strcmp(reply_reason(c), "abort")  ? "failed"
												: "completed";
}

static void put_id(
	struct json *j, const char *key, const struct job *job, const char *prefix, int32_t index)
{
	char id[72];

	snprintf(id, sizeof id, "%s_%.40s_%d", prefix, job->id + strlen("resp-"), index);
	json_text(j, key, id);
}

static void put_text_part(struct json *j, const char *key, const char *text, size_t n)
{
	json_object(j, key);
	json_put(j, "'type': 'output_text'");
	json_bytes(j, "text", text, n);
	json_put(j, "'annotations': []}");
}

static const char *const prefixes[] = { "rs", "msg", "fc" };

static void put_item(struct json *j, const char *key, const struct job *job, const struct part *p,
	const char *status)
{
	static const char *const types[] = { "reasoning", "message", "function_call" };

	json_object(j, key);
	put_id(j, "id", job, prefixes[p->kind], p->index);
	json_put(j, "'type': %s, 'status': %s", types[p->kind], status);
	if (p->kind == PART_CALL) {
		json_put(j, "'call_id': %s, 'name': %s", p->id, p->name);
		json_bytes(j, "arguments", p->text, p->n);
	} else {
		json_put(j, p->kind == PART_TEXT ? "'role': 'assistant'" : "'summary': []");
		json_put(j, "'content': [");
		if (p->kind == PART_TEXT && (p->n || strcmp(status, "in_progress") != 0))
			put_text_part(j, NULL, p->text, p->n);
		else if (p->n) {
			json_put(j, "{'type': 'reasoning_text'");
			json_bytes(j, "text", p->text, p->n);
			json_put(j, "}");
		}
		json_put(j, "]");
	}
	json_put(j, "}");
}

static void put_usage(struct json *j, const struct job *job)
{
	const struct choice *c = &job->choice[0];
	const int64_t prompt = (int64_t)job->query.prompt[0].n;

	json_put(j,
		"'usage': {'input_tokens': %ld, 'input_tokens_details': {'cached_tokens': %ld, "
		"'cache_write_tokens': 0}, 'output_tokens': %ld",
		prompt, c->hit, c->generated);
	json_put(j, "'output_tokens_details': {'reasoning_tokens': %ld}, 'total_tokens': %ld}",
		c->thought_tokens, prompt + c->generated);
}

/* What was asked for, as it was asked; where nothing was, `none`. */
static void put_asked(struct json *j, const struct job *job, const char *name, const char *none)
{
	const cJSON *v = foreign_member(job->query.asked, name);
	char *text = v ? foreign_json_print(v) : NULL;

	json_raw(j, name, text ? text : none, strlen(text ? text : none));
	cJSON_free(text);
}

static void put_output(struct json *j, const struct job *job)
{
	const char *status = status_of(job);
	struct part p;

	json_put(j, !strcmp(status, "incomplete")
					? "'incomplete_details': {'reason': 'max_output_tokens'}, 'output': ["
					: "'incomplete_details': null, 'output': [");
	for (int32_t i = 0; dialect_ended(job) && dialect_part(&job->choice[0], i, &p); i++)
		put_item(j, NULL, job, &p, p.cut ? "incomplete" : "completed");
	json_put(j, "]");
}

static void put_error(struct json *j, const struct job *job)
{
	const char *why = job->choice[0].why;

	if (strcmp(status_of(job), "failed") != 0)
		json_null(j, "error");
	else
		json_put(j, "'error': {'code': 'server_error', 'message': %s}",
			*why ? why : "the answer failed");
}

static void put_response(struct json *j, const char *key, const struct job *job)
{
	static const struct {
		const char *name, *none;
	} asked[] = { { "instructions", "null" }, { "max_output_tokens", "null" }, { "metadata", "{}" },
		{ "parallel_tool_calls", "true" }, { "reasoning", "null" },
		{ "text", "{\"format\":{\"type\":\"text\"}}" }, { "tool_choice", "\"auto\"" },
		{ "tools", "[]" }, { "truncation", "\"disabled\"" }, { "user", "null" } };

	json_object(j, key);
	json_put(j, "'id': %s, 'object': 'response', 'created_at': %ld, 'status': %s, 'model': %s",
		job->id, job->created, status_of(job), job->s->name);
	put_error(j, job);
	put_output(j, job);
	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
		put_asked(j, job, asked[i].name, asked[i].none);
	json_put(j, "'previous_response_id': null, 'store': false, 'temperature': %.6g, 'top_p': %.6g",
		(double)job->query.set.params.temperature, (double)job->query.set.params.top_p);
	if (dialect_ended(job)) {
		put_usage(j, job);
		json_put(j, "'hash': %lx, 'request': %ld", job->choice[0].hash, job->choice[0].request);
	}
	json_put(j, "}");
}

void reply_response(struct job *job, struct json *j)
{
	reply_grow(&job->choice[0], true);
	put_response(j, NULL, job);
}

/* ---- streams ---- */

static void head(struct json *j, struct job *job, const char *type)
{
	json_put(j, "{'type': %s, 'sequence_number': %ld", type, job->n_events++);
}

static void send_response(struct job *job, const char *type)
{
	struct json j = { 0 };

	head(&j, job, type);
	put_response(&j, "response", job);
	dialect_event(job, type, &j);
}

static void begin(struct job *job)
{
	send_response(job, "response.created");
	send_response(job, "response.in_progress");
}

/* The head of an event of a part; parts of a content are the first of it. */
static void part_head(struct json *j, struct job *job, const struct part *p, const char *type)
{
	head(j, job, type);
	put_id(j, "item_id", job, prefixes[p->kind], p->index);
	json_int(j, "output_index", p->index);
	if (p->kind != PART_CALL)
		json_int(j, "content_index", 0);
}

static void send_item(struct job *job, const struct part *p, const char *type, const char *status)
{
	struct json j = { 0 };

	head(&j, job, type);
	json_int(&j, "output_index", p->index);
	put_item(&j, "item", job, p, status);
	dialect_event(job, type, &j);
}

static void send_content(struct job *job, const struct part *p, const char *type)
{
	struct json j = { 0 };

	part_head(&j, job, p, type);
	put_text_part(&j, "part", p->text, p->n);
	dialect_event(job, type, &j);
}

static void part_begin(struct job *job, const struct part *p)
{
	send_item(job, p, "response.output_item.added", "in_progress");
	if (p->kind == PART_TEXT)
		send_content(job, p, "response.content_part.added");
}

static void part_more(struct job *job, const struct part *p, const char *text, size_t n)
{
	static const char *const types[] = { "response.reasoning_text.delta",
		"response.output_text.delta", "response.function_call_arguments.delta" };
	struct json j = { 0 };

	part_head(&j, job, p, types[p->kind]);
	json_bytes(&j, "delta", text, n);
	if (p->kind == PART_TEXT)
		json_put(&j, "'logprobs': []");
	dialect_event(job, types[p->kind], &j);
}

static void part_end(struct job *job, const struct part *p)
{
	static const char *const types[] = { "response.reasoning_text.done",
		"response.output_text.done", "response.function_call_arguments.done" };
	struct json j = { 0 };

	part_head(&j, job, p, types[p->kind]);
	if (p->kind == PART_CALL)
		json_text(&j, "name", p->name);
	json_bytes(&j, p->kind == PART_CALL ? "arguments" : "text", p->text, p->n);
	if (p->kind == PART_TEXT)
		json_put(&j, "'logprobs': []");
	dialect_event(job, types[p->kind], &j);
	if (p->kind == PART_TEXT)
		send_content(job, p, "response.content_part.done");
	send_item(job, p, "response.output_item.done", p->cut ? "incomplete" : "completed");
}

static void end(struct job *job)
{
	char type[40];

	snprintf(type, sizeof type, "response.%s", status_of(job));
	send_response(job, type);
}

const struct dialect dialect_responses = { .field = fields,
	.n_fields = sizeof fields / sizeof *fields,
	.messages = read_input,
	.begin = begin,
	.part_begin = part_begin,
	.part_more = part_more,
	.part_end = part_end,
	.end = end };

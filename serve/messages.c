/* Anthropic's Messages: /v1/messages. See dialect.h. */
#include "base/text.h"
#include "serve/dialect.h"

/* ---- fields ---- */

/* {"name": …, "description": …, "input_schema": …} */
static void read_tools(cJSON *chat, const cJSON *v, struct err *e)
{
	cJSON *all = cJSON_AddArrayToObject(chat, "tools"), *to;
	const cJSON *tool, *type;

	cJSON_ArrayForEach(tool, v)
	{
		type = foreign_member(tool, "type");
		if (type && !foreign_is(type, "custom"))
			err_set(e, ERR_USAGE, "tools: only those of type custom are served here");
		to = dialect_tool(all);
		dialect_copy(to, "name", foreign_member(tool, "name"));
		dialect_copy(to, "description", foreign_member(tool, "description"));
		dialect_copy(to, "parameters", foreign_member(tool, "input_schema"));
	}
}

/* {"type": "auto", "any", "none" or "tool", "name": …, "disable_parallel_tool_use": true} */
static void read_choice(cJSON *chat, const cJSON *v, struct err *e)
{
	const cJSON *type = foreign_member(v, "type"), *name = foreign_member(v, "name");
	cJSON *to;

	if (!cJSON_IsObject(v))
		err_set(e, ERR_USAGE, "tool_choice: {\"type\": …} is needed");
	if (cJSON_IsTrue(foreign_member(v, "disable_parallel_tool_use")))
		cJSON_AddFalseToObject(chat, "parallel_tool_calls");
	if (foreign_is(type, "tool")) {
		to = cJSON_AddObjectToObject(chat, "tool_choice");
		cJSON_AddStringToObject(to, "type", "function");
		dialect_copy(cJSON_AddObjectToObject(to, "function"), "name", name);
	} else if (foreign_is(type, "any")) {
		cJSON_AddStringToObject(chat, "tool_choice", "required");
	} else {
		dialect_copy(chat, "tool_choice", type);
	}
}

/* Their ids are longer than the log's: the beginning tells them apart. */
static void read_metadata(cJSON *chat, const cJSON *v, struct err *e)
{
	char user[sizeof((struct query *)NULL)->user];
	const char *id = foreign_text(v, "user_id");

	(void)e;
	if (!id)
		return;
	snprintf(user, sizeof user, "%.*s", (int)text_fit(id, strnlen(id, sizeof user - 1)), id);
	cJSON_AddStringToObject(chat, "user", user);
}

static const struct dialect_field fields[] = {
	{ "messages", .as = NULL },
	{ "system", .as = NULL },
	{ "stop_sequences", .as = "stop" },
	{ "tools", .read = read_tools },
	{ "tool_choice", .read = read_choice },
	{ "metadata", .as = "user", .read = read_metadata },
	{ "container", .refused = "" },
	{ "mcp_servers", .refused = "" },
	{ "logprobs", .refused = ": /v1/chat/completions has it" },
	{ "n", .refused = ": there is one answer" },
	{ "best_of", .refused = ": there is one answer" },
};

/* ---- messages ---- */

/* Of a tool's result: a text, or parts. A part of another kind is refused with the chat's words. */
static void add_result(cJSON *messages, const cJSON *block)
{
	cJSON *m = dialect_message(messages, "tool");

	dialect_copy(m, "tool_call_id", foreign_member(block, "tool_use_id"));
	dialect_copy(m, "content", foreign_member(block, "content"));
	if (!foreign_member(m, "content"))
		cJSON_AddStringToObject(m, "content", "");
}

/* Results of tools come before what the user says beside them. */
static void add_blocks(cJSON *messages, const char *role, const cJSON *content)
{
	const bool answer = !strcmp(role, "assistant");
	cJSON *m = answer ? dialect_message(messages, role) : NULL, *parts = cJSON_CreateArray();
	const cJSON *block;

	cJSON_ArrayForEach(block, content)
	{
		const cJSON *type = foreign_member(block, "type");

		if (foreign_is(type, "tool_result"))
			add_result(messages, block);
		else if (m && foreign_is(type, "tool_use"))
			dialect_add_call(m, foreign_member(block, "id"), foreign_member(block, "name"),
				foreign_member(block, "input"));
		else if (!foreign_is(type, "redacted_thinking") && !(m && foreign_is(type, "thinking")))
			cJSON_AddItemToArray(parts, cJSON_Duplicate(block, true));
	}
	if (m)
		dialect_add_thought(m, content, "thinking", "thinking");
	if (!m && parts->child)
		m = dialect_message(messages, role);
	if (m && parts->child)
		cJSON_AddItemToObject(m, "content", parts);
	else
		cJSON_Delete(parts);
}

static void read_messages(cJSON *chat, const cJSON *o, struct err *e)
{
	cJSON *messages = cJSON_AddArrayToObject(chat, "messages");
	const cJSON *system = query_member(o, "system"), *all = foreign_member(o, "messages"), *m;

	if (!cJSON_IsArray(all) || !all->child)
		err_set(e, ERR_USAGE, "messages: a list of messages is needed");
	if (system)
		dialect_copy(dialect_message(messages, "system"), "content", system);
	cJSON_ArrayForEach(m, all)
	{
		const char *role = foreign_text(m, "role");

		if (role && cJSON_IsArray(foreign_member(m, "content")))
			add_blocks(messages, role, foreign_member(m, "content"));
		else
			cJSON_AddItemToArray(messages, cJSON_Duplicate(m, true));
	}
	if (dialect_answer(messages))
		err_set(
			e, ERR_USAGE, "messages: the last is the assistant's, and is not gone on from here");
	if (!foreign_member(o, "max_tokens"))
		err_set(e, ERR_USAGE, "max_tokens: it is missing");
}

/* ---- answers ---- */

static const char *reason_of(const struct choice *c)
{
	const char *reason = reply_reason(c);

	return c->held.stop                    ? "stop_sequence"
		   : !strcmp(reason, "length")     ? "max_tokens"
		   : !strcmp(reason, "tool_calls") ? "tool_use"
										   : "end_turn";
}

static void put_reason(struct json *j, const struct choice *c)
{
	json_put(j, "'stop_reason': %s, 'stop_sequence': %s", reason_of(c), c->held.stop);
}

/* Tokens that the cache had are not among those of the input. */
static void put_usage(struct json *j, const struct job *job)
{
	const struct choice *c = &job->choice[0];
	const bool ended = dialect_ended(job);
	const int64_t hit = ended ? c->hit : 0;

	json_put(j, "'usage': {'input_tokens': %ld, 'cache_creation_input_tokens': %ld",
		(int64_t)job->query.prompt[0].n - hit, ended && !c->pin.renewed ? c->pin.tokens : 0);
	json_put(
		j, "'cache_read_input_tokens': %ld, 'output_tokens': %ld}", hit, ended ? c->generated : 0);
}

/* Whose input is JSON already, unless the answer broke off within it. */
static void put_block(struct json *j, const char *key, const struct part *p, bool is_whole)
{
	static const char *const types[] = { "thinking", "text", "tool_use" };
	cJSON *input = p->kind == PART_CALL ? cJSON_ParseWithLength(p->text, p->n) : NULL;

	json_object(j, key);
	json_put(j, "'type': %s", types[p->kind]);
	if (p->kind == PART_CALL) {
		json_put(j, "'id': %s, 'name': %s", p->id, p->name);
		json_raw(j, "input", is_whole && input ? p->text : "{}", is_whole && input ? p->n : 2);
	} else {
		json_bytes(j, types[p->kind], p->text, p->n);
	}
	if (p->kind == PART_THOUGHT)
		json_text(j, "signature", "");
	json_end(j);
	cJSON_Delete(input);
}

static void put_head(struct json *j, const char *key, const struct job *job)
{
	json_object(j, key);
	json_put(j, "'id': %s, 'type': 'message', 'role': 'assistant', 'model': %s, 'content': [",
		job->id, job->s->name);
}

void reply_message(struct job *job, struct json *j)
{
	const struct choice *c = &job->choice[0];
	struct part p;

	reply_grow(&job->choice[0], true);
	put_head(j, NULL, job);
	for (int32_t i = 0; dialect_part(c, i, &p); i++)
		put_block(j, NULL, &p, true);
	json_put(j, "]");
	put_reason(j, c);
	put_usage(j, job);
	json_put(j, "'hash': %lx, 'request': %ld", c->hash, c->request);
}

/* ---- streams ---- */

static void begin(struct job *job)
{
	struct json j = { 0 };

	json_put(&j, "{'type': 'message_start'");
	put_head(&j, "message", job);
	json_put(&j, "], 'stop_reason': null, 'stop_sequence': null");
	put_usage(&j, job);
	dialect_event(job, "message_start", &j);
}

static void part_begin(struct job *job, const struct part *p)
{
	struct json j = { 0 };

	json_put(&j, "{'type': 'content_block_start', 'index': %d", p->index);
	put_block(&j, "content_block", p, false);
	dialect_event(job, "content_block_start", &j);
}

static void part_more(struct job *job, const struct part *p, const char *text, size_t n)
{
	static const char *const types[] = { "thinking_delta", "text_delta", "input_json_delta" },
							 *const names[] = { "thinking", "text", "partial_json" };
	struct json j = { 0 };

	json_put(&j, "{'type': 'content_block_delta', 'index': %d, 'delta': {'type': %s", p->index,
		types[p->kind]);
	json_bytes(&j, names[p->kind], text, n);
	dialect_event(job, "content_block_delta", &j);
}

static void part_end(struct job *job, const struct part *p)
{
	struct json j = { 0 };

	json_put(&j, "{'type': 'content_block_stop', 'index': %d", p->index);
	dialect_event(job, "content_block_stop", &j);
}

static void end(struct job *job)
{
	const struct choice *c = &job->choice[0];
	struct json j = { 0 };

	if (!strcmp(reply_reason(c), "abort")) {
		json_put(&j, "{'type': 'error', 'error': {'type': 'api_error', 'message': %s",
			*c->why ? c->why : "the answer failed");
		dialect_event(job, "error", &j);
		return;
	}
	json_put(&j, "{'type': 'message_delta', 'delta': {");
	put_reason(&j, c);
	json_put(&j, "}");
	put_usage(&j, job);
	json_put(&j, "'hash': %lx, 'request': %ld", c->hash, c->request);
	dialect_event(job, "message_delta", &j);
	json_put(&j, "{'type': 'message_stop'");
	dialect_event(job, "message_stop", &j);
}

const struct dialect dialect_messages = { .field = fields,
	.n_fields = sizeof fields / sizeof *fields,
	.messages = read_messages,
	.begin = begin,
	.part_begin = part_begin,
	.part_more = part_more,
	.part_end = part_end,
	.end = end,
	.types_errors = true };

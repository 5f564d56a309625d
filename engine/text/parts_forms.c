/* The formats of thoughts and calls. See parts.h. */
#include "engine/text/tokenizer.h"
#include "engine/text/parts.h"

#define DEEPSEEK(word) "<｜tool▁" word "｜>"
#define DEEPSEEK_TOKENS                                                                            \
	{                                                                                              \
		DEEPSEEK("calls▁begin"), DEEPSEEK("call▁begin"), DEEPSEEK("sep"), DEEPSEEK("call▁end"),    \
			DEEPSEEK("calls▁end")                                                                  \
	}

#define MISTRAL_LIST                                                                               \
	.call = "{\"name\": \"", .args = "\", \"arguments\": ", .done = ", \"id\": \"" PARTS_ID "\"}", \
	.between = ", ", .close = "]", .token = { "[TOOL_CALLS]" }

/* The first that fits counts. */
static const struct parts_calls calls[] = {
	{ .name = "gemma",
		.with = { "<|tool_call>call:" },
		.mark = "<|tool_call>",
		.call = "<|tool_call>call:",
		.args = "",
		.done = "<tool_call|>",
		.between = "",
		.kind = PARTS_BARE,
		.quote = "<|\"|>",
		.token = { "<|tool_call>", "<tool_call|>", "<|\"|>" } },
	{ .name = "functiongemma",
		.with = { "<start_function_call>" },
		.mark = "<start_function_call>",
		.call = "<start_function_call>call:",
		.args = "",
		.done = "<end_function_call>",
		.between = "",
		.kind = PARTS_BARE,
		.quote = "<escape>",
		.token = { "<start_function_call>", "<end_function_call>", "<escape>" } },
	{ .name = "deepseek",
		.with = { DEEPSEEK("sep"), "```json" },
		.mark = DEEPSEEK("calls▁begin"),
		.open = DEEPSEEK("calls▁begin"),
		.call = DEEPSEEK("call▁begin") "function" DEEPSEEK("sep"),
		.args = "\n```json\n",
		.done = "\n```" DEEPSEEK("call▁end"),
		.between = "\n",
		.close = DEEPSEEK("calls▁end"),
		.token = DEEPSEEK_TOKENS },
	{ .name = "deepseek-v3.1",
		.with = { DEEPSEEK("sep") },
		.mark = DEEPSEEK("calls▁begin"),
		.open = DEEPSEEK("calls▁begin"),
		.call = DEEPSEEK("call▁begin"),
		.args = DEEPSEEK("sep"),
		.done = DEEPSEEK("call▁end"),
		.between = "",
		.close = DEEPSEEK("calls▁end"),
		.token = DEEPSEEK_TOKENS },
	{ .name = "mistral-v11",
		.with = { "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]" },
		.mark = "[TOOL_CALLS]",
		.call = "[TOOL_CALLS]",
		.args = "[CALL_ID]" PARTS_ID "[ARGS]",
		.done = "",
		.between = "",
		.token = { "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]" } },
	{ .name = "mistral-v13",
		.with = { "[TOOL_CALLS]", "[ARGS]" },
		.mark = "[TOOL_CALLS]",
		.call = "[TOOL_CALLS]",
		.args = "[ARGS]",
		.done = "",
		.between = "",
		.token = { "[TOOL_CALLS]", "[ARGS]" } },
	{ .name = "mistral",
		.with = { "[TOOL_CALLS] [" },
		.mark = "[TOOL_CALLS]",
		.open = "[TOOL_CALLS] [",
		MISTRAL_LIST },
	{ .name = "mistral-tekken",
		.with = { "[TOOL_CALLS][" },
		.mark = "[TOOL_CALLS]",
		.open = "[TOOL_CALLS][",
		MISTRAL_LIST },
	{
		.name = "llama",
		.with = { "\"parameters\": ", "ipython" },
		.without = { "<function=" },
		.first = true,
		.mark = "{",
		.call = "{\"name\": \"",
		.args = "\", \"parameters\": ",
		.done = "}",
	},
	{ .name = "qwen-coder",
		.with = { "<tool_call>", "<function=", "<parameter=" },
		.mark = "<tool_call>",
		.call = "<tool_call>\n<function=",
		.args = ">\n",
		.done = "</function>\n</tool_call>",
		.between = "\n",
		.kind = PARTS_XML,
		.token = { "<tool_call>", "</tool_call>" } },
	{ .name = "hermes",
		.with = { "<tool_call>", "</tool_call>", "arguments" },
		.without = { "arg_key", "<tool_sep>", "<tool_calls>", "minimax" },
		.mark = "<tool_call>",
		.call = "<tool_call>\n{\"name\": \"",
		.args = "\", \"arguments\": ",
		.done = "}\n</tool_call>",
		.between = "\n",
		.token = { "<tool_call>", "</tool_call>" } },
};
enum { N_CALLS = sizeof calls / sizeof *calls };
static const struct parts_calls *const calls_told = &calls[N_CALLS - 1];

static const struct parts_thought thoughts[] = {
	{ "<think>", "</think>", "" },
	{ "[THINK]", "[/THINK]", "" },
	{ "<|channel>", "<channel|>", "thought\n" },
	{ "<seed:think>", "</seed:think>", "" },
};

/* In place of what a template does not do: tools stand in the system's text, as Hermes 2 Pro's
 * template has them. %s: of a call. */
static const char tells_tools[] =
	"{%%- if tools -%%}{%%- set ns = namespace(said='') -%%}"
	"{%%- for t in tools -%%}{%%- set ns.said = ns.said + '\n' + (t | tojson) -%%}{%%- endfor -%%}"
	"{%%- set system = messages[0].content + '\n\n' if messages and messages[0].role == 'system' "
	"else '' -%%}"
	"{%%- set messages = [{'role': 'system', 'content': system + \"# Tools\n\nYou may call one or "
	"more functions to assist with the user query.\n\nYou are provided with function signatures "
	"within <tools></tools> XML tags:\n<tools>\" + ns.said + \"\n</tools>\n\nFor each function "
	"call, return a json object with function name and arguments%s:\n%s\"}] + (messages[1:] if "
	"system else messages) -%%}{%%- endif -%%}";

/* Calls stand in answers, and what tools said in a turn of the user's. */
static const char tells_calls[] =
	"{%- set ns = namespace(all=[], said='') -%}{%- for m in messages -%}"
	"{%- if m.role == 'tool' -%}"
	"{%- set text = '<tool_response>\n' + m.content + '\n</tool_response>' -%}"
	"{%- if loop.index0 and messages[loop.index0 - 1].role == 'tool' -%}"
	"{%- set ns.all = ns.all[:-1] + [{'role': 'user', 'content': ns.all[-1].content + '\n' + text}]"
	" -%}"
	"{%- else -%}{%- set ns.all = ns.all + [{'role': 'user', 'content': text}] -%}{%- endif -%}"
	"{%- elif m.tool_calls -%}{%- set ns.said = m.content or '' -%}{%- for c in m.tool_calls -%}"
	"{%- set ns.said = ns.said + ('\n' if ns.said else '') + '<tool_call>\n{\"name\": \"' + "
	"c.function.name + '\", \"arguments\": ' + (c.function.arguments | tojson) + '}\n</tool_call>' "
	"-%}{%- endfor -%}"
	"{%- set ns.all = ns.all + [{'role': 'assistant', 'content': ns.said}] -%}"
	"{%- else -%}{%- set ns.all = ns.all + [m] -%}{%- endif -%}{%- endfor -%}"
	"{%- set messages = ns.all -%}";

static bool fits(const struct parts_calls *c, const char *jinja)
{
	for (int i = 0; i < 3 && c->with[i]; i++)
		if (!strstr(jinja, c->with[i]))
			return false;
	for (int i = 0; i < 4 && c->without[i]; i++)
		if (strstr(jinja, c->without[i]))
			return false;
	return true;
}

const struct parts_calls *parts_calls_of(const char *jinja)
{
	for (int i = 0; i < N_CALLS; i++)
		if (fits(&calls[i], jinja))
			return &calls[i];
	return strstr(jinja, "tool") ? NULL : calls_told;
}

/* Inside a Jinja text between ". */
static void put_example(FILE *f, const char *text)
{
	for (; *text; text++)
		if (*text == '"')
			fputs("\\\"", f);
		else
			fputs(*text == *PARTS_ID ? "abcdef123" : (const char[]){ *text, 0 }, f);
}

static char *example_of(const struct parts_calls *c)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	put_example(f, c->open);
	put_example(f, c->call);
	fputs("<function-name>", f);
	put_example(f, c->args);
	fputs("<args-json-object>", f);
	put_example(f, c->done);
	put_example(f, c->close);
	return fclose(f) ? NULL : text;
}

char *parts_tell(const char *jinja)
{
	const struct parts_calls *c = parts_calls_of(jinja);
	const bool knows_calls = strstr(jinja, "tool_calls");
	char *example, *tools = NULL, *all = NULL;

	if (strstr(jinja, "tools") || !c || !(example = example_of(c)))
		return NULL;
	if (asprintf(&tools, tells_tools,
			c == calls_told ? " within <tool_call></tool_call> XML tags" : "", example) >= 0 &&
		asprintf(&all, "%s%s", tools, knows_calls ? "" : tells_calls) < 0)
		all = NULL;
	free(tools);
	free(example);
	return all;
}

const struct parts_thought *parts_thought_of(const char *jinja)
{
	for (size_t i = 0; i < sizeof thoughts / sizeof *thoughts; i++)
		if (strstr(jinja, thoughts[i].close))
			return &thoughts[i];
	return NULL;
}

static bool is(const char *mark, const char *name, size_t size)
{
	return mark && strlen(mark) == size && !memcmp(mark, name, size);
}

bool parts_has_token(const struct parts *t, const char *name, size_t size)
{
	if (t->thought && (is(t->thought->open, name, size) || is(t->thought->close, name, size)))
		return true;
	for (size_t i = 0; t->calls && i < sizeof t->calls->token / sizeof *t->calls->token; i++)
		if (is(t->calls->token[i], name, size))
			return true;
	return false;
}

static bool text_begun(const struct parts_thought *h, const char *text, size_t size)
{
	const size_t open = strlen(h->open), head = strlen(h->head);

	while (size && strchr(" \n", text[size - 1]))
		size--;
	if (head && size >= head - 1 && !memcmp(text + size - (head - 1), h->head, head - 1))
		size -= head - 1; /* whose last byte, a space, was taken already */
	return size >= open && !memcmp(text + size - open, h->open, open);
}

bool parts_is_begun(
	const struct parts_thought *h, const struct tokenizer *t, const int32_t *ids, size_t n)
{
	char text[PARTS_TAIL];
	size_t from = sizeof text;

	while (h && n) {
		const struct gguf_text b = tokenizer_bytes(t, ids[--n]);

		if (b.size > from)
			break;
		from -= b.size;
		memcpy(text + from, b.data, b.size);
	}
	return h && text_begun(h, text + from, sizeof text - from);
}

const struct parts_thought *parts_thought_in(
	const char *prompt, size_t n_prompt, const char *answer, size_t n_answer)
{
	size_t at = 0;

	while (at < n_answer && strchr(" \n", answer[at]))
		at++;
	for (size_t i = 0; i < sizeof thoughts / sizeof *thoughts; i++) {
		const struct parts_thought *h = &thoughts[i];
		const size_t n = strlen(h->open);

		if ((n_answer - at >= n && !memcmp(answer + at, h->open, n)) ||
			text_begun(h, prompt, n_prompt))
			return h;
	}
	return NULL;
}

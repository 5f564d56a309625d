/* Renders chat templates for tests/program/test_jinja.py: a line of JSON in, a line out.
 * In: {"template": text, "vars": {…}, "now": seconds or absent}. Out: {"text": …} or {"error": …}.
 * Without vars: {"template", "eos": the vocabulary's name of it, or absent}: the pieces that the
 * engine makes of it, {"name": …, "note": …, "user_before": … …}.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "engine/text/jinja/jinja.h"
#include "engine/text/template.h"
#include "tests/support/tiny.h"

static int set_all(struct jinja *j, const cJSON *vars, struct err *e)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, vars)
	{
		char *text = cJSON_PrintUnformatted(v);
		int failed = jinja_set(j, v->string, text, strlen(text), e);

		free(text);
		if (failed)
			return -1;
	}
	return 0;
}

static char *render(const cJSON *in, struct err *e)
{
	const char *template = cJSON_GetStringValue(cJSON_GetObjectItem(in, "template"));
	const cJSON *now = cJSON_GetObjectItem(in, "now");
	struct jinja_options o = { .now = now ? (int64_t)now->valuedouble : 0 };
	struct jinja *j;
	char *out = NULL;
	size_t size;

	if (jinja_open(&j, template, strlen(template), &o, e))
		return NULL;
	if (!set_all(j, cJSON_GetObjectItem(in, "vars"), e))
		jinja_render(j, &out, &size, e);
	jinja_close(j);
	return out;
}

static void add_pieces(cJSON *told, const struct chat_template *c)
{
	const struct {
		const char *name, *text;
	} all[] = { { "name", c->name }, { "note", c->note ? c->note : "" }, { "bos", c->bos },
		{ "system_before", c->system_before }, { "system_after", c->system_after },
		{ "user_before", c->user_before }, { "user_after", c->user_after },
		{ "answer_before", c->answer_before }, { "answer_after", c->answer_after },
		{ "end_before", c->end_before ? c->end_before : "" }, { "end", c->end } };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		cJSON_AddStringToObject(told, all[i].name, all[i].text);
}

static void tell_pieces(const cJSON *in, cJSON *told)
{
	struct bytes b = { 0 };
	struct gguf *g;
	struct err e = { 0 };
	int known;

	const char *eos = cJSON_GetStringValue(cJSON_GetObjectItem(in, "eos"));

	gguf_put_header(&b, 3, 0, eos ? 3 : 1);
	if (eos) {
		gguf_put_kv_u32(&b, "tokenizer.ggml.eos_token_id", 0);
		gguf_put_kv_array(&b, "tokenizer.ggml.tokens", 8, 1);
		gguf_put_string(&b, eos, strlen(eos));
	}
	gguf_put_kv_text(
		&b, "tokenizer.chat_template", cJSON_GetStringValue(cJSON_GetObjectItem(in, "template")));
	if (gguf_open_memory(&g, b.data, b.size, &e))
		abort();
	add_pieces(told, template_of(g, &known));
	gguf_close(g);
	bytes_free(&b);
}

static void tell_text(const cJSON *in, cJSON *told)
{
	struct err e = { 0 };
	char *text = render(in, &e);

	cJSON_AddStringToObject(told, text ? "text" : "error", text ? text : e.text);
	free(text);
}

int main(void)
{
	char *line = NULL;
	size_t cap = 0;

	while (getline(&line, &cap, stdin) > 0) {
		cJSON *in = cJSON_Parse(line), *told = cJSON_CreateObject();
		char *answer;

		if (cJSON_GetObjectItem(in, "vars"))
			tell_text(in, told);
		else
			tell_pieces(in, told);
		answer = cJSON_PrintUnformatted(told);
		puts(answer);
		fflush(stdout);
		free(answer);
		cJSON_Delete(in);
		cJSON_Delete(told);
	}
	free(line);
	return 0;
}

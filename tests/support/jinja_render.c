/* Renders chat templates for tests/program/test_jinja.py: a line of JSON in, a line out.
 * In: {"template": text, "vars": {…}, "now": seconds or absent}. Out: {"text": …} or {"error": …}.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/foreign_json.h"
#include "engine/text/jinja/jinja.h"

static int set_all(struct jinja *j, const cJSON *vars, struct err *e)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, vars)
	{
		char *text = foreign_json_print(v);
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
	size_t cap = 0, end;

	while (getline(&line, &cap, stdin) > 0) {
		cJSON *in = foreign_json_whole(line, strlen(line), &end), *told = cJSON_CreateObject();
		char *answer;

		tell_text(in, told);
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

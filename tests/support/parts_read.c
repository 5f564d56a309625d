/* Turns with thoughts and calls for tests/program/test_calls.py: a line of JSON in, a line out. In:
 * {"template": text, "tools": [functions], "raw": text, "must", "begun", "budget", "spec"}. Out:
 * {"format", "thought", "tells"; "grammar", or "error"; "taken": bytes of the longest beginning of
 * raw that is an answer by the grammar; "text", "thoughts", "calls", as read at once and byte by
 * byte; "differ": these differ}. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "engine/grammar/automaton.h"
#include "engine/grammar/readers.h"
#include "engine/text/parts.h"

static const char *text_of(const cJSON *in, const char *name)
{
	return cJSON_GetStringValue(cJSON_GetObjectItem(in, name));
}

static int taken(const char *spec, const char *raw)
{
	struct grammar g = { 0 };
	struct program p = { 0 };
	struct automaton a;
	struct err e = { 0 };
	int best = -1;

	spec_read(&g, spec);
	if (!grammar_compile(&g, &p, &e) && !automaton_open(&a, &p, &e)) {
		int32_t state = a.start;

		for (int i = 0; state >= 0; i++) {
			best = a.state[state].ends ? i : best;
			if (!raw[i])
				break;
			state = automaton_next(&a, state, (unsigned char)raw[i]);
		}
		automaton_close(&a);
	} else {
		fprintf(stderr, "%s\n", e.text);
		best = -2;
	}
	program_free(&p);
	grammar_free(&g);
	return best;
}

static cJSON *told(const struct parts *p)
{
	cJSON *o = cJSON_CreateObject(), *calls = cJSON_AddArrayToObject(o, "calls");

	cJSON_AddStringToObject(o, "text", p->text.n ? p->text.text : "");
	cJSON_AddStringToObject(o, "thoughts", p->thoughts.n ? p->thoughts.text : "");
	for (size_t i = 0; i < p->n_calls; i++) {
		cJSON *one = cJSON_CreateObject();

		cJSON_AddStringToObject(one, "name", p->call[i].name.text);
		cJSON_AddStringToObject(one, "arguments", p->call[i].args.n ? p->call[i].args.text : "");
		cJSON_AddItemToArray(calls, one);
	}
	return o;
}

static cJSON *read_raw(struct parts p, const char *raw, bool by_bytes)
{
	const size_t n = strlen(raw);
	cJSON *o;

	for (size_t i = 0; by_bytes && i <= n; i++)
		parts_read(&p, raw, i, false);
	parts_read(&p, raw, n, true);
	o = told(&p);
	parts_free(&p);
	return o;
}

static cJSON *answer(const cJSON *in)
{
	const char *jinja = text_of(in, "template"), *raw = text_of(in, "raw");
	const struct parts_calls *calls = parts_calls_of(jinja);
	const struct parts_thought *thought = parts_thought_of(jinja);
	const cJSON *budget = cJSON_GetObjectItem(in, "budget");
	const struct parts_rules r = { .thought = thought,
		.begun = cJSON_IsTrue(cJSON_GetObjectItem(in, "begun")),
		.budget = budget ? (int32_t)budget->valuedouble : 0,
		.calls = cJSON_GetObjectItem(in, "tools") ? calls : NULL,
		.tools = cJSON_GetObjectItem(in, "tools"),
		.must = cJSON_IsTrue(cJSON_GetObjectItem(in, "must")),
		.spec = text_of(in, "spec") };
	const struct parts p = {
		.thought = thought, .calls = r.calls, .tools = r.tools, .begun = r.begun
	};
	struct err e = { 0 };
	char *tells = parts_tell(jinja), *grammar = r.tools && !calls ? NULL : parts_grammar(&r, &e);
	cJSON *o = cJSON_CreateObject(), *once = read_raw(p, raw, false),
		  *bytes = read_raw(p, raw, true);

	cJSON_AddStringToObject(o, "format", calls ? calls->name : "");
	cJSON_AddStringToObject(o, "thought", thought ? thought->open : "");
	cJSON_AddStringToObject(o, "tells", tells ? tells : "");
	free(tells);
	if (grammar)
		cJSON_AddStringToObject(o, "grammar", grammar);
	else
		cJSON_AddStringToObject(o, "error", e.text);
	cJSON_AddNumberToObject(o, "taken", grammar ? taken(grammar, raw) : -1);
	cJSON_AddBoolToObject(o, "differ", !cJSON_Compare(once, bytes, true));
	cJSON_AddItemToObject(o, "parts", once);
	cJSON_Delete(bytes);
	free(grammar);
	return o;
}

int main(void)
{
	char *line = NULL;
	size_t cap = 0;

	while (getline(&line, &cap, stdin) > 0) {
		cJSON *in = cJSON_Parse(line), *out = answer(in);
		char *text = cJSON_PrintUnformatted(out);

		puts(text);
		fflush(stdout);
		free(text);
		cJSON_Delete(in);
		cJSON_Delete(out);
	}
	free(line);
	return 0;
}

/* Grammars for tests/program/test_schema.py: a line of JSON in, a line out.
 * In: {"schema": text, "accept": [texts], "samples": n, "seed": s}.
 * Out: {"error": …}, or {"accept": [true, …], "samples": [texts that the grammar allows]}: each
 * byte is drawn among those that lead on; after some hundred mostly one that leads up the stack. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "engine/grammar/automaton.h"
#include "engine/grammar/readers.h"

enum { LONGEST = 20000, FREE = 300 };

static uint64_t seed;

static uint32_t draw(uint32_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(seed >> 33) % n;
}

static int open_grammar(struct automaton *a, const char *text, struct err *e)
{
	struct grammar g = { 0 };
	struct program p = { 0 };
	int rc;

	schema_read(&g, text, strlen(text));
	rc = grammar_compile(&g, &p, e) || automaton_open(a, &p, e);
	grammar_free(&g);
	return rc;
}

static bool takes(struct automaton *a, const char *text)
{
	int32_t at = a->start;

	for (; *text && at >= 0; text++)
		at = automaton_next(a, at, (unsigned char)*text);
	return at >= 0 && a->state[at].ends;
}

static int depth(const struct automaton *a, int32_t state)
{
	int least = 1 << 20;

	for (int32_t i = 0; i < a->state[state].n; i++) {
		int d = 1;

		for (int32_t f = a->stack[a->state[state].first + i]; f > 0; f = a->frame[f].parent)
			d++;
		least = d < least ? d : least;
	}
	return a->state[state].ends ? 0 : least;
}

/* The state after a byte that leads on, and the byte. */
static int32_t step(struct automaton *a, int32_t at, bool hurry, unsigned char *byte)
{
	int32_t best = STATE_DEAD;
	int least = 1 << 30, n = 0;

	for (int c = 0, b; c < a->program.n_classes; c++) {
		for (b = 0; a->program.class_of[b] != c; b++)
			;
		const int32_t next = automaton_next(a, at, (unsigned char)b);
		const int d = next < 0 ? 0 : hurry ? depth(a, next) : 1;

		if (next < 0 || d > least)
			continue;
		n = d < least ? 1 : n + 1;
		least = d;
		if (draw((uint32_t)n))
			continue;
		best = next;
		do
			*byte = (unsigned char)draw(256);
		while (a->program.class_of[*byte] != c);
	}
	return best;
}

static bool sample(struct automaton *a, char *text)
{
	int32_t at = a->start, n = 0;
	const int32_t free = (int32_t)draw(FREE);

	for (; n < LONGEST && at >= 0; n++) {
		if (a->state[at].ends && (!a->state[at].n || n >= free || !draw(4)))
			break;
		at = step(a, at, n >= free && draw(8), (unsigned char *)text + n);
	}
	text[n] = 0;
	return at >= 0 && a->state[at].ends;
}

static void answer(struct automaton *a, const cJSON *in, cJSON *out)
{
	static char text[LONGEST + 1];
	cJSON *accept = cJSON_AddArrayToObject(out, "accept"),
		  *samples = cJSON_AddArrayToObject(out, "samples");
	const cJSON *one, *n = cJSON_GetObjectItem(in, "samples");

	cJSON_ArrayForEach(one, cJSON_GetObjectItem(in, "accept"))
	{
		cJSON_AddItemToArray(accept, cJSON_CreateBool(takes(a, one->valuestring)));
	}
	for (int i = 0; n && i < n->valueint; i++)
		cJSON_AddItemToArray(
			samples, sample(a, text) ? cJSON_CreateString(text) : cJSON_CreateNull());
	if (a->failed)
		cJSON_AddStringToObject(out, "failed", a->failed);
}

int main(void)
{
	char *line = NULL;
	size_t cap = 0;

	while (getline(&line, &cap, stdin) > 0) {
		cJSON *in = cJSON_Parse(line), *out = cJSON_CreateObject();
		const cJSON *s = cJSON_GetObjectItem(in, "seed");
		struct automaton a;
		struct err e = { 0 };
		char *told;

		seed = s ? (uint64_t)s->valueint : 1;
		if (open_grammar(&a, cJSON_GetStringValue(cJSON_GetObjectItem(in, "schema")), &e)) {
			cJSON_AddStringToObject(out, "error", e.text);
		} else {
			answer(&a, in, out);
			automaton_close(&a);
		}
		told = cJSON_PrintUnformatted(out);
		puts(told);
		fflush(stdout);
		free(told);
		cJSON_Delete(in);
		cJSON_Delete(out);
	}
	free(line);
	return 0;
}

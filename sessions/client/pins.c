/* See pins.h. */
#include "sessions/client/pins.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/foreign_json.h"

enum { MOST_BYTES = 1 << 20 };

/* NULL with the error: no success, or no JSON. */
static cJSON *read_answer(
	const struct client_answer *a, const char *root, const char *path, struct err *e)
{
	cJSON *o = foreign_json_parse(a->text, a->size);
	const char *why = foreign_text(foreign_member(o, "error"), "message");
	char clean[sizeof e->text] = "no answer of cutaway serve";

	if (o && a->status == 200)
		return o;
	if (why)
		text_cleaned(clean, sizeof clean, why, strlen(why));
	err_set(e, ERR_INPUT, "%s%s: %s (status %d)", root, path, clean, a->status);
	cJSON_Delete(o);
	return NULL;
}

static double number_of(const cJSON *o, const char *name)
{
	return cJSON_GetNumberValue(foreign_member(o, name));
}

static void put_pin(FILE *f, const cJSON *p)
{
	const double replica = number_of(p, "replica"); /* of several */

	fprintf(f, "pin %.0f", number_of(p, "pin"));
	if (!isnan(replica))
		fprintf(f, " at replica %.0f", replica);
	fprintf(f, ": %.0f of %.0f tokens in whole pages: %.0f pages, %.1f MB; ",
		number_of(p, "tokens"), number_of(p, "declared_tokens"), number_of(p, "pages"),
		number_of(p, "bytes") / 1e6);
	if (isnan(number_of(p, "expires_in")))
		fputs("until it is removed", f);
	else
		fprintf(f, "%.0f s left", number_of(p, "expires_in"));
	if (number_of(p, "prompts") > 0)
		fprintf(f, "; gave %.0f tokens to %.0f prompts", number_of(p, "given_tokens"),
			number_of(p, "prompts"));
	fputc('\n', f);
}

/* A line a pin; of what was removed nothing. */
static char *words_of(const cJSON *o, struct err *e)
{
	const cJSON *list = foreign_member(o, "data"), *p;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (f && list && !list->child)
		fputs("nothing is pinned\n", f);
	else if (f && !list && !isnan(number_of(o, "pin")))
		put_pin(f, o);
	else if (f)
		cJSON_ArrayForEach(p, list) put_pin(f, p);
	if (f && !fclose(f))
		return text;
	err_no_memory(e, "the list");
	return NULL;
}

char *pins_ask(const struct client_options *o, const char *method, const char *path,
	const char *body, bool json, struct err *e)
{
	struct client_answer a = { 0 };
	struct client *c = NULL;
	cJSON *answer = NULL;
	char *text = NULL;

	if (!client_open(&c, o, e) && !client_fetch(c, method, path, body, MOST_BYTES, &a, e))
		answer = read_answer(&a, client_root(c), path, e);
	if (answer && json && asprintf(&text, "%s\n", a.text) < 0)
		text = NULL;
	else if (answer && !json)
		text = words_of(answer, e);
	free(a.text);
	cJSON_Delete(answer);
	client_close(c);
	return text;
}

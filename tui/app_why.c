/* /why: the log's own answer, in a popup. Chat and replay ask the same file in the same way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sessions/why.h"
#include "tui/app.h"

/* Without a question: those that there are. */
static void show_kinds(struct app *a)
{
	char text[1024];
	size_t used = 0;

	for (const struct why_kind *k = why_kinds; k->name && used < sizeof text - 128; k++)
		used += (size_t)snprintf(text + used, sizeof text - used, "/why %-9s%-16s%s\n", k->name, k->where,
								 k->doc);
	app_show(a, "why?", text);
}

static int answer(struct app *a, const char *path, const char *what, const char *where, struct err *e)
{
	char *text = NULL, title[80];
	struct why *w = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int rc = -1;

	if (!out)
		return err_set(e, ERR_MEMORY, "no memory for an answer");
	if (!why_open(&w, path, e))
		rc = why_ask(w, what, where, out, e);
	why_close(w);
	if (fclose(out))
		rc = err_set(e, ERR_MEMORY, "no memory for an answer");
	if (!rc) {
		snprintf(title, sizeof title, "why %.20s %.40s", what, where);
		app_show(a, title, text);
	}
	free(text);
	return rc;
}

int app_why(struct app *a, const char *question, struct err *e)
{
	size_t n = strcspn(question, " ");
	char what[32];
	const char *path;

	if (!*question) {
		show_kinds(a);
		return 0;
	}
	snprintf(what, sizeof what, "%.*s", (int)(n < sizeof what ? n : sizeof what - 1), question);
	path = a->mode->recording(a, e);
	return path ? answer(a, path, what, question + n + strspn(question + n, " "), e) : -1;
}

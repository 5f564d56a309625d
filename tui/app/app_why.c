/* /why and the key w: an answer from the log, in a popup. Chat and replay query the file in the
 * same way; while an earlier step is shown, the default WHERE is that step. */
#include <ctype.h>

#include "sessions/why/why.h"
#include "tui/app/app.h"

/* Without a question: lists the questions. */
static int show_kinds(struct app *a, struct err *e)
{
	FILE *out = app_write(a, e);

	if (!out)
		return -1;
	for (const struct why_kind *k = why_kinds; k->name; k++)
		fprintf(out, "/why %-9s%-21s%s\n", k->name, k->where, k->doc);
	fputs(
		"\nA request is a label of the screen (a, b … aa) or a number of the log. In a replay, and "
		"where an earlier step is looked at, it is about what is shown there; token is about the "
		"one under the cursor. In the views the key w asks what fits the view.\n",
		out);
	return app_show_written(a, "why?", e);
}

/* ---- the place ---- */

static bool asks_for(const char *what, const char *kind)
{
	return *what && !strncmp(kind, what, strlen(what));
}

/* For a question with a position, the token under the cursor; else none, for the default. */
static struct view_text place_of_cursor(const struct app *a, const char *what)
{
	const struct timeline *t = app_timeline(a);
	const struct tl_request *r = view_request(t, &a->state);
	int32_t at = r ? view_token_index(r, &a->state) : -1;

	return at >= 0 && (asks_for(what, "token") || (a->state.token >= 0 && r->token[at].draft >= 0 &&
													  asks_for(what, "reject")))
			   ? view_form("%" PRId64 ":%" PRId64, r->id, r->token[at].pos)
			   : view_form("%s", "");
}

/* For a question with a position, "57" is one of the request in focus. */
static struct view_text place_of_words(const struct app *a, const char *what, const char *where)
{
	const struct tl_request *r = view_request(app_timeline(a), &a->state);

	return r && isdigit((unsigned char)*where) && !strchr(where, ':') &&
				   (asks_for(what, "token") || asks_for(what, "reject"))
			   ? view_form("%" PRId64 ":%.60s", r->id, where)
			   : view_form("%.60s", where);
}

/* ---- the answer ---- */

/* The log has numbers, the screen labels: "request 12" becomes "request 12 (l)". malloc'd, or
 * NULL. */
static char *with_letters(const char *text)
{
	static const char word[] = "equest ";
	char *out = NULL;
	size_t size;
	FILE *f = open_memstream(&out, &size);

	while (f && *text) {
		size_t n = !strncmp(text, word, sizeof word - 1)
					   ? strspn(text + sizeof word - 1, "0123456789")
					   : 0;

		if (!n) {
			fputc(*text++, f);
			continue;
		}
		fprintf(f, "%.*s (%s)", (int)(sizeof word - 1 + n), text,
			view_label(strtoll(text + sizeof word - 1, NULL, 10)).text);
		text += sizeof word - 1 + n;
	}
	if (f && fclose(f)) {
		free(out);
		return NULL;
	}
	return out;
}

static int answer(
	struct app *a, const char *path, const char *what, const char *where, struct err *e)
{
	const struct timeline *t = app_timeline(a);
	const struct why_here here = { .seq = t->last_seq, .step = t->last_step };
	char *text = NULL, *lettered, title[80];
	struct why *w = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int rc = -1;

	if (!out)
		return err_no_memory(e, "an answer");
	if (!why_open(&w, path, e))
		rc = why_find(w, what, where, a->host.replay || a->past ? &here : NULL, out, e);
	why_close(w);
	if (fclose(out))
		rc = err_no_memory(e, "an answer");
	lettered = rc ? NULL : with_letters(text);
	if (!rc) {
		snprintf(title, sizeof title, "why %.20s%s%.40s", what, *where ? " " : "", where);
		app_show(a, title, lettered ? lettered : text);
	}
	free(lettered);
	free(text);
	return rc;
}

int app_why(struct app *a, const char *question, struct err *e)
{
	size_t n = strcspn(question, " ");
	const char *path, *where = question + n + strspn(question + n, " ");
	struct view_text place;
	char what[32];

	if (!*question)
		return show_kinds(a, e);
	snprintf(what, sizeof what, "%.*s", (int)(n < sizeof what ? n : sizeof what - 1), question);
	place = *where ? place_of_words(a, what, where) : place_of_cursor(a, what);
	path = a->mode->recording(a, e);
	return path ? answer(a, path, what, place.text, e) : -1;
}

void app_why_here(struct app *a)
{
	static const struct {
		int view;
		const char *what;
	} of_view[] = { { VIEW_PAGES, "evict" }, { VIEW_BATCH, "wait" }, { VIEW_SPECULATION, "reject" },
		{ VIEW_PREFIX, "miss" }, { VIEW_TIME, "slow" }, { VIEW_PRICE, "price" } };
	const char *what = "token";
	struct err e = { 0 };

	for (size_t i = 0; i < ARRAY_N(of_view); i++)
		if (of_view[i].view == a->focus)
			what = of_view[i].what;
	app_why(a, what, &e);
	app_complain(a, &e);
}

/* /info: the session so far in numbers, in a popup. All of it comes from the timeline, so it is as
 * of the step shown. */

#include "tui/app/app.h"

struct view_text app_lossy_title(const struct timeline *t)
{
	const struct lossy_settings l = view_lossy(t);
	char names[160];

	return *lossy_print(&l, names, sizeof names) ? view_form("LOSSY %s ", names)
												 : view_form("%s", "");
}

void app_context(
	const struct timeline *t, const struct tl_request *r, int64_t anew, struct app_status *s)
{
	if (r && t->session.ctx > 0 && !t->attached.on)
		app_field(s, INK_TEXT, "ctx %s of %s",
			view_count(r->id == anew ? 0 : r->n_prompt + r->n_tokens).text,
			view_count(t->session.ctx).text);
}

static void say_text(FILE *out, const char *name, const char *text)
{
	if (text && *text)
		fprintf(out, "%-16s%s\n", name, text);
}

static void say_model(FILE *out, const struct timeline *t)
{
	const struct ev_session *s = &t->session;

	say_text(out, "model", t->model_name);
	if (t->attached.on) {
		say_text(out, "computed by", t->attached.server);
		say_text(out, "version", t->attached.version);
		say_text(out, "at", t->attached.url);
		say_text(out, "p is", t->attached.p);
		return;
	}
	say_text(out, "file", t->model_path);
	say_text(out, "sha256", t->model_sha256);
	fprintf(out, "%-16s%" PRId64 " layers, %" PRId64 " heads\n", "", s->n_layers, s->n_heads);
	fprintf(out, "%-16s%s%s%s, %" PRId64 " thread%s, arithmetic %" PRId64 "\n", "computed on",
		t->backend, strcmp(t->isa, t->backend) ? " " : "", strcmp(t->isa, t->backend) ? t->isa : "",
		s->threads, plural(s->threads), s->arith);
	fprintf(out, "%-16s%d of %" PRId64 " tokens, %" PRId64 " slots\n", "pages", t->n_pages,
		s->page_size, s->slots);
}

static void say_counts(FILE *out, const struct timeline *t)
{
	int running = 0, waiting = 0;

	for (int32_t i = 0; i < t->n_requests; i++) {
		running += t->request[i].state == TL_RUNNING;
		waiting += t->request[i].state == TL_WAITING || t->request[i].state == TL_PREEMPTED;
	}
	fprintf(out, "%-16s%s\n", "step", view_count(t->last_step).text);
	fprintf(out, "%-16s%d run, %d wait\n", "requests", running, waiting);
	fprintf(out, "%-16s%s drawn\n", "tokens", view_count(t->n_tokens).text);
	if (t->attached.on) /* the rest was not told */
		return;
	fprintf(out, "%-16s%s of %s prompt tokens from the cache, %s pages evicted\n", "prefix cache",
		view_count(t->n_hit_tokens).text, view_count(t->n_prompt_tokens).text,
		view_count(t->n_evicted).text);
	fprintf(out, "%-16s%s guessed, %s accepted, %s rejected\n", "drafts",
		view_count(t->n_drafted).text, view_count(t->n_accepted).text,
		view_count(t->n_rejected).text);
}

static int show(struct app *a, struct err *e)
{
	const struct timeline *t = app_timeline(a);
	struct err none = { 0 };
	const char *path = a->mode->recording(a, &none);
	FILE *out;

	if (!t->begun)
		return err_set(e, ERR_USAGE, "nothing is known yet: the model is being opened");
	out = app_write(a, e);
	if (!out)
		return -1;
	say_text(out, "recording", path ? path : "none");
	say_model(out, t);
	say_counts(out, t);
	if (t->n_settings)
		fputs("\nsettings\n ", out);
	for (int32_t i = 0; i < t->n_settings; i++)
		fprintf(out, "%s%-15s %s\n", i ? " " : "", t->setting[i].name, t->setting[i].value);
	fputs("\n/break lists the breakpoints, /watch the watches, /tree the branches\n", out);
	return app_show_written(a, "info", e);
}

int app_info(struct app *a, const char *what, struct err *e)
{
	static const struct {
		const char *name;
		enum command_act act;
	} other[] = { { "breakpoints", ACT_BREAK }, { "watches", ACT_WATCH },
		{ "watchpoints", ACT_WATCH }, { "display", ACT_WATCH } };
	size_t n = strlen(what);

	if (!n)
		return show(a, e);
	for (size_t i = 0; i < ARRAY_N(other); i++)
		if (!strncmp(other[i].name, what, n))
			return app_break(a, other[i].act, "", e);
	return err_set(
		e, ERR_USAGE, "/info %.40s: alone it tells of the session; /info break, /info watch", what);
}

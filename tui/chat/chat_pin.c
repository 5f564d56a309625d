/* /pin and /unpin: a file as the beginning of a first turn, kept in the prefix cache. Thread: the
 * UI's; what is submitted runs on the engine's. */

#include "base/duration.h"
#include "base/ids.h"
#include "base/text.h"
#include "base/with_files.h"
#include "tui/chat/chat.h"

enum { PINS = 64 };

static const char default_ttl[] = "5m";

/* ---- the file as ids ---- */

struct ids {
	int32_t *id;
	size_t n, cap;
};

/* A file, or itself between double quotes. */
static char *read_text(const char *what, struct err *e)
{
	const size_t n = strlen(what);
	char *text;

	if (*what != '"')
		return with_files_read(what, "/pin", NULL, e);
	text = n > 2 && what[n - 1] == '"' ? strndup(what + 1, n - 2) : NULL;
	if (!text && strchr(what + 1, '"'))
		err_set(e, ERR_USAGE, "/pin: what follows the text is a time, such as 90s, 5m or 1h");
	else if (!text)
		err_set(e, ERR_USAGE, "/pin: a text stands between double quotes");
	return text;
}

/* The first turn of a conversation. */
static int turn_of(struct chat *c, const char *text, struct ids *to, struct err *e)
{
	const struct engine_info *i = engine_info(c->live.session.engine);
	const struct chat_input chat = engine_chat(c->live.session.engine);

	return template_first(&chat, answer_system(&c->settings, i->default_system), text, strlen(text),
		&to->id, &to->n, &to->cap, e);
}

/* What it has in common with one that goes on. */
static int stable_ids(struct chat *c, const char *text, struct ids *to, struct err *e)
{
	struct ids longer = { 0 };
	char *more;
	int rc;

	if (asprintf(&more, "%s\n\nMore", text) < 0)
		return err_no_memory(e, "the text");
	rc = turn_of(c, text, to, e) || turn_of(c, more, &longer, e) ? -1 : 0;
	to->n = rc ? 0 : (size_t)ids_common(to->id, (int64_t)to->n, longer.id, (int64_t)longer.n);
	free(longer.id);
	free(more);
	return rc;
}

/* ---- /pin FILE|"TEXT" [TTL] ---- */

struct pinning {
	struct ids ids;
	int64_t ttl_ns, request;
	char name[64];
	struct engine_pin made; /* pin 0: refused */
	const char *adapter;
	struct err err;
};

static void ask_pin(struct engine *engine, void *arg)
{
	struct pinning *p = arg;
	struct engine_pin pin[PINS];
	const struct engine_request q = { .kind = EV_REQUEST_KIND_pin,
		.ids = p->ids.id,
		.n_ids = (int32_t)p->ids.n,
		.params = SAMPLE_DEFAULTS,
		.text = p->name,
		.adapter = p->adapter,
		.pin = (int32_t)p->ids.n,
		.pin_ttl_ns = p->ttl_ns };
	int32_t n, size;

	p->request = engine_submit(engine, &q, &p->err);
	n = engine_pins(engine, pin, PINS);
	size = engine_state(engine).page_size;
	for (int32_t i = 0; i < n; i++) /* its own, or one that it renewed */
		if (pin[i].pin == p->request || pin[i].tokens == q.n_ids / size * size)
			p->made = pin[i];
}

static void pin_asked(void *app, void *arg)
{
	struct pinning *p = arg;
	struct app *a = app;
	const struct tl_request *r;

	free(p->ids.id);
	if (!a)
		return;
	a->dirty = true;
	chat_feed(a);
	r = p->request > 0 ? timeline_request(&a->timeline, p->request) : NULL;
	if (p->err.code)
		app_say(a, SAY_ERROR, "/pin %s: %s", p->name, p->err.text);
	else if (r && r->finished && r->finish.reason == EV_FINISH_refused)
		app_say(a, SAY_ERROR, "/pin %s: %s", p->name, r->finish_why ? r->finish_why : "refused");
	else
		app_say(a, SAY_INFO, "pin %" PRId64 ": %s tokens in %d page%s, %s, for %s; /view prefix",
			p->made.pin, view_count(p->made.tokens).text, p->made.pages, plural(p->made.pages),
			view_bytes((double)p->made.bytes).text, view_ns((double)p->ttl_ns).text);
}

/* The last word is a time to live, if it is one. */
static void split_ttl(char *text, int64_t *ttl_ns)
{
	char *word = strrchr(text, ' ');

	*ttl_ns = duration_parse(default_ttl);
	if (!word || duration_parse(word + 1) < 0)
		return;
	*ttl_ns = duration_parse(word + 1);
	*word = '\0';
}

static int pin_text(struct app *a, const char *arg, struct err *e)
{
	char *path = strdup(arg), *text = NULL;
	const char *name;
	struct pinning p = { .adapter = a->chat->settings.adapter };
	int rc = -1;

	if (!path)
		return err_no_memory(e, "a name");
	split_ttl(path, &p.ttl_ns);
	name = *path != '"' ? strrchr(path, '/') : NULL;
	snprintf(p.name, sizeof p.name, "%.60s", name ? name + 1 : path);
	text = read_text(path, e);
	if (text && !stable_ids(a->chat, text, &p.ids, e))
		rc = actor_post(a->chat->live.session.actor, ask_pin, pin_asked, &p, sizeof p)
				 ? 0
				 : err_no_memory(e, "a pin");
	if (rc)
		free(p.ids.id);
	free(text);
	free(path);
	return rc;
}

/* ---- the list, and /unpin ---- */

/* The name comes last: it may be of any width. */
static void list_pin(FILE *out, const struct timeline *t, const struct tl_pin *p)
{
	const struct tl_request *r = timeline_request(t, p->pin);
	const bool ends = p->ttl_ns != EV_NULL_I;

	fprintf(out, "%4" PRId64 " %-3s %7s tokens  +%s pages, %s  %s%s  gave %s  %s\n", p->pin,
		view_label(p->pin).text, view_count(p->tokens).text, view_count(p->pages).text,
		view_bytes((double)p->bytes).text,
		ends ? view_ns(fmax(0, (double)(p->t_ns + p->ttl_ns - t->last_t_ns))).text
			 : "until it is removed",
		ends ? " left" : "", view_count(p->given).text, r && r->text ? r->text : "");
}

static int list_pins(struct app *a, struct err *e)
{
	FILE *out = app_write(a, e);

	for (int32_t i = 0; out && i < a->timeline.n_pins; i++)
		if (timeline_pin_lives(&a->timeline.pin[i]))
			list_pin(out, &a->timeline, &a->timeline.pin[i]);
	if (out && !ftell(out))
		fputs("nothing is pinned: /pin FILE 1h keeps a file's pages\n", out);
	return out ? app_show_written(a, "pins", e) : -1;
}

int chat_pin(struct app *a, const char *arg, struct err *e)
{
	return *arg ? pin_text(a, arg, e) : list_pins(a, e);
}

struct unpin_job {
	int64_t pin;
	bool removed;
};

static void remove_pin(struct engine *engine, void *arg)
{
	struct unpin_job *u = arg;

	u->removed = engine_unpin(engine, u->pin);
}

static void pin_removed(void *app, void *arg)
{
	const struct unpin_job *u = arg;

	if (app)
		app_say(app, u->removed ? SAY_INFO : SAY_ERROR,
			u->removed ? "pin %" PRId64 " has ended"
					   : "there is no pin %" PRId64 "; /pin lists them",
			u->pin);
}

int chat_unpin(struct app *a, int64_t number, struct err *e)
{
	const struct unpin_job u = { .pin = number };

	return actor_post(a->chat->live.session.actor, remove_pin, pin_removed, &u, sizeof u)
			   ? 0
			   : err_no_memory(e, "a call");
}

/* /sessions and /session: the recordings of the default folder, from inside. See app.h.
 *
 * The list is read file by file between frames, so that hundreds of them, or a search of all that
 * was said, keep no key waiting. */
#include <limits.h>
#include <time.h>

#include "base/recordings.h"
#include "sessions/history/session_file.h"
#include "tui/app/app.h"

enum { WORK_NS = 15000000, LINE = PATH_MAX + 40 };

struct app_sessions {
	struct recordings r;
	int32_t next; /* of them, to be read */
	char words[80];
};

void app_sessions_close(struct app *a)
{
	if (a->sessions)
		recordings_close(&a->sessions->r);
	free(a->sessions);
	a->sessions = NULL;
}

/* ---- the list ---- */

/* What is being written here: reading it would drop its locks. */
static bool is_own(const struct app *a, const char *path)
{
	return a->own && !strcmp(a->own, path);
}

static const char *day_of(time_t then)
{
	const time_t now = time(NULL);
	struct tm tm;
	int64_t days;

	if (!localtime_r(&now, &tm))
		return "sessions";
	tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
	days = then >= mktime(&tm) ? 0 : 1 + (mktime(&tm) - then) / 86400;
	return days == 0 ? "today" : days == 1 ? "yesterday" : days < 7 ? "this week" : "before";
}

/* When it began, unless somebody named it. */
static void name_of(const char *file, time_t begun, char *out, size_t cap)
{
	bool stamp;
	const int n = (int)recordings_stem(file, &stamp);
	struct tm tm;

	if (stamp && localtime_r(&begun, &tm))
		strftime(out, cap, "%Y-%m-%d %H:%M", &tm);
	else
		snprintf(out, cap, "%.*s", n, file);
}

static void add(struct app *a, const struct recording_file *f, const char *path)
{
	const struct app_sessions *s = a->sessions;
	char name[80], text[2 * LISTED_TEXT + 40];
	struct listed l;
	time_t begun;
	bool called;

	if (is_own(a, path))
		return;
	listed_read(path, &l);
	called = *s->words && recordings_is_called(f->name, s->words);
	if (*s->words && !listed_said(path, s->words, l.text) && !called)
		return;
	begun = (time_t)((l.unix_ns ? l.unix_ns : f->mtime_ns) / 1000000000);
	name_of(f->name, begun, name, sizeof name);

	snprintf(text, sizeof text, "%s%s%s%s", l.text, *l.lesson ? " · lesson " : "", l.lesson,
		l.state == LISTED_UNREADABLE ? " · unreadable" : "");

	palette_add(&a->palette,
		&(struct palette_item){ .group = called ? "called so" : day_of(begun),
			.name = name,
			.value = view_form("%lld turn%s", (long long)l.turns, plural(l.turns)).text,
			.text = text + (*l.text || !*text ? 0 : strlen(" · ")),
			.more = l.model,
			.line = view_form("/session %s", f->name).text });
}

static void note_progress(struct app *a)
{
	const struct app_sessions *s = a->sessions;
	char note[48] = "";

	if (s->next < s->r.n)
		snprintf(note, sizeof note, "%d of %d read", (int)s->next, (int)s->r.n);
	palette_note(&a->palette, note);
	palette_grow(&a->palette);
	a->dirty = true;
}

void app_sessions_work(struct app *a)
{
	struct app_sessions *s = a->sessions;
	const int64_t until = now_ns() + WORK_NS;
	const bool shown = s && a->palette.grows == s; /* and no other list in its place */

	if (!s)
		return;
	while (shown && s->next < s->r.n && now_ns() < until) {
		const struct recording_file *f = &s->r.file[s->next++];
		char path[PATH_MAX];

		snprintf(path, sizeof path, "%s%s", s->r.folder, f->name);
		add(a, f, path);
	}
	if (shown)
		note_progress(a);
	if (!shown || s->next == s->r.n)
		app_sessions_close(a);
}

static void called_first(struct recordings *r, const char *words)
{
	for (int32_t i = 0, n = 0; i < r->n; i++) {
		const struct recording_file f = r->file[i];

		if (!recordings_is_called(f.name, words))
			continue;
		memmove(&r->file[n + 1], &r->file[n], (size_t)(i - n) * sizeof f);
		r->file[n++] = f;
	}
}

int app_sessions(struct app *a, const char *words, struct err *e)
{
	char title[64];

	app_sessions_close(a);
	a->sessions = calloc(1, sizeof *a->sessions);
	if (!a->sessions)
		return err_no_memory(e, "the list of sessions");
	if (recordings_open(&a->sessions->r, e)) {
		free(a->sessions);
		a->sessions = NULL;
		return -1;
	}
	if (*words)
		called_first(&a->sessions->r, words);
	snprintf(a->sessions->words, sizeof a->sessions->words, "%s", words);
	snprintf(title, sizeof title, *words ? "sessions with \"%.40s\"" : "sessions", words);
	palette_begin(&a->palette, title, "");
	a->palette.grows = a->sessions;
	palette_show(&a->palette);
	a->dirty = true;
	return 0;
}

/* ---- one of them ---- */

static void add_act(struct app *a, const char *name, const char *text, const char *verb,
	const char *path, const char *end)
{
	char line[LINE];

	snprintf(line, sizeof line, "/session %s %s%s", verb, path, end);
	palette_add(&a->palette,
		&(struct palette_item){ .group = "", .name = name, .text = text, .line = line });
}

static int offer(struct app *a, const char *path, struct err *e)
{
	struct listed l;
	char title[64];
	size_t next;

	listed_read(path, &l);
	if (l.state == LISTED_UNREADABLE)
		return err_set(e, ERR_INPUT, "%s: %s", path, l.why);
	snprintf(title, sizeof title, "%.*s", (int)text_line(l.text, 60, false, &next), l.text);
	if (!*title)
		snprintf(title, sizeof title, "%.60s", basename(path));
	palette_begin(&a->palette, title, "");
	if (l.turns)
		add_act(a, "continue", "ends this session, which is saved, and goes on with that one",
			"continue", path, "");
	add_act(a, "replay",
		a->own ? "this session is saved, and goes on when the replay is left"
			   : "plays it in place of this one",
		"replay", path, "");
	add_act(a, "name", "gives it a name", "name", path, " ");
	add_act(a, "delete", "asks once more", "delete", path, "");
	palette_show(&a->palette);
	a->dirty = true;
	return 0;
}

/* The program that is run in place of this one when it has ended. */
static int go(struct app *a, const char *verb, const char *path, struct err *e)
{
	if (!a->then)
		return err_set(e, ERR_USAGE, "not from here: cutaway %s %s",
			!strcmp(verb, "replay") ? "replay" : "chat --continue", path);
	a->then->replay = !strcmp(verb, "replay");
	free(a->then->path);
	a->then->path = strdup(path);
	a->quit = a->then->path != NULL;
	return a->quit ? 0 : err_no_memory(e, "a path");
}

static int name(struct app *a, const char *path, const char *to, struct err *e)
{
	struct listed l;
	char *new = NULL;
	int rc = -1;

	if (!*to)
		return err_set(e, ERR_USAGE, "/session name %s: a name is needed", path);
	if (!recordings_new_path(to, &new, e) && !session_file_ours(path, "name", &l, e) &&
		!session_file_move(path, new, e)) {
		app_say(a, SAY_INFO, "it is %s now", new);
		rc = 0;
	}
	free(new);
	return rc;
}

static int confirm(struct app *a, const char *path, struct err *e)
{
	struct listed l;
	char text[LISTED_TEXT + 80];

	if (session_file_ours(path, "delete", &l, e))
		return -1;
	snprintf(text, sizeof text, "%lld turn%s, %lld tokens: %s", (long long)l.turns, plural(l.turns),
		(long long)l.tokens, l.text);
	palette_begin(&a->palette, "delete it for good?", "");
	palette_add(&a->palette,
		&(struct palette_item){
			.group = "", .name = "keep it", .text = "nothing happens", .line = "/sessions" });
	add_act(a, "delete it", text, "delete-it", path, "");
	palette_show(&a->palette);
	a->dirty = true;
	return 0;
}

static int delete_it(struct app *a, const char *path, struct err *e)
{
	struct listed l;

	if (session_file_ours(path, "delete", &l, e) || session_file_delete(path, e))
		return -1;
	app_say(a, SAY_INFO, "deleted %s", path);
	return 0;
}

static int act(struct app *a, const char *verb, const char *path, const char *rest, struct err *e)
{
	if (is_own(a, path) && strcmp(verb, "replay") != 0)
		return err_set(e, ERR_USAGE, "%s is this session's own", path);
	if (!strcmp(verb, "continue") || !strcmp(verb, "replay"))
		return go(a, verb, path, e);
	if (!strcmp(verb, "name"))
		return name(a, path, rest, e);
	if (!strcmp(verb, "delete"))
		return confirm(a, path, e);
	return *verb ? delete_it(a, path, e) : offer(a, path, e);
}

/* "[VERB] FILE [NEW]"; a file's name may have blanks, and ends in .db or is all that there is. */
int app_session(struct app *a, const char *text, struct err *e)
{
	static const char *const verbs[] = { "continue", "replay", "name", "delete-it", "delete", "" };
	const char *const *verb = verbs, *rest;
	char *file, *path = NULL;
	int rc = -1;

	while (strncmp(text, *verb, strlen(*verb)) || !strchr(" ", text[strlen(*verb)]))
		if (!**++verb)
			break;
	text += strlen(*verb) + (**verb && text[strlen(*verb)]);
	rest = strstr(text, ".db ");
	file = strndup(text, rest ? (size_t)(rest + 3 - text) : strlen(text));
	if (!file)
		err_no_memory(e, "a path");
	else if (!*file)
		err_set(e, ERR_USAGE, "/session: which one? /sessions lists them");
	else if (!recordings_find(file, &path, e))
		rc = act(a, *verb, path, rest ? rest + 4 : "", e);
	free(path);
	free(file);
	return rc;
}

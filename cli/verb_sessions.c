/* cutaway sessions: the recordings of the default folder. Thread: main's. */
#include <limits.h>
#include <unistd.h>

#include "base/listing.h"
#include "base/recordings.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/out.h"
#include "sessions/history/listed.h"
#include "sessions/history/session_file.h"

static struct sessions_opts {
	bool yes;
	const char *find;
} opts;

static const struct setting sessions_own[] = {
	OWN(FLAG, sessions_opts, yes, "yes", "Recording", "delete without asking"),
	OWN(TEXT, sessions_opts, find, "find", "Recording",
		"list those called so, and those in which the words were said, with the line around them",
		.arg = "WORDS"),
	{ 0 },
};

/* ---- the list ---- */

/* A row on a terminal fits 120 columns. */
static const struct listing_column columns[] = { { "number", "", 4 }, { "name", NULL, 0 },
	{ "path", NULL, 0 }, { "unix_ns", "begun", -16 }, { "model", "model", -27 },
	{ "turns", "turns", 5 }, { "tokens", "tokens", 7 }, { "bytes", "size", 11 },
	{ "lesson", NULL, 0 }, { "state", NULL, 0 }, { "why", NULL, 0 },
	{ "text", "name, lesson, first question", 0 }, { 0 } };
enum { TEXT_W = 44 };

/* Its name if somebody gave it one, its lesson, its first question. */
static void describe(const struct recording_file *f, const struct listed *l, char *out, size_t cap)
{
	bool stamp;
	const int n = (int)recordings_stem(f->name, &stamp);
	const char *part[] = { stamp && (*l->text || *l->lesson) ? "" : f->name,
		*l->lesson ? "lesson " : "", l->lesson, l->text };
	size_t used = 0;

	*out = '\0';
	for (int i = 0; i < 4 && used < cap; i++)
		used += (size_t)snprintf(out + used, cap - used, "%s%.*s",
			used && *part[i] && i != 2 ? " · " : "", i ? LISTED_TEXT : n, part[i]);
}

/* What the last column shows: the state unless it is closed, and what it is about. */
static void show_text(struct listing *out, const struct recording_file *f, const struct listed *l)
{
	char text[4 * LISTED_TEXT], about[3 * LISTED_TEXT];
	size_t next, n;

	describe(f, l, about, sizeof about);
	n = isatty(STDOUT_FILENO) ? text_line(about, TEXT_W, false, &next) : strlen(about);
	snprintf(text, sizeof text, "%.*s%s", (int)n, about, about[n] ? "…" : "");
	if (l->state == LISTED_CLOSED)
		listing_as(out, "%s", text);
	else
		listing_as(out, "%s%s%s · %s", listed_states[l->state], *l->why ? ": " : "", l->why, text);
}

static void list_row(struct listing *out, int32_t number, const char *path,
	const struct recording_file *f, const struct listed *l)
{
	listing_int(out, number);
	listing_text(out, f->name);
	listing_text(out, path);
	listing_as_time(out, (l->unix_ns ? l->unix_ns : f->mtime_ns) / 1000000000);
	listing_int(out, l->unix_ns);
	listing_text(out, l->model);
	listing_int(out, l->turns);
	listing_int(out, l->tokens);
	listing_as(out, "%.1f MB", (double)f->bytes / 1e6);
	listing_int(out, f->bytes);
	listing_text(out, l->lesson);
	listing_text(out, listed_states[l->state]);
	listing_text(out, l->why);
	show_text(out, f, l);
	listing_text(out, l->text);
}

static int print_list(const struct cli *c, struct err *e)
{
	struct json j = { 0 };
	struct recordings r;
	struct listing out;
	int rc, n = 0;

	if (recordings_open(&r, e))
		return -1;
	if (c->json)
		json_array(&j, NULL);
	rc = listing_open(&out, columns, stdout, c->json ? &j : NULL, c->csv, e);
	for (int32_t i = 0; !rc && i < r.n; i++) {
		char path[PATH_MAX];
		struct listed l;

		snprintf(path, sizeof path, "%s%s", r.folder, r.file[i].name);
		listed_read(path, &l);
		/* the line around the words is its text then */
		if (opts.find && !listed_said(path, opts.find, l.text) &&
			!recordings_is_called(r.file[i].name, opts.find))
			continue;
		list_row(&out, i + 1, path, &r.file[i], &l);
		n++;
		out_flush(e); /* the newest are there at once, however many follow */
	}
	rc = rc || listing_end(&out, 0, e) ? -1 : 0;
	if (!rc && !c->json)
		printf("%d recording%s in %s%s, last written first\n", n, plural(n), r.folder,
			opts.find ? " with these words" : "");
	recordings_close(&r);
	return rc;
}

/* ---- one recording ---- */

static int name_recording(const char *what, const char *name, struct err *e)
{
	char *from = NULL, *to = NULL;
	struct listed l;
	int rc = -1;

	if (!recordings_find(what, &from, e) && !recordings_new_path(name, &to, e) &&
		!session_file_ours(from, "name", &l, e) && !session_file_move(from, to, e)) {
		printf("%s\n", to);
		rc = 0;
	}
	free(from);
	free(to);
	return rc;
}

static bool agreed(const char *path, const struct listed *l)
{
	char *answer = NULL;
	size_t cap = 0;
	bool yes;

	if (opts.yes)
		return true;
	printf("delete %s (%lld turn%s, %lld tokens%s%s)? [y/N] ", path, (long long)l->turns,
		plural(l->turns), (long long)l->tokens, *l->text ? ": " : "", l->text);
	out_flush(NULL);
	yes = getline(&answer, &cap, stdin) > 0 && (*answer == 'y' || *answer == 'Y');
	free(answer);
	return yes;
}

/* Numbers mean the list as it is now: all are looked up before the first is deleted. */
static int delete_recordings(const struct cli *c, struct err *e)
{
	char *path[CLI_MAX_OPERANDS] = { NULL };
	struct listed l;
	int n = 0, rc = 0;

	for (int i = 1; opts.yes && i < c->n_operands; i++)
		if (recordings_is_number(c->operand[i]))
			return err_set(e, ERR_USAGE,
				"%s is a number of the list, which changes with each session: with --yes say the "
				"name",
				c->operand[i]);
	for (; !rc && n < c->n_operands - 1; n++)
		rc = recordings_find(c->operand[n + 1], &path[n], e) ||
					 session_file_ours(path[n], "delete", &l, e)
				 ? -1
				 : 0;
	for (int i = 0; !rc && i < n; i++) {
		rc = session_file_ours(path[i], "delete", &l, e);
		if (!rc && !agreed(path[i], &l))
			printf("kept\n");
		else if (!rc && !(rc = session_file_delete(path[i], e)))
			printf("deleted %s\n", path[i]);
	}
	for (int i = 0; i < n; i++)
		free(path[i]);
	return rc;
}

static int open_recording(const struct cli *c, struct err *e)
{
	struct cli replay = *c;
	char *path = NULL;
	int rc;

	if (c->n_operands > 1 && recordings_find(c->operand[1], &path, e))
		return -1;
	replay.verb = &verb_replay;
	replay.operand[0] = path;
	replay.n_operands = path != NULL;
	rc = verb_replay.run(&replay, e);
	free(path);
	return rc;
}

static int sessions_verb(const struct cli *c, struct err *e)
{
	const char *what = c->n_operands ? c->operand[0] : "";
	int rc = -1;

	if (!*what)
		rc = print_list(c, e);
	else if (c->json || c->csv || opts.find)
		err_set(e, ERR_USAGE, "--json, --csv and --find are of the list, without %.40s", what);
	else if (!strcmp(what, "name") && c->n_operands == 3)
		rc = name_recording(c->operand[1], c->operand[2], e);
	else if (!strcmp(what, "delete") && c->n_operands > 1)
		rc = delete_recordings(c, e);
	else if (!strcmp(what, "open") && c->n_operands < 3)
		rc = open_recording(c, e);
	else
		err_set(e, ERR_USAGE,
			"sessions: there is `cutaway sessions`, and with it name FILE NEW, delete FILE …, open "
			"[FILE]; FILE is a file, a number of the list, or the beginning of a name");
	return rc;
}

const struct verb verb_sessions = {
	VERB(sessions, "[name|delete|open …]", "json|csv|Screen"),
	OPERANDS(0, CLI_MAX_OPERANDS, "name delete open"),
};

/* See listed.h. */
#include "sessions/history/listed.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/with_files.h"
#include "trace/foreign.h"
#include "trace/recording.h"
#include "trace/schema.h"

const char *const listed_states[] = { "closed", "being written", "cut off", "unreadable" };

#define QUESTIONS                                                                                  \
	"FROM request WHERE kind IN ({request_kind.chat}, {request_kind.run}, {request_kind.served})"

struct listing {
	const struct foreign *f;
	const char *path;
	struct listed *out;
	struct err *e;
};

/* The first row of a statement; NULL: there is none, or reading failed, now or before. Finalize
 * it. */
static sqlite3_stmt *first_row(struct listing *l, const char *sql)
{
	sqlite3_stmt *s = NULL;
	int rc = l->e->code ? SQLITE_DONE : schema_prepare(l->f->db, sql, &s);

	rc = rc ? rc : sqlite3_step(s);
	if (rc == SQLITE_ROW)
		return s;
	if (rc != SQLITE_DONE)
		foreign_fail(l->f->db, l->path, l->e);
	sqlite3_finalize(s);
	return NULL;
}

/* One line of whole characters. */
static void take_line(char out[LISTED_TEXT], const char *text, size_t size)
{
	struct glyph_run g;
	size_t n = 0;

	for (; size && n + sizeof g.text < LISTED_TEXT; text += g.used, size -= g.used) {
		g = text_next(text, size, false);
		if (!g.used)
			break;
		n += (size_t)snprintf(out + n, LISTED_TEXT - n, "%s", g.newline || g.tab ? " " : g.text);
	}
}

static void take_text(char out[LISTED_TEXT], sqlite3_stmt *s, int column)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	take_line(out, text, text ? (size_t)sqlite3_column_bytes(s, column) : 0);
}

static void read_session(struct listing *l)
{
	sqlite3_stmt *s = first_row(l, "SELECT unix_ns, model_name FROM session ORDER BY seq LIMIT 1");

	if (!s && !l->e->code)
		err_set(l->e, ERR_INPUT, "%s: nothing was recorded: it has no session row", l->path);
	if (!s)
		return;
	l->out->unix_ns = sqlite3_column_int64(s, 0);
	take_text(l->out->model, s, 1);
	sqlite3_finalize(s);
}

static int64_t read_number(struct listing *l, const char *sql)
{
	sqlite3_stmt *s = first_row(l, sql);
	int64_t n = s ? sqlite3_column_int64(s, 0) : 0;

	sqlite3_finalize(s);
	return n < 0 ? 0 : n;
}

static void read_questions(struct listing *l)
{
	sqlite3_stmt *s = first_row(l, "SELECT text " QUESTIONS " ORDER BY seq LIMIT 1");
	const char *text = s ? (const char *)sqlite3_column_text(s, 0) : NULL;

	text = text ? with_files_typed(text) : "";
	take_line(l->out->text, text, strlen(text));
	sqlite3_finalize(s);
	s = first_row(l, "SELECT substr(name, 1, 60) FROM lesson ORDER BY seq LIMIT 1");
	if (s)
		take_text(l->out->lesson, s, 0);
	sqlite3_finalize(s);
	l->out->turns = read_number(l, "SELECT count(*) " QUESTIONS);
	l->out->tokens = read_number(
		l, "SELECT CAST(min(total(tokens), 1e15) AS INTEGER) FROM step WHERE tokens > 0");
}

void listed_read(const char *path, struct listed *out)
{
	struct err e = { 0 };
	struct foreign f;
	struct listing l = { .f = &f, .path = path, .out = out, .e = &e };
	bool closed = false;

	*out = (struct listed){ .state = LISTED_CUT };
	/* before SQLite opens it: closing this descriptor later would drop its locks */
	if (recording_is_written(path))
		out->state = LISTED_WRITTEN;
	if (!foreign_peek(&f, path,
			EV_BIT(session) | EV_BIT(request) | EV_BIT(step) | EV_BIT(closed) | EV_BIT(lesson),
			&e)) {
		read_session(&l);
		read_questions(&l);
		closed = read_number(&l, "SELECT count(*) FROM closed") > 0;
		foreign_close(&f);
	}
	if (closed)
		out->state = LISTED_CLOSED;
	if (!e.code)
		return;
	out->state = LISTED_UNREADABLE;
	/* the list has the file's name already */
	snprintf(out->why, sizeof out->why, "%s",
		!strncmp(e.text, path, strlen(path)) && !strncmp(e.text + strlen(path), ": ", 2)
			? e.text + strlen(path) + 2
			: e.text);
}

/* ---- what was said ---- */

enum { AROUND = 24 /* bytes before the words */ };

static bool found_in(const char *text, const char *words, char out[LISTED_TEXT])
{
	const char *at = text ? strcasestr(text, words) : NULL, *from = at;

	if (!at)
		return false;
	while (from > text && at - from < AROUND && from[-1] != '\n')
		from--;
	while (from > text && from < at && from[-1] != ' ' && from[-1] != '\n') /* whole words */
		from++;
	take_line(out, from, strcspn(at, "\n") + (size_t)(at - from));
	return true;
}

/* The first row whose text has the words. */
static bool said_in(struct foreign *f, const char *sql, const char *words, char out[LISTED_TEXT])
{
	sqlite3_stmt *s = NULL;
	bool found = false;

	if (!schema_prepare(f->db, sql, &s))
		while (!found && sqlite3_step(s) == SQLITE_ROW)
			found = found_in((const char *)sqlite3_column_text(s, 0), words, out);
	sqlite3_finalize(s);
	return found;
}

bool listed_said(const char *path, const char *words, char out[LISTED_TEXT])
{
	struct err e = { 0 };
	struct foreign f;
	bool found;

	if (foreign_peek(
			&f, path, EV_BIT(session) | EV_BIT(request) | EV_BIT(token) | EV_BIT(vocab), &e))
		return false;
	found =
		said_in(&f, "SELECT text " QUESTIONS " ORDER BY seq", words, out) ||
		said_in(&f,
			"SELECT group_concat(b, '') FROM (SELECT t.request AS q, CAST(v.bytes AS TEXT) AS b "
			"FROM token t LEFT JOIN vocab v ON v.id = t.id ORDER BY t.request, t.pos) GROUP BY q",
			words, out);
	foreign_close(&f);
	return found;
}

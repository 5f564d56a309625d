/* See why.h: the table of questions, opening, and the helpers of why_impl.h. */
#include "sessions/why/why_impl.h"

#include <errno.h>
#include <stdarg.h>

#include "base/text.h"
#include "trace/foreign.h"
#include "trace/reader.h"
#include "trace/schema.h"

const struct why_kind why_kinds[] = {
	{ "miss", "REQUEST", "why the prefix cache had not all of a prompt (the newest that missed)" },
	{ "evict", "PAGE", "why a cached page was dropped, and whom it hurt (the newest)" },
	{ "preempt", "REQUEST", "why a running request lost its pages (the newest)" },
	{ "wait", "REQUEST", "why a request waited for its first token (the one that waited longest)" },
	{ "reject", "[REQUEST:]POS", "why a drafted token was not kept (the newest)" },
	{ "token", "[REQUEST:]POS", "why this token and not another (the newest)" },
	{ "slow", "STEP or REQUEST:POS", "why a step, or a token, took its time (the slowest step)" },
	{ "price", "REQUEST",
		"what lossy settings cost beside the exact twin, and where (the newest)" },
	{ "route", "REQUEST", "why a request went to this replica and to no other (the newest)" },
	{ NULL, NULL, NULL },
};

static why_fn *const answers[] = { why_miss, why_evict, why_preempt, why_wait, why_reject,
	why_token, why_slow, why_price, why_route };

int why_open(struct why **out, const char *path, struct err *e)
{
	struct why *w = calloc(1, sizeof *w);

	*out = NULL;
	if (!w || !(w->path = strdup(path))) {
		free(w);
		return err_set(e, ERR_MEMORY, "%s: out of memory", path);
	}
	if (reader_open(&w->reader, path, e) || reader_ours(w->reader, e)) {
		why_close(w);
		return -1;
	}
	w->db = reader_db(w->reader);
	*out = w;
	return 0;
}

void why_close(struct why *w)
{
	if (!w)
		return;
	reader_close(w->reader);
	free(w->path);
	free(w);
}

/* ---- the question ---- */

static int find_kind(const char *what, struct err *e)
{
	int found = -1, n = 0;

	for (int i = 0; why_kinds[i].name; i++) {
		if (strcmp(why_kinds[i].name, what) == 0)
			return i;
		if (*what && strncmp(why_kinds[i].name, what, strlen(what)) == 0) {
			found = i;
			n++;
		}
	}
	if (n == 1)
		return found;
	return err_set(e, ERR_USAGE,
		"why \"%.40s\"? It answers miss, evict, preempt, wait, reject, token, slow, price and "
		"route",
		what);
}

static bool read_number(const char **text, long long *out)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*out = strtoll(*text, &end, 10);
	*text = end;
	return !errno;
}

/* A request's label on the screens: numbers of base 26 without a zero. */
static bool read_label(const char **text, long long *out)
{
	const char *p = *text;

	for (*out = 0; *p >= 'a' && *p <= 'z' && *out < INT32_MAX; p++)
		*out = 26 * *out + *p - 'a' + 1;
	*text = p;
	return *out > 0;
}

static int read_place(
	const struct why_kind *k, const char *where, struct why_place *at, struct err *e)
{
	const bool has_pos = strstr(k->where, "POS") != NULL;
	const char *p = where ? where : "";
	bool label;

	*at = (struct why_place){ .number = -1, .pos = -1 };
	while (*p == ' ' || *p == '#')
		p++;
	if (!*p)
		return 0;
	at->given = true;
	label = strstr(k->where, "REQUEST") && read_label(&p, &at->number);
	/* a number alone is a position, or a step */
	if ((label || read_number(&p, &at->number)) && has_pos) {
		if (*p == ':') {
			p++;
			if (!read_number(&p, &at->pos))
				goto bad;
		} else if (label) {
			goto bad;
		} else if (*k->where == '[') {
			at->pos = at->number;
			at->number = -1;
		}
	}
	while (*p == ' ')
		p++;
	if (!*p && (at->number >= 0 || at->pos >= 0))
		return 0;
bad:
	return err_set(
		e, ERR_USAGE, "why %s %.40s: \"%.40s\" is no %s", k->name, where, where, k->where);
}

int why_find(struct why *w, const char *what, const char *where, const struct why_here *here,
	FILE *out, struct err *e)
{
	struct err own = { 0 };
	int kind = find_kind(what, e);

	if (kind < 0 || read_place(&why_kinds[kind], where, &w->at, e))
		return -1;
	w->e = e ? e : &own;
	w->out = out;
	w->until = here ? here->seq : INT64_MAX;
	w->step = here ? here->step : 0;
	/* one snapshot of a file that is being written */
	sqlite3_exec(w->db, "BEGIN", NULL, NULL, NULL);
	answers[kind](w);
	sqlite3_exec(w->db, "COMMIT", NULL, NULL, NULL);
	history_close(w->history); /* the file may grow until the next question */
	w->history = NULL;
	return w->e->code ? -1 : 0;
}

/* ---- asking the file ---- */

sqlite3_stmt *why_query_n(struct why *w, const char *sql, const long long *value, size_t n)
{
	sqlite3_stmt *s = NULL;

	if (schema_prepare(w->db, sql, &s)) {
		foreign_fail(w->db, w->path, w->e);
		return NULL;
	}
	for (size_t i = 1; i < n; i++)
		sqlite3_bind_int64(s, (int)i, value[i]); /* SQLite ignores what sql does not name */
	if (sqlite3_bind_parameter_count(s) >= 9)
		sqlite3_bind_int64(s, 9, w->until);
	return s;
}

bool why_event(struct why *w, enum ev_kind kind, long long seq, struct event *ev)
{
	return reader_one(w->reader, kind, seq, ev, w->e) == 1;
}

bool why_row(struct why *w, sqlite3_stmt **s)
{
	int rc;

	if (!*s)
		return false;
	rc = sqlite3_step(*s);
	if (rc == SQLITE_ROW)
		return true;
	if (rc != SQLITE_DONE)
		foreign_fail(w->db, w->path, w->e);
	why_done(s);
	return false;
}

void why_done(sqlite3_stmt **s)
{
	sqlite3_finalize(*s);
	*s = NULL;
}

bool why_read(struct why *w, sqlite3_stmt *s, int n, long long *const *to)
{
	if (!why_row(w, &s))
		return false;
	for (int i = 0; i < n; i++)
		*to[i] = why_is_null(s, i) ? -1 : sqlite3_column_int64(s, i);
	why_done(&s);
	return true;
}

long long why_int_n(
	struct why *w, long long none, const char *sql, const long long *value, size_t n)
{
	sqlite3_stmt *s = why_query_n(w, sql, value, n);

	if (why_row(w, &s)) {
		if (!why_is_null(s, 0))
			none = sqlite3_column_int64(s, 0);
		why_done(&s);
	}
	return none;
}

const char *why_so_far(const struct why *w)
{
	return w->until == INT64_MAX ? "" : " up to here";
}

bool why_is_null(sqlite3_stmt *s, int column)
{
	return sqlite3_column_type(s, column) == SQLITE_NULL;
}

void why_say(struct why *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(w->out, fmt, ap);
	va_end(ap);
	fputc('\n', w->out);
}

const char *why_clean(struct ev_span text, bool lines, const char *none, char *out, size_t cap)
{
	char *clean = text.data ? text_clean(text.data, text.size, lines, NULL) : NULL;

	snprintf(out, cap, "%s", clean ? clean : none);
	free(clean);
	return out;
}

const char *why_text(struct why *w, long long id, char *out, size_t cap)
{
	sqlite3_stmt *s = why_query(w, "SELECT bytes FROM vocab WHERE id = ?1", id);
	char *clean = NULL;
	size_t n = 0;

	snprintf(out, cap, "token %lld", id);
	if (why_row(w, &s)) {
		int size = sqlite3_column_bytes(s, 0);
		const char *bytes = sqlite3_column_blob(s, 0);

		clean = text_clean(bytes ? bytes : "", size > 0 ? (size_t)size : 0, false, &n);
		if (clean) {
			n = text_line(clean, 32, false, &(size_t){ 0 });
			snprintf(out, cap, "\xe2\x80\x9c%.*s\xe2\x80\x9d", (int)(n < cap - 8 ? n : 0), clean);
		}
		free(clean);
		why_done(&s);
	}
	return out;
}

int32_t *why_tokens(struct why *w, long long request, long long seq, int32_t *n)
{
	const struct history_request *r;
	int32_t *ids;

	*n = 0;
	if (!w->history && (w->e->code || history_open(&w->history, w->path, w->e)))
		return NULL;
	r = history_request(w->history, request);
	ids = r ? malloc((size_t)r->longest * sizeof *ids + 1) : NULL;
	if (ids)
		*n = history_ids_before(r, seq, ids);
	return ids;
}

const char *why_setting(struct why *w, const char *name, long long seq, char *out, size_t cap)
{
	char sql[160];
	sqlite3_stmt *s;

	snprintf(sql, sizeof sql,
		"SELECT value FROM setting WHERE name = '%s' AND seq < ?1 ORDER BY seq DESC LIMIT 1", name);
	s = why_query(w, sql, seq);
	*out = '\0';
	if (why_row(w, &s)) {
		const char *value = (const char *)sqlite3_column_text(s, 0);

		snprintf(out, cap, "%s", value ? value : "");
		why_done(&s);
	}
	return out;
}

long long why_page_size(struct why *w, long long seq)
{
	char value[24];
	long long size = strtoll(why_setting(w, "page-size", seq, value, sizeof value), NULL, 10);

	if (size < 1 || size > 1 << 20)
		size = why_int(w, 16, "SELECT page_size FROM session LIMIT 1");
	return size < 1 || size > 1 << 20 ? 16 : size;
}

long long why_pages(struct why *w, long long seq)
{
	return why_int(w, 0,
		"SELECT coalesce((SELECT sum(pages) FROM memory m WHERE seq ="
		" (SELECT max(seq) FROM memory n WHERE n.memory = m.memory AND n.seq < ?1)),"
		" (SELECT pages FROM session LIMIT 1))",
		seq);
}

long long why_step_of(struct why *w, long long seq)
{
	return why_int(w, 0, "SELECT step FROM step WHERE seq > ?1 ORDER BY seq LIMIT 1", seq);
}

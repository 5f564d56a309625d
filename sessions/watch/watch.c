/* See watch.h. One in-memory database whose only table, `now`, is the step that just ended
 * (watch_table.c). */
#include <stdlib.h>

#include "sessions/watch/watch_impl.h"
#include "trace/reader.h"

enum { MOST_TEXT = 4096, MOST_VM_STEPS = 20000 };
static const int64_t MOST_NS = 500000000; /* an engine waits */

/* ---- sets ---- */

/* Reading `now` and calling functions is all that an expression may do. */
static int authorise(
	void *set, int action, const char *a, const char *b, const char *db, const char *trigger)
{
	struct watch *w = ((struct watch_set *)set)->compiling;

	(void)db;
	(void)trigger;
	if (!w)
		return SQLITE_OK;
	for (int i = 0; action == SQLITE_READ && watch_column(i); i++)
		w->of_token |= b && !watch_is_of_step(i) && !strcmp(b, watch_column(i)->name);
	if (action == SQLITE_READ)
		return a && !strcmp(a, "now") ? SQLITE_OK : SQLITE_DENY;
	if (action == SQLITE_FUNCTION)
		return query_may_call(b) ? SQLITE_OK : SQLITE_DENY;
	return action == SQLITE_SELECT ? SQLITE_OK : SQLITE_DENY;
}

int watch_open(struct watch_set **out, struct err *e)
{
	struct watch_set *s = calloc(1, sizeof *s);

	watch_make_columns();
	*out = NULL;
	if (!s)
		return err_no_memory(e, "expressions");
	if (sqlite3_open_v2(":memory:", &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) ||
		sqlite3_create_module(s->db, "now", &watch_table, s) ||
		/* connects the virtual table; expressions are not allowed to */
		sqlite3_exec(s->db, "SELECT step FROM now", NULL, NULL, NULL)) {
		watch_close(s);
		return err_no_memory(e, "expressions");
	}
	sqlite3_set_authorizer(s->db, authorise, s);
	s->bound = (struct query_bound){
		.most_ns = MOST_NS, .most_steps = MOST_VM_STEPS, .longest = 2 * MOST_TEXT
	};
	query_bind(s->db, &s->bound);
	*out = s;
	return 0;
}

void watch_close(struct watch_set *s)
{
	if (!s)
		return;
	for (int i = 0; i < WATCH_MAX; i++)
		sqlite3_finalize(s->watch[i].stmt);
	sqlite3_close(s->db);
	ev_texts_free(&s->texts);
	free(s);
}

static int complain(sqlite3 *db, const char *expr, size_t before, int *where, struct err *e)
{
	static const char no_column[] = "no such column: ";
	const char *text = sqlite3_errmsg(db);
	int at = sqlite3_error_offset(db) - (int)before;
	const char *near;

	if (where)
		*where = at >= 0 && at <= (int)strlen(expr) ? at : -1;
	if (!strncmp(text, no_column, sizeof no_column - 1)) {
		text += sizeof no_column - 1;
		near = watch_nearest(text);
		return err_set(e, ERR_USAGE, "no column \"%.40s\"%s%s%s", text,
			near ? "; did you mean " : "", near ? near : "",
			near ? "?" : ": Tab in the chat lists them, docs/trace.md explains them");
	}
	if (at >= (int)strlen(expr)) /* in what we put behind it */
		text = "something is missing at its end";
	return err_set(e, ERR_USAGE, "%.60s: %.120s", expr, text);
}

/* "SELECT (expr) FROM now" must be one statement, whose expression cannot close the bracket. */
static int compile(
	struct watch_set *s, struct watch *w, const char *expr, int *where, struct err *e)
{
	static const char before[] = "SELECT (", after[] = ") FROM now";
	char sql[sizeof before + sizeof after + WATCH_EXPR];
	const char *tail = NULL;
	int depth = 0, rc;
	char quote = 0;

	for (const char *p = expr; *p; p++) {
		if (quote)
			quote = *p == quote ? 0 : quote;
		else if (*p == '\'' || *p == '"')
			quote = *p;
		else if (*p == ';' || (*p == '-' && p[1] == '-') || (*p == '/' && p[1] == '*') ||
				 (depth += (*p == '(') - (*p == ')')) < 0) {
			if (where)
				*where = (int)(p - expr);
			return err_set(e, ERR_USAGE, "%.60s: an expression ends before \"%.10s\"", expr, p);
		}
	}
	snprintf(sql, sizeof sql, "%s%s%s", before, expr, after);
	s->compiling = w;
	rc = sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &w->stmt, &tail);
	s->compiling = NULL;
	if (rc)
		return complain(s->db, expr, sizeof before - 1, where, e);
	return 0;
}

int watch_add(struct watch_set *s, const char *expr, int *where, struct err *e)
{
	int n = 0;

	if (where)
		*where = -1;
	while (n < WATCH_MAX && s->watch[n].stmt)
		n++;
	expr += strspn(expr, " ");
	if (n == WATCH_MAX)
		return err_set(
			e, ERR_USAGE, "there are %d expressions already: take one away first", WATCH_MAX);
	if (!*expr)
		return err_set(e, ERR_USAGE, "an expression is needed, such as entropy > 3");
	if (strlen(expr) >= WATCH_EXPR)
		return err_set(e, ERR_USAGE, "an expression has at most %d bytes", WATCH_EXPR - 1);
	memset(&s->watch[n], 0, sizeof s->watch[n]);
	s->watch[n].value = NAN;
	if (watch_check_sums(expr, where, e) || compile(s, &s->watch[n], expr, where, e))
		return -1;
	snprintf(s->watch[n].expr, sizeof s->watch[n].expr, "%s", expr);
	return n;
}

bool watch_remove(struct watch_set *s, int n)
{
	if (!watch_expr(s, n))
		return false;
	sqlite3_finalize(s->watch[n].stmt);
	s->watch[n].stmt = NULL;
	return true;
}

const char *watch_expr(const struct watch_set *s, int n)
{
	return n >= 0 && n < WATCH_MAX && s->watch[n].stmt ? s->watch[n].expr : NULL;
}

bool watch_holds(const struct watch_set *s, int n)
{
	return watch_expr(s, n) && s->watch[n].holds;
}

struct watch_hit watch_hit(const struct watch_set *s, int n)
{
	struct watch_hit hit = { .step = s->step.step };

	if (watch_holds(s, n) && s->watch[n].row >= 0) {
		hit.request = s->token[s->watch[n].row].request;
		hit.pos = s->token[s->watch[n].row].pos;
	}
	return hit;
}

double watch_value(const struct watch_set *s, int n)
{
	return watch_expr(s, n) ? s->watch[n].value : NAN;
}

const char *watch_trouble(const struct watch_set *s, int n)
{
	return watch_expr(s, n) ? s->watch[n].trouble : "";
}

/* ---- events ---- */

/* A longer text is no token's: an expression that compares it would take long. */
static void keep_text(struct watch_set *s, const struct ev_vocab *v)
{
	if (v->bytes.size <= MOST_TEXT)
		ev_texts_keep(&s->texts, v);
}

static void take_text(void *arg, const struct event *ev)
{
	keep_text(arg, &ev->u.vocab);
}

int watch_texts(struct watch_set *s, const char *path, struct err *e)
{
	return reader_each(path, EV_BIT(vocab), 0, take_text, s, e);
}

static void evaluate(struct watch_set *s, struct watch *w)
{
	int rc, n = 0;

	w->holds = false;
	w->row = -1;
	w->value = NAN;
	w->trouble[0] = '\0';
	query_begin(&s->bound);
	for (; (rc = sqlite3_step(w->stmt)) == SQLITE_ROW; n++) {
		int type = sqlite3_column_type(w->stmt, 0);
		double v = sqlite3_column_double(w->stmt, 0);

		w->value = type == SQLITE_INTEGER || type == SQLITE_FLOAT ? v : NAN;
		if (w->holds || type == SQLITE_NULL || v == 0)
			continue;
		w->holds = true;
		w->row = n;
	}
	if (n != s->n_tokens || !w->of_token)
		w->row = -1;
	if (rc != SQLITE_DONE)
		snprintf(w->trouble, sizeof w->trouble, "%.70s",
			rc == SQLITE_INTERRUPT ? "takes too long" : sqlite3_errmsg(s->db));
	sqlite3_reset(w->stmt);
}

void watch_each(
	struct watch_set *s, int n, void (*fn)(void *arg, const struct watch_value_text *v), void *arg)
{
	sqlite3_stmt *stmt = watch_expr(s, n) ? s->watch[n].stmt : NULL;

	while (stmt && sqlite3_step(stmt) == SQLITE_ROW) {
		int type = sqlite3_column_type(stmt, 0);
		const char *text = (const char *)sqlite3_column_text(stmt, 0);
		struct watch_value_text v = { text ? text : "NULL",
			text ? (size_t)sqlite3_column_bytes(stmt, 0) : 4,
			type == SQLITE_TEXT || type == SQLITE_BLOB };

		fn(arg, &v);
	}
	sqlite3_reset(stmt);
}

static void count(struct watch_set *s, const struct event *ev)
{
	switch (ev->kind) {
	case EV_request: s->extra[EXTRA_arrived]++; break;
	case EV_admit: s->extra[EXTRA_admitted]++; break;
	case EV_preempt: s->extra[EXTRA_preempted]++; break;
	case EV_finish: s->extra[EXTRA_finished]++; break;
	case EV_cancel: s->extra[EXTRA_cancelled]++; break;
	case EV_rewind: s->extra[EXTRA_rewound]++; break;
	case EV_page: s->extra[EXTRA_copied] += ev->u.page.action == EV_PAGE_copy; break;
	case EV_lookup:
		if (ev->u.lookup.asked > 0 && ev->u.lookup.asked < 1 << 30)
			s->extra[EXTRA_asked] += ev->u.lookup.asked;
		if (ev->u.lookup.hit > 0 && ev->u.lookup.hit < 1 << 30)
			s->extra[EXTRA_hit] += ev->u.lookup.hit;
		break;
	default: break;
	}
}

bool watch_feed(struct watch_set *s, const struct event *ev)
{
	if (ev->kind == EV_vocab) {
		keep_text(s, &ev->u.vocab);
		return false;
	}
	if (s->ended && (ev->kind == EV_token || ev->kind == EV_step)) {
		s->n_tokens = 0;
		s->ended = false;
	}
	if (ev->kind == EV_token) {
		if (s->n_tokens < WATCH_ROWS)
			s->token[s->n_tokens++] = ev->u.token;
		return false;
	}
	if (ev->kind != EV_step) {
		count(s, ev);
		return false;
	}
	s->step = ev->u.step;
	memcpy(s->shown, s->extra, sizeof s->shown);
	memset(s->extra, 0, sizeof s->extra);
	for (int i = 0; i < WATCH_MAX; i++)
		if (s->watch[i].stmt)
			evaluate(s, &s->watch[i]);
	s->ended = true;
	return true;
}

/* See reader.h. One statement a table, each in order of seq; the next event is the row with the
 * smallest seq.
 *
 * Invariants: (1) while statements stand on rows, one read transaction is open, so all see the same
 * state of a file that is being written; (2) it ends at reader_rest, or at the end of the events if
 * nothing was read out of order: an open one keeps the writer from completing a checkpoint of its
 * WAL, and hides what it writes; (3) the first error is kept and reported by all later calls. */
#include "trace/reader.h"

#include <stdlib.h>
#include <string.h>

#include "trace/reader_impl.h"
#include "trace/schema.h"

int reader_fail(struct reader *r)
{
	return foreign_fail(r->file.db, r->path, &r->err);
}

/* Copies the kept error. Returns -1. */
int reader_report(struct reader *r, struct err *e)
{
	return err_set(e, r->err.code, "%s", r->err.text);
}

int reader_fail_now(struct reader *r, struct err *e)
{
	reader_fail(r);
	return reader_report(r, e);
}

int reader_prepare(struct reader *r, sqlite3_stmt **stmt, char *sql)
{
	return schema_prepare_own(r->file.db, sql, stmt) ? reader_fail(r) : 0;
}

static int prepare_all(struct reader *r)
{
	for (int k = 0; k < EV_N_KINDS; k++) {
		const char *name = ev_info[k].name;
		struct source *s = &r->source[k];

		if (reader_prepare(r, &s->rows, schema_select_sql((enum ev_kind)k)) ||
			reader_prepare(r, &s->newest,
				sqlite3_mprintf("SELECT \"%w\".seq, \"%w\".t_ns FROM main.\"%w\""
								" ORDER BY \"%w\".seq DESC LIMIT 1",
					name, name, name, name)))
			return -1;
	}
	return reader_prepare(r, &r->next_step,
		sqlite3_mprintf("SELECT step.seq, step.step FROM main.step WHERE step.seq >= ?1"
						" ORDER BY step.seq LIMIT 1"));
}

/* First step with a seq >= from. false: none. */
bool reader_find_step(struct reader *r, int64_t from, int64_t *seq, int64_t *step)
{
	bool found;

	sqlite3_bind_int64(r->next_step, 1, from);
	found = sqlite3_step(r->next_step) == SQLITE_ROW;
	if (found) {
		*seq = sqlite3_column_int64(r->next_step, 0);
		*step = sqlite3_column_int64(r->next_step, 1);
	}
	sqlite3_reset(r->next_step);
	return found;
}

/* Reads what the file holds now. A missing row counts for nothing. */
void reader_refresh(struct reader *r)
{
	struct reader_info info = { 0 };

	for (int k = 0; k < EV_N_KINDS; k++) {
		sqlite3_stmt *s = r->source[k].newest;
		int64_t seq, at;

		if (s && sqlite3_step(s) == SQLITE_ROW) {
			seq = sqlite3_column_int64(s, 0);
			if (seq > info.last_seq) {
				info.last_seq = seq;
				info.last_t_ns = sqlite3_column_int64(s, 1);
			}
			if (k == EV_closed)
				info.closed = 1;
			if (k == EV_step && !reader_find_step(r, seq, &at, &info.n_steps))
				info.n_steps = 0;
		}
		sqlite3_reset(s);
	}
	if (info.n_steps < 0 || info.n_steps > INT64_C(1) << READER_STEPS_BITS)
		info.n_steps = info.n_steps < 0 ? 0 : INT64_C(1) << READER_STEPS_BITS;
	info.checked = r->file.checked;
	info.keyframes = r->keyframes_known;
	info.live = r->file.live;
	r->info = info;
}

int reader_open(struct reader **out, const char *path, struct err *e)
{
	struct reader *r = calloc(1, sizeof *r);

	*out = NULL;
	if (!r)
		return err_set(e, ERR_MEMORY, "%s: out of memory", path);
	r->path = strdup(path);
	r->from = 1;
	if (!r->path)
		err_set(&r->err, ERR_MEMORY, "%s: out of memory", path);
	else if (!foreign_open(&r->file, path, &r->err) && !prepare_all(r) &&
			 !reader_find_keyframes(r)) {
		reader_refresh(r);
		*out = r;
		return 0;
	}
	reader_report(r, e);
	reader_close(r);
	return -1;
}

void reader_close(struct reader *r)
{
	if (!r)
		return;
	for (int k = 0; k < EV_N_KINDS; k++) {
		sqlite3_finalize(r->source[k].rows);
		sqlite3_finalize(r->source[k].newest);
		sqlite3_finalize(r->source[k].one);
		free(r->source[k].unpacked[0].data);
		free(r->source[k].unpacked[1].data);
	}
	sqlite3_finalize(r->keyframe);
	sqlite3_finalize(r->keyframes);
	sqlite3_finalize(r->history);
	sqlite3_finalize(r->next_step);
	foreign_close(&r->file);
	free(r->path);
	free(r);
}

int reader_ours(const struct reader *r, struct err *e)
{
	sqlite3_stmt *s = NULL;
	const char *server, *url;
	int rc = 0;

	if (!schema_prepare(r->file.db, "SELECT server, url FROM main.attached LIMIT 1", &s) &&
		sqlite3_step(s) == SQLITE_ROW) {
		server = (const char *)sqlite3_column_text(s, 0);
		url = (const char *)sqlite3_column_text(s, 1);
		rc = err_set(e, ERR_INPUT,
			"%s: its answers were computed by another server (%.20s at %.100s), which told neither "
			"logits nor why: cutaway replay shows what it told",
			r->path, server ? server : "?", url ? url : "?");
	}
	sqlite3_finalize(s);
	return rc;
}

sqlite3 *reader_db(const struct reader *r)
{
	return r->file.db;
}

const struct reader_info *reader_info(const struct reader *r)
{
	return &r->info;
}

static void end_rows(struct reader *r)
{
	if (!r->placed)
		return;
	for (int k = 0; k < EV_N_KINDS; k++) {
		sqlite3_reset(r->source[k].rows);
		r->source[k].row = false;
	}
	sqlite3_exec(r->file.db, "COMMIT", NULL, NULL, NULL);
	r->placed = false;
	r->taken = NULL;
}

void reader_rest(struct reader *r)
{
	sqlite3_reset(r->keyframe);
	for (int k = 0; k < EV_N_KINDS; k++)
		sqlite3_reset(r->source[k].one);
	end_rows(r);
}

/* Goes to the next row of a table. */
static int advance(struct reader *r, struct source *s)
{
	int rc = sqlite3_step(s->rows);

	s->row = rc == SQLITE_ROW;
	if (!s->row)
		return rc == SQLITE_DONE ? 0 : reader_fail(r);
	if (sqlite3_column_type(s->rows, 0) != SQLITE_INTEGER)
		return err_set(&r->err, ERR_INPUT, "%s: table %s: seq is not a number", r->path,
			ev_info[s - r->source].name);
	s->seq = sqlite3_column_int64(s->rows, 0);
	return 0;
}

static int reader_position(struct reader *r)
{
	if (sqlite3_exec(r->file.db, "BEGIN", NULL, NULL, NULL))
		return reader_fail(r);
	r->placed = true;
	for (int k = 0; k < EV_N_KINDS; k++) {
		struct source *s = &r->source[k];

		if (!s->rows || r->left_out >> k & 1)
			continue;
		sqlite3_bind_int64(s->rows, 1, r->from);
		if (advance(r, s))
			return -1;
	}
	return 0;
}

static int wrong_type(struct reader *r, const struct event *ev, const char *column, int type)
{
	static const char *const names[] = { "", "an integer", "a real", "text", "a blob", "absent" };

	return err_set(&r->err, ERR_INPUT, "%s: event %lld: %s.%s is %s", r->path, (long long)ev->seq,
		ev_info[ev->kind].name, column, names[type]);
}

static const void *not_null(const void *data)
{
	return data ? data : ""; /* SQLite gives NULL for an empty blob */
}

static int read_field(struct reader *r, struct event *ev, const struct ev_field *f, sqlite3_stmt *s,
	int at, void *member)
{
	int type = sqlite3_column_type(s, at);

	if (type == SQLITE_NULL)
		return 0; /* ev_init made it absent */
	if (f->type == EV_TYPE_I && type == SQLITE_INTEGER)
		*(int64_t *)member = sqlite3_column_int64(s, at);
	else if (f->type == EV_TYPE_R && (type == SQLITE_FLOAT || type == SQLITE_INTEGER))
		*(double *)member = sqlite3_column_double(s, at);
	else if (f->type == EV_TYPE_T && type == SQLITE_TEXT) {
		struct ev_span *span = member;

		span->data = not_null(sqlite3_column_text(s, at));
		span->size = (size_t)sqlite3_column_bytes(s, at);
	} else if (f->type == EV_TYPE_B && type == SQLITE_BLOB) {
		struct ev_span *span = member;

		span->data = not_null(sqlite3_column_blob(s, at));
		span->size = (size_t)sqlite3_column_bytes(s, at);
	} else {
		return wrong_type(r, ev, f->name, type);
	}
	return 0;
}

static int unpack_times(struct reader *r, sqlite3_stmt *s, struct ev_time *t)
{
	struct source *own = &r->source[EV_time];

	if (!times_unpack(&own->unpacked[s == own->one], t->stages, &t->stages))
		return 0;
	return err_set(&r->err, ERR_MEMORY, "%s: out of memory", r->path);
}

int reader_take(struct reader *r, sqlite3_stmt *s, enum ev_kind kind, int64_t seq, struct event *ev)
{
	const struct ev_info *info = &ev_info[kind];
	char *member = (char *)&ev->u;

	ev_init(ev, kind);
	ev->seq = seq;
	if (sqlite3_column_type(s, 1) != SQLITE_INTEGER)
		return wrong_type(r, ev, "t_ns", sqlite3_column_type(s, 1));
	ev->t_ns = sqlite3_column_int64(s, 1);
	for (int i = 0; i < info->n_fields; i++) {
		if (read_field(r, ev, &info->fields[i], s, i + 2, member))
			return -1;
		member += ev_field_size(info->fields[i].type);
	}
	return kind == EV_time ? unpack_times(r, s, &ev->u.time) : 0;
}

static struct source *smallest(struct reader *r)
{
	struct source *best = NULL;

	for (struct source *s = r->source; s < r->source + EV_N_KINDS; s++)
		if (s->row && (!best || s->seq < best->seq))
			best = s;
	return best;
}

/* 1, 0 or -1 with r->err. */
static int next_event(struct reader *r, struct event *ev)
{
	struct source *s;

	if (!r->placed) {
		if (reader_position(r))
			return -1;
	} else if (r->taken && advance(r, r->taken)) {
		return -1;
	}
	r->taken = NULL;
	s = smallest(r);
	if (!s) {
		if (!r->left_out)
			reader_refresh(r);
		end_rows(r);
		return 0;
	}
	if (s->seq < r->from || s->seq == INT64_MAX)
		return err_set(&r->err, ERR_INPUT,
			"%s: table %s: two events have the number %lld, or it has none", r->path,
			ev_info[s - r->source].name, (long long)s->seq);
	if (reader_take(r, s->rows, (enum ev_kind)(s - r->source), s->seq, ev))
		return -1;
	r->taken = s;
	r->from = s->seq + 1;
	return 1;
}

int reader_next(struct reader *r, struct event *ev, struct err *e)
{
	int rc = r->err.code ? -1 : next_event(r, ev);

	return rc < 0 ? reader_report(r, e) : rc;
}

int reader_seek(struct reader *r, int64_t seq, struct err *e)
{
	if (r->err.code)
		return reader_report(r, e);
	end_rows(r);
	r->from = seq < 1 ? 1 : seq;
	return 0;
}

int reader_each(
	const char *path, uint64_t kinds, int64_t seq, ev_sink *fn, void *arg, struct err *e)
{
	struct reader *r;
	struct event ev;
	int rc;

	if (reader_open(&r, path, e))
		return -1;
	reader_only(r, kinds);
	rc = reader_seek(r, seq, e);
	while (!rc && (rc = reader_next(r, &ev, e)) > 0) {
		fn(arg, &ev);
		rc = 0;
	}
	reader_close(r);
	return rc;
}

/* By bisection, which needs no index: steps count up with seq. In a file where they do not, one may
 * not be found. */
int64_t reader_step_seq(struct reader *r, int64_t step)
{
	int64_t lo = 1, hi = r->info.last_seq, seq = 0, at = 0;

	while (lo < hi) {
		int64_t mid = lo + (hi - lo) / 2;

		if (!reader_find_step(r, mid, &seq, &at) || at >= step)
			hi = mid;
		else if (seq >= hi)
			return -1;
		else
			lo = seq + 1;
	}
	return reader_find_step(r, lo, &seq, &at) && at == step ? seq : -1;
}

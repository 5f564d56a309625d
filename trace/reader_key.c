/* See reader.h: keyframes, single rows and marks, which are read out of the order of events. */

#include "trace/reader_impl.h"
#include "trace/schema.h"

/* -1: there is a keyframe table, but not of this program's format. */
static int has_plain_table(struct reader *r, bool *has)
{
	sqlite3_stmt *s = NULL;
	int n = 0, computed = 0, rc;

	rc = reader_prepare(r, &s, sqlite3_mprintf("PRAGMA main.table_xinfo(keyframe)"));
	while (!rc && sqlite3_step(s) == SQLITE_ROW) {
		n++;
		computed += sqlite3_column_int(s, 6) != 0;
	}
	sqlite3_finalize(s);
	if (!rc && n)
		rc = foreign_check_plain(&r->file, r->path, "keyframe", &r->err);
	if (!rc && computed)
		rc = err_set(&r->err, ERR_INPUT,
			"%s: a forged recording: table keyframe has computed columns", r->path);
	*has = n > 0;
	return rc;
}

static struct ev_span blob(sqlite3_stmt *s, int at)
{
	const void *data =
		sqlite3_column_type(s, at) == SQLITE_BLOB ? sqlite3_column_blob(s, at) : NULL;

	return (struct ev_span){ data, data ? (size_t)sqlite3_column_bytes(s, at) : 0 };
}

/* The format of the first one holds for all. 1: there are none yet, or this program reads them. */
static int are_known(struct reader *r)
{
	sqlite3_stmt *s = NULL;
	int known = -1;

	if (!reader_prepare(
			r, &s, sqlite3_mprintf("SELECT state FROM main.keyframe ORDER BY seq LIMIT 1")))
		known = sqlite3_step(s) != SQLITE_ROW || keyframe_is_known(blob(s, 0));
	sqlite3_finalize(s);
	return known;
}

int reader_find_keyframes(struct reader *r)
{
	static const char columns[] = "k.seq, k.step, k.turns, k.rejected, k.evicted";
	bool has;

	if (has_plain_table(r, &has))
		return -1;
	if (!has)
		return 0;
	r->keyframes_known = are_known(r);
	return r->keyframes_known < 0 ||
		   reader_prepare(r, &r->keyframe,
			   sqlite3_mprintf("SELECT %s, k.tokens, k.state FROM main.keyframe k"
							   " WHERE k.seq = ?1",
				   columns)) ||
		   reader_prepare(r, &r->keyframes,
			   sqlite3_mprintf("SELECT %s, CASE WHEN ?3 THEN k.tokens END, NULL"
							   " FROM main.keyframe k"
							   " WHERE k.seq >= ?1 AND k.seq <= ?2 ORDER BY k.seq",
				   columns));
}

void reader_only(struct reader *r, uint64_t kinds)
{
	r->left_out = ~kinds & ((UINT64_C(1) << EV_N_KINDS) - 1);
}

int reader_one(struct reader *r, enum ev_kind kind, int64_t seq, struct event *ev, struct err *e)
{
	struct source *s = &r->source[kind];
	int rc;

	if (r->err.code)
		return reader_report(r, e);
	if (!s->one && reader_prepare(r, &s->one, schema_select_sql(kind)))
		return reader_report(r, e);
	sqlite3_reset(s->one);
	sqlite3_bind_int64(s->one, 1, seq);
	rc = sqlite3_step(s->one);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return reader_fail_now(r, e);
	if (rc == SQLITE_DONE || sqlite3_column_int64(s->one, 0) != seq)
		return 0;
	return reader_take(r, s->one, kind, seq, ev) ? reader_report(r, e) : 1;
}

int reader_step_from(struct reader *r, int64_t seq, struct event *ev, struct err *e)
{
	int64_t step;

	if (!reader_find_step(r, seq, &seq, &step))
		return r->err.code ? reader_report(r, e) : 0;
	return reader_one(r, EV_step, seq, ev, e);
}

static void take_keyframe(sqlite3_stmt *s, struct key_row *row)
{
	*row = (struct key_row){ .seq = sqlite3_column_int64(s, 0),
		.step = sqlite3_column_int64(s, 1),
		.marks = { sqlite3_column_int64(s, 2), sqlite3_column_int64(s, 3),
			sqlite3_column_int64(s, 4) },
		.tokens = blob(s, 5),
		.state = blob(s, 6) };
}

int reader_keyframe(struct reader *r, int64_t seq, struct key_row *row, struct err *e)
{
	int rc;

	if (r->err.code)
		return reader_report(r, e);
	if (!r->keyframe)
		return 0;
	sqlite3_reset(r->keyframe);
	sqlite3_bind_int64(r->keyframe, 1, seq);
	rc = sqlite3_step(r->keyframe);
	if (rc == SQLITE_ROW) {
		take_keyframe(r->keyframe, row);
		return 1;
	}
	return rc == SQLITE_DONE ? 0 : reader_fail_now(r, e);
}

int reader_keyframes(struct reader *r, int64_t first_seq, int64_t last_seq, bool with_tokens,
	bool (*fn)(void *arg, const struct key_row *row), void *arg, struct err *e)
{
	struct key_row row;
	int rc = SQLITE_DONE;

	if (r->err.code)
		return reader_report(r, e);
	if (!r->keyframes)
		return 0;
	sqlite3_bind_int64(r->keyframes, 1, first_seq);
	sqlite3_bind_int64(r->keyframes, 2, last_seq);
	sqlite3_bind_int(r->keyframes, 3, with_tokens);
	while ((rc = sqlite3_step(r->keyframes)) == SQLITE_ROW) {
		take_keyframe(r->keyframes, &row);
		if (!fn(arg, &row))
			break;
	}
	sqlite3_reset(r->keyframes);
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : reader_fail_now(r, e);
}

/* In a finished file an index finds them (schema_indexes); in any other a scan from the end finds
 * them. */
int reader_page_history(struct reader *r, int64_t page, int64_t before, int max,
	void (*fn)(void *arg, const struct event *ev, int64_t step), void *arg, struct err *e)
{
	int64_t seq, step;
	struct event ev;
	int rc = 0;

	if (r->err.code || (!r->history && reader_prepare(r, &r->history,
										   sqlite3_mprintf("SELECT p.seq FROM main.page p"
														   " WHERE p.page = ?1 AND p.seq < ?2"
														   " ORDER BY p.seq DESC LIMIT ?3"))))
		return reader_report(r, e);
	sqlite3_bind_int64(r->history, 1, page);
	sqlite3_bind_int64(r->history, 2, before);
	sqlite3_bind_int(r->history, 3, max);
	while (rc >= 0 && sqlite3_step(r->history) == SQLITE_ROW) {
		int64_t at = sqlite3_column_int64(r->history, 0);

		rc = reader_one(r, EV_page, at, &ev, e);
		if (rc == 1)
			fn(arg, &ev, reader_find_step(r, at, &seq, &step) ? step : 0);
	}
	sqlite3_reset(r->history);
	return rc < 0 ? -1 : 0;
}

int reader_marks(struct reader *r, int64_t first, int64_t last,
	void (*fn)(void *arg, enum reader_mark kind, int64_t step), void *arg, struct err *e)
{
#define WITHIN " AND seq BETWEEN ?1 AND ?2"
	static const char sql[] = /* its second column is the mark */
		"SELECT seq, 0 FROM main.request WHERE kind IN ({request_kind.chat},"
		" {request_kind.fork}, {request_kind.run})" WITHIN
		" UNION ALL SELECT seq, 1 FROM main.draft WHERE verdict = {verdict.rejected}" WITHIN
		" UNION ALL SELECT seq, 2 FROM main.page WHERE action = {page_action.evict}" WITHIN
		" ORDER BY seq";
	int64_t told[MARK_EVICTED + 1] = { 0 }, seq, step;
	sqlite3_stmt *s = NULL;
	int rc = r->err.code || reader_prepare(r, &s, schema_sql(sql)) ? SQLITE_ERROR : SQLITE_ROW;

	sqlite3_bind_int64(s, 1, first);
	sqlite3_bind_int64(s, 2, last);
	while (rc == SQLITE_ROW && (rc = sqlite3_step(s)) == SQLITE_ROW) {
		const int mark = sqlite3_column_int(s, 1);

		/* there may be no step after it */
		if (reader_find_step(r, sqlite3_column_int64(s, 0), &seq, &step) && step > told[mark])
			fn(arg, (enum reader_mark)mark, told[mark] = step);
	}
	if (rc != SQLITE_DONE && !r->err.code)
		reader_fail(r);
	sqlite3_finalize(s);
	return r->err.code ? reader_report(r, e) : 0;
}

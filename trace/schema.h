/* The SQL form of a recording, made at run time from the event table (event/event.h).
 *
 * One STRICT table per event kind, with its name, seq as rowid and one column per field; `code`
 * names the values of code lists, `doc` describes every table, view and column. The views answer
 * common questions in readable columns; this program reads none but its own (schema_temp_views),
 * and never runs those of a foreign file. Thread: any; no state. */
#pragma once

#include <sqlite3.h>

#include "base/err.h"
#include "event/event.h"

enum {
	SCHEMA_APPLICATION_ID = 0x63757477, /* "cutw" at offset 68 of the file */
	/* user_version. Format 1 begins with the first release; files of a released format stay
	   readable */
	SCHEMA_VERSION = 1,
	SCHEMA_UNRELEASED = 16, /* development versions used numbers up to this one */
};

struct schema_view {
	const char *name, *doc, *sql;
};
extern const struct schema_view schema_views[]; /* ends with name NULL */

/* SQL: a row with request, seq and pos is not of what its request let go of when it went back. and:
 * " AND …" of the rewinds w that count, or "". */
#define SCHEMA_KEPT(row, and)                                                                      \
	"NOT EXISTS (SELECT 1 FROM rewind w\n"                                                         \
	"\t\tWHERE w.request = " row ".request AND w.seq > " row ".seq AND w.kept <= " row ".pos" and  \
		")"

struct schema_index {
	const char *sql, *why;
};
extern const struct schema_index schema_indexes[]; /* ends with sql NULL */

/* STRICT tables need SQLite 3.37; with an older library this reports it, where SQLite would report
 * a damaged file. */
int schema_check_library(struct err *e);

/* Makes everything in an empty file, in one transaction. -1: see sqlite3_errmsg. */
int schema_create(sqlite3 *db);
/* The views, as this program defines them, beside what a file may call so. */
int schema_temp_views(sqlite3 *db);
/* Indexes are made when a recording is finished: before that they would slow down every insert. */
int schema_create_indexes(sqlite3 *db);

/* SQL in which {list.name} is the number of a code: "action = {page_action.evict}". All SQL of this
 * program is written so, the views and indexes above too. sqlite3_free it. */
char *schema_sql(const char *sql);
/* Prepares schema_sql() of it. Returns SQLite's code. */
int schema_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **s);
/* The same of text of sqlite3_mprintf(), which is freed; NULL: out of memory. */
int schema_prepare_own(sqlite3 *db, char *sql, sqlite3_stmt **s);

/* Text of a statement; sqlite3_free it. NULL: out of memory. */
char *schema_insert_sql(enum ev_kind kind); /* ?1 seq, ?2 t_ns, ?3 … the fields */
char *schema_keyframe_insert_sql(void); /* ?1 seq, step, turns, rejected, evicted, tokens, state */
char *schema_select_sql(enum ev_kind kind); /* the same columns where seq >= ?1, in order */

/* sqlite3_open_v2() of a path, which is taken for nothing else (":memory:", "file:…"), by a
 * connection of one thread. query: what follows the "?" of its URI, or NULL. Returns SQLite's
 * code. */
int schema_open(sqlite3 **db, const char *path, const char *query, int flags);

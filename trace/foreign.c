/* See foreign.h. The file is only ever opened through SQLite: closing a descriptor of our own would
 * drop the POSIX locks that SQLite holds on it, if this process is also recording to it. */
#include "trace/foreign.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "trace/ring.h"
#include "trace/schema.h"

int foreign_fail(sqlite3 *db, const char *path, struct err *e)
{
	int rc = sqlite3_errcode(db) & 0xff;
	bool system = rc == SQLITE_IOERR || rc == SQLITE_CANTOPEN || rc == SQLITE_BUSY;
	char text[200];

	if (rc == SQLITE_NOTADB)
		return err_set(e, ERR_INPUT, "%s: not a recording: not an SQLite file", path);
	if (rc == SQLITE_NOMEM)
		return err_set(e, ERR_MEMORY, "%s: out of memory", path);
	if (rc == SQLITE_TOOBIG)
		return err_set(e, ERR_INPUT, "%s: a damaged recording: a value is too large", path);
	/* it may quote names out of the file, which may hold anything */
	text_cleaned(text, sizeof text, sqlite3_errmsg(db), strlen(sqlite3_errmsg(db)));
	if (system)
		return err_set(e, ERR_IO, "%s: %s", path, text);
	return err_set(e, ERR_INPUT, "%s: a damaged recording: %s", path, text);
}

static int check_kind_of_file(const char *path, struct err *e)
{
	struct stat st;

	if (stat(path, &st))
		return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INPUT, "%s: not a recording: not a plain file", path);
	if (!st.st_size)
		return err_set(e, ERR_INPUT, "%s: the file is empty: nothing was recorded", path);
	return 0;
}

static void harden(sqlite3 *db)
{
	static const struct {
		int id, value;
	} limits[] = {
		{ SQLITE_LIMIT_LENGTH, 2 * RING_EVENT_MAX },
		{ SQLITE_LIMIT_SQL_LENGTH, 1 << 18 },
		{ SQLITE_LIMIT_COLUMN, 256 },
		{ SQLITE_LIMIT_EXPR_DEPTH, 64 },
		{ SQLITE_LIMIT_COMPOUND_SELECT, 8 },
		{ SQLITE_LIMIT_VDBE_OP, 100000 },
		{ SQLITE_LIMIT_ATTACHED, 0 },
		{ SQLITE_LIMIT_TRIGGER_DEPTH, 1 },
		{ SQLITE_LIMIT_VARIABLE_NUMBER, 16 },
		{ SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 64 },
	};
	static const struct {
		int id, on;
	} config[] = {
		{ SQLITE_DBCONFIG_DEFENSIVE, 1 },
		{ SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
		{ SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
		{ SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
		{ SQLITE_DBCONFIG_DQS_DML, 0 },
		{ SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0 },
		{ SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0 },
	};

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		sqlite3_limit(db, limits[i].id, limits[i].value);
	for (size_t i = 0; i < sizeof config / sizeof *config; i++)
		sqlite3_db_config(db, config[i].id, config[i].on, NULL);
	sqlite3_busy_timeout(db, 1000);
	/* These statements read no page of the file. */
	sqlite3_exec(db,
		"PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA query_only = ON;"
		"PRAGMA ignore_check_constraints = ON; PRAGMA temp_store = MEMORY;",
		NULL, NULL, NULL);
}

/* The first row of sql, which is freed; finalize it. NULL: there is none, or an error. */
static sqlite3_stmt *first_row(sqlite3 *db, char *sql)
{
	sqlite3_stmt *s = NULL;

	if (!schema_prepare_own(db, sql, &s) && sqlite3_step(s) == SQLITE_ROW)
		return s;
	sqlite3_finalize(s);
	return NULL;
}

/* First column of the first row. -1: *value is untouched. */
static int get_int(sqlite3 *db, const char *sql, int64_t *value)
{
	sqlite3_stmt *s = first_row(db, sqlite3_mprintf("%s", sql));

	if (s)
		*value = sqlite3_column_int64(s, 0);
	return s && !sqlite3_finalize(s) ? 0 : -1;
}

/* n_tables: entries of its schema. */
static int open_as(struct foreign *f, const char *path, const char *query, int64_t *n_tables)
{
	foreign_close(f);
	if (schema_open(&f->db, path, query, SQLITE_OPEN_READONLY | SQLITE_OPEN_PRIVATECACHE) || !f->db)
		return -1;
	harden(f->db);
	return get_int(f->db, "SELECT count(*) FROM sqlite_schema", n_tables);
}

static bool wal_has_bytes(const char *path)
{
	char *wal = sqlite3_mprintf("%s-wal", path);
	struct stat st;
	bool yes = wal && !stat(wal, &st) && st.st_size > 0;

	sqlite3_free(wal);
	return yes;
}

/* A file in WAL mode needs a -shm file next to it. Where none can be created, the file is opened as
 * immutable, if its WAL is empty. */
static int open_readable(struct foreign *f, const char *path, int64_t *n_tables, struct err *e)
{
	int rc;

	if (!open_as(f, path, NULL, n_tables))
		return 0;
	rc = f->db ? sqlite3_errcode(f->db) & 0xff : SQLITE_NOMEM;
	if (rc == SQLITE_CANTOPEN || rc == SQLITE_READONLY) {
		if (wal_has_bytes(path))
			return err_set(e, ERR_IO,
				"%s: the recording did not end in order, and its directory cannot be "
				"written: copy it together with its -wal file to one that can",
				path);
		if (!open_as(f, path, "immutable=1", n_tables))
			return 0;
	}
	if (!f->db)
		return err_set(e, ERR_MEMORY, "%s: out of memory", path);
	return foreign_fail(f->db, path, e);
}

static int check_version(sqlite3 *db, const char *path, int64_t n_tables, struct err *e)
{
	int64_t id = 0, version = 0;

	if (get_int(db, "PRAGMA application_id", &id))
		return foreign_fail(db, path, e);
	if (!id && !n_tables)
		return err_set(e, ERR_INPUT, "%s: the file is empty: nothing was recorded", path);
	if (id != SCHEMA_APPLICATION_ID)
		return err_set(e, ERR_INPUT, "%s: an SQLite file, but not a recording of cutaway", path);
	if (get_int(db, "PRAGMA user_version", &version))
		return foreign_fail(db, path, e);
	if (version > SCHEMA_UNRELEASED)
		return err_set(e, ERR_INPUT,
			"%s: made by a newer cutaway (format %lld, this one reads %d): upgrade cutaway", path,
			(long long)version, SCHEMA_VERSION);
	if (version != SCHEMA_VERSION)
		return err_set(e, ERR_INPUT,
			"%s: made before the first release (format %lld, this one reads %d): record it again, "
			"or read it with the version that made it",
			path, (long long)version, SCHEMA_VERSION);
	return 0;
}

/* Checks that an event table is an ordinary table. */
static int check_is_table(sqlite3 *db, const char *path, const char *table, struct err *e)
{
	sqlite3_stmt *s = first_row(
		db, sqlite3_mprintf("SELECT count(*) FROM sqlite_schema WHERE name = %Q COLLATE NOCASE"
							" AND type = 'table' AND rootpage > 0",
				table));
	const int64_t n = s ? sqlite3_column_int64(s, 0) : -1;

	sqlite3_finalize(s);
	if (n < 0)
		return foreign_fail(db, path, e);
	if (n != 1)
		return err_set(e, ERR_INPUT, "%s: a damaged recording: it has no table %s", path, table);
	return 0;
}

struct columns {
	const struct ev_info *info;
	uint64_t seen; /* bit 0: seq, 1: t_ns, then the fields */
	bool seq_is_key;
};

/* Notes a column of PRAGMA table_xinfo (cid, name, type, notnull, default, pk, hidden). false: a
 * generated column. */
static bool note_column(struct columns *c, sqlite3_stmt *s)
{
	const char *name = (const char *)sqlite3_column_text(s, 1);
	int at = -1;

	if (!name)
		return true;
	if (!sqlite3_stricmp(name, "seq")) {
		at = 0;
		c->seq_is_key = sqlite3_column_int(s, 5) == 1;
	} else if (!sqlite3_stricmp(name, "t_ns")) {
		at = 1;
	}
	for (int i = 0; at < 0 && i < c->info->n_fields; i++)
		if (!sqlite3_stricmp(name, c->info->fields[i].name))
			at = i + 2;
	if (at < 0)
		return true;
	c->seen |= UINT64_C(1) << at;
	return sqlite3_column_int(s, 6) == 0;
}

static int check_columns(sqlite3 *db, const char *path, enum ev_kind kind, struct err *e)
{
	const struct ev_info *info = &ev_info[kind];
	struct columns c = { .info = info };
	sqlite3_stmt *s = NULL;
	bool computed = false;
	int rc =
		schema_prepare_own(db, sqlite3_mprintf("PRAGMA main.table_xinfo(\"%w\")", info->name), &s);

	while (rc == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
		computed |= !note_column(&c, s);
	if (sqlite3_finalize(s) || rc)
		return foreign_fail(db, path, e);
	if (computed)
		return err_set(e, ERR_INPUT, "%s: a forged recording: table %s has computed columns", path,
			info->name);
	if (!c.seq_is_key)
		return err_set(e, ERR_INPUT, "%s: a damaged recording: seq is not the key of table %s",
			path, info->name);
	for (int i = 0; i < info->n_fields + 2; i++)
		if (!(c.seen >> i & 1))
			return err_set(e, ERR_INPUT,
				"%s: a damaged recording, or another version's: table %s has no column %s", path,
				info->name,
				i > 1 ? info->fields[i - 2].name
				: i   ? "t_ns"
					  : "seq");
	return 0;
}

static int quick_check(sqlite3 *db, const char *path, const char *table, struct err *e)
{
	sqlite3_stmt *s = first_row(db, sqlite3_mprintf("PRAGMA main.quick_check(\"%w\")", table));
	const char *text = s ? (const char *)sqlite3_column_text(s, 0) : NULL;
	char clean[200];
	int rc = 0;

	text = text ? text : "out of memory";
	if (*text == '*' && strchr(text, '\n')) /* the name of the database, on a line of its own */
		text = strchr(text, '\n') + 1;
	text_cleaned(clean, sizeof clean, text, strcspn(text, "\n"));
	if (!s)
		rc = foreign_fail(db, path, e);
	else if (strcmp(clean, "ok") != 0)
		rc = err_set(e, ERR_INPUT, "%s: a damaged recording: table %s: %s", path, table, clean);
	sqlite3_finalize(s);
	return rc;
}

static int check_pages(struct foreign *f, const char *path, struct err *e)
{
	int64_t size = 0, count = 0;

	if (get_int(f->db, "PRAGMA page_size", &size) || get_int(f->db, "PRAGMA page_count", &count))
		return foreign_fail(f->db, path, e);
	if (size * count > FOREIGN_CHECK_BYTES)
		return 0;
	for (int k = 0; k < EV_N_KINDS; k++)
		if (quick_check(f->db, path, ev_info[k].name, e))
			return -1;
	f->checked = true;
	return 0;
}

int foreign_check_plain(const struct foreign *f, const char *path, const char *table, struct err *e)
{
	if (check_is_table(f->db, path, table, e))
		return -1;
	return f->checked ? quick_check(f->db, path, table, e) : 0;
}

static bool is_wal(sqlite3 *db)
{
	sqlite3_stmt *s = first_row(db, sqlite3_mprintf("PRAGMA main.journal_mode"));
	bool wal = s && !sqlite3_stricmp((const char *)sqlite3_column_text(s, 0), "wal");

	sqlite3_finalize(s);
	return wal;
}

int foreign_peek(struct foreign *f, const char *path, uint64_t kinds, struct err *e)
{
	int64_t n_tables = 0;

	memset(f, 0, sizeof *f);
	if (schema_check_library(e) || check_kind_of_file(path, e) ||
		open_readable(f, path, &n_tables, e) || check_version(f->db, path, n_tables, e))
		goto fail;
	for (int k = 0; k < EV_N_KINDS; k++)
		if ((kinds >> k & 1) && (check_is_table(f->db, path, ev_info[k].name, e) ||
									check_columns(f->db, path, (enum ev_kind)k, e)))
			goto fail;
	f->live = is_wal(f->db);
	return 0;
fail:
	foreign_close(f);
	return -1;
}

int foreign_open(struct foreign *f, const char *path, struct err *e)
{
	if (foreign_peek(f, path, UINT64_MAX, e))
		return -1;
	if (!check_pages(f, path, e))
		return 0;
	foreign_close(f);
	return -1;
}

void foreign_close(struct foreign *f)
{
	sqlite3_close(f->db);
	f->db = NULL;
}

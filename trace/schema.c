/* See schema.h. The tables, from the event table; the views and indexes are in views.c. */
#include "trace/schema.h"

#include <string.h>

static const char *const sql_type[] = { "INTEGER", "REAL", "TEXT", "BLOB" };

int schema_check_library(struct err *e)
{
	if (sqlite3_libversion_number() >= 3037000)
		return 0;
	return err_set(e, ERR_IO, "recordings need SQLite 3.37 or newer; this system has %s",
		sqlite3_libversion());
}

/* The comments stay in the file: `.schema token` in the sqlite3 shell explains the table. */
static char *schema_table_sql(enum ev_kind kind)
{
	const struct ev_info *info = &ev_info[kind];
	sqlite3_str *s = sqlite3_str_new(NULL);

	sqlite3_str_appendf(s, "CREATE TABLE \"%w\" ( -- %s\n", info->name, info->doc);
	sqlite3_str_appendall(s, "\tseq INTEGER PRIMARY KEY, -- number of the event in the session\n");
	sqlite3_str_appendf(
		s, "\tt_ns INTEGER NOT NULL%s -- ns since the session began\n", info->n_fields ? "," : "");
	for (int i = 0; i < info->n_fields; i++) {
		const struct ev_field *f = &info->fields[i];

		sqlite3_str_appendf(s, "\t\"%w\" %s%s -- %s%s%s\n", f->name, sql_type[f->type],
			i + 1 < info->n_fields ? "," : "", f->unit, *f->unit ? ": " : "", f->doc);
	}
	sqlite3_str_appendall(s, ") STRICT");
	return sqlite3_str_finish(s);
}

char *schema_insert_sql(enum ev_kind kind)
{
	sqlite3_str *s = sqlite3_str_new(NULL);

	sqlite3_str_appendf(s, "INSERT INTO main.\"%w\" VALUES(?,?", ev_info[kind].name);
	for (int i = 0; i < ev_info[kind].n_fields; i++)
		sqlite3_str_appendall(s, ",?");
	sqlite3_str_appendall(s, ")");
	return sqlite3_str_finish(s);
}

char *schema_select_sql(enum ev_kind kind)
{
	const struct ev_info *info = &ev_info[kind];
	sqlite3_str *s = sqlite3_str_new(NULL);

	/* Qualified by its table: SQLite would take a quoted name without a column for a string. */
	sqlite3_str_appendf(s, "SELECT \"%w\".seq, \"%w\".t_ns", info->name, info->name);
	for (int i = 0; i < info->n_fields; i++)
		sqlite3_str_appendf(s, ", \"%w\".\"%w\"", info->name, info->fields[i].name);
	sqlite3_str_appendf(s, " FROM main.\"%w\" WHERE \"%w\".seq >= ?1 ORDER BY \"%w\".seq",
		info->name, info->name, info->name);
	return sqlite3_str_finish(s);
}

/* The code whose "list.name" stands at `text`, up to a brace; NULL: there is none. */
static const struct ev_code *code_at(const char *text)
{
	for (const struct ev_code *c = ev_codes; c->list; c++) {
		const size_t list = strlen(c->list), name = strlen(c->name);

		if (!strncmp(text, c->list, list) && text[list] == '.' &&
			!strncmp(text + list + 1, c->name, name) && text[list + 1 + name] == '}')
			return c;
	}
	return NULL;
}

char *schema_sql(const char *sql)
{
	sqlite3_str *s = sqlite3_str_new(NULL);
	const struct ev_code *c;

	/* an unknown name stays, and is an error of syntax */
	for (const char *at; (at = strchr(sql, '{')) && (c = code_at(at + 1));
		 sql = strchr(at, '}') + 1) {
		sqlite3_str_append(s, sql, (int)(at - sql));
		sqlite3_str_appendf(s, "%d", c->value);
	}
	sqlite3_str_appendall(s, sql);
	return sqlite3_str_finish(s);
}

int schema_prepare_own(sqlite3 *db, char *sql, sqlite3_stmt **s)
{
	int rc =
		sql ? sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, s, NULL) : SQLITE_NOMEM;

	sqlite3_free(sql);
	return rc;
}

int schema_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **s)
{
	return schema_prepare_own(db, schema_sql(sql), s);
}

/* Runs sql and frees it. */
static int schema_run(sqlite3 *db, char *sql)
{
	int rc = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;

	sqlite3_free(sql);
	return rc == SQLITE_OK ? 0 : -1;
}

static int add_doc(
	sqlite3 *db, const char *table, const char *column, const char *unit, const char *doc)
{
	return schema_run(
		db, sqlite3_mprintf("INSERT INTO doc VALUES(%Q,%Q,%Q,%Q)", table, column, unit, doc));
}

static int create_table(sqlite3 *db, enum ev_kind kind)
{
	const struct ev_info *info = &ev_info[kind];

	if (schema_run(db, schema_table_sql(kind)) || add_doc(db, info->name, "", "", info->doc) ||
		add_doc(db, info->name, "seq", "", "number of the event in the session") ||
		add_doc(db, info->name, "t_ns", "ns", "since the session began"))
		return -1;
	for (int i = 0; i < info->n_fields; i++)
		if (add_doc(
				db, info->name, info->fields[i].name, info->fields[i].unit, info->fields[i].doc))
			return -1;
	return 0;
}

static const struct {
	const char *name, *type, *doc;
} keyframe_column[] = {
	{ "seq", "INTEGER PRIMARY KEY", "of the event `step` after which it holds" },
	{ "step", "INTEGER NOT NULL", "number of that step" },
	{ "turns", "INTEGER NOT NULL",
		"turns of the conversation that began since the keyframe before" },
	{ "rejected", "INTEGER NOT NULL", "drafted tokens rejected since then" },
	{ "evicted", "INTEGER NOT NULL", "pages evicted since then" },
	{ "tokens", "BLOB NOT NULL", "tokens since then, packed: fold/keyframe.h" },
	{ "state", "BLOB NOT NULL",
		"page table, requests and counters after the step, packed: fold/keyframe.h" },
};
enum { N_KEYFRAME_COLUMNS = sizeof keyframe_column / sizeof *keyframe_column };

/* Keyframes are derived from the events, and may be missing (fold/keyframe.h). */
static int create_keyframes(sqlite3 *db)
{
	static const char doc[] =
		"what holds at every 128th step, so that a replay can go there at once; "
		"made from the events, and not needed to read them";
	sqlite3_str *s = sqlite3_str_new(db);

	sqlite3_str_appendf(s, "CREATE TABLE keyframe ( -- %s\n", doc);
	for (int i = 0; i < N_KEYFRAME_COLUMNS; i++)
		sqlite3_str_appendf(s, "\t%s %s%s -- %s\n", keyframe_column[i].name,
			keyframe_column[i].type, i + 1 < N_KEYFRAME_COLUMNS ? "," : "", keyframe_column[i].doc);
	sqlite3_str_appendall(s, ") STRICT");
	if (schema_run(db, sqlite3_str_finish(s)) || add_doc(db, "keyframe", "", "", doc))
		return -1;
	for (int i = 0; i < N_KEYFRAME_COLUMNS; i++)
		if (add_doc(db, "keyframe", keyframe_column[i].name, "", keyframe_column[i].doc))
			return -1;
	return 0;
}

char *schema_keyframe_insert_sql(void)
{
	return sqlite3_mprintf("INSERT INTO main.keyframe VALUES(?,?,?,?,?,?,?)");
}

static int create_codes(sqlite3 *db)
{
	for (const struct ev_code *c = ev_codes; c->list; c++)
		if (schema_run(db, sqlite3_mprintf("INSERT INTO code VALUES(%Q,%d,%Q,%Q)", c->list,
							   c->value, c->name, c->doc)))
			return -1;
	return 0;
}

static int create_view(sqlite3 *db, const struct schema_view *v, const char *temp)
{
	char *sql = schema_sql(v->sql);
	int rc = schema_run(
		db, sqlite3_mprintf("CREATE %s VIEW \"%w\" AS -- %s\n%s", temp, v->name, v->doc, sql));

	sqlite3_free(sql);
	return rc;
}

int schema_temp_views(sqlite3 *db)
{
	int rc = sqlite3_exec(db, "PRAGMA query_only = OFF", NULL, NULL, NULL); /* also of temp */

	for (const struct schema_view *v = schema_views; !rc && v->name; v++)
		rc = create_view(db, v, "TEMP");
	return sqlite3_exec(db, "PRAGMA query_only = ON", NULL, NULL, NULL) || rc ? -1 : 0;
}

static int create_all(sqlite3 *db)
{
	static const char head[] =
		"CREATE TABLE doc ( -- what every table, view and column is\n"
		"\ttbl TEXT NOT NULL, -- table or view\n"
		"\tcol TEXT NOT NULL, -- column; empty: the table itself\n"
		"\tunit TEXT NOT NULL, -- empty: a count, an id or a name; or a code list\n"
		"\tdoc TEXT NOT NULL,\n"
		"\tPRIMARY KEY (tbl, col)\n) STRICT, WITHOUT ROWID;"
		"CREATE TABLE code ( -- names of coded values\n"
		"\tlist TEXT NOT NULL, -- the unit of the columns that it belongs to\n"
		"\tvalue INTEGER NOT NULL,\n"
		"\tname TEXT NOT NULL,\n"
		"\tdoc TEXT NOT NULL,\n"
		"\tPRIMARY KEY (list, value)\n) STRICT, WITHOUT ROWID;";

	if (schema_run(db, sqlite3_mprintf("PRAGMA application_id = %d; PRAGMA user_version = %d; %s",
						   SCHEMA_APPLICATION_ID, SCHEMA_VERSION, head)))
		return -1;
	for (int k = 0; k < EV_N_KINDS; k++)
		if (create_table(db, (enum ev_kind)k))
			return -1;
	for (const struct schema_view *v = schema_views; v->name; v++)
		if (create_view(db, v, "") || add_doc(db, v->name, "", "", v->doc))
			return -1;
	return create_keyframes(db) || create_codes(db) ? -1 : 0;
}

int schema_create(sqlite3 *db)
{
	if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) || create_all(db))
		return -1;
	return sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) ? -1 : 0;
}

int schema_create_indexes(sqlite3 *db)
{
	if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL))
		return -1;
	for (const struct schema_index *i = schema_indexes; i->sql; i++)
		if (schema_run(db, schema_sql(i->sql)))
			goto fail;
	if (!sqlite3_exec(db, "COMMIT", NULL, NULL, NULL))
		return 0;
fail:
	if (!sqlite3_get_autocommit(db))
		sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	return -1;
}

/* "file:" URI of a path; sqlite3_free it. */
static char *uri_of(const char *path, const char *query)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
	sqlite3_str *s = sqlite3_str_new(NULL);

	sqlite3_str_appendall(s, *path == '/' ? "file://" : "file:./");
	for (const char *p = path; *p; p++)
		if (strchr(plain, *p))
			sqlite3_str_appendchar(s, 1, *p);
		else
			sqlite3_str_appendf(s, "%%%02x", (unsigned char)*p);
	if (query)
		sqlite3_str_appendf(s, "?%s", query);
	return sqlite3_str_finish(s);
}

int schema_open(sqlite3 **db, const char *path, const char *query, int flags)
{
	char *uri = uri_of(path, query);
	int rc = SQLITE_NOMEM;

	if (uri)
		rc = sqlite3_open_v2(uri, db, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
	sqlite3_free(uri);
	return rc;
}

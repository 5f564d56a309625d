/* Session files made to hurt: a clear error, or a clean reading of what is right in them; never a
 * crash, never anything of the file run, and the file is left as it was. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "tests/support/demo_events.h"
#include "tests/support/random_event.h"
#include "trace/reader.h"
#include "trace/recording.h"

static char dir[64], base[96], path[96];
static unsigned char *base_bytes, *file;
static size_t base_size, file_size;
static int64_t base_events;
static volatile int64_t read_sum; /* so that every byte handed out is looked at */

static void add(void *recording, const struct event *ev)
{
	struct err e = { 0 };

	if (recording_add(recording, ev, &e))
		fail_msg("%s", e.text);
	base_events = ev->seq;
}

static unsigned char *load(const char *name, size_t *size)
{
	FILE *f = fopen(name, "rb");
	unsigned char *data = malloc(1 << 24);

	assert_non_null(f);
	*size = fread(data, 1, 1 << 24, f);
	fclose(f);
	return data;
}

static void store(const char *name, const void *data, size_t size)
{
	FILE *f = fopen(name, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, size, f), size);
	fclose(f);
}

static int make_base(void **state)
{
	struct recording *rec;
	struct err e = { 0 };

	(void)state;
	strcpy(dir, "/tmp/cutaway-hostile-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(base, sizeof base, "%s/base.db", dir);
	snprintf(path, sizeof path, "%s/hostile.db", dir);
	assert_int_equal(recording_create(&rec, base, &e), 0);
	demo_play(add, rec, 60);
	assert_int_equal(recording_commit(rec, &e), 0);
	recording_close(rec, false);
	base_bytes = load(base, &base_size);
	return 0;
}

static int remove_base(void **state)
{
	char command[100];

	(void)state;
	free(base_bytes);
	snprintf(command, sizeof command, "rm -rf %s", dir);
	return system(command);
}

static void ignore_mark(void *arg, enum reader_mark kind, int64_t step)
{
	(void)kind;
	(void)step;
	++*(int *)arg;
}

/* Uses all that a reader offers. Returns the number of events read; e has the error, if any. */
static int64_t read_all(const char *name, struct err *e)
{
	struct reader *r;
	struct event ev;
	int64_t n = 0, sum = 0;
	int marks = 0, rc;

	if (reader_open(&r, name, e)) {
		assert_null(r);
		return 0;
	}
	while ((rc = reader_next(r, &ev, e)) > 0) {
		const char *member = (const char *)&ev.u;

		for (int i = 0; i < ev_info[ev.kind].n_fields; i++) {
			const struct ev_span *span = (const void *)member;

			if (ev_info[ev.kind].fields[i].type >= EV_TYPE_T && span->data)
				for (size_t k = 0; k < span->size; k++)
					sum += ((const char *)span->data)[k];
			member += ev_field_size(ev_info[ev.kind].fields[i].type);
		}
		n++;
	}
	if (rc < 0) {
		struct err again = { 0 };

		assert_int_equal(reader_next(r, &ev, &again), -1); /* the first error sticks */
		assert_string_equal(again.text, e->text);
	}
	for (int64_t step = -1; step < 70; step += 7)
		reader_step_seq(r, step);
	reader_step_seq(r, INT64_MAX);
	reader_marks(r, 1, INT64_MAX, ignore_mark, &marks, e);
	reader_close(r);
	read_sum = sum;
	return n;
}

enum { ANY = -1, ALL = -2 };

/* words: must be in the error; NULL: there must be none. events: how many must come, ALL of the
 * base file, or ANY number. */
static void try(const char *name, const char *words, int64_t events)
{
	struct err e = { 0 };
	int64_t n = read_all(name, &e);

	if (e.code) {
		assert_true(e.code == ERR_INPUT || e.code == ERR_IO);
		assert_non_null(strstr(e.text, name));
		for (const char *p = e.text + strlen(name); *p; p++)
			if ((unsigned char)*p < ' ' || *p == 0x7f ||
				(p[0] == '\xc2' && (unsigned char)p[1] < 0xa0))
				fail_msg("a control character in an error");
	}
	if (events == ALL)
		events = base_events;
	if (events != ANY && n != events)
		fail_msg("%lld events were read (%s)", (long long)n, e.text);
	if (words && !*words)
		return; /* anything but a crash */
	if (!words && e.code)
		fail_msg("%s", e.text);
	if (words && !strstr(e.text, words))
		fail_msg("\"%s\" does not say \"%s\"", e.text, words);
}

static void try_bytes(const void *data, size_t size, const char *words, int64_t events)
{
	store(path, data, size);
	try(path, words, events);
	file = load(path, &file_size);
	assert_int_equal(file_size, size);
	assert_memory_equal(file, data, size);
	free(file);
}

/* The base file after sql, which may do anything. */
static void change(const char *sql)
{
	char *message = NULL;
	sqlite3 *db;

	store(path, base_bytes, base_size);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1, NULL);
	if (sqlite3_exec(db, sql, NULL, NULL, &message))
		fail_msg("%s: %s", sql, message);
	sqlite3_close(db);
}

/* Every case of a table, and what must come of it. */
static const struct {
	const char *what, *sql, *words;
	int64_t events;
} cases[] = {
	{ "another program's file", "PRAGMA application_id = 1", "not a recording of cutaway", 0 },
	{ "no application", "PRAGMA application_id = 0", "not a recording of cutaway", 0 },
	{ "a newer format", "PRAGMA user_version = 1000000", "upgrade cutaway", 0 },
	{ "no format", "PRAGMA user_version = 0", "before the first release (format 0", 0 },
	{ "a format below all", "PRAGMA user_version = -2147483648", "(format -", 0 },
	{ "a format from before the release", "PRAGMA user_version = 16",
		"before the first release (format 16", 0 },
	{ "a table missing", "DROP TABLE draft", "no table draft", 0 },
	{ "a column missing",
		"CREATE TABLE n(seq INTEGER PRIMARY KEY, t_ns INTEGER); DROP TABLE cancel;"
		"ALTER TABLE n RENAME TO cancel",
		"cancel has no column request", 0 },
	{ "seq missing", "DROP TABLE cancel; CREATE TABLE cancel(t_ns INTEGER, request INTEGER)",
		"seq is not the key", 0 },
	{ "seq without order",
		"DROP TABLE cancel; CREATE TABLE cancel(seq INTEGER, t_ns INTEGER, request INTEGER)",
		"seq is not the key", 0 },
	{ "a view for a table",
		"DROP TABLE cancel; CREATE VIEW cancel AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL"
		" SELECT i + 1 FROM n) SELECT i AS seq, 0 AS t_ns, 0 AS request FROM n",
		"no table cancel", 0 },
	{ "a view behind a table's name in the schema",
		"DROP TABLE cancel; CREATE TABLE cancel(seq INTEGER PRIMARY KEY, t_ns, request);UPDATE "
		"sqlite_schema SET sql = 'CREATE VIEW cancel AS SELECT 1 AS seq, 1 AS t_ns, 1 AS request' "
		"WHERE name = 'cancel'",
		"damaged", 0 },
	{ "computed columns",
		"DROP TABLE cancel; CREATE TABLE cancel(seq INTEGER PRIMARY KEY, t_ns INTEGER,"
		" request INTEGER GENERATED ALWAYS AS (abs(t_ns)) VIRTUAL)",
		"computed columns", 0 },
	{ "stored computed columns",
		"DROP TABLE cancel; CREATE TABLE cancel(seq INTEGER PRIMARY KEY, t_ns INTEGER,"
		" request INTEGER GENERATED ALWAYS AS (length(hex(zeroblob(t_ns)))) STORED)",
		"computed columns", 0 },
	{ "text for an integer",
		"DROP TABLE cancel; CREATE TABLE cancel(seq INTEGER PRIMARY KEY, t_ns, request);"
		"INSERT INTO cancel VALUES(1000000, 1, 'one')",
		"cancel.request is text", ALL },
	{ "a real for an integer",
		"DROP TABLE cancel; CREATE TABLE cancel(seq INTEGER PRIMARY KEY, t_ns, request);"
		"INSERT INTO cancel VALUES(1000000, 1, 1.5)",
		"cancel.request is a real", ALL },
	{ "a blob for the time",
		"DROP TABLE cancel; CREATE TABLE cancel(seq INTEGER PRIMARY KEY, t_ns, request);"
		"INSERT INTO cancel VALUES(1000000, x'00', 1)",
		"cancel.t_ns is a blob", ALL },
	{ "no time",
		"DROP TABLE cancel; CREATE TABLE cancel(seq INTEGER PRIMARY KEY, t_ns, request);"
		"INSERT INTO cancel VALUES(1000000, NULL, 1)",
		"cancel.t_ns is absent", ALL },
	{ "text for a blob",
		"DROP TABLE head; CREATE TABLE head(seq INTEGER PRIMARY KEY, t_ns, step, request, layer, "
		"head, share); INSERT INTO head VALUES(1000000, 1, 1, 1, 1, 1, 'text')",
		"head.share is text", ALL },
	{ "a value beyond the limit", "INSERT INTO vocab VALUES(1000000, 1, 1, zeroblob(9000000), 0)",
		"too large", ANY },
	{ "two events of one number", "INSERT INTO cancel VALUES(5, 1, 1)",
		"two events have the number 5", 5 },
	{ "a number beyond all", "INSERT INTO cancel VALUES(9223372036854775807, 1, 1)",
		"9223372036854775807", ALL },
	{ "numbers below 1",
		"INSERT INTO cancel VALUES(0, 1, 1), (-5, 1, 1), (-9223372036854775808, 1, 1)", NULL, ALL },
	{ "numbers far apart",
		"INSERT INTO cancel VALUES(9223372036854775806, -9223372036854775808, NULL)", NULL, ANY },
	{ "steps that run backwards", "UPDATE step SET step = 100 - step", NULL, ALL },
	{ "steps that are NULL", "UPDATE step SET step = NULL; UPDATE draft SET step = NULL", NULL,
		ALL },
	{ "rows taken out", "DELETE FROM attention; DELETE FROM time WHERE seq % 3 = 0; VACUUM", NULL,
		ANY },
	{ "triggers", "CREATE TRIGGER a AFTER INSERT ON token BEGIN DELETE FROM token; END", NULL,
		ALL },
	{ "tables and columns of somebody else",
		"ALTER TABLE token ADD COLUMN note TEXT DEFAULT 'x';"
		"CREATE TABLE notes(a, b); INSERT INTO notes VALUES(1, 2)",
		NULL, ALL },
	{ "a check that fails",
		"UPDATE sqlite_schema SET sql = replace(sql, 't_ns INTEGER NOT NULL',"
		" 't_ns INTEGER NOT NULL CHECK (length(hex(zeroblob(t_ns))) < 0)') WHERE name = 'token'",
		NULL, ALL },
	{ "an index over an expression", "CREATE INDEX i ON token(length(hex(zeroblob(2000))))", NULL,
		ALL },
	{ "a collation that nobody has",
		"UPDATE sqlite_schema SET sql = 'CREATE TABLE cancel(seq INTEGER PRIMARY KEY,"
		" t_ns, request COLLATE nobody)' WHERE name = 'cancel'",
		NULL, ALL },
	{ "a schema that is no SQL",
		"UPDATE sqlite_schema SET sql = 'CREATE TABLE cancel(((' WHERE name = 'cancel'",
		"malformed", 0 },
	{ "an escape sequence for a name",
		"UPDATE sqlite_schema SET name = char(27) || '[31m' || char(0x202e), sql ="
		" 'CREATE TABLE (' WHERE name = 'notes' OR name = 'doc'",
		"malformed", 0 },
	{ "a table on a page that is not there",
		"UPDATE sqlite_schema SET rootpage = 999999 WHERE name = 'token'", "damaged", ANY },
	{ "two tables on one page",
		"UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE"
		" name = 'step') WHERE name = 'cancel'",
		"", ANY },
	{ "a table on the schema's page", "UPDATE sqlite_schema SET rootpage = 1 WHERE name = 'cancel'",
		"", ANY },
	{ "an index for a table",
		"UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE"
		" name = 'step_step') WHERE name = 'cancel'",
		"damaged", 0 },
	{ "three hundred columns",
		"CREATE TABLE wide(a); UPDATE sqlite_schema SET sql = (WITH RECURSIVE n(i) AS (SELECT 1"
		" UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT 'CREATE TABLE wide(' ||"
		" group_concat('c' || i) || ')' FROM n) WHERE name = 'wide'",
		"damaged", 0 },
	{ "nested a thousand deep",
		"CREATE TABLE deep(a); UPDATE sqlite_schema SET sql = 'CREATE TABLE deep(a DEFAULT ' ||"
		" replace(hex(zeroblob(500)), '00', '(') || '1' || replace(hex(zeroblob(500)), '00', ')')"
		" || ')' WHERE name = 'deep'",
		"damaged", 0 },
	{ "a table without rowids",
		"DROP TABLE cancel; CREATE TABLE cancel(seq INTEGER PRIMARY KEY, t_ns, request)"
		" WITHOUT ROWID; INSERT INTO cancel VALUES(1000000, 1, 1)",
		NULL, ANY },
	{ "its keys are text",
		"DROP TABLE cancel; CREATE TABLE cancel(seq TEXT PRIMARY KEY, t_ns, request) WITHOUT ROWID;"
		"INSERT INTO cancel VALUES('zzz', 1, 1)",
		"seq is not a number", ANY },
};

static void test_sql(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		unsigned char *before, *after;
		size_t n, m;

		print_message("# %s\n", cases[i].what);
		change(cases[i].sql);
		before = load(path, &n);
		try(path, cases[i].words, cases[i].events);
		after = load(path, &m);
		assert_int_equal(n, m);
		assert_memory_equal(before, after, n);
		free(before);
		free(after);
	}
	assert_true(sizeof cases / sizeof *cases >= 30);
}

/* A virtual table under one of our names, if this SQLite has any to offer. */
static void test_virtual_table(void **state)
{
	sqlite3 *db;
	int rc;

	(void)state;
	store(path, base_bytes, base_size);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	rc = sqlite3_exec(db,
		"DROP TABLE cancel; CREATE VIRTUAL TABLE cancel USING fts5(seq, t_ns, request)", NULL, NULL,
		NULL);
	sqlite3_close(db);
	if (rc)
		skip();
	try(path, "no table cancel", 0);
}

static void test_not_files(void **state)
{
	static const char text[] =
		"This is not a session, whatever its name says. It is long enough for a header.\n"
		"This is not a session, whatever its name says. It is long enough for a header.\n";

	(void)state;
	try(dir, "not a plain file", 0);
	try("/dev/zero", "not a plain file", 0);
	unlink(path);
	try(path, "No such file", 0);
	try("", "No such file", 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	try(path, "not a plain file", 0);
	unlink(path);
	assert_int_equal(symlink(path, path), 0);
	try(path, "symbolic links", 0);
	unlink(path);
	try_bytes("", 0, "the file is empty", 0);
	try_bytes(text, sizeof text, "not an SQLite file", 0);
	try_bytes("x", 1, "", 0);
	try(":memory:", "No such file", 0);
	try("file:x?mode=memory", "No such file", 0);
}

static void test_truncated(void **state)
{
	(void)state;
	try_bytes(base_bytes, base_size, NULL, ALL);
	for (size_t size = base_size - 1; size > 0; size -= 1 + size / 9)
		try_bytes(base_bytes, size, "", ANY);
	try_bytes(base_bytes, 100, "", 0);
	try_bytes(base_bytes, 8192, "damaged", 0);
}

static void patch(size_t at, const void *data, size_t size)
{
	memcpy(file + at, data, size);
}

static void try_patched(const char *words, int64_t events)
{
	unsigned char *copy = file;

	try_bytes(copy, base_size, words, events);
	memcpy(copy, base_bytes, base_size);
	file = copy;
}

/* Header fields that lie: sizes, counts, encodings, versions. */
static void test_header(void **state)
{
	static const struct {
		size_t at;
		unsigned char bytes[4];
		size_t size;
	} lies[] = {
		{ 16, { 0, 3 }, 2 },
		{ 16, { 0, 1 }, 2 },
		{ 16, { 2, 0 }, 2 },
		{ 18, { 9, 9 }, 2 },
		{ 20, { 255 }, 1 },
		{ 21, { 1, 1, 1 }, 3 },
		{ 28, { 127, 255, 255, 255 }, 4 },
		{ 28, { 0, 0, 0, 1 }, 4 },
		{ 32, { 0, 0, 0, 2 }, 4 },
		{ 36, { 127, 255, 255, 255 }, 4 },
		{ 44, { 0, 0, 0, 9 }, 4 },
		{ 56, { 0, 0, 0, 3 }, 4 },
		{ 56, { 0, 0, 0, 7 }, 4 },
		{ 52, { 0, 0, 0, 200 }, 4 },
		{ 100, { 2 }, 1 },
		{ 103, { 255, 255 }, 2 },
		{ 108, { 0, 0, 0, 1 }, 4 },
	};

	(void)state;
	file = malloc(base_size);
	memcpy(file, base_bytes, base_size);
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		patch(lies[i].at, lies[i].bytes, lies[i].size);
		try_patched("", ANY);
	}
	free(file);
}

/* Bytes changed at random, in pages of every kind. */
static void test_noise(void **state)
{
	uint64_t random = 3;
	int errors = 0;

	(void)state;
	file = malloc(base_size);
	for (int round = 0; round < 400; round++) {
		struct err e = { 0 };
		int n = 1 + (int)(random_u64(&random) % 30);

		memcpy(file, base_bytes, base_size);
		for (int i = 0; i < n; i++) {
			uint64_t page = random_u64(&random) % (base_size / 8192), r = random_u64(&random);

			/* Heads of pages and their cell pointers more often than their contents. */
			file[page * 8192 + (r & 1 ? r >> 8 & 63 : r >> 8 & 8191)] = (unsigned char)(r >> 32);
		}
		store(path, file, base_size);
		read_all(path, &e);
		errors += e.code != 0;
	}
	assert_true(errors > 200);
	free(file);
}

/* A b-tree whose inner page points back to itself: it ends, with an error. */
static void test_cycle(void **state)
{
	size_t inner = 0;

	(void)state;
	for (size_t at = 8192; at < base_size && !inner; at += 8192)
		if (base_bytes[at] == 5) /* an inner page of a table */
			inner = at;
	assert_true(inner);
	file = malloc(base_size);
	memcpy(file, base_bytes, base_size);
	uint32_t page = (uint32_t)(inner / 8192 + 1);
	unsigned char big[4] = { (unsigned char)(page >> 24), (unsigned char)(page >> 16),
		(unsigned char)(page >> 8), (unsigned char)page };
	patch(inner + 8, big, 4);
	try_patched("damaged", ANY);
	free(file);
}

/* Companions that do not belong to the file. */
static void test_wal(void **state)
{
	unsigned char *wal;
	char name[110];
	size_t size;
	struct recording *rec;
	struct event ev;
	struct err e = { 0 };

	(void)state;
	change("PRAGMA journal_mode = WAL");
	snprintf(name, sizeof name, "%s-wal", path);
	store(name, base_bytes, 9000);
	try(path, "", ANY);
	unlink(name);

	/* The WAL of another recording, whole and valid. */
	snprintf(name, sizeof name, "%s/other.db", dir);
	assert_int_equal(recording_create(&rec, name, &e), 0);
	ev_init(&ev, EV_cancel);
	ev.seq = ev.t_ns = 1;
	for (; ev.seq < 2000; ev.seq++)
		assert_int_equal(recording_add(rec, &ev, &e), 0);
	assert_int_equal(recording_commit(rec, &e), 0);
	snprintf(name, sizeof name, "%s/other.db-wal", dir);
	wal = load(name, &size);
	assert_true(size > 8192);
	recording_close(rec, true);
	change("PRAGMA journal_mode = WAL");
	snprintf(name, sizeof name, "%s-wal", path);
	store(name, wal, size);
	try(path, "", ANY);
	for (size_t at = 32; at < size; at += size / 5) {
		wal[at] ^= 0x55;
		store(name, wal, size);
		try(path, "", ANY);
	}
	free(wal);
	unlink(name);
	snprintf(name, sizeof name, "%s-shm", path);
	unlink(name);
}

/* A rollback journal that would write something else into the file: it is not rolled back. */
static void test_journal(void **state)
{
	unsigned char journal[512 + 8 + 8192] = { 0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7, 0, 0,
		0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 0x20, 0 };
	char name[110];

	(void)state;
	journal[512 + 3] = 1;
	snprintf(name, sizeof name, "%s-journal", path);
	store(name, journal, sizeof journal);
	try_bytes(base_bytes, base_size, "", ANY);
	unlink(name);
}

static void test_utf16(void **state)
{
	sqlite3 *db, *from;
	sqlite3_stmt *s;
	struct reader *r;
	struct event ev;
	struct err e = { 0 };

	(void)state;
	unlink(path);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(db, "PRAGMA encoding = 'UTF-16'; PRAGMA synchronous = OFF", NULL, NULL, NULL),
		SQLITE_OK);
	assert_int_equal(sqlite3_open(base, &from), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(
						 from, "SELECT sql FROM sqlite_schema WHERE type = 'table'", -1, &s, NULL),
		SQLITE_OK);
	while (sqlite3_step(s) == SQLITE_ROW)
		assert_int_equal(
			sqlite3_exec(db, (const char *)sqlite3_column_text(s, 0), NULL, NULL, NULL), SQLITE_OK);
	sqlite3_finalize(s);
	sqlite3_close(from);
	assert_int_equal(sqlite3_exec(db,
						 "PRAGMA application_id = 1668641911; PRAGMA user_version = 1;"
						 "INSERT INTO setting VALUES(1, 1, 'temp', 'h\xc3\xa9')",
						 NULL, NULL, NULL),
		SQLITE_OK);
	sqlite3_close(db);

	assert_int_equal(reader_open(&r, path, &e), 0);
	assert_int_equal(reader_next(r, &ev, &e), 1);
	assert_int_equal(ev.u.setting.value.size, 3);
	assert_memory_equal(ev.u.setting.value.data, "h\xc3\xa9", 3);
	assert_int_equal(reader_next(r, &ev, &e), 0);
	reader_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sql),
		cmocka_unit_test(test_virtual_table),
		cmocka_unit_test(test_not_files),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_header),
		cmocka_unit_test(test_cycle),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_wal),
		cmocka_unit_test(test_journal),
		cmocka_unit_test(test_utf16),
	};

	return cmocka_run_group_tests_name("hostile", tests, make_base, remove_base);
}

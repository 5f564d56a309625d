/* The recording: what the writer writes, the reader reads; and what happens when the disk will not. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "tests/random_event.h"
#include "trace/reader.h"
#include "trace/recording.h"
#include "trace/ring.h"
#include "trace/schema.h"
#include "trace/writer.h"

enum { CAP = 300 };

static unsigned char bytes[RANDOM_FIELDS * CAP];
static char dir[64], path[128];

static int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/cutaway-trace-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/a name with %%, ? and ü.db", dir);
	return 0;
}

static int remove_dir(void **state)
{
	char command[100];

	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", dir);
	return system(command);
}

static void push(struct ring *ring, int64_t from, int64_t to)
{
	struct event ev;

	for (int64_t seq = from; seq <= to; seq++) {
		random_event(&ev, seq, bytes, CAP);
		ring_push(ring, &ev);
	}
}

static void expect(struct reader *r, int64_t from, int64_t to)
{
	struct event ev, want;
	struct err e = { 0 };

	for (int64_t seq = from; seq <= to; seq++) {
		if (reader_next(r, &ev, &e) != 1)
			fail_msg("event %lld: %s", (long long)seq, e.text);
		random_event(&want, seq, bytes, CAP);
		if (!event_equal(&ev, &want))
			fail_msg("event %lld (%s) differs", (long long)seq, ev_info[ev.kind].name);
	}
	assert_int_equal(reader_next(r, &ev, &e), 0);
	assert_int_equal(e.code, 0);
}

static struct reader *open_reader(void)
{
	struct reader *r;
	struct err e = { 0 };

	if (reader_open(&r, path, &e))
		fail_msg("%s", e.text);
	return r;
}

static int64_t query(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *s;
	int64_t v;

	if (sqlite3_prepare_v2(db, sql, -1, &s, NULL))
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	v = sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	return v;
}

static void test_round_trip(void **state)
{
	struct ring *ring;
	struct writer *w;
	struct reader *r;
	struct writer_status status;
	struct err e = { 0 };
	sqlite3 *db;
	char side[140];

	(void)state;
	assert_int_equal(ring_open(&ring, 1 << 20, &e), 0);
	if (writer_open(&w, path, ring, &e))
		fail_msg("%s", e.text);
	push(ring, 1, 5000);
	assert_int_equal(writer_flush(w), 0);
	writer_status(w, &status);
	assert_true(status.recording);
	assert_int_equal(status.seq, 5000);
	assert_int_equal(status.rows, 5000);

	/* While it is being written. */
	r = open_reader();
	expect(r, 1, 5000);
	assert_int_equal(reader_info(r)->last_seq, 5000);
	assert_int_equal(reader_info(r)->last_t_ns, 5000000);
	assert_int_equal(reader_info(r)->live, 1);
	push(ring, 5001, 6000);
	assert_int_equal(writer_flush(w), 0);
	expect(r, 5001, 6000);
	assert_int_equal(reader_info(r)->last_seq, 6000);
	reader_close(r);

	push(ring, 6001, 6100);
	assert_int_equal(writer_close(w, &e), 0);
	ring_close(ring);
	snprintf(side, sizeof side, "%s-wal", path);
	assert_int_equal(access(side, F_OK), -1);

	r = open_reader();
	assert_int_equal(reader_info(r)->live, 0);
	expect(r, 1, 6100);
	assert_int_equal(reader_seek(r, 4242, &e), 0);
	expect(r, 4242, 6100);
	reader_close(r);

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(query(db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"), 1);
	assert_int_equal(query(db, "PRAGMA application_id"), SCHEMA_APPLICATION_ID);
	assert_int_equal(query(db, "PRAGMA user_version"), SCHEMA_VERSION);
	assert_int_equal(query(db, "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND sql NOT NULL"), 8);
	sqlite3_close(db);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_round_trip, make_dir, remove_dir),
	};

	return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}

/* For tests of recordings: a directory of their own, and random events in and out of a file in
 * it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "tests/support/random_event.h"
#include "trace/reader.h"
#include "trace/ring.h"

enum { CAP = 300 };

static unsigned char field_bytes[RANDOM_FIELDS * CAP];
static char dir[64], path[128];

static inline int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/cutaway-trace-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/a name with %%, ? and ü.db", dir);
	return 0;
}

static inline int remove_dir(void **state)
{
	char command[100];

	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", dir);
	return system(command);
}

static inline void push(struct ring *ring, int64_t from, int64_t to)
{
	struct event ev;

	for (int64_t seq = from; seq <= to; seq++) {
		random_event(&ev, seq, field_bytes, CAP);
		ring_push(ring, &ev);
	}
}

static inline void expect(struct reader *r, int64_t from, int64_t to)
{
	struct event ev, want;
	struct err e = { 0 };

	for (int64_t seq = from; seq <= to; seq++) {
		if (reader_next(r, &ev, &e) != 1)
			fail_msg("event %lld: %s", (long long)seq, e.text);
		random_event(&want, seq, field_bytes, CAP);
		if (!event_equal(&ev, &want))
			fail_msg("event %lld (%s) differs", (long long)seq, ev_info[ev.kind].name);
	}
	assert_int_equal(reader_next(r, &ev, &e), 0);
	assert_int_equal(e.code, 0);
}

static inline struct reader *open_reader(void)
{
	struct reader *r;
	struct err e = { 0 };

	if (reader_open(&r, path, &e))
		fail_msg("%s", e.text);
	return r;
}

static inline int64_t query(sqlite3 *db, const char *sql)
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

/* What is in the file is events 1 … n, n >= at_least, and SQLite finds nothing wrong. Returns n. */
static inline int64_t expect_prefix(int64_t at_least)
{
	struct reader *r = open_reader();
	int64_t n = reader_info(r)->last_seq;
	sqlite3 *db;

	assert_true(n >= at_least);
	expect(r, 1, n);
	reader_close(r);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(
		query(db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"), 1);
	sqlite3_close(db);
	return n;
}

/* Runs fn in a process of its own that is not root. */
static inline void as_nobody(void (*fn)(void))
{
	int status;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (!child) {
		if (!geteuid() && (setgid(65534) || setuid(65534)))
			_exit(99);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

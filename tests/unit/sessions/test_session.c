/* The one way to open a session (sessions/session.h): what is recorded when, what a failure leaves,
 * and that sinks and the recording get the first event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "sessions/session.h"
#include "tests/support/tiny.h"
#include "trace/reader.h"

static char record[] = "/tmp/cutaway-test-session-XXXXXX";
static int n_sessions; /* session events that the sink was given */

static void count_sessions(void *arg, const struct event *ev)
{
	(void)arg;
	n_sessions += ev->kind == EV_session;
}

static struct session_options options(void)
{
	struct session_options o = { .engine = ENGINE_DEFAULTS, .sink = count_sessions };

	o.engine.model = tiny_model;
	o.engine.threads = 1;
	o.engine.ctx = 64;
	n_sessions = 0;
	return o;
}

/* The first event of a file: that of the session, whose hash of the model is copied. */
static void read_sha256(const char *path, char sha256[SHA256_HEX])
{
	struct reader *r = NULL;
	struct event ev;

	assert_int_equal(reader_open(&r, path, NULL), 0);
	assert_int_equal(reader_next(r, &ev, NULL), 1);
	assert_int_equal(ev.kind, EV_session);
	snprintf(sha256, SHA256_HEX, "%.*s", (int)ev.u.session.model_sha256.size,
		(const char *)ev.u.session.model_sha256.data);
	reader_close(r);
}

static void records_the_model(void **state)
{
	struct session_options o = options();
	struct session s;
	char sha256[SHA256_HEX], own[SHA256_HEX];

	(void)state;
	o.record = record;
	unlink(record);
	assert_int_equal(session_open(&s, &o, NULL), 0);
	assert_int_equal(n_sessions, 0);
	snprintf(own, sizeof own, "%s", s.sha256);
	assert_int_equal(session_begin(&s, NULL, NULL, NULL), 0);
	assert_int_equal(n_sessions, 1);
	assert_int_equal(session_close(&s, NULL), 0);
	read_sha256(record, sha256);
	assert_int_equal(strlen(own), 64);
	assert_string_equal(sha256, own);
}

/* A file that is there is not overwritten: an error where it was asked for, else a note. */
static void refuses_what_is_there(void **state)
{
	struct session_options o = options();
	struct session s;
	struct err e = { 0 };
	char before[SHA256_HEX];

	(void)state;
	o.record = record;
	assert_int_equal(session_open(&s, &o, &e), -1);
	assert_true(e.code && !s.engine && !s.ring && !s.writer);
	o.record_or_not = true;
	assert_int_equal(session_open(&s, &o, NULL), 0);
	assert_null(s.writer);
	assert_string_equal(s.record_err.text, e.text);
	assert_int_equal(session_begin(&s, NULL, NULL, NULL), 0);
	assert_int_equal(n_sessions, 1);
	assert_int_equal(session_close(&s, NULL), 0);
	read_sha256(record, before);
}

static void deletes_what_is_temporary(void **state)
{
	struct session_options o = options();
	struct session s;
	char path[sizeof s.temporary], sha256[SHA256_HEX];

	(void)state;
	o.temporary = true;
	assert_int_equal(session_open(&s, &o, NULL), 0);
	snprintf(path, sizeof path, "%s", s.temporary);
	assert_int_equal(session_begin(&s, NULL, NULL, NULL), 0);
	assert_int_equal(writer_flush(s.writer), 0);
	read_sha256(path, sha256);
	assert_string_equal(sha256, "");
	assert_int_equal(session_close(&s, NULL), 0);
	assert_int_not_equal(access(path, F_OK), 0);
}

/* Given up, it leaves no file, and says so. */
static void gives_up(void **state)
{
	struct session_options o = options();
	struct session s;
	struct err e = { 0 };
	atomic_bool stop = true;

	(void)state;
	unlink(record);
	o.engine.abandon = &stop;
	o.record = record;
	assert_int_equal(session_open(&s, &o, &e), -1);
	assert_int_equal(e.code, ERR_INTERRUPTED);
	assert_int_not_equal(access(record, F_OK), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_the_model),
		cmocka_unit_test(refuses_what_is_there),
		cmocka_unit_test(deletes_what_is_temporary),
		cmocka_unit_test(gives_up),
	};
	int fd = mkstemp(record), status;

	close(fd);
	status = cmocka_run_group_tests(tests, tiny_model_make, tiny_model_drop);
	unlink(record);
	return status;
}

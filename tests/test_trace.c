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


/* What is in the file is events 1 … n, n >= at_least, and SQLite finds nothing wrong. Returns n. */
static int64_t expect_prefix(int64_t at_least)
{
	struct reader *r = open_reader();
	int64_t n = reader_info(r)->last_seq;
	sqlite3 *db;

	assert_true(n >= at_least);
	expect(r, 1, n);
	reader_close(r);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(query(db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"), 1);
	sqlite3_close(db);
	return n;
}

static void expect_refused(const char *file, const char *words)
{
	struct ring *ring;
	struct writer *w;
	struct err e = { 0 };

	assert_int_equal(ring_open(&ring, 1 << 16, &e), 0);
	assert_int_equal(writer_open(&w, file, ring, &e), -1);
	assert_null(w);
	assert_int_equal(e.code, ERR_IO);
	if (!strstr(e.text, words))
		fail_msg("\"%s\" does not say \"%s\"", e.text, words);
	ring_close(ring);
}

static void test_refused(void **state)
{
	struct ring *ring;
	struct writer *w;
	struct err e = { 0 };
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char file[200];
	int fd;

	(void)state;
	snprintf(file, sizeof file, "%s/none/s.db", dir);
	expect_refused(file, "does not exist: create it");
	expect_refused(dir, "not a plain file");
	snprintf(file, sizeof file, "%s/fifo", dir);
	assert_int_equal(mkfifo(file, 0600), 0);
	expect_refused(file, "not a plain file");

	/* A second writer: while the first is at work, and afterwards. */
	assert_int_equal(ring_open(&ring, 1 << 16, &e), 0);
	assert_int_equal(writer_open(&w, path, ring, &e), 0);
	expect_refused(path, "no file is overwritten");
	push(ring, 1, 100);
	assert_int_equal(writer_close(w, &e), 0);
	expect_refused(path, "no file is overwritten");
	assert_int_equal(expect_prefix(100), 100);

	/* An empty file is taken over, unless another process has begun with it. */
	snprintf(file, sizeof file, "%s/empty", dir);
	fd = open(file, O_RDWR | O_CREAT, 0600);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	expect_refused(file, "another cutaway");
	close(fd);
	assert_int_equal(writer_open(&w, file, ring, &e), 0);
	assert_int_equal(writer_close(w, &e), 0);
	ring_close(ring);
}

/* Runs fn in a process of its own that is not root. */
static void as_nobody(void (*fn)(void))
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

/* In the child no test may fail the cmocka way: it tells by its status. */
static void record_in_read_only_dir(void)
{
	struct ring *ring;
	struct writer *w;
	struct err e = { 0 };

	if (ring_open(&ring, 1 << 16, &e) || !writer_open(&w, path, ring, &e))
		_exit(1);
	if (e.code != ERR_IO || !strstr(e.text, "--no-record"))
		_exit(2);
}

static void read_in_read_only_dir(void)
{
	struct reader *r;
	struct err e = { 0 };
	struct event ev;

	if (reader_open(&r, path, &e))
		_exit(1);
	for (int64_t seq = 1; seq <= 100; seq++)
		if (reader_next(r, &ev, &e) != 1 || ev.seq != seq)
			_exit(2);
	if (reader_next(r, &ev, &e) != 0)
		_exit(3);
	reader_close(r);
}

static void read_cut_off(void)
{
	struct reader *r;
	struct err e = { 0 };

	if (!reader_open(&r, path, &e))
		_exit(1);
	if (!strstr(e.text, "copy it together with its -wal"))
		_exit(2);
}

static void copy_file(const char *from_suffix, const char *to)
{
	char command[600];

	snprintf(command, sizeof command, "cp '%s%s' '%s%s'", path, from_suffix, to, from_suffix);
	assert_int_equal(system(command), 0);
}

static void test_read_only_dir(void **state)
{
	struct ring *ring;
	struct writer *w;
	struct err e = { 0 };
	char copy[160];
	sqlite3 *db;

	(void)state;
	assert_int_equal(chmod(dir, 0755), 0);
	as_nobody(record_in_read_only_dir);
	assert_int_equal(ring_open(&ring, 1 << 16, &e), 0);
	assert_int_equal(writer_open(&w, path, ring, &e), 0);
	push(ring, 1, 100);
	assert_int_equal(writer_flush(w), 0);

	/* As a kill leaves it, without the shared memory: nothing to be done but to say so. */
	snprintf(copy, sizeof copy, "%s/copy.db", dir);
	copy_file("", copy);
	copy_file("-wal", copy);
	assert_int_equal(writer_close(w, &e), 0);
	ring_close(ring);
	as_nobody(read_in_read_only_dir);

	strcpy(path, copy);
	as_nobody(read_cut_off);
	/* In WAL mode, but with nothing in the WAL. */
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	query(db, "PRAGMA wal_checkpoint(TRUNCATE)");
	sqlite3_close(db);
	as_nobody(read_in_read_only_dir);
}

/* Faults in the system calls that SQLite makes: from the fail_at-th write on, or only there. */
static int n_writes, fail_at, fail_errno;
static int made_by; /* writes until the recording had begun, when nothing failed before */
static bool fail_once;
static int (*real_open)(const char *, int, int);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_ftruncate)(int, off_t);
static int (*real_fallocate)(int, off_t, off_t);
static int (*real_fsync)(int);

static bool faulty(void)
{
	int n = __atomic_add_fetch(&n_writes, 1, __ATOMIC_RELAXED);

	if (!fail_at || (fail_once ? n != fail_at : n < fail_at))
		return false;
	errno = fail_errno;
	return true;
}

static int faulty_open(const char *name, int flags, int mode)
{
	return flags & O_CREAT && faulty() ? -1 : real_open(name, flags, mode);
}

static ssize_t faulty_write(int fd, const void *p, size_t n)
{
	return faulty() ? -1 : real_write(fd, p, n);
}

static ssize_t faulty_pwrite(int fd, const void *p, size_t n, off_t at)
{
	return faulty() ? -1 : real_pwrite(fd, p, n, at);
}

static int faulty_ftruncate(int fd, off_t n)
{
	return faulty() ? -1 : real_ftruncate(fd, n);
}

static int faulty_fallocate(int fd, off_t at, off_t n)
{
	if (faulty())
		return errno; /* as posix_fallocate does */
	return real_fallocate(fd, at, n);
}

static int no_fsync(int fd)
{
	(void)fd;
	return 0; /* no power is cut here, and a busy disk would take seconds */
}

static void set_call(sqlite3_vfs *vfs, const char *name, void *real, sqlite3_syscall_ptr ours)
{
	sqlite3_syscall_ptr was = vfs->xGetSystemCall(vfs, name);

	if (was) {
		memcpy(real, &was, sizeof was);
		assert_int_equal(vfs->xSetSystemCall(vfs, name, ours), SQLITE_OK);
	}
}

static void install_faults(void)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find("unix");

	set_call(vfs, "open", &real_open, (sqlite3_syscall_ptr)faulty_open);
	set_call(vfs, "write", &real_write, (sqlite3_syscall_ptr)faulty_write);
	set_call(vfs, "pwrite", &real_pwrite, (sqlite3_syscall_ptr)faulty_pwrite);
	set_call(vfs, "pwrite64", &real_pwrite, (sqlite3_syscall_ptr)faulty_pwrite);
	set_call(vfs, "ftruncate", &real_ftruncate, (sqlite3_syscall_ptr)faulty_ftruncate);
	set_call(vfs, "fallocate", &real_fallocate, (sqlite3_syscall_ptr)faulty_fallocate);
	set_call(vfs, "fsync", &real_fsync, (sqlite3_syscall_ptr)no_fsync);
}

/* Records with a fault at the n-th write. Returns false once the session ends before that. */
static bool record_with_fault(int n)
{
	struct ring *ring;
	struct writer *w;
	struct writer_status status = { 0 };
	struct err e = { 0 };
	int64_t seq = 1;

	assert_int_equal(ring_open(&ring, 1 << 15, &e), 0);
	n_writes = 0;
	fail_at = n;
	if (writer_open(&w, path, ring, &e)) {
		fail_at = 0;
		assert_int_equal(e.code, ERR_IO);
		assert_int_equal(access(path, F_OK), -1); /* nothing is left behind */
		ring_close(ring);
		return true;
	}
	made_by = n_writes;
	for (int round = 0; round < 4; round++, seq += 25) {
		push(ring, seq, seq + 24); /* together more than the ring holds: a dead writer must let go */
		writer_flush(w);
	}
	writer_status(w, &status);
	if (writer_close(w, &e)) {
		assert_int_equal(e.code, ERR_IO);
		assert_non_null(strstr(e.text, path));
	} else {
		status.seq = seq - 1; /* all of it, whatever became of the clearing up */
	}
	n = fail_at;
	fail_at = 0;
	ring_close(ring);
	expect_prefix(status.seq);
	return n_writes >= n;
}

/* The two tests between them make every write fail that comes once the schema is made, and a third of those
 * that make it: they all end in the same place. */
static void test_faults(int phase)
{
	char side[140];
	int n;

	assert_true(record_with_fault(0)); /* nothing fails, and made_by is known */
	for (n = 1 + phase;; n += n < made_by - 6 ? 6 : 2) {
		static const char *const suffix[] = { "", "-wal", "-shm", "-journal" };

		for (int i = 0; i < 4; i++) {
			snprintf(side, sizeof side, "%s%s", path, suffix[i]);
			unlink(side);
		}
		if (!record_with_fault(n))
			break;
	}
	assert_true(n > made_by + 50);
}

static void test_disk_full(void **state)
{
	(void)state;
	fail_errno = ENOSPC;
	fail_once = false;
	test_faults(0);
}

static void test_io_error(void **state)
{
	(void)state;
	fail_errno = EIO;
	fail_once = true;
	test_faults(1);
}

/* A real limit of the system, whose signal would end a process that does not expect it. */
static void record_over_limit(void)
{
	struct rlimit limit = { 800000, 800000 };
	struct ring *ring;
	struct writer *w;
	struct writer_status status;
	struct err e = { 0 };

	signal(SIGXFSZ, SIG_DFL);
	if (ring_open(&ring, 1 << 16, &e) || writer_open(&w, path, ring, &e))
		_exit(1);
	push(ring, 1, 100);
	if (writer_flush(w) || setrlimit(RLIMIT_FSIZE, &limit))
		_exit(2);
	push(ring, 101, 5000);
	if (writer_flush(w) == 0)
		_exit(3);
	writer_status(w, &status);
	if (status.recording || status.err.code != ERR_IO || !strstr(status.err.text, "size of a file"))
		{ fprintf(stderr, "%s\n", status.err.text); _exit(4); }
	if (writer_close(w, &e) != -1)
		_exit(5);
	ring_close(ring);
}

static void test_file_limit(void **state)
{
	(void)state;
	assert_int_equal(chmod(dir, 0777), 0);
	as_nobody(record_over_limit);
	assert_in_range(expect_prefix(0), 100, 4999);
}

static void note_mark(void *arg, enum reader_mark kind, int64_t step)
{
	static const char letter[] = { [MARK_TURN] = 't', [MARK_REJECTED] = 'r', [MARK_EVICTED] = 'e' };
	char *text = arg;

	sprintf(text + strlen(text), "%c%lld ", letter[kind], (long long)step);
}

static void test_steps_and_marks(void **state)
{
	struct recording *rec;
	struct reader *r;
	struct event ev;
	struct err e = { 0 };
	char text[200] = "";
	int64_t seq = 0;

	(void)state;
	assert_int_equal(recording_create(&rec, path, &e), 0);
	for (int64_t step = 1; step <= 300; step++) {
		if (step == 1 || step == 200) {
			ev_init(&ev, EV_request);
			ev.u.request.kind = step == 1 ? EV_REQUEST_KIND_chat : EV_REQUEST_KIND_load;
			ev.seq = ev.t_ns = ++seq;
			assert_int_equal(recording_add(rec, &ev, &e), 0);
		}
		for (int i = 0; i < step % 7; i++) {
			ev_init(&ev, EV_draft);
			ev.u.draft.step = step;
			ev.u.draft.verdict = step % 50 ? EV_VERDICT_accepted : EV_VERDICT_rejected;
			ev.seq = ev.t_ns = ++seq;
			assert_int_equal(recording_add(rec, &ev, &e), 0);
		}
		if (step == 100 || step == 101 || step == 102) {
			ev_init(&ev, EV_page);
			ev.u.page.action = step == 102 ? EV_PAGE_alloc : EV_PAGE_evict;
			ev.seq = ev.t_ns = ++seq;
			assert_int_equal(recording_add(rec, &ev, &e), 0);
		}
		ev_init(&ev, EV_step);
		ev.u.step.step = step;
		ev.seq = ev.t_ns = ++seq;
		assert_int_equal(recording_add(rec, &ev, &e), 0);
	}
	assert_int_equal(recording_commit(rec, &e), 0);
	for (int finished = 0; finished < 2; finished++) {
		if (finished)
			recording_close(rec, false);
		r = open_reader();
		assert_int_equal(reader_info(r)->n_steps, 300);
		assert_int_equal(reader_info(r)->closed, 0);
		for (int64_t step = 1; step <= 300; step++) {
			assert_int_equal(reader_seek(r, reader_step_seq(r, step), &e), 0);
			assert_int_equal(reader_next(r, &ev, &e), 1);
			assert_int_equal(ev.kind, EV_step);
			assert_int_equal(ev.u.step.step, step);
		}
		assert_int_equal(reader_step_seq(r, 0), -1);
		assert_int_equal(reader_step_seq(r, 301), -1);
		assert_int_equal(reader_step_seq(r, INT64_MIN), -1);
		*text = 0;
		assert_int_equal(reader_marks(r, note_mark, text, &e), 0);
		assert_string_equal(text, "t1 r50 r100 e100 e101 r150 r200 r250 r300 ");
		reader_close(r);
	}
}

/* A reader that rests does not keep the WAL from being emptied. */
static void test_rest(void **state)
{
	struct recording *rec;
	struct reader *r;
	struct event ev;
	struct err e = { 0 };
	char wal[140];

	(void)state;
	assert_int_equal(recording_create(&rec, path, &e), 0);
	for (int64_t seq = 1; seq <= 100; seq++) {
		random_event(&ev, seq, bytes, CAP);
		assert_int_equal(recording_add(rec, &ev, &e), 0);
	}
	assert_int_equal(recording_commit(rec, &e), 0);
	r = open_reader();
	for (int64_t seq = 1; seq <= 50; seq++)
		assert_int_equal(reader_next(r, &ev, &e), 1);
	reader_rest(r);
	for (int64_t seq = 101; seq <= 200; seq++) {
		random_event(&ev, seq, bytes, CAP);
		assert_int_equal(recording_add(rec, &ev, &e), 0);
	}
	assert_int_equal(recording_commit(rec, &e), 0);
	expect(r, 51, 200);
	recording_close(rec, false); /* the reader is still there */
	expect(r, 201, 200);
	reader_close(r);
	assert_int_equal(expect_prefix(200), 200);
	snprintf(wal, sizeof wal, "%s-wal", path);
	if (!access(wal, F_OK)) {
		struct stat st;

		assert_int_equal(stat(wal, &st), 0);
		assert_int_equal(st.st_size, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
		T(test_round_trip), T(test_refused),	T(test_read_only_dir), T(test_disk_full),
		T(test_io_error),	T(test_file_limit), T(test_steps_and_marks), T(test_rest),
#undef T
	};

	install_faults();
	return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}

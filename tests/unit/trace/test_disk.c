/* The disk that will not: every write of a recording is made to fail in turn, and a real limit is
 * hit. What is in the file afterwards is a valid prefix, and nobody waits for a writer that is
 * gone. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/support/recorded.h"
#include "trace/writer.h"

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
		push(ring, seq, seq + 24); /* together more than the ring holds: a dead writer must let go
									*/
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

/* The two tests between them make every write fail that comes once the schema is made, and a third
 * of those that make it: they all end in the same place. */
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
	if (status.recording || status.err.code != ERR_IO ||
		!strstr(status.err.text, "size of a file")) {
		fprintf(stderr, "%s\n", status.err.text);
		_exit(4);
	}
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

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
		T(test_disk_full),
		T(test_io_error),
		T(test_file_limit),
#undef T
	};

	install_faults();
	return cmocka_run_group_tests_name("disk", tests, NULL, NULL);
}

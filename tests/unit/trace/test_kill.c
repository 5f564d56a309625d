/* kill -9 at random moments: what is left is a valid recording of a prefix. How many milliseconds
 * were lost is printed and not asked for: on a busy machine the writer may not run for longer than
 * that. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/clock.h"
#include "tests/support/random_event.h"
#include "trace/reader.h"
#include "trace/ring.h"
#include "trace/writer.h"

enum { ROUNDS = 200, FIRST = 40, CAP = 400, MOST = 1 << 20 };

static unsigned char bytes[RANDOM_FIELDS * CAP];
static char dir[64], path[128];
static int64_t killed_ns;
static int64_t *pushed_ns; /* [MOST] when each event was pushed; shared with the child */

/* Records for ever, in bursts. flush: commits often, and tells on a pipe what it knows to be
 * committed; else the writer keeps its own time. */
static void record(int fd, bool flush)
{
	struct ring *ring;
	struct writer *w;
	struct err e = { 0 };
	struct event ev;

	if (ring_open(&ring, 1 << 18, &e) || writer_open(&w, path, ring, &e))
		_exit(1);
	if (!flush && write(fd, &(int64_t){ 0 }, sizeof(int64_t)) < 0)
		_exit(2);
	for (int64_t seq = 1;; seq++) {
		random_event(&ev, seq, bytes, CAP);
		if (seq < MOST)
			pushed_ns[seq] = now_ns();
		ring_push(ring, &ev);
		if (flush && seq % 64 == 0) {
			if (writer_flush(w) || write(fd, &seq, sizeof seq) != sizeof seq)
				_exit(2);
		} else if (seq % 13 == 0) {
			usleep(200);
		}
	}
}

/* Returns the newest seq that the child said was committed. at_work: the time counts from its first
 * commit, else from its beginning. */
static int64_t record_and_kill(bool at_work, bool flush, int64_t after_us)
{
	int pipe_fd[2], status;
	int64_t seq = 0, known = 0;
	pid_t child;

	assert_int_equal(pipe(pipe_fd), 0);
	fflush(NULL);
	child = fork();
	if (!child) {
		close(pipe_fd[0]);
		record(pipe_fd[1], flush);
	}
	close(pipe_fd[1]);
	if (at_work)
		assert_int_equal(read(pipe_fd[0], &known, sizeof known), sizeof known);
	usleep((useconds_t)after_us);
	killed_ns = now_ns();
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	while (read(pipe_fd[0], &seq, sizeof seq) == sizeof seq)
		known = seq;
	close(pipe_fd[0]);
	return known;
}

/* How long before the kill the first event was pushed that is not in the file, in ms. */
static double lost_ms(int64_t n)
{
	int64_t first = n < 0 ? 1 : n + 1;

	return first < MOST && pushed_ns[first] ? (double)(killed_ns - pushed_ns[first]) / 1e6 : 0;
}

static void check_integrity(void)
{
	sqlite3 *db;
	sqlite3_stmt *s;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &s, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	assert_string_equal(sqlite3_column_text(s, 0), "ok");
	sqlite3_finalize(s);
	sqlite3_close(db);
}

/* Returns the number of events in the file: 1 … n, each as it was made. -1: the file says it is
 * empty. */
static int64_t read_all(void)
{
	struct reader *r;
	struct event ev, want;
	struct err e = { 0 };
	int64_t n = 0;
	int rc;

	if (reader_open(&r, path, &e)) {
		if (!strstr(e.text, "nothing was recorded") && !strstr(e.text, "No such file"))
			fail_msg("%s", e.text);
		return -1;
	}
	while ((rc = reader_next(r, &ev, &e)) > 0) {
		random_event(&want, ++n, bytes, CAP);
		if (!event_equal(&ev, &want))
			fail_msg("event %lld is not what was recorded", (long long)n);
	}
	if (rc)
		fail_msg("%s", e.text);
	reader_close(r);
	return n;
}

static void test_kill(void **state)
{
	uint64_t random = 9;
	int with_events = 0, above = 0;
	double worst = 0;

	(void)state;
	strcpy(dir, "/tmp/cutaway-kill-XXXXXX");
	assert_non_null(mkdtemp(dir));
	pushed_ns = mmap(
		NULL, MOST * sizeof *pushed_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(pushed_ns != MAP_FAILED);
	for (int round = 0; round < ROUNDS; round++) {
		int64_t known, n;

		snprintf(path, sizeof path, "%s/%d.db", dir, round);
		/* The first rounds hit the making of the file, the others its filling. */
		bool at_work = round >= FIRST, flush;
		double lost;

		memset(pushed_ns, 0, MOST * sizeof *pushed_ns);

		flush = round % 4 != 0;
		known = record_and_kill(at_work, flush,
			(int64_t)(random_u64(&random) % (!at_work   ? 8000
												: flush ? 40000
														: 250000)));
		n = read_all();
		if (n < known && known)
			fail_msg("%lld events were committed, %lld are there", (long long)known, (long long)n);
		if (n >= 0)
			check_integrity();
		with_events += n > 0;
		lost = lost_ms(n);
		worst = lost > worst ? lost : worst;
		above += lost > 100;
		unlink(path);
	}
	assert_true(with_events >= (ROUNDS - FIRST) / 2);
	print_message(
		"# %d kills: at most %.1f ms lost, more than 100 ms in %d\n", ROUNDS, worst, above);
	munmap(pushed_ns, MOST * sizeof *pushed_ns);
	char command[100];
	snprintf(command, sizeof command, "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_kill) };

	return cmocka_run_group_tests_name("kill", tests, NULL, NULL);
}

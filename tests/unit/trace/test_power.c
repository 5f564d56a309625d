/* The power goes off, simulated: a session is recorded, and then every kind of rest that a disk may
 * keep of it is opened (power.h). What was synced must be there, and what is there must be a valid
 * recording of a prefix. POWER_CUTS=n in the environment: so many more cuts of each kind. */
#include <sys/stat.h>

#include "tests/support/demo_events.h"
#include "tests/support/power.h"
#include "tests/support/recorded.h"
#include "tests/support/thorough.h"
#include "trace/recording.h"
#include "trace/writer.h"
#include "tui/app/player.h"

enum { EVENTS_MAX = 20000, PER_COMMIT = 3, COMMITS_PER_SYNC = 4 };

static struct {
	unsigned char *data[EVENTS_MAX];
	size_t size[EVENTS_MAX];
	int64_t n;
} told;

static void keep(void *arg, const struct event *ev)
{
	size_t size = ev_pack(ev, NULL, 0);

	(void)arg;
	assert_true(told.n < EVENTS_MAX - 1 && ev->seq == told.n + 1);
	told.n++;
	told.data[told.n] = malloc(size);
	told.size[told.n] = size;
	assert_int_equal(ev_pack(ev, told.data[told.n], size), size);
}

static void tell(struct recording *rec, int64_t seq)
{
	struct event ev;
	struct err e = { 0 };

	assert_int_equal(ev_unpack(&ev, told.data[seq], told.size[seq]), 0);
	if (recording_add(rec, &ev, &e))
		fail_msg("%s", e.text);
}

/* As the writer does it: a commit for some events, a sync for some commits. */
static void record(void)
{
	struct recording *rec;
	struct err e = { 0 };
	int64_t n_commits = 0;
	struct stat begun, filled;

	assert_int_equal(power_begin(), 0);
	assert_int_equal(recording_create(&rec, path, &e), 0);
	assert_int_equal(stat(path, &begun), 0);
	for (int64_t seq = 1; seq <= told.n; seq++) {
		tell(rec, seq);
		if (seq % PER_COMMIT && seq < told.n)
			continue;
		assert_int_equal(recording_commit(rec, &e), 0);
		if (++n_commits % COMMITS_PER_SYNC == 0) {
			assert_int_equal(recording_sync(rec, &e), 0);
			power_promise(recording_size(rec).synced_seq);
		}
	}
	assert_int_equal(stat(path, &filled), 0);
	assert_true(filled.st_size > begun.st_size); /* the WAL was folded in on the way */
	recording_close(rec, false);
	power_promise(told.n);
	power_end();
}

static void check_whole(const char *file, int64_t n)
{
	struct timeline t;
	struct player *p;
	struct err e = { 0 };
	sqlite3 *db;

	assert_int_equal(sqlite3_open_v2(file, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(
		query(db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"), 1);
	sqlite3_close(db);
	timeline_init(&t);
	if (player_open(&p, file, &e) || player_go(p, &t, INT64_MAX, &e))
		fail_msg("%s", e.text);
	assert_int_equal(t.last_seq, n);
	player_close(p);
	timeline_free(&t);
}

/* Events in the file: 1 … n, each as it was told. -1: a clear error. */
static int64_t read_back(const char *file, struct err *e)
{
	unsigned char again[1 << 16];
	struct reader *r;
	struct event ev;
	int64_t n = 0;
	int rc;

	if (reader_open(&r, file, e))
		return -1;
	while ((rc = reader_next(r, &ev, e)) > 0) {
		n++;
		if (n > told.n || ev_pack(&ev, again, sizeof again) != told.size[n] ||
			memcmp(again, told.data[n], told.size[n]))
			fail_msg("event %lld is not what was recorded", (long long)n);
	}
	reader_close(r);
	return rc ? -1 : n;
}

static char folder[64]; /* for the files after a cut */
static int64_t n_cuts, n_empty, n_partly;

static void try_cut(size_t at, uint64_t seed)
{
	static const char *const suffix[] = { "", "-wal", "-shm", "-journal" };
	char file[180], side[200];
	struct err e = { 0 };
	int64_t promised, n;

	snprintf(file, sizeof file, "%s%s", folder, strrchr(path, '/'));
	promised = power_cut(at, seed, folder);
	n = read_back(file, &e);
	if (n < promised && (promised || n >= 0))
		fail_msg("cut %zu, seed %llu: %lld events were synced, %lld are there: %s", at,
			(unsigned long long)seed, (long long)promised, (long long)n, e.text);
	if (n > 0)
		check_whole(file, n);
	n_cuts++;
	n_empty += n <= 0;
	n_partly += n > 0 && n < told.n;
	for (int i = 0; i < 4; i++) {
		snprintf(side, sizeof side, "%s%s", file, suffix[i]);
		unlink(side);
	}
}

static void test_power(void **state)
{
	const char *more = getenv("POWER_CUTS");
	const size_t at_turns = is_thorough() ? 16 : 6, anywhere = is_thorough() ? 120 : 50;
	int64_t times = 1 + (more ? atoll(more) : 0);
	char command[100];
	uint64_t random = 1;
	size_t n, turns = 0, turn = 0;

	(void)state;
	/* In memory where there is such a place. */
	snprintf(folder, sizeof folder, "%s/cutaway-power-XXXXXX",
		access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	assert_non_null(mkdtemp(folder));
	demo_play(keep, NULL, DEMO_STEPS);
	record();
	n = power_n_ops();
	for (size_t i = 0; i < n; i++)
		turns += power_is_turn(i);
	/* In order, because the disk is replayed: before and behind the first and the last turns and a
	 * sample of those between, and anywhere. */
	for (size_t i = 0; i <= n; i++) {
		int64_t here = random_u64(&random) % n < anywhere ? times : 0;

		if (power_is_turn(i)) {
			turn++;
			if (turn < at_turns || turn + at_turns > turns || random_u64(&random) % 8 == 0)
				here += times;
			for (int64_t k = 0; k < here; k++)
				try_cut(i + 1, (uint64_t)k + 1000);
		}
		for (int64_t k = 0; k < here; k++)
			try_cut(i, (uint64_t)k);
	}
	print_message("# %lld cuts of %zu writes and syncs: %lld left nothing, %lld a part\n",
		(long long)n_cuts, n, (long long)n_empty, (long long)n_partly);
	assert_true(n_partly > n_cuts / 2);
	snprintf(command, sizeof command, "rm -rf %s", folder);
	assert_int_equal(system(command), 0);
	power_forget();
	for (int64_t i = 1; i <= told.n; i++)
		free(told.data[i]);
}

/* A disk that does not sync ends the recording as one that does not write, and what was synced is
 * said. */
static void test_no_sync(void **state)
{
	struct ring *ring;
	struct writer *w;
	struct writer_status status;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(power_begin(), 0);
	assert_int_equal(ring_open(&ring, 1 << 16, &e), 0);
	assert_int_equal(writer_open(&w, path, ring, &e), 0);
	push(ring, 1, 20);
	assert_int_equal(writer_flush(w), 0);
	do {
		usleep(1000);
		writer_status(w, &status);
	} while (status.recording && status.synced_seq < 20);
	assert_int_equal(status.synced_seq, 20);
	power_fail_syncs();
	push(ring, 21, 30);
	do {
		usleep(1000);
		writer_status(w, &status);
	} while (status.recording);
	assert_int_equal(status.synced_seq, 20);
	assert_non_null(strstr(status.err.text, "cannot sync"));
	assert_int_equal(writer_close(w, &e), -1);
	power_end();
	power_forget();
	ring_close(ring);
	expect_prefix(20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_power, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(test_no_sync, make_dir, remove_dir),
	};

	return cmocka_run_group_tests_name("power", tests, NULL, NULL);
}

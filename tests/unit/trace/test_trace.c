/* The recording: what the writer writes, the reader reads; and what happens when the disk will
 * not. */
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/support/recorded.h"
#include "trace/recording.h"
#include "trace/schema.h"
#include "trace/writer.h"

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
	assert_int_equal(
		query(db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"), 1);
	assert_int_equal(query(db, "PRAGMA application_id"), SCHEMA_APPLICATION_ID);
	assert_int_equal(query(db, "PRAGMA user_version"), SCHEMA_VERSION);
	assert_int_equal(
		query(db, "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND sql NOT NULL"), 8);
	sqlite3_close(db);
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
	char command[900];

	/* for others, too, as its owner would let them read it */
	snprintf(command, sizeof command, "cp '%s%s' '%s%s' && chmod 644 '%s%s'", path, from_suffix, to,
		from_suffix, to, from_suffix);
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
	assert_int_equal(chmod(path, 0644), 0);
	as_nobody(read_in_read_only_dir);

	strcpy(path, copy);
	as_nobody(read_cut_off);
	/* In WAL mode, but with nothing in the WAL. */
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	query(db, "PRAGMA wal_checkpoint(TRUNCATE)");
	sqlite3_close(db);
	as_nobody(read_in_read_only_dir);
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
		assert_int_equal(reader_marks(r, 1, INT64_MAX, note_mark, text, &e), 0);
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
		random_event(&ev, seq, field_bytes, CAP);
		assert_int_equal(recording_add(rec, &ev, &e), 0);
	}
	assert_int_equal(recording_commit(rec, &e), 0);
	r = open_reader();
	for (int64_t seq = 1; seq <= 50; seq++)
		assert_int_equal(reader_next(r, &ev, &e), 1);
	reader_rest(r);
	for (int64_t seq = 101; seq <= 200; seq++) {
		random_event(&ev, seq, field_bytes, CAP);
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

static void add_steps(struct recording *rec, int64_t first, int64_t last)
{
	struct event ev;
	struct err e = { 0 };

	for (int64_t step = first; step <= last; step++) {
		ev_init(&ev, EV_step);
		ev.seq = ev.t_ns = ev.u.step.step = step;
		assert_int_equal(recording_add(rec, &ev, &e), 0);
	}
	assert_int_equal(recording_commit(rec, &e), 0);
}

/* What is read out of order does not hide what is written afterwards. */
static void test_rest_after_jump(void **state)
{
	struct recording *rec;
	struct reader *r;
	struct key_row row;
	struct event ev;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(recording_create(&rec, path, &e), 0);
	add_steps(rec, 1, KEY_STEPS);
	r = open_reader();
	assert_int_equal(reader_keyframe(r, KEY_STEPS, &row, &e), 1);
	reader_rest(r);
	add_steps(rec, KEY_STEPS + 1, KEY_STEPS + 1);
	reader_refresh(r);
	assert_int_equal(reader_info(r)->n_steps, KEY_STEPS + 1);
	assert_int_equal(reader_step_from(r, 1, &ev, &e), 1);
	reader_rest(r);
	add_steps(rec, KEY_STEPS + 2, KEY_STEPS + 2);
	reader_refresh(r);
	assert_int_equal(reader_info(r)->n_steps, KEY_STEPS + 2);
	reader_close(r);
	recording_close(rec, false);
}

/* Adds the stages' times of step n to a recording. */
static void add_times(struct recording *rec, int64_t n, struct ev_span stages)
{
	struct event ev;
	struct err e = { 0 };

	ev_init(&ev, EV_time);
	ev.seq = n;
	ev.t_ns = n;
	ev.u.time = (struct ev_time){ n, stages };
	assert_int_equal(recording_add(rec, &ev, &e), 0);
}

static void expect_times(struct reader *r, int64_t n, struct ev_span stages)
{
	struct event ev;
	struct err e = { 0 };

	assert_int_equal(reader_next(r, &ev, &e), 1);
	assert_int_equal(ev.u.time.step, n);
	assert_int_equal(ev.u.time.stages.size, stages.size);
	assert_int_equal(!ev.u.time.stages.data, !stages.data);
	if (stages.size)
		assert_memory_equal(ev.u.time.stages.data, stages.data, stages.size);
}

/* Packed in the file, whole as events. */
static void test_times(void **state)
{
	static const struct ev_stage_time told[] = { { EV_STAGE_head, 1, 0, 0 },
		{ 255, UINT64_MAX, 1ull << 55, 256 }, { 0, 0x010203, INT64_MAX, 65535 } };
	const struct ev_span whole = { told, sizeof told }, torn = { told, 70 }, none = { "", 0 },
						 absent = { 0 };
	struct recording *rec;
	struct reader *r;
	struct err e = { 0 };
	sqlite3 *db;

	(void)state;
	assert_int_equal(recording_create(&rec, path, &e), 0);
	add_times(rec, 1, whole);
	add_times(rec, 2, torn);
	add_times(rec, 3, none);
	add_times(rec, 4, absent);
	add_times(rec, 5, (struct ev_span){ told, sizeof *told });
	assert_int_equal(recording_commit(rec, &e), 0);
	recording_close(rec, false);
	r = open_reader();
	expect_times(r, 1, whole);
	expect_times(r, 2, torn);
	expect_times(r, 3, none);
	expect_times(r, 4, absent);
	expect_times(r, 5, (struct ev_span){ told, sizeof *told });
	reader_close(r);

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(query(db, "SELECT length(stages) FROM time WHERE step = 5"), 3 + 4);
	sqlite3_close(db);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
		T(test_round_trip),
		T(test_times),
		T(test_refused),
		T(test_read_only_dir),
		T(test_steps_and_marks),
		T(test_rest),
		T(test_rest_after_jump),
#undef T
	};

	return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}

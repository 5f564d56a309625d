/* A live session whose viewer falls behind: a small ring overflows while nobody looks. What was
 * missed comes from the recording, so that the screens know as much as those of a replay; without a
 * recording it is counted. And an opening that nobody waits for ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>
#include <unistd.h>

#include "tests/support/tiny.h"
#include "trace/reader.h"
#include "tui/chat/live.h"
#include "tests/support/timeline_dump.h"
#include "tests/support/actor_submit.h"

enum { RING = 64 << 10, REQUESTS = 6, TOKENS = 120 };

static char *model, record[64];

static struct tui_options options(const char *recording)
{
	struct tui_options o = { .engine = ENGINE_DEFAULTS,
		.answer = ANSWER_DEFAULTS,
		.record = recording,
		.ring_bytes = RING };

	o.engine.model = model;
	o.engine.threads = 1;
	o.engine.ctx = 256;
	return o;
}

static void open_live(struct live *s, const struct tui_options *o)
{
	struct pollfd p;
	struct err e = { 0 };

	if (live_open(s, o, NULL, &e))
		fail_msg("%s", e.text);
	p = (struct pollfd){ .fd = s->fd, .events = POLLIN };
	while (!live_ready(s)) {
		assert_int_equal(s->open_err.code, 0);
		assert_int_equal(poll(&p, 1, 20000), 1);
	}
}

static void is_idle(struct engine *e, void *arg)
{
	*(bool *)arg = engine_idle(e);
}

/* Some requests, all the way, and the viewer asleep. */
static void run_unseen(struct live *s)
{
	int32_t ids[40];
	bool idle = false;

	for (int i = 0; i < 40; i++)
		ids[i] = 3 + i;
	for (int i = 0; i < REQUESTS; i++) {
		struct engine_request q = { .kind = EV_REQUEST_KIND_load,
			.ids = ids,
			.n_ids = 40,
			.max_tokens = TOKENS,
			.params = SAMPLE_DEFAULTS,
			.text = "x",
			.sample = i,
			.ignore_end = true };
		assert_true(actor_submit(s->session.actor, &q, NULL) > 0);
	}
	while (!idle) {
		usleep(1000);
		actor_call(s->session.actor, is_idle, &idle);
	}
}

/* Everything that the recording has, folded as a replay does. */
static void fold_recording(struct timeline *t, int64_t until)
{
	struct reader *r;
	struct event ev;

	timeline_init(t);
	assert_int_equal(reader_open(&r, record, NULL), 0);
	assert_int_equal(reader_seek(r, 0, NULL), 0);
	while (reader_next(r, &ev, NULL) == 1 && ev.seq <= until)
		timeline_fold(t, &ev);
	reader_close(r);
}

static void test_catches_up(void **state)
{
	struct tui_options o = options(record);
	struct timeline live, replayed;
	struct ring_stats stats;
	struct live s;
	char *a, *b;

	(void)state;
	unlink(record);
	timeline_init(&live);
	open_live(&s, &o);
	/* awake at first, so that it goes on from the middle */
	while (live_feed(&s, &live, INT64_MAX / 2))
		;
	assert_true(live.last_seq > 0);
	run_unseen(&s);
	ring_stats(s.session.ring, &stats);
	assert_true(stats.bytes > 4 * RING); /* it did overflow */
	while (live_feed(&s, &live, INT64_MAX / 2))
		;
	assert_int_equal(live.n_lost, 0);
	assert_int_equal(live.last_seq, stats.events);
	assert_int_equal(live.n_requests, REQUESTS);
	assert_int_equal(writer_flush(s.session.writer), 0);
	fold_recording(&replayed, live.last_seq);
	a = timeline_dump(&live);
	b = timeline_dump(&replayed);
	assert_string_equal(a, b);
	free(a);
	free(b);
	timeline_free(&live);
	timeline_free(&replayed);
	assert_int_equal(live_close(&s, NULL), 0);
}

/* Overrun again and again, with a look between: no event comes twice, none is left out. */
static void test_again_and_again(void **state)
{
	struct tui_options o = options(record);
	struct timeline live;
	struct ring_stats stats;
	struct live s;

	(void)state;
	unlink(record);
	timeline_init(&live);
	open_live(&s, &o);
	for (int i = 1; i <= 3; i++) {
		run_unseen(&s);
		while (live_feed(&s, &live, 1)) /* a budget that is used up at once */
			;
		assert_int_equal(live.n_requests, i * REQUESTS);
	}
	ring_stats(s.session.ring, &stats);
	assert_int_equal(live.n_lost, 0);
	assert_int_equal(live.n_odd, 0);
	assert_int_equal(live.last_seq, stats.events);
	timeline_free(&live);
	assert_int_equal(live_close(&s, NULL), 0);
}

static void test_counts_what_is_lost(void **state)
{
	struct tui_options o = options(NULL);
	struct timeline live;
	struct ring_stats stats;
	struct live s;

	(void)state;
	timeline_init(&live);
	open_live(&s, &o);
	run_unseen(&s);
	ring_stats(s.session.ring, &stats);
	while (live_feed(&s, &live, INT64_MAX / 2))
		;
	assert_true(live.n_lost > 0 && live.n_lost < stats.events);
	assert_int_equal(live.last_seq, stats.events);
	timeline_free(&live);
	assert_int_equal(live_close(&s, NULL), 0);
}

/* Closed at once: the opening may be anywhere, and nothing is left of it. */
static void test_closed_while_opening(void **state)
{
	struct tui_options o = options(NULL);

	(void)state;
	for (int i = 0; i < 12; i++) {
		struct live s;

		assert_int_equal(live_open(&s, &o, NULL, NULL), 0);
		usleep((useconds_t)(i * 150));
		assert_int_equal(live_close(&s, NULL), 0);
		assert_true(!s.open_err.code || s.open_err.code == ERR_INTERRUPTED);
	}
}

static int set_up(void **state)
{
	struct tiny_options t = TINY_DEFAULTS;
	int fd;

	(void)state;
	snprintf(record, sizeof record, "/tmp/cutaway-live.XXXXXX");
	fd = mkstemp(record);
	model = tiny_temp(&t, NULL);
	return fd < 0 || close(fd) || !model;
}

static int tear_down(void **state)
{
	char command[160];

	(void)state;
	snprintf(command, sizeof command, "rm -f %s %s-*", record, record);
	unlink(model);
	free(model);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_catches_up),
		cmocka_unit_test(test_again_and_again),
		cmocka_unit_test(test_counts_what_is_lost),
		cmocka_unit_test(test_closed_while_opening),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

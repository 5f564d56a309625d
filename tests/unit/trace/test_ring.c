/* The ring: order, wrap, the writer's hold, viewers that fall behind, and wakes. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/random_event.h"
#include "trace/ring.h"

enum { SIZE = 1 << 14, CAP = 60, BUF = SIZE };

static unsigned char bytes[RANDOM_FIELDS * CAP];

static struct ring *open_ring(size_t size)
{
	struct ring *r;
	struct err e = { 0 };

	assert_int_equal(ring_open(&r, size, &e), 0);
	return r;
}

static struct ring_cursor *open_cursor(struct ring *r, bool holds)
{
	struct ring_cursor *c;
	struct err e = { 0 };

	assert_int_equal(ring_cursor_open(&c, r, holds, &e), 0);
	return c;
}

static void push(struct ring *r, int64_t from, int64_t to)
{
	struct event ev;

	for (int64_t seq = from; seq <= to; seq++) {
		random_event(&ev, seq, bytes, CAP);
		ring_push(r, &ev);
	}
}

static bool is_event(const struct event *ev, int64_t seq)
{
	unsigned char own[RANDOM_FIELDS * CAP]; /* several threads ask */
	struct event want;

	random_event(&want, seq, own, CAP);
	return event_equal(ev, &want);
}

static void test_order_and_wrap(void **state)
{
	struct ring *r = open_ring(SIZE);
	struct ring_cursor *c = open_cursor(r, false);
	unsigned char buf[BUF];
	struct event ev;
	int64_t lost, seq = 1;

	(void)state;
	assert_int_equal(ring_next(c, &ev, buf, BUF, &lost), 0);
	for (int round = 0; round < 2000; round++) {
		push(r, seq, seq + 4);
		for (int i = 0; i < 5; i++, seq++) {
			assert_int_equal(ring_next(c, &ev, buf, BUF, &lost), 1);
			assert_true(is_event(&ev, seq));
		}
		assert_int_equal(ring_next(c, &ev, buf, BUF, &lost), 0);
	}
	assert_true(ring_head(r) > 10 * SIZE);
	assert_int_equal(ring_head(r), ring_cursor_at(c));
	ring_cursor_close(c);
	ring_close(r);
}

static void test_overrun(void **state)
{
	struct ring *r = open_ring(SIZE);
	struct ring_cursor *c, *late;
	unsigned char buf[BUF];
	struct event ev;
	int64_t lost = 0, first;

	(void)state;
	push(r, 1, 10);
	c = open_cursor(r, false);
	push(r, 11, 2000);
	late = open_cursor(r, false);
	assert_int_equal(ring_next(c, &ev, buf, BUF, &lost), -1);
	assert_int_equal(lost, 11); /* the first after it was opened */
	assert_int_equal(ring_next(c, &ev, buf, BUF, &lost), 1);
	first = ev.seq;
	assert_in_range(first, 12, 1999);
	for (int64_t seq = first + 1; seq <= 2000; seq++) {
		assert_int_equal(ring_next(c, &ev, buf, BUF, &lost), 1);
		assert_true(is_event(&ev, seq));
	}
	assert_int_equal(ring_next(c, &ev, buf, BUF, &lost), 0);
	push(r, 2001, 5000);
	assert_int_equal(ring_next(c, &ev, buf, BUF, &lost), -1);
	assert_int_equal(lost, 2001);
	assert_int_equal(ring_next(late, &ev, buf, BUF, &lost), -1);
	assert_int_equal(lost, 2001);
	ring_cursor_close(c);
	ring_cursor_close(late);
	ring_close(r);
}

static void test_large_event(void **state)
{
	static unsigned char big[SIZE], buf[BUF];
	struct ring *r = open_ring(SIZE);
	struct ring_cursor *c = open_cursor(r, false);
	struct ring_stats stats;
	struct event ev;
	int64_t lost;

	(void)state;
	memset(big, 7, sizeof big);
	ev_init(&ev, EV_head);
	ev.seq = 1;
	ev.u.head.layer = 3;
	for (size_t size = SIZE / 2 - 100; size <= SIZE; size += 4) {
		ev.u.head.share = (struct ev_span){ big, size };
		ring_push(r, &ev);
		assert_int_equal(ring_next(c, &ev, buf, BUF, &lost), 1);
		assert_int_equal(ev.u.head.layer, 3);
		if (ev.u.head.share.data) {
			assert_int_equal(ev.u.head.share.size, size);
			assert_memory_equal(ev.u.head.share.data, big, size);
		}
		ring_stats(r, &stats);
		assert_true(!ev.u.head.share.data == (stats.stripped > 0));
		ev.seq++;
	}
	assert_true(stats.stripped > 0 && stats.stripped < stats.events);
	ring_cursor_close(c);
	ring_close(r);
}

static void test_one_hold(void **state)
{
	struct ring *r = open_ring(SIZE);
	struct ring_cursor *c = open_cursor(r, true), *d;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(ring_cursor_open(&d, r, true, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_null(d);
	ring_cursor_release(c);
	d = open_cursor(r, true);
	ring_cursor_close(c);
	ring_cursor_close(d);
	ring_close(r);
}

/* One producer, the writer, and viewers, of which one is slow: the writer gets all, a viewer
 * everything it was not told to have lost, and each event whole. */
enum { N = 40000 };

struct peer {
	struct ring_cursor *c;
	bool holds, slow;
	int64_t got, lost, bad;
	pthread_t thread;
};

static void *produce(void *ring)
{
	unsigned char own[RANDOM_FIELDS * CAP];
	struct event ev;

	for (int64_t seq = 1; seq <= N; seq++) {
		random_event(&ev, seq, own, CAP);
		ring_push(ring, &ev);
	}
	return NULL;
}

static void *consume(void *arg)
{
	struct peer *p = arg;
	unsigned char buf[BUF];
	int64_t last = 0, lost = 0;
	struct event ev;

	while (last < N) {
		int rc = ring_next(p->c, &ev, buf, BUF, &lost);

		if (rc == 0) {
			ring_wait(p->c, 1, 1000);
		} else if (rc < 0) {
			p->bad += lost != last + 1;
			p->lost = 1;
		} else {
			p->bad += !is_event(&ev, ev.seq);
			p->bad += p->lost ? ev.seq <= last : ev.seq != last + 1;
			p->lost = 0;
			p->got++;
			last = ev.seq;
			if (p->slow && ev.seq % 512 == 0)
				usleep(2000);
		}
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct ring *r = open_ring(SIZE);
	struct peer peers[] = { { .holds = true }, { .holds = false }, { .slow = true } };
	struct ring_stats stats;
	pthread_t producer;

	(void)state;
	for (int i = 0; i < 3; i++) {
		peers[i].c = open_cursor(r, peers[i].holds);
		assert_int_equal(pthread_create(&peers[i].thread, NULL, consume, &peers[i]), 0);
	}
	assert_int_equal(pthread_create(&producer, NULL, produce, r), 0);
	pthread_join(producer, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(peers[i].thread, NULL);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(peers[i].bad, 0);
		assert_true(peers[i].got > 0);
		ring_cursor_close(peers[i].c);
	}
	assert_int_equal(peers[0].got, N);
	ring_stats(r, &stats);
	assert_int_equal(stats.events, N);
	ring_close(r);
}

/* A viewer always a hair before the producer, which writes over what it copies: large events in a
 * small ring. None may come out made of two. */
enum { TORN_EVENTS = 300000, TORN_BYTES = 1400 };

static void *produce_large(void *ring)
{
	static unsigned char share[TORN_BYTES];
	struct event ev;

	ev_init(&ev, EV_head);
	for (ev.seq = 1; ev.seq <= TORN_EVENTS; ev.seq++) {
		memset(share, (int)(ev.seq & 255), sizeof share);
		ev.u.head.share = (struct ev_span){ share, sizeof share };
		ring_push(ring, &ev);
	}
	return NULL;
}

static void test_torn(void **state)
{
	struct ring *r = open_ring(4096);
	struct ring_cursor *c = open_cursor(r, false);
	unsigned char buf[BUF];
	struct event ev;
	int64_t lost, last = 0, overruns = 0;
	pthread_t producer;

	(void)state;
	assert_int_equal(pthread_create(&producer, NULL, produce_large, r), 0);
	while (last < TORN_EVENTS) {
		int rc = ring_next(c, &ev, buf, BUF, &lost);

		overruns += rc < 0;
		if (rc <= 0)
			continue;
		const unsigned char *share = ev.u.head.share.data;
		assert_int_equal(ev.u.head.share.size, TORN_BYTES);
		for (int i = 0; i < TORN_BYTES; i++)
			if (share[i] != (ev.seq & 255))
				fail_msg("byte %d of event %lld belongs to another", i, (long long)ev.seq);
		last = ev.seq;
	}
	pthread_join(producer, NULL);
	assert_true(overruns > 0);
	ring_cursor_close(c);
	ring_close(r);
}

/* The producer stands still while the writer holds a full ring, and goes on when it reads or lets
 * go. */
static void test_hold(void **state)
{
	struct ring *r = open_ring(SIZE);
	struct ring_cursor *c = open_cursor(r, true);
	unsigned char buf[BUF];
	struct ring_stats stats;
	struct event ev;
	uint64_t head;
	int64_t lost;
	pthread_t producer;

	(void)state;
	assert_int_equal(pthread_create(&producer, NULL, produce, r), 0);
	ring_wait(c, SIZE, 60000); /* never there: ends because the producer waits */
	head = ring_head(r);
	assert_in_range(head, SIZE / 2, SIZE);
	for (int64_t seq = 1; seq <= 1000; seq++) {
		int rc;

		while (!(rc = ring_next(c, &ev, buf, BUF, &lost)))
			ring_wait(c, 1, 1000);
		assert_int_equal(rc, 1);
		assert_true(is_event(&ev, seq));
	}
	ring_cursor_release(c);
	pthread_join(producer, NULL);
	ring_stats(r, &stats);
	assert_int_equal(stats.events, N);
	assert_true(stats.stalls >= 1 && stats.stall_ns > 0);
	assert_int_equal(ring_next(c, &ev, buf, BUF, &lost), -1); /* a viewer now */
	assert_int_equal(lost, 1001);
	ring_cursor_close(c);
	ring_close(r);
}

static bool readable(struct ring *r, int timeout_ms)
{
	struct pollfd p = { .fd = ring_fd(r), .events = POLLIN };

	return poll(&p, 1, timeout_ms) == 1;
}

/* One wake for a burst; none for a viewer that has not come back to look; none is lost. */
static void test_fd(void **state)
{
	struct ring *r = open_ring(1 << 20);
	struct ring_cursor *c = open_cursor(r, false);
	unsigned char buf[BUF];
	struct event ev;
	uint64_t n;
	int64_t lost;

	(void)state;
	assert_false(readable(r, 0));
	push(r, 1, 500);
	assert_true(readable(r, 60000));
	assert_int_equal(read(ring_fd(r), &n, 8), 8);
	push(r, 501, 600);
	assert_false(readable(r, 20));
	for (int64_t seq = 1; seq <= 600; seq++)
		assert_int_equal(ring_next(c, &ev, buf, BUF, &lost), 1);
	assert_int_equal(ring_next(c, &ev, buf, BUF, &lost), 0); /* from now on it waits */
	assert_false(readable(r, 20));
	push(r, 601, 601);
	assert_true(readable(r, 60000));
	assert_int_equal(read(ring_fd(r), &n, 8), 8);
	assert_false(readable(r, 20));
	ring_cursor_postpone(c); /* it has not looked at event 601 yet */
	assert_true(readable(r, 60000));
	ring_cursor_close(c);
	ring_close(r);
}

static void test_wake(void **state)
{
	struct ring *r = open_ring(SIZE);
	struct ring_cursor *c = open_cursor(r, true);

	(void)state;
	ring_cursor_wake(c);
	ring_wait(c, 1, 60000); /* at once, though the call came before the wait */
	push(r, 1, 1);
	ring_wait(c, 1, 60000);
	ring_wait(c, SIZE / 2, 1); /* not that many: the time-out */
	ring_cursor_close(c);
	ring_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_and_wrap),
		cmocka_unit_test(test_overrun),
		cmocka_unit_test(test_large_event),
		cmocka_unit_test(test_one_hold),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_torn),
		cmocka_unit_test(test_hold),
		cmocka_unit_test(test_fd),
		cmocka_unit_test(test_wake),
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}

/* See ring.h. Positions count bytes since the ring began and never wrap; a word's index in memory
 * is its position modulo the capacity, so an event may lie in two pieces.
 *
 * An event in the ring is one word with its packed size, then its packed bytes, padded to whole
 * words. Invariants, each kept by the producer alone: (1) events in [tail, head) are whole; tail
 * and head are always event boundaries; (2) tail passes an event before any of its words is
 * overwritten; (3) begun equals head, except during a push, when it is the next head.
 *
 * How a viewer copies without a lock (H. Boehm, "Can seqlocks get along with programming language
 * memory models?", MSPC 2012): every word is stored with release order after the new tail and
 * loaded with acquire order. A viewer that copied a word of a later event therefore sees a tail
 * past its own position and discards the copy. On x86 all of these are plain moves.
 *
 * Sleeping: the waiting thread stores a position (wake_at, space_at) and checks once more before it
 * sleeps; the other thread stores its own position and then checks that one. All four are
 * sequentially consistent, so one of the two sees the other (Dekker), and a push costs no lock
 * while nobody sleeps. */
#include "trace/ring.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/wait.h"

#define NOWHERE UINT64_MAX
enum { MIN_BYTES = 4096, LINE = 64, FD_DELAY_NS = 3000000 };

struct ring {
	size_t cap, max_event;  /* bytes */
	_Atomic uint64_t *word; /* [cap / 8] */
	unsigned char *scratch; /* [max_event] the producer's: events are packed here first */
	int fd;

	/* Written by the producer. */
	_Alignas(LINE) _Atomic uint64_t begun;
	_Atomic uint64_t head, tail;
	_Atomic int64_t last_seq; /* seq of the event that ends at head */
	_Atomic int64_t events, stalls, stall_ns, stripped;

	/* Written by the cursors. */
	_Alignas(LINE) _Atomic uint64_t hold;    /* position of the cursor that holds, or NOWHERE */
	_Alignas(LINE) _Atomic uint64_t wake_at; /* a cursor sleeps until head reaches it, or NOWHERE */
	_Atomic uint64_t space_at; /* the producer sleeps until hold reaches it, or NOWHERE */
	_Atomic bool armed;        /* a viewer waits for the fd */

	pthread_mutex_t lock; /* for sleeping only */
	pthread_cond_t come, space;
	bool pressed; /* under lock: the producer waits for the holding cursor */
};

struct ring_cursor {
	struct ring *r;
	uint64_t at;
	int64_t next_seq;
	bool holds;
	bool kicked; /* under r->lock */
};

static void init_sleeping(struct ring *r)
{
	pthread_mutex_init(&r->lock, NULL);
	wait_open(&r->come);
	wait_open(&r->space);
	atomic_init(&r->hold, NOWHERE);
	atomic_init(&r->wake_at, NOWHERE);
	atomic_init(&r->space_at, NOWHERE);
	atomic_init(&r->armed, true);
}

int ring_open(struct ring **out, size_t bytes, struct err *e)
{
	struct ring *r;
	size_t cap = MIN_BYTES;

	*out = NULL;
	while (cap < bytes && cap < SIZE_MAX / 4)
		cap *= 2;
	r = aligned_alloc(LINE, sizeof *r);
	if (!r)
		return err_set(e, ERR_MEMORY, "out of memory for the event ring");
	memset(r, 0, sizeof *r);
	r->cap = cap;
	r->max_event = cap / 2 - 8 < RING_EVENT_MAX ? cap / 2 - 8 : RING_EVENT_MAX;
	init_sleeping(r);
	r->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	r->word = calloc(cap / 8, 8);
	r->scratch = malloc(r->max_event + 8);
	if (r->fd < 0)
		err_set(e, ERR_IO, "no timer for the event ring: %s", strerror(errno));
	else if (!r->word || !r->scratch)
		err_set(e, ERR_MEMORY, "out of memory for an event ring of %zu bytes", cap);
	else {
		*out = r;
		return 0;
	}
	ring_close(r);
	return -1;
}

void ring_close(struct ring *r)
{
	if (!r)
		return;
	assert(atomic_load(&r->hold) == NOWHERE);
	if (r->fd >= 0)
		close(r->fd);
	pthread_cond_destroy(&r->come);
	pthread_cond_destroy(&r->space);
	pthread_mutex_destroy(&r->lock);
	free((void *)r->word);
	free(r->scratch);
	free(r);
}

static _Atomic uint64_t *word_at(const struct ring *r, uint64_t at)
{
	return &r->word[(at & (r->cap - 1)) / 8];
}

static uint64_t record_bytes(uint64_t packed)
{
	return 8 + (packed + 7) / 8 * 8;
}

/* Packs into the scratch buffer. An event that does not fit keeps its seq and loses its spans. */
static size_t pack(struct ring *r, const struct event *ev)
{
	size_t size = ev_pack(ev, r->scratch, r->max_event);

	if (size > r->max_event) {
		struct event bare = *ev;
		char *member = (char *)&bare.u;

		for (int i = 0; i < ev_info[ev->kind].n_fields; i++) {
			enum ev_type type = ev_info[ev->kind].fields[i].type;

			if (type >= EV_TYPE_T)
				*(struct ev_span *)(void *)member = (struct ev_span){ NULL, 0 };
			member += ev_field_size(type);
		}
		size = ev_pack(&bare, r->scratch, r->max_event);
		atomic_fetch_add_explicit(&r->stripped, 1, memory_order_relaxed);
	}
	memset(r->scratch + size, 0, -size & 7);
	return size;
}

/* Sleeps until the holding cursor has left room for [head, end), and a quarter of the ring more:
 * otherwise the two threads would wake each other for every event. */
static void wait_for_room(struct ring *r, uint64_t end)
{
	uint64_t need = end - r->cap, quarter = atomic_load(&r->head) - r->cap / 4 * 3;
	int64_t began;

	if (atomic_load(&r->hold) >= need) /* NOWHERE too */
		return;
	if (need < quarter && quarter <= atomic_load(&r->head))
		need = quarter;
	began = now_ns();
	pthread_mutex_lock(&r->lock);
	for (;;) {
		atomic_store(&r->space_at, need);
		if (atomic_load(&r->hold) >= need)
			break;
		r->pressed = true;
		pthread_cond_broadcast(&r->come);
		pthread_cond_wait(&r->space, &r->lock);
	}
	atomic_store(&r->space_at, NOWHERE);
	r->pressed = false;
	pthread_mutex_unlock(&r->lock);
	atomic_fetch_add_explicit(&r->stalls, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&r->stall_ns, now_ns() - began, memory_order_relaxed);
}

/* Drops the oldest events, as far as [head, end) overwrites them. */
static void drop_oldest(struct ring *r, uint64_t end)
{
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

	while (end - tail > r->cap)
		tail += record_bytes(atomic_load_explicit(word_at(r, tail), memory_order_relaxed));
	atomic_store_explicit(&r->tail, tail, memory_order_release);
}

static void wake_sleepers(struct ring *r)
{
	pthread_mutex_lock(&r->lock);
	atomic_store(&r->wake_at, NOWHERE); /* a cursor that still waits sets it again */
	pthread_cond_broadcast(&r->come);
	pthread_mutex_unlock(&r->lock);
}

static void set_fd(struct ring *r, long ns)
{
	struct itimerspec soon = { .it_value = { 0, ns } };

	timerfd_settime(r->fd, 0, &soon, NULL);
}

void ring_push(void *ring, const struct event *ev)
{
	struct ring *r = ring;
	uint64_t size = pack(r, ev), at = atomic_load_explicit(&r->head, memory_order_relaxed);
	uint64_t end = at + record_bytes(size);

	if (end > r->cap)
		wait_for_room(r, end);
	atomic_store_explicit(&r->begun, end, memory_order_release);
	drop_oldest(r, end);
	atomic_store_explicit(word_at(r, at), size, memory_order_release);
	for (uint64_t i = 0; i < size; i += 8) {
		uint64_t w;

		memcpy(&w, r->scratch + i, 8);
		atomic_store_explicit(word_at(r, at + 8 + i), w, memory_order_release);
	}
	atomic_store_explicit(&r->last_seq, ev->seq, memory_order_release);
	atomic_fetch_add_explicit(&r->events, 1, memory_order_relaxed);
	atomic_store(&r->head, end);
	if (atomic_load(&r->wake_at) <= end)
		wake_sleepers(r);
	if (atomic_load(&r->armed)) {
		atomic_store(&r->armed, false);
		set_fd(r, FD_DELAY_NS);
	}
}

int ring_cursor_open(struct ring_cursor **out, struct ring *r, bool holds, struct err *e)
{
	struct ring_cursor *c = calloc(1, sizeof *c);
	uint64_t none = NOWHERE;

	*out = NULL;
	if (!c)
		return err_set(e, ERR_MEMORY, "out of memory for a cursor of the event ring");
	c->r = r;
	/* begun == head says that no push came between, so last_seq belongs to head. */
	do {
		c->at = atomic_load(&r->head);
		c->next_seq = atomic_load(&r->last_seq) + 1;
	} while (atomic_load(&r->begun) != c->at);
	if (holds && !atomic_compare_exchange_strong(&r->hold, &none, c->at)) {
		free(c);
		return err_set(e, ERR_USAGE, "the session is being recorded already");
	}
	c->holds = holds;
	*out = c;
	return 0;
}

void ring_cursor_release(struct ring_cursor *c)
{
	if (!c->holds)
		return;
	c->holds = false;
	pthread_mutex_lock(&c->r->lock);
	atomic_store(&c->r->hold, NOWHERE);
	pthread_cond_signal(&c->r->space);
	pthread_mutex_unlock(&c->r->lock);
}

void ring_cursor_close(struct ring_cursor *c)
{
	if (!c)
		return;
	ring_cursor_release(c);
	free(c);
}

static int overrun(struct ring_cursor *c, int64_t *lost_from)
{
	c->at = atomic_load_explicit(&c->r->tail, memory_order_acquire);
	*lost_from = c->next_seq;
	return -1;
}

static bool passed(const struct ring_cursor *c)
{
	return atomic_load_explicit(&c->r->tail, memory_order_acquire) > c->at;
}

static void hold_at(struct ring *r, uint64_t at)
{
	atomic_store(&r->hold, at);
	if (atomic_load(&r->space_at) > at)
		return;
	pthread_mutex_lock(&r->lock);
	atomic_store(&r->space_at, NOWHERE);
	pthread_cond_signal(&r->space);
	pthread_mutex_unlock(&r->lock);
}

int ring_next(struct ring_cursor *c, struct event *ev, void *buf, size_t cap, int64_t *lost_from)
{
	struct ring *r = c->r;
	uint64_t size;

	if (atomic_load(&r->head) == c->at) {
		if (c->holds)
			return 0;
		atomic_store(&r->armed, true);
		if (atomic_load(&r->head) == c->at)
			return 0;
	}
	size = atomic_load_explicit(word_at(r, c->at), memory_order_acquire);
	if (passed(c))
		return overrun(c, lost_from);
	assert(size <= r->max_event && size <= cap);
	for (uint64_t i = 0; i < size; i += 8) {
		uint64_t w = atomic_load_explicit(word_at(r, c->at + 8 + i), memory_order_acquire);

		memcpy((char *)buf + i, &w, size - i < 8 ? size - i : 8);
	}
	if (passed(c))
		return overrun(c, lost_from);
	c->at += record_bytes(size);
	if (c->holds)
		hold_at(r, c->at);
	if (ev_unpack(ev, buf, size))
		assert(!"whole events only");
	c->next_seq = ev->seq + 1;
	return 1;
}

void ring_wait(struct ring_cursor *c, size_t bytes, int timeout_ms)
{
	struct ring *r = c->r;
	uint64_t want = c->at + bytes;
	const int64_t until = now_ns() + timeout_ms * INT64_C(1000000);

	pthread_mutex_lock(&r->lock);
	while (!c->kicked && !(c->holds && r->pressed)) {
		if (atomic_load(&r->wake_at) > want)
			atomic_store(&r->wake_at, want);
		if (atomic_load(&r->head) >= want || wait_until(&r->come, &r->lock, until) == ETIMEDOUT)
			break;
	}
	c->kicked = false;
	pthread_mutex_unlock(&r->lock);
}

void ring_cursor_wake(struct ring_cursor *c)
{
	pthread_mutex_lock(&c->r->lock);
	c->kicked = true;
	pthread_cond_broadcast(&c->r->come);
	pthread_mutex_unlock(&c->r->lock);
}

uint64_t ring_head(const struct ring *r)
{
	return atomic_load(&r->head);
}

uint64_t ring_cursor_at(const struct ring_cursor *c)
{
	return c->at;
}

int ring_fd(const struct ring *r)
{
	return r->fd;
}

void ring_cursor_postpone(struct ring_cursor *c)
{
	set_fd(c->r, 1);
}

void ring_stats(const struct ring *r, struct ring_stats *out)
{
	out->capacity = (int64_t)r->cap;
	out->events = atomic_load(&r->events);
	out->bytes = (int64_t)atomic_load(&r->head);
	out->stalls = atomic_load(&r->stalls);
	out->stall_ns = atomic_load(&r->stall_ns);
	out->stripped = atomic_load(&r->stripped);
}

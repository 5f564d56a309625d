/* Carries events from the engine's thread to the others: one producer, a ring buffer of fixed size.
 *
 * Invariants: (1) the producer never waits for a viewer; (2) it waits for the writer only when the
 * ring is full of events not yet written (the log is never lossy), and counts that; (3) a viewer
 * that was overrun learns from which seq on it must catch up (from the log, or with a gap shown).
 * Memory is taken once, at open; a push allocates nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"

struct ring;

/* Largest event accepted, bytes; buffers for ring_next have this size. A ring of less than twice
 * this accepts events of half its own size. One that is larger still keeps its numbers and loses
 * its spans. */
enum { RING_EVENT_MAX = 4 << 20 };
/* Size in a session: seconds of a busy engine, and twice the largest event. */
enum { RING_BYTES = 8 << 20 };

/* bytes: rounded up to a power of two, at least 4096. */
int ring_open(struct ring **r, size_t bytes, struct err *e);
void ring_close(struct ring *r); /* after its cursors */

/* An ev_sink: arg is the ring. One thread at a time pushes; seq grows by one from event to
 * event. */
void ring_push(void *ring, const struct event *ev);

struct ring_cursor;
/* holds: the producer waits for this cursor (the writer's); a ring has one such at most, a second
 * is an error. Both kinds start at the next event pushed. A cursor belongs to one thread. */
int ring_cursor_open(struct ring_cursor **c, struct ring *r, bool holds, struct err *e);
void ring_cursor_close(struct ring_cursor *c);
/* The producer no longer waits for this cursor: a writer whose disk failed must not block the
 * engine. */
void ring_cursor_release(struct ring_cursor *c);

/* Copies the next event to buf. 1: *ev is filled, its spans point into buf; 0: no event yet; -1:
 * the cursor was overrun: *lost_from is the first seq missed, and the cursor stands at the oldest
 * event left. */
int ring_next(struct ring_cursor *c, struct event *ev, void *buf, size_t cap, int64_t *lost_from);
/* Waits until there may be that many bytes of events (1: an event), or the producer waits for this
 * cursor; at most timeout_ms. */
void ring_wait(struct ring_cursor *c, size_t bytes, int timeout_ms);
/* Ends this cursor's current wait, or the next one. Any thread. */
void ring_cursor_wake(struct ring_cursor *c);

/* Positions, in bytes since the ring began: of the end of the newest event (any thread), and of
 * what the cursor's thread reads next. */
uint64_t ring_head(const struct ring *r);
uint64_t ring_cursor_at(const struct ring_cursor *c);

/* An fd for poll() that becomes readable a few ms after an event comes, if a viewer's ring_next had
 * found nothing before it: one wake for a burst. Reading 8 bytes from it clears it. For one
 * poller. */
int ring_fd(const struct ring *r);
/* Makes the fd readable: for a viewer that stops reading before ring_next returned 0. */
void ring_cursor_postpone(struct ring_cursor *c);

struct ring_stats {
	int64_t capacity;         /* bytes */
	int64_t events, bytes;    /* pushed */
	int64_t stalls, stall_ns; /* waits of the producer for the writer */
	int64_t stripped;         /* events too large: kept without their spans */
};
void ring_stats(const struct ring *r, struct ring_stats *out); /* any thread */

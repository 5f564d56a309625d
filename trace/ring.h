/* The way of events from the engine's thread to the others: one producer, a fixed ring of bytes.
 *
 * Invariants: (1) the producer never waits for a viewer; (2) it waits for the writer only when the ring is
 * full of events not yet written (the log is never lossy), and counts that; (3) a viewer that fell behind
 * learns from which seq on it must catch up (from the log, or with a gap shown).
 * Memory is taken once, at open; a push allocates nothing. */
#ifndef CUTAWAY_TRACE_RING_H
#define CUTAWAY_TRACE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/event.h"

struct ring;

int ring_open(struct ring **r, size_t bytes, struct err *e);
void ring_close(struct ring *r);

/* An ev_sink: arg is the ring. */
void ring_push(void *ring, const struct event *ev);

struct ring_cursor;
/* holds: the producer waits for this cursor (the writer's). Both kinds start at the next event pushed. */
int ring_cursor_open(struct ring_cursor **c, struct ring *r, bool holds, struct err *e);
void ring_cursor_close(struct ring_cursor *c);
/* A writer whose disk failed gives up its hold, so that the chat goes on. */
void ring_cursor_release(struct ring_cursor *c);

/* Copies the next event to buf. 1: *ev is filled, its spans point into buf; 0: nothing there yet; -1: the
 * cursor was overrun: *lost_from is the first seq missed, and the cursor stands at the oldest event left. */
int ring_next(struct ring_cursor *c, struct event *ev, void *buf, size_t cap, int64_t *lost_from);
/* Waits until something may be there, at most timeout_ms. Any thread but the producer. */
void ring_wait(struct ring_cursor *c, int timeout_ms);
/* An fd that becomes readable when events come (eventfd), for poll(); the reader of it clears it. */
int ring_fd(const struct ring *r);

/* Largest event accepted, bytes; buffers for ring_next have this size. */
enum { RING_EVENT_MAX = 4 << 20 };

#endif

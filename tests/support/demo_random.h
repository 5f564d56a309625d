/* Events of every kind with random fields: many make sense, many do not. For tests that nothing
 * crashes. */
#pragma once

#include "event/event.h"

struct demo_random {
	uint64_t state; /* the seed */
	int64_t seq, step, n_requests;
	unsigned char bytes[4096]; /* the spans of the newest event point in here */
	size_t used;
};

/* The first event of a seed is a session that makes sense. */
void demo_random_event(struct demo_random *d, struct event *ev);

/* The clock that all durations are measured with. Thread: any. */
#ifndef CUTAWAY_BASE_CLOCK_H
#define CUTAWAY_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since some moment before the program began; never goes back, is not the time of day. */
static inline int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif

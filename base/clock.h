/* The clock that all durations are measured with. Thread: any. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline int64_t timespec_ns(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Nanoseconds since some moment before the program began; never goes back, is not the time of
 * day. */
static inline int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return timespec_ns(t);
}

/* Nanoseconds since 1970 UTC, as the machine's clock has it: for the start of a session alone. */
static inline int64_t unix_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return timespec_ns(t);
}

/* Ticks of a counter of constant rate, for many short times within one measured by now_ns():
 * reading it costs a third of that. On x86 the time-stamp counter, else now_ns(); not the same on
 * all processors of some old machines. */
static inline uint64_t now_ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return (uint64_t)now_ns();
#endif
}

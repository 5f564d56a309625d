/* Waiting for a condition until a time of the clock that durations are measured with. Thread: any.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <time.h>

static inline void wait_open(pthread_cond_t *cond)
{
	pthread_condattr_t clock;

	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &clock);
	pthread_condattr_destroy(&clock);
}

/* ns: of now_ns(). Returns what pthread_cond_timedwait() does. */
static inline int wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ns)
{
	const struct timespec until = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	return pthread_cond_timedwait(cond, lock, &until);
}

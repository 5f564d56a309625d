/* How long the threads of the kernels were ready to run and had no processor, because the system
 * gave it to others: the scheduling delay that a busy machine adds to a step, and that no time of
 * the kernels shows.
 *
 * Linux counts it for each thread (/proc/self/task/ID/schedstat, second number: "time spent waiting
 * on a runqueue", Documentation/scheduler/sched-stats.rst). A thread's own processor time would not
 * do: a thread that waits for another one sleeps, which is no loss; and involuntary switches are
 * counted, not timed. Reading costs 7 us a thread when a step has just run weights through all
 * caches (0.7 us in a loop), so it is done after steps that were slow, and else so seldom that it
 * takes 0.03 % of the time.
 *
 * Thread: the one that steps the engine, and only that one; it may be another one later. Nothing is
 * allocated. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum { WAITS_MOST = 64 }; /* threads; with more, nothing is reported */

/* Zeroed: nothing was read yet. */
struct waits {
	bool opened;
	pthread_t by; /* thread 0 of the kernels: its caller */
	int n;        /* files that are open; 0: the system does not report it */
	int fd[WAITS_MOST];
	int64_t had[WAITS_MOST];    /* last value read of each */
	int64_t asked_ns, left_ns;  /* time of that read; end of the last step */
	int64_t begun_ns, usual_ns; /* of this step; what steps take that are not slow */
};

void waits_close(struct waits *w);

/* Before a step: the scheduling delay between steps is no part of it. */
void waits_begin(struct waits *w);
/* After it: the longest that one thread was ready and had no processor since the last report, ns;
 * EV_NULL_I: not read this time, or not known. */
int64_t waits_ask(struct waits *w, const struct k_ctx *kernels);

/* For one thread of this process, by its Linux thread ID: its file, or -1; the delay since the
 * thread began, or -1. */
int waits_open(int thread);
int64_t waits_of(int fd);

/* How long the threads of the kernels were ready to run and had no processor, because the system
 * gave it to others: what a busy machine takes from a step, and no time of the kernels tells.
 *
 * Linux counts it for each thread (/proc/self/task/ID/schedstat, second number: "time spent waiting
 * on a runqueue", Documentation/scheduler/sched-stats.rst). A thread's own processor time would not
 * do: who waits for another thread sleeps, which is no loss; and involuntary switches are counted,
 * not timed. Asking costs 0.7 us a thread, so it is done so often that it takes 0.15 % of the time
 * at most: with two threads after every step that takes a millisecond.
 *
 * Thread: whoever steps the engine, and only that one; it may be another later. Nothing is
 * allocated. */
#ifndef CUTAWAY_ENGINE_WAITS_H
#define CUTAWAY_ENGINE_WAITS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum { WAITS_MOST = 64 }; /* threads; of more it tells nothing */

/* Zeroed: nothing was asked yet. */
struct waits {
	bool opened;
	pthread_t by; /* thread 0 of the kernels: its caller */
	int n;        /* files that are open; 0: the system does not tell */
	int fd[WAITS_MOST];
	int64_t had[WAITS_MOST];   /* what each told last */
	int64_t asked_ns, left_ns; /* when that was; end of the last step */
};

void waits_close(struct waits *w);

/* Before a step: the scheduling delay between steps is no part of it. */
void waits_begin(struct waits *w);
/* After it: the longest that one thread was ready and had no processor since it was told last, ns;
 * EV_NULL_I: not asked now, or not known. */
int64_t waits_ask(struct waits *w, const struct k_ctx *kernels);

/* Of one thread of this process, by Linux's number: its file, or -1; what it tells since the thread
 * began, or -1. */
int waits_open(int thread);
int64_t waits_of(int fd);

#endif

/* What the timeline (timeline.h) keeps of traffic: latencies, who waits, whose requests waited, and
 * targets. Thread: as the timeline's. */
#ifndef CUTAWAY_FOLD_TL_TRAFFIC_H
#define CUTAWAY_FOLD_TL_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include "event/event.h"

/* Latencies, by the field's names; docs/trace.md defines them. */
enum tl_latency { TL_QUEUE, TL_TTFT, TL_ITL, TL_E2E, TL_N_LATENCIES };
struct tl_latencies { /* of one request, ns; NaN: not known (yet) */
	double queue, ttft, itl_p50, itl_p99, tpot, e2e;
};
/* Who waits, as the newest event `queue` has it. */
struct tl_queue {
	int64_t seq, step; /* 0: there was none */
	int32_t waiting, n;
	struct ev_queued order[EV_QUEUE_MOST]; /* [n], the first in the policy's order first */
};
/* Requests with one user, or of one priority class, over the session; the last of TL_GROUPS has all
 * for whom there was no room. Waits are those of the admitted ones, until their first slot. */
enum { TL_GROUPS = 12 };
struct tl_group {
	int64_t seq; /* of its first request, from whose event `user` and `priority` are */
	char *user;  /* NULL: nobody's */
	int64_t priority;
	int64_t arrived, admitted;
	int64_t ns, most_ns, steps, most_steps; /* waited: sums, and the longest */
};
/* Requests that ended by themselves since the target was set, by whether they met it. */
struct tl_slo {
	int64_t ended, met, late, slow; /* late: TTFT missed, slow: ITL p99 missed; may be both */
	int64_t since_ns, last_ns;      /* arrival of the first that counts; end of the newest; 0 */
};
/* A busy period: one request or another was there without a break. */
enum { TL_RUNS = 4, TL_STAYS = 256 };
struct tl_run {
	int64_t first, last;    /* its steps; last 0: none has ended yet */
	int64_t steps, members; /* members: requests in them, each once a step */
	int32_t requests, live, preempted;
	char policy[24]; /* when it began */
};
/* A request in a slot, by steps: the first, that of its first token, the last; EV_NULL_I: not yet.
 */
struct tl_stay {
	int64_t request, from, read, to;
	int32_t slot;
	bool lost; /* it was preempted */
};
struct tl_preempt {
	int64_t step;
	struct ev_preempt p;
};
/* The targets in force, ns; 0: none. */
struct tl_target {
	double ttft, itl;
};
/* What of it the latencies miss; what is not known (yet) misses nothing. */
struct tl_missed {
	bool ttft, itl;
};

#endif

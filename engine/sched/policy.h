/* Scheduling policies: one file each in engine/sched/policy/, and one line in the table
 * (policy_table.c).
 *
 * The scheduler is mechanism: slots, queue, pages, events. It asks its policy four questions, in
 * terms of ranks, so that a policy keeps no state and holds no list. What a policy answers decides
 * when a row is computed and never what: logits are a function of the tokens (certify has policies
 * as an axis). A rank depends on requests, pages and cache, not on a clock, so that whatif repeats
 * it.
 *
 * What no policy can change: newest tokens get their rows before prompts do; of the requests that
 * run only those admitted later give up pages for another one, so the oldest always ends; and while
 * nothing runs the first in order is admitted. Thread: the engine's. */
#ifndef CUTAWAY_ENGINE_SCHED_POLICY_H
#define CUTAWAY_ENGINE_SCHED_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct request;
struct sched;

struct sched_need {    /* pages of one memory group, for all tokens of a request and the next */
	int32_t own;       /* of the request to admit: those that it does not find in the cache */
	int32_t running;   /* of all that run: those that they do not have yet */
	int32_t available; /* free, or kept by the cache alone */
};

struct sched_policy {
	const char *name, *doc;
	/* Of the requests that wait the least goes first; among equals the first in the queue, which is
	 * in order of arrival, with what was preempted at its head. */
	int64_t (*admission)(const struct sched *s, const struct request *r);
	/* May it take a free slot? Asked for each memory group; if it may not, nobody does in this
	 * step. */
	bool (*admits)(const struct sched *s, const struct request *r, const struct sched_need *need);
	/* Which prompts share first in what the newest tokens leave of the budget: the least; among
	 * equals the one admitted first. */
	int64_t (*prompt)(const struct sched *s, const struct request *r);
	/* Of those that may be preempted the greatest is; among equals the youngest. */
	int64_t (*victim)(const struct sched *s, const struct request *r);
};

/* The table; ends with NULL. The first is the default. */
extern const struct sched_policy *const sched_policies[];
/* NULL if there is none of this name; the error lists those that there are. */
/* The name of policy i; NULL: there are no more. */
const char *sched_policy_name(int i);
const struct sched_policy *sched_policy_find(const char *name, struct err *e);

#endif

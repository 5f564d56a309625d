/* Scheduling policies: one file each in engine/sched/policy/, and one line in the table
 * (policy_table.c).
 *
 * The scheduler is mechanism: slots, queue, pages, events. A policy is a few functions, of which
 * those that are NULL are as usual, and a turn; three functions return ranks, so that a policy
 * keeps no state and no list. They decide when a row is computed and never its value: logits are a
 * function of the tokens (certify has policies as an axis). A rank depends on requests, pages,
 * cache and counted steps and tokens, not on a clock, so that whatif reproduces it: a
 * deadline is a number of steps from the arrival.
 *
 * What no policy can change: of the requests that run only those admitted later give up pages for
 * another one, so the oldest always finishes; a preempted request may come back at any time; and
 * while nothing runs the first in order is admitted. Thread: the engine's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct request;
struct sched;

struct sched_need {    /* pages of one memory group, for all tokens of a request and the next */
	int32_t own;       /* of the request to admit: those that the cache lacks */
	int32_t running;   /* of all that run: those that they still lack */
	int32_t available; /* free, or held by the cache alone */
};

/* Whose rows a step computes. */
enum sched_turn {
	/* newest tokens, then with what they leave of the budget prompts, each at most `chunk` rows */
	SCHED_TOGETHER,
	/* while a prompt can be computed only prompts, whole if the budget allows: decoding pauses */
	SCHED_PROMPTS_ALONE,
	SCHED_NEWEST_ALONE, /* while a request decodes no prompt has a row */
};

struct sched_policy {
	const char *name, *doc;
	/* For `why`: what the rank of admission is ("tokens of its prompt to compute"), NULL where all
	 * are equal; and what those that wait wait for while the policy is not open ("the batch that
	 * runs to end"), NULL if it always is. */
	const char *rank_is, *closed_until;
	enum sched_turn turn;
	/* Whether this step may admit requests that never ran. Asked once a step, while one runs. NULL:
	 * always. */
	bool (*opens)(const struct sched *s);
	/* The waiting request of the lowest rank goes first; among equals the first in the queue, which
	 * is in order of arrival, with preempted requests at its head. NULL: all are equal. */
	int64_t (*admission)(const struct sched *s, const struct request *r);
	/* Whether r may take a free slot. Called for each memory group; if it may not, no request is
	 * admitted in this step. NULL: if it reaches the end of its prompt without preemption. */
	bool (*admits)(const struct sched *s, const struct request *r, const struct sched_need *need);
	/* Prompts get what the newest tokens leave of the budget in ascending rank; among equals in
	 * order of admission. NULL: all are equal. */
	int64_t (*prompt)(const struct sched *s, const struct request *r);
	/* Of the requests that may be preempted, the highest rank is; among equals the youngest. NULL:
	 * all are equal. */
	int64_t (*victim)(const struct sched *s, const struct request *r);
};

/* The table; ends with NULL. The first is the default. */
extern const struct sched_policy *const sched_policies[];
/* The name of policy i; NULL: there are no more. */
const char *sched_policy_name(int i);
/* NULL if there is none of this name; the error lists those that there are. */
const struct sched_policy *sched_policy_find(const char *name, struct err *e);

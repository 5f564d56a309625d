/* Replicas behind a router, in simulated time.
 *
 * Discrete events in order of time: the end of a step, an arrival, pages that have come, the next
 * step's plan; those of one moment in that order, and by number. So a request that is due when a
 * step ends takes part in the next one, as in the engine, and all is a function of the options:
 * one thread computes it, and there is no clock. A replica plans when a step begins and gives what
 * it drew when the step ends (cost.h says when that is).
 *
 * With --prefill-ranks each replica has ranks for its prompts (prompts.h). Thread: the caller's. */
#pragma once

#include "engine/core/engine.h"
#include "load/tally.h"
#include "load/workload.h"
#include "sessions/whatif/cost_ranks.h"

/* Where requests come from. */
struct fleet_source {
	void *arg;
	double (*when)(void *arg); /* the next one arrives; INFINITY: none, or none before another ends
								*/
	/* Takes it. *ids: n_prompt + n_output tokens, malloc'd, the fleet's. */
	int (*next)(void *arg, struct arrival *out, int32_t **ids, struct err *e);
	void (*ended)(void *arg, const struct arrival *a, double now_s); /* or NULL */
};

struct fleet_options {
	const struct engine_options *engine; /* of each replica: the group Scheduler, ctx, prefill ranks
										  */
	const struct cost *cost;
	struct cost_ranks ranks; /* of each replica; cost_ranks_check() passed */
	int32_t replicas;
	double bandwidth; /* bytes a second of a prefill rank's link */
	const char *router;
	uint64_t seed; /* the router's */
	/* latencies count from when the engine took a request in, between two steps, as its log has
	 * them; else from when it was due */
	bool as_logged;
	bool (*progress)(void *arg, const struct tally *t, double now_s); /* false: stop. Or NULL */
	void *arg;
};

struct fleet_counts {
	int64_t steps, rows, preempted;
	double busy_s;                     /* all steps */
	double exchange_s, bubble_s, sent; /* of these: see struct cost_ranks_step */
	int64_t moved_bytes;               /* from prefill ranks */
	double now_s;                      /* when the newest event was */
	bool stopped;                      /* by progress */
};

/* Runs until the source ends; tallies into *t, which the caller opened. */
int fleet_run(const struct fleet_options *o, const struct fleet_source *source, struct tally *t,
	struct fleet_counts *out, struct err *e);

/* An engine without a model: the engine's own scheduler, pages and prefix cache, step by step, with
 * tokens that are known beforehand. What a step costs is the caller's (cost.h), and so is the time:
 * here it is counted in steps. Thread: the caller's; replicas share nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/sched/sched.h"
#include "sessions/whatif/cost.h"

struct replica {
	struct memory memory;
	struct prefix prefix;
	struct stream stream; /* of events; nobody listens unless the caller adds a sink */
	struct sched sched;
	struct plan plan;         /* of the newest step */
	int32_t ctx;              /* longest sequence, tokens */
	int64_t n_requests, step; /* submitted, numbered from 1; the newest step */
	/* In a step: it is planned, and nothing was computed yet. Then, in the order of the plan: r has
	 * one token more; r ends by itself (starved: no page is left for it) and is freed after the
	 * call. */
	void (*planned)(void *arg);
	void (*drawn)(void *arg, struct request *r);
	void (*ended)(void *arg, struct request *r);
	void *arg;
};

/* The settings of the group Scheduler, and ctx; specs: what a token keeps. Callbacks and sinks are
 * the caller's to set. */
int replica_open(struct replica *p, const struct engine_options *o,
	const struct memory_specs *specs, struct err *e);
void replica_close(struct replica *p);

/* q->ids are the prompt and, from n_ids on, the max_tokens tokens that will be drawn. data becomes
 * its owner_data. 1; 0: it can never fit, and nothing was submitted; -1: no memory. */
int replica_submit(struct replica *p, const struct engine_request *q, void *data, struct err *e);
bool replica_idle(const struct replica *p);
/* One step. No rows: nothing was computed, and no time passed. */
struct step_shape replica_step(struct replica *p);

/* cutaway simulate: a load on a fleet of replicas (fleet.h), and a recording's requests simulated
 * and compared with what was measured. Thread: the caller's. */
#pragma once

#include "sessions/history/history.h"
#include "load/load.h"
#include "simulate/fleet.h"

struct simulation {
	struct fleet_options fleet;   /* engine: see below */
	struct engine_options engine; /* of a replica; ctx 0: 8192 */
	struct load_options load;     /* the load and its tally; not read by simulate_against() */
	struct load_point point;      /* the result; the caller closes its tally */
	struct fleet_counts counts;
	double wall_s; /* that it took */
};

int simulate_run(struct simulation *s, struct err *e);

/* The same for requests from elsewhere; o: of the tally. */
int simulate_fleet(struct simulation *s, const struct fleet_source *source,
	const struct tally_options *o, struct err *e);

/* What a recording measured. */
struct measured {
	struct history *history;
	struct engine_options engine; /* its settings of the group Scheduler, ctx, and its ranks */
	struct fleet_counts counts;   /* steps, rows and busy_s */
	struct load_point point;
	int n_memories;      /* memory groups of its model */
	struct asked *asked; /* [n] in order of arrival */
	int64_t n, cap;
};
int measured_read(struct measured *m, const char *path, struct err *e);
void measured_close(struct measured *m);
/* Replays its arrivals, prompts and lengths. Takes of s the cost, the router and the replicas; its
 * settings are the caller's to take from m->engine. */
int simulate_against(struct simulation *s, const struct measured *m, struct err *e);

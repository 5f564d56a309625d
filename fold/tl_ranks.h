/* Ranks in the timeline, when a model is computed by several (docs/parallel.md): see timeline.h. */
#ifndef CUTAWAY_FOLD_TL_RANKS_H
#define CUTAWAY_FOLD_TL_RANKS_H

#include <stdint.h>

#include "event/event.h"

/* lane: times of one step; shares are of the newest TL_SHARE steps. */
enum { TL_MOST_RANKS = 64, TL_LANE = 256, TL_SHARE = 64, TL_HANDOVERS = 16 };

/* What a rank did in so many steps, which computed so many rows. What is absent is 0; a sum stops
 * at TL_INT_MAX. */
struct tl_traffic {
	int64_t rank, steps, rows;
	int64_t watched; /* of the steps: they send more (forward.h, n_observed) */
	int64_t compute_ns, exchange_ns, slowed_ns; /* exchange_ns has slowed_ns in it */
	int64_t exchanges, sent, received, control; /* bytes; control has both ways */
};

struct tl_rank {
	struct ev_rank has; /* spans are not valid: texts below. What it has no number of is 0 */
	char isa[16], transport[16], host[64];
	struct tl_traffic sum; /* of all steps that have ended */
	/* ns of computing and exchanging by turns, in the newest step that told them; when it began,
	 * after rank 0 (EV_NULL_I: not known) */
	int64_t lane_step, lane_start_ns; /* step 0: no lane */
	uint32_t *lane;
	int32_t n_lane, cap_lane;
};

/* How ranks share a model, by what they have: those that have the same part of the same layers
 * share the rows. It begins with { 1, 1, 1, 1 }: one rank. */
struct tl_split {
	int32_t ranks, tensor, pipeline, sequence;
};
void tl_split_add(struct tl_split *s, const struct ev_rank *r); /* in the order of their numbers */

/* A prompt that a prefill rank computed. What it has no number of is 0, and a time EV_NULL_I. */
struct tl_handover {
	struct ev_handover e; /* its span is not valid: */
	char why[64];
};

#endif

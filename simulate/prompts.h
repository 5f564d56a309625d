/* Ranks of a replica that compute its prompts, in simulated time: what engine/core/handover.c does.
 *
 * The replica's own scheduler says which prompts these are, and keeps a request that is away in its
 * slot with its pages. Each rank has a queue: one prompt after the other, chunk by chunk; what a
 * chunk stored is the replica's when it ends, and the newest token's row is never among it. Not
 * simulated: pages of the prefix cache that a rank is given first. Thread: the caller's. */
#pragma once

#include "engine/core/engine.h"
#include "engine/sched/sched.h"
#include "sessions/whatif/cost.h"

struct prompt_rank {
	struct prompts *of;
	int32_t number;         /* from 0 */
	struct prompt_job *job; /* the first one runs */
};

struct prompts {
	struct prompt_rank *rank;
	int32_t n, chunk; /* ranks; rows of a chunk at most */
	struct sched *sched;
	/* The caller's, set before prompts_open(): a chunk of this shape begins now; when it ends,
	 * prompts_chunk_ended() is to be called, which begins the next. */
	void (*begins)(void *arg, struct prompt_rank *p, const struct step_shape *shape);
	void *arg;
};

/* As many as --prefill-ranks says, none too; s hands prompts over to them from now on. *p does not
 * move. Closed after s. */
int prompts_open(struct prompts *p, const struct engine_options *o, struct sched *s, struct err *e);
void prompts_close(struct prompts *p);

void prompts_chunk_ended(struct prompt_rank *p);
bool prompts_run(const struct prompts *p); /* a chunk is under way */

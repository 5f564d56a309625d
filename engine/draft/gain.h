/* What guesses must be worth: the rows that check them and the passes that make them take time, in
 * which other tokens could have been drawn. Prices are in tokens, so that they compare with
 * probabilities, and follow what steps cost here (draft_cost.h), or one is set by hand.
 *
 * A node that brings w tokens and costs a share c of a plain step pays off if w > c * speed, where
 * speed is what a plain step's time brings already (Dinkelbach 1967 on ratios). Thread: the
 * engine's. */
#ifndef CUTAWAY_ENGINE_DRAFT_GAIN_H
#define CUTAWAY_ENGINE_DRAFT_GAIN_H

#include "engine/draft/draft.h"
#include "engine/draft/draft_cost.h"

struct gain {
	const struct draft_cost *cost; /* NULL: set by hand */
	/* the least worth of a node that is proposed; of one that gets children */
	float least, deeper;
	double rows[DRAFT_NODES + 1]; /* of so many nodes */
	double pass;
	double pass_ns;       /* of a pass, of late */
	double tokens, steps; /* what guesses were to bring, of late, and took, in plain steps */
	int32_t n_passes;     /* since gain_begin() */
};

/* Before guesses for these jobs, of at most so many nodes each. */
void gain_begin(struct gain *w, const struct draft_job *job, int32_t n, int32_t nodes);
/* A pass for all of them began then, by draft_cost_now(). */
void gain_pass(struct gain *w, int64_t start);
/* How many of n nodes, worthiest first, are to be proposed. */
int32_t gain_choose(struct gain *w, const float *of, int32_t n);

#endif

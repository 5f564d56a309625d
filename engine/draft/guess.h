/* From a row of a drafter's logits to guesses, best first.
 *
 * Greedy guesses are the likeliest ids. At a temperature they are those that arrive first in the
 * target's own race: the drafter's logits with the target's random numbers (docs/arithmetic.md,
 * rule 15), which agree more often than independent draws would. Under modified rejection they are
 * drawn independently (PURPOSE_DRAFT) and without replacement, with their distribution. Thread: the
 * engine's. Nothing is allocated after opening. */
#pragma once

#include "engine/draft/file.h"

struct draft_guess {
	int32_t id;
	float p; /* the drafter's probability of it */
	/* the drafter's estimate of the probability that the target draws it */
	float confidence;
	const float *dense; /* see struct draft */
};

struct guesser {
	const struct draft_head *head;
	struct sampler *sampler;
	float *wide;      /* [vocab] a row by true ids; ids that the head lacks stay -inf */
	int32_t *history; /* [ctx + DRAFT_MAX] */
	float *dense;     /* [2 * slots * DRAFT_MAX, vocab]; untouched memory costs nothing */
	int32_t vocab, n_dense, most_dense;
};

int guesser_open(
	struct guesser *g, const struct draft_head *head, const struct draft_env *env, struct err *e);
void guesser_close(struct guesser *g);
/* Drops the distributions of earlier guesses: called at the start of each propose(). */
void guesser_begin(struct guesser *g);

/* At most `fan` (up to SAMPLE_CANDIDATES) guesses of what follows job->ids and the tokens of path
 * [depth]; path NULL: they are not known. Returns how many; 0 also if the logits are NaN. */
int32_t guess_row(struct guesser *g, const struct draft_job *job, const int32_t *path,
	int32_t depth, const float *logits, const struct k_logit_stats *stats, int32_t fan,
	struct draft_guess *out);

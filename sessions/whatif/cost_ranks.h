/* What a step costs that several ranks compute (docs/parallel.md), from the prices of one rank.
 *
 * Work is what the rank with the most of it does: products by their outputs, attention by its
 * heads, as engine/ranks splits them; what is neither, every rank does. Exchanges are those of the
 * formula (fold/formulas_exchange.h), each so long as the link needs, and as it was measured.
 * Stages of a pipeline work on one micro-batch after the other (Huang et al. 2019, "GPipe").
 * Thread: any; no state. */
#pragma once

#include "base/link.h"
#include "fold/formulas_exchange.h"
#include "sessions/whatif/cost.h"

/* As the settings of these names say. */
struct cost_ranks {
	int32_t tensor, pipeline, sequence; /* 1: not split so */
	int32_t micro_batches;              /* 0: twice the stages */
	enum formula_form form;
	struct link_speed link; /* {0}: none said, so as measured */
};

/* Takes over what steps of tensor parallelism say: what exchanges cost, and how much of a step
 * ranks can share, since two ranks took so much less for these steps than one would. The prices are
 * those of one rank. ERR_INPUT: there is nothing to take over. */
int cost_ranks_calibrate(struct cost *c, const struct cost_rows *rows, struct err *e);

/* ERR_USAGE: these prices do not tell it, or such ranks are none. */
int cost_ranks_check(const struct cost *c, const struct cost_ranks *k, struct err *e);
int32_t cost_ranks_number(const struct cost_ranks *k);

struct cost_ranks_step {
	double s;          /* all of it */
	double exchange_s; /* of that, in exchanges, on the rank that exchanges most */
	double bubble_s;   /* of that, what a stage waits for others on average */
	double sent;       /* bytes, by all ranks together */
};
struct cost_ranks_step cost_ranks_step(
	const struct cost *c, const struct cost_ranks *k, const struct step_shape *s);

/* What a step costs by its rows: c(K). A drafter pays off if the tokens it yields are worth the
 * rows that verify them, so every prediction and every choice of k or of a tree's size uses this
 * table.
 *
 * It is measured, by dummy steps: K rows of one made-up sequence in scratch pages, K = 1 … 17 and
 * then coarser to 64, each the fastest of a few rounds, and no more than a larger one (interference
 * only adds time, so the minimum of runs is the closest). Real steps cannot give the table: with
 * drafts off they have one row, and with a drafter on only its numbers of rows. But they correct
 * it: the ratio of their time to the table's is kept (drift), and so is the time outside of the
 * kernels. Attention grows with depth, which two further points measure, after 256 tokens or as
 * many as fit.
 *
 * With counted_cost the table is given instead, and replaces the clock. A step takes the table's
 * time for its rows, a drafter's pass that of its rows times the share of the step's weights that
 * it reads. Then every choice depends on the tokens alone, for tests, proofs and comparisons that
 * no other load can disturb. Thread: the engine's. Measuring takes half a second on the model and
 * machine of docs/speculation.md. */
#pragma once

#include "engine/draft/draft.h"
#include "engine/run/forward.h"
#include "engine/memory/memory.h"

enum { DRAFT_COST_ROWS = 1 + DRAFT_NODES, DRAFT_COST_POINTS = 32 };

struct draft_cost_point { /* as measured */
	int32_t rows, depth, runs;
	double ns;
};

struct draft_cost {
	int32_t rows; /* up to which it was measured; 0: not */
	int32_t n;
	struct draft_cost_point point[DRAFT_COST_POINTS];
	/* by rows from 1, kernels alone, at almost no depth; linear between points */
	double ns[DRAFT_COST_ROWS + 1];
	/* ns more, for each position in the cache: of a step, of each of its rows */
	double step_depth, row_depth;
	/* kernels of real steps against the table; 1 before there were any */
	double drift;
	double token_ns; /* of real steps: outside of the kernels, per token; 0 before any */
	bool counted;
	double weight_bytes; /* with counted_cost: of a step of the model */
	double clock_ns;     /* with counted_cost: time so far */
};

/* Fills in the table by measuring steps of up to so many rows: beyond, the last slope goes on. The
 * scratch pages must be unused. Fails only as k_run() does. */
int draft_cost_measure(struct draft_cost *c, int32_t rows, struct forward *f, struct memory *memory,
	int32_t ctx, struct err *e);
/* Fills in the table from ns[1] … ns[DRAFT_COST_ROWS]. */
void draft_cost_count(
	struct draft_cost *c, const double ns[DRAFT_COST_ROWS + 1], double weight_bytes);
/* The clock by which drafters are compared, in nanoseconds; c may be NULL. */
int64_t draft_cost_now(const struct draft_cost *c);
/* Counts a drafter's pass; c may be NULL. */
void draft_cost_pass(struct draft_cost *c, const struct k_program *p);

/* Corrects the table by a real step: its kernels' time, and its whole time without the drafters. */
void draft_cost_note(
	struct draft_cost *c, int32_t rows, double depth, double kernel_ns, double ns, int32_t tokens);
/* Predicted kernel time of a step; rows may be a fraction, or more than 64 (then by the last
 * slope). 0 if nothing was measured. */
double draft_cost_ns(const struct draft_cost *c, double rows, double depth);

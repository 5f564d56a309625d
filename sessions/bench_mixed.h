/* A mixed session: the prompts of all kinds by turns, answered with one drafter after the other. Does `auto` reach
 * what the best fixed drafter does?
 *
 * Time is counted from what rows cost (engine_options.counted_cost), so what is compared are decisions: the same
 * on every run. The wall clock is told beside it. Thread: any one; it opens an engine of its own. */
#ifndef CUTAWAY_SESSIONS_BENCH_MIXED_H
#define CUTAWAY_SESSIONS_BENCH_MIXED_H

#include "base/err.h"
#include "engine/draft_cost.h"
#include "engine/engine.h"

enum { BENCH_MIXED = 17 };

struct bench_mixed_line {
	char spec[64];
	double steps, tokens; /* behind the prompts */
	double counted_ns, ns;
	double predicted; /* speed against plain decoding that shadow mode says, beside plain decoding; NaN: it says none */
};
struct bench_mixed {
	int n, prompts; /* the first line is plain decoding */
	struct bench_mixed_line line[BENCH_MIXED];
};

/* cost[K]: nanoseconds of a step of K rows. tokens: of an answer, at most. tell may be NULL. */
int bench_mixed_run(const struct engine_options *o, const char *const *spec, int n_specs,
					const double cost[DRAFT_COST_ROWS + 1], int32_t tokens, void (*tell)(void *arg, const char *what),
					void *arg, struct bench_mixed *out, struct err *e);
/* Of auto's line: the counted time of the best other, of its own (1.05: faster by a twentieth); NaN: one is missing. */
double bench_mixed_auto(const struct bench_mixed *m, const struct bench_mixed_line **best);

#endif

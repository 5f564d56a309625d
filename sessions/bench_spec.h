/* bench --spec: every drafter on every kind of prompt: tokens a step, what is accepted how far ahead, wall clock against
 * plain decoding, and what shadow mode had predicted.
 *
 * The prompts are those of demos/kinds.txt. Each is answered greedily, plainly with all drafters in the shadow (which is
 * what predictions are made of), and then for each drafter twice, plainly and with it, next to each other: speeds are of
 * such pairs, over the steps behind the prompt. A drafter that changes the text is an error. Events are counted, not
 * recorded. Thread: any one; it opens and closes an engine of its own, and no other may run beside it. */
#ifndef CUTAWAY_SESSIONS_BENCH_SPEC_H
#define CUTAWAY_SESSIONS_BENCH_SPEC_H

#include "base/err.h"
#include "engine/draft.h"
#include "engine/engine.h"
#include "sessions/bench_mixed.h"
#include "sessions/bench_prompts.h"

enum { BENCH_SPECS = 16, BENCH_SPEC_TOKENS = 64 };

struct bench_spec_line {
	char spec[64], kind[16];
	int pairs;
	double steps, tokens; /* of the steps behind the prompts */
	double judged[DRAFT_MAX], accepted[DRAFT_MAX];
	double speed, low, high; /* against plain decoding: median of the pairs, and a tenth beyond each (all, if under ten) */
	double whole;            /* plain time of all pairs, of that with it */
	double steady;           /* the same with each step as long as the median of those with as many rows */
	double predicted;        /* of the kind as a whole; NaN: it cannot be predicted */
};

struct bench_spec {
	struct engine_info info; /* its pointers are not valid */
	char isa[32];
	double plain_tok_s;
	int n_rows; /* cost[K - 1]: c(K)/c(1), by pairs */
	int32_t rows[8];
	double cost[8];
	int n;
	struct bench_spec_line line[BENCH_SPECS * (BENCH_KINDS + 1)]; /* kind "all": all of them together */
	struct bench_mixed mixed; /* n 0: it needs two drafters at least */
};

/* list: "" or "all", or drafters joined by "+"; tokens: of an answer, at most. tell may be NULL. */
int bench_spec_run(const struct engine_options *o, const char *list, int32_t tokens,
				   void (*tell)(void *arg, const char *what), void *arg, struct bench_spec *out, struct err *e);

#endif

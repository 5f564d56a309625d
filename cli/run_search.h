/* cutaway run --best-of, --beam, --mcts: one answer out of several. Thread: main's. */
#ifndef CUTAWAY_CLI_RUN_SEARCH_H
#define CUTAWAY_CLI_RUN_SEARCH_H

#include <stdatomic.h>

#include "cli/cli.h"

struct run_options {                           /* what run alone is asked */
	const char *batch;                         /* a file of prompts */
	const char *best_of, *beam, *mcts, *score; /* searches, and the command that scores answers */
};

bool run_search_wanted(const struct run_options *r);
/* Room for the branches of a beam, if no number of slots was said. */
void run_search_slots(const struct run_options *r, struct cli *c);
/* Prints the best answer, with --json all of them; what the search did goes to standard error. */
int run_search(const struct cli *c, const struct run_options *r, struct engine *engine,
	const struct engine_request *q, const atomic_bool *interrupted, struct err *e);

#endif

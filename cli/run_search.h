/* cutaway run --best-of, --beam, --mcts: searches for the best answer. Thread: main's. */
#ifndef CUTAWAY_CLI_RUN_SEARCH_H
#define CUTAWAY_CLI_RUN_SEARCH_H

#include <stdatomic.h>

#include "cli/cli.h"

struct run_options {                           /* options of run alone */
	const char *batch;                         /* a file of prompts */
	const char *best_of, *beam, *mcts, *score; /* searches, and the command that scores answers */
};

bool run_search_wanted(const struct run_options *r);
/* Sets the slots to the branches of a beam, if --slots was not given. */
void run_search_slots(const struct run_options *r, struct cli *c);
/* Prints the best answer, with --json all of them; statistics of the search go to standard
 * error. */
int run_search(const struct cli *c, const struct run_options *r, struct engine *engine,
	const struct engine_request *q, const atomic_bool *interrupted, struct err *e);

#endif

/* cutaway run: what is not one answer to one prompt. Ctrl-C (cli/interrupt.h) is looked for between
 * steps. Thread: main's. */
#pragma once

#include "cli/cli.h"

struct run_options {                           /* options of run alone */
	const char *batch;                         /* a file of prompts */
	const char *best_of, *beam, *mcts, *score; /* searches, and the command that scores answers */
};

/* Answers every line of the file at path ("-": standard input; empty lines are skipped), and prints
 * a line of JSON for each as it ends. -1 with the error; what was printed stays true. */
int batch_run(const struct cli *c, const char *path, struct err *e);

/* Sets the slots to the branches of a beam, if --slots was not given. */
void run_search_slots(const struct run_options *r, struct cli *c);
/* --best-of, --beam, --mcts: searches, and prints the best answer, with --json all of them;
 * statistics of the search go to standard error. */
int run_search(const struct cli *c, const struct run_options *r, struct engine *engine,
	const struct engine_request *q, struct err *e);

/* The program as one of several processes: those that mpirun started, or that --ranks starts. Rank
 * 0 runs the verb, the others follow its engines (engine/core/engine_follow.h) and print nothing.
 * Thread: main's. */
#ifndef CUTAWAY_CLI_RANKS_H
#define CUTAWAY_CLI_RANKS_H

#include "cli/cli.h"

/* Where others were started with this process: joins them. True: this is not rank 0; all is over,
 * and e has its exit status. */
bool ranks_follow(struct err *e);
/* After the command line was read: starts the others that --ranks asks for, or sets it to how many
 * there are. */
int ranks_begin(struct cli *c, struct err *e);

#endif

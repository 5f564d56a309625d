/* cutaway run --batch. Thread: main's. */
#ifndef CUTAWAY_CLI_BATCH_H
#define CUTAWAY_CLI_BATCH_H

#include <stdatomic.h>

#include "base/err.h"
#include "cli/cli.h"

/* Answers every line of the file at path ("-": standard input; empty lines are skipped), and prints
 * a line of JSON for each as it ends. -1 with the error; what was printed stays true. interrupted
 * is checked between steps. */
int batch_run(const struct cli *c, const char *path, const atomic_bool *interrupted, struct err *e);

#endif

/* A command that judges a text: the text is its standard input, the first number of its output the score.
 * Thread: any; one call at a time runs the command and waits for it. */
#ifndef CUTAWAY_CLI_SCORE_COMMAND_H
#define CUTAWAY_CLI_SCORE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* A search_score_fn (engine/search.h); arg is the command, run by the shell. */
bool score_command(void *arg, const char *text, size_t size, double *score, struct err *e);

#endif

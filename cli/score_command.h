/* A command that judges a text: the text is its standard input, the first number of its output the score.
 * Thread: any; one call at a time runs the command and waits for it. */
#ifndef CUTAWAY_CLI_SCORE_COMMAND_H
#define CUTAWAY_CLI_SCORE_COMMAND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct score_command {
	const char *command; /* run by the shell, in a process group of its own */
	const atomic_bool *interrupted; /* ends it when it becomes true; may be NULL */
};
/* A search_score_fn (engine/search.h); arg is a struct score_command. It may take its time; what it started and left
 * behind is not waited for. */
bool score_command(void *arg, const char *text, size_t size, double *score, struct err *e);

#endif

/* A command that scores a text: the text is its standard input, the first number of its output the
 * score. It runs beside whoever asks, who looks again until it has ended. Thread: any, one at a
 * time. */
#ifndef CUTAWAY_SESSIONS_SCORE_COMMAND_H
#define CUTAWAY_SESSIONS_SCORE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/search/search.h"

enum { SCORE_SAID = 4096 }; /* of the output that is looked at */

struct score_command {
	const char *command; /* run by the shell, in a process group of its own */
	bool quiet; /* what it says of errors is told with the error; else it goes where ours goes */
	/* its own, zero at first */
	pid_t pid; /* 0: it does not run */
	int out, errors;
	size_t n;
	char said[SCORE_SAID];
};
/* A search_score_fn; arg is a struct score_command. What the command started and left running is
 * not waited for, but ended with it, or when its answer is not wanted any more. */
enum score_verdict score_command(
	void *arg, const char *text, size_t size, int wait_ms, double *score, struct err *e);

#endif

/* A command that scores a text: the text is its standard input, the first number of its output the
 * score. It runs asynchronously: the caller polls until it has ended. Thread: any, one at a
 * time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/search/search.h"

enum { SCORE_OUTPUT = 4096 }; /* bytes of output that are kept */

struct score_command {
	const char *command; /* run by the shell, in a process group of its own */
	bool quiet;          /* its standard error becomes part of the error; else it goes to ours */
	/* internal, zero at first */
	pid_t pid; /* 0: not running */
	int out, errors;
	size_t n;
	char output[SCORE_OUTPUT];
};
/* A search_score_fn; arg is a struct score_command. Processes that the command left running are
 * killed when it ends, or when its answer is no longer wanted. */
enum score_verdict score_command(
	void *arg, const char *text, size_t size, int wait_ms, double *score, struct err *e);

/* Why did it happen? Answers from a recording alone: law 4, the log records decisions. No model is
 * loaded and nothing is computed again but sums over the log's rows.
 *
 * The file may come from anywhere and is only read (trace/foreign.h); it may be one that is still
 * being written. Thread: any one. */
#ifndef CUTAWAY_SESSIONS_WHY_H
#define CUTAWAY_SESSIONS_WHY_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

struct why;

struct why_kind {
	const char *name;
	const char *where; /* what may follow: "REQUEST", "REQUEST:POS", … */
	const char *doc;   /* the question; what is meant without WHERE */
};
extern const struct why_kind why_kinds[]; /* ends with name NULL */

int why_open(struct why **w, const char *path, struct err *e);
void why_close(struct why *w); /* NULL is fine */

/* The step at which the recording is viewed: what is asked without WHERE lies there or before, and
 * what a position names twice (a request went back) is what it was there. */
struct why_here {
	int64_t seq;  /* of the newest event that is seen */
	int64_t step; /* the step; 0: before the first */
};

/* Writes the answer as lines of plain text, the answer itself first and its evidence below. what: a
 * name of why_kinds or a unique beginning. where: NULL or "" for what is most worth asking. here:
 * NULL for the whole file. ERR_USAGE if what or where make no sense, with what would; that the log
 * has nothing of the kind is an answer. */
int why_ask(struct why *w, const char *what, const char *where, const struct why_here *here,
	FILE *out, struct err *e);

#endif

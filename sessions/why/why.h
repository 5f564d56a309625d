/* Answers why something happened, from a recording alone (law 4: the log records decisions). No
 * model is loaded; only sums over the log's rows are computed.
 *
 * The file may be untrusted and is only read (trace/foreign.h); it may be one that is still being
 * written. Thread: any one. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

struct why;

struct why_kind {
	const char *name;
	const char *where; /* what may follow: "REQUEST", "REQUEST:POS", … */
	const char *doc;   /* the question, and the default of WHERE */
};
extern const struct why_kind why_kinds[]; /* ends with name NULL */

int why_open(struct why **w, const char *path, struct err *e);
void why_close(struct why *w); /* NULL is fine */

/* The step at which the recording is viewed: a question without WHERE is about this step or an
 * earlier one, and a position that occurs twice (after a rewind) means the token it had then. */
struct why_here {
	int64_t seq;  /* of the newest event that is visible */
	int64_t step; /* the step; 0: before the first */
};

/* Writes the answer as lines of plain text, the answer itself first and its evidence below. what: a
 * name of why_kinds or a unique beginning. where: NULL or "" for the most interesting one. here:
 * NULL for the whole file. ERR_USAGE if what or where make no sense, listing what would; "the log
 * has none" is an answer, not an error. */
int why_find(struct why *w, const char *what, const char *where, const struct why_here *here,
	FILE *out, struct err *e);

/* Inside sessions/lesson/: what recordings of a lesson have of its questions. The recordings are
 * foreign: texts are clean for a terminal (base/text.h), and numbers may be anything. Thread: any;
 * no state. */
#ifndef CUTAWAY_SESSIONS_LESSON_ANSWERS_H
#define CUTAWAY_SESSIONS_LESSON_ANSWERS_H

#include <stdint.h>

#include "base/err.h"

/* Of all recordings, as a table compares each with each; likewise marks of a recording. */
enum { ANSWERS_MOST = 10000 };

struct answer {
	char *lesson, *question; /* never NULL */
	char *predicted, *found; /* NULL: nothing was predicted; was measured */
	char reader[64];         /* the name that was given, or else that of the recording */
	int64_t part;            /* of the lesson, from 0 */
	int64_t ask, verdict;    /* enum ev_code_ask, enum ev_code_answer_verdict */
	double value, measured;  /* NaN: not a number */
	double tolerance;        /* share of what was measured; NaN: none is meant */
};
struct answers { /* all zero: none */
	struct answer *at;
	int32_t n, cap;
};

/* Adds those of a recording: of each question the newest, in the order in which they were given.
 * ERR_INPUT: no recording, or more than ANSWERS_MOST; ERR_MEMORY. Free them in any case. */
int answers_read(struct answers *a, const char *path, struct err *e);
void answers_free(struct answers *a);

#endif

/* Inside sessions/lesson/: what recordings of a lesson have of its questions. The recordings are
 * foreign: texts are clean for a terminal (base/text.h), and numbers may be anything. Thread: any;
 * no state. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/* Of all recordings, as a table compares each with each; likewise marks of a recording. */
enum { ANSWERS_MOST = 10000 };

struct answer {
	char *lesson, *question; /* never NULL */
	char *predicted, *found; /* NULL: nothing was predicted; was measured */
	int32_t recording;       /* of those that were read, from 0 */
	char reader[64];         /* the name that was given, or else that of the recording */
	int64_t part;            /* of the lesson, from 0 */
	int64_t ask, verdict;    /* enum ev_code_ask, enum ev_code_answer_verdict */
	double value, measured;  /* NaN: not a number */
	double tolerance;        /* share of what was measured; NaN: none is meant */
};
struct answers { /* all zero: none */
	struct answer *at;
	int32_t n, cap, n_read;
};

/* Adds those of a recording: of each question the newest, in the order in which they were given.
 * ERR_INPUT: no recording, or more than ANSWERS_MOST; ERR_MEMORY. Free them in any case. */
int answers_read(struct answers *a, const char *path, struct err *e);
void answers_free(struct answers *a);

/* ---- of a question: all answers to the one that `like` answers ---- */

bool answers_same(const struct answer *a, const struct answer *b);
struct spread {
	double least, median, most;
	int n;
};
/* Of the predictions, or of what was measured; those that are numbers. */
struct spread answers_spread(const struct answers *a, const struct answer *like, bool measured);
/* How many predicted, or checked; right: how many of them were right. */
int answers_count(const struct answers *a, const struct answer *like, bool right);

/* Writes the page of a class, lesson_html.c: complete, or no file. */
int answers_html(const struct answers *a, const char *file, struct err *e);

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

/* ---- by lesson and question ---- */

/* An answer, and the first ones of its lesson and of its question, by which they are numbered;
 * part: of that question where it was met first, as versions of a lesson differ. */
struct answered {
	const struct answer *a;
	int32_t lesson, question;
	int64_t part;
};
/* All of them: of a question by what was predicted, least first; who predicted nothing comes last.
 * malloc'd; NULL: no memory. */
struct answered *answers_sorted(const struct answers *a);
int answers_order(const void *x, const void *y); /* theirs, for qsort() */
/* How many of the first are of one lesson, or even of one question. */
int32_t answers_run(const struct answered *c, int32_t n, bool question);

struct spread {
	double least, median, most;
	int n;
};
/* Of the predictions of a question, or of what was measured; those that are numbers. */
struct spread answers_spread(const struct answered *c, int32_t n, bool measured);
/* How many predicted, or checked; right: how many of them were right. */
int answers_count(const struct answered *c, int32_t n, bool right);

/* Writes the page of a class, lesson_html.c: complete, or no file. Sorts them otherwise. */
int answers_html(struct answered *c, int32_t n, const char *file, struct err *e);

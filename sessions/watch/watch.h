/* Expressions over what a step has logged: breakpoints, searches and watches. An expression is SQL,
 * as in a WHERE clause: `entropy > 3`, `rejected > 0 AND text = ' Paris'`, `max(p_draw, 0.1) <
 * 0.2`.
 *
 * Columns are those of the table `step` (one value a step), those of `token` (a step that drew
 * several tokens is looked at once for each; one that drew none has NULL there), and a few counts
 * of what else happened since the step before. watch_columns lists them all.
 *
 * A set is fed every event; at the end of a step each expression has a value, in about a
 * microsecond: it is compiled once, over a virtual table that hands out the columns it asks for.
 * Nothing else can be read by an expression, and nothing written. Thread: any one at a time; a set
 * allocates only while it is fed new texts of tokens. */
#ifndef CUTAWAY_SESSIONS_WATCH_H
#define CUTAWAY_SESSIONS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"

struct watch_column {
	const char *name, *unit, *doc;
};
/* n-th column, or NULL after the last. */
const struct watch_column *watch_column(int n);
bool watch_is_of_step(int n); /* and not of a token */
/* Refuses what adds up numbers of the step, which stand in the row of each of its tokens. where:
 * see watch_add. */
int watch_check_sums(const char *expr, int *where, struct err *e);

/* The column of the nearest name, at most two letters away, or NULL. */
const char *watch_nearest(const char *name);

enum { WATCH_MAX = 16, WATCH_EXPR = 256 };

struct watch_set;

int watch_open(struct watch_set **s, struct err *e);
void watch_close(struct watch_set *s); /* NULL is fine */

/* Returns its number, from 0. ERR_USAGE says what is wrong with the expression; *where (may be
 * NULL) is the byte of it that is meant, or -1. */
int watch_add(struct watch_set *s, const char *expr, int *where, struct err *e);
bool watch_remove(struct watch_set *s, int n);
const char *watch_expr(const struct watch_set *s, int n); /* NULL: there is none of this number */

/* True if this event ended a step: the following are then about that step. */
bool watch_feed(struct watch_set *s, const struct event *ev);
/* Learns all texts of a recording at once: for a set that is fed from its middle. */
int watch_texts(struct watch_set *s, const char *path, struct err *e);
/* Does it hold for the step, or for any of its tokens? */
bool watch_holds(const struct watch_set *s, int n);
/* The value as a number, of the last token of the step; NaN: NULL, or no number. */
double watch_value(const struct watch_set *s, int n);
/* Its values of the step that ended last, as SQL writes them: one for each token, or one. */
struct watch_value_text {
	const char *text; /* "NULL" if there is none */
	size_t size;
	bool is_text;
};
void watch_each(
	struct watch_set *s, int n, void (*fn)(void *arg, const struct watch_value_text *v), void *arg);
/* Why an expression that compiled has no value (a function that failed); "" if it has one. */
const char *watch_trouble(const struct watch_set *s, int n);

/* The first step after (back: before) step `from` of a recording for which expr holds; -1 if there
 * is none, -2 with the error. progress (may be NULL) is told steps seen; false stops
 * (ERR_INTERRUPTED). */
int64_t watch_find(const char *path, const char *expr, int64_t from, bool back,
	bool (*progress)(void *arg, int64_t step), void *arg, struct err *e);

/* What an expression gives for a step of a recording, a value for each of its tokens that differ;
 * "": all columns, one a line. *say is malloc'd; *where as in watch_add. 0 or -1. */
int watch_print(
	const char *path, const char *expr, int64_t step, char **say, int *where, struct err *e);

#endif

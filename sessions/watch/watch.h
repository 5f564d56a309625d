/* Expressions over the events of a step: breakpoints, searches and watches. An expression is SQL,
 * as in a WHERE clause: `entropy > 3`, `rejected > 0 AND text = ' Paris'`, `max(p_draw, 0.1) <
 * 0.2`.
 *
 * Columns are those of the table `step` (one value a step), those of `token` (a step that drew
 * several tokens is evaluated once for each; one that drew none has NULL there), and a few counts
 * of other events since the previous step. watch_columns lists them all.
 *
 * A set is fed every event; at the end of a step each expression has a value, in about a
 * microsecond: it is compiled once, over a virtual table that computes only the columns it uses.
 * Nothing else can be read by an expression, and nothing written. Thread: any one at a time; a set
 * allocates only when it is fed new texts of tokens. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"

struct watch_column {
	const char *name, *unit, *doc;
};
/* n-th column, or NULL after the last. */
const struct watch_column *watch_column(int n);
bool watch_is_of_step(int n); /* of the step, not of a token */
/* Refuses sums over columns of the step, which are repeated in the row of each of its tokens.
 * where: see watch_add. */
int watch_check_sums(const char *expr, int *where, struct err *e);

/* The column of the nearest name, at most two letters away, or NULL. */
const char *watch_nearest(const char *name);

enum { WATCH_MAX = 16, WATCH_EXPR = 256 };

struct watch_set;

int watch_open(struct watch_set **s, struct err *e);
void watch_close(struct watch_set *s); /* NULL is fine */

/* Returns its number, from 0. ERR_USAGE says what is wrong with the expression; *where (may be
 * NULL) is the offset of the error in it, or -1. */
int watch_add(struct watch_set *s, const char *expr, int *where, struct err *e);
bool watch_remove(struct watch_set *s, int n);
const char *watch_expr(const struct watch_set *s, int n); /* NULL: there is none of this number */

/* True if this event ended a step: the functions below then refer to that step. */
bool watch_feed(struct watch_set *s, const struct event *ev);
/* Reads all token texts of a recording at once: for a set that is fed from its middle. */
int watch_texts(struct watch_set *s, const char *path, struct err *e);
/* Is the expression true for the step, or for any of its tokens? */
bool watch_holds(const struct watch_set *s, int n);
/* The step, and the first of its tokens for which the expression is true. request 0: no token of
 * its own, since the expression names no column of tokens, or sums over all. */
struct watch_hit {
	int64_t step, request, pos;
};
struct watch_hit watch_hit(const struct watch_set *s, int n);
/* The value as a number, of the last token of the step; NaN: NULL, or no number. */
double watch_value(const struct watch_set *s, int n);
/* The expression's values for the step that ended last, as SQL text: one for each token, or one. */
struct watch_value_text {
	const char *text; /* "NULL" if there is none */
	size_t size;
	bool is_text;
};
void watch_each(
	struct watch_set *s, int n, void (*fn)(void *arg, const struct watch_value_text *v), void *arg);
/* Why an expression that compiled has no value (a function that failed); "" if it has one. */
const char *watch_trouble(const struct watch_set *s, int n);

/* The first step after (back: before) step `from` of a recording for which expr is true: 1; 0 if
 * there is none, -1 with the error. progress (may be NULL) gets the number of steps read; false
 * stops (ERR_INTERRUPTED). */
int watch_find(const char *path, const char *expr, int64_t from, bool back,
	bool (*progress)(void *arg, int64_t step), void *arg, struct watch_hit *hit, struct err *e);

/* The values of an expression for a step of a recording, one per token unless all are equal; "":
 * all columns, one a line. *say is malloc'd; *where as in watch_add. 0 or -1. */
int watch_print(
	const char *path, const char *expr, int64_t step, char **say, int *where, struct err *e);

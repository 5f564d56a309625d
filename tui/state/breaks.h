/* Breakpoints, watches and searches: SQL expressions over the steps of a session
 * (sessions/watch/watch.h), numbered as in a debugger. The same in chat and replay, which feed in
 * the events. If a breakpoint is true for a step, `stop` is called on the thread that fed it, so
 * that in a chat the engine pauses right after that step.
 *
 * Threads: breaks_feed on one (the engine's in a chat, the UI's in a replay), everything else on
 * the UI's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"
#include "sessions/watch/watch.h"

enum { BREAKS_VALUES = 256, BREAKS_NAME = 20 };

struct breaks;

int breaks_open(struct breaks **b, struct err *e);
void breaks_close(struct breaks *b); /* also ends a search; NULL is fine */
/* Before events come. */
void breaks_on_stop(struct breaks *b, void (*stop)(void *arg), void *arg);
/* An ev_sink. Costs next to nothing while there is no expression. */
void breaks_feed(void *breaks, const struct event *ev);

/* "" lists, "off" or "off 2" removes, anything else adds: an expression, for a watch "NAME EXPR".
 * BREAKS_ONCE can only be added, and is removed when it has stopped. *say gets the list, or what
 * was done (malloc'd; NULL: no memory). */
enum breaks_kind { BREAKS_BREAK, BREAKS_ONCE, BREAKS_WATCH };
int breaks_command(
	struct breaks *b, enum breaks_kind kind, const char *text, char **say, struct err *e);
bool breaks_any(struct breaks *b); /* are there breakpoints or watches? */

/* Sets the error of an expression, with the offending part between marks. Returns -1. */
int breaks_point_out(const char *expr, int where, struct err *found, struct err *e);

/* Where a breakpoint was true since the last call, and which; step 0: none. */
struct watch_hit breaks_stopped(struct breaks *b, char *why, size_t cap);

/* The n-th watch, for drawing: its values by step, oldest first. False: there is none. */
struct breaks_series {
	char name[BREAKS_NAME], expr[64];
	int64_t step[BREAKS_VALUES];
	float value[BREAKS_VALUES]; /* NaN: NULL, or no number */
	int n;
};
bool breaks_series(struct breaks *b, int n, struct breaks_series *out);

/* Searches a recording on a thread of its own, from a step on; "" repeats the last expression,
 * "break" is any breakpoint. */
int breaks_find(
	struct breaks *b, const char *path, const char *expr, int64_t from, bool back, struct err *e);
enum breaks_search { SEARCH_NONE, SEARCH_RUNS, SEARCH_FOUND, SEARCH_NOTHING, SEARCH_FAILED };
/* RUNS: at->step is where it is. FOUND, NOTHING and FAILED are returned once. */
enum breaks_search breaks_found(struct breaks *b, struct watch_hit *at, struct err *e);
bool breaks_searching(struct breaks *b);
void breaks_stop_search(struct breaks *b);
const char *breaks_searched(const struct breaks *b); /* the last expression, or "" */

/* In a replay: brings the values up to a step of the file that the player went to. Reads forwards,
 * or again from some steps before. */
void breaks_follow(struct breaks *b, const char *path, int64_t step);

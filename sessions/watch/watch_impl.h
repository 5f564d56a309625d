/* Inside sessions/watch*.c: the state of a set after a step, and the virtual table `now` over
 * it. */
#pragma once

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "trace/query.h"
#include "event/texts.h"
#include "sessions/watch/watch.h"

enum { WATCH_ROWS = 256 };

/* Counts of other events since the previous step, besides the columns of step and token. */
#define EXTRA(X)                                                                                   \
	X(arrived, "", "requests that arrived since the step before")                                  \
	X(admitted, "", "requests that took a slot")                                                   \
	X(preempted, "", "requests that lost their pages")                                             \
	X(finished, "", "requests that ended")                                                         \
	X(cancelled, "", "requests that the user stopped")                                             \
	X(rewound, "", "requests that went back")                                                      \
	X(asked, "", "prompt tokens asked of the prefix cache")                                        \
	X(hit, "", "of them found there")                                                              \
	X(copied, "", "pages copied before a write")

enum extra {
#define X(name, unit, doc) EXTRA_##name,
	EXTRA(X)
#undef X
		N_EXTRAS
};

struct watch {
	char expr[WATCH_EXPR];
	sqlite3_stmt *stmt;
	bool holds, of_token; /* it names a column of tokens */
	int row;              /* of the first token for which it holds, or -1 */
	double value;
	char trouble[80];
};

struct watch_set {
	sqlite3 *db;
	struct watch watch[WATCH_MAX];
	struct ev_step step;
	struct ev_token token[WATCH_ROWS];
	int n_tokens;
	bool ended;                               /* the tokens are those of the step that ended last */
	int64_t extra[N_EXTRAS], shown[N_EXTRAS]; /* in progress; those of the step that ended */
	struct ev_texts texts;
	struct watch *compiling; /* or NULL */
	struct query_bound bound;
};

extern const sqlite3_module watch_table; /* its client data is the set */
void watch_make_columns(void);           /* before a set is made; once is enough */

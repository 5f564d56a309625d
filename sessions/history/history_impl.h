/* Inside sessions/history/ alone. */
#ifndef CUTAWAY_SESSIONS_HISTORY_IMPL_H
#define CUTAWAY_SESSIONS_HISTORY_IMPL_H

#include <sqlite3.h>

#include "sessions/history/history.h"
#include "trace/foreign.h"

/* NULL: there is none of that number. */
struct history_request *history_request_find(struct history *h, int64_t number);
/* Fills an empty history from its open file. -1 with the error; then close it. */
int history_load(struct history *h, const struct foreign *f, struct err *e);
/* NULL with the error (e may be NULL). */
sqlite3_stmt *history_prepare(struct history *h, const char *sql, struct err *e);
int history_by_id(const void *a, const void *b); /* order of pieces */

#endif

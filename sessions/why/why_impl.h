/* Inside sessions/why/: an open recording, and helpers to query it. */
#ifndef CUTAWAY_SESSIONS_WHY_IMPL_H
#define CUTAWAY_SESSIONS_WHY_IMPL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <sqlite3.h>

#include "base/err.h"
#include "event/event.h"
#include "sessions/history/history.h"
#include "sessions/why/why.h"

/* WHERE as read: -1 where nothing was given. */
struct why_place {
	int64_t number; /* REQUEST, PAGE or STEP */
	int64_t pos;    /* of REQUEST:POS, or of POS alone */
	bool given;
};

struct why {
	sqlite3 *db;
	char *path;
	struct history *history; /* of the question in progress, if it asks for tokens */
	struct err *e;           /* error of the question in progress */
	FILE *out;
	struct why_place at;
	int64_t until; /* seq; see struct why_here */
	int64_t step;  /* the step in view; 0: none */
};

typedef void why_fn(struct why *w);
why_fn why_miss, why_evict, why_preempt, why_wait, why_reject, why_token, why_slow, why_price;
why_fn why_gap; /* slow, of a token */

/* Prepares sql with up to four integers for ?1 … ?4 (n of them); ?9 is w->until. NULL, and the
 * error, if that fails. */
sqlite3_stmt *why_query(
	struct why *w, const char *sql, int n, int64_t a, int64_t b, int64_t c, int64_t d);
/* The next row? Finalises the statement when there is none. NULL is fine. */
bool why_row(struct why *w, sqlite3_stmt **s);
void why_done(sqlite3_stmt **s);
/* The first n integers of the first row (NULL: -1) into *to[i]; false: there is no row. Finalises
 * it. */
bool why_read(struct why *w, sqlite3_stmt *s, int n, int64_t *const *to);
/* The first value of the first row, or `none`. */
int64_t why_int(
	struct why *w, int64_t none, const char *sql, int n, int64_t a, int64_t b, int64_t c);
bool why_is_null(sqlite3_stmt *s, int column);

/* " up to here", if the question is about a part of the file. */
const char *why_so_far(const struct why *w);
/* One line, as printf. */
void why_say(struct why *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The text of a token in quotes, clean for a terminal; in `out`, which is returned. */
const char *why_text(struct why *w, int64_t id, char *out, size_t cap);

/* All tokens that a request had before event `seq`: prompt, then generated. malloc'd, or NULL; *n
 * may be 0. */
int32_t *why_tokens(struct why *w, int64_t request, int64_t seq, int32_t *n);
/* The page size in force at event `seq`. */
int64_t why_page_size(struct why *w, int64_t seq);
/* The step in which event `seq` fell; that of the next step row. */
int64_t why_step_of(struct why *w, int64_t seq);

#endif

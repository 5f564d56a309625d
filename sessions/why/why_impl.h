/* Inside sessions/why/: an open recording, and helpers to query it. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "base/text.h"
#include "event/event.h"
#include "sessions/history/history.h"
#include "sessions/why/why.h"

/* WHERE as read: -1 where nothing was given. */
struct why_place {
	long long number; /* REQUEST, PAGE or STEP */
	long long pos;    /* of REQUEST:POS, or of POS alone */
	bool given;
};

struct why {
	struct reader *reader;
	sqlite3 *db; /* the reader's */
	char *path;
	struct history *history; /* of the question in progress, if it asks for tokens */
	struct err *e;           /* error of the question in progress */
	FILE *out;
	struct why_place at;
	long long until; /* seq; see struct why_here */
	long long step;  /* the step in view; 0: none */
};

typedef void why_fn(struct why *w);
why_fn why_miss, why_evict, why_preempt, why_wait, why_reject, why_token, why_slow, why_price;
why_fn why_route;
/* What was drafted beside this step; request 0: for all. */
void why_ahead(struct why *w, long long step, long long request);
why_fn why_gap; /* slow, of a token */
/* Of a step of several ranks: says who waited for whom. Returns rank 0's ns in exchanges; 0: there
 * were none. */
long long why_ranks(struct why *w, long long step, long long step_ns);

/* Numbers are of SQLite's type here, which printf's %lld takes. */
#define WHY_VALUES(...)                                                                            \
	(const long long[]){ 0, ##__VA_ARGS__ }, sizeof((long long[]){ 0, ##__VA_ARGS__ }) / 8
/* Prepares sql (schema_sql) with integers for ?1, ?2 …; ?9 is w->until. NULL, and the error, if
 * that fails. */
#define why_query(w, sql, ...) why_query_n(w, sql, WHY_VALUES(__VA_ARGS__))
sqlite3_stmt *why_query_n(struct why *w, const char *sql, const long long *value, size_t n);
/* The event of a kind with this seq; false: there is none. Its spans live until the next of the
 * kind. */
bool why_event(struct why *w, enum ev_kind kind, long long seq, struct event *ev);
/* The next row? Finalises the statement when there is none. NULL is fine. */
bool why_row(struct why *w, sqlite3_stmt **s);
void why_done(sqlite3_stmt **s);
/* The first n integers of the first row (NULL: -1) into *to[i]; false: there is no row. Finalises
 * it. */
bool why_read(struct why *w, sqlite3_stmt *s, int n, long long *const *to);
/* The first value of the first row, or `none`. */
#define why_int(w, none, sql, ...) why_int_n(w, none, sql, WHY_VALUES(__VA_ARGS__))
long long why_int_n(
	struct why *w, long long none, const char *sql, const long long *value, size_t n);
bool why_is_null(sqlite3_stmt *s, int column);

/* " up to here", if the question is about a part of the file. */
const char *why_so_far(const struct why *w);
/* One line, as printf. */
void why_say(struct why *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A text of the file, which may be anyone's, clean for a terminal, with its lines or in one; in
 * `out`, which is returned. */
const char *why_clean(struct ev_span text, bool lines, const char *none, char *out, size_t cap);
/* The text of a token in quotes, clean for a terminal; in `out`, which is returned. */
const char *why_text(struct why *w, long long id, char *out, size_t cap);

/* All tokens that a request had before event `seq`: prompt, then generated. malloc'd, or NULL; *n
 * may be 0. */
int32_t *why_tokens(struct why *w, long long request, long long seq, int32_t *n);
/* A setting of ours as it stood before event `seq`, or ""; in `out`, which is returned. */
const char *why_setting(struct why *w, const char *name, long long seq, char *out, size_t cap);
/* The page size in force at event `seq`. */
long long why_page_size(struct why *w, long long seq);
/* Pages of all pools then: a setting may have changed them. */
long long why_pages(struct why *w, long long seq);
/* The step in which event `seq` fell; that of the next step row. */
long long why_step_of(struct why *w, long long seq);

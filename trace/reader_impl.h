/* Inside of the reader: what its files share. */
#ifndef CUTAWAY_TRACE_READER_IMPL_H
#define CUTAWAY_TRACE_READER_IMPL_H

#include <stdbool.h>

#include <sqlite3.h>

#include "trace/foreign.h"
#include "trace/reader.h"
#include "trace/times.h"

struct source {
	sqlite3_stmt *rows;           /* all from seq ?1 on */
	sqlite3_stmt *newest;         /* the last one */
	sqlite3_stmt *one;            /* that with seq ?1; prepared when it is first asked for */
	struct times_buf unpacked[2]; /* of `rows` and of `one` */
	bool row;                     /* rows stands on one */
	int64_t seq;                  /* of that row */
};

struct reader {
	char *path;
	struct foreign file;
	struct source source[EV_N_KINDS];
	sqlite3_stmt *next_step; /* first step row with seq >= ?1 */
	bool placed;             /* invariant 1 */
	struct source *taken;    /* its row was handed out and is still being looked at */
	int64_t from;            /* seq that is read next, at least */
	uint64_t left_out;       /* bit k: events of kind k are not read */
	int keyframes_known;     /* 1: they have a form that this program reads */
	sqlite3_stmt *keyframe, *keyframes, *story; /* NULL: there are none */
	struct reader_info info;
	struct err err;
};

/* Sets the error that sticks, from SQLite's. Returns -1. */
int reader_fail(struct reader *r);
/* Copies the error that sticks. Returns -1. */
int reader_report(struct reader *r, struct err *e);
/* Frees sql. */
int reader_prepare(struct reader *r, sqlite3_stmt **stmt, char *sql);
/* First step with a seq >= from. false: none. */
bool reader_find_step(struct reader *r, int64_t from, int64_t *seq, int64_t *step);
/* The row on which a statement stands, as an event; spans live as long as it stands there. */
int reader_take(
	struct reader *r, sqlite3_stmt *s, enum ev_kind kind, int64_t seq, struct event *ev);
/* Whether the file has keyframes, and statements for them. */
int reader_find_keyframes(struct reader *r);

#endif

/* Internal: what the reader's files share. */
#pragma once

#include "trace/foreign.h"
#include "trace/reader.h"
#include "trace/times.h"

struct source {
	sqlite3_stmt *rows;           /* all from seq ?1 on */
	sqlite3_stmt *newest;         /* the last one */
	sqlite3_stmt *one;            /* the one with seq ?1; prepared at its first use */
	struct times_buf unpacked[2]; /* of `rows` and of `one` */
	bool row;                     /* `rows` is on a row */
	int64_t seq;                  /* of that row */
};

struct reader {
	char *path;
	struct foreign file;
	struct source source[EV_N_KINDS];
	sqlite3_stmt *next_step; /* first step row with seq >= ?1 */
	bool placed;             /* invariant 1 */
	struct source *taken;    /* its row is the event in use; advanced at the next call */
	int64_t from;            /* lower bound of the next seq */
	uint64_t left_out;       /* bit k: events of kind k are not read */
	int keyframes_known;     /* 1: their format is one that this program reads */
	sqlite3_stmt *keyframe, *keyframes, *history; /* NULL: there are none */
	struct reader_info info;
	struct err err;
};

/* Sets the kept error from SQLite's. Returns -1. */
int reader_fail(struct reader *r);
/* Copies the kept error; the second keeps SQLite's before. Return -1. */
int reader_report(struct reader *r, struct err *e);
int reader_fail_now(struct reader *r, struct err *e);
/* Frees sql. */
int reader_prepare(struct reader *r, sqlite3_stmt **stmt, char *sql);
/* First step with a seq >= from. false: none. */
bool reader_find_step(struct reader *r, int64_t from, int64_t *seq, int64_t *step);
/* The current row of a statement as an event; spans live until the statement moves on. */
int reader_take(
	struct reader *r, sqlite3_stmt *s, enum ev_kind kind, int64_t seq, struct event *ev);
/* Whether the file has keyframes, and statements for them. */
int reader_find_keyframes(struct reader *r);

/* Opens an untrusted session file read-only, so that nothing in it is executed: no triggers, views,
 * generated columns or virtual tables; sizes limited; tables and columns as in the event table
 * (others are ignored); pages checked. The caller checks the values, row by row. Thread: the
 * connection belongs to one thread. */
#pragma once

#include <stdbool.h>

#include <sqlite3.h>

#include "base/err.h"
#include "event/event.h"

/* Files up to this size are checked page by page before use (quick_check); larger ones only the
 * pages that are read. */
#define FOREIGN_CHECK_BYTES (INT64_C(32) << 20)

struct foreign {
	sqlite3 *db;
	bool live;    /* in WAL mode: it may grow, or was cut off by a kill */
	bool checked; /* every page of our tables was checked */
};

/* ERR_IO, or ERR_INPUT with what is wrong with the file. On failure f->db is NULL. */
int foreign_open(struct foreign *f, const char *path, struct err *e);
/* The same for a glance at the tables of these kinds (bit k: kind k): the others are not looked at,
 * and no pages are checked, so that damage shows when it is read. */
int foreign_peek(struct foreign *f, const char *path, uint64_t kinds, struct err *e);
void foreign_close(struct foreign *f);

/* Checks that a name in the schema is an ordinary table, and its pages if the file's are
 * checked. */
int foreign_check_plain(
	const struct foreign *f, const char *path, const char *table, struct err *e);

/* Sets *e from the connection's last error. Returns -1. */
int foreign_fail(sqlite3 *db, const char *path, struct err *e);

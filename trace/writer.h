/* Writes events to a SQLite file, from a thread of its own: the only connection that writes.
 *
 * Invariants: (1) one writer a file, held by an OS lock; (2) transactions of 50 to 100 ms, so that
 * a kill loses at most that and leaves a valid log of a prefix; (3) the first failure (full disk …)
 * ends the recording, never the engine; (4) a finished session leaves WAL mode: one file; (5) each
 * transaction is synced after its commit, but on a slow disk only so often that syncs take a tenth
 * of the time: a loss of power loses no more than a kill, or ten times the duration of a sync. */
#pragma once

#include "trace/ring.h"

struct writer;

/* Creates the file (an existing one is not overwritten: an error says so; its directory must be
 * there) and starts the thread. Everything pushed from then on is recorded; the ring outlives the
 * writer. */
int writer_open(struct writer **w, const char *path, struct ring *r, struct err *e);
/* Writes what is left, makes the indexes, leaves WAL mode, joins. Returns -1 and the error if
 * recording had failed. NULL is fine. */
int writer_close(struct writer *w, struct err *e);

struct writer_status {
	bool recording;      /* false after a failure */
	int64_t seq;         /* last event committed */
	int64_t synced_seq;  /* last one that survives a loss of power */
	int64_t rows, bytes; /* committed so far; bytes of the file */
	struct err err;      /* why recording stopped */
};
void writer_status(struct writer *w, struct writer_status *out); /* any thread */
/* Processor time that the writer's thread has used; 0 if the system does not say. Any thread. */
int64_t writer_processor_ns(struct writer *w);
/* Commits everything pushed before the call and returns when readers of the file see it (for
 * catching up). -1: recording has stopped. Any thread. */
int writer_flush(struct writer *w);
const char *writer_path(const struct writer *w);

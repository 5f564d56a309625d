/* Creates, fills and finishes one recording, an SQLite file. The writer's thread (writer.h) calls
 * it; also for tools that make recordings without an engine.
 *
 * Invariants: (1) an OS lock on the file keeps a second recording out, from before SQLite opens it
 * until after SQLite closed it; (2) at every moment the file and its WAL hold whole transactions,
 * so a kill leaves a valid prefix; (3) after a failure nothing more is written; (4) what was
 * synced survives a loss of power, and what remains then is a valid prefix, too
 * (tests/unit/trace/test_power.c). Thread: one at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"

struct recording;

/* Creates the file, for this user alone (mode 0600); its directory must exist. An empty file is
 * taken over, any other is left alone: ERR_IO. A failure leaves what was there. */
int recording_create(struct recording **r, const char *path, struct err *e);
/* Begins a transaction if none is open. Events come in order of seq. */
int recording_add(struct recording *r, const struct event *ev, struct err *e);
/* Ends the transaction, if one is open: from now on readers see it and it survives a kill. */
int recording_commit(struct recording *r, struct err *e);
/* What is committed now is on the disk when it returns and survives a loss of power. Not within a
 * transaction. */
int recording_sync(struct recording *r, struct err *e);
/* Is the file still at its path? If not, what is written could not be found again, and after a kill
 * not be read. */
int recording_check(const struct recording *r, struct err *e);
/* Makes the indexes and leaves WAL mode, so that one file remains (if a reader prevents that, the
 * WAL stays next to it). failed: only closes. Frees r; NULL is fine. A failure here loses no
 * event. */
void recording_close(struct recording *r, bool failed);

/* Copies the recording at `from`, also while it is written or read, into one new file for this user
 * alone. A failure leaves none. */
int recording_copy(const char *from, const char *to, struct err *e);

/* What SQLite leaves beside a recording that was not closed, by the ends of the names; NULL ends
 * them. */
extern const char *const recording_beside[];
/* Deletes its file and what lies beside it. -1, and errno: its file could not be deleted, and all
 * of it stays. */
int recording_delete(const char *path);

/* Whether a recording writes to the file at this moment, by its lock. Not for a file that this
 * process is writing or reading: see trace/foreign.c about descriptors. */
bool recording_is_written(const char *path);
/* The same by a descriptor of the file, which its owner closes after all that read the file here.
 * -1: unknown. */
int recording_written(int fd);

struct recording_size {
	/* committed; bytes of the file after a checkpoint of the WAL, as of a dozen commits ago at
	 * most */
	int64_t rows, bytes;
	int64_t seq;        /* last one committed */
	int64_t synced_seq; /* last one that survives a loss of power */
};
struct recording_size recording_size(const struct recording *r);

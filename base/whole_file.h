/* A file that is replaced atomically: it is written to a temporary file in the same folder and
 * renamed when complete, so that a failure or a kill leaves the old file. A new file is its owner's
 * alone: what is exported has the texts of a recording, which is so, too.
 *
 * Recordings, other SQLite files and files without write permission are never replaced, and files
 * that belong to a database (-wal …) are never made. A symbolic link stays one: its target is
 * replaced. Anything but a regular file (a device, a FIFO, a terminal) is written to directly.
 * Thread: any one. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

struct whole_file {
	FILE *out;         /* to write to */
	char *path, *part; /* final path, temporary path; NULL: written to directly */
	const char *name;  /* as the caller gave it */
};

/* The name must outlive f. On ERR_IO or ERR_USAGE there is nothing to close. */
int whole_file_open(struct whole_file *f, const char *name, struct err *e);
/* Renames it to its final path, or deletes it if `failed` or if not all could be written. Call it
 * once after a successful open. */
int whole_file_close(struct whole_file *f, int failed, struct err *e);
/* Whether it is one of SQLite's, as a recording is, or belongs to one. */
bool file_is_database(const char *path);

/* Reads or writes n bytes of an open file at `at`. Returns how many; fewer: errno says why, 0: the
 * file ended there, or takes no more. */
size_t file_at(int fd, void *bytes, size_t n, size_t at, bool writes);

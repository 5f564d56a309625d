/* A file that takes its name only once it is whole: it is written beside its name, in the same
 * folder, so that a failure or a kill leaves what was there.
 *
 * Never replaced are recordings and other SQLite files, nor made the files that belong to them
 * (-wal …), nor replaced what may not be written to. A symbolic link stays one: what it points to
 * is replaced. What is no plain file (a device, a FIFO, a terminal) is written to directly. Thread:
 * any one. */
#ifndef CUTAWAY_BASE_WHOLE_FILE_H
#define CUTAWAY_BASE_WHOLE_FILE_H

#include <stdio.h>

#include "base/err.h"

struct whole_file {
	FILE *out;         /* to write to */
	char *path, *part; /* where it is to be, and where it is; NULL: written to directly */
	const char *name;  /* as the caller said */
};

/* The name must outlive f. ERR_IO or ERR_USAGE; then nothing is to be closed. */
int whole_file_open(struct whole_file *f, const char *name, struct err *e);
/* Puts it in its place, or deletes it if `failed` or if not all could be written. Once, after an
 * open that succeeded. */
int whole_file_close(struct whole_file *f, int failed, struct err *e);

#endif

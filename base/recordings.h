/* The recordings of the default folder (sessions/ under XDG data): their list, and which of them a
 * word names. Reads the folder and the files' times, never their contents. Thread: any that does
 * not change the environment. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct recording_file {
	char *name;       /* with its ending, .db */
	int64_t bytes;    /* of the file and its write-ahead log */
	int64_t mtime_ns; /* when either was written last */
};

struct recordings {
	char *folder; /* ends with a slash */
	struct recording_file *file;
	int32_t n, cap;
};

/* The newest first. A file without bytes is none: its session has not begun. A folder that is
 * missing has none. */
int recordings_open(struct recordings *r, struct err *e);
void recordings_close(struct recordings *r);

/* Path of the recording that a word names: a file that is there; else a number of the list, from 1,
 * the newest; else the unique beginning of a name. NULL: the newest, ERR_IO if there is none. A
 * word that names nothing is returned as it is: a file may be awaited, or whoever opens it says
 * what is wrong. ERR_USAGE for a number beyond the list, and for a beginning of several names.
 * *path is malloc'd. */
int recordings_find(const char *what, char **path, struct err *e);
/* Is the word a number of the list, and no file that is there? Such a number means another
 * recording when one is written. */
bool recordings_is_number(const char *what);
/* The path of one that belongs to another: "r.db" with '-' and "b" is r-b.db. malloc'd. */
int recordings_beside(char **beside, const char *path, char mark, const char *name, struct err *e);
/* Bytes of a recording's name without its ending. stamp: nobody named it, it is the time at which
 * it began. */
size_t recordings_stem(const char *name, bool *stamp);
/* Did somebody give it a name with these words, in any case of ASCII letters? */
bool recordings_is_called(const char *name, const char *words);
/* The path of a new name in that folder; ".db" is added where it is missing. ERR_USAGE for a name
 * that has a slash, begins with a dot or a dash, has characters that no line can show, or would be
 * a number of the list. *path is malloc'd. */
int recordings_new_path(const char *name, char **path, struct err *e);

/* Where cutaway keeps its files: the XDG base directories
 * (specifications.freedesktop.org/basedir-spec).
 *
 * Each function gives the path of `rest` (may hold slashes; "" for the directory itself) in
 * cutaway's own folder of that kind, malloc'd, and makes the folders above it, for the user alone
 * (mode 0700), where they are missing. Fails with ERR_IO where one cannot be made. Thread: any that
 * does not change the environment. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

int paths_data(const char *rest, char **path, struct err *e);       /* kept: models, recordings */
int paths_data_there(const char *rest, char **path, struct err *e); /* makes nothing: to read */
int paths_cache(const char *rest, char **path, struct err *e);      /* may be deleted at any time */
/* kept, but specific to this machine: "history" of the prompt */
int paths_state(const char *rest, char **path, struct err *e);

/* A path as printf() makes it, malloc'd; NULL without memory. */
int paths_print(char **path, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* May somebody give a file here this name: of 1 to `most` bytes, which a line can show, without a
 * slash, and without a dot or a dash at its beginning? */
bool paths_is_name(const char *name, size_t most);

/* A file for a new recording in a folder (NULL: that of all recordings), named after the local
 * time. It is created empty, so that no other session takes the name; if it cannot be created,
 * opening it reports why. */
int paths_new_recording(const char *folder, char **path, struct err *e);
/* Deletes such a file if it is still empty: nothing was recorded after all. */
void paths_drop_recording(const char *path);

/* SHA-256 of files, remembered so that a large model is hashed once and not at every start.
 *
 * The memory is a small text file in the cache folder; an entry counts only while path, size, time of
 * change, inode and device of the file are what they were. Thread: any; programs that write at once
 * lose at most each other's newest entry, never the file. */
#ifndef CUTAWAY_BASE_SHA256_H
#define CUTAWAY_BASE_SHA256_H

#include <stdbool.h>

#include "base/err.h"

#define SHA256_HEX 65 /* 64 hex digits and a NUL */

/* Reads the whole file. */
int file_sha256(const char *path, char out[SHA256_HEX], struct err *e);
/* What is remembered of the file as it is now; false if nothing is. Never computes. */
bool file_sha256_known(const char *path, char out[SHA256_HEX]);
/* What is remembered, or else the file is read and the result remembered (if that fails, nothing is lost
 * but time). */
int file_sha256_cached(const char *path, char out[SHA256_HEX], struct err *e);

#endif

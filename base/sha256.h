/* SHA-256 of files, remembered so that a large model is hashed once and not at every start.
 *
 * The memory is a small text file in the cache folder; an entry counts only while path, size, times
 * of change, inode and device of the file are what they were. What is no plain file is refused: a
 * device may have no end. Thread: any; programs that write at once lose at most each other's newest
 * entry, never the file. */
#ifndef CUTAWAY_BASE_SHA256_H
#define CUTAWAY_BASE_SHA256_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

#define SHA256_HEX 65 /* 64 hex digits and a NUL */

/* Reads the whole file. */
int file_sha256(const char *path, char out[SHA256_HEX], struct err *e);
/* What is remembered, or else the file is read and the result remembered (if that fails, nothing is
 * lost but time). */
int file_sha256_cached(const char *path, char out[SHA256_HEX], struct err *e);

/* By what a file is told from another, and from itself before a change. */
struct file_stamp {
	int64_t size, mtime_ns, ctime_ns; /* mtime alone can be set back */
	uint64_t inode, device;
};
void file_stamp_of(const struct stat *st, struct file_stamp *out);
/* Whether the open file is still what it was. */
bool file_is_stamped(int fd, const struct file_stamp *stamp);

/* The same of the very file that the stamp was taken of: -1 if path is another by now (ERR_INPUT).
 * stop (or NULL) becoming true ends the computing (ERR_INTERRUPTED). */
int file_sha256_of(const char *path, const struct file_stamp *stamp, const atomic_bool *stop,
	char out[SHA256_HEX], struct err *e);
/* What is remembered of the file as it is now, which must be that of the stamp (NULL: any); false
 * if nothing is. Never computes. */
bool file_sha256_known_of(const char *path, const struct file_stamp *stamp, char out[SHA256_HEX]);

#endif

/* SHA-256 of files, cached so that a large model is hashed once and not at every start.
 *
 * The cache is a small text file in the cache folder; an entry is valid only while path, size,
 * mtime, ctime, inode and device of the file are unchanged. Anything but a regular file is refused:
 * a device may have no end. A file in parts (file_parts.h) counts as one: hashed are the parts in
 * their order, as by `cat`. Thread: any; programs that write at once lose at most each other's
 * newest entry, never the file. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

#define SHA256_HEX 65 /* 64 hex digits and a NUL */

/* Reads the whole file. */
int file_sha256(const char *path, char out[SHA256_HEX], struct err *e);
/* The cached hash; without one, reads the file and caches the result (if caching fails, only time
 * is lost). */
int file_sha256_cached(const char *path, char out[SHA256_HEX], struct err *e);

/* Identifies a file and its present version. */
struct file_stamp {
	int64_t size, mtime_ns, ctime_ns; /* mtime alone can be set back */
	uint64_t inode, device;
};
void file_stamp_of(const struct stat *st, struct file_stamp *out);
/* Makes the stamp one of a file in parts: all sizes, the newest times. */
void file_stamp_add(struct file_stamp *to, const struct file_stamp *part);
/* Whether the open file still has this stamp. */
bool file_is_stamped(int fd, const struct file_stamp *stamp);

/* The same, but only of the file version with this stamp: -1 (ERR_INPUT) if path is another one by
 * now. Ends with ERR_INTERRUPTED when *stop becomes true (stop may be NULL). */
int file_sha256_of(const char *path, const struct file_stamp *stamp, const atomic_bool *stop,
	char out[SHA256_HEX], struct err *e);
/* The cached hash of the file as it is now, which must have this stamp (NULL: any); false if there
 * is none. Never computes. */
bool file_sha256_known_of(const char *path, const struct file_stamp *stamp, char out[SHA256_HEX]);

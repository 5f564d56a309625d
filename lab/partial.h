/* A file that grows under the name PATH.partial and gets its own name when it is whole. It is made
 * of parts, one after the other; PATH.partial.sums has a checksum of each that is done, so a later
 * process that wants the same file can take up what is whole. Locked: one process at a time.
 * Thread: any one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/err.h"

struct partial {
	const char *path; /* final; must outlive this */
	char *name;       /* of the file until then */
	char *sums_name;
	int fd, sums;
	uint64_t size; /* bytes that it had, of the same beginning; 0: it is new */
};

/* ERR_USAGE if there is a file of this name. */
int partial_is_free(const char *path, struct err *e);
/* head [n]: the first bytes, which tell one work from another. ERR_USAGE if path is there already,
 * or a partial file with another head. */
int partial_open(struct partial *p, const char *path, const uint8_t *head, size_t n, struct err *e);
int partial_write(struct partial *p, uint64_t at, const void *data, size_t n, struct err *e);
int partial_read(struct partial *p, uint64_t at, void *data, size_t n, struct err *e);
/* Whether the bytes from `from` to `end` are what partial_seal() saw of that part (0 .. ). */
bool partial_holds(struct partial *p, int32_t part, uint64_t from, uint64_t end);
/* The part is done, and on the disk when it returns. */
int partial_seal(struct partial *p, int32_t part, uint64_t from, uint64_t end, struct err *e);
/* Whatever there is of it, whole or begun. */
void partial_remove(const char *path);
/* Renames it, unless `failed`: then it stays as it is. */
int partial_close(struct partial *p, int failed, struct err *e);

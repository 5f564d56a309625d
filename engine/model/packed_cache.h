/* The cache of packed weights: one file a model and layout, so that a large model is packed once
 * and not at every start.
 *
 * A file counts only if every field of its head is as expected, its size is exactly what the head
 * says, it belongs to this user alone, and the hash of each of its pieces is right; any other is
 * deleted. It appears whole or not at all (written under another name and renamed). A full disk
 * means no cache, never a failure. Thread: as each function says; folders may be shared by programs
 * running at once. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sha256.h"
#include "kernels/kernels.h"

/* What identifies an image of packed weights. */
struct packed_key {
	char sha256[SHA256_HEX]; /* of the model's file */
	const char *layout;      /* k_layout_name() */
	uint64_t plan;           /* hash of the layout of the image */
	size_t bytes;            /* of the image */
};

/* The most bytes of all files of the cache; the least recently used is deleted first. */
#define PACKED_CACHE_MOST ((uint64_t)32 << 30)

/* The folder, ending in a slash, malloc'd. */
int packed_cache_folder(char **folder, struct err *e);

/* Reads the image to `to`, with all threads of the context. False: there is no valid one (`to` may
 * then hold anything), or *stop (or NULL) became true. Thread: the engine's. */
bool packed_cache_load(const char *folder, const struct packed_key *k, struct k_ctx *kernels,
	uint8_t *to, const atomic_bool *stop);
/* Deletes what leaves it no room below the limit, then writes it. name: the model's, to be shown.
 * Fails, leaving no file, if the disk would become nearly full, on any error, and when *stop
 * becomes true. Thread: any. */
int packed_cache_store(const char *folder, const struct packed_key *k, const char *name,
	const uint8_t *image, uint64_t most, const atomic_bool *stop, struct err *e);

struct packed_file {
	const char *file;                              /* name in the folder */
	char name[96], layout[48], sha256[SHA256_HEX]; /* "" if its head is not valid */
	uint64_t bytes;
	int64_t used; /* seconds since 1970 */
};
/* Calls fn for each file, most recently used first. */
int packed_cache_list(const char *folder, void (*fn)(void *arg, const struct packed_file *f),
	void *arg, struct err *e);
/* Deletes all files but those that a program is writing. */
int packed_cache_clear(const char *folder, int *n, uint64_t *bytes, struct err *e);

/* Packed weights that the engines of a process share: a table of arenas that are filled, by file,
 * layout and plan.
 *
 * An arena comes in when its weights are loaded, is read-only from then on, and is unmapped by the
 * last one that lets go of it. Who opens a model while another is still loading the same one loads
 * its own. Ownership: one reference for each arena_find() that found one and for each arena_keep().
 * Thread: any. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/sha256.h"

/* What may be shared: the version of a file, and how its weights are packed. */
struct arena_key {
	struct file_stamp stamp;
	char layout[48]; /* k_layout_name() */
	size_t bytes;    /* of the arena */
};

struct arena {
	LIST_ENTRY(arena) link;
	struct arena_key key;
	uint8_t *data;
	uint64_t plan; /* a hash of what is where in it */
	int32_t refs;
};

struct arena *arena_find(const struct arena_key *key);
/* The mapping `data` of key->bytes is the table's from now on. NULL: no memory; it stays the
 * caller's. */
struct arena *arena_keep(const struct arena_key *key, uint8_t *data, uint64_t plan);
void arena_drop(struct arena *a); /* NULL is fine */

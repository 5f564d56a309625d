/* Arrays: how many elements one has; all that grow do so through a macro. Thread: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Elements of an array that is one, and no pointer. */
#define ARRAY_N(items) (sizeof(items) / sizeof *(items))

/* Grows `items` (malloc'd or NULL) until it holds `need` items; `cap`, an integer of 4 or 8 bytes,
 * is its capacity and at least doubles if it grows. False: out of memory, and both are
 * unchanged. */
#define ARRAY_ROOM(items, cap, need)                                                               \
	((size_t)(cap) >= (size_t)(need) ||                                                            \
		array_grow(&(items), sizeof *(items), &(cap), sizeof(cap), (size_t)(need)))

/* items: address of the pointer; cap: address of the integer of cap_bytes bytes. */
bool array_grow(void *items, size_t each, void *cap, size_t cap_bytes, size_t need);

/* Bytes at the end of a growing text of *n bytes, which a zero byte follows. False: likewise. */
bool array_text(char **text, size_t *n, size_t *cap, const char *bytes, size_t size);

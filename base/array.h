/* Growing arrays: the one way to make room. Thread: any. */
#ifndef CUTAWAY_BASE_ARRAY_H
#define CUTAWAY_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* Room for `need` items in `items`, malloc'd or NULL, of which there are `cap` (an integer of 4 or
 * 8 bytes): at least twice as many as before where that is not enough. False: no memory, and both
 * are as they were. */
#define ARRAY_ROOM(items, cap, need)                                                               \
	((size_t)(cap) >= (size_t)(need) ||                                                            \
		array_grow(&(items), sizeof *(items), &(cap), sizeof(cap), (size_t)(need)))

/* items: where the pointer is; cap: where the integer of cap_bytes bytes is. */
bool array_grow(void *items, size_t each, void *cap, size_t cap_bytes, size_t need);

#endif

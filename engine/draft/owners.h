/* Maps requests to a drafter's slots, as many as the engine has; a new request takes the least
 * recently used one. Thread: the engine's. Nothing is allocated after opening. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct owner {
	int64_t request, used; /* 0: free; when it was used last */
};

struct owners {
	struct owner *at;     /* [n] */
	unsigned char *place; /* [n] of size */
	size_t size;
	int32_t n;
	int64_t clock;
};

/* False: no memory. n at least 1; size: of the state kept here for each, 0 if the drafter keeps it
 * by index. */
bool owners_open(struct owners *o, int32_t n, size_t size);
void owners_close(struct owners *o);

void *owners_place(struct owners *o, int64_t request);      /* NULL: it has none */
void *owners_take_place(struct owners *o, int64_t request); /* its own, or a new one of zeros */

int32_t owners_find(struct owners *o, int64_t request); /* -1: it has none */
/* Its own, or one newly assigned: then *is_new, and its contents are another request's. */
int32_t owners_take(struct owners *o, int64_t request, bool *is_new);
void owners_drop(struct owners *o, int64_t request);

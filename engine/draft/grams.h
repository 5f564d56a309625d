/* The n-gram pool of lookahead decoding: for a token, the most recent few n-grams that begin with
 * it. Bounded: a token may evict another one of the same bucket. Thread: the engine's. */
#ifndef CUTAWAY_ENGINE_DRAFT_GRAMS_H
#define CUTAWAY_ENGINE_DRAFT_GRAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { GRAMS_BUCKETS = 1 << 13 };

struct grams;

/* N-grams of n >= 2 tokens, at most `each` a token. */
int grams_open(struct grams **g, int32_t n, int32_t each, struct err *e);
void grams_close(struct grams *g); /* NULL is allowed */

/* gram [n]. True if it is new; either way it becomes the first of its token's. */
bool grams_add(struct grams *g, const int32_t *gram);
/* The tails [n - 1] of those that begin with id, one after the other, the most recent first;
 * returns how many. */
int32_t grams_find(const struct grams *g, int32_t id, const int32_t **tails);
int32_t grams_count(const struct grams *g);

#endif

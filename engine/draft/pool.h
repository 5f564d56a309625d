/* The texts of a session, for drafters that look words up in them: bounded, and found by an index
 * of their last tokens. The oldest 128 tokens go when it is full. Thread: the engine's. */
#ifndef CUTAWAY_ENGINE_DRAFT_POOL_H
#define CUTAWAY_ENGINE_DRAFT_POOL_H

#include <stdint.h>

#include "base/err.h"

enum { POOL_TOKENS = 65536 };

struct pool;

/* Places are found by the last min tokens before them. */
int pool_open(struct pool **p, int32_t min, struct err *e);
void pool_close(struct pool *p); /* NULL is allowed */

/* What the request's text has that the pool lacks. A text that went back enters anew from a little
 * before. */
void pool_add(struct pool *p, int64_t request, const int32_t *ids, int32_t n);

/* Places where the last min tokens of ids stand, the newest first: pass -1, then what came; -1 is
 * the end. A place may be another text's, whose hash is the same: ask pool_match. */
int32_t pool_find(const struct pool *p, const int32_t *ids, int32_t n, int32_t place);
/* How many tokens, at most max, agree reading backward from the place and from ids[n - 1]. */
int32_t pool_match(const struct pool *p, int32_t place, const int32_t *ids, int32_t n, int32_t max);
/* Copies at most k tokens that follow the place; how many. */
int32_t pool_read(const struct pool *p, int32_t place, int32_t k, int32_t *out);

#endif

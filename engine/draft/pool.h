/* The texts of a session, for drafters that look n-grams up in them: bounded, with an index by the
 * last tokens. The oldest 128 tokens are dropped when it is full. Thread: the engine's. */
#pragma once

#include <stdint.h>

#include "base/err.h"

enum { POOL_TOKENS = 65536 };

struct pool;

/* Places (indexes into the texts) are found by the min tokens before them. */
int pool_open(struct pool **p, int32_t min, struct err *e);
void pool_close(struct pool *p); /* NULL is allowed */

/* Adds the part of the request's text that the pool lacks. A rewound text is added again from a
 * little before. */
void pool_add(struct pool *p, int64_t request, const int32_t *ids, int32_t n);

/* Places that the last min tokens of ids precede, the newest first: pass -1, then the last result;
 * -1 is the end. The hash of a place may be equal by chance: check with pool_match. */
int32_t pool_find(const struct pool *p, const int32_t *ids, int32_t n, int32_t place);
/* Number of tokens, at most max, that agree reading backward from the place and from ids[n - 1]. */
int32_t pool_match(const struct pool *p, int32_t place, const int32_t *ids, int32_t n, int32_t max);
/* Copies at most k tokens that follow the place; returns how many. */
int32_t pool_read(const struct pool *p, int32_t place, int32_t k, int32_t *out);

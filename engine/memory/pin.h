/* Declared prefixes: beginnings that a client says are stable, kept in the prefix cache until their
 * time is over, whatever else needs room.
 *
 * A pin is a path of the cache's tree, in whole blocks from the first on. It keeps the nodes of the
 * path, and of each memory group the pages that a sequence reads which goes on from its end: all
 * keys and values of the path, those of a window's last positions, a state's newest snapshot. What
 * the path lacks the request computes that asked for the pin: a pin grows with its blocks, so none
 * of them is lost in between. Pins that begin alike share pages, and each page counts once.
 *
 * Invariants (tests check them: pins_check): (1) a page has as many pins as keep it, and a node as
 * many as pass through it; (2) what a pin has reached is in the tree. Thread: the engine's. */
#pragma once

#include "engine/memory/prefix.h"

/* The pin of this number, or that of exactly these blocks, computed with this adapter; NULL: there
 * is none. */
struct pin *pin_find(const struct prefix *p, int64_t number);
struct pin *pin_same(const struct prefix *p, int32_t adapter, const int32_t *ids, int32_t n_blocks);
/* Adds a copy of `like`, which keeps nothing yet; NULL and the error: they are PINS_MOST, or memory
 * ran out. The pointer holds until the next pin_drop(). */
struct pin *pin_add(struct prefix *p, const struct pin *like, struct err *e);
/* It keeps what is cached of its next blocks. */
void pin_extend(struct prefix *p, struct pin *pin);
/* Its pages may be evicted again. */
void pin_drop(struct prefix *p, struct pin *pin);

/* Pages of group g that this pin keeps when it is whole. */
int32_t pin_pages(const struct prefix *p, int32_t g, const struct pin *pin);
/* Pages of group g that all pins keep when they are whole, and `more` (or NULL) if it were one. */
int32_t pins_pages(const struct prefix *p, int32_t g, const struct pin *more);
/* Of pins_pages(): those that a sequence with these tokens [n] reads. */
int32_t pins_shared(const struct prefix *p, int32_t g, const struct pin *more, int32_t adapter,
	const int32_t *ids, int32_t n);
/* The pin that gives most of the n_blocks that a prompt found, and how many of them pins keep;
 * NULL: none of them. */
struct pin *pins_giving(
	const struct prefix *p, int32_t adapter, const int32_t *ids, int32_t n_blocks, int32_t *blocks);

/* The priority queue of pairs to merge: a binary heap of 64-bit keys, the least first.
 *
 * Both encoders build their keys as urgency << 32 | position, so that of equally urgent pairs the
 * leftmost comes first. The caller has allocated it (encoder_make_room). */
#ifndef CUTAWAY_ENGINE_TOKENIZER_HEAP_H
#define CUTAWAY_ENGINE_TOKENIZER_HEAP_H

#include "engine/text/tokenizer_private.h"

static inline void heap_push(struct encoder *c, uint64_t v)
{
	size_t i = c->n_heap++;

	for (size_t up; i && c->heap[up = (i - 1) / 2] > v; i = up)
		c->heap[i] = c->heap[up];
	c->heap[i] = v;
}

static inline uint64_t heap_pop(struct encoder *c)
{
	uint64_t top = c->heap[0], v = c->heap[--c->n_heap];
	size_t i = 0, down;

	while ((down = 2 * i + 1) < c->n_heap) {
		down += down + 1 < c->n_heap && c->heap[down + 1] < c->heap[down];
		if (c->heap[down] >= v)
			break;
		c->heap[i] = c->heap[down];
		i = down;
	}
	c->heap[i] = v;
	return top;
}

#endif

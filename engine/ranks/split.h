/* What files that split a program share: tensor.c, mixture.c. */
#pragma once

#include "engine/ranks/ranks.h"

enum { UNIT = K_QBLOCK /* outputs that stay together: a block of 8-bit activations */ };

/* A program that is being split, from op `at` on. */
struct splitting {
	struct ranks *k;
	struct k_program *p;
	int32_t at;
	size_t local; /* bytes of k->local that exchanges before the next op have */
	/* of the layer's attention: heads of keys and values of all ranks; heads of this one */
	int32_t kv_heads, own_heads, own_kv_heads, first_head;
};

/* So many rows or columns as units of `unit`, of which the last may be short. */
struct ranks_span split_span(int32_t n, int32_t unit, int32_t rank, int32_t ranks);
/* An exchange before op `at`, of n rows; then its columns, by x->to, and its room in k->local. */
struct ranks_exchange *split_exchange(struct splitting *s, int32_t at, int32_t n);
void split_columns(const struct ranks *k, struct ranks_exchange *x, int32_t unit);
void split_keep_local(struct splitting *s, const struct ranks_exchange *x);
/* The activations that op `at` writes are sent in the form in which they are read. Returns where
 * the op writes its own. */
struct k_acts split_acts(struct splitting *s, int32_t at, struct k_acts a, int32_t n, int32_t unit);

/* mixture.c: if the experts of a mixture begin at the op, they are split, and the last one is next.
 */
void split_mixture(struct splitting *s);

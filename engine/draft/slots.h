/* Keys and values of a drafter's own layers: one slot for each request, and tails for the branches
 * of its trees.
 *
 * A slot holds entries, each of one token at one position of the text; entry i is at index i of the
 * slot's pages. The space after the last entry is scratch for trees. Only the slot's ids decide
 * what is valid: for other ids the entries of the common prefix are kept. A slot whose request has
 * ended keeps its entries until another request takes it, preferably one with the same prefix (the
 * next turn of a conversation). Thread: the engine's. Nothing is allocated after opening. */
#pragma once

#include "engine/draft/grow.h"
#include "engine/memory/memory.h"

struct slot {
	int64_t request; /* 0: ended */
	uint64_t used;   /* when it was taken last */
	int32_t *ids;    /* [ctx] tokens of its text */
	int32_t n_ids;
	int32_t same;    /* of its tokens, those that the last slot_go_back() found equal */
	int32_t *at;     /* [ctx] positions of the entries, ascending */
	int32_t n;       /* entries */
	int32_t adapter; /* of a twin's: they were computed with it */
	int32_t *table;  /* [blocks] */
};

struct slots {
	struct k_ctx *kernels;
	struct memory_specs memory;
	struct memory_store store[MEMORY_GROUPS]; /* with one block table for all groups */
	struct slot *slot;
	int32_t n_slots, ctx, blocks;
	uint64_t clock;
	/* branches since slots_begin(): a table each, and pages after those of the slots */
	int32_t *branch; /* [most_branches, blocks] */
	int32_t n_branches, most_branches;
	int32_t *ints; /* of all slots */
};

/* memory: the groups of the drafter's model, keys and values alone; branches: of one request's
 * tree. */
int slots_open(struct slots *s, const struct draft_env *env, const struct memory_specs *memory,
	int32_t branches, struct err *e);
void slots_close(struct slots *s);

struct slot *slots_find(struct slots *s, int64_t request); /* NULL: it has none */
/* Its own slot, or a new one; drops entries that do not match these ids. */
struct slot *slots_take(struct slots *s, int64_t request, const int32_t *ids, int32_t n);
/* Drops entries of tokens that differ now; returns how many tokens are the same. */
int32_t slot_go_back(struct slot *slot, const int32_t *ids, int32_t n);
/* Drops entries at positions from `pos` on. */
void slot_cut(struct slot *slot, int32_t pos);
void slots_end(struct slots *s, int64_t request);

/* Before the passes of a tree. */
void slots_begin(struct slots *s);
/* The block table for a node to be computed at index slot->n + depth - 1: its parent's for the
 * first child, for others one of their own with a copy of what the tree wrote on the path. */
const int32_t *slots_table(
	struct slots *s, const struct slot *slot, struct grow_tree *t, int32_t node);

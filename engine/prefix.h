/* The prefix cache: whole KV pages, found again by the tokens that led to them.
 *
 * A tree of pages (as RadixAttention, Zheng et al. 2024, with a page as the edge). A node is a page; its key
 * is the hash of its parent's key and its own tokens, and a match also compares the tokens and the parent,
 * so two texts with one hash are never confused. Leaves go first, the least recently used unless the policy says
 * otherwise. Keys of evicted nodes
 * are remembered for a while, so that a miss can say "evicted".
 *
 * Invariants (prefix_check): (1) a node's page is marked cached in kv and no other is; (2) a node's parent is
 * a node; n_children counts; (3) every node is found by its key. Thread: the engine's. After open nothing is
 * allocated. */
#ifndef CUTAWAY_ENGINE_PREFIX_H
#define CUTAWAY_ENGINE_PREFIX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"
#include "engine/kv.h"

/* Which leaf without readers goes first when a page is needed. */
enum prefix_policy {
	PREFIX_LRU,	 /* not read for longest */
	PREFIX_FIFO, /* cached for longest */
	PREFIX_LFU,	 /* found least often; among equals the one not read for longest */
	PREFIX_N_POLICIES,
};
extern const char *const prefix_policies[]; /* their names; ends with NULL */

struct prefix_node { /* one a page of the pool; index = page */
	uint64_t key;
	int64_t request;   /* that wrote it */
	int64_t last_used; /* step */
	int64_t born;	   /* step */
	int64_t n_found;   /* by how many prompts */
	int32_t parent;    /* page of the parent, -1: the root */
	int32_t first_child, next_sibling, n_children;
	bool live;
};

struct prefix {
	struct kv *kv;
	struct prefix_node *node; /* [n_pages] */
	int32_t *tokens;          /* [n_pages][page_size] */
	int32_t *table;           /* open addressing: page or -1 */
	uint32_t mask;
	int32_t first_root, n_live;
	uint64_t *ghost; /* keys of evicted nodes, a ring */
	int32_t n_ghosts, ghost_at;
	bool on;
	enum prefix_policy policy;
};

struct prefix_match {
	int32_t n_pages;   /* pages found, from the beginning */
	enum ev_code_prefix reason;
	int64_t nearest;     /* request that wrote the nearest page, or EV_NULL_I */
	int64_t diverge_pos; /* or EV_NULL_I */
	int64_t expected, got;
};

int prefix_open(struct prefix *p, struct kv *kv, struct err *e);
void prefix_close(struct prefix *p);

/* Longest match of whole pages of ids [n]; writes the pages, at most n / page_size. Marks them used. */
void prefix_find(struct prefix *p, const int32_t *ids, int32_t n, int64_t step, int32_t *pages,
				 struct prefix_match *out);
/* Tokens that prefix_find() would find; marks nothing. */
int32_t prefix_length(const struct prefix *p, const int32_t *ids, int32_t n);
/* Registers the page that holds ids[block * page_size …] of a sequence. Does nothing if an equal one is
 * known or an ancestor is not. pages: the sequence's block table. */
void prefix_add(struct prefix *p, const int32_t *ids, int32_t block, const int32_t *pages,
				int64_t request, int64_t step);
/* Frees one page at least: the leaf without readers that the policy gives up. Where all leaves have readers, a node
 * without, and what hangs below it is found no more. False if every page has a reader. */
bool prefix_evict(struct prefix *p, int64_t step);
/* Drops everything (readers keep their pages). */
void prefix_clear(struct prefix *p);

void prefix_check(const struct prefix *p);

#endif

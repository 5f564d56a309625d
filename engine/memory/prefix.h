/* The prefix cache: whole blocks, found again by the tokens that led to them.
 *
 * A tree of blocks (as RadixAttention, Zheng et al. 2024, with a block as the edge). A node has a
 * page of each memory group; its key is the hash of its parent's key and its own tokens, and a
 * match also compares the tokens and the parent, so two texts with one hash are never confused.
 * Leaves go first, the least recently used unless the policy says otherwise; but of windows and
 * states the pages of nodes that others follow go before, since a match that ends further on needs
 * none of them. Snapshots of states are thinned: the one goes whose neighbours are nearest, so of a
 * path of n blocks with k snapshots no two are further apart than 2 n / k (evict.c). The end of an
 * older path goes before snapshots are more than PREFIX_APART blocks apart. Keys of evicted nodes
 * are remembered for a while, so that a miss can say "evicted".
 *
 * A match is usable as far as every group can go on from its end (memory.h). What a pin keeps is
 * not evicted (pin.h).
 *
 * Invariants (tests check them: prefix_check): (1) a node's pages are marked cached in their pools
 * and no others are; (2) a node's parent is a node; n_children counts; (3) every node is found by
 * its key; (4) a node whose block all rows of a group read has a page of it, and every node has one
 * of some group, a child or a pin. Thread: the engine's. After open nothing is allocated. */
#pragma once

#include "event/event.h"
#include "engine/memory/memory.h"

/* Which leaf without readers goes first when a page is needed. */
enum prefix_policy {
	PREFIX_LRU,  /* not read for longest */
	PREFIX_FIFO, /* cached for longest */
	PREFIX_LFU,  /* found least often; among equals the one not read for longest */
	PREFIX_N_POLICIES,
};
extern const char *const prefix_policies[]; /* their names; ends with NULL */

enum { PREFIX_APART = 8 };

struct prefix_node {
	uint64_t key;
	int64_t request;             /* that wrote it */
	int64_t last_used;           /* step */
	int64_t born;                /* step */
	int64_t n_found;             /* by how many prompts */
	int32_t page[MEMORY_GROUPS]; /* -1: it went */
	int32_t depth;               /* blocks before it */
	int32_t parent;              /* node; below 0: the root, -1 less the adapter's number */
	/* next_sibling: of one that is not live, the next free one */
	int32_t first_child, next_sibling, n_children;
	int32_t pins; /* that end here or further on: it stays */
	bool live;
};

/* A declared prefix (pin.h). */
enum { PINS_MOST = 64 };
struct pin {
	int64_t number;          /* the request that asked for it first */
	int32_t adapter;         /* that it had */
	int32_t *ids;            /* [n_blocks * page_size]; the pin's own */
	int32_t asked, n_blocks; /* tokens that were declared stable; whole blocks of them */
	int32_t reached;         /* blocks that it keeps so far */
	int32_t node;            /* of the last of them; below 0: none */
	uint64_t key;            /* and its key */
	int64_t ttl_ns, ends_ns; /* INT64_MAX: until it is removed */
	int64_t n_found, found;  /* prompts that began with it, and tokens that it gave them */
};

struct prefix {
	struct memory *memory;
	struct prefix_node *node; /* [n_nodes] */
	int32_t *tokens;          /* [n_nodes][page_size] */
	int32_t *table;           /* open addressing: node or -1 */
	int32_t *holder;          /* of each page of the primary group that is cached: its node */
	int32_t *walked;          /* [most_blocks] scratch: nodes of a match */
	uint32_t mask;
	int32_t n_nodes, first_free, first_root, n_live;
	uint64_t *evicted; /* keys of evicted nodes, a ring */
	int32_t n_evicted_keys, evicted_at;
	bool on;
	enum prefix_policy policy;
	struct pin *pin; /* [n_pins], in the order in which they came; room for PINS_MOST */
	int32_t n_pins;
};

struct prefix_match {
	int32_t n_blocks;    /* found and usable, from the beginning */
	const int32_t *node; /* [n_blocks], until the next call */
	enum ev_code_prefix reason;
	int64_t nearest;     /* request that wrote the nearest block, or EV_NULL_I */
	int64_t diverge_pos; /* or EV_NULL_I */
	int64_t expected, got;
};

/* A match that says nothing yet. */
#define PREFIX_MATCH(why)                                                                          \
	((struct prefix_match){ .reason = (why),                                                       \
		.nearest = EV_NULL_I,                                                                      \
		.diverge_pos = EV_NULL_I,                                                                  \
		.expected = EV_NULL_I,                                                                     \
		.got = EV_NULL_I })

/* most_blocks: of the longest sequence. */
int prefix_open(struct prefix *p, struct memory *memory, int32_t most_blocks, struct err *e);
void prefix_close(struct prefix *p);

/* Keys and values depend on the adapter of who computed them (model/adapters.h): each has a tree of
 * its own, and what follows is of the one with that number, 0: none's.
 *
 * Longest match of whole blocks of ids [n] from which a sequence can go on: at the end of the
 * match, or at position `most` if that is earlier (n - 1 for a prompt, whose last token is always
 * computed). Marks what it found used. */
void prefix_find(struct prefix *p, int32_t adapter, const int32_t *ids, int32_t n, int32_t most,
	int64_t step, struct prefix_match *out);
/* Tokens that prefix_find() would find; marks nothing. */
int32_t prefix_length(
	const struct prefix *p, int32_t adapter, const int32_t *ids, int32_t n, int32_t most);
/* Pages of block b of a match, for who goes on at position pos: -1 where no row from there on reads
 * it. */
void prefix_pages(const struct prefix *p, const struct prefix_match *m, int32_t b, int32_t pos,
	int32_t page[MEMORY_GROUPS]);
/* Registers the block that holds ids[block * page_size …] of a sequence. Does nothing if an equal
 * one is known and lacks no page, or if an ancestor is not known. */
void prefix_add(struct prefix *p, int32_t adapter, const int32_t *ids, int32_t block,
	const struct memory_table *t, int64_t request, int64_t step);
/* Frees a page of group g at least: of a window or a state an unreferenced one of an inner node;
 * else the leaf without readers that the policy gives up, in all groups. Where all leaves have
 * readers, a node without, and what is below it is found no more. False if every page has a
 * reader. */
bool prefix_evict(struct prefix *p, int32_t g, int64_t step);
/* evict.c: the node with an unreferenced page of group g, of the leaves or of the others, to be
 * evicted first; -1: none. Of the others those whose blocks all rows read are before `from`. */
int32_t prefix_evictable(const struct prefix *p, int32_t g, bool leaf, int32_t from);
/* With n gone, would states be too far apart, while there is the end of an older path to give up?
 */
bool prefix_older_end(const struct prefix *p, int32_t g, const struct prefix_node *n);
/* The node of the block ids [page_size] that follows `parent` (below 0: the first), whose key is
 * *key (the adapter's number); *key becomes its own. -1: it is not cached. */
int32_t prefix_next(const struct prefix *p, int32_t parent, const int32_t *ids, uint64_t *key);
/* The node goes, and its ancestors, as long as they have neither pages nor children nor pins. */
void prefix_tidy(struct prefix *p, int32_t node);
/* Drops everything (readers keep their pages). Pins must have ended. */
void prefix_clear(struct prefix *p);
/* Takes over what `old` evicted, so that a miss in a cache that was made anew is still explained.
 */
void prefix_keep_evicted(struct prefix *p, struct prefix *old);

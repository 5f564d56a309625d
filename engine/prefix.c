/* See prefix.h. */
#include "engine/prefix.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { N_GHOSTS = 1024 };

int prefix_open(struct prefix *p, struct kv *kv, struct err *e)
{
	size_t n = (size_t)kv->n_pages, slots = 4;

	memset(p, 0, sizeof *p);
	while (slots < 2 * n)
		slots *= 2;
	p->kv = kv;
	p->on = true;
	p->mask = (uint32_t)slots - 1;
	p->first_root = -1;
	p->node = calloc(n, sizeof *p->node);
	p->tokens = calloc(n * (size_t)kv->store.page_size, sizeof *p->tokens);
	p->table = malloc(slots * sizeof *p->table);
	p->ghost = calloc(N_GHOSTS, sizeof *p->ghost);
	if (!p->node || !p->tokens || !p->table || !p->ghost) {
		prefix_close(p);
		return err_set(e, ERR_MEMORY, "no memory for the prefix cache of %d pages", kv->n_pages);
	}
	memset(p->table, 0xff, slots * sizeof *p->table);
	return 0;
}

void prefix_close(struct prefix *p)
{
	free(p->node);
	free(p->tokens);
	free(p->table);
	free(p->ghost);
	memset(p, 0, sizeof *p);
}

static const int32_t *tokens_of(const struct prefix *p, int32_t page)
{
	return p->tokens + (size_t)page * (size_t)p->kv->store.page_size;
}

/* FNV-1a over words, with a final mix (splitmix64). Only finds candidates: equality decides. */
static uint64_t key_of(uint64_t parent, const int32_t *ids, int32_t n)
{
	uint64_t h = parent ^ 0xcbf29ce484222325u;

	for (int32_t i = 0; i < n; i++)
		h = (h ^ (uint32_t)ids[i]) * 0x100000001b3u;
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
	return h ^ (h >> 27);
}

static int32_t lookup(const struct prefix *p, uint64_t key, int32_t parent, const int32_t *ids)
{
	size_t bytes = (size_t)p->kv->store.page_size * sizeof *ids;

	for (uint32_t i = (uint32_t)key & p->mask; p->table[i] >= 0; i = (i + 1) & p->mask) {
		const struct prefix_node *n = &p->node[p->table[i]];
		if (n->key == key && n->parent == parent && !memcmp(tokens_of(p, p->table[i]), ids, bytes))
			return p->table[i];
	}
	return -1;
}

static void table_put(struct prefix *p, int32_t page)
{
	uint32_t i = (uint32_t)p->node[page].key & p->mask;

	while (p->table[i] >= 0)
		i = (i + 1) & p->mask;
	p->table[i] = page;
}

/* Open addressing without tombstones: what stands behind the hole moves up (Knuth 6.4, algorithm R). */
static void table_remove(struct prefix *p, int32_t page)
{
	uint32_t hole = (uint32_t)p->node[page].key & p->mask, i;

	while (p->table[hole] != page)
		hole = (hole + 1) & p->mask;
	for (i = (hole + 1) & p->mask; p->table[i] >= 0; i = (i + 1) & p->mask) {
		uint32_t home = (uint32_t)p->node[p->table[i]].key & p->mask;
		if (((i - home) & p->mask) >= ((i - hole) & p->mask)) {
			p->table[hole] = p->table[i];
			hole = i;
		}
	}
	p->table[hole] = -1;
}

static bool is_ghost(const struct prefix *p, uint64_t key)
{
	for (int32_t i = 0; i < p->n_ghosts; i++)
		if (p->ghost[i] == key)
			return true;
	return false;
}

static int32_t *children_of(struct prefix *p, int32_t parent)
{
	return parent < 0 ? &p->first_root : &p->node[parent].first_child;
}

/* Why the match ended behind `parent`: among its children, the one that shares most tokens. */
static void explain(struct prefix *p, int32_t parent, uint64_t parent_key, const int32_t *ids, int32_t n,
					int32_t at, struct prefix_match *out)
{
	int32_t size = p->kv->store.page_size, left = n - at, best = -1, best_n = -1;

	for (int32_t c = *children_of(p, parent); c >= 0; c = p->node[c].next_sibling) {
		int32_t same = 0;
		while (same < size && same < left && tokens_of(p, c)[same] == ids[at + same])
			same++;
		if (same > best_n) {
			best = c;
			best_n = same;
		}
	}
	if (left >= size && is_ghost(p, key_of(parent_key, ids + at, size))) {
		out->reason = EV_PREFIX_evicted;
		return;
	}
	if (best < 0 || (parent < 0 && best_n == 0)) {
		out->reason = parent < 0 ? EV_PREFIX_empty : left < size ? EV_PREFIX_hit : EV_PREFIX_tail;
		out->nearest = parent < 0 ? EV_NULL_I : p->node[parent].request;
		return;
	}
	out->nearest = p->node[best].request;
	if (best_n == left) { /* the prompt ends inside a cached page */
		out->reason = EV_PREFIX_hit;
		return;
	}
	out->reason = EV_PREFIX_diverged;
	out->diverge_pos = at + best_n;
	out->expected = tokens_of(p, best)[best_n];
	out->got = ids[at + best_n];
}

void prefix_find(struct prefix *p, const int32_t *ids, int32_t n, int64_t step, int32_t *pages,
				 struct prefix_match *out)
{
	int32_t size = p->kv->store.page_size, parent = -1, at = 0;
	uint64_t key = 0;

	*out = (struct prefix_match){ .reason = EV_PREFIX_hit, .nearest = EV_NULL_I,
								  .diverge_pos = EV_NULL_I, .expected = EV_NULL_I, .got = EV_NULL_I };
	if (!p->on) {
		out->reason = EV_PREFIX_off;
		return;
	}
	for (; n - at >= size; at += size) {
		uint64_t next = key_of(key, ids + at, size);
		int32_t page = lookup(p, next, parent, ids + at);
		if (page < 0)
			break;
		p->node[page].last_used = step;
		p->node[page].n_found++;
		pages[out->n_pages++] = page;
		out->nearest = p->node[page].request;
		parent = page;
		key = next;
	}
	if (at < n)
		explain(p, parent, key, ids, n, at, out);
}

int32_t prefix_length(const struct prefix *p, const int32_t *ids, int32_t n)
{
	int32_t size = p->kv->store.page_size, parent = -1, at = 0;
	uint64_t key = 0;

	for (; p->on && n - at >= size; at += size) {
		key = key_of(key, ids + at, size);
		parent = lookup(p, key, parent, ids + at);
		if (parent < 0)
			break;
	}
	return at;
}

void prefix_add(struct prefix *p, const int32_t *ids, int32_t block, const int32_t *pages,
				int64_t request, int64_t step)
{
	int32_t size = p->kv->store.page_size, parent = -1, page = pages[block];
	uint64_t key = 0;

	if (!p->on || p->node[page].live)
		return;
	/* The ancestors are those with equal tokens, which need not be this request's own pages. */
	for (int32_t b = 0; b < block; b++) {
		key = key_of(key, ids + (size_t)b * (size_t)size, size);
		parent = lookup(p, key, parent, ids + (size_t)b * (size_t)size);
		if (parent < 0)
			return;
	}
	key = key_of(key, ids + (size_t)block * (size_t)size, size);
	if (lookup(p, key, parent, ids + (size_t)block * (size_t)size) >= 0)
		return;
	int32_t *head = children_of(p, parent);
	p->node[page] = (struct prefix_node){ .key = key, .request = request, .last_used = step, .born = step,
										  .parent = parent, .first_child = -1,
										  .next_sibling = *head, .live = true };
	*head = page;
	if (parent >= 0)
		p->node[parent].n_children++;
	memcpy(p->tokens + (size_t)page * (size_t)size, ids + (size_t)block * (size_t)size,
		   (size_t)size * sizeof *ids);
	table_put(p, page);
	p->n_live++;
	kv_cache(p->kv, page, request, block);
}

static void unlink_node(struct prefix *p, int32_t page)
{
	struct prefix_node *n = &p->node[page];
	int32_t *at = children_of(p, n->parent);

	while (*at != page)
		at = &p->node[*at].next_sibling;
	*at = n->next_sibling;
	if (n->parent >= 0)
		p->node[n->parent].n_children--;
	table_remove(p, page);
	n->live = false;
	p->n_live--;
}

const char *const prefix_policies[] = { "lru", "fifo", "lfu", NULL };

/* Would the policy rather give up a than b? */
static bool rather(enum prefix_policy policy, const struct prefix_node *a, const struct prefix_node *b)
{
	if (policy == PREFIX_FIFO && a->born != b->born)
		return a->born < b->born;
	if (policy == PREFIX_LFU && a->n_found != b->n_found)
		return a->n_found < b->n_found;
	return a->last_used < b->last_used;
}

/* The node that the policy gives up, of the leaves or of the others, that nobody reads; -1: there is none. */
static int32_t evictable(const struct prefix *p, bool leaf)
{
	int32_t best = -1;

	for (int32_t i = 0; i < p->kv->n_pages; i++) {
		const struct prefix_node *n = &p->node[i];

		if (!n->live || !n->n_children != leaf || p->kv->page[i].refs)
			continue;
		if (best < 0 || rather(p->policy, n, &p->node[best]))
			best = i;
	}
	return best;
}

static void evict_leaf(struct prefix *p, int32_t page, int64_t step)
{
	p->ghost[p->ghost_at] = p->node[page].key;
	p->ghost_at = (p->ghost_at + 1) % N_GHOSTS;
	p->n_ghosts += p->n_ghosts < N_GHOSTS;
	unlink_node(p, page);
	kv_evict(p->kv, page, step - p->node[page].last_used);
}

bool prefix_evict(struct prefix *p, int64_t step)
{
	int32_t node = evictable(p, true), leaf;

	/* Who computed a beginning at the same time as another has pages below the other's: these stay, with their
	 * reader, when the one above goes. */
	if (node < 0)
		node = evictable(p, false);
	if (node < 0)
		return false;
	do {
		for (leaf = node; p->node[leaf].first_child >= 0;)
			leaf = p->node[leaf].first_child;
		evict_leaf(p, leaf, step);
	} while (leaf != node);
	return true;
}

void prefix_clear(struct prefix *p)
{
	for (int32_t i = 0; i < p->kv->n_pages; i++)
		if (p->node[i].live) {
			p->node[i].live = false;
			kv_evict(p->kv, i, EV_NULL_I);
		}
	memset(p->table, 0xff, (p->mask + (size_t)1) * sizeof *p->table);
	p->first_root = -1;
	p->n_live = 0;
}

void prefix_check(const struct prefix *p)
{
	int32_t live = 0;

	for (int32_t i = 0; i < p->kv->n_pages; i++) {
		const struct prefix_node *n = &p->node[i];
		int32_t children = 0;
		assert(n->live == p->kv->page[i].cached);
		if (!n->live)
			continue;
		live++;
		assert(n->parent < 0 || p->node[n->parent].live);
		for (int32_t c = n->first_child; c >= 0; c = p->node[c].next_sibling) {
			assert(p->node[c].live && p->node[c].parent == i);
			children++;
		}
		assert(children == n->n_children);
		assert(lookup(p, n->key, n->parent, tokens_of(p, i)) == i);
		(void)children;
	}
	assert(live == p->n_live);
	(void)live;
}

/* See prefix.h. */
#include "engine/memory/prefix.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { N_EVICTED_KEYS = 1024 };

static void forget_all(struct prefix *p)
{
	memset(p->table, 0xff, (p->mask + (size_t)1) * sizeof *p->table);
	p->first_root = p->first_free = -1;
	for (int32_t i = p->n_nodes - 1; i >= 0; i--) {
		p->node[i] = (struct prefix_node){ .next_sibling = p->first_free };
		p->first_free = i;
	}
	p->n_live = 0;
}

int prefix_open(struct prefix *p, struct memory *memory, int32_t most_blocks, struct err *e)
{
	size_t n = 0, slots = 4;

	memset(p, 0, sizeof *p);
	for (int32_t g = 0; g < memory->spec.n; g++)
		n += (size_t)memory->pages[g].n_pages;
	/* without keys and values of all positions, paths are longer than what they have pages of */
	if (memory->mask[memory->primary].always < INT32_MAX)
		n += 4 * (size_t)most_blocks;
	while (slots < 2 * n)
		slots *= 2;
	p->memory = memory;
	p->on = true;
	p->n_nodes = (int32_t)n;
	p->mask = (uint32_t)slots - 1;
	p->node = calloc(n, sizeof *p->node);
	p->tokens = calloc(n * (size_t)memory->page_size, sizeof *p->tokens);
	p->table = malloc(slots * sizeof *p->table);
	p->holder = calloc((size_t)memory->pages[memory->primary].n_pages, sizeof *p->holder);
	p->walked = malloc(((size_t)most_blocks + 1) * sizeof *p->walked);
	p->evicted = calloc(N_EVICTED_KEYS, sizeof *p->evicted);
	p->pin = calloc(PINS_MOST, sizeof *p->pin);
	if (!p->node || !p->tokens || !p->table || !p->holder || !p->walked || !p->evicted || !p->pin) {
		prefix_close(p);
		return err_no_memory(e, "the prefix cache of %zu pages", n);
	}
	forget_all(p);
	return 0;
}

void prefix_close(struct prefix *p)
{
	free(p->node);
	free(p->tokens);
	free(p->table);
	free(p->holder);
	free(p->walked);
	free(p->evicted);
	for (int32_t i = 0; i < p->n_pins; i++)
		free(p->pin[i].ids);
	free(p->pin);
	memset(p, 0, sizeof *p);
}

static const int32_t *tokens_of(const struct prefix *p, int32_t node)
{
	return p->tokens + (size_t)node * (size_t)p->memory->page_size;
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

static int32_t root_of(int32_t adapter)
{
	return -1 - adapter;
}

static int32_t lookup(const struct prefix *p, uint64_t key, int32_t parent, const int32_t *ids)
{
	size_t bytes = (size_t)p->memory->page_size * sizeof *ids;

	for (uint32_t i = (uint32_t)key & p->mask; p->table[i] >= 0; i = (i + 1) & p->mask) {
		const struct prefix_node *n = &p->node[p->table[i]];
		if (n->key == key && n->parent == parent && !memcmp(tokens_of(p, p->table[i]), ids, bytes))
			return p->table[i];
	}
	return -1;
}

static void table_put(struct prefix *p, int32_t node)
{
	uint32_t i = (uint32_t)p->node[node].key & p->mask;

	while (p->table[i] >= 0)
		i = (i + 1) & p->mask;
	p->table[i] = node;
}

/* Open addressing without tombstones: what follows the hole moves up (Knuth 6.4, algorithm R). */
static void table_remove(struct prefix *p, int32_t node)
{
	uint32_t hole = (uint32_t)p->node[node].key & p->mask, i;

	while (p->table[hole] != node)
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

static bool is_evicted(const struct prefix *p, uint64_t key)
{
	for (int32_t i = 0; i < p->n_evicted_keys; i++)
		if (p->evicted[i] == key)
			return true;
	return false;
}

static int32_t *children_of(struct prefix *p, int32_t parent)
{
	return parent < 0 ? &p->first_root : &p->node[parent].first_child;
}

/* Why the match ended after `parent`: among its children, the one that shares most tokens. */
static void explain(struct prefix *p, int32_t parent, uint64_t parent_key, const int32_t *ids,
	int32_t n, int32_t at, struct prefix_match *out)
{
	int32_t size = p->memory->page_size, left = n - at, best = -1, best_n = -1;

	for (int32_t c = *children_of(p, parent); c >= 0; c = p->node[c].next_sibling) {
		int32_t same = 0;
		if (p->node[c].parent != parent) /* another adapter's */
			continue;
		while (same < size && same < left && tokens_of(p, c)[same] == ids[at + same])
			same++;
		if (same > best_n) {
			best = c;
			best_n = same;
		}
	}
	if (left >= size && is_evicted(p, key_of(parent_key, ids + at, size))) {
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

int32_t prefix_next(const struct prefix *p, int32_t parent, const int32_t *ids, uint64_t *key)
{
	const uint64_t next = key_of(*key, ids, p->memory->page_size);
	const int32_t node = lookup(p, next, parent, ids);

	if (node >= 0)
		*key = next;
	return node;
}

/* Nodes of the longest match, to p->walked. *key: of the last one. */
static int32_t prefix_walk(
	const struct prefix *p, int32_t adapter, const int32_t *ids, int32_t n, uint64_t *key)
{
	int32_t size = p->memory->page_size, node = root_of(adapter), found = 0;

	*key = (uint64_t)adapter;
	for (int32_t at = 0; p->on && n - at >= size; at += size) {
		node = prefix_next(p, node, ids + at, key);
		if (node < 0)
			break;
		p->walked[found++] = node;
	}
	return found;
}

/* Can a sequence go on at position pos with the first `blocks` of what was walked? */
static bool can_go_on(const struct prefix *p, int32_t blocks, int32_t pos)
{
	const struct memory *m = p->memory;

	for (int32_t g = 0; g < m->spec.n; g++) {
		struct k_range read[VISIBLE_RANGES];
		int32_t n = memory_read_blocks(m, g, pos, read);

		if (m->spec.group[g].kind->is_state && pos % m->page_size)
			return false;
		for (int32_t i = 0; i < n; i++)
			for (int32_t b = read[i].first; b < read[i].end && b < blocks; b++)
				if (p->node[p->walked[b]].page[g] < 0)
					return false;
	}
	return true;
}

/* So many of the blocks walked can be used by who goes on at position `most` at the latest. */
static int32_t usable(const struct prefix *p, int32_t blocks, int32_t most)
{
	for (; blocks > 0; blocks--) {
		int32_t end = blocks * p->memory->page_size;

		if (can_go_on(p, blocks, end < most ? end : most))
			break;
	}
	return blocks;
}

/* Is a state what the last of the blocks walked lacks, and nothing else? */
static bool was_pruned(const struct prefix *p, int32_t blocks)
{
	const struct prefix_node *last = &p->node[p->walked[blocks - 1]];
	bool state = false, other = false;

	for (int32_t g = 0; g < p->memory->spec.n; g++)
		if (last->page[g] < 0)
			*(p->memory->spec.group[g].kind->is_state ? &state : &other) = true;
	return state && !other;
}

void prefix_find(struct prefix *p, int32_t adapter, const int32_t *ids, int32_t n, int32_t most,
	int64_t step, struct prefix_match *out)
{
	int32_t size = p->memory->page_size, found;
	uint64_t key;

	*out = PREFIX_MATCH(p->on ? EV_PREFIX_hit : EV_PREFIX_off);
	out->node = p->walked;
	if (!p->on)
		return;
	found = prefix_walk(p, adapter, ids, n, &key);
	for (int32_t b = 0; b < found; b++) {
		struct prefix_node *node = &p->node[p->walked[b]];

		node->last_used = step;
		node->n_found++;
		out->nearest = node->request;
	}
	out->n_blocks = usable(p, found, most);
	if (found * size < n)
		explain(p, found ? p->walked[found - 1] : root_of(adapter), key, ids, n, found * size, out);
	/* the last block is no loss where its last token is computed anyway */
	if (out->n_blocks < found - (found * size > most))
		out->reason = was_pruned(p, found) ? EV_PREFIX_pruned : EV_PREFIX_evicted;
}

int32_t prefix_length(
	const struct prefix *p, int32_t adapter, const int32_t *ids, int32_t n, int32_t most)
{
	uint64_t key;

	return usable(p, prefix_walk(p, adapter, ids, n, &key), most) * p->memory->page_size;
}

void prefix_pages(const struct prefix *p, const struct prefix_match *m, int32_t b, int32_t pos,
	int32_t page[MEMORY_GROUPS])
{
	for (int32_t g = 0; g < p->memory->spec.n; g++)
		page[g] = memory_reads_block(p->memory, g, pos, b) ? p->node[m->node[b]].page[g] : -1;
}

/* The block's pages in groups where the node has none. */
static void take_pages(
	struct prefix *p, int32_t node, int32_t block, const struct memory_table *t, int64_t request)
{
	for (int32_t g = 0; g < p->memory->spec.n; g++) {
		int32_t page = t->page[g][block];

		if (page < 0 || p->node[node].page[g] >= 0 || p->memory->pages[g].page[page].cached)
			continue;
		p->node[node].page[g] = page;
		if (g == p->memory->primary)
			p->holder[page] = node;
		pages_cache(&p->memory->pages[g], page, request, block);
	}
}

static bool is_cached(const struct prefix *p, int32_t page)
{
	return page >= 0 && p->memory->pages[p->memory->primary].page[page].cached;
}

static bool known(const struct prefix *p, int32_t block, const struct memory_table *t)
{
	for (int32_t g = 0; g < p->memory->spec.n; g++)
		if (t->page[g][block] >= 0 && !p->memory->pages[g].page[t->page[g][block]].cached)
			return false;
	return true;
}

static int32_t new_node(struct prefix *p, struct prefix_node like, const int32_t *ids)
{
	int32_t node = p->first_free, *head = children_of(p, like.parent);
	size_t size = (size_t)p->memory->page_size;

	p->first_free = p->node[node].next_sibling;
	like.next_sibling = *head;
	like.first_child = -1;
	like.live = true;
	memset(like.page, 0xff, sizeof like.page);
	p->node[node] = like;
	*head = node;
	if (like.parent >= 0)
		p->node[like.parent].n_children++;
	memcpy(p->tokens + (size_t)node * size, ids, size * sizeof *ids);
	table_put(p, node);
	p->n_live++;
	return node;
}

static void unlink_node(struct prefix *p, int32_t node)
{
	struct prefix_node *n = &p->node[node];
	int32_t *at = children_of(p, n->parent);

	while (*at != node)
		at = &p->node[*at].next_sibling;
	*at = n->next_sibling;
	if (n->parent >= 0)
		p->node[n->parent].n_children--;
	table_remove(p, node);
	n->live = false;
	n->next_sibling = p->first_free;
	p->first_free = node;
	p->n_live--;
}

/* A later miss of this node is logged with the reason "evicted". */
static void add_evicted(struct prefix *p, int32_t node)
{
	p->evicted[p->evicted_at] = p->node[node].key;
	p->evicted_at = (p->evicted_at + 1) % N_EVICTED_KEYS;
	p->n_evicted_keys += p->n_evicted_keys < N_EVICTED_KEYS;
}

static void drop_page(struct prefix *p, int32_t node, int32_t g, int64_t step)
{
	struct prefix_node *n = &p->node[node];

	if (n->page[g] >= 0)
		pages_evict(&p->memory->pages[g], n->page[g], step - n->last_used);
	n->page[g] = -1;
}

static bool has_page(const struct prefix *p, int32_t node)
{
	for (int32_t g = 0; g < p->memory->spec.n; g++)
		if (p->node[node].page[g] >= 0)
			return true;
	return false;
}

void prefix_tidy(struct prefix *p, int32_t node)
{
	while (node >= 0 && !p->node[node].n_children && !p->node[node].pins && !has_page(p, node)) {
		const int32_t parent = p->node[node].parent;

		unlink_node(p, node);
		node = parent;
	}
}

static void evict_leaf(struct prefix *p, int32_t node, int64_t step)
{
	const int32_t parent = p->node[node].parent;

	add_evicted(p, node);
	unlink_node(p, node);
	for (int32_t g = 0; g < p->memory->spec.n; g++)
		drop_page(p, node, g, step);
	prefix_tidy(p, parent);
}

/* The end of a path goes, so that a node is free: paths whose pages went keep theirs. */
static bool free_node(struct prefix *p, int64_t step)
{
	int32_t node = -1;

	for (int32_t g = 0; g < p->memory->spec.n && node < 0; g++)
		node = prefix_evictable(p, g, true, 0);
	if (node >= 0)
		evict_leaf(p, node, step);
	return node >= 0;
}

void prefix_add(struct prefix *p, int32_t adapter, const int32_t *ids, int32_t block,
	const struct memory_table *t, int64_t request, int64_t step)
{
	int32_t size = p->memory->page_size, parent = root_of(adapter), node;
	const int32_t *own = ids + (size_t)block * (size_t)size;
	uint64_t key = (uint64_t)adapter;

	if (!p->on || known(p, block, t))
		return;
	while (p->first_free < 0 && free_node(p, step))
		;
	/* The ancestors are those with equal tokens, which need not be this request's own pages. If the
	 * last one is, there is no need to look for it. */
	if (block && is_cached(p, t->page[p->memory->primary][block - 1])) {
		parent = p->holder[t->page[p->memory->primary][block - 1]];
		key = p->node[parent].key;
	}
	for (int32_t b = parent < 0 ? 0 : block; b < block; b++) {
		parent = prefix_next(p, parent, ids + (size_t)b * (size_t)size, &key);
		if (parent < 0)
			return;
	}
	key = key_of(key, own, size);
	node = lookup(p, key, parent, own);
	if (node < 0) {
		if (p->first_free < 0) /* all are nodes whose pages went, but for a few: paths of windows */
			return;
		node = new_node(p,
			(struct prefix_node){ .key = key,
				.request = request,
				.last_used = step,
				.born = step,
				.depth = block,
				.parent = parent },
			own);
	}
	take_pages(p, node, block, t, request);
}

bool prefix_evict(struct prefix *p, int32_t g, int64_t step)
{
	int32_t node = prefix_evictable(p, g, false, p->memory->mask[g].always), leaf;

	if (node >= 0 && prefix_older_end(p, g, &p->node[node]))
		node = -1;
	/* A page of a node that others follow, which who goes on further on does not read: of a window,
	 * a state, or between sinks and a window. */
	if (node >= 0) {
		drop_page(p, node, g, step);
		return true;
	}
	node = prefix_evictable(p, g, true, 0);
	/* Who computed a beginning at the same time as another has pages below the other's: these stay,
	 * with their reader, when the one above goes. */
	if (node < 0)
		node = prefix_evictable(p, g, false, 0);
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
	assert(!p->n_pins);
	for (int32_t i = 0; i < p->n_nodes; i++)
		if (p->node[i].live)
			add_evicted(p, i);
	for (int32_t g = 0; g < p->memory->spec.n; g++)
		for (int32_t page = 0; page < p->memory->pages[g].n_pages; page++)
			if (p->memory->pages[g].page[page].cached)
				pages_evict(&p->memory->pages[g], page, EV_NULL_I);
	forget_all(p);
}

void prefix_keep_evicted(struct prefix *p, struct prefix *old)
{
	uint64_t *own = p->evicted;

	p->evicted = old->evicted;
	p->n_evicted_keys = old->n_evicted_keys;
	p->evicted_at = old->evicted_at;
	old->evicted = own;
}

/* The invariants of the prefix cache. See prefix.h. */
#include <assert.h>

#include "engine/memory/pin.h"

static int32_t count_children(const struct prefix *p, int32_t node)
{
	int32_t n = 0;

	for (int32_t c = p->node[node].first_child; c >= 0; c = p->node[c].next_sibling) {
		assert(p->node[c].live && p->node[c].parent == node);
		n++;
	}
	return n;
}

void prefix_check(const struct prefix *p)
{
	const struct memory *m = p->memory;
	int32_t live = 0, cached[MEMORY_GROUPS] = { 0 };

	for (int32_t i = 0; i < p->n_nodes; i++) {
		const struct prefix_node *n = &p->node[i];
		uint64_t key = n->parent < 0 ? 0 : p->node[n->parent].key;
		int32_t pages = 0;

		if (!n->live)
			continue;
		live++;
		assert(n->parent < 0 || p->node[n->parent].live);
		assert(count_children(p, i) == n->n_children);
		assert(n->page[m->primary] < 0 || p->holder[n->page[m->primary]] == i);
		assert(prefix_next(p, n->parent, p->tokens + (size_t)i * (size_t)m->page_size, &key) == i);
		assert(key == n->key);
		for (int32_t g = 0; g < m->spec.n; g++) {
			assert(n->page[g] < 0 || m->pages[g].page[n->page[g]].cached);
			assert(n->page[g] >= 0 || n->depth >= m->mask[g].always);
			cached[g] += n->page[g] >= 0;
			pages += n->page[g] >= 0;
		}
		assert(pages || n->n_children || n->pins);
		assert(!n->pins || n->parent < 0 || p->node[n->parent].pins);
		(void)pages, (void)key;
	}
	assert(live == p->n_live);
	for (int32_t g = 0; g < m->spec.n; g++) {
		for (int32_t page = 0; page < m->pages[g].n_pages; page++)
			cached[g] -= m->pages[g].page[page].cached;
		assert(!cached[g]);
	}
	(void)live, (void)cached;
	pins_check(p);
}

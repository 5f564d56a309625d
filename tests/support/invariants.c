/* See invariants.h. */
#include "tests/support/invariants.h"

#include <assert.h>
#include <stdlib.h>

#include "engine/core/engine_impl.h"
#include "engine/memory/pin.h"

void pages_check(const struct pages *pool)
{
	int32_t n_free = 0, n_used = 0, n_shared = 0, n_pinned = 0, on_list = 0;

	for (int32_t i = 0; i < pool->n_pages; i++) {
		const struct page *p = &pool->page[i];
		assert(p->refs >= 0);
		assert(p->is_free == (p->refs == 0 && !p->cached));
		assert(!p->pins || p->cached);
		n_free += p->is_free;
		n_used += p->refs > 0;
		n_shared += p->refs > 1;
		n_pinned += p->pins > 0;
	}
	for (int32_t i = pool->free_head; i >= 0; i = pool->page[i].next) {
		assert(pool->page[i].is_free && on_list < pool->n_pages);
		on_list++;
	}
	assert(n_free == pool->n_free && on_list == n_free);
	assert(n_used == pool->n_used && n_shared == pool->n_shared && n_pinned == pool->n_pinned);
	(void)n_free, (void)n_used, (void)n_shared, (void)n_pinned, (void)on_list;
}

/* Does a pin of so many blocks keep block b's page of group g? Who goes on from its end reads it,
 * or who computes its last token again. */
static bool keeps(const struct memory *m, int32_t g, int32_t n_blocks, int32_t b)
{
	const int32_t end = n_blocks * m->page_size;

	return b == n_blocks - 1 || memory_reads_block(m, g, end, b) ||
		   memory_reads_block(m, g, end - 1, b);
}

/* Takes the pin's share from what nodes and pages count. */
static void count_off(const struct prefix *p, const struct pin *pin, int32_t *of_node,
	int32_t *of_page[MEMORY_GROUPS])
{
	int32_t node = pin->node;

	for (int32_t b = pin->reached - 1; b >= 0; b--, node = p->node[node].parent) {
		assert(node >= 0 && p->node[node].live && p->node[node].depth == b);
		of_node[node]--;
		for (int32_t g = 0; g < p->memory->spec.n; g++)
			if (keeps(p->memory, g, pin->n_blocks, b))
				of_page[g][p->node[node].page[g]]--;
	}
	assert(node == -1 - pin->adapter);
}

void pins_check(const struct prefix *p)
{
	const struct memory *m = p->memory;
	int32_t *of_node = calloc((size_t)p->n_nodes, sizeof *of_node), *of_page[MEMORY_GROUPS];

	assert(of_node);
	for (int32_t i = 0; i < p->n_nodes; i++)
		of_node[i] = p->node[i].live ? p->node[i].pins : 0;
	for (int32_t g = 0; g < m->spec.n; g++) {
		of_page[g] = calloc((size_t)m->pages[g].n_pages, sizeof *of_page[g]);
		assert(of_page[g]);
		for (int32_t i = 0; i < m->pages[g].n_pages; i++)
			of_page[g][i] = m->pages[g].page[i].pins;
	}
	for (int32_t i = 0; i < p->n_pins; i++)
		count_off(p, &p->pin[i], of_node, of_page);
	for (int32_t i = 0; i < p->n_nodes; i++)
		assert(!of_node[i]);
	for (int32_t g = 0; g < m->spec.n; g++) {
		for (int32_t i = 0; i < m->pages[g].n_pages; i++)
			assert(!of_page[g][i]);
		free(of_page[g]);
	}
	free(of_node);
}

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
		uint64_t key = n->parent < 0 ? (uint64_t)(-1 - n->parent) : p->node[n->parent].key;
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

/* Readers of each page, of one group, over all block tables. */
static void check_readers(const struct sched *s, int32_t g)
{
	const struct pages *p = &s->memory->pages[g];
	int32_t *refs = calloc((size_t)p->n_pages, sizeof *refs);

	assert(refs);
	for (int32_t i = 0; i < s->n_slots; i++)
		for (int32_t b = 0; s->slot[i] && b < s->slot[i]->table.n; b++)
			if (s->slot[i]->table.page[g][b] >= 0)
				refs[s->slot[i]->table.page[g][b]]++;
	for (int32_t i = 0; i < p->n_pages; i++)
		assert(refs[i] == p->page[i].refs);
	free(refs);
}

void sched_check(const struct sched *s)
{
	int32_t n_running = 0;

	for (int32_t i = 0; i < s->n_slots; i++) {
		const struct request *r = s->slot[i];
		if (!r)
			continue;
		n_running++;
		assert(r->slot == i);
		/* a branch of a search that waits for its next token has every row computed */
		assert(r->computed < r->n_ids + request_is_chosen(r) && r->n_ids <= r->limit);
		assert(r->computed <= r->table.n * s->memory->page_size);
		assert(memory_resume(s->memory, &r->table, r->computed, r->computed) == r->computed);
	}
	assert(n_running == s->n_running);
	for (int32_t g = 0; g < s->memory->spec.n; g++)
		check_readers(s, g);
	for (int32_t i = 0; i < s->n_queue; i++)
		assert(s->queue[i]->slot < 0 && s->queue[i]->table.n == 0);
	(void)n_running;
}

void memory_check(const struct memory *m)
{
	for (int32_t g = 0; g < m->spec.n; g++)
		pages_check(&m->pages[g]);
}

void engine_check(const struct engine *e)
{
	memory_check(&e->memory);
	prefix_check(&e->prefix);
	sched_check(&e->sched);
}

/* Groups and their pools: see memory.h. */
#include "engine/memory/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const struct memory_kind *memory_kind_of(int64_t code)
{
	for (int i = 0; memory_kinds[i]; i++)
		if ((int64_t)memory_kinds[i]->code == code)
			return memory_kinds[i];
	return NULL;
}

/* ---- what a model keeps ---- */

static bool same_group(const struct memory_spec *a, const struct memory_spec *b)
{
	return a->kind == b->kind && (a->kind->is_state || (a->window == b->window && a->kv.n_kv_heads == b->kv.n_kv_heads &&
														 a->kv.head_dim == b->kv.head_dim));
}

int32_t memory_join(struct memory_specs *m, const struct memory_spec *layer, int32_t *index, size_t *at,
					struct err *e)
{
	int32_t g = 0;

	while (g < m->n && !same_group(&m->group[g], layer))
		g++;
	if (g == MEMORY_GROUPS)
		return err_set(e, ERR_INPUT, "the layers of this model keep more than %d different kinds of memory",
					   MEMORY_GROUPS);
	if (g == m->n) {
		m->group[m->n] = *layer;
		m->group[m->n].n_layers = 0;
		m->group[m->n++].state_bytes = 0;
	}
	if (at)
		*at = m->group[g].state_bytes;
	m->group[g].state_bytes += layer->state_bytes;
	*index = m->group[g].n_layers++;
	return g;
}

struct memory_specs memory_paged_specs(int32_t n_layers, int32_t n_kv_heads, int32_t head_dim)
{
	return (struct memory_specs){ .n = 1,
								  .group[0] = { .kind = &memory_paged, .n_layers = n_layers,
												.kv = { .n_kv_heads = n_kv_heads, .head_dim = head_dim } } };
}

bool memory_has_states(const struct memory_specs *m)
{
	for (int32_t g = 0; g < m->n; g++)
		if (m->group[g].kind->is_state)
			return true;
	return false;
}

/* ---- pages as kernels see them ---- */

static void store_fill(struct memory_store *s, const struct memory_spec *spec, int32_t page_size, uint8_t *base)
{
	size_t bytes = spec->kind->page_bytes(spec, page_size);

	s->kv = spec->kv;
	s->kv.page_size = page_size;
	s->kv.n_layers = spec->n_layers;
	s->kv.page_bytes = bytes;
	s->kv.base = base;
	s->state = (struct k_state){ .base = base, .page_bytes = bytes };
}

int memory_stores_open(struct memory_store *s, const struct memory_specs *specs, struct k_ctx *kernels,
					   int32_t page_size, int32_t n_pages, const char *what, struct err *e)
{
	for (int32_t g = 0; g < specs->n; g++) {
		size_t bytes = specs->group[g].kind->page_bytes(&specs->group[g], page_size);
		uint8_t *base = k_alloc(kernels, bytes * (size_t)n_pages, K_WORK, what, e);

		if (!base)
			return -1;
		store_fill(&s[g], &specs->group[g], page_size, base);
	}
	return 0;
}

void memory_stores_close(struct memory_store *s, const struct memory_specs *specs, struct k_ctx *kernels)
{
	for (int32_t g = 0; kernels && g < specs->n; g++)
		k_free(kernels, s[g].state.base);
}

void memory_store_copy(const struct memory_store *s, struct k_ctx *kernels, int32_t to, int32_t from)
{
	k_copy(kernels, s->state.base + (size_t)to * s->state.page_bytes,
		   s->state.base + (size_t)from * s->state.page_bytes, s->state.page_bytes);
}

/* ---- pools ---- */

/* Most pages that a sequence has at once in a group, when a step computes `rows` of it; of states also the one before. */
static int32_t most_blocks(const struct memory_spec *s, int32_t page_size, int32_t rows)
{
	int64_t n = ((int64_t)s->kind->sight(s) + rows + page_size - 2) / page_size + 1 + s->kind->is_state;

	return s->kind->sight(s) == INT32_MAX ? INT32_MAX : (int32_t)n;
}

static int32_t lead_group(const struct memory_specs *m)
{
	for (int32_t g = 0; g < m->n; g++)
		if (m->group[g].kind == &memory_paged)
			return g;
	return 0;
}

/* What the slots need, and as much again for the prefix cache. */
static int32_t slots_need(int32_t most, int32_t slots)
{
	int64_t n = 2 * (int64_t)slots * most;

	return n < INT32_MAX / 2 ? (int32_t)n : INT32_MAX / 2;
}

int32_t memory_default_pages(const struct memory_specs *specs, int32_t page_size, int32_t ctx, int32_t slots)
{
	int32_t longest = (ctx + page_size - 1) / page_size, n = longest > 4 * slots ? longest : 4 * slots;
	int32_t most = slots_need(most_blocks(&specs->group[lead_group(specs)], page_size, MEMORY_ROWS), slots);

	return n < most ? n : most;
}

/* A request alone must always be able to go on. Beside a lead group that keeps all positions, as many pages as it has do
 * for any sequence that it can hold. */
static int limit_rows(struct memory *m, const struct memory_spec *s, int32_t n_pages, int32_t lead_pages, struct err *e)
{
	int32_t rows = m->most_rows < MEMORY_ROWS ? m->most_rows : MEMORY_ROWS, least = most_blocks(s, m->page_size, 1);
	bool lead_holds_all = most_blocks(&m->spec.group[m->lead], m->page_size, 1) == INT32_MAX;

	if (least == INT32_MAX || (lead_holds_all && n_pages >= lead_pages))
		return 0;
	if (n_pages < least)
		return err_set(e, ERR_USAGE, "%d pages: what this model keeps of one sequence takes %d of %d tokens; see --pages",
					   n_pages, least, m->page_size);
	while (most_blocks(s, m->page_size, rows) > n_pages)
		rows--;
	m->most_rows = rows;
	return 0;
}

int memory_open(struct memory *m, struct k_ctx *kernels, const struct memory_specs *specs, int32_t page_size,
				int32_t n_pages, int32_t slots, int32_t n_spare, struct err *e)
{
	memset(m, 0, sizeof *m);
	m->spec = *specs;
	m->page_size = page_size;
	m->lead = lead_group(specs);
	m->most_rows = INT32_MAX;
	for (int32_t g = 0; g < specs->n; g++) {
		const struct memory_spec *s = &specs->group[g];
		int32_t n = n_pages;

		if (g != m->lead && slots_need(most_blocks(s, page_size, MEMORY_ROWS), slots) < n)
			n = slots_need(most_blocks(s, page_size, MEMORY_ROWS), slots);
		if (limit_rows(m, s, n, n_pages, e) ||
			pages_open(&m->pages[g], g, kernels, s->kind->page_bytes(s, page_size), n, n_spare, e)) {
			memory_close(m);
			return -1;
		}
		store_fill(&m->store[g], s, page_size, m->pages[g].base);
	}
	return 0;
}

void memory_close(struct memory *m)
{
	for (int32_t g = 0; g < m->spec.n; g++)
		pages_close(&m->pages[g]);
	memset(m, 0, sizeof *m);
}

void memory_listen(struct memory *m, void (*on_change)(void *arg, const struct page_change *c), void *arg)
{
	for (int32_t g = 0; g < m->spec.n; g++) {
		m->pages[g].on_change = on_change;
		m->pages[g].arg = arg;
	}
}

int32_t memory_first_block(const struct memory *m, int32_t g, int32_t pos)
{
	int32_t sight = m->spec.group[g].kind->sight(&m->spec.group[g]);

	return pos > sight ? (pos - sight) / m->page_size : 0;
}

int32_t memory_need(const struct memory *m, int32_t g, int32_t tokens, int32_t rows)
{
	const struct memory_spec *s = &m->spec.group[g];
	int32_t all = tokens / m->page_size + 1, sight = s->kind->sight(s), n;

	if (sight == INT32_MAX)
		return all;
	rows = rows < m->most_rows ? rows : m->most_rows;
	n = (sight + rows - 1) / m->page_size + 1 + s->kind->is_state;
	return n < all ? n : all;
}

int32_t memory_available(const struct memory *m, int32_t g)
{
	const struct pages *p = &m->pages[g];
	int32_t n = p->n_free;

	for (int32_t i = 0; i < p->n_pages; i++)
		n += p->page[i].cached && !p->page[i].refs;
	return n;
}

struct memory_use memory_use(const struct memory *m)
{
	struct memory_use u = { 0 };

	for (int32_t g = 0; g < m->spec.n; g++) {
		const struct pages *p = &m->pages[g];

		u.used += p->n_used;
		u.shared += p->n_shared;
		u.cached += p->n_pages - p->n_free - p->n_used;
	}
	return u;
}

size_t memory_most_pages(const struct memory *m)
{
	int32_t most = 0;

	for (int32_t g = 0; g < m->spec.n; g++)
		most = m->pages[g].n_pages > most ? m->pages[g].n_pages : most;
	return (size_t)most;
}

void memory_check(const struct memory *m)
{
	for (int32_t g = 0; g < m->spec.n; g++)
		pages_check(&m->pages[g]);
}

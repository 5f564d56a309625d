/* See tree.h. */
#include "engine/draft/tree.h"

#include <assert.h>
#include <string.h>

struct draft_room draft_room_of(const struct memory *m)
{
	struct draft_room room = { m->page_size, INT32_MAX, INT32_MAX };

	for (int32_t g = 0; g < m->spec.n; g++) {
		int32_t *least = m->spec.group[g].kind->is_state ? &room.states : &room.pages;
		int32_t left = m->pages[g].n_scratch - m->n_scratch_used[g];

		*least = left < *least ? left : *least;
	}
	return room;
}

static int32_t take_scratch(struct memory *m, int32_t g)
{
	assert(m->n_scratch_used[g] < m->pages[g].n_scratch);
	return m->pages[g].n_pages + m->n_scratch_used[g]++;
}

bool draft_branch(struct memory *m, const struct memory_table *t, int32_t pos, int32_t reach,
	struct memory_table *out)
{
	int32_t first = pos / m->page_size, n = draft_branch_pages(pos, reach, m->page_size);

	if (n > draft_room_of(m).pages)
		return false;
	for (int32_t g = 0; g < m->spec.n; g++) {
		if (m->spec.group[g].kind->is_state)
			continue;
		memcpy(out->page[g], t->page[g], (size_t)first * sizeof *out->page[g]);
		for (int32_t b = first; b < first + n; b++)
			out->page[g][b] = take_scratch(m, g);
		if (pos % m->page_size)
			pages_copy(&m->pages[g], out->page[g][first], t->page[g][first]);
	}
	return true;
}

void draft_keep_branch(struct memory *m, const struct memory_table *t,
	const struct memory_table *branch, int32_t pos, int32_t last)
{
	for (int32_t g = 0; g < m->spec.n; g++)
		for (int32_t b = pos / m->page_size; b <= last / m->page_size; b++)
			if (!m->spec.group[g].kind->is_state)
				pages_copy(&m->pages[g], t->page[g][b], branch->page[g][b]);
}

void draft_states(struct memory *m, int32_t g, const struct draft *draft, struct k_state_row *row)
{
	for (int32_t i = 0; i < draft->n; i++) {
		int32_t parent = draft->parent[i];

		row[i].from = parent == i - 1 ? K_STATE_ROW : row[parent].to;
		row[i].to = take_scratch(m, g);
	}
}

void draft_keep_states(struct memory *m, int32_t g, const struct memory_table *t,
	const struct draft *draft, int32_t node, int32_t pos, const struct k_state_row *row)
{
	for (int32_t i = node; i >= 0; i = draft->parent[i]) {
		int32_t p = pos + draft_depth(draft, i);

		if (i == node || (p + 1) % m->page_size == 0)
			pages_copy(&m->pages[g], t->page[g][p / m->page_size], row[i].to);
	}
}

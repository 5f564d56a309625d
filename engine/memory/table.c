/* Block tables: what one sequence has of each group. See memory.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/memory/memory.h"

int memory_table_open(struct memory_table *t, int32_t most_blocks)
{
	int32_t *all = malloc(MEMORY_GROUPS * (size_t)most_blocks * sizeof *all);

	memset(t, 0, sizeof *t);
	for (int32_t g = 0; all && g < MEMORY_GROUPS; g++)
		t->page[g] = all + (size_t)g * (size_t)most_blocks;
	return all ? 0 : -1;
}

void memory_table_close(struct memory_table *t)
{
	free(t->page[0]);
	memset(t, 0, sizeof *t);
}

int32_t memory_held(const struct memory_table *t, int32_t g, int32_t from)
{
	int32_t n = 0;

	for (int32_t b = from; b < t->n; b++)
		n += t->page[g][b] >= 0;
	return n;
}

int32_t memory_reserve(
	struct memory *m, struct memory_table *t, int64_t request, int32_t pos, int32_t end)
{
	int32_t need = (end + m->page_size - 1) / m->page_size;

	for (int32_t b = pos / m->page_size; b < t->n && b < need; b++)
		for (int32_t g = 0; g < m->spec.n; g++)
			if (pages_writable(&m->pages[g], &t->page[g][b], request, b))
				return g;
	while (t->n < need) {
		for (int32_t g = 0; g < m->spec.n; g++)
			if (!m->pages[g].n_free)
				return g;
		for (int32_t g = 0; g < m->spec.n; g++)
			t->page[g][t->n] = pages_alloc(&m->pages[g], request, t->n);
		t->n++;
	}
	return -1;
}

void memory_share(
	struct memory *m, struct memory_table *t, int64_t request, const int32_t page[MEMORY_GROUPS])
{
	for (int32_t g = 0; g < m->spec.n; g++) {
		t->page[g][t->n] = page[g];
		if (page[g] >= 0)
			pages_share(&m->pages[g], page[g], request, t->n);
	}
	t->n++;
}

void memory_fork(struct memory *m, struct memory_table *t, int64_t request,
	const struct memory_table *from, int32_t n)
{
	assert(!t->n && n <= from->n);
	for (int32_t b = 0; b < n; b++) {
		int32_t page[MEMORY_GROUPS];

		for (int32_t g = 0; g < m->spec.n; g++)
			page[g] = from->page[g][b];
		memory_share(m, t, request, page);
	}
}

void memory_give_back(struct memory *m, struct memory_table *t, int64_t request, int32_t pos)
{
	for (int32_t g = 0; g < m->spec.n; g++) {
		struct k_range read[VISIBLE_RANGES];
		int32_t n = memory_read_blocks(m, g, pos, read), *page = t->page[g];

		/* what each range follows and nobody reads, from its end down to where it went before; the
		 * state before the last stays, so that going back by a few tokens needs no prefix cache */
		for (int32_t i = 0; i < n; i++) {
			int32_t from = i ? read[i - 1].end : 0,
					b = read[i].first - m->spec.group[g].kind->is_state;

			for (b = b < t->n ? b : t->n; b > from && page[b - 1] >= 0; b--) {
				pages_release(&m->pages[g], page[b - 1], request, b - 1, EV_PAGE_unseen);
				page[b - 1] = -1;
			}
		}
	}
}

void memory_drop(struct memory *m, struct memory_table *t, int64_t request, int32_t n)
{
	/* from the back, so that the prefix cache sees leaves first */
	while (t->n > n) {
		t->n--;
		for (int32_t g = 0; g < m->spec.n; g++)
			if (t->page[g][t->n] >= 0)
				pages_release(&m->pages[g], t->page[g][t->n], request, t->n, EV_PAGE_release);
	}
}

/* Has the group what rows from position c on read? */
static bool can_resume(
	const struct memory *m, int32_t g, const struct memory_table *t, int32_t at, int32_t c)
{
	int32_t end = (c + m->page_size - 1) / m->page_size, n;
	struct k_range read[VISIBLE_RANGES];

	if (m->spec.group[g].kind->is_state && c % m->page_size && c != at)
		return false;
	n = memory_read_blocks(m, g, c, read);
	for (int32_t i = 0; i < n; i++)
		for (int32_t b = read[i].first; b < read[i].end && b < end; b++)
			if (t->page[g][b] < 0)
				return false;
	return true;
}

int32_t memory_resume(
	const struct memory *m, const struct memory_table *t, int32_t at, int32_t want)
{
	for (int32_t c = want; c > 0; c = (c - 1) / m->page_size * m->page_size) {
		bool can = true;

		for (int32_t g = 0; g < m->spec.n && can; g++)
			can = can_resume(m, g, t, at, c);
		if (can)
			return c;
	}
	return 0;
}

/* See slots.h. */
#include "engine/draft/slots.h"

#include <stdlib.h>
#include <string.h>

#include "base/ids.h"

enum { PAGE = K_GROUP, TAIL = 2 }; /* tokens of a page; pages that DRAFT_MAX tokens may touch */

static int32_t *take_ints(struct slots *s)
{
	size_t each = 2 * (size_t)s->ctx + (size_t)s->blocks;
	int32_t *p = calloc((size_t)s->n_slots, each * sizeof *p);

	for (int32_t i = 0; p && i < s->n_slots; i++) {
		struct slot *slot = &s->slot[i];

		slot->ids = p + (size_t)i * each;
		slot->at = slot->ids + s->ctx;
		slot->table = slot->at + s->ctx;
		for (int32_t b = 0; b < s->blocks; b++)
			slot->table[b] = i * s->blocks + b;
	}
	return p;
}

int slots_open(struct slots *s, const struct draft_env *env, const struct memory_specs *memory,
	int32_t branches, struct err *e)
{
	int32_t pages;

	memset(s, 0, sizeof *s);
	if (memory_has_states(memory))
		return err_set(e, ERR_USAGE,
			"a drafter's own model keeps states; what goes back and forth as drafts do must keep "
			"keys and values alone");
	s->memory = *memory;
	s->kernels = env->kernels;
	s->n_slots = env->slots;
	s->ctx = env->ctx;
	s->blocks = (env->ctx + DRAFT_MAX) / PAGE + 1;
	s->most_branches = env->slots * branches;
	s->slot = calloc((size_t)s->n_slots, sizeof *s->slot);
	s->ints = s->slot ? take_ints(s) : NULL;
	s->branch = calloc((size_t)s->most_branches + 1, (size_t)s->blocks * sizeof *s->branch);
	if (!s->ints || !s->branch)
		return err_no_memory(e, "a drafter's %d slots", s->n_slots);
	pages = s->n_slots * s->blocks + s->most_branches * TAIL;
	return memory_stores_open(s->store, memory, s->kernels, PAGE, pages,
		"a drafter's keys and values; try a shorter --ctx or fewer --slots", e);
}

void slots_close(struct slots *s)
{
	memory_stores_close(s->store, &s->memory, s->kernels);
	free(s->slot);
	free(s->ints);
	free(s->branch);
	memset(s, 0, sizeof *s);
}

struct slot *slots_find(struct slots *s, int64_t request)
{
	for (int32_t i = 0; i < s->n_slots; i++)
		if (s->slot[i].request == request)
			return &s->slot[i];
	return NULL;
}

/* Of the slots whose request has ended, the one with the longest common prefix, else the least
 * recently used. */
static struct slot *choose(struct slots *s, const int32_t *ids, int32_t n)
{
	struct slot *best = NULL;
	int32_t best_common = -1;

	for (int32_t i = 0; i < s->n_slots; i++) {
		struct slot *slot = &s->slot[i];
		int32_t same = slot->request ? -1 : ids_common(ids, n, slot->ids, slot->n_ids);

		if (!best || same > best_common || (same == best_common && slot->used < best->used)) {
			best = slot;
			best_common = same;
		}
	}
	return best;
}

int32_t slot_go_back(struct slot *slot, const int32_t *ids, int32_t n)
{
	int32_t same = ids_common(ids, n, slot->ids, slot->n_ids);

	slot->n_ids = slot->same = same;
	slot_cut(slot, same);
	return same;
}

void slot_cut(struct slot *slot, int32_t pos)
{
	while (slot->n && slot->at[slot->n - 1] >= pos)
		slot->n--;
}

struct slot *slots_take(struct slots *s, int64_t request, const int32_t *ids, int32_t n)
{
	struct slot *slot = slots_find(s, request);

	if (!slot)
		slot = choose(s, ids, n);
	slot->request = request;
	slot->used = ++s->clock;
	slot_go_back(slot, ids, n);
	memcpy(slot->ids + slot->n_ids, ids + slot->n_ids, (size_t)(n - slot->n_ids) * sizeof *ids);
	slot->n_ids = n;
	return slot;
}

void slots_end(struct slots *s, int64_t request)
{
	struct slot *slot = slots_find(s, request);

	if (slot)
		slot->request = 0;
}

void slots_begin(struct slots *s)
{
	s->n_branches = 0;
}

/* A table like `from` with its own copy of the scratch pages that are written: indexes slot->n …
 * end - 1. */
static const int32_t *branch_off(
	struct slots *s, const struct slot *slot, const int32_t *from, int32_t end)
{
	int32_t *table = s->branch + (size_t)s->n_branches * (size_t)s->blocks;
	int32_t first = slot->n / PAGE, spare = s->n_slots * s->blocks + s->n_branches * TAIL;

	memcpy(table, from, (size_t)first * sizeof *table);
	for (int32_t b = 0; b < TAIL && first + b < s->blocks; b++)
		table[first + b] = spare + b;
	for (int32_t b = first; b * PAGE < end; b++)
		for (int32_t g = 0; g < s->memory.n; g++)
			memory_store_copy(&s->store[g], s->kernels, table[b], from[b]);
	s->n_branches++;
	return table;
}

const int32_t *slots_table(
	struct slots *s, const struct slot *slot, struct grow_tree *t, int32_t node)
{
	int32_t parent = t->node[node].parent;
	const int32_t *from = parent < 0 ? slot->table : t->node[parent].table;
	bool *has_child = parent < 0 ? &t->has_child : &t->node[parent].has_child;

	t->node[node].table =
		*has_child ? branch_off(s, slot, from, slot->n + t->node[node].depth - 1) : from;
	*has_child = true;
	return t->node[node].table;
}

/* See prefix.h: which page of the prefix cache goes first. */
#include "engine/memory/prefix.h"

const char *const prefix_policies[] = { "lru", "fifo", "lfu", NULL };

/* Would the policy rather give up a than b? */
static bool rather(
	enum prefix_policy policy, const struct prefix_node *a, const struct prefix_node *b)
{
	if (policy == PREFIX_FIFO && a->born != b->born)
		return a->born < b->born;
	if (policy == PREFIX_LFU && a->n_found != b->n_found)
		return a->n_found < b->n_found;
	return a->last_used < b->last_used;
}

/* Blocks from the snapshot before n to the one after it, in a group of states: what is computed
 * again at most, with n gone. INT32_MAX where sequences part: these stay longest (Marconi: Pan et
 * al. 2025, section 4). */
static int32_t prefix_apart(const struct prefix *p, int32_t g, const struct prefix_node *n)
{
	const struct prefix_node *a = n, *b = n;

	if (n->n_children > 1)
		return INT32_MAX;
	do
		a = a->parent < 0 ? NULL : &p->node[a->parent];
	while (a && a->page[g] < 0);
	do
		b = b->first_child < 0 ? NULL : &p->node[b->first_child];
	while (b && b->page[g] < 0);
	return (b ? b->depth : n->depth + 1) - (a ? a->depth : -1);
}

/* How far apart the snapshots beside it would be; 0: not of states. */
static int32_t loss(const struct prefix *p, int32_t g, bool leaf, const struct prefix_node *n)
{
	return leaf || !p->memory->spec.group[g].kind->is_state ? 0 : prefix_apart(p, g, n);
}

/* Snapshots of states are thinned: first those whose neighbours are nearest. Else, would the policy
 * rather give up a than b? Among equals the one further from where sequences go on; then by page.
 * lost: of b. */
static bool sooner(const struct prefix *p, int32_t g, bool leaf, const struct prefix_node *a,
	const struct prefix_node *b, int32_t lost)
{
	const int32_t apart = loss(p, g, leaf, a);

	if (apart != lost)
		return apart < lost;
	if (rather(p->policy, a, b) || rather(p->policy, b, a))
		return rather(p->policy, a, b);
	if (!leaf && a->depth != b->depth)
		return a->depth < b->depth;
	return a->page[g] < b->page[g];
}

int32_t prefix_evictable(const struct prefix *p, int32_t g, bool leaf, int32_t from)
{
	const struct pages *pages = &p->memory->pages[g];
	const bool whole = leaf || from < p->memory->mask[g].always; /* the node goes */
	int32_t best = -1, lost = 0;

	if (from == INT32_MAX) /* all rows read all of it: there are none */
		return -1;
	for (int32_t i = 0; i < p->n_nodes; i++) {
		const struct prefix_node *n = &p->node[i];

		if (!n->live || !n->n_children != leaf || n->depth < from || n->page[g] < 0 ||
			pages->page[n->page[g]].refs || pages->page[n->page[g]].pins || (n->pins && whole))
			continue;
		if (best < 0 || sooner(p, g, leaf, n, &p->node[best], lost)) {
			best = i;
			lost = loss(p, g, leaf, n);
		}
	}
	return best;
}

bool prefix_older_end(const struct prefix *p, int32_t g, const struct prefix_node *n)
{
	int32_t leaf;

	if (!p->memory->spec.group[g].kind->is_state || prefix_apart(p, g, n) <= PREFIX_APART)
		return false;
	leaf = prefix_evictable(p, g, true, 0);
	return leaf >= 0 && rather(p->policy, &p->node[leaf], n);
}

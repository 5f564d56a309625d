/* The reading of "name[:arguments]", and trees. See draft.h. Thread: the engine's. */
#include "engine/draft/draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/model.h"

const char *draft_offer(int i)
{
	for (int d = 0; draft_table[d]; d++) {
		const char *const name[] = { draft_table[d]->name, NULL };

		for (const char *const *word = draft_table[d]->offer ? draft_table[d]->offer : name; *word;
			 word++)
			if (!i--)
				return *word;
	}
	return NULL;
}

/* "off, ngram[:k[,min,max]]" */
static void list_names(char *buf, size_t cap)
{
	size_t len = (size_t)snprintf(buf, cap, "off");

	for (int i = 0; draft_table[i] && len < cap; i++)
		len += (size_t)snprintf(
			buf + len, cap - len, ", %s[:%s]", draft_table[i]->name, draft_table[i]->args);
}

const struct draft_ops *draft_find(const char *spec)
{
	size_t size = strcspn(spec, ":");

	for (int i = 0; draft_table[i]; i++)
		if (strlen(draft_table[i]->name) == size && !memcmp(draft_table[i]->name, spec, size))
			return draft_table[i];
	return NULL;
}

int draft_open(const char *spec, const struct draft_env *env, const struct draft_ops **ops,
	struct drafter **d, struct err *e)
{
	const struct draft_ops *known_ops = draft_find(spec);
	const char *colon = strchr(spec, ':');
	char known[400];

	*ops = NULL;
	*d = NULL;
	if (strcmp(spec, "off") == 0)
		return 0;
	if (!known_ops) {
		list_names(known, sizeof known);
		return err_set(e, ERR_USAGE, "no drafter is called '%.40s'; there are: %s", spec, known);
	}
	if (known_ops->layers && env && env->model && env->model->parted)
		return err_set(e, ERR_USAGE,
			"%s drafts with the model's own layers, of which this rank has a part",
			known_ops->name);
	if (draft_begin(d, known_ops, env, colon ? colon + 1 : NULL, e))
		return -1;
	*ops = known_ops;
	return 0;
}

int draft_begin(struct drafter **out, const struct draft_ops *ops, const struct draft_env *env,
	const char *args, struct err *e)
{
	struct err own = { 0 }; /* loading reads it to see whether something failed */
	struct drafter *d;

	*out = NULL;
	if (ops->alone && (!env || (ops->computes && !env->model)))
		return err_set(e, ERR_USAGE, "%s %s", ops->name, ops->alone);
	d = calloc(1, ops->size);
	if (!d)
		return err_no_memory(e, "the drafter %s", ops->name);
	if (ops->open(d, env, args, &own)) {
		draft_close(ops, d);
		return err_set(e, own.code, "%s", own.text);
	}
	*out = d;
	return 0;
}

void draft_close(const struct draft_ops *ops, struct drafter *d)
{
	if (d)
		ops->close(d);
	free(d);
}

void draft_spec(
	const char *pattern, int32_t nodes, int32_t layers, const char *file, char *out, size_t cap)
{
	int32_t most = 4 * layers / 5;
	size_t at = 0;

	for (const char *p = pattern; *p && at + 1 < cap; p++) {
		int n;

		if (*p != '$')
			n = snprintf(out + at, cap - at, "%c", *p);
		else if (*++p == 'f')
			n = snprintf(out + at, cap - at, "%s", file);
		else
			n = snprintf(out + at, cap - at, "%d",
				*p == 'n'   ? nodes
				: *p == 'h' ? (nodes + 1) / 2
				: most > 0  ? most
							: 1);
		at += (size_t)n;
	}
	out[at < cap ? at : cap - 1] = '\0';
}

int draft_numbers(const char *args, int32_t least, int32_t most, int32_t *out, int cap)
{
	int n = 0;

	while (args && *args) {
		char *end;
		long v;

		if (n == cap || *args < '0' || *args > '9')
			return -1;
		v = strtol(args, &end, 10);
		if (v < least || v > most || (*end && (*end != ',' || !end[1])))
			return -1;
		out[n++] = (int32_t)v;
		args = *end ? end + 1 : end;
	}
	return n;
}

int32_t draft_random(const int32_t *ids, int32_t n, int32_t position)
{
	uint64_t h = ((uint64_t)(uint32_t)position + 1) * 0x9e3779b97f4a7c15u;

	return ids[(h >> 33) % (uint32_t)n];
}

/* ---- trees ---- */

int32_t draft_add(struct draft *t, int32_t parent, int32_t id, float q)
{
	if (t->n == DRAFT_NODES)
		return -1;
	t->id[t->n] = id;
	t->parent[t->n] = (int8_t)parent;
	t->q[t->n] = q;
	t->dense[t->n] = NULL;
	return t->n++;
}

int32_t draft_child(const struct draft *t, int32_t parent, int32_t id)
{
	for (int32_t i = parent + 1; i < t->n; i++)
		if (t->parent[i] == parent && t->id[i] == id)
			return i;
	return -1;
}

int32_t draft_follow(struct draft *t, int32_t parent, int32_t id)
{
	int32_t child = draft_child(t, parent, id);

	return child >= 0 ? child : draft_add(t, parent, id, 1);
}

bool draft_has_child(const struct draft *t, int32_t node)
{
	for (int32_t i = node + 1; i < t->n; i++)
		if (t->parent[i] == node)
			return true;
	return false;
}

int32_t draft_depth(const struct draft *t, int32_t node)
{
	int32_t depth = 1;

	while ((node = t->parent[node]) >= 0)
		depth++;
	return depth;
}

int32_t draft_reach(const struct draft *t)
{
	int32_t reach = 0;

	for (int32_t i = 0; i < t->n; i++) {
		int32_t depth = draft_depth(t, i);
		reach = depth > reach ? depth : reach;
	}
	return reach;
}

int32_t draft_branches(const struct draft *t, int8_t branch[DRAFT_NODES])
{
	bool has_child[DRAFT_NODES + 1] = { false }; /* [0]: the newest token */
	int8_t n = 0;

	for (int32_t i = 0; i < t->n; i++) {
		int32_t parent = t->parent[i];

		branch[i] = has_child[parent + 1] ? ++n : parent < 0 ? (int8_t)0 : branch[parent];
		has_child[parent + 1] = true;
	}
	return n;
}

/* The kept nodes before i, by their new numbers. */
struct kept {
	int32_t number[DRAFT_NODES];     /* -1: cut */
	int32_t depth[DRAFT_NODES];      /* by new number */
	bool has_child[DRAFT_NODES + 1]; /* [0]: the newest token */
	int32_t leaves;
};

void draft_prune(struct draft *t, int32_t nodes, int32_t depth, int32_t leaves)
{
	struct kept k = { .leaves = 1 };
	int32_t all = t->n;

	t->n = 0;
	for (int32_t i = 0; i < all; i++) {
		int32_t parent = t->parent[i] < 0 ? -1 : k.number[t->parent[i]];
		int32_t at = parent < 0 ? 1 : k.depth[parent] + 1;
		bool lost = t->parent[i] >= 0 && parent < 0, branch;

		k.number[i] = -1;
		if (lost || t->n == nodes || at > depth || draft_child(t, parent, t->id[i]) >= 0)
			continue;
		branch = k.has_child[parent + 1];
		if (branch && k.leaves == leaves)
			continue;
		k.leaves += branch;
		k.has_child[parent + 1] = true;
		k.number[i] = t->n;
		k.depth[t->n] = at;
		t->id[t->n] = t->id[i];
		t->q[t->n] = t->q[i];
		t->dense[t->n] = t->dense[i];
		t->parent[t->n++] = (int8_t)parent;
	}
}

int32_t draft_branch_pages(int32_t newest, int32_t reach, int32_t page_size)
{
	return (newest + reach) / page_size - newest / page_size + 1;
}

void draft_fit(struct draft *t, const struct draft_job *job, struct draft_room *room)
{
	int32_t each = draft_branch_pages(job->n - 1, job->depth, room->page_size),
			branches = room->pages / each;
	int8_t branch[DRAFT_NODES];

	draft_prune(t, job->nodes < room->states ? job->nodes : room->states, job->depth,
		branches < DRAFT_LEAVES ? 1 + branches : DRAFT_LEAVES);
	room->pages -= draft_branches(t, branch) * each;
	room->states -= t->n;
}

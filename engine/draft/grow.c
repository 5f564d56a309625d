/* See grow.h. */
#include "engine/draft/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int grow_open(struct grow *g, const struct draft_env *env, struct err *e)
{
	struct grow_node *nodes = calloc((size_t)env->slots * GROW_NODES, sizeof *nodes);

	g->slots = env->slots;
	g->tree = calloc((size_t)env->slots, sizeof *g->tree);
	g->row = calloc((size_t)env->slots * GROW_WIDTH, sizeof *g->row);
	if (!nodes || !g->tree || !g->row) {
		free(nodes);
		return err_no_memory(e, "the trees of %d slots", env->slots);
	}
	for (int32_t i = 0; i < env->slots; i++)
		g->tree[i].node = nodes + (size_t)i * GROW_NODES;
	return 0;
}

void grow_close(struct grow *g)
{
	if (g->tree)
		free(g->tree[0].node);
	free(g->tree);
	free(g->row);
	memset(g, 0, sizeof *g);
}

/* ---- what they are worth ---- */

/* With a confidence that may be anything, the child of a node worth w is worth more than its row,
 * of price r, by (w - r)^2 / 2w in the mean: this is to be what a pass costs. */
static double gain_a_pass(double row, double pass)
{
	return row + pass + sqrt(pass * (pass + 2 * row));
}

/* Before guesses for these jobs, of at most so many nodes each. */
static void gain_begin(struct gain *w, const struct draft_job *job, int32_t n, int32_t nodes)
{
	const double speed = w->steps > 0 ? fmax(1, w->tokens / w->steps) : 1;
	double depth = 0, one, least = 1;

	if (!w->cost)
		return;
	for (int32_t i = 0; i < n; i++)
		depth += (double)job[i].n / n;
	one = draft_cost_ns(w->cost, n, depth) / speed;
	w->rows[0] = 0;
	for (int32_t k = 1; k <= nodes; k++) {
		w->rows[k] = draft_cost_ns(w->cost, n * (1.0 + k), depth) / one - speed;
		least = fmin(least, w->rows[k] / k);
	}
	w->pass_ns *= w->n_passes ? 1 : 0.97; /* not seen of late: a disturbed one must not stay */
	w->pass = w->pass_ns / one;
	w->least = (float)least;
	w->deeper = (float)gain_a_pass(least, w->pass);
	w->n_passes = 0;
}

/* A pass for all of them began then, by draft_cost_now(). */
static void gain_pass(struct gain *w, int64_t start)
{
	const double ns = (double)(draft_cost_now(w->cost) - start);

	w->pass_ns += (ns - w->pass_ns) / (w->pass_ns > 0 ? 16 : 1);
	w->n_passes++;
}

/* How many of n nodes, worthiest first, are to be proposed. */
static int32_t gain_choose(struct gain *w, const float *of, int32_t n)
{
	const double speed = w->steps > 0 ? fmax(1, w->tokens / w->steps) : 1, kept = 63 / 64.0;
	double sum = 0, most = 0, brings = 0;
	int32_t number = 0;

	if (!w->cost)
		return n;
	for (int32_t i = 0; i < n; i++) {
		sum += (double)of[i];
		if (sum - w->rows[i + 1] > most) {
			most = sum - w->rows[i + 1];
			brings = sum;
			number = i + 1;
		}
	}
	w->tokens = kept * w->tokens + 1 + brings;
	w->steps = kept * w->steps + 1 + (w->rows[number] + w->n_passes * w->pass) / speed;
	return number;
}

/* ---- growing ---- */

/* The drafted tokens on the path to a node, itself the last; returns how many. */
static int32_t grow_path(const struct grow_tree *t, int32_t node, int32_t path[DRAFT_MAX])
{
	int32_t depth = node < 0 ? 0 : t->node[node].depth;

	for (int32_t i = depth - 1; i >= 0; i--, node = t->node[node].parent)
		path[i] = t->node[node].id;
	return depth;
}

void grow_begin(struct grow *g, const struct draft_job *job, int32_t n)
{
	guesser_begin(g->guesser);
	gain_begin(&g->gain, job, n, g->nodes);
	g->n_trees = n;
	for (int32_t i = 0; i < n; i++) {
		g->tree[i].job = &job[i];
		g->tree[i].n = g->tree[i].level = 0;
		g->tree[i].has_child = false;
	}
}

static int32_t min32(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

void grow_add(
	struct grow *g, int32_t tree, int32_t node, const struct draft_guess *guess, int32_t n)
{
	struct grow_tree *t = &g->tree[tree];
	float gain = node < 0 ? 1 : t->node[node].gain;
	int16_t depth = node < 0 ? 1 : (int16_t)(t->node[node].depth + 1);

	for (int32_t i = 0; i < n && t->n < GROW_NODES; i++) {
		float w = gain * guess[i].confidence;

		if (w >= g->gain.least)
			t->node[t->n++] = (struct grow_node){ .id = guess[i].id,
				.parent = (int16_t)node,
				.depth = depth,
				.row = -1,
				.p = guess[i].p,
				.gain = w,
				.dense = guess[i].dense };
	}
}

void grow_offer(struct grow *g, int32_t tree, int32_t node, const float *logits,
	const struct k_logit_stats *stats)
{
	struct grow_tree *t = &g->tree[tree];
	struct draft_guess guess[GROW_FAN];
	int32_t path[DRAFT_MAX], depth = grow_path(t, node, path);

	grow_add(g, tree, node, guess,
		guess_row(g->guesser, t->job, path, depth, logits, stats, g->fan, guess));
}

/* Chooses the worthiest nodes of the newest level. */
static int32_t choose_level(const struct grow *g, int32_t tree, struct grow_row *row)
{
	const struct grow_tree *t = &g->tree[tree];
	/* the path to a node has as many nodes as its depth, so it must fit in job->nodes */
	int32_t n = 0, depth = min32(min32(g->depth, t->job->depth), t->job->nodes);

	if (t->level == t->n || t->node[t->level].depth >= depth)
		return 0;
	for (int32_t i = t->level; i < t->n; i++) {
		int32_t at = n < g->width ? n : g->width - 1;

		if (t->node[i].gain < g->gain.deeper ||
			(n == g->width && t->node[i].gain <= t->node[row[at].node].gain))
			continue;
		for (; at > 0 && t->node[i].gain > t->node[row[at - 1].node].gain; at--)
			row[at] = row[at - 1];
		row[at] = (struct grow_row){ (int16_t)tree, (int16_t)i };
		n += n < g->width;
	}
	return n;
}

int grow_levels(struct grow *g, struct err *e)
{
	for (;;) {
		struct grow_pass out = { 0 };
		int32_t n = 0;
		int64_t start;

		for (int32_t i = 0; i < g->n_trees; i++) {
			n += choose_level(g, i, g->row + n);
			g->tree[i].level = g->tree[i].n;
		}
		if (!n || (g->stop && atomic_load(g->stop)))
			return 0;
		start = draft_cost_now(g->gain.cost);
		if (g->pass(g->arg, g, g->row, n, &out, e))
			return -1;
		gain_pass(&g->gain, start);
		for (int32_t i = 0; i < n; i++) {
			g->tree[g->row[i].tree].node[g->row[i].node].row = i;
			grow_offer(g, g->row[i].tree, g->row[i].node, out.logits + (size_t)i * (size_t)g->vocab,
				&out.stats[i]);
		}
	}
}

/* ---- the proposal ---- */

/* Chooses the worthiest nodes; a parent is worth no less than its children and precedes them, so it
 * is chosen too. Under rejection no drawn node is left out for what its children are worth: that
 * would be a choice by what was drawn. */
static void choose(struct gain *w, struct grow_tree *t, int32_t nodes)
{
	int16_t best[DRAFT_NODES];
	float gain[DRAFT_NODES];
	int32_t n = 0;

	for (int32_t i = 0; i < t->n; i++) {
		int32_t at = n < nodes ? n : nodes - 1;

		t->node[i].chosen = false;
		if (n == nodes && t->node[i].gain <= gain[at])
			continue;
		for (; at > 0 && t->node[i].gain > gain[at - 1]; at--) {
			best[at] = best[at - 1];
			gain[at] = gain[at - 1];
		}
		best[at] = (int16_t)i;
		gain[at] = t->node[i].gain;
		n += n < nodes;
	}
	if (!t->job->rejection)
		n = gain_choose(w, gain, n);
	for (int32_t i = 0; i < n; i++)
		t->node[best[i]].chosen = true;
}

/* The worthiest child of `node` that is chosen and not yet written, or -1. */
static int32_t next_child(const struct grow_tree *t, int32_t node)
{
	int32_t best = -1;

	for (int32_t i = node + 1; i < t->n; i++)
		if (t->node[i].chosen && t->node[i].parent == node &&
			(best < 0 || t->node[i].gain > t->node[best].gain))
			best = i;
	return best;
}

/* Writes the tree depth-first, the worthiest child first. */
static void write_tree(struct grow_tree *t, struct draft *out)
{
	int32_t written[DRAFT_MAX + 1] = { -1 }, from[DRAFT_MAX + 1] = { -1 }, depth = 0;

	out->n = 0;
	while (depth >= 0) {
		int32_t child = next_child(t, from[depth]);

		if (child < 0) {
			depth--;
			continue;
		}
		t->node[child].chosen = false;
		written[depth + 1] = draft_add(out, written[depth], t->node[child].id, t->node[child].p);
		out->dense[written[depth + 1]] = t->node[child].dense;
		from[++depth] = child;
	}
}

void grow_write(struct grow *g)
{
	for (int32_t i = 0; i < g->n_trees; i++) {
		choose(&g->gain, &g->tree[i], min32(g->nodes, g->tree[i].job->nodes));
		write_tree(&g->tree[i], g->tree[i].job->out);
	}
}

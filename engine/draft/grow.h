/* Growing trees of guesses level by level, for all requests at once, with a network that computes
 * one row for each node.
 *
 * After EAGLE-2 (Li et al. 2024b, section 4): a node's worth is the product of the confidences on
 * its path; each level expands the worthiest nodes, and the worthiest of all nodes are proposed.
 * Width 1 is a chain. What is worth less than its row is not proposed. What is worth so little that
 * its children, which are worth less, would cost more than they bring, since they take a pass
 * besides their rows, is not expanded: see struct gain. Thread: the engine's. Nothing is allocated
 * after opening. */
#pragma once

#include "engine/draft/guess.h"
#include "engine/draft/draft_cost.h"

enum {
	GROW_WIDTH = 8, /* nodes of a level that are expanded */
	GROW_FAN = 4,   /* children of a node */
	GROW_NODES = (DRAFT_MAX - 1) * GROW_WIDTH * GROW_FAN + GROW_FAN,
};

struct grow_node {
	int32_t id;
	int16_t parent; /* -1: the newest token */
	int16_t depth;  /* 1: after the newest token */
	int32_t row;    /* of the pass that it was expanded in; -1: none */
	float p, gain;
	const float *dense;
	const int32_t *table;   /* block table, set by the code that runs the passes */
	bool has_child, chosen; /* has_child: one of its children was expanded */
};

struct grow_tree {
	const struct draft_job *job;
	struct grow_node *node; /* [GROW_NODES] */
	int32_t n, level;       /* level: first node of the newest depth */
	bool has_child;         /* of the newest token, as of a node */
};

/* One row to compute: node `node` of tree `tree`. */
struct grow_row {
	int16_t tree, node;
};

struct grow_pass { /* results of a pass, by row */
	const float *logits;
	const struct k_logit_stats *stats;
};

/* What guesses must be worth: the rows that check them and the passes that make them take time, in
 * which other tokens could have been drawn. Prices are in tokens, so that they compare with
 * probabilities, and follow what steps cost here (draft_cost.h), or one is set by hand.
 *
 * A node that brings w tokens and costs a share c of a plain step pays off if w > c * speed, where
 * speed is what a plain step's time brings already (Dinkelbach 1967 on ratios). */
struct gain {
	const struct draft_cost *cost; /* NULL: set by hand */
	/* the least worth of a node that is proposed; of one that gets children */
	float least, deeper;
	double rows[DRAFT_NODES + 1]; /* of so many nodes */
	double pass;
	double pass_ns;       /* of a pass, of late */
	double tokens, steps; /* what guesses were to bring, of late, and took, in plain steps */
	int32_t n_passes;     /* since gain_begin() */
};

struct grow;
/* Computes rows; each row's parent was computed in the pass before, or is the newest token. */
typedef int grow_pass_fn(void *arg, struct grow *g, const struct grow_row *row, int32_t n,
	struct grow_pass *out, struct err *e);

struct grow {
	int32_t depth, nodes, width, fan;
	struct gain gain;
	struct guesser *guesser;
	grow_pass_fn *pass;
	void *arg;
	int32_t vocab;           /* of the logits: a row's length */
	const atomic_bool *stop; /* as of struct draft_env */

	struct grow_tree *tree; /* [slots] */
	struct grow_row *row;   /* [slots * GROW_WIDTH] */
	int32_t n_trees, slots;
};

/* The caller fills in depth … arg before. */
int grow_open(struct grow *g, const struct draft_env *env, struct err *e);
void grow_close(struct grow *g);

/* Begins empty trees for the jobs. The caller then offers the first levels, grows the trees, and
 * has job->out written. */
void grow_begin(struct grow *g, const struct draft_job *job, int32_t n);
/* Offers children of a node (-1: the newest token), from the row of logits after it. */
void grow_offer(struct grow *g, int32_t tree, int32_t node, const float *logits,
	const struct k_logit_stats *stats);
/* The same for guesses already made; they do not depend on the node's ancestors (heads that see no
 * path). */
void grow_add(
	struct grow *g, int32_t tree, int32_t node, const struct draft_guess *guess, int32_t n);
int grow_levels(struct grow *g, struct err *e);
void grow_write(struct grow *g);

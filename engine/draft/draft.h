/* Drafters: who guesses tokens ahead. One file each in engine/draft/, one line in the table there.
 *
 * Each step the engine asks its drafter once, for all requests that lack only their newest token
 * (propose). What it answers is a tree of guesses for each (a chain is a tree without branches):
 * the target computes a row for the newest token and one for each node in the same step, and the
 * draws decide which path is kept. After the step the drafter is told what was computed (learn),
 * for prompts too. Whatever a drafter proposes, the text stays what plain decoding gives, bit for
 * bit.
 *
 * A drafter keeps what it likes by request, and must bear that a request goes back, is preempted,
 * or never comes again: the ids it is handed are the truth. forget() says that one has ended.
 * Thread: the engine's. propose() and learn() allocate nothing once a request is known. */
#ifndef CUTAWAY_ENGINE_DRAFT_H
#define CUTAWAY_ENGINE_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/sample/sampler.h"

struct draft_cost;
struct forward;
struct gguf;
struct k_ctx;
struct memory_store;
struct memory_table;
struct model;

enum {
	DRAFT_MAX = 16,    /* tokens ahead */
	DRAFT_NODES = 63,  /* of a tree: with the newest token 64 rows */
	DRAFT_LEAVES = 16, /* paths of a tree */
	DRAFT_SPARE = 64,  /* pages of branches, in one step */
};

/* A tree of guesses. The parent of node i is node parent[i] < i, or the newest token if that is -1;
 * siblings have different ids. The first child of a node continues its path in the same pages, the
 * others get pages of their own for the tail: so the likeliest comes first, and nodes of a path are
 * best neighbours. */
struct draft {
	int32_t n;
	int32_t id[DRAFT_NODES];
	int8_t parent[DRAFT_NODES];
	float q[DRAFT_NODES]; /* probability the drafter gave each; 1 for a deterministic guess */
	/* For the rejection rule: the distribution [vocab] that the node was drawn from
	 * (PURPOSE_DRAFT), or NULL if it was not drawn but chosen: then it counts as certain. Stays
	 * until the next propose(). */
	const float *dense[DRAFT_NODES];
	const char *by; /* whose guess it is, where a drafter asked another; else NULL */
};

/* What the engine has that a drafter may use. NULL where there is no model
 * (sessions/whatif/whatif.h): drafters that need one then fail to open. All of it outlives the
 * drafter. */
struct draft_env {
	struct k_ctx *kernels;
	const struct model *model;        /* the target */
	const struct forward *forward;    /* its pass: x holds the newest step's rows */
	const struct memory_store *store; /* its pages, of each memory group */
	const char *model_path;
	struct draft_cost *cost; /* what a step costs by its rows; NULL or not measured: nobody knows */
	int32_t slots, ctx, vocab;
};

/* A request that a guess is wanted for. */
struct draft_job {
	int64_t request;
	const int32_t *ids; /* prompt and text so far; what follows ids[n - 1] is to be guessed */
	int32_t n, n_prompt;
	/* at most so many nodes, at most so many tokens ahead; both at least 1 */
	int32_t nodes, depth;
	const struct memory_table *table; /* its block tables … */
	/* … which positions n - 1 … n + depth - 1 may be written to: for needs_pages; no guess
	 * without */
	bool writable;
	/* how the target draws: a drafter at a temperature draws with the */
	const struct sample_params *params;
	/* same key (PURPOSE_TARGET, the position), which makes them agree more */
	int64_t sample;
	bool rejection;    /* verified by modified rejection: see draft.dense */
	struct draft *out; /* n = 0: no guess */
};

/* What a step computed for a request. Rows are rows of the step: f->x + row * dim is the residual
 * stream after the last layer (in the kernels' memory). */
struct draft_seen {
	int64_t request;
	const int32_t *ids; /* all its tokens, after the draws */
	int32_t n;
	int32_t pos, n_rows; /* positions pos … pos + n_rows - 1 stand now computed … */
	const int32_t *row;  /* … by these rows [n_rows] */
	/* of a step that drafted, else NULL and 0 */
	const struct draft *draft;
	const int32_t *top; /* [draft.n + 1] the target's most probable next token after the newest
						 * token (first) and after each node, whether that was kept or not */
	int32_t n_kept;     /* nodes kept */
};

/* State of a Jacobi or lookahead window in a step, for views: a grid of guesses, and the n-grams
 * that it yielded. */
enum { DRAFT_ENTERED = 16 };
struct draft_window {
	int32_t levels, columns;
	/* [levels][columns]: level 0 column 0 stands at position pos, each further column and level one
	 * further on; -1: none */
	int32_t pos;
	const int32_t *cell;
	/* [columns]: what the target predicts after the last level; -1: not computed */
	const int32_t *next;
	int32_t gram, n_entered;
	/* [n_entered][gram]: n-grams that entered the pool; the first n_own read off the window */
	const int32_t *entered;
	int32_t n_own;
	int32_t pool; /* n-grams that it has now */
};

/* A drafter that weighs others changed its mind. */
struct draft_choice {
	const char *spec, *before;  /* "off": plain decoding. They live as long as the drafter */
	int32_t nodes;              /* tokens it lets it guess at most */
	double speed, speed_before; /* predicted, against plain decoding */
};

struct drafter; /* state of one drafter for one engine */
struct shadow;  /* shadow.h */

struct draft_ops {
	const char *name;
	const char *args; /* "k[,min,max]": for help */
	const char *doc;
	/* what completion offers, with arguments worth a try; NULL: its name */
	const char *const *offer;
	bool needs_pages;
	bool computes; /* passes of its own: a guess has a price */
	/* args: what follows "name:", or NULL. */
	int (*open)(struct drafter **d, const struct draft_env *env, const char *args, struct err *e);
	void (*close)(struct drafter *d);
	/* Fails only as k_run() does. */
	int (*propose)(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e);
	/* NULL: it needs to know nothing. Called after each step, rows of which are still there. */
	int (*learn)(struct drafter *d, const struct draft_seen *seen, int32_t n, struct err *e);
	void (*forget)(struct drafter *d, int64_t request); /* may be NULL */
	int32_t (*width)(const struct drafter *d);          /* the most nodes it proposes */
	/* What learn() was just told of the request's step. NULL: it has no window, or had none. */
	const struct draft_window *(*window)(struct drafter *d, int64_t request);
	/* It weighs other drafters by what steps cost: those. NULL: it guesses itself. */
	struct shadow *(*weighed)(struct drafter *d);
	/* With weighed: true once after each change of mind. */
	bool (*chose)(struct drafter *d, struct draft_choice *out);
	/* In the shadow: what it opens by where a list says "all", a pattern of draft_spec(). NULL: its
	 * name; "": it has no guesses there. */
	const char *beside;
	/* What a proof tries it by; ends with name NULL. */
	const struct draft_trial *trials;
};

struct draft_trial {
	const char *name;    /* "ngram tree" */
	const char *pattern; /* of draft_spec() */
	bool own_count;      /* how many tokens it guesses is its own affair */
	double rows;         /* its passes for one guess, in rows of the model, roughly */
};

/* The table; ends with NULL. */
extern const struct draft_ops *const draft_table[];

/* Whose name this is, with arguments or without; NULL: nobody's. */
const struct draft_ops *draft_find(const char *spec);
/* Fills a pattern: $n: so many nodes, $h: half of them, $l: four fifths of the model's layers, $f:
 * file. */
void draft_spec(
	const char *pattern, int32_t nodes, int32_t layers, const char *file, char *out, size_t cap);
/* The drafters that d weighs, or NULL; ops may be NULL. */
static inline struct shadow *draft_weighed(const struct draft_ops *ops, struct drafter *d)
{
	return ops && ops->weighed ? ops->weighed(d) : NULL;
}
/* What all of them offer, one after the other; NULL: there are no more. */
const char *draft_offer(int i);
/* Opens "off" (*ops = NULL), "ngram", "ngram:4" … ; an unknown name lists the known ones. */
int draft_open(const char *spec, const struct draft_env *env, const struct draft_ops **ops,
	struct drafter **d, struct err *e);

/* Adds a node; -1 if there is no room. */
int32_t draft_add(struct draft *t, int32_t parent, int32_t id, float q);
/* The child of parent (-1: of the newest token) with this id, or -1. */
int32_t draft_child(const struct draft *t, int32_t parent, int32_t id);
bool draft_has_child(const struct draft *t, int32_t node); /* -1: the newest token */
/* Tokens ahead of the newest: 1 for a child of it. */
int32_t draft_depth(const struct draft *t, int32_t node);
/* The deepest node's. */
int32_t draft_reach(const struct draft *t);
/* branch[i]: 0 on the first path, else the number, from 1, of the branch that node i is on: a node
 * that is not its parent's first child begins one. Returns how many branches. */
int32_t draft_branches(const struct draft *t, int8_t branch[DRAFT_NODES]);
/* Cuts what is more than so many nodes, depth or leaves, and equal siblings: what is left is a
 * tree. */
void draft_prune(struct draft *t, int32_t nodes, int32_t depth, int32_t leaves);

/* Spare pages that are left in a step; INT32_MAX where there is no such memory. */
struct draft_room {
	int32_t page_size;
	/* of keys and values: a branch takes some, from the page of the newest token on */
	int32_t pages;
	int32_t states; /* a node takes one */
};
/* Cuts a tree to what a step has room for: nodes, depth, and the spare pages, which it takes. */
void draft_fit(struct draft *t, const struct draft_job *job, struct draft_room *room);
/* Pages that a branch has for itself, if the tree reaches so many tokens ahead of position
 * newest. */
int32_t draft_branch_pages(int32_t newest, int32_t reach, int32_t page_size);

/* A token of the text for a position of which nothing is known: pseudo-random by position, the same
 * each time. */
int32_t draft_random(const int32_t *ids, int32_t n, int32_t position);

/* Reads "4,2,8": at most cap numbers in [least, most]; how many, or -1. NULL and "" are none. */
int draft_numbers(const char *args, int32_t least, int32_t most, int32_t *out, int cap);

#endif

/* Drafters guess tokens ahead. One file each in engine/draft/, one line in the table there.
 *
 * Each step the engine calls its drafter once, for all requests that lack only their newest token
 * (propose). The drafter proposes a tree of guesses for each (a chain is a tree without branches):
 * the target computes a row for the newest token and one for each node in the same step, and the
 * draws decide which path is kept. After the step the drafter gets what was computed (learn), for
 * prompts too. Whatever a drafter proposes, the text stays what plain decoding gives, bit for bit.
 *
 * A drafter may keep state by request, but a request can be rewound, preempted, or never come
 * again: the ids passed to each call are authoritative. forget() reports that one has ended.
 * Thread: the engine's. propose() and learn() allocate nothing once a request is known. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/sample/sampler.h"

struct draft_cost;
struct forward;
struct memory_store;
struct memory_table;
struct model;

enum {
	DRAFT_MAX = 16,     /* tokens ahead */
	DRAFT_NODES = 63,   /* of a tree: with the newest token 64 rows */
	DRAFT_LEAVES = 16,  /* paths of a tree */
	DRAFT_SCRATCH = 64, /* pages of branches, in one step */
};

/* A tree of guesses. The parent of node i is node parent[i] < i, or the newest token if that is -1;
 * siblings have different ids. The first child of a node continues its path in the same pages, the
 * others get pages of their own for the tail: so the likeliest comes first, and nodes of a path
 * should be neighbours. */
struct draft {
	int32_t n;
	int32_t id[DRAFT_NODES];
	int8_t parent[DRAFT_NODES];
	float q[DRAFT_NODES]; /* probability the drafter gave each; 1 for a deterministic guess */
	/* For modified rejection: the distribution [vocab] that the node was drawn from
	 * (PURPOSE_DRAFT), or NULL if it was not drawn but chosen: then it counts as certain. Valid
	 * until the next propose(). */
	const float *dense[DRAFT_NODES];
	const char *by; /* the drafter that guessed, where one used another; else NULL */
};

/* What a drafter may use of the engine. NULL where there is no model (sessions/whatif/whatif.h):
 * drafters that need one then fail to open. All of it outlives the drafter. */
struct draft_env {
	struct k_ctx *kernels;
	const struct model *model;        /* the target */
	struct forward *forward;          /* its pass: x holds the newest step's rows */
	const struct memory_store *store; /* its pages, of each memory group */
	const char *model_path;
	struct draft_cost *cost; /* what a step costs by its rows; NULL or not measured: unknown */
	atomic_bool *stop;       /* of a drafter on a thread of its own: the guess is not needed */
	int32_t slots, ctx, vocab;
};

/* A request to guess for. */
struct draft_job {
	int64_t request;
	const int32_t *ids; /* prompt and text so far; the guess follows ids[n - 1] */
	int32_t n, n_prompt;
	int32_t n_input; /* the first of them, which an encoder reads; 0: there is none */
	/* at most so many nodes, at most so many tokens ahead; both at least 1 */
	int32_t nodes, depth;
	const struct memory_table *table; /* its block tables … */
	/* … whose positions n - 1 … n + depth - 1 may be written: drafters with needs_pages require
	 * it */
	bool writable;
	/* how the target draws: at a temperature a drafter draws with the */
	const struct sample_params *params;
	/* same key (PURPOSE_TARGET, the position), so that they agree more often */
	int64_t sample;
	bool rejection;    /* verified by modified rejection: see draft.dense */
	struct draft *out; /* n = 0: no guess */
};

/* What a step computed for a request. Rows are rows of the step: f->x + row * dim is the residual
 * stream after the last layer (in the kernels' memory), forward_stream() has those after others. */
struct draft_seen {
	int64_t request;
	const int32_t *ids; /* all its tokens, after the draws */
	int32_t n;
	int32_t pos, n_rows; /* positions pos … pos + n_rows - 1 are now computed … */
	const int32_t *row;  /* … by these rows [n_rows] */
	/* in a step with drafts, else NULL and 0 */
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
	/* [levels][columns]: level 0 column 0 is at position pos, each further column and level one
	 * position later; -1: none */
	int32_t pos;
	const int32_t *cell;
	/* [columns]: what the target predicts after the last level; -1: not computed */
	const int32_t *next;
	int32_t gram, n_entered;
	/* [n_entered][gram]: n-grams that entered the pool; the first n_own come from the window */
	const int32_t *entered;
	int32_t n_own;
	int32_t pool; /* n-grams in the pool now */
};

/* A drafter that compares others changed its choice. */
struct draft_choice {
	const char *spec, *before;  /* "off": plain decoding. Valid as long as the drafter */
	int32_t nodes;              /* the most tokens that it may guess */
	double speed, speed_before; /* predicted speedup over plain decoding */
};

struct drafter; /* state of one drafter for one engine */
struct shadow;  /* shadow.h */

struct draft_ops {
	const char *name;
	const char *args; /* "k[,min,max]": for help */
	const char *doc;
	/* what completion offers, with useful arguments; NULL: its name */
	const char *const *offer;
	bool needs_pages;
	bool computes; /* it runs passes of its own: a guess costs time */
	bool layers;   /* those passes are through the target's layers: a rank that has a part cannot */
	/* it goes by what steps of up to so many rows cost, which is measured before it opens; 0: not
	 */
	int32_t cost_rows;
	size_t size; /* of its struct drafter */
	/* Why it cannot be opened without a model; NULL: it can. */
	const char *alone;
	/* args: what follows "name:", or NULL. d is all zero; env is NULL where there is no model. */
	int (*open)(struct drafter *d, const struct draft_env *env, const char *args, struct err *e);
	/* Also after open() failed; d itself is the caller's. */
	void (*close)(struct drafter *d);
	/* Fails only as k_run() does. */
	int (*propose)(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e);
	/* NULL: not needed. Called after each step, while its rows are still in the buffers. */
	int (*learn)(struct drafter *d, const struct draft_seen *seen, int32_t n, struct err *e);
	void (*forget)(struct drafter *d, int64_t request); /* may be NULL */
	size_t width_at; /* of the int32_t in struct drafter that is the most nodes it proposes */
	/* The window of the request's step that learn() just got. NULL: it has no window, or had
	 * none. */
	const struct draft_window *(*window)(struct drafter *d, int64_t request);
	/* The drafters that it compares by the cost of steps. NULL: it guesses itself. */
	struct shadow *(*weighed)(struct drafter *d);
	/* With weighed: true once after each change of its choice. */
	bool (*chose)(struct drafter *d, struct draft_choice *out);
	/* May be NULL, as the next: the guesses for these jobs, in job.out, begin to be computed. The
	 * jobs hold until told() or forget(). */
	void (*verifying)(struct drafter *d, const struct draft_job *job, int32_t n);
	/* After learn(): the i-th block that was drafted meanwhile, without its step, and start_ns by
	 * now_ns(); NULL: there are no more. */
	const struct ev_ahead *(*told)(struct drafter *d, int32_t i);
	/* In the shadow: the spec it is opened with where a list has "all", a pattern of draft_spec().
	 * NULL: its name; "": it cannot guess there. */
	const char *shadowed;
	/* The variants that certify tests; ends with name NULL. */
	const struct draft_variant *variants;
};

struct draft_variant {
	const char *name;    /* "ngram tree" */
	const char *pattern; /* of draft_spec() */
	bool own_count;      /* it chooses itself how many tokens it guesses */
	double rows;         /* its passes for one guess, in rows of the model, roughly */
};

/* The members that all have: x_open() and so on, and struct drafter's `width`. */
#define DRAFTER(x, name_, args_, doc_)                                                             \
	.name = (name_), .args = (args_), .doc = (doc_), .size = sizeof(struct drafter),               \
	.open = x##_open, .close = x##_close, .propose = x##_propose,                                  \
	.width_at = offsetof(struct drafter, width)

/* The table; ends with NULL. */
extern const struct draft_ops *const draft_table[];

/* The drafter of this name, with arguments or without; NULL: none. */
const struct draft_ops *draft_find(const char *spec);
/* Fills in a pattern: $n: nodes, $h: half of them, $l: four fifths of the model's layers, $f:
 * file. */
void draft_spec(
	const char *pattern, int32_t nodes, int32_t layers, const char *file, char *out, size_t cap);
/* The drafters that d compares, or NULL; ops may be NULL. */
static inline struct shadow *draft_weighed(const struct draft_ops *ops, struct drafter *d)
{
	return ops && ops->weighed ? ops->weighed(d) : NULL;
}
/* What all of them offer, one after the other; NULL: there are no more. */
const char *draft_offer(int i);
/* Opens "off" (*ops = NULL), "ngram", "ngram:4" … ; an unknown name lists the known ones. */
int draft_open(const char *spec, const struct draft_env *env, const struct draft_ops **ops,
	struct drafter **d, struct err *e);
/* The same of a row of the table. */
int draft_begin(struct drafter **d, const struct draft_ops *ops, const struct draft_env *env,
	const char *args, struct err *e);
void draft_close(const struct draft_ops *ops, struct drafter *d); /* d may be NULL */
static inline int32_t draft_width(const struct draft_ops *ops, const struct drafter *d)
{
	return *(const int32_t *)(const void *)((const char *)d + ops->width_at);
}

/* Adds a node; -1 if there is no room. */
int32_t draft_add(struct draft *t, int32_t parent, int32_t id, float q);
/* The child of parent (-1: of the newest token) with this id, or -1. */
int32_t draft_child(const struct draft *t, int32_t parent, int32_t id);
/* The same, added as certain if it is not there; -1 if there is no room. */
int32_t draft_follow(struct draft *t, int32_t parent, int32_t id);
bool draft_has_child(const struct draft *t, int32_t node); /* -1: the newest token */
/* Depth of a node: 1 for a child of the newest token. */
int32_t draft_depth(const struct draft *t, int32_t node);
/* The depth of the deepest node. */
int32_t draft_reach(const struct draft *t);
/* branch[i]: 0 on the first path, else the number, from 1, of the branch that node i is on: a node
 * that is not its parent's first child begins one. Returns the number of branches. */
int32_t draft_branches(const struct draft *t, int8_t branch[DRAFT_NODES]);
/* Cuts nodes beyond the given number, depth or leaves, and equal siblings; the rest is still a
 * tree. */
void draft_prune(struct draft *t, int32_t nodes, int32_t depth, int32_t leaves);

/* Spare pages left in a step; INT32_MAX where the model has no such memory. */
struct draft_room {
	int32_t page_size;
	/* of keys and values: a branch takes some, starting with a copy of the newest token's page */
	int32_t pages;
	int32_t states; /* a node takes one */
};
/* Cuts a tree to what a step has room for: nodes, depth, and the scratch pages, which it takes. */
void draft_fit(struct draft *t, const struct draft_job *job, struct draft_room *room);
/* Pages that a branch has of its own, if the tree reaches `reach` tokens ahead of position
 * newest. */
int32_t draft_branch_pages(int32_t newest, int32_t reach, int32_t page_size);

/* A token of the text, for a position without a guess: pseudo-random by position, the same each
 * time. */
int32_t draft_random(const int32_t *ids, int32_t n, int32_t position);

/* Reads "4,2,8": at most cap numbers in [least, most]; returns how many, or -1. NULL and "" have
 * none. */
int draft_numbers(const char *args, int32_t least, int32_t most, int32_t *out, int cap);

/* A drafter's network on the kernels: a pass like the target's (forward.h) over a model that mostly
 * borrows the target's parts, with a head that may be trimmed, and the trees that grow from it.
 *
 * Thread: the engine's. Nothing is allocated after opening. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/draft/grow.h"
#include "engine/run/forward.h"
#include "engine/model/model.h"
#include "engine/model/model_tensors.h"

enum {
	NET_ROWS = 256,    /* of a pass, at least */
	NET_COST_ROWS = 8, /* of steps whose cost decides how much is guessed; more follow the slope */
};

#define NET_ALONE "drafts with a network beside a model, and there is no model here"

/* A drafter's numeric arguments: tokens ahead, nodes of a tree (a chain has as many as tokens
 * ahead), and the least worth of a node in percent. The last are set by the drafter, not by the
 * user: whether a least that is not given follows what rows cost, if that is known, and the worth
 * at which a node is expanded, in multiples of the least; 2 where a pass costs about as much as a
 * row of the target's step. */
struct net_args {
	int32_t depth, nodes, least;
	bool measured;
	int32_t deeper;
};

struct net {
	struct draft_env env;
	struct draft_head head;
	struct model model; /* what the pass runs: some parts are the target's */
	struct forward forward;
	struct guesser guesser;
	struct grow grow;
	int32_t n_seqs;
	struct net_args args;
	/* if the drafter has a file of its own */
	struct weights weights;
	struct layer *layer; /* [n_layers] */
	int32_t n_layers;
};

/* Reads "[FILE,]k[,nodes[,least]]" of the drafter `name`: the file's path (draft_find_file), and
 * net->args; missing numbers keep their values. */
int net_read_args(
	struct net *net, const char *name, const char *args, char path[DRAFT_PATH], struct err *e);
/* Opens a drafter's file of this kind, the net with its vocabulary, and its weights (net->weights):
 * load() lists them with l, and reports errors in the err of l. */
typedef void net_load_fn(void *drafter, const struct gguf *g, struct model_loader *l);
int net_open_file(struct net *net, const struct draft_env *env, const char *kind, const char *path,
	net_load_fn *load, void *drafter, struct err *e);
/* For load(): n layers like the target's, and an output norm, are the net's own. */
void net_load_layers(struct net *net, struct model_loader *l, int32_t n);
/* A copy of the target whose head is the rows `ids` (taken; NULL: all n) of the target's. The
 * caller may change net->model before net_open_pass(). */
int net_open(struct net *net, const struct draft_env *env, int32_t *ids, int32_t n, struct err *e);
/* Opens the trees alone, by net->args; pass and arg as below. */
int net_open_trees(struct net *net, grow_pass_fn *pass, void *arg, struct err *e);
/* Opens the pass over net->model with its keys and values in store, and the trees; pass and arg: of
 * struct grow. */
int net_open_pass(struct net *net, const struct memory_store *store, grow_pass_fn *pass, void *arg,
	struct err *e);
void net_close(struct net *net);
/* Memory of the kernels, which cut() is asked to share out, after it was asked how much; what: for
 * the error. */
void *net_take(struct net *net, void (*cut)(struct drafter *d, struct cutter *c), struct drafter *d,
	enum k_memory where, const char *what, struct err *e);

/* To run a pass: begin, sequences and rows, run. Rows of one sequence must be neighbours, in the
 * order of their positions. */
void net_begin(struct net *net);
/* Adds a sequence: one table for all groups, or one each. */
int32_t net_seq(struct net *net, const int32_t *table);
int32_t net_seq_of(struct net *net, const struct memory_table *table);
/* Adds a row and returns its number. out: its logits are needed; outputs are in the order of their
 * rows. */
int32_t net_row(struct net *net, int32_t id, int32_t pos, int32_t seq, bool out);
int net_run(struct net *net, struct err *e);
static inline const float *net_logits(const struct net *net, int32_t out)
{
	return net->forward.logits + (size_t)out * (size_t)net->head.n;
}

/* Copies rows of the kernels' memory to others, [.., dim]; neighbours together. */
struct net_copy {
	struct k_ctx *kernels;
	float *to;
	const float *from;
	size_t n, dim;
};
void net_copy_row(struct net_copy *c, float *to, const float *from);
void net_copy_end(struct net_copy *c);

/* Grows the trees from what they were offered, and writes them to the jobs. */
int net_grow(struct net *net, struct err *e);

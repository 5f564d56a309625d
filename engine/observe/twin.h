/* The exact twin of lossy requests: the same tokens through exact weights, with a cache in f16 and
 * full visibility, and for each row of logits what separates the two.
 *
 * The twin has keys and values of its own; the weights are the engine's, unless it has a file of
 * its own. It computes only what has a row to compare with: when a token was drawn, all rows of its
 * text that it has not computed. Thread: the engine's. Nothing is allocated after opening. */
#pragma once

#include "engine/draft/draft.h"
#include "kernels/kernels.h"

struct twin;

/* path: of the file with the exact weights, of the same vocabulary; NULL: the engine's own model.
 * most: tokens that a step may give. ERR_USAGE for a model that keeps states. */
int twin_open(
	struct twin **out, const struct draft_env *env, const char *path, int32_t most, struct err *e);
void twin_close(struct twin *t); /* NULL is fine */

/* The row that gives the token at pos is wanted; ids [pos] are the tokens before it. Of a request,
 * positions come in order, one after the other; at most `most` before twin_run(). */
void twin_want(struct twin *t, int64_t request, int32_t adapter, const int32_t *ids, int32_t pos);
struct twin_cost {
	int64_t rows, ns, bytes, ops;
};
/* Computes what is wanted and calls fn with each row, in the order in which it was asked for; the
 * row is valid during the call. Fails only as k_run() does. */
typedef void twin_fn(void *arg, int32_t nth, const float *row, const struct k_logit_stats *stats);
int twin_run(struct twin *t, twin_fn *fn, void *arg, struct twin_cost *cost, struct err *e);
/* The request has ended; not between twin_want() and twin_run(). */
void twin_forget(struct twin *t, int64_t request);

/* What separates a lossy row from the exact one, before penalties, temperature and cuts; natural
 * logarithms. The sum is in the order of ids and of our own exp, so the figures are the same on any
 * machine; equal rows give a kl of exactly 0. */
struct price {
	double kl;               /* sum of p log(p / q), p exact, q lossy (Kullback and Leibler 1951) */
	double logp, exact_logp; /* of the token: lossy, exact */
	int32_t rank;            /* of the token in the exact row; 1: most probable */
};
struct price price_of(const float *exact, const struct k_logit_stats *of_exact, const float *lossy,
	const struct k_logit_stats *of_lossy, int32_t vocab, int32_t id);

/* A probe of one position of a sequence: it computes again, exactly, what no recording holds;
 * logits are a function of the tokens.
 *
 * A probe is a forward pass of its own over tokens 0 … n - 1, with its own KV pages, beside the
 * engine's: it changes no state of the engine and emits no event. The last row's ops run one
 * at a time, and what each writes is kept:
 * - the logit lens (nostalgebraist, "interpreting GPT: the logit lens", 2020): the output norm and
 * matrix applied to the residual stream as each layer leaves it;
 * - the attention of every head of every layer over all positions (the probabilities of rule 11,
 * scaled);
 * - how sparse the feed-forward's activations are (Liu et al. 2023, "Deja Vu", section 3);
 * - all logits.
 * Thread: the engine's (see actor_call). Cost: one prefill of n tokens. Where the kernels' memory
 * is a device's, the first probe also opens the model's file again on the CPU, which gives the same
 * bits, and the engine keeps it: that costs its time, and the weights once more in the host's
 * memory. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/core/engine.h"
#include "kernels/kernels.h"

enum { PROBE_TOP = 8 };

struct probe_guess {
	int32_t id;
	float logit, p;
};

struct probe_layer {
	struct probe_guess top[PROBE_TOP]; /* by the lens, best first */
	float entropy;                     /* bits, of the lens's distribution */
	float token_p;                     /* of struct probe's token, by the lens */
	int32_t token_rank;                /* its rank, from 1 */
	float residual_rms;                /* of the residual stream after the layer */
	float act_max;                     /* largest |activation| of the feed-forward */
	float act_small;                   /* share of them below a hundredth of that */
	float act_near_zero;               /* share below a thousandth */
	bool attends;                      /* it has attention: else its rows of that are not set */
};

struct probe {
	int32_t n, n_layers, n_heads, n_kv_heads, vocab; /* n: tokens seen */
	/* the token that was requested; with -1, the one that the last layer ranks first */
	int32_t token;
	struct probe_layer *layer;  /* [n_layers] */
	float *attention;           /* [n_layers, n_heads, n]; each row sums to about 1 */
	float *logits;              /* [vocab] */
	struct k_logit_stats stats; /* of them: the hash is the one in the log */
};

/* Called while it runs: `done` tokens of `all`; false stops the probe (ERR_INTERRUPTED). May be
 * NULL. */
typedef bool probe_progress(void *arg, int32_t done, int32_t all);

/* ids [n], at least 1, at most the engine's context. token: whose rank and probability are followed
 * through the layers, or -1. adapter: as of an engine_request. */
int probe_open(struct probe **p, struct engine *e, const char *adapter, const int32_t *ids,
	int32_t n, int32_t token, probe_progress *progress, void *arg, struct err *err);
void probe_close(struct probe *p); /* NULL is fine */

static inline const float *probe_attention(const struct probe *p, int32_t layer, int32_t head)
{
	return p->attention + ((size_t)layer * (size_t)p->n_heads + (size_t)head) * (size_t)p->n;
}

/* One op of the last row, with what it wrote. */
struct probe_stage {
	int32_t op;    /* index in the program */
	int32_t layer; /* -1: before or after the layers */
	enum k_stage stage;
	const char *part;    /* "x", "q", "k", "v", "gate", "up", "mixed", "act", "normed", "logits" */
	const float *values; /* [n_values]; 8-bit blocks are given as scale times integer */
	int32_t n_values;
};
/* Calls fn for every op of the last row, in order: for comparing two back ends stage by stage.
 * values are valid during the call. fn returns false to stop (the result is 0 then too). */
typedef bool probe_stage_fn(void *arg, const struct probe_stage *s);
int probe_stages(struct engine *e, const char *adapter, const int32_t *ids, int32_t n,
	probe_stage_fn *fn, void *arg, struct err *err);

/* All logits of the rows that predict positions first + 1 … n, one row after the other: for
 * comparing two models or two texts. ids [n] are copied. Rows are computed a few at a time. */
struct probe_rows;
int probe_rows_open(struct probe_rows **r, struct engine *e, const int32_t *ids, int32_t n,
	int32_t first, struct err *err);
/* The next row [vocab], valid until the next call; NULL after the last, or with the error. stats
 * may be NULL. */
const float *probe_rows_next(struct probe_rows *r, struct k_logit_stats *stats, struct err *err);
void probe_rows_close(struct probe_rows *r); /* NULL is fine */

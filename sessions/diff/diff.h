/* Two recordings side by side: which request belongs to which, the first token that differs and
 * why, and how far the two diverge after it. From the logs alone; diff_deep() runs the models.
 *
 * Requests are matched by their prompt, then by the text that was typed, then by their order. Two
 * requests with equal tokens so far have equal logits (law 2), so at the first token that differs
 * there are few causes: the logits differ although the tokens before are equal (another model,
 * another arithmetic, a fault), or they are equal and the draw was another (settings, seed), or the
 * user forced a token there. Thread: one. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "engine/core/engine.h"
#include "sessions/history/history.h"

enum diff_cause {
	DIFF_EQUAL,   /* tokens and hashes */
	DIFF_ALONE,   /* the other recording has no such request */
	DIFF_PROMPT,  /* the prompts differ */
	DIFF_FORCED,  /* the user forced a token there */
	DIFF_LOGITS,  /* the hash of the logits differs, with equal tokens before it */
	DIFF_SETTING, /* equal logits; sampling settings differ */
	DIFF_DRAW,    /* equal logits and settings, and yet another token */
	DIFF_CHOSEN,  /* equal logits; a search chose the token, it was not drawn */
	DIFF_LENGTH,  /* one ends where the other goes on */
	DIFF_N_CAUSES,
};
extern const char *const diff_cause_names[DIFF_N_CAUSES];

/* How far two distributions, and the tokens drawn from them, differ over a run of positions. */
struct diff_distance {
	int32_t n;          /* positions that both have */
	int32_t same;       /* of these, with the same token */
	int32_t n_top, top; /* positions whose most probable tokens are known; and equal */
	int32_t n_kl, none; /* positions whose divergence is known; of them with equal logits */
	double kl, kl_max;  /* nats, D(A || B): mean and largest */
};

struct diff_hunk { /* tokens [a, a_end) of A stand where [b, b_end) of B do; indexes of side.ids */
	int32_t a, a_end, b, b_end;
};

struct diff_side {
	const struct history_request *request; /* NULL: none */
	int32_t *ids, n, n_prompt;
	int32_t *row; /* [n] of the request's rows, -1 in the prompt */
};

struct diff_pair {
	struct diff_side side[2];
	enum diff_cause cause;
	/* where the comparison begins: 0, or after the prompts if the vocabularies differ */
	int32_t from[2];
	int32_t at; /* tokens before it, from `from` on, are equal */
	/* first row whose hash differs with equal tokens before it, counted as `at`; or -1 */
	int32_t hash_at;
	struct diff_distance before, after; /* of drawn rows; `after`: the contexts differ too. With
										   recorded candidates the KL is a lower bound: tokens that
										   are not candidates of both count as one */
	struct diff_hunk *hunk;
	int32_t n_hunks;
	char settings[320]; /* those of the two requests that differ: "temperature 0 and 0.7, …" */
};

struct diff {
	struct history *h[2];
	bool same_model, same_vocab; /* same_model: by SHA-256 */
	struct diff_pair *pair;
	int32_t n_pairs, n_equal;
	char session[480]; /* differences between the sessions */
};

int diff_open(struct diff **d, const char *a, const char *b, struct err *e);
void diff_close(struct diff *d); /* NULL is fine */

/* Plain text: a line per pair, the cause below each that differs, a summary at the end. */
void diff_print(struct diff *d, FILE *out);
/* The cause of one pair, for a line: "the draw: temperature 0 and 0.7". */
void diff_describe(struct diff *d, const struct diff_pair *p, char *buf, size_t cap);
/* What each side drew at the first difference, a line each; "" if there is no row. */
void diff_describe_draw(struct diff *d, const struct diff_pair *p, int side, char *buf, size_t cap);

/* With the models, exactly: KL over the whole vocabulary. Where the models differ, both run over
 * the tokens of A, from the first that was drawn; if the models are the same, each text's own rows
 * after the divergence are compared position by position. out [n_pairs]. */
struct diff_deep_options {
	struct engine_options engine[2];
	const atomic_bool *stop; /* or NULL */
	void (*progress)(void *arg, int32_t done, int32_t all);
	void *arg;
};
int diff_deep(
	struct diff *d, const struct diff_deep_options *o, struct diff_distance *out, struct err *e);

/* Hunks of two sequences by the greedy algorithm of Myers 1986, "An O(ND) difference algorithm and
 * its variations"; beyond `most` edits the rest is one hunk. same(arg, i, k): is token i of A token
 * k of B? malloc'd; NULL with *n = 0 if they are equal, *n = -1 if memory ran out. */
struct diff_hunk *diff_hunks(int32_t n_a, int32_t n_b,
	bool (*same)(void *arg, int32_t i, int32_t k), void *arg, int32_t most, int32_t *n);

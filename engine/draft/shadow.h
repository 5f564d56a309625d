/* Drafters that guess beside a run without being used, and the speedup they would have given.
 *
 * Each guesses where it would have guessed, had it been switched on: at a request's newest token,
 * and then not before its guess is settled and the text is past the tokens it would have kept (a
 * *virtual step*). Later text settles it: the race keeps the path that equals the text, so the
 * count of a virtual step's tokens is exact, for drafters whose guesses do not depend on being
 * verified. (The windows of Jacobi and lookahead do: verification computes them. Here they guess
 * from the rest of their state, which is a lower bound.)
 *
 * Sums are kept twice: of the whole session, and exponentially decayed with a half-life of
 * SHADOW_HALF tokens, by which predictions are made. Thread: the engine's. After open nothing is
 * allocated. */
#pragma once

#include "engine/draft/draft_cost.h"

enum { SHADOW_MOST = 16, SHADOW_SPEC = 64, SHADOW_HALF = 128 };

struct shadow_sums {
	double steps, tokens;        /* virtual steps, and the tokens they would have yielded */
	double propose_ns, learn_ns; /* of propose(); of learn(), after decode steps alone */
	double depth;                /* tokens before the steps, summed */
	/* steps that had a node of this number; that kept it */
	double have[DRAFT_NODES], hit[DRAFT_NODES];
	/* guesses at this depth after a path that was right; accepted ones */
	double tried[DRAFT_MAX], accepted[DRAFT_MAX];
};

struct shadow_drafter {
	char spec[SHADOW_SPEC]; /* "ngram:4" */
	const struct draft_ops *ops;
	struct drafter *d;
	bool free; /* it computes nothing */
	/* the same drafter is in use: its guesses come by shadow_note(), and this copy does not
	 * learn */
	bool elsewhere;
	struct shadow_sums all, recent; /* recent: decayed */
};

/* list: "free" (what computes nothing), "all" (every one that opens), or names with their
 * arguments, joined by "+". Names that are listed must open; of "all", those that do not are left
 * out. */
int shadow_open(struct shadow **s, const char *list, const struct draft_env *env, struct err *e);
void shadow_close(struct shadow *s);

int32_t shadow_count(const struct shadow *s);
struct shadow_drafter *shadow_at(struct shadow *s, int32_t i);
bool shadow_needs_pages(const struct shadow *s);

/* Before a step: drafter i (-1: each) guesses for the jobs without an open guess. job.out is not
 * touched. Fails as k_run() does. */
int shadow_ask(struct shadow *s, int32_t i, const struct draft_job *job, int32_t n, struct err *e);
/* The draft in job.out is drafter i's and will be verified in the next step: it is scored like the
 * others, or only recorded as its own. */
void shadow_note(
	struct shadow *s, int32_t i, const struct draft_job *job, int64_t propose_ns, bool scored);
/* After a step: settles guesses, and passes what was computed to the drafters. Only the drafter of
 * a draft gets its verdicts. */
int shadow_learn(struct shadow *s, const struct draft_seen *seen, int32_t n, struct err *e);
void shadow_forget(struct shadow *s, int64_t request);

/* Speedup over plain decoding if the first `nodes` nodes of each guess were verified, with these
 * costs, for n requests at once; NaN if nothing is known. */
double shadow_speed(
	const struct shadow_sums *sums, const struct draft_cost *c, int32_t nodes, int32_t n);
/* The number of nodes with the best speedup, up to most, and that speedup. 0 nodes: plain decoding
 * is best. */
int32_t shadow_best(const struct shadow_sums *sums, const struct draft_cost *c, int32_t most,
	int32_t n, double *speed);

/* Drafters that guess beside a run without being used, and how they would have done.
 *
 * Each guesses where it would have guessed, had it been switched on: at a request's newest token,
 * and then not before its guess is settled and the text is past what it would have kept (a *virtual
 * step*). Text that comes later settles it: the race keeps the path that equals the text, so the
 * count of a virtual step's tokens is exact, for drafters whose guesses do not depend on having
 * been checked. (Jacobi's window and lookahead's do: those compute by being checked. They guess
 * here by what else they have, which is a lower bound.)
 *
 * Sums are kept twice: of the whole session, and exponentially decayed with a half-life of
 * SHADOW_HALF tokens, by which predictions are made. Thread: the engine's. After open nothing is
 * allocated. */
#ifndef CUTAWAY_ENGINE_SHADOW_H
#define CUTAWAY_ENGINE_SHADOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/draft/draft.h"
#include "engine/draft/draft_cost.h"

enum { SHADOW_MOST = 16, SHADOW_SPEC = 64, SHADOW_HALF = 128 };

struct shadow_sums {
	double steps, tokens;        /* virtual steps, and what they would have given */
	double propose_ns, learn_ns; /* of the guesses; of what it was told, a decode step's alone */
	double depth;                /* tokens before the steps, summed */
	/* steps that had a node of this number; and it was kept */
	double have[DRAFT_NODES], hit[DRAFT_NODES];
	/* guesses so many tokens ahead after a path that was right */
	double tried[DRAFT_MAX], accepted[DRAFT_MAX];
};

struct shadow_drafter {
	char spec[SHADOW_SPEC]; /* "ngram:4" */
	const struct draft_ops *ops;
	struct drafter *d;
	bool free; /* it computes nothing */
	/* switched on, as another one of its kind: its guesses come by shadow_note(), and it is not
	 * told */
	bool elsewhere;
	struct shadow_sums all, recent; /* recent: decayed */
};

struct shadow;

/* list: "free" (what computes nothing), "all" (whatever opens), or names with their arguments,
 * joined by "+". Names that are listed must open; of "all", who does not is left out. */
int shadow_open(struct shadow **s, const char *list, const struct draft_env *env, struct err *e);
void shadow_close(struct shadow *s);

int32_t shadow_count(const struct shadow *s);
struct shadow_drafter *shadow_at(struct shadow *s, int32_t i);
bool shadow_needs_pages(const struct shadow *s);

/* Before a step: drafter i (-1: each) guesses for those jobs whose requests it has no open guess
 * for. job.out is not touched. Fails as k_run() does. */
int shadow_ask(struct shadow *s, int32_t i, const struct draft_job *job, int32_t n, struct err *e);
/* The draft in job.out is drafter i's and will be checked in the coming step: it is scored like the
 * others, or only remembered as its own. */
void shadow_note(
	struct shadow *s, int32_t i, const struct draft_job *job, int64_t propose_ns, bool scored);
/* After a step: settles guesses, and tells drafters what was computed. Of a draft only whose it was
 * is told. */
int shadow_learn(struct shadow *s, const struct draft_seen *seen, int32_t n, struct err *e);
void shadow_forget(struct shadow *s, int64_t request);

/* Speed against plain decoding if the first `nodes` nodes of each guess were checked, on a machine
 * of such cost, for n requests at once; NaN if nothing is known. */
double shadow_speed(
	const struct shadow_sums *sums, const struct draft_cost *c, int32_t nodes, int32_t n);
/* The number of nodes at which that is best, up to most, and the speed there. 0 nodes: plain
 * decoding is best. */
int32_t shadow_best(const struct shadow_sums *sums, const struct draft_cost *c, int32_t most,
	int32_t n, double *speed);

#endif

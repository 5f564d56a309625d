/* Drafters: who guesses tokens ahead. One file each in engine/draft/, one line in the table there.
 *
 * A drafter sees a request's tokens and proposes up to k that may follow. It is asked once a step for
 * each decoding request; what it proposes is verified by the target in the same step. Drafters that need
 * the model get it through draft_env later. Thread: the engine's. propose() allocates nothing. */
#ifndef CUTAWAY_ENGINE_DRAFT_H
#define CUTAWAY_ENGINE_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { DRAFT_MAX = 16 };

struct draft {
	int32_t id[DRAFT_MAX];
	float q[DRAFT_MAX]; /* probability the drafter gave each; 1 for a deterministic guess */
	int32_t n;
};

struct drafter; /* state of one drafter for one engine */

struct draft_ops {
	const char *name;
	const char *args; /* "k[,min,max]": for help */
	const char *doc;
	/* args: what stood behind "name:", or NULL. */
	int (*open)(struct drafter **d, const char *args, struct err *e);
	void (*close)(struct drafter *d);
	/* Guess what follows ids[0 … n - 1], at most k tokens. */
	void (*propose)(struct drafter *d, const int32_t *ids, int64_t n, int32_t k, struct draft *out);
	int32_t (*width)(const struct drafter *d); /* the k it was opened with */
};

/* The table; ends with NULL. */
extern const struct draft_ops *const draft_table[];

/* Opens "off" (*ops = NULL), "ngram", "ngram:4" … ; an unknown name lists the known ones. */
int draft_open(const char *spec, const struct draft_ops **ops, struct drafter **d, struct err *e);

#endif

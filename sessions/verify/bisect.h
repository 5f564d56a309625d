/* Finds where two computations of the same row diverge: which of this machine's back ends give a
 * recorded hash, and the first layer and stage at which two of them differ, with both values.
 *
 * Each fast back end first computes the hash of every row up to the one asked for, many rows at a
 * time, because the cause may be earlier (a key or value in the cache). The slow reference runs
 * only if they do not settle it: they do if one of them gives the recorded hash, or if several with
 * different kernels agree on every row. It stops at the first row on which it differs from one of
 * them. That row is then computed op by op, up to the first op that writes a different value
 * (probe.h). Thread: one; engines are opened one after the other. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/core/engine.h"
#include "sessions/history/history.h"

enum { BISECT_MAX_ENDS = 8 };

struct bisect_end { /* a back end of this machine */
	char backend[16], isa[16];
	bool ran;     /* false: it could not run (see why) or was not needed */
	bool unasked; /* not needed: the others had settled it */
	char why[160];
	int32_t rows; /* rows it computed: fewer than all if it diverged from another before */
	int64_t hash; /* of the row asked for, if it computed all */
	bool matches; /* the hash is the recorded one */
};

struct bisect {
	int n_ends;
	struct bisect_end end[BISECT_MAX_ENDS];
	int64_t recorded;
	int32_t n;  /* tokens before the row's prediction: it predicts position n */
	bool agree; /* all that ran give the same hash */

	bool found;    /* two of them differ, as follows: */
	int a, b;      /* these two; a is the one that gives the recorded hash, or else the reference */
	int32_t pos;   /* position of the first row on which they differ */
	int32_t layer; /* -1: before or after the layers */
	char stage[16], part[16];
	int32_t index, n_values, n_differ; /* index of the first value that differs; values in all;
										  values that differ */
	float value_a, value_b;
};

struct bisect_options {
	struct engine_options engine; /* model, threads, device; ctx: 0, or more than n */
	struct lossy_settings lossy;  /* settings to compute with; n = 0: the engine's defaults */
	const char *used_backend, *used_isa; /* back end that found the difference; or NULL */
	const char *recorded_backend, *recorded_isa;
	const char *adapter;     /* of the request, as in an engine_request */
	const atomic_bool *stop; /* or NULL */
	void (*progress)(void *arg, const char *what);
	void *arg;
};

/* ids [n + 1]: the last is what the row predicts (any id will do). recorded: the hash it should
 * have. */
int bisect_run(struct bisect *b, const struct bisect_options *o, const int32_t *ids, int32_t n,
	int64_t recorded, struct err *e);
void bisect_describe_end(const struct bisect_end *end, char *buf, size_t cap); /* "cpu avx2" */

/* Which of several lossy settings costs most: one text scored beside the exact twin with all of
 * them, with each alone and with all but each. Each case is an ordinary score request of the
 * engine, so a recording has its settings, hashes and prices. Thread: the one that steps the
 * engine. */
#pragma once

#include <stdio.h>

#include "engine/core/engine.h"
#include "engine/lossy.h"
#include "sessions/price/prices.h"

enum { APART_CASES = 2 * LOSSY_SETTINGS + 2 };

struct apart_case {
	struct lossy_settings set;
	char name[128];  /* "all: …", "window:64 alone", "all but …" */
	int64_t request; /* 0: not begun */
	struct prices sum;
};
struct apart {
	struct lossy_settings before;
	char twin[512];     /* before */
	const int32_t *ids; /* [n_ids], the caller's */
	int32_t n_ids;
	struct apart_case one[APART_CASES];
	int n, next;
};

/* Notes what is in force and which cases there are. ERR_USAGE if nothing lossy is. */
int apart_begin(
	struct apart *a, struct engine *e, const int32_t *ids, int32_t n_ids, struct err *err);
/* On an idle engine: submits the next case and returns 1; 0: that was the last, and all settings
 * are as before. -1: it failed, likewise. */
int apart_next(struct apart *a, struct engine *e, struct err *err);
/* Sets all as it was, for who stops early. */
int apart_end(struct apart *a, struct engine *e, struct err *err);
/* Takes the prices of its requests; for a sink. */
void apart_see(struct apart *a, const struct event *ev);
/* The cases, the dearest setting alone first, as lines of text. */
void apart_print(const struct apart *a, FILE *out);

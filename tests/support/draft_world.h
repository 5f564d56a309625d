/* An engine with seven requests that share beginnings, some greedy and some not: whoever guesses
 * for them, they give the tokens and hashes of plain decoding. For the tests of trees and of
 * drafters. Thread: the engine's. */
#pragma once

#include "engine/core/engine_impl.h"

enum { REQUESTS = 7, TOKENS = 40, PROMPT = 60, POSITIONS = PROMPT + REQUESTS + TOKENS };

struct place { /* where it computes */
	const char *backend, *mode;
	int32_t threads, page_size, pages;
};

struct world {
	struct engine *e;
	/* by request, from 1, and position */
	int32_t id[REQUESTS + 1][POSITIONS];
	int64_t hash[REQUESTS + 1][POSITIONS];
	int32_t n[REQUESTS + 1];
	int n_accepted, n_rejected, n_unread, n_branches, n_finished, n_preempted;
	int n_other; /* on which the other rule has an opinion */
	bool went_back[REQUESTS + 1];
};

void world_open(struct world *w, const char *model, const struct place *p, const char *spec);
/* Prompts that begin alike, so that later ones find pages in the cache; those of even number at a
 * temperature. */
void world_submit(struct world *w, float temperature);
/* Steps until all have ended, each followed by `between` (may be NULL), and closes. */
void world_run(struct world *w, void (*between)(struct world *w));
/* greedy: those alone. */
void world_compare(const struct world *plain, const struct world *w, bool greedy);

uint32_t world_chance(uint32_t *state);
/* The device is the shim's (tests/cuda/shim). */
bool world_has_device(void);

/* A forward pass over one text beside the engine's: buffers and pages of its own, the engine's
 * weights (or, where those are a device's, the file opened again on the CPU), visibility and cache
 * format. Thread: the engine's. */
#pragma once

#include "engine/run/forward.h"

enum { PASS_ROWS = 256 }; /* the most of a step */

struct engine;

struct pass {
	const struct model *model;
	struct forward f;
	struct memory_store store[MEMORY_GROUPS];
	struct memory_specs specs;
	int32_t *pages, n_pages;
	const int32_t *table;
	int32_t n;
	int32_t adapter; /* of its rows; 0: none, unless the caller sets it */
};

/* For n tokens, 1 … the context. Fails with ERR_USAGE or ERR_MEMORY. */
int pass_open(struct pass *p, struct engine *e, int32_t n, struct err *err);
void pass_close(struct pass *p);
/* Sets up a step: n rows of the text from `pos` on; wanted: the logits of the last. */
void pass_rows(struct pass *p, const int32_t *ids, int32_t pos, int32_t n, bool wanted);
/* Rows that a step may compute at once, of those from pos on. */
int32_t pass_most(const struct pass *p, int32_t pos, int32_t end);
/* Computes the rows before `end`, and sets that one up, if there is one. ERR_INTERRUPTED if
 * progress returns false. */
int pass_prefill(struct pass *p, const int32_t *ids, int32_t end,
	bool (*progress)(void *arg, int32_t done, int32_t all), void *arg, struct err *err);

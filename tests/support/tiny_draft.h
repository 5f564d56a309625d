/* Tiny random drafter's files (engine/draft/file.h) for the tiny models, and lies to put in them.
 * Thread: any. */
#pragma once

#include "tests/support/tiny.h"

struct tiny_draft_options {
	uint64_t seed;
	const char *kind; /* "eagle", "medusa", "model" */
	const char *hash; /* of the target's vocabulary, 16 digits */
	int32_t n_ids;    /* of the trimmed vocabulary: every other id first; 0: it is not trimmed */
	int32_t layers;   /* of "model" */
	int32_t heads;    /* of "medusa" */
	int32_t n_lower, lower[6]; /* of "eagle" */
	enum k_type type;
	const char *as; /* not read: who is to open it */
	/* lies */
	const char *drop;   /* a tensor or key that is left out */
	int32_t dim, vocab; /* what the file says, if not 0 */
	int32_t bad_id;     /* instead of the last id, if not 0 */
	int32_t extra_rows; /* of the first matrix */
};

/* For a target made of `target`: the file's path, malloc'd, or NULL. Unlink it when done. */
char *tiny_draft_temp(
	const struct tiny_options *target, const struct tiny_draft_options *o, struct err *e);

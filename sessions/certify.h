/* The proof that what must not matter does not matter (law 2): the same tokens computed along every
 * axis, alone and in seeded pairs of axes, with every id and every hash of logits compared with one
 * base run. Thread: any one; it opens and closes engines of its own. */
#ifndef CUTAWAY_SESSIONS_CERTIFY_H
#define CUTAWAY_SESSIONS_CERTIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct certify_options {
	const char *model;
	bool quick;	   /* shorter texts, fewer values and pairs */
	uint64_t seed; /* of the choice of pairs */
};

/* One case that was run. */
struct certify_case {
	const char *axis; /* "threads", or "pair" */
	const char *what; /* "3", "page size 64 with prefill chunk 7"; lives as long as the call */
	const char *seen; /* what shows that the case did what it says: "31 drafted, 12 accepted" */
	int32_t tokens;	  /* compared */
	bool equal;
	bool idle; /* what the case varies had no occasion to matter: see seen */
};
typedef void certify_tell(void *arg, const struct certify_case *c);

struct certify_summary {
	int32_t n_axes, n_cases, n_pairs, n_differ, n_idle;
	int32_t pairs_possible; /* pairs of axes that can be combined */
	int32_t axes_without;	/* axes with only one value on this machine */
	int64_t n_tokens;		/* compared in all cases */
	uint64_t
		hash; /* of the base run: the same on every machine, for the same model and arithmetic */
};

/* 0: all equal. -1: an error, which is ERR_DIFFERS and names the first difference if one was found;
 * then the summary is whole. */
int certify_run(const struct certify_options *o, certify_tell *tell, void *arg,
				struct certify_summary *sum, struct err *e);

#endif

/* Tests that settings which must not change the bits do not (law 2): the same tokens are computed
 * along every axis (threads, batch, page size …), each value against a base run, then in cases that
 * mix all axes until every pair of values has met in one. Every id and every hash of logits is
 * compared. A case counts only if its events show that its axes took effect. Thread: any one; it
 * opens and closes engines of its own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/lossy.h"

struct certify_options {
	const char *model;
	/* of all cases, the base too; of the cache format there is an axis */
	struct lossy_settings lossy;
	const char *lora; /* as the setting; its first adapter is an axis. NULL: none */
	bool quick;       /* shorter texts, fewer values alone */
	uint64_t seed;    /* of the choice of mixed cases and of the order of pages */
	double seconds;   /* time limit: no case begins that is predicted to end later; 0: none */
	int32_t mixed;    /* most mixed cases; 0: until every pair has met, or time is up */
};

/* One case that was run. */
struct certify_case {
	const char *axis; /* "threads", or "mixed" */
	const char *what; /* "3", "threads 3, page size 64"; these live as long as the call */
	const char *seen; /* evidence that its values took effect: "31 drafts verified" */
	const char *idle; /* axes without effect in this case, "" if all had one */
	int32_t tokens;   /* compared */
	bool equal;
	int32_t n_done; /* cases so far, with this one */
	double seconds; /* so far */
	double left;    /* predicted seconds of the planned cases, at most up to the limit */
	int32_t pairs_met, pairs_possible;
};
typedef void certify_report(void *arg, const struct certify_case *c);

/* A value of an axis, and what was compared for it. */
struct certify_value {
	char axis[20], value[20];
	bool base;     /* what the others are compared with */
	int32_t cases; /* in which it took effect */
	int32_t idle;  /* in which it had no effect */
	int64_t rows;  /* compared in the cases with effect */
};
enum { CERTIFY_MAX_VALUES = 128, CERTIFY_MAX_RULES = 16 };

/* Of two values, by their indices in summary.value. */
enum certify_pair {
	CERTIFY_PAIR_NONE,       /* of one axis, or with a base */
	CERTIFY_PAIR_MET,        /* both took effect in one case; batch, row and drafts: in one step */
	CERTIFY_PAIR_LEFT,       /* not met: see out_of_time */
	CERTIFY_PAIR_IMPOSSIBLE, /* by a rule */
};
struct certify_rule {
	const char *text; /* static */
	int32_t n_pairs;
};

struct certify_summary {
	char model[192], formats[128]; /* of its matrices and vectors: "Q4_1 Q8_0 F32" */
	char memory[128];              /* its memory groups: "paged 2 layers, window 10 layers" */
	char isa[16];                  /* of the base: the best of this machine */
	int32_t threads;               /* of the base */
	int32_t n_axes, n_cases, n_mixed, n_differ, n_idle;
	int32_t pairs_met, pairs_possible; /* pairs of values of two axes, the bases left out */
	uint8_t pair[CERTIFY_MAX_VALUES][CERTIFY_MAX_VALUES]; /* enum certify_pair; [i][j] with i < j */
	int32_t n_rules;                                      /* why pairs are impossible */
	struct certify_rule rule[CERTIFY_MAX_RULES];
	int64_t n_tokens; /* compared in all cases */
	double seconds;
	bool out_of_time;  /* the limit came before all planned cases were run */
	int32_t n_untried; /* planned cases that the time limit cut */
	int32_t n_values;
	struct certify_value value[CERTIFY_MAX_VALUES];
	/* Of all hashes of logits of the base runs: the same on every machine, for the same model,
	 * arithmetic and length of proof (quick or not). */
	uint64_t hash;
};

/* 0: all equal. -1: an error, which is ERR_DIFFERS and names the first difference if one was found;
 * then the summary is whole. tell is called after each case. */
int certify_run(const struct certify_options *o, certify_report *report, void *arg,
	struct certify_summary *sum, struct err *e);

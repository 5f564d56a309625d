/* Inside sessions/certify/ only: the axes, one case, and the evidence that its axes took effect.
 * "Ours" is the request under test, its "company" the other requests of the case, "elders" those
 * that came before it and are to take its pages.
 *
 * certify_axes.c has the table of axes and makes engine options of a choice; certify_evidence.c
 * evaluates the evidence; certify_plan.c chooses the mixed cases; certify_run.c computes one;
 * certify.c compares and counts. Thread: the caller's. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/engine.h"
#include "engine/memory/memory.h"
#include "sessions/certify/certify.h"
#include "sessions/session.h"

enum axis {
	AXIS_KERNELS,
	AXIS_THREADS,
	AXIS_PAGE_SIZE,
	AXIS_PAGE_ORDER,
	AXIS_CHUNK,
	AXIS_BATCH,
	AXIS_ROW,
	AXIS_PREFIX, /* cold, hit, CERTIFY_PINNED */
	AXIS_KV,
	AXIS_PREEMPTION,
	AXIS_POLICY,
	AXIS_UNSEEN,
	AXIS_CACHE, /* its values are those of enum k_cache */
	AXIS_DRAFTS,
	AXIS_DRAFTER,
	AXIS_RULE,
	AXIS_GRAMMAR, /* none; one that rules out what is no text */
	AXIS_ADAPTER, /* none; CERTIFY_OWN, CERTIFY_OTHERS: who is computed with it */
	AXIS_ATTENTION,
	AXIS_ZEROS,
	AXIS_PAIRS, /* one value, unless the model has such matrices */
	AXIS_WATCHED,
	AXIS_RANKS, /* certify_ranks.c */
	N_AXES,
};
enum {
	AXIS_VALUES = 20,   /* maximum of one axis */
	CERTIFY_PINNED = 2, /* of AXIS_PREFIX: ours declares its first page, and finds it again */
	CERTIFY_OWN = 1,    /* of AXIS_ADAPTER: ours alone; it has base runs of its own */
	CERTIFY_OTHERS = 2, /* of AXIS_ADAPTER: all others alone */
	CERTIFY_SLOTS = 18,
	CERTIFY_BUDGET = 1024,
	/* from here on rows read codes of keys by channel, and heads forget what got least attention */
	CERTIFY_CODED = K_RECENT + K_SPAN + 2,
	CERTIFY_LEAST = 128,   /* the shortest context; with a shorter one no run begins */
	CERTIFY_LONGEST = 520, /* tokens of the longest prompt: more than the largest chunk */
	CERTIFY_SPEC = 256,
	CERTIFY_ROWS = 64,
};

/* Values of an axis; the first is the base. --quick tries the first n_quick of them alone. */
struct axis_values {
	const char *name;
	int n, n_quick;
	const char *value[AXIS_VALUES];
};
/* The engine of a value of AXIS_KERNELS. slow: a row takes a hundred times as long as with the
 * others. */
struct axis_engine {
	const char *backend, *isa, *mode; /* isa of a CPU, mode of a GPU; else NULL */
	bool slow;
};
/* The drafter of a value of AXIS_DRAFTER: its trial, and whose that is. */
struct axis_drafter {
	const struct draft_variant *trial;
	const struct draft_ops *ops;
};
struct axes {
	struct axis_values axis[N_AXES];
	int number[N_AXES][AXIS_VALUES]; /* of the values that are one, else 0 */
	struct axis_drafter drafter[AXIS_VALUES];
	struct axis_engine engine[AXIS_VALUES]; /* by value of AXIS_KERNELS */
	/* values of all axes in one row: where each axis begins, how many */
	int first[N_AXES], n_values;
	char base_threads[16];
	/* fixed row costs for the drafter auto: reproducible, and cheap enough for it to draft */
	double row_ns[CERTIFY_ROWS + 1];
	const struct certify_options *o;
	int32_t layers;      /* of the model */
	int32_t unseen_from; /* see engine_state */
	bool kept;      /* under `visible` heads keep by attention: its rows come by spans of 128 */
	bool states;    /* recurrent states: a sequence has few pages, see engine_info */
	bool diffusion; /* no scores, and an answer's first computation is its only one */
	int32_t start;  /* ends the input of an encoder, see engine_info; -1: there is none */
	/* what $f means in a drafter's pattern: "" (the trained one) or a model's path and a comma */
	char draft_file[CERTIFY_SPEC - 32];
};

enum text_size { TEXT_SHORT, TEXT_HALF, TEXT_MIDDLE, TEXT_LONG, TEXT_DEEP, N_TEXTS };
struct workload {
	int32_t n_ids, n_generated;
};

/* A step with rows of ours after its prompt was begun: evidence for the batch, row and drafts
 * axes. */
struct seen_step {
	int8_t members, before, drafts; /* requests in it, those before ours, drafts of ours */
};

/* What was computed for one request: a row for each token scored or generated. */
struct row_trace {
	int32_t n;
	struct {
		int64_t request, pos, id, hash;
	} row[CERTIFY_LONGEST + 200];
};

/* The evidence of a case, from its events. */
struct evidence {
	char backend[8], isa[16];
	char cache[8];     /* format of keys and values */
	char attention[8]; /* how it was computed */
	char zeros[4];     /* "on": columns that only zeros use were not read */
	char memory[128];  /* the memory groups: "paged 2 layers, window 10 layers" */
	int32_t threads, page_size;
	bool pairs;                 /* matrices were kept without half of their zeros */
	struct seen_step step[128]; /* those that differ */
	int n_steps;
	int64_t most_rows;          /* of ours in a step, before its first token */
	int64_t hit, pinned;        /* tokens from the prefix cache; of them those that a pin kept */
	int64_t taken, apart;       /* pages ours took; those not adjacent to its previous page */
	int64_t unseen;             /* pages that ours freed because no later row attends to them */
	int64_t reach, unseen_from; /* its last position; the first one with such pages */
	int64_t preempted;          /* times that ours was preempted */
	int64_t again;              /* tokens of ours for which all rows were computed again */
	int64_t reordered;          /* requests that overtook ours or that ours overtook */
	int64_t paused; /* steps in which the policy kept ours in the queue, or gave no row to ours or
					   to one that ran before it */
	int64_t verified, accepted, by_rejection; /* the last: of those verified, by that rule */
	int64_t bound;                            /* tokens of ours that were drawn under a grammar */
	int64_t adapted;            /* tokens of ours with the adapter, or beside requests with it */
	int64_t exchanged;          /* bytes that ranks sent each other for ours */
	int64_t watched, recorded;  /* attention events; events in a recording's file */
	int64_t twins, apart_twins; /* rows that the exact twin computed, too; those that differ, where
								   nothing is lossy */
};

/* One choice of a value for each axis, all 0 in the base, on one workload. */
struct certify_plan {
	const struct axes *axes;
	int choice[N_AXES];
	struct workload work;
	bool scored;             /* scores every token of the prompt first, as `score` does */
	bool brief;              /* ends when all chosen values took effect: for slow kernels */
	char spec[CERTIFY_SPEC]; /* the drafter's setting, from when it may draft */
};

/* certify_axes.c */
void axes_fill(struct axes *a, const struct certify_options *o);
/* Whether heads keep by attention under this policy; NULL: full. */
bool axes_kept(const char *visible);
/* Texts end before a context that is shorter; no page is longer than half of it, as a request has
 * to need a second one. */
void axes_fit_context(struct axes *a, struct workload work[N_TEXTS], int32_t ctx);
/* Leaves out the drafters that do not open on this model, and values without effect on its memory
 * in texts of at most this many tokens. engine: an open, idle one. */
void axes_fit_model(struct axes *a, struct engine *engine, int32_t longest);
/* Sets number, drafter, first and n_values; again after an axis changed. */
void axes_number_values(struct axes *a);
const char *axes_chosen(const struct certify_plan *p, enum axis a);
int axes_number(const struct certify_plan *p, enum axis a);   /* of a value that is one, else 0 */
int32_t axes_chunks(const struct certify_plan *p, int32_t n); /* steps for n tokens of a prompt */
bool axes_slow(const struct axes *a, const int *choice);
/* Why values i and j of axes a and b cannot meet, or NULL. Pairs excluded by the same rule get the
 * same text. */
const char *axes_clash(const struct axes *axes, int a, int i, int b, int j);
/* Options at the start. With preemption drafting begins only with ours, so that the other requests
 * take their pages at predictable steps; then p->spec holds, which axes_spec() writes. */
struct engine_options axes_options(const struct certify_plan *p);
void axes_spec(struct certify_plan *p);
/* Tokens that the chosen drafter drafts in a step; 0: no drafting. */
int axes_guesses(const struct certify_plan *p);
/* Forward passes of the chosen drafter itself, in rows of the model. */
double axes_drafter_rows(const struct certify_plan *p);
/* Number of other requests, and how many of them come before ours. */
int axes_company(const struct certify_plan *p, int *ahead);
/* Prompt tokens of the elders. */
int32_t axes_elder_tokens(const struct certify_plan *p);

/* certify_ranks.c */
void ranks_fill(struct axis_values *a);
/* Leaves out those that the model's layers and the lossy settings of all cases do not allow. */
void ranks_fit(struct axes *axes, bool experts);
void ranks_set_options(struct engine_options *o, const char *value);
/* Whether they compute prompts alone; whether each has a part of the model. */
bool ranks_of_prompts(const char *value);
bool ranks_have_parts(const char *value);

/* certify_evidence.c */
/* Whether value i of axis a took effect: the chosen one or, for batch, row and drafts, any that a
 * step had. */
bool evidence_has(const struct certify_plan *p, const struct evidence *ev, int a, int i);
/* Whether both did, and in one step if both have evidence per step. */
bool evidence_has_pair(
	const struct certify_plan *p, const struct evidence *ev, int a, int i, int b, int j);
/* Whether all chosen values took effect. */
bool evidence_is_whole(const struct certify_plan *p, const struct evidence *ev);
/* Appends the evidence of the chosen value of axis a, if it says more than the value's name. */
void evidence_say(
	const struct certify_plan *p, const struct evidence *ev, enum axis a, char *seen, size_t cap);

/* certify_plan.c */
enum { CERTIFY_MAX_PLANNED = 512 };
struct mixed_case {
	int choice[N_AXES];
	enum text_size size;
	double cost; /* predicted seconds; measured times correct them */
};
struct mixed_list {
	struct mixed_case item[CERTIFY_MAX_PLANNED];
	int n;
};
/* Lists mixed cases that cover every pair of pair[][] that is left (CERTIFY_PAIR_LEFT) and was
 * tried less than three times (tries[][]), and have none that is impossible. Depends on its
 * arguments alone, never on time: cases with the most new pairs per second come first. At most
 * `most` cases, if that is not 0. */
typedef uint8_t certify_grid[CERTIFY_MAX_VALUES][CERTIFY_MAX_VALUES];
void plan_mixed(const struct axes *axes, const struct workload *work, certify_grid pair,
	certify_grid tries, int most, uint64_t *random, struct mixed_list *list);
/* Counts a try of the pairs of this choice. */
void plan_note_try(const struct axes *axes, const int *choice, certify_grid tries);
/* The plan of a choice on a text, without its spec: mixed cases of slow kernels are brief and not
 * scored. */
struct certify_plan plan_case(const struct axes *axes, const struct workload *work,
	const int *choice, enum text_size size, bool mixed);
/* Prompt length with which every chosen value can take effect. */
int32_t plan_tokens(const struct axes *axes, const int *choice);
double plan_cost(const struct certify_plan *p);
/* Of the prompt: tokens that an encoder reads, and those that scoring gives a row. */
int32_t plan_input(const struct certify_plan *p);
int32_t plan_scored(const struct certify_plan *p);

/* certify_run.c */
int certify_run_case(
	const struct certify_plan *p, struct row_trace *row_trace, struct evidence *ev, struct err *e);

uint64_t certify_random(uint64_t *state);

/* While a case runs. */
struct certify_run {
	const struct certify_plan *plan;
	struct row_trace *row_trace; /* NULL: not kept */
	struct evidence *ev;
	int64_t request;               /* the number of ours, as the sink knows it; 0: none yet */
	int64_t members, mine, drafts; /* of the step in progress: requests so far, those before ours or
									  -1, drafts */
	int64_t last_page, bound;      /* bound: the newest request that a grammar rules */
	uint64_t adapted;              /* requests with an adapter: bit number % 64 */
	bool beside;                   /* in the step in progress, one that is not ours */
	bool is_state[MEMORY_GROUPS];
	int64_t company[CERTIFY_SLOTS]; /* others, in order of arrival */
	int n_company, ahead;           /* ahead: came before ours */
	int64_t earlier; /* a request that came before ours and is not admitted yet; 0: none */
	int64_t pacer;   /* one that ran before ours came; 0: none, or it has ended */
	bool paced;      /* it has rows in the step in progress */
	bool answering, waiting, begun, finished, failed; /* waiting: ours was not admitted yet */
	bool repeated;                                    /* ours was rewound to its prompt once */
	struct session session;
	struct engine *engine; /* the session's */
	int32_t *ids;
	int32_t n_ids, next; /* next: token after what the prompt repeats */
};

/* certify_seen.c: the sink of a case; run: its struct certify_run. */
void certify_see(void *run, const struct event *ev);
/* Adds the rows to a hash; whether row i of a is row j of b; tells where t differs from the base.
 */
uint64_t trace_hash(uint64_t h, const struct row_trace *t);
bool trace_equal(const struct row_trace *a, int32_t i, const struct row_trace *b, int32_t j);
void trace_difference(struct err *found, const char *what, int32_t i, const struct row_trace *base,
	int32_t j, const struct row_trace *t);

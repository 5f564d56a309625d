/* Inside sessions/certify/ only: the axes, one case, and what shows that a case did what it says.
 *
 * certify_axes.c has the table of axes, makes engine options of a choice and says what the evidence
 * shows; certify_plan.c chooses the mixed cases; certify_run.c computes one; certify.c compares and
 * counts. Thread: the caller's. */
#ifndef CUTAWAY_SESSIONS_CERTIFY_PRIVATE_H
#define CUTAWAY_SESSIONS_CERTIFY_PRIVATE_H

#include "engine/core/engine.h"
#include "sessions/certify/certify.h"

enum axis {
	AXIS_KERNELS,
	AXIS_THREADS,
	AXIS_PAGE_SIZE,
	AXIS_PAGE_ORDER,
	AXIS_CHUNK,
	AXIS_BATCH,
	AXIS_ROW,
	AXIS_PREFIX,
	AXIS_PREEMPTION,
	AXIS_POLICY,
	AXIS_UNSEEN,
	AXIS_CACHE, /* its values are those of enum k_cache */
	AXIS_DRAFTS,
	AXIS_DRAFTER,
	AXIS_RULE,
	AXIS_WATCHED,
	N_AXES,
};
enum {
	AXIS_VALUES = 20, /* most of one axis */
	CERTIFY_SLOTS = 18,
	CERTIFY_BUDGET = 1024,
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
/* How a value of AXIS_KERNELS is had. slow: a row takes it a hundred times as long as the
 * others. */
struct axis_engine {
	const char *backend, *isa, *mode; /* isa of a CPU, mode of a GPU; else NULL */
	bool slow;
};
struct axes {
	struct axis_values axis[N_AXES];
	struct axis_engine engine[AXIS_VALUES]; /* of the values of AXIS_KERNELS */
	/* values of all axes in one row: where each axis begins, how many */
	int first[N_AXES], n_values;
	char base_threads[16];
	/* auto weighs by these: the same each time, and more rows are cheaper, so it guesses */
	double row_ns[CERTIFY_ROWS + 1];
	const char *visible; /* of all cases; NULL: full */
	int32_t layers;      /* of the model */
	int32_t unseen_from; /* see engine_state */
	bool states;         /* a sequence has few pages: see engine_info */
	/* what $f means in a drafter's pattern: "" (the trained one) or a model's path and a comma */
	char draft_file[CERTIFY_SPEC - 32];
};

enum text_size { TEXT_SHORT, TEXT_HALF, TEXT_MIDDLE, TEXT_LONG, TEXT_DEEP, N_TEXTS };
struct workload {
	int32_t n_ids, n_generated;
};

/* A step that had ours after its prompt was begun: what the batch, row and drafts axes are seen
 * by. */
struct seen_step {
	int8_t members, before, drafts; /* requests in it, those in front of ours, drafts of ours */
};

/* What was computed for one request: a row for each token scored or generated. */
struct trail {
	int32_t n;
	struct {
		int64_t request, pos, id, hash;
	} row[CERTIFY_LONGEST + 200];
};

/* What was seen of a case, by which each axis is held to its promise. */
struct evidence {
	char backend[8], isa[16];
	char cache[8];    /* format of keys and values */
	char memory[128]; /* the memory groups: "paged 2 layers, window 10 layers" */
	int32_t threads, page_size;
	struct seen_step step[128]; /* those that differ */
	int n_steps;
	int64_t most_rows;          /* of ours in a step, before its first token */
	int64_t hit;                /* tokens from the prefix cache */
	int64_t taken, apart;       /* pages ours took; those not beside the page before them */
	int64_t unseen;             /* pages that ours gave back, as no row to come saw them */
	int64_t reach, unseen_from; /* its last position; that from which it has such pages */
	int64_t preempted;          /* times that ours lost its pages */
	int64_t reordered;          /* requests that ours overtook, and those that overtook it */
	int64_t verified, accepted, by_rejection; /* the last: of those verified, by that rule */
	int64_t watched, recorded;                /* attention events; events in a recording's file */
};

/* One choice of a value for each axis, all 0 in the base, on one workload. */
struct certify_plan {
	const struct axes *axes;
	int choice[N_AXES];
	struct workload work;
	bool scored;   /* every token of the prompt first, as score does */
	bool brief;    /* ends when all chosen values were seen: for slow kernels */
	uint64_t seed; /* of the order of pages */
	const char *model;
	char spec[CERTIFY_SPEC]; /* the drafter, once it may guess */
};

/* certify_axes.c */
void axes_fill(struct axes *a);
/* Leaves out the drafters that do not open on this model, and what its memory has no use for in
 * texts of at most so many tokens: engine is one, and idle. */
void axes_fit_model(struct axes *a, struct engine *engine, const char *model, int32_t longest);
void axes_number_values(struct axes *a); /* sets first and n_values; again after an axis changed */
const char *axes_chosen(const struct certify_plan *p, enum axis a);
int axes_number(const struct certify_plan *p, enum axis a); /* of a value that is one, else 0 */
bool axes_slow(const struct axes *a, const int *choice);
/* Why values i and j of axes a and b cannot meet, or NULL: a rule, the same text for all its
 * pairs. */
const char *axes_clash(const struct axes *axes, int a, int i, int b, int j);
/* Of the start. With preemption nothing is guessed before ours has begun: the others, too, are to
 * take a page when it is foreseen. Then p->spec, which axes_spec() writes. */
struct engine_options axes_options(const struct certify_plan *p);
void axes_spec(struct certify_plan *p);
/* Tokens that the chosen drafter is to guess in a step; 0: nobody guesses. */
int axes_guesses(const struct certify_plan *p);
/* Passes of the chosen drafter's own in the case, in rows of the model. */
double axes_drafter_rows(const struct certify_plan *p);
/* Requests beside ours, and how many of them were there first. */
int axes_company(const struct certify_plan *p, int *ahead);
/* Tokens that requests which are to take our pages begin with. */
int32_t axes_elder_tokens(const struct certify_plan *p);

/* certify_evidence.c */
/* Whether value i of axis a was at work: the one chosen or, of batch, row and drafts, any that a
 * step had. */
bool evidence_has(const struct certify_plan *p, const struct evidence *ev, int a, int i);
/* Whether both were, and in one step where both are seen by steps. */
bool evidence_has_pair(
	const struct certify_plan *p, const struct evidence *ev, int a, int i, int b, int j);
/* Whether all chosen values were. */
bool evidence_is_whole(const struct certify_plan *p, const struct evidence *ev);
/* Appends what shows the chosen value of axis a, if more than its name is worth saying. */
void evidence_say(
	const struct certify_plan *p, const struct evidence *ev, enum axis a, char *seen, size_t cap);

/* certify_plan.c */
enum { CERTIFY_MAX_PLANNED = 512 };
struct mixed_case {
	int choice[N_AXES];
	enum text_size size;
	double cost; /* guessed seconds; what is learnt while running corrects it */
};
struct mixed_list {
	struct mixed_case item[CERTIFY_MAX_PLANNED];
	int n;
};
/* The list of mixed cases that should make every pair meet that is left of pair[][]
 * (CERTIFY_PAIR_LEFT) and was tried less than three times (tries[][]). Depends on its arguments
 * alone, never on time: cases of most new pairs a second come first. Fewer than most, if that is
 * not 0. */
typedef uint8_t certify_grid[CERTIFY_MAX_VALUES][CERTIFY_MAX_VALUES];
void plan_mixed(const struct axes *axes, const struct workload *work, const certify_grid pair,
	const certify_grid tries, int most, uint64_t *random, struct mixed_list *list);
/* A case of this choice is run. */
void plan_note_try(const struct axes *axes, const int *choice, certify_grid tries);
/* The plan of a choice on a text: mixed cases of slow kernels are brief and not scored. */
struct certify_plan plan_case(const struct axes *axes, const struct workload *work,
	const int *choice, enum text_size size, bool mixed);
/* Tokens of a prompt that give every chosen value the occasion to matter. */
int32_t plan_tokens(const struct axes *axes, const int *choice);
double plan_cost(const struct certify_plan *p);

/* certify_run.c */
int certify_run_case(
	const struct certify_plan *p, struct trail *trail, struct evidence *ev, struct err *e);

uint64_t certify_random(uint64_t *state);

#endif

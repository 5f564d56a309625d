/* Inside sessions/certify*.c only: the axes, one case, and what shows that a case did what it says.
 *
 * certify_axes.c has the table of axes, makes engine options of a choice and judges the evidence;
 * certify_run.c computes one case; certify.c chooses the cases and compares. Thread: the
 * caller's. */
#ifndef CUTAWAY_SESSIONS_CERTIFY_PRIVATE_H
#define CUTAWAY_SESSIONS_CERTIFY_PRIVATE_H

#include "engine/engine.h"
#include "sessions/certify.h"

enum axis {
	AXIS_KERNELS,
	AXIS_THREADS,
	AXIS_PAGE_SIZE,
	AXIS_PAGE_ORDER,
	AXIS_CHUNK,
	AXIS_COMPANY,
	AXIS_ROW,
	AXIS_PREFIX,
	AXIS_PREEMPTION,
	AXIS_DRAFTS,
	AXIS_WATCHED,
	N_AXES,
};
enum {
	AXIS_VALUES = 20, /* most of one axis */
	CERTIFY_SLOTS = 18,
	CERTIFY_BUDGET = 1024,
	CERTIFY_LONGEST = 560, /* tokens of the longest prompt: more than the largest chunk */
};

/* Values of an axis; the first is the base. --quick tries the first n_quick of them alone. */
struct axis_values {
	const char *name;
	int n, n_quick;
	const char *value[AXIS_VALUES];
};
struct axes {
	struct axis_values axis[N_AXES];
	char base_threads[16];
};

struct workload {
	int32_t n_ids, n_generated;
};

/* What was computed for one request: a row for each token judged or generated. */
struct trail {
	int32_t n;
	struct {
		int64_t request, pos, id, hash;
	} row[CERTIFY_LONGEST + 200];
};

/* What was seen of a case, by which each axis is held to its promise. */
struct evidence {
	char backend[8], isa[16];
	int32_t threads, page_size;
	int64_t most_members; /* requests in a step that had ours */
	int64_t most_before;  /* rows in front of ours in a step */
	int64_t most_rows;	  /* of ours in a step, before its first token */
	int64_t hit;		  /* tokens from the prefix cache */
	int64_t taken, apart; /* pages ours took; those not beside the page before them */
	int64_t preempted;	  /* times that ours lost its pages */
	int64_t most_drafts;  /* drafts of ours in a step */
	int64_t judged, accepted;
	int64_t watched, recorded; /* attention events; events in a recording's file */
};

/* One choice of a value for each axis, all 0 in the base, on one workload. */
struct certify_plan {
	const struct axes *axes;
	int choice[N_AXES];
	struct workload work;
	uint64_t seed; /* of the order of pages */
	const char *model;
};

/* certify_axes.c */
void axes_fill(struct axes *a);
const char *axes_chosen(const struct certify_plan *p, enum axis a);
int axes_number(const struct certify_plan *p, enum axis a); /* of a value that is one, else 0 */
/* Scalar code: it gets shorter texts. */
bool axes_slow(const struct axes *a, int kernels);
/* Whether values i and j of axes a and b can be had at once. */
bool axes_agree(const struct axes *axes, int a, int i, int b, int j);
struct engine_options axes_options(const struct certify_plan *p);
/* Requests beside ours, and how many of them were there first. */
int axes_company(const struct certify_plan *p, int *ahead);
/* Tokens that requests which are to take our pages begin with. */
int32_t axes_elder_tokens(const struct certify_plan *p);
/* Whether the value chosen on axis a was at work; appends to seen what shows it. */
bool axes_at_work(const struct certify_plan *p, enum axis a, const struct evidence *ev, char *seen,
				  size_t cap);

/* certify_run.c */
int certify_run_case(const struct certify_plan *p, struct trail *trail, struct evidence *ev,
					 struct err *e);

uint64_t certify_random(uint64_t *state);

#endif

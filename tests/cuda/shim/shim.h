/* What a test asks of the shim: kernels of kernels/cuda run on the CPU, a fiber for each thread.
 *
 * The shim is a library in two builds, both opened while a test runs (shim_open): *fast*, and
 * *checked*, which sees every load and store of the kernels and stops at the first one that is out
 * of bounds, reads what nobody wrote, or is not ordered with another thread's (check.h). Both offer
 * the driver API too (driver.c), for the program itself: CUTAWAY_CUDA_DRIVER.
 *
 * The host may touch device memory directly: it is memory of this process. But what it wrote the
 * checker knows only from put() and written(). Thread: one at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/plan.h"

struct shim_options {
	uint64_t seed; /* 0: threads run in order; else every choice of the schedule is drawn */
	int resident;  /* blocks of a plain launch that run at the same time; 0: 4 */
	/* it may begin before the launch in front has ended, unless the host was there in between */
	bool early;
};

/* A place where kernels wait or order memory, and that some launch visited. */
struct shim_place {
	char name[64]; /* file:line, without folders */
	const char *kind;
	/* leaving it out must not go unnoticed: a barrier, a wait, an acquire or a release */
	bool orders;
	uint64_t visits;
};

struct shim {
	bool checked;
	const char *name; /* "fast" or "checked" */

	/* Device memory, aligned to 256, with unmapped-looking room around it; never NULL.
	 * Unwritten. */
	void *(*alloc)(size_t bytes);
	void (*free)(void *p);
	void (*put)(void *to, const void *from, size_t bytes); /* copies in, and marks as written */
	void (*written)(void *p, size_t bytes);                /* the host wrote it directly */
	void (*unwritten)(void *p, size_t bytes);              /* as if fresh */

	/* Runs a kernel by name over n_blocks blocks of n_threads threads; together: all resident at
	 * once (a cooperative launch). args as cuLaunchKernelEx takes them. False: report() says what
	 * happened. */
	bool (*launch)(const char *kernel, int n_blocks, int n_threads, size_t shared, bool together,
		void **args, const struct shim_options *o);
	/* of the last launch that failed: lines, the first is what went wrong */
	const char *(*report)(void);

	/* The places visited since the library was opened. Leaving one out holds until the next call;
	 * NULL: none. False: there is no such place. */
	int (*places)(struct shim_place *out, int cap);
	bool (*leave_out)(const char *name);

	/* Of the driver API: calls that fail, as CUTAWAY_SHIM_FAIL says it (driver.c); NULL: none any
	 * more, and the device is well again. False: the plan is not understood. Things that are
	 * open. */
	bool (*fail)(const char *plan);
	int (*n_open)(void);
	int (*calls)(const char *name); /* of a function of the driver, since fail() */
};

/* NULL with a reason in *why: the library is missing or this processor cannot run it. */
const struct shim *shim_open(bool checked, const char **why);
/* Those of the two that open, said where one does not; how many. */
int shim_open_both(const struct shim *both[2]);

/* The fast one, and CUTAWAY_CUDA_DRIVER set to it: the back end "cuda" of this process is the
 * shim's. */
const struct shim *shim_use(const char **why);

/* An op to run, whose pointers are to device memory, with what is folded in front of it and what
 * joins it. */
struct shim_op {
	struct k_op op, before, after;
	bool folds, joins;
	int32_t phase; /* of an op with cu_n_phases() */
	/* of a product: log2 of a unit's tiles, plus 16 times the groups of 8 rows of a warp (0: the
	 * way of few rows; 2; 8) */
	int32_t plan;
};

/* What the ops of a step share, in device memory. */
struct shim_step {
	struct cu_work work;
	uint64_t *clock;          /* [n + 1]; [i]: when op i began */
	const struct shim_op *op; /* the caller's [n] */
	int32_t n;
};
enum { SHIM_TICKETS = 1 << 14, SHIM_SCRATCH_BYTES = 8 << 20 };

/* Tickets zero, clock and scratch unwritten. */
void shim_step_open(const struct shim *s, struct shim_step *p, const struct shim_op *op, int n);
void shim_step_close(const struct shim *s, struct shim_step *p);
/* Op i over n_blocks blocks; all ops in turn. False: s->report(). Also checks that the tickets are
 * zero again. */
bool shim_step_one(
	const struct shim *s, struct shim_step *p, int i, int n_blocks, const struct shim_options *o);
bool shim_step_all(
	const struct shim *s, struct shim_step *p, int n_blocks, const struct shim_options *o);

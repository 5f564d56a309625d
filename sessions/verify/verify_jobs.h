/* Inside sessions/verify/: what is recomputed, and in which order. A job is a request of the
 * engine: one take of a recorded request, cut to the rows in the range. */
#pragma once

#include "engine/core/engine.h"
#include "sessions/history/history.h"

enum { JOBS_SLOTS = 16, JOBS_BUDGET = 256, JOBS_WINDOW = 64 };

struct job {
	int32_t request, take; /* of the history */
	int32_t first, n;      /* rows of the request that are compared */
	int32_t n_compared;
	bool differs;
	int32_t differs_at; /* row that differed last */
	/* while it runs */
	int64_t number; /* the engine's request; 0: waiting, -1: done */
	int32_t *ids, n_ids;
	int32_t computed; /* positions, once this step is done */
};

struct jobs {
	struct job *job;
	int32_t n, cap;
	int32_t from;        /* no earlier job is waiting */
	int64_t n_submitted; /* to the engine, so far */
	int32_t under_way[JOBS_SLOTS], n_under_way;
	int64_t n_rows, n_compared;  /* n_compared: of jobs that are done */
	struct lossy_settings lossy; /* the engine's present ones */
};

/* Rows of the steps from … to. */
int jobs_make(struct jobs *j, const struct history *h, int64_t from, int64_t to, struct err *e);
void jobs_free(struct jobs *j);
/* The context of an engine that computes n tokens of the recording: the recorded one, since
 * LongRoPE's factors and the scales of int8-tensor depend on it. */
int32_t jobs_ctx(const struct history *h, int32_t n);
/* Options of an engine with room for many at once, and the settings of the longest request. */
int jobs_size(struct jobs *j, struct history *h, struct engine_options *o, struct err *e);
/* Sets the lossy settings under which request r was recorded. 1: done; 0: only after the running
 * jobs have ended; -1: impossible. */
int jobs_compute_as(struct jobs *j, struct history *h, const struct history_request *r,
	struct engine *e, struct err *err);
/* Submits the jobs that may begin now. Returns how many run, or -1. */
int jobs_submit(struct jobs *j, struct history *h, struct engine *e, struct err *err);
/* The running job of an engine's request, or NULL. */
struct job *jobs_of(struct jobs *j, int64_t number);
void jobs_done(struct jobs *j, struct job *job);
/* Index of the request's row at this position, or -1 if the job does not compare it. */
int32_t jobs_row(const struct job *job, const struct history *h, int64_t pos);

/* Inside sessions/verify/: what there is to compute again, and in which order. A job is a request
 * of the engine: one take of a recorded request, as far as its rows are in the range. */
#ifndef CUTAWAY_SESSIONS_VERIFY_JOBS_H
#define CUTAWAY_SESSIONS_VERIFY_JOBS_H

#include "engine/core/engine.h"
#include "sessions/history/history.h"

enum { JOBS_SLOTS = 16, JOBS_BUDGET = 256, JOBS_WINDOW = 64 };

struct job {
	int32_t request, take; /* of the history */
	int32_t first, n;      /* rows of the request that are compared */
	int32_t n_compared;
	bool differs;
	int32_t differs_at; /* row that differed last */
	/* while it is under way */
	int64_t number; /* of the engine's request; 0: it waits, -1: done */
	int32_t *ids, n_ids;
	int32_t computed; /* positions, once this step is done */
};

struct jobs {
	struct job *job;
	int32_t n, cap;
	int32_t from;        /* no job before it waits */
	int64_t n_submitted; /* to the engine, so far */
	int32_t under_way[JOBS_SLOTS], n_under_way;
	int64_t n_rows, n_compared;  /* n_compared: of jobs that are done */
	struct lossy_settings lossy; /* as the engine computes */
};

/* Rows of the steps from … to. */
int jobs_make(struct jobs *j, const struct history *h, int64_t from, int64_t to, struct err *e);
void jobs_free(struct jobs *j);
/* Options of an engine with room for many at once. */
void jobs_size(const struct jobs *j, const struct history *h, struct engine_options *o);
/* Makes the engine compute as request r was recorded: its settings that are lossy. 1: it does; 0:
 * not before what is under way has ended; -1: it cannot. */
int jobs_compute_as(struct jobs *j, struct history *h, const struct history_request *r,
	struct engine *e, struct err *err);
/* Submits what may begin now. Returns how many are under way, or -1. */
int jobs_submit(struct jobs *j, struct history *h, struct engine *e, struct err *err);
/* The job of an engine's request that is under way, or NULL. */
struct job *jobs_of(struct jobs *j, int64_t number);
void jobs_done(struct jobs *j, struct job *job);
/* Index of the request's row at this position, or -1 if the job does not compare it. */
int32_t jobs_row(const struct job *job, const struct history *h, int64_t pos);

#endif

/* Re-executes a recording on this machine and compares it row by row: logits are a function of the
 * tokens (law 2), so the hash of every row of logits must come again, and where the race or greedy
 * choice drew, the same token with the same probability.
 *
 * The tokens of each request, as they stood at its end and whenever it went back, are given to a
 * fresh engine as requests of kind verify (engine.h): their rows are computed many at a time,
 * whatever the recording's steps were, and the draws are made again. A difference is then bisected
 * (bisect.h). Thread: one, the caller's. */
#ifndef CUTAWAY_SESSIONS_VERIFY_H
#define CUTAWAY_SESSIONS_VERIFY_H

#include <stdatomic.h>
#include <stdio.h>

#include "base/err.h"
#include "engine/core/engine.h"
#include "sessions/verify/bisect.h"
#include "sessions/history/history.h"

struct verify_options {
	struct engine_options engine; /* model, backend, isa, threads; the rest is chosen here */
	int64_t from, to;             /* rows of these steps, both included */
	/* set by any thread: verify_run ends soon with ERR_INTERRUPTED. NULL: never */
	const atomic_bool *stop;
};

enum verify_what {
	VERIFY_NOTHING, /* no difference */
	VERIFY_HASH,    /* of the row of logits */
	VERIFY_ID,      /* equal logits, but another token was drawn */
	VERIFY_P,       /* equal token, but its row says something else: p, … */
	VERIFY_P_DRAW,
	VERIFY_ENTROPY,
	VERIFY_SURVIVORS,
	VERIFY_LOGP,   /* of a score */
	VERIFY_FAILED, /* recorded as computed, but here it gave a NaN or could not be run */
};

struct verify_difference {
	enum verify_what what;
	int32_t take, row;          /* which of the request's */
	int64_t recorded, computed; /* hash, id, survivors */
	double was, is;             /* p, p_draw, entropy, logp */
	char why[160];              /* failed: in words */
};

/* What came of one request. */
struct verify_result {
	const struct history_request *request;
	int64_t rows;  /* hashes compared */
	int64_t draws; /* of them: tokens that had to be drawn again as they were */
	/* drawn under modified rejection or chosen by a search, where the race decides nothing: hash
	 * alone */
	int64_t hash_alone;
	int64_t n_differ; /* rows with a difference */
	bool outside;     /* it has rows, but none in the range */
	struct verify_difference first;
};

struct verify_summary {
	char backend[16], isa[16];
	int32_t threads, n_requests, n_differ, n_broken;
	int64_t rows, draws, hash_alone;
	double open_seconds, seconds; /* opening the engine; computing and comparing */
	/* wall time of the recording's steps; of all, whatever the range */
	double recorded_seconds;
	/* the first difference in the recording's order; what: NOTHING if none */
	struct verify_result first;
	struct bisect bisect; /* of it, if it is a hash */
	int32_t drawn_fits; /* of it, if it is an id: 1: with the token drawn here, the next row's hash
						 * is the recorded one (so the file's token was changed), 0: not, -1:
						 * unknown */
};

/* Told of each request in order of the recording, when it is done. */
typedef void verify_tell(void *arg, const struct verify_result *r);
/* Told a few times a second: rows compared of all; then, with `all` 0, what bisecting is at. */
typedef void verify_progress(void *arg, int64_t rows, int64_t all, const char *what);

/* 0: all equal. -1 with ERR_DIFFERS and the first difference in words; ERR_INPUT where rows are
 * missing from the file, so that not all of it can be computed again (all that can has been told
 * and summed up); else it could not be done. */
int verify_run(struct history *h, const struct verify_options *o, verify_tell *tell,
	verify_progress *progress, void *arg, struct verify_summary *sum, struct err *e);

/* The model file of a recording: given (if not NULL), else where it was, else `fallback` (may be
 * NULL), whichever has the recorded SHA-256. malloc'd. ERR_INPUT says which file is which. */
int verify_model(
	const struct history *h, const char *given, const char *fallback, char **path, struct err *e);
/* The recording's arithmetic is this program's. */
int verify_arith(const struct history *h, struct err *e);

/* A difference in words, without a request's number: for a line. */
void verify_describe(const struct history *h, const struct verify_result *r, char *buf, size_t cap);
/* What the first difference comes from, as far as bisecting found it: lines of plain text. */
void verify_explain(const struct history *h, const struct verify_summary *sum, FILE *out);

#endif

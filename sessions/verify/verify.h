/* Re-executes a recording on this machine and compares it row by row: logits are a function of the
 * tokens (law 2), so the hash of every row of logits must be the same again, and, where the
 * sampling race or greedy choice drew, so must the token and its probability.
 *
 * The tokens of each request, as they stood at its end and before each rewind, are submitted to a
 * new engine as requests of kind verify (engine.h): their rows are computed many at a time,
 * whatever the recording's steps were, and the draws are repeated. A difference is then bisected
 * (bisect.h). Thread: one, the caller's. */
#pragma once

#include <stdio.h>

#include "sessions/verify/bisect.h"

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
	VERIFY_P,       /* equal token, but another value of its row differs: p, … */
	VERIFY_P_DRAW,
	VERIFY_ENTROPY,
	VERIFY_SURVIVORS,
	VERIFY_LOGP,   /* of a score */
	VERIFY_FAILED, /* recorded as computed, but here it gave a NaN or could not run */
};

struct verify_difference {
	enum verify_what what;
	int32_t take, row;          /* which of the request's */
	int64_t recorded, computed; /* hash, id, survivors */
	double was, is;             /* p, p_draw, entropy, logp */
	char why[160];              /* failed: in words */
};

/* The result of one request. */
struct verify_result {
	const struct history_request *request;
	int64_t rows;  /* hashes compared */
	int64_t draws; /* of these, tokens whose draw was repeated and compared */
	/* drawn by modified rejection, chosen by a search or of an earlier session: only the hash is
	 * compared */
	int64_t hash_alone;
	int64_t n_differ; /* rows with a difference */
	int64_t given;    /* rows that were put there by the user, or are another model's */
	bool outside;     /* it has rows, but none in the range */
	struct verify_difference first;
};

struct verify_summary {
	char backend[16], isa[16];
	int32_t threads, n_requests, n_differ, n_broken;
	int64_t rows, draws, hash_alone, given;
	int64_t texts;  /* of tokens, that are not the model's */
	double seconds; /* computing and comparing */
	/* wall time of the recording's steps; of all, whatever the range */
	double recorded_seconds;
	/* the first difference in the recording's order; what: NOTHING if none */
	struct verify_result first;
	struct bisect bisect; /* of it, if it is a hash */
	int32_t drawn_fits; /* of it, if it is an id: 1: after the token drawn here the next row's hash
						   is the recorded one (so the file's token was changed), 0: not, -1:
						   unknown */
};

/* Called for each request when it is done, in order of the recording. */
typedef void verify_report(void *arg, const struct verify_result *r);
/* Called a few times a second: rows compared of all; then, with `all` 0, the progress of the
 * bisection. */
typedef void verify_progress(void *arg, int64_t rows, int64_t all, const char *what);

/* 0: all equal, but for rows that are `given`. -1 with ERR_DIFFERS and the first difference in
 * words, which may be that of a token's text; ERR_INPUT where rows or requests are missing from the
 * file, so that not all of it can be recomputed (the rest was compared and
 * reported); other codes: verification failed. */
int verify_run(struct history *h, const struct verify_options *o, verify_report *report,
	verify_progress *progress, void *arg, struct verify_summary *sum, struct err *e);

/* The adapters of a recording, as the setting `lora`: of the files given (if not NULL), else of
 * those recorded, each with the recorded name and SHA-256, and with the recorded scale. malloc'd;
 * NULL: it has none. */
int verify_adapters(const struct history *h, const char *given, char **lora, struct err *e);
/* The model file of a recording: given (if not NULL), else where it was, else `fallback` (may be
 * NULL), whichever has the recorded SHA-256. malloc'd. ERR_INPUT says which file is which. */
int verify_model(
	const struct history *h, const char *given, const char *fallback, char **path, struct err *e);
/* Checks that the recording's arithmetic version is this program's. */
int verify_arith(const struct history *h, struct err *e);

/* Describes a difference in one line, without the request's number. */
void verify_describe(const struct history *h, const struct verify_result *r, char *buf, size_t cap);
/* Prints the cause of the first difference, as far as bisection found it. */
void verify_explain(const struct history *h, const struct verify_summary *sum, FILE *out);

/* Inside sessions/bench/: what the files of the bench share. Thread: bench_run's. */
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/measure.h"
#include "sessions/bench/bench.h"
#include "sessions/session.h"

enum {
	MAX_RUNS = 4096,
	N_BATCH = 16,
	N_MANY = 64, /* requests of the figure that is measured only on demand */
	DEEP = 1024,
	DEEPER = 4096,
	CACHED = 2000, /* tokens of the turns before */
	TURN = 32,     /* new ones of a turn */
	PREFILL = 512,
	FIRST = 64,
	SHORT = 16,
	MOST_GENERATED = 160
};

struct samples {
	double value[MAX_RUNS];
	int n;
};

/* Plain reads of memory and of the weights, bytes a second. */
struct roofs {
	double memory, weights;
};

/* Steps that are timed together, and what was counted in them. */
struct bench_run {
	double tokens, wall_ns, bytes, ops;
};

struct bench {
	struct session session; /* recorded into a temporary file */
	struct engine *engine;  /* the session's */
	bool recording;         /* events go to the ring */
	bool watched;           /* an attention event came since this was last set to false */
	int32_t *ids;           /* text long enough for every prompt */
	size_t n_ids;
	int64_t n_tokens, n_finished;  /* since they were last set to 0 */
	struct ev_step step;           /* the newest */
	int64_t token[MOST_GENERATED]; /* ids of those tokens */
	bool timing;                   /* steps count for `run` */
	struct bench_run run;          /* the newest timed one */
	double int_rate;               /* operations a second: the roof of the integers */
	void *memory;                  /* buffer of the plain reads; NULL until the first */
	struct samples reads, rereads; /* all passes, GB/s */
	double weight_bytes;           /* bytes of the file's weights that a token needs */
	double token_s;                /* about how long a decoded token takes */
	void (*report)(void *arg, const char *what);
	void *arg;
};

/* Runs of one kind. */
struct bench_case {
	const char *what, *names; /* names: the figures it gives, each with a blank on either side */
	size_t at;                /* offset of the first of them in a report */
	bool prefill;             /* times the prompt, else the tokens after it */
	int32_t n_ids;
	int n_requests;
	double seconds;
	int runs; /* at most, within `seconds`; at least one */
};
extern const struct bench_case bench_cases[]; /* ends with what NULL */

/* Further results of a case. */
struct bench_shares {
	struct bench_figure memory, weights; /* weight bytes read, over plain reads */
};

/* bench_measure.c */
double bench_now(void);
void bench_on_event(void *arg, const struct event *ev);
void bench_add(struct samples *s, double value);
struct bench_figure bench_figure(struct samples *s);
struct bench_figure bench_single(double value);
int64_t bench_submit(
	struct bench *b, int32_t at, int32_t n_ids, int32_t n_generated, bool greedy, struct err *e);
int bench_step_until(struct bench *b, int64_t n, struct err *e);
double bench_time_decode(
	struct bench *b, int32_t n_ids, int32_t n_generated, int n_requests, struct err *e);
double bench_time_first(struct bench *b, int32_t n_ids, struct err *e);
int32_t bench_tokens_of(const struct bench *b, double seconds, int32_t most);
int bench_measure_cost4(struct bench *b, double seconds, struct bench_figure *out, struct err *e);
int bench_measure_turn(struct bench *b, double seconds, struct bench_figure *out, struct err *e);
int bench_measure_spec(struct bench *b, double seconds, struct bench_figure *out, struct err *e);

/* bench_recording.c */
int bench_measure_recording(
	struct bench *b, double seconds, struct bench_figure *out, struct err *e);
/* bench_pairs.c */
struct roofs bench_look(struct bench *b);
void bench_free_memory(struct bench *b);
bool bench_fits(const struct bench *b, const struct bench_case *c);
/* negative: an error */
double bench_once(struct bench *b, const struct bench_case *c, struct err *e);
int bench_pairs(struct bench *b, const struct bench_case *c, struct bench_figure *out,
	struct bench_shares *shares, struct err *e);

/* bench_start.c: seconds until the engine was open, and until the first token, in a fresh
 * process. */
int bench_time_start(const struct engine_options *o, double *opened, double *token, struct err *e);
int bench_measure_start(const struct engine_options *o, struct bench_report *r, struct err *e);

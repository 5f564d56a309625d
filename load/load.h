/* A load put on an engine: its arrivals (workload.h) are submitted when they are due, and what
 * becomes of them is tallied (tally.h). Who answers is the engine inside, by the machine's clock or
 * by counted time, or any server of the OpenAI interface. A request that is due while a step
 * computes is submitted after it; its latencies count from when it was due, not from when it was
 * sent, so that a slow server does not slow the load down unseen. Thread: the caller's. */
#pragma once

#include <stdio.h>

#include "base/listing.h"
#include "base/err.h"
#include "engine/core/engine.h"
#include "load/tally.h"
#include "load/workload.h"
#include "sessions/whatif/cost.h"

struct load_options {
	struct workload_options workload;
	struct tally_options tally;
	const struct answer_settings *answer; /* its sampling, seed and deadline */
	/* answers end where the model ends them, and not after as many tokens as the load says */
	bool natural;
	/* now and then, in the load's time; false: end here. NULL: never */
	bool (*progress)(void *arg, const struct tally *t, double now_s);
	void *arg;
};

struct load_engine {
	struct engine_options engine; /* counted: no model is opened, and ctx is given */
	const char *record;           /* or NULL; not if counted */
	/* Tokens are given, nothing is computed, and a step takes the time that this says: all is a
	 * function of the options alone. NULL: by the machine's clock */
	const struct cost *counted;
};
struct load_server {
	const char *url, *api_key; /* see client.h */
	bool completions;          /* ask /v1/completions, with the prompt as one text */
};

/* What came of it: a point of a curve. */
struct load_point {
	const char *policy; /* the caller's */
	double load;        /* the rate, or the users of a closed loop */
	char model[192];    /* who answered */
	struct tally tally;
	struct tally_result result;
	int64_t n_cut; /* arrivals cut to the limits */
	bool stopped;  /* by progress: requests are open */
	char why[200]; /* what the first request that failed was told; "": none failed */
};

/* Fills a point, whose tally the caller closes also where it fails. */
int load_inside(const struct load_options *o, const struct load_engine *by, struct load_point *p,
	struct err *e);
int load_http(const struct load_options *o, const struct load_server *by, struct load_point *p,
	struct err *e);

/* The prompt of an arrival in the model's template; appended to *ids, malloc'd, also where it
 * fails. Thread: any. */
int load_ids(const struct workload_options *o, const struct arrival *a, const struct engine *engine,
	int32_t **ids, size_t *n, struct err *e);
/* A limit of a load's lengths that leaves room in the context for the template. */
int32_t load_limit(const struct engine *engine);

/* Prices of a step of SmolLM2-135M Q4_1 on two threads, as docs/load.md says how measured. */
extern const struct cost load_cost;

/* The knee of a curve of n points of one policy: the index of the greatest power, requests a second
 * over the mean time to the end (Kleinrock 1979, "Power and deterministic rules of thumb for
 * probabilistic problems in computer communications"): beyond it latency grows faster than
 * throughput. -1: no point has ended requests. */
int load_knee(const struct load_point *p, int n);

/* Tables (load_print.c) and pictures (load_draw.c). `knee`: an index, or -1. */
void load_print_point(const struct load_point *p, const struct load_options *o, FILE *out);
/* A line, an object, a row of CSV for each point. */
enum { LOAD_COLUMNS = 40 };
void load_columns(const struct load_options *o, struct listing_column column[LOAD_COLUMNS]);
void load_list(const struct load_point *p, struct listing *l);
/* A row for each request that was kept; for each change of the queue, while they were kept. */
extern const struct listing_column load_request_columns[];
void load_list_requests(const struct load_point *p, struct listing *l);
extern const struct listing_column load_queue_columns[];
void load_list_queue(const struct load_point *p, struct listing *l);
/* Requests over time, w columns and at most h rows of them, and below them the queue's length. */
void load_gantt(const struct load_point *p, int w, int h, FILE *out);
void load_gantt_svg(const struct load_point *p, FILE *out);
/* Throughput and latency of curves of points, one after the other: n_each points a policy. */
void load_curve(const struct load_point *p, int n_policies, int n_each, int w, int h, FILE *out);
void load_curve_svg(const struct load_point *p, int n_policies, int n_each, FILE *out);

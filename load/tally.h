/* What became of a load: latencies, throughput, goodput, the queue, and what batching by the step
 * and pages saved; for `cutaway load` and `cutaway simulate`. The caller says what happened to each
 * request when, in seconds of any clock that begins with the load, in order of time; formulas are
 * in docs/load.md. Thread: one at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/histogram.h"

/* A target, in seconds; 0: none. A request is good if it ended well and met all that are given. */
struct tally_slo {
	double ttft_s; /* to the first token */
	double itl_s;  /* of its gaps between tokens the 99th percentile, by nearest rank */
	double tpot_s; /* mean gap after the first token */
	double e2e_s;  /* from its arrival to its end */
};
/* "ttft=500ms,itl=50ms,tpot=40ms,e2e=10s": a number with ms, s or min, or one without, in s. */
int tally_slo_read(const char *text, struct tally_slo *out, struct err *e);

struct tally_options {
	struct tally_slo slo;
	int32_t slots;      /* requests of a static batch, for the padding; 0: none is counted */
	int32_t reserve;    /* tokens that a reservation of the longest takes; 0: none is counted */
	int32_t page_size;  /* tokens of a page, for what pages take; 0: none is counted */
	int64_t keep;       /* requests to keep for tables and pictures, the first ones */
	int64_t most_exact; /* values of a latency up to which its percentiles are exact; 0: 2^22 */
};

/* A request: the caller has one while it is under way (all zero before it arrives), and reads it;
 * times NAN: did not happen. */
struct tally_request {
	int64_t number;
	double arrived_s, admitted_s, first_s, newest_s, ended_s;
	double longest_s;           /* the longest gap */
	int32_t n_prompt, n_output; /* tokens of its prompt; tokens that came */
	int32_t n_cached;           /* of its prompt, those a cache had; -1: not known */
	int32_t n_gaps, n_late;     /* gaps; of them those above slo.itl_s */
	int32_t user, slot;         /* slot -1: not known */
	bool failed, good;
};

/* Values of which percentiles are asked: exact up to most_exact of them, then of a histogram of
 * nanoseconds (base/histogram.h: off by 1.6 % at most). */
struct tally_values {
	double *value; /* [n] while exact, else NULL */
	int64_t n, cap, most;
	double sum, max;
	bool sorted;
	struct histogram *many; /* or NULL */
};

/* A number over time: mean weighted by time, and the largest. */
struct tally_level {
	int64_t now, max;
	double since_s, area; /* of the past: sum of number x seconds */
};

struct tally_change {
	double at_s;
	int64_t waiting;
};

struct tally {
	struct tally_options o;
	struct tally_values ttft, itl, e2e;  /* s; of requests that ended well, itl: of all tokens */
	struct tally_level waiting, running; /* between arrival and admission; after it */
	int64_t n_arrived, n_ended, n_failed, n_good;
	int64_t prompt_tokens, cached_tokens, output_tokens; /* of requests that ended, well or not */
	double first_s, last_s;                              /* the first arrival; the newest end */
	/* static batches of o.slots requests in order of arrival: those that ended, their longest */
	struct tally_batch {
		int32_t n, prompt, output;
	} * batch;
	int64_t n_batches, cap_batches;
	int64_t reserved, paged, used;
	struct tally_request *kept; /* [n_kept] in order of their ends; never more than o.keep */
	int64_t n_kept, cap_kept;
	/* Who began (1) or ceased (-1) to wait, as told: what is due while a step computes is told
	 * after it. [n_changes], never more than two for each of o.keep. */
	struct tally_change *change;
	int64_t n_changes, cap_changes;
	bool no_memory; /* something could not be kept: tally_result() reports it */
};

void tally_open(struct tally *t, const struct tally_options *o);
void tally_close(struct tally *t);

void tally_arrived(struct tally *t, struct tally_request *r, int64_t number, double at_s);
/* It left the queue for the first time. A first token without it counts as admission. */
void tally_admitted(struct tally *t, struct tally_request *r, double now_s);
/* n tokens came at once, at least 1: gaps of those after the first are 0. */
void tally_tokens(struct tally *t, struct tally_request *r, int32_t n, double now_s);
/* It ended. r has its n_prompt, n_cached, user and slot by now. failed: refused, cut off, or an
 * error; its latencies do not count, its tokens do. */
void tally_ended(struct tally *t, struct tally_request *r, bool failed, double now_s);

/* The queue over time: how many wait from each time on, in order of time; *out is malloc'd and the
 * caller's. Returns how many; -1: no memory. */
int64_t tally_queue(const struct tally *t, struct tally_change **out);

struct tally_quantiles {
	double mean, p50, p90, p99, max; /* NAN without values */
	int64_t n;
	bool exact;
};
struct tally_result {
	struct tally_quantiles ttft, itl, e2e; /* s */
	double span_s;                         /* from the first arrival to the last end, or `now_s` */
	int64_t n_requests, n_failed, n_good, n_open; /* ended, of them failed and good; not ended */
	int64_t prompt_tokens, cached_tokens, output_tokens;
	double tokens_s, requests_s, goodput_s; /* output tokens, requests, good requests a second */
	double queue_mean, running_mean;
	int64_t queue_max, running_max;
	/* Tokens (of positions, whose keys and values take memory and whose rows take time): that the
	 * ended requests had; that batches of o.slots of them by arrival, padded to rectangles of
	 * the longest prompt and answer, would have; that a reservation of o.reserve each would hold;
	 * that pages hold. 0: not counted */
	int64_t used, rectangle, reserved, paged;
};
/* May be called at any time; now_s: at least the newest time given. -1: no memory was left for all
 * that had to be kept. */
int tally_result(struct tally *t, double now_s, struct tally_result *out, struct err *e);

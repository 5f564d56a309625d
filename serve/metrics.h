/* Quantities of the server, in Prometheus' text form. Named and meant as vLLM's, with cutaway: in
 * place of vllm:, and as there, with the label engine where there are several. Under the server's
 * lock. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "event/event.h"

enum { METRICS_BUCKETS = 20, METRICS_GROUPS = 4, METRICS_DEPTHS = 16 };
enum metrics_reason { METRICS_stop, METRICS_length, METRICS_abort, METRICS_error, METRICS_REASONS };

/* Of seconds or of tokens: metrics.c has the bounds of either. */
struct metrics_histogram {
	int64_t count[METRICS_BUCKETS + 1]; /* the last: beyond all bounds */
	double sum;
};
struct metrics {  /* of an engine */
	int64_t open; /* requests that have not ended */
	int64_t running, waiting, pages[METRICS_GROUPS], pages_used, preemptions;
	int64_t prompt_tokens, generated_tokens, asked_tokens, hit_tokens;
	int64_t finished[METRICS_REASONS];
	int64_t drafts, drafted, accepted;
	int64_t accepted_at[METRICS_DEPTHS]; /* by tokens ahead of the newest; the last: and beyond */
	int64_t pins, pages_pinned, pinned_tokens, pins_refused;
	struct metrics_histogram first_token, between, per_token, whole, queue, inference, prefill,
		decode;
	struct metrics_histogram prompt, answer, step; /* tokens */
};

struct metrics_http {       /* of all engines together */
	int64_t refused;        /* with 429: the queue was full */
	int64_t held;           /* before the engines */
	int64_t errors, closed; /* the HTTP thread's: replies of 400 or more, connections */
};

/* Of clients' requests, and of steps. */
void metrics_add(struct metrics *m, const struct event *ev);
/* Another engine goes on in place of one that is idle. */
void metrics_renew(struct metrics *m);
/* A client's request of so many tokens leaves the queue for the first time. */
void metrics_add_prompt(struct metrics *m, const struct ev_lookup *l, int64_t tokens);
/* Of any request: that it came or ended. Steps say how many run, but none follows the end of the
 * last. */
void metrics_count(struct metrics *m, const struct event *ev);
/* From a token of a request to its next. */
void metrics_add_gap(struct metrics *m, int64_t ns);
/* Of n engines. name: of the model. malloc'd; NULL: no memory. */
char *metrics_text(const struct metrics *const *m, int32_t n, const struct metrics_http *http,
	const char *name, size_t *size);

/* What an engine is opened with, and what a request asks of it. Thread: any; values belong to the
 * caller. */
#pragma once

#include <stdatomic.h>

#include "engine/settings/settings.h"

struct engine_given;
struct transport;

enum { ENGINE_GOES_ON = 16 };

/* What an engine is opened with: the settings of settings.def, and arguments that are no settings.
 */
struct engine_options {
#define ENGINE SETTING_FIELD
#include "engine/settings/settings.def"
	/* [K]: nanoseconds of a step of K rows, 1 to 64; the array outlives the engine. Drafters are
	 * compared by these instead of by the clock, so that `auto`, predictions and speeds depend on
	 * the tokens alone (draft_cost.h). NULL: measured. */
	const double *counted_cost;
	/* How many engines serve in this process: without `pages` they have room for the longest
	 * sequence of every slot, in a quarter of the memory that the kernels' machine says it has; and
	 * they share the weights. 0: neither */
	int32_t replicas;
	/* ctx is what a row sees: sequences go on to ENGINE_GOES_ON times that, with attention sinks
	 * and a window, unless `visible` says otherwise */
	bool goes_on;
	bool measure; /* measure read bandwidth at the start */
	/* no file, tokenizer or kernels: ids are any numbers from 0, and `ctx` must be set */
	const struct engine_given *given;
	/* Set by any thread: engine_open() ends within about 100 ms with ERR_INTERRUPTED, and closing
	 * does not wait for a cache to be written. NULL: never. */
	const atomic_bool *abandon;
	/* A rank other than 0 (core/engine_follow.h): the engine computes what rank 0 tells it. */
	struct transport *follows;
};

struct engine_request {
	enum ev_code_request_kind kind;
	const int32_t *ids; /* prompt, copied */
	int32_t n_ids;      /* at least 1 */
	int32_t max_tokens; /* 0: until the context is full */
	struct sample_params params;
	int64_t sample;
	int64_t parent;   /* request it was forked from, or 0 */
	int32_t fork_pos; /* with parent: position from which it diverges; 0: no event fork */
	bool forced;      /* with fork_pos: ids[fork_pos] was put there by the user */
	int32_t n_prompt; /* verify: the first n_prompt ids are the prompt, the rest were drawn; else
						 not read */
	const char *text; /* label: what the user typed */
	const char *const *stop; /* stop strings, NULL-terminated, or NULL */
	const int32_t *stop_ids; /* tokens that end it, too, copied */
	int32_t n_stop_ids;
	/* What the answer is bound to: a spec (grammar/constraint.h); NULL or "off": nothing. The first
	 * token that it rules is at bound_from; 0: the first that is generated. */
	const char *grammar;
	int32_t bound_from;
	bool ignore_end;  /* go on past end-of-turn tokens (benchmarks) */
	const char *user; /* whose it is, for the policy fair; NULL: as "" */
	int32_t priority; /* for the policy priority: the lower goes first, as in vLLM */
	int32_t deadline; /* for the policy deadline: steps from its arrival to its end; 0: none */
	int32_t top;      /* tokens of greatest logit to tell of each row, at most SAMPLE_TOP */
	/* The first so many tokens are declared stable: once computed, whole pages of them are kept for
	 * so long (0: until engine_unpin()); 0: none. A request of kind pin does nothing else. */
	int32_t pin;
	int64_t pin_ttl_ns;
	/* Name of the model's adapter that it is computed with; "off": none; NULL: the first, if there
	 * are any */
	const char *adapter;
	int pooling; /* of kind embed: a code of `pooling` and 1; 0: as the model's file says */
};

/* A request with what settings say of it; the stops stay theirs. The caller adds kind, ids and the
 * rest. */
struct engine_request engine_answer_request(const struct answer_settings *a);
/* A request of the program's own, by default settings; ids stay the caller's. n_generated: so many
 * tokens, whatever ends an answer; 0: it is scored. */
struct engine_request engine_own_request(enum ev_code_request_kind kind, const int32_t *ids,
	int32_t n_ids, int32_t n_generated, const char *text);

/* Simulates the recorded requests under other settings. The engine itself runs them again without
 * the model (engine_options.given): their tokens are in the log, and logits are a function of the
 * tokens, so other settings would have drawn the same ones. Hits, pages, steps, preemptions and
 * recomputed tokens come out exactly; time is predicted from the recorded cost of steps.
 *
 * Requests arrive when as many tokens have been generated as at their recorded arrival (and as many
 * steps have passed since), so that they come earlier under a faster setting, as from a client that
 * waits for its answers. Tokens that speculation drew by modified rejection are taken as recorded.
 * Of drafts that a grammar cut before they were verified a log does not tell.
 * Where a user stopped or rewound a request, a faster run may already be further: that is done
 * again so many steps after its newest token as in the log, and at the latest when it has drawn
 * beyond the log, so the number of kept drafts may be off by a few. Requests that a log leaves
 * running are stopped where it ends. Thread: any one; no state is kept. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/core/engine.h"

struct whatif_settings { /* {0}: all as recorded */
	struct engine_options to;
	/* by index in engine_settings: those of `to` that are not as recorded */
	bool given[N_ENGINE_SETTINGS];
};
/* Adds a setting to the question. ERR_USAGE if it is no setting of the scheduler or `spec`, or out
 * of range. value must stay valid. */
int whatif_ask(struct whatif_settings *s, const char *name, const char *value, struct err *e);

#define WHATIF_FIGURES(X)                                                                          \
	X(steps, "steps")                                                                              \
	X(prompt_tokens, "prompt tokens asked of the prefix cache")                                    \
	X(hit_tokens, "of them found there")                                                           \
	X(prefill_rows, "prompt rows computed")                                                        \
	X(recomputed, "tokens lost to preemptions, to compute again")                                  \
	X(tokens, "tokens generated")                                                                  \
	X(drafted, "tokens drafted")                                                                   \
	X(accepted, "of them kept")                                                                    \
	X(peak_pages, "pages read by requests, at most")                                               \
	X(evictions, "pages evicted")                                                                  \
	X(copies, "pages copied before a write")                                                       \
	X(preemptions, "preemptions")                                                                  \
	X(unfinished, "requests that could not end as they did")

struct whatif_counts {
#define X(name, doc) int64_t name;
	WHATIF_FIGURES(X)
#undef X
	double seconds; /* all steps: measured in recorded, real; predicted in again, changed */
};

struct whatif {
	/* the log; run again as recorded; under other settings */
	struct whatif_counts recorded, again, changed;
	struct whatif_counts real; /* measured: with the model, under other settings */
	bool verified;
	/* seconds, for the settings as recorded: what changed.seconds compares with */
	double predicted;
	/* of steps that the cost was not fitted to, if there are enough: */
	double step_error; /* median |predicted / recorded - 1| of a step's time */
	double time_error; /* error of the sum of times, signed */
	/* recorded with a drafter that cannot be simulated: `again` uses the one asked for */
	bool unchecked;
};

/* Without the model. */
int whatif_run(
	const char *path, const struct whatif_settings *s, struct whatif *out, struct err *e);
/* Runs the same requests with the model, on an engine opened with these options (whose model must
 * be the recorded one): fills out->real. progress may be NULL; false stops. */
int whatif_verify(const char *path, const struct whatif_settings *s, const struct engine_options *o,
	bool (*progress)(void *arg, int64_t done, int64_t all), void *arg, struct whatif *out,
	struct err *e);

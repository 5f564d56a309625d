/* Hooks of a step: functions that take part in every step without the step naming them. Searches,
 * drafters in the shadow, the observation of attention and times, and the roof are hooks; a probe
 * or a statistic can be another one.
 *
 * A hook is a file and a line in the table (step_hooks.c; docs/extend.md, "a step hook"). Hooks are
 * called in the order of the table, each function where its comment says; NULL: nothing to do. What
 * a hook changes must not depend on hooks that follow it in the table.
 *
 * For a single request whose owner decides about it, see struct request_owner (request.h). Thread:
 * the engine's. A decode step allocates nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"

struct engine;
struct plan_item;
struct draft_seen;
struct request;
struct engine_request;

struct step_hooks {
	const char *name;
	size_t size; /* of a state that the engine has for it, zeroed; 0: none */
	/* All other functions get *state, which may be set here, too. Called after pages and queues are
	 * open, before any drafter. */
	int (*open)(struct engine *e, void **state, struct err *err);
	/* before the closed event; also for a state whose open() failed */
	void (*close)(struct engine *e, void *state);

	/* The session's event is out, and its settings': now comes what the hook measured. */
	void (*begun)(struct engine *e, void *state);

	/* r waits in the queue, as q asked for it. True: the hook has ended it; no other gets it. */
	bool (*submitted)(
		struct engine *e, void *state, struct request *r, const struct engine_request *q);

	/* The hook has work that is no request: the engine is not idle. */
	bool (*busy)(const struct engine *e, const void *state);
	/* No request runs or waits: spend some milliseconds on that work. */
	void (*wait)(struct engine *e, void *state);

	/* Nothing runs, waits or is busy, and nobody asks for anything (engine_rest). */
	void (*rest)(struct engine *e, void *state);

	/* A step begins; nothing is planned. */
	void (*begin)(struct engine *e, void *state);
	/* No request got a row: a hook that holds pages it does not need releases some. */
	void (*stuck)(struct engine *e, void *state);

	/* Whether the next two functions are to be called; engine_set_draft_hooks() reads it. */
	bool (*hears)(const void *state);
	/* While the plan is made: the drafter in use proposed for the first n of e->draft.jobs, at most
	 * `nodes` nodes, and took propose_ns for all of them. Fails as k_run() does. */
	int (*asked)(struct engine *e, void *state, int32_t n, int32_t nodes, int64_t propose_ns,
		struct err *err);
	/* After the draws, while the step's rows are still in the buffers; fails likewise. */
	int (*seen)(
		struct engine *e, void *state, const struct draft_seen *seen, int32_t n, struct err *err);

	/* The rows of an item are laid out and not yet computed. */
	void (*row)(struct engine *e, void *state, struct plan_item *item);
	/* All rows are computed, nothing is drawn: requests are as they were planned. */
	void (*computed)(struct engine *e, void *state);
	/* Output `out` of the step gave the token at pos of r, drawn or (score, verify) given, and
	 * e->forward.logits has its whole row if e->whole_rows is set. r has not ended yet. */
	void (*drawn)(struct engine *e, void *state, const struct request *r, int32_t pos, int32_t id,
		int32_t out);
	/* All tokens are drawn; requests may have ended. May submit and end requests and emit
	 * events. */
	void (*done)(struct engine *e, void *state);
	/* Fills in its fields of the step's event, which comes next. */
	void (*fill)(struct engine *e, void *state, struct ev_step *s);
	/* The event was emitted. */
	void (*emitted)(struct engine *e, void *state, const struct ev_step *s);

	/* A request is gone for good. */
	void (*forget)(struct engine *e, void *state, int64_t request);
};

enum { STEP_HOOKS_MOST = 16 };
/* The table; ends with NULL. */
extern const struct step_hooks *const step_hooks_table[];

/* The state of a hook of this engine. */
void *engine_hook_state(const struct engine *e, const struct step_hooks *ops);

/* Hooks of a step: who takes part in every step without the step naming it. Searches, drafters in
 * the shadow, the watching of attention and times, and the roof are such; a probe or a statistic is
 * another one.
 *
 * One is a file and a line in the table (step_hooks.c; docs/extend.md, "a step hook"). Hooks are
 * called in the order of the table, each function where its comment says; NULL: there is nothing to
 * do. What a hook changes must not depend on what stands after it in the table.
 *
 * Of one request alone, which has an owner who decides about it, see struct request_owner
 * (request.h). Thread: the engine's. A decode step allocates nothing. */
#ifndef CUTAWAY_ENGINE_STEP_HOOKS_H
#define CUTAWAY_ENGINE_STEP_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"

struct engine;
struct plan_item;
struct draft_seen;

struct step_hooks {
	const char *name;
	/* *state is given to all others; NULL: it has none. After the pages and queues, before any
	 * drafter. */
	int (*open)(struct engine *e, void **state, struct err *err);
	/* before the closed event; also of a state whose open() failed */
	void (*close)(struct engine *e, void *state);

	/* Work that is no request: the engine is not idle. */
	bool (*busy)(const struct engine *e, const void *state);
	/* No request runs or waits: some milliseconds for that work. */
	void (*wait)(struct engine *e, void *state);

	/* A step begins; nothing is planned. */
	void (*begin)(struct engine *e, void *state);
	/* No request got a row: a hook that holds pages it can do without gives some up. */
	void (*stuck)(struct engine *e, void *state);

	/* Are the next two, of drafts and of what was computed, to be called? engine_set_draft_hooks()
	 * asks. */
	bool (*hears)(const void *state);
	/* Within the plan: the first n of e->draft.jobs were asked for drafts, of `nodes` nodes at
	 * most, and the drafter that is used took so long for all of them. Fails as k_run() does. */
	int (*asked)(struct engine *e, void *state, int32_t n, int32_t nodes, int64_t propose_ns,
		struct err *err);
	/* After the draws, while the step's rows are still there; likewise. */
	int (*seen)(
		struct engine *e, void *state, const struct draft_seen *seen, int32_t n, struct err *err);

	/* The rows of an item are laid out and not computed. */
	void (*row)(struct engine *e, void *state, struct plan_item *item);
	/* All rows are computed, nothing is drawn: requests are as they were planned. */
	void (*computed)(struct engine *e, void *state);
	/* All is drawn; requests may have ended. Submits, ends, emits. */
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

#endif

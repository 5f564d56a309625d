/* An engine on a thread of its own, and the way to talk to it.
 *
 * The UI posts calls; they run on the engine's thread between two steps, in order. While no call waits
 * and the engine is neither paused nor idle, it steps. Events reach the UI through the ring (trace/ring.h),
 * never through this. Thread: any thread may post. */
#ifndef CUTAWAY_ENGINE_ACTOR_H
#define CUTAWAY_ENGINE_ACTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/engine.h"

struct actor;

/* The engine must be open with its sinks added and begun; the actor does not own it. on_stop is called on
 * the engine thread if a step fails. */
int actor_start(struct actor **a, struct engine *e, void (*on_stop)(void *arg, const struct err *err),
				void *arg, struct err *err);
void actor_stop(struct actor *a); /* finishes the running step, joins the thread */

/* Runs fn(e, arg) on the engine's thread and waits for it: at most one step. */
void actor_call(struct actor *a, void (*fn)(struct engine *e, void *arg), void *arg);

/* Whether calls wait. For a call that takes long: it should give way and be posted again. */
bool actor_waiting(struct actor *a);

void actor_pause(struct actor *a);
void actor_resume(struct actor *a);
bool actor_paused(struct actor *a);
/* Runs n steps, then is paused again. */
void actor_step(struct actor *a, int n);

/* Conveniences over actor_call. */
int64_t actor_submit(struct actor *a, const struct engine_request *r, struct err *err);
bool actor_cancel(struct actor *a, int64_t request);
int actor_set(struct actor *a, const char *name, const char *value, struct err *err);

#endif

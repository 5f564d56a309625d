/* An engine on a thread of its own, and the way to talk to it.
 *
 * The UI makes calls, and posts those that it need not wait for; they run on the engine's thread
 * between two steps, in order. While no call waits and the engine is neither paused nor idle, it
 * steps. Events reach the UI through the ring (trace/ring.h), never through this. Thread: any may
 * call and post; one takes answers. */
#ifndef CUTAWAY_ENGINE_ACTOR_H
#define CUTAWAY_ENGINE_ACTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/core/engine.h"

struct actor;

/* The engine must be open with its sinks added and begun; the actor does not own it. on_stop is
 * called on the engine thread if a step fails. */
int actor_start(struct actor **a, struct engine *e,
	void (*on_stop)(void *arg, const struct err *err), void *arg, struct err *err);
/* Finishes the running step and what was asked, and joins the thread. Whoever asks while it stops
 * is refused; when it returns the actor is gone, and nobody may ask any more. */
void actor_stop(struct actor *a);

/* Runs fn(e, arg) on the engine's thread and waits for it: for all that was asked before, and a
 * step, which may be a long one. fn NULL: only waits. False: the actor stops, and fn was not
 * run. */
bool actor_call(struct actor *a, void (*fn)(struct engine *e, void *arg), void *arg);

/* The same in the same order, but nobody waits: fn is given a copy of arg [size]. What then is to
 * be done on the caller's thread is `then`, which may be NULL; it gets that copy as fn left it, and
 * runs within actor_answers(), or within actor_stop() with whose NULL, to free what the copy owns.
 * False: no memory, or the actor stops. */
bool actor_post(struct actor *a, void (*fn)(struct engine *e, void *arg),
	void (*then)(void *whose, void *arg), const void *arg, size_t size);
int actor_fd(const struct actor *a); /* readable while there are answers to take */
void actor_answers(struct actor *a, void *whose);

/* Whether calls wait. For a call that takes long: it should give way and be posted again. */
bool actor_waiting(struct actor *a);

void actor_pause(struct actor *a);
void actor_resume(struct actor *a);
bool actor_paused(struct actor *a);
/* Runs n steps, then is paused again. */
void actor_step(struct actor *a, int n);

#endif

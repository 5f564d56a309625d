/* An engine on a thread of its own, and the calls that reach it.
 *
 * The UI makes calls, and posts those whose end it need not wait for; they run in order on the
 * engine's thread, between two steps. While no call waits and the engine is neither paused nor
 * idle, it steps. Events reach the UI through the ring (trace/ring.h), never through this. Thread:
 * any may call and post; one takes the answers. */
#pragma once

#include <stddef.h>

#include "engine/core/engine.h"

struct actor;

/* The engine must be open with its sinks added and begun; the actor does not own it. on_stop is
 * called on the engine thread if a step fails. */
int actor_start(struct actor **a, struct engine *e,
	void (*on_stop)(void *arg, const struct err *err), void *arg, struct err *err);
/* Finishes the running step and the accepted calls, and joins the thread. Calls made while it stops
 * are refused; after it returns the actor is freed, and no call may be made. */
void actor_stop(struct actor *a);

/* Runs fn(e, arg) on the engine's thread and waits for it: for all calls before it, and for a step,
 * which may be a long one. fn NULL: only waits. False: the actor stops, and fn was not run. */
bool actor_call(struct actor *a, void (*fn)(struct engine *e, void *arg), void *arg);

/* The same in the same order, but the caller does not wait: fn gets a copy of arg [size]. `then`
 * (or NULL) runs afterwards on the caller's thread: it gets that copy as fn left it, within
 * actor_answers(), or within actor_stop() with whose NULL, to free what the copy owns. False: no
 * memory, or the actor stops. */
bool actor_post(struct actor *a, void (*fn)(struct engine *e, void *arg),
	void (*then)(void *whose, void *arg), const void *arg, size_t size);
int actor_fd(const struct actor *a); /* readable while there are answers to take */
void actor_answers(struct actor *a, void *whose);

/* Whether calls wait. For a call that takes long: it should return and be posted again. */
bool actor_waiting(struct actor *a);

void actor_pause(struct actor *a);
/* Undoes the last pause: it runs on, or does the steps that were left; nothing unless paused. */
void actor_unpause(struct actor *a);
void actor_resume(struct actor *a);
bool actor_paused(struct actor *a);
bool actor_steps(struct actor *a); /* paused, or on the steps that actor_step() was asked for */
/* Steps a second at most, but for those of actor_step(); 0: as many as there can be. */
void actor_pace(struct actor *a, double per_s);
/* Runs n steps, then is paused again. */
void actor_step(struct actor *a, int n);

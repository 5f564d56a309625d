/* See actor.h.
 *
 * Invariants, all under `lock`: (1) calls run in order, on the engine's thread, between steps; (2) a call
 * lives on the stack of whoever posted it, who waits for `done`; (3) `todo` counts the steps that may run
 * while paused. The engine itself is touched by the engine's thread alone. */
#include "engine/actor.h"

#include <pthread.h>
#include <stdlib.h>

struct call {
	void (*fn)(struct engine *e, void *arg);
	void *arg;
	struct call *next;
	bool done;
};

struct actor {
	struct engine *engine;
	void (*on_stop)(void *arg, const struct err *err);
	void *on_stop_arg;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake, done;
	struct call *first, *last;
	int todo;
	bool paused, stop, failed;
};

static void run_calls(struct actor *a)
{
	while (a->first) {
		struct call *c = a->first;

		a->first = c->next;
		if (!a->first)
			a->last = NULL;
		pthread_mutex_unlock(&a->lock);
		c->fn(a->engine, c->arg);
		pthread_mutex_lock(&a->lock);
		c->done = true;
		pthread_cond_broadcast(&a->done);
	}
}

static void run_step(struct actor *a)
{
	struct err err = { 0 };
	int result;

	bool closely = a->todo > 0;

	if (closely)
		a->todo--;
	pthread_mutex_unlock(&a->lock);
	if (closely)
		engine_look_closely(a->engine);
	result = engine_step(a->engine, &err);
	if (result < 0 && a->on_stop)
		a->on_stop(a->on_stop_arg, &err);
	pthread_mutex_lock(&a->lock);
	if (result < 0)
		a->failed = true;
}

static void *actor_main(void *arg)
{
	struct actor *a = arg;

	pthread_mutex_lock(&a->lock);
	for (;;) {
		run_calls(a);
		if (a->stop)
			break;
		if (!a->failed && (!a->paused || a->todo > 0) && !engine_idle(a->engine)) {
			run_step(a);
			continue;
		}
		a->todo = 0; /* steps asked for while there was nothing to do are not saved up */
		pthread_cond_wait(&a->wake, &a->lock);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

int actor_start(struct actor **out, struct engine *e, void (*on_stop)(void *arg, const struct err *err),
				void *arg, struct err *err)
{
	struct actor *a = calloc(1, sizeof *a);

	*out = NULL;
	if (!a)
		return err_set(err, ERR_MEMORY, "no memory for the engine's thread");
	a->engine = e;
	a->on_stop = on_stop;
	a->on_stop_arg = arg;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->wake, NULL);
	pthread_cond_init(&a->done, NULL);
	if (pthread_create(&a->thread, NULL, actor_main, a)) {
		free(a);
		return err_set(err, ERR_IO, "the system refused a thread for the engine");
	}
	*out = a;
	return 0;
}

void actor_stop(struct actor *a)
{
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->stop = true;
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	pthread_mutex_destroy(&a->lock);
	pthread_cond_destroy(&a->wake);
	pthread_cond_destroy(&a->done);
	free(a);
}

void actor_call(struct actor *a, void (*fn)(struct engine *e, void *arg), void *arg)
{
	struct call c = { .fn = fn, .arg = arg };

	pthread_mutex_lock(&a->lock);
	if (a->last)
		a->last->next = &c;
	else
		a->first = &c;
	a->last = &c;
	pthread_cond_signal(&a->wake);
	while (!c.done)
		pthread_cond_wait(&a->done, &a->lock);
	pthread_mutex_unlock(&a->lock);
}

bool actor_waiting(struct actor *a)
{
	bool waiting;

	pthread_mutex_lock(&a->lock);
	waiting = a->first != NULL;
	pthread_mutex_unlock(&a->lock);
	return waiting;
}

static void set_paused(struct actor *a, bool paused, int todo)
{
	pthread_mutex_lock(&a->lock);
	a->paused = paused;
	a->todo = todo;
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
}

void actor_pause(struct actor *a)
{
	set_paused(a, true, 0);
}

void actor_resume(struct actor *a)
{
	set_paused(a, false, 0);
}

void actor_step(struct actor *a, int n)
{
	set_paused(a, true, n);
}

bool actor_paused(struct actor *a)
{
	bool paused;

	pthread_mutex_lock(&a->lock);
	paused = a->paused && !a->todo;
	pthread_mutex_unlock(&a->lock);
	return paused;
}

/* ---- conveniences ---- */

struct submit_call {
	const struct engine_request *r;
	struct err *err;
	int64_t id;
};

static void call_submit(struct engine *e, void *arg)
{
	struct submit_call *c = arg;

	c->id = engine_submit(e, c->r, c->err);
}

int64_t actor_submit(struct actor *a, const struct engine_request *r, struct err *err)
{
	struct submit_call c = { r, err, -1 };

	actor_call(a, call_submit, &c);
	return c.id;
}

struct cancel_call {
	int64_t id;
	bool result;
};

static void call_cancel(struct engine *e, void *arg)
{
	struct cancel_call *c = arg;

	c->result = engine_cancel(e, c->id);
}

bool actor_cancel(struct actor *a, int64_t request)
{
	struct cancel_call c = { request, false };

	actor_call(a, call_cancel, &c);
	return c.result;
}

struct set_call {
	const char *name, *value;
	struct err *err;
	int result;
};

static void call_set(struct engine *e, void *arg)
{
	struct set_call *c = arg;

	c->result = engine_set(e, c->name, c->value, c->err);
}

int actor_set(struct actor *a, const char *name, const char *value, struct err *err)
{
	struct set_call c = { name, value, err, -1 };

	actor_call(a, call_set, &c);
	return c.result;
}

/* See actor.h.
 *
 * Invariants, all under `lock`: (1) calls run in order, on the engine's thread, between steps; (2)
 * a call of actor_call is on the stack of its caller, which waits for `done` and is counted in
 * `inside`; one of actor_post is owned here, until it has run or, with `then`, until `then` has
 * run; (3) `todo` counts the steps that may run while paused; (4) once `stop` is set nothing is
 * accepted, and every accepted call has run when the thread ends. The engine itself is touched by
 * the engine's thread alone. */
#include "engine/core/actor.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/wait.h"

struct call {
	void (*fn)(struct engine *e, void *arg);
	void (*then)(void *whose, void *arg);
	void *arg;
	STAILQ_ENTRY(call) next;
	bool posted, done;
	_Alignas(max_align_t) unsigned char copy[]; /* posted: what arg points to */
};

STAILQ_HEAD(calls, call);

struct actor {
	struct engine *engine;
	void (*on_stop)(void *arg, const struct err *err);
	void *on_stop_arg;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake, done;
	struct calls asked, answered; /* answered: posted ones whose `then` has not run */
	int fd;                       /* readable: some are answered */
	int todo, inside;
	int held;                  /* what todo was before a pause; -1: no bound */
	int64_t least_ns, next_ns; /* from one step to the next; when that may be */
	bool paused, stop, failed;
};

static struct call *take(struct calls *q)
{
	struct call *c = STAILQ_FIRST(q);

	if (c)
		STAILQ_REMOVE_HEAD(q, next);
	return c;
}

/* It has run. */
static void answer(struct actor *a, struct call *c)
{
	uint64_t one = 1;

	if (!c->posted) {
		c->done = true;
		pthread_cond_broadcast(&a->done);
	} else if (!c->then) {
		free(c);
	} else {
		STAILQ_INSERT_TAIL(&a->answered, c, next);
		if (write(a->fd, &one, sizeof one) < 0)
			return; /* the descriptor is readable already */
	}
}

static void run_calls(struct actor *a)
{
	struct call *c;

	while ((c = take(&a->asked))) {
		pthread_mutex_unlock(&a->lock);
		if (c->fn)
			c->fn(a->engine, c->arg);
		pthread_mutex_lock(&a->lock);
		answer(a, c);
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

/* With the lock held. */
static bool may_step(const struct actor *a)
{
	return !a->failed && (!a->paused || a->todo > 0) && !engine_idle(a->engine);
}

/* Until it is woken, or until the time of a pin is over. */
static void wait_for_work(struct actor *a)
{
	int64_t left;

	pthread_mutex_unlock(&a->lock);
	left = engine_rest(a->engine);
	pthread_mutex_lock(&a->lock);
	if (!STAILQ_EMPTY(&a->asked) || a->stop || may_step(a))
		return;
	if (left == INT64_MAX)
		pthread_cond_wait(&a->wake, &a->lock);
	else
		wait_until(&a->wake, &a->lock, now_ns() + left);
}

/* Until the time of the next step, or until it is woken. */
static bool too_early(struct actor *a)
{
	const int64_t now = now_ns();

	if (!a->least_ns || a->todo || now >= a->next_ns) {
		a->next_ns = now + a->least_ns;
		return false;
	}
	wait_until(&a->wake, &a->lock, a->next_ns);
	return true;
}

static void *actor_main(void *arg)
{
	struct actor *a = arg;

	pthread_mutex_lock(&a->lock);
	for (;;) {
		run_calls(a);
		if (a->stop)
			break;
		if (may_step(a)) {
			if (!too_early(a))
				run_step(a);
			continue;
		}
		a->todo = 0; /* steps requested while there was nothing to do are dropped */
		wait_for_work(a);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

int actor_start(struct actor **out, struct engine *e,
	void (*on_stop)(void *arg, const struct err *err), void *arg, struct err *err)
{
	struct actor *a = calloc(1, sizeof *a);

	*out = NULL;
	if (!a)
		return err_no_memory(err, "the engine's thread");
	a->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (a->fd < 0) {
		free(a);
		return err_set(err, ERR_IO, "eventfd: %s", strerror(errno));
	}
	STAILQ_INIT(&a->asked);
	STAILQ_INIT(&a->answered);
	a->engine = e;
	a->on_stop = on_stop;
	a->on_stop_arg = arg;
	pthread_mutex_init(&a->lock, NULL);
	wait_open(&a->wake);
	pthread_cond_init(&a->done, NULL);
	if (pthread_create(&a->thread, NULL, actor_main, a)) {
		close(a->fd);
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
	engine_abandon(a->engine);
	pthread_join(a->thread, NULL);
	pthread_mutex_lock(&a->lock);
	while (a->inside)
		pthread_cond_wait(&a->done, &a->lock);
	pthread_mutex_unlock(&a->lock);
	actor_answers(a, NULL);
	pthread_mutex_destroy(&a->lock);
	pthread_cond_destroy(&a->wake);
	pthread_cond_destroy(&a->done);
	close(a->fd);
	free(a);
}

/* With the lock held. */
static bool ask(struct actor *a, struct call *c)
{
	if (a->stop)
		return false;
	STAILQ_INSERT_TAIL(&a->asked, c, next);
	pthread_cond_signal(&a->wake);
	return true;
}

bool actor_call(struct actor *a, void (*fn)(struct engine *e, void *arg), void *arg)
{
	struct call c = { .fn = fn, .arg = arg };
	bool asked;

	pthread_mutex_lock(&a->lock);
	a->inside++;
	asked = ask(a, &c);
	while (asked && !c.done)
		pthread_cond_wait(&a->done, &a->lock);
	a->inside--;
	pthread_cond_broadcast(&a->done);
	pthread_mutex_unlock(&a->lock);
	return asked;
}

bool actor_post(struct actor *a, void (*fn)(struct engine *e, void *arg),
	void (*then)(void *whose, void *arg), const void *arg, size_t size)
{
	struct call *c = malloc(sizeof *c + size);
	bool asked;

	if (!c)
		return false;
	*c = (struct call){ .fn = fn, .then = then, .posted = true };
	c->arg = c->copy;
	if (size)
		memcpy(c->copy, arg, size);
	pthread_mutex_lock(&a->lock);
	asked = ask(a, c);
	pthread_mutex_unlock(&a->lock);
	if (!asked)
		free(c);
	return asked;
}

int actor_fd(const struct actor *a)
{
	return a->fd;
}

void actor_answers(struct actor *a, void *whose)
{
	uint64_t count;
	struct call *c;

	if (read(a->fd, &count, sizeof count) < 0)
		count = 0;
	for (;;) {
		pthread_mutex_lock(&a->lock);
		c = take(&a->answered);
		pthread_mutex_unlock(&a->lock);
		if (!c)
			return;
		c->then(whose, c->arg);
		free(c);
	}
}

bool actor_waiting(struct actor *a)
{
	bool waiting;

	pthread_mutex_lock(&a->lock);
	waiting = !STAILQ_EMPTY(&a->asked);
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
	pthread_mutex_lock(&a->lock);
	if (!a->paused || a->todo)
		a->held = a->paused ? a->todo : -1;
	a->paused = true;
	a->todo = 0;
	pthread_mutex_unlock(&a->lock);
}

void actor_unpause(struct actor *a)
{
	pthread_mutex_lock(&a->lock);
	if (a->paused && !a->todo) {
		a->paused = a->held >= 0;
		a->todo = a->held > 0 ? a->held : 0;
		a->held = 0;
	}
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
}

void actor_resume(struct actor *a)
{
	set_paused(a, false, 0);
}

bool actor_steps(struct actor *a)
{
	bool steps;

	pthread_mutex_lock(&a->lock);
	steps = a->paused;
	pthread_mutex_unlock(&a->lock);
	return steps;
}

void actor_pace(struct actor *a, double per_s)
{
	pthread_mutex_lock(&a->lock);
	a->least_ns = per_s > 0 ? (int64_t)(1e9 / per_s) : 0;
	a->next_ns = 0;
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
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

/* An engine on its thread, and those who talk to it: what is posted waits for nobody, also while a
 * step runs, and keeps its order; whoever comes while it stops is refused; and who pauses may undo
 * that. What happens is told
 * by its order: the step that runs is held in a sink until the test has done what must not wait for
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>

#include "engine/core/actor.h"
#include "tests/support/tiny.h"
#include "tests/support/actor_submit.h"

enum { ROWS = 100, PATIENCE_MS = 60000, LOG = 8192, PACE_US = 5000 };

static char *model;

struct world {
	struct engine *e;
	struct actor *a;
	sem_t in_step, go_on;
	bool hold;     /* the coming step, until go_on */
	char log[LOG]; /* what ran on the engine's thread, a letter each */
	size_t n_log;
	char told[LOG];
	size_t n_told;
	atomic_int n_steps;
};

static void sink(void *arg, const struct event *ev)
{
	struct world *w = arg;

	if (ev->kind != EV_batch)
		return;
	w->n_steps++;
	if (!w->hold)
		return;
	w->hold = false;
	sem_post(&w->in_step);
	sem_wait(&w->go_on);
	w->log[w->n_log++] = 's';
}

static void open_world(struct world *w)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct err err = { 0 };

	memset(w, 0, sizeof *w);
	sem_init(&w->in_step, 0, 0);
	sem_init(&w->go_on, 0, 0);
	o.model = model;
	o.threads = 1;
	o.ctx = 256;
	o.prefill_chunk = 0;
	if (engine_open(&w->e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(w->e, sink, w);
	engine_begin(w->e, NULL);
	assert_int_equal(actor_start(&w->a, w->e, NULL, NULL, &err), 0);
}

static void close_world(struct world *w)
{
	engine_close(w->e);
	sem_destroy(&w->in_step);
	sem_destroy(&w->go_on);
}

/* A prompt whose whole prefill is one step, in which the engine's thread then is. */
static int64_t begin_prefill(struct world *w)
{
	int32_t ids[ROWS];
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = ROWS,
		.max_tokens = 100,
		.params = SAMPLE_DEFAULTS,
		.text = "",
		.ignore_end = true };
	int64_t id;

	for (int i = 0; i < ROWS; i++)
		ids[i] = 3 + i % 50;
	w->hold = true;
	id = actor_submit(w->a, &q, NULL);
	assert_true(id > 0);
	sem_wait(&w->in_step);
	return id;
}

struct note {
	struct world *w;
	int64_t request;
	char letter;
};

static void write_letter(struct engine *e, void *arg)
{
	struct note *n = arg;

	if (n->request)
		assert_true(engine_cancel(e, n->request));
	n->w->log[n->w->n_log++] = n->letter;
	n->letter = (char)(n->letter - 'a' + 'A'); /* the copy's: `then` sees it */
}

static void tell_letter(void *whose, void *arg)
{
	struct note *n = arg;

	n->w->told[n->w->n_told++] = whose ? n->letter : '-';
}

static bool post(struct world *w, char letter, int64_t cancel)
{
	struct note n = { w, cancel, letter };

	return actor_post(w->a, write_letter, tell_letter, &n, sizeof n);
}

static void wait_for_answers(struct world *w, size_t n)
{
	struct pollfd p = { .fd = actor_fd(w->a), .events = POLLIN };

	while (w->n_told < n) {
		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
		actor_answers(w->a, w);
	}
}

/* During a step: asked and gone on, before the step ends. After it all has run in order, calls
 * among them. */
static void test_posts_do_not_wait(void **state)
{
	static struct world w;
	struct note last;
	int64_t id;

	(void)state;
	open_world(&w);
	last = (struct note){ &w, 0, 'd' };
	id = begin_prefill(&w);
	assert_true(post(&w, 'a', 0));
	assert_true(post(&w, 'b', id));
	assert_true(post(&w, 'c', 0));
	assert_true(actor_waiting(w.a));
	actor_answers(w.a, &w);
	assert_int_equal(w.n_told, 0);
	sem_post(&w.go_on); /* nobody had to wait for it */
	assert_true(actor_call(w.a, write_letter, &last));
	wait_for_answers(&w, 3);
	assert_string_equal(w.log, "sabcd");
	assert_string_equal(w.told, "ABC");
	actor_stop(w.a);
	close_world(&w);
}

static void *stop(void *arg)
{
	actor_stop(((struct world *)arg)->a);
	return NULL;
}

/* While it stops, held in a step, others come: nothing of theirs is run, and nobody waits for
 * ever. */
static void test_late_callers_are_refused(void **state)
{
	static struct world w;
	struct note late;
	pthread_t stopper;
	size_t n = 0;

	(void)state;
	open_world(&w);
	late = (struct note){ &w, 0, 'z' };
	begin_prefill(&w);
	assert_int_equal(pthread_create(&stopper, NULL, stop, &w), 0);
	while (post(&w, 'a', 0)) { /* until it has begun to stop */
		assert_true(++n < LOG - 2);
		usleep(PACE_US);
	}
	assert_false(actor_call(w.a, write_letter, &late));
	sem_post(&w.go_on);
	pthread_join(stopper, NULL);
	/* what was accepted has run, and was freed */
	assert_int_equal(w.n_log, n + 1);
	assert_int_equal(w.n_told, n);
	assert_true(!n || w.told[n - 1] == '-');
	assert_null(memchr(w.log, 'z', sizeof w.log));
	close_world(&w);
}

static void wait_until_paused(struct actor *a)
{
	while (!actor_paused(a))
		usleep(PACE_US);
	actor_call(a, NULL, NULL); /* the step that ran is over */
}

/* Four steps more are asked for in the first, and a pause comes: undone, these four are done and no
 * more. What ran without a bound does so again. */
static void test_a_pause_is_undone(void **state)
{
	static struct world w;

	(void)state;
	open_world(&w);
	begin_prefill(&w);
	actor_step(w.a, 4);
	actor_pause(w.a);
	actor_pause(w.a); /* changes nothing */
	assert_true(actor_paused(w.a));
	actor_unpause(w.a);
	assert_true(actor_steps(w.a) && !actor_paused(w.a));
	sem_post(&w.go_on);
	wait_until_paused(w.a);
	assert_int_equal(w.n_steps, 5);
	actor_unpause(w.a); /* nobody paused it */
	assert_true(actor_paused(w.a));
	actor_resume(w.a);
	actor_pause(w.a);
	actor_unpause(w.a);
	assert_false(actor_steps(w.a));
	actor_stop(w.a);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_posts_do_not_wait),
		cmocka_unit_test(test_late_callers_are_refused),
		cmocka_unit_test(test_a_pause_is_undone),
	};
	struct tiny_options t = TINY_DEFAULTS;
	int failed;

	model = tiny_temp(&t, NULL);
	if (!model)
		return 1;
	failed = cmocka_run_group_tests_name("actor", tests, NULL, NULL);
	unlink(model);
	free(model);
	return failed;
}

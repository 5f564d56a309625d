/* A session of many steps: a step reached from a keyframe has the timeline that was live there,
 * from wherever one comes, with keyframes of the writer's and with those that the player makes of
 * an older file; and the timeline's memory does not grow with the session. A real engine with a
 * tiny model: turns, forks, rewinds, drafts, preemptions, evictions, background requests,
 * searches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "engine/search/search.h"
#include "tests/support/tiny.h"
#include "trace/ring.h"
#include "trace/writer.h"
#include "tui/app/player.h"
#include "tests/support/timeline_dump.h"

enum { STEPS = 1500, EVERY = 53 };

static char path[] = "/tmp/cutaway-long-XXXXXX";
static struct timeline live;
static char *dump_at[STEPS + 1000];
static int n_steps, most_steps, most_requests, n_searches;
static uint32_t state = 5;

static uint32_t any(uint32_t n)
{
	state = state * 1664525 + 1013904223;
	return (state >> 8) % n;
}

static void fold_live(void *arg, const struct event *ev)
{
	(void)arg;
	timeline_fold(&live, ev);
	most_steps = live.n_steps > most_steps ? live.n_steps : most_steps;
	most_requests = live.n_requests > most_requests ? live.n_requests : most_requests;
}

/* Texts of tokens a timeline may know too early; they come last. */
static char *dump(const struct timeline *t)
{
	char *text = timeline_dump(t), *vocab = strstr(text, "\nvocab ");

	if (vocab)
		*vocab = '\0';
	return text;
}

static int32_t random_prompt(int32_t *ids)
{
	int32_t n = 6 + (int32_t)any(30), common = (int32_t)any(20);

	for (int32_t i = 0; i < n; i++)
		ids[i] = 3 + (i < common ? i : (int32_t)any(200));
	return n;
}

/* A new request, or (r) another continuation of one that is known. */
static int64_t submit(struct engine *e, const struct tl_request *of)
{
	static const enum ev_code_request_kind kind[] = { EV_REQUEST_KIND_chat, EV_REQUEST_KIND_load,
		EV_REQUEST_KIND_load };
	int32_t ids[64];
	struct engine_request r = { .kind = kind[any(3)],
		.ids = ids,
		.n_ids = random_prompt(ids),
		.max_tokens = 5 + (int32_t)any(any(8) ? 40 : 200),
		.params = SAMPLE_DEFAULTS,
		.sample = (int64_t)any(100),
		.text = "of this test" };

	if (of) {
		r.kind = EV_REQUEST_KIND_fork;
		r.parent = of->id;
		r.ids = of->prompt;
		r.n_ids = r.fork_pos = of->n_prompt;
	}
	return engine_submit(e, &r, NULL);
}

/* Or the end of one. */
static void search(struct engine *e)
{
	static const char *const methods[] = { "best:3", "beam:2", "beam:3,0.5", "mcts:7,2,8",
		"mcts:5" };
	int32_t ids[64];
	struct engine_request q = { .kind = any(2) ? EV_REQUEST_KIND_chat : EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = random_prompt(ids),
		.max_tokens = 5 + (int32_t)any(30),
		.params = SAMPLE_DEFAULTS,
		.text = "what is sought" };
	struct search_options o = { .method = methods[any(5)] };

	if (any(3))
		n_searches += engine_search(e, &o, &q, NULL) > 0;
	else if (n_searches)
		engine_search_cancel(e, 1 + any((uint32_t)n_searches));
}

static void disturb(struct engine *e)
{
	const struct tl_request *r =
		live.n_requests ? &live.request[any((uint32_t)live.n_requests)] : NULL;

	if (r && r->state == TL_RUNNING && r->n_tokens > 4 && !any(3))
		engine_rewind(e, r->id, r->n_prompt + (int32_t)any((uint32_t)r->n_tokens), -1, NULL);
	else if (r && !any(4))
		submit(e, r);
	else if (!any(4))
		search(e);
	else
		submit(e, NULL);
}

static int run(struct engine *e)
{
	engine_begin(e, NULL);
	for (int more = 1; n_steps < STEPS || more == 1;) {
		if (n_steps < STEPS && (more != 1 || !any(12)))
			disturb(e);
		if ((more = engine_step(e, NULL)) != 1)
			continue;
		n_steps = (int)engine_steps(e);
		assert_true(n_steps < STEPS + 1000);
		if (n_steps % EVERY == 0 || n_steps % KEY_STEPS < 2)
			dump_at[n_steps] = dump(&live);
	}
	return 0;
}

static int record(void **unused)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct err err = { 0 };
	struct writer *w;
	struct engine *e;
	struct ring *r;
	char *model = tiny_temp(&TINY_DEFAULTS, NULL);

	(void)unused;
	o.model = model;
	o.threads = 1;
	o.spec = "ngram:3";
	o.pages = 40;
	close(mkstemp(path));
	unlink(path);
	timeline_init(&live);
	if (engine_open(&e, &o, &err) < 0 || ring_open(&r, 8 << 20, NULL) < 0 ||
		writer_open(&w, path, r, &err) < 0 || engine_add_sink(e, ring_push, r) ||
		engine_add_sink(e, fold_live, NULL) || run(e) < 0) {
		print_error("%s\n", err.text);
		return -1;
	}
	engine_close(e);
	free(dump_at[n_steps]);
	dump_at[n_steps] = dump(&live); /* with what follows the last step */
	writer_close(w, NULL);
	ring_close(r);
	unlink(model);
	free(model);
	return 0;
}

static int forget(void **unused)
{
	(void)unused;
	for (int i = 0; i <= n_steps; i++)
		free(dump_at[i]);
	timeline_free(&live);
	unlink(path);
	return 0;
}

static void expect(const struct timeline *t, int step)
{
	char *text = dump(t);
	const char *a = text, *b = dump_at[step];

	if (strcmp(a, b) != 0) {
		while (*a && *a == *b)
			a++, b++;
		const char *line = a;

		while (line > text && line[-1] != '\n')
			line--;
		/* the beginning of the line says what it is of, and then what differs */
		fail_msg("the timeline at step %d differs: %.60s … %.80s\nlive: … %.80s", step, line, a, b);
	}
	free(text);
}

static int known_step(void)
{
	int step;

	do
		step = 1 + (int)any((uint32_t)n_steps);
	while (!dump_at[step]);
	return step;
}

static void visit(struct player *p, int times)
{
	struct timeline t;

	timeline_init(&t);
	for (int i = 0; i < times; i++) {
		int step = known_step();

		assert_int_equal(player_go(p, &t, step, NULL), 0);
		assert_int_equal(player_at(p), step);
		expect(&t, step);
		if (step < n_steps)
			assert_true(player_next_ns(p, NULL) >= 0);
	}
	for (int step = 0; step <= n_steps; step++) { /* and straight through */
		assert_int_equal(player_go(p, &t, step, NULL), 0);
		if (step && dump_at[step])
			expect(&t, step);
	}
	player_close(p);
	timeline_free(&t);
}

static void any_step_from_any_other(void **unused)
{
	struct player *p;

	(void)unused;
	assert_int_equal(player_open(&p, path, NULL), 0);
	assert_int_equal(player_n_steps(p), n_steps);
	assert_int_equal(player_read(p, 0, NULL), 0); /* nothing is to be read: it has keyframes */
	visit(p, 40);
}

static void old_files_too(void **unused)
{
	struct player *p;
	sqlite3 *db;

	(void)unused;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "DROP TABLE keyframe", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	assert_int_equal(player_open(&p, path, NULL), 0);
	visit(p, 3); /* before it was read through */
	assert_int_equal(player_open(&p, path, NULL), 0);
	while (player_read(p, 1000000, NULL) == 1)
		;
	visit(p, 40);
}

static void memory_is_bounded(void **unused)
{
	(void)unused;
	assert_true(n_searches > 20 && live.n_searches == TL_SEARCHES && live.search[0].n_nodes > 0);
	assert_true(n_steps >= STEPS);
	assert_true(most_steps < TL_WINDOW + TL_SLIDE + 1);
	assert_true(live.request[live.n_requests - 1].id > 2 * TL_REQUESTS);
	assert_true(most_requests < 4 * TL_REQUESTS);
}

/* A recording whose keyframes are of another format is one without: they are made while it is
 * shown. */
static void keyframes_of_another_format_count_for_nothing(void **unused)
{
	struct player *p;
	sqlite3 *db;

	(void)unused;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(db, "UPDATE keyframe SET state = CAST(x'04' || substr(state, 2) AS BLOB)",
			NULL, NULL, NULL),
		SQLITE_OK);
	sqlite3_close(db);
	assert_int_equal(player_open(&p, path, NULL), 0);
	assert_int_equal(player_read(p, 0, NULL), 1);
	while (player_read(p, 1000000, NULL) == 1)
		;
	visit(p, 10);
}

/* Again: as before. */
static void turn_times(void)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(db, "UPDATE request SET t_ns = -1 - t_ns", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

/* A request whose time lies has never been, and no keyframe brings it back. */
static void times_may_lie(void **unused)
{
	struct timeline t;
	struct player *p;

	(void)unused;
	turn_times();
	assert_int_equal(player_open(&p, path, NULL), 0);
	timeline_init(&t);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(player_go(p, &t, known_step(), NULL), 0);
		assert_int_equal(t.n_requests, 0);
	}
	player_close(p);
	timeline_free(&t);
	turn_times();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_bounded),
		cmocka_unit_test(any_step_from_any_other),
		cmocka_unit_test(times_may_lie),
		cmocka_unit_test(keyframes_of_another_format_count_for_nothing),
		cmocka_unit_test(old_files_too),
	};

	return cmocka_run_group_tests_name("player_long", tests, record, forget);
}

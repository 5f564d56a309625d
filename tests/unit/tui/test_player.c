/* The player: any step from any other gives the timeline that folding from the start gives, and the
 * end gives the timeline that was live. A real engine with a tiny model makes the recording. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/engine.h"
#include "tests/support/tiny.h"
#include "trace/ring.h"
#include "trace/writer.h"
#include "tui/app/player.h"
#include "tests/support/timeline_dump.h"

static char path[] = "/tmp/cutaway-player-XXXXXX";
static struct timeline live;
static char **at_step; /* dump at each step */
static int n_steps;

static void fold_live(void *arg, const struct event *ev)
{
	(void)arg;
	timeline_fold(&live, ev);
}

/* Texts of tokens a timeline may know too early; they come last. */
static char *dump_of(const struct timeline *t)
{
	char *text = timeline_dump(t), *vocab = strstr(text, "\nvocab ");

	if (vocab)
		*vocab = '\0';
	return text;
}

static void keep_dump(void)
{
	at_step = realloc(at_step, (size_t)(n_steps + 1) * sizeof *at_step);
	at_step[n_steps++] = dump_of(&live);
}

static int run_engine(struct engine *e)
{
	int32_t *ids = NULL;
	size_t n = 0, cap = 0;
	const char *text = "the cat and the dog and the cat and the dog";

	engine_begin(e, NULL);
	keep_dump(); /* step 0 */
	if (tokenizer_encode(engine_tokenizer(e), text, strlen(text), false, &ids, &n, &cap, NULL) < 0)
		return -1;
	for (int i = 0; i < 3; i++) {
		struct engine_request r = { .kind = i ? EV_REQUEST_KIND_load : EV_REQUEST_KIND_chat,
			.ids = ids,
			.n_ids = (int32_t)n,
			.max_tokens = 12 + 3 * i,
			.params = SAMPLE_DEFAULTS,
			.sample = i,
			.text = text };

		if (engine_submit(e, &r, NULL) < 0)
			return -1;
		while (engine_steps(e) < 5 * (i + 1) && engine_step(e, NULL) == 1)
			keep_dump();
	}
	while (engine_step(e, NULL) == 1)
		keep_dump();
	free(ids);
	return 0;
}

static int record(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct err err = { 0 };
	struct writer *w;
	struct engine *e;
	struct ring *r;
	char *model = tiny_temp(&TINY_DEFAULTS, NULL);

	(void)state;
	o.model = model;
	o.threads = 1;
	o.spec = "ngram:3";
	o.shadow = "ngram:2+ngram:5";
	close(mkstemp(path));
	unlink(path);
	timeline_init(&live);
	if (engine_open(&e, &o, &err) < 0 || ring_open(&r, 8 << 20, NULL) < 0 ||
		writer_open(&w, path, r, &err) < 0 || engine_add_sink(e, ring_push, r) ||
		engine_add_sink(e, fold_live, NULL))
		return -1;
	if (run_engine(e) < 0)
		return -1;
	engine_close(e);
	writer_close(w, NULL);
	ring_close(r);
	unlink(model);
	free(model);
	return 0;
}

static int forget(void **state)
{
	(void)state;
	for (int i = 0; i < n_steps; i++)
		free(at_step[i]);
	free(at_step);
	timeline_free(&live);
	unlink(path);
	return 0;
}

static void expect(const struct timeline *t, const char *expected, int64_t step)
{
	char *dump = dump_of(t);

	if (strcmp(dump, expected) != 0)
		fail_msg("the timeline at step %lld differs", (long long)step);
	free(dump);
}

static void every_step_from_every_side(void **state)
{
	struct timeline t;
	struct player *p;
	uint32_t random = 1;

	(void)state;
	assert_true(n_steps > 20);
	timeline_init(&t);
	assert_int_equal(player_open(&p, path, NULL), 0);
	assert_int_equal(player_n_steps(p), n_steps - 1);
	assert_true(player_closed(p));
	for (int i = 0; i < n_steps - 1; i++) { /* forwards */
		assert_int_equal(player_go(p, &t, i, NULL), 0);
		assert_int_equal(player_at(p), i);
		if (i)
			expect(&t, at_step[i], i);
	}
	for (int i = n_steps - 2; i > 0; i--) { /* backwards */
		assert_int_equal(player_go(p, &t, i, NULL), 0);
		expect(&t, at_step[i], i);
	}
	for (int i = 0; i < 100; i++) {
		int64_t step =
			1 + (random = random * 1664525 + 1013904223) / 65536 % (uint32_t)(n_steps - 2);

		assert_int_equal(player_go(p, &t, step, NULL), 0);
		expect(&t, at_step[step], step);
	}
	player_close(p);
	timeline_free(&t);
}

static void the_end_is_what_was_live(void **state)
{
	struct timeline t;
	struct player *p;
	char *dump = dump_of(&live);

	(void)state;
	timeline_init(&t);
	assert_int_equal(player_open(&p, path, NULL), 0);
	assert_int_equal(player_go(p, &t, INT64_MAX - 1, NULL), 0);
	assert_int_equal(player_at(p), n_steps - 1);
	assert_int_equal(player_next_ns(p, NULL), -1);
	expect(&t, dump, n_steps - 1);
	assert_true(t.closed);
	free(dump);
	player_close(p);
	timeline_free(&t);
}

static void time_runs_from_step_to_step(void **state)
{
	struct timeline t;
	struct player *p;
	int n;

	(void)state;
	timeline_init(&t);
	assert_int_equal(player_open(&p, path, NULL), 0);
	for (int i = 0; i < n_steps - 1; i++) {
		player_go(p, &t, i, NULL);
		assert_true(player_next_ns(p, NULL) >= 0);
	}
	player_marks(p, &n);
	assert_true(n > 0);
	assert_int_equal(player_marks(p, &n)[0].kind, MARK_TURN);
	player_close(p);
	timeline_free(&t);
}

static void what_is_no_recording_is_an_error(void **state)
{
	struct player *p;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(player_open(&p, "/etc/passwd", &e), -1);
	assert_null(p);
	assert_true(e.code != ERR_NONE && *e.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_step_from_every_side),
		cmocka_unit_test(the_end_is_what_was_live),
		cmocka_unit_test(time_runs_from_step_to_step),
		cmocka_unit_test(what_is_no_recording_is_an_error),
	};

	return cmocka_run_group_tests_name("player", tests, record, forget);
}

/* The drafter that guesses beside verification: tokens and hashes are those of plain decoding, and
 * its drafts, node by node, those of the same drafter in turns, whoever is faster; what was drafted
 * ahead is used where the text came as assumed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/draft/file.h"
#include "tests/support/draft_world.h"
#include "tests/support/thorough.h"
#include "tests/support/tiny_draft.h"

enum { MOST = 4096 };

static char *model_path, *pruned_path;
static struct tiny_options target = TINY_DEFAULTS;

struct guess {
	int64_t request, pos, nth, parent, id, verdict;
	double q;
};

struct heard {
	struct guess guess[MOST];
	struct ev_ahead ahead[MOST];
	int n, n_ahead, came[EV_N_ahead];
};

static void on_event(void *arg, const struct event *ev)
{
	const struct ev_draft *d = &ev->u.draft;
	struct heard *h = arg;

	if (ev->kind == EV_draft) {
		assert_true(h->n < MOST);
		h->guess[h->n++] =
			(struct guess){ d->request, d->pos, d->nth, d->parent, d->id, d->verdict, d->q };
	} else if (ev->kind == EV_ahead) {
		assert_true(h->n_ahead < MOST);
		h->ahead[h->n_ahead++] = ev->u.ahead;
		h->came[ev->u.ahead.came]++;
	}
}

static void go_back(struct world *w)
{
	struct err err = { 0 };

	if (w->went_back[3] || w->n[3] < PROMPT + 16)
		return;
	w->went_back[3] = true;
	assert_int_equal(engine_rewind(w->e, 3, PROMPT + 12, 77, &err), 0);
}

static const char *spec_of(const char *name, const char *path, const char *numbers)
{
	static char spec[256];

	snprintf(spec, sizeof spec, "%s:%s,%s", name, path, numbers);
	return spec;
}

static void run(struct world *w, struct heard *h, const struct place *p, const char *spec)
{
	memset(h, 0, sizeof *h);
	world_open(w, model_path, p, spec);
	engine_add_sink(w->e, on_event, h);
	world_submit(w, 2.5f);
	world_run(w, go_back);
}

/* What was kept is drafted next; followed: unless its request loses its pages or goes back. */
static void check_blocks(const struct heard *h, bool followed)
{
	for (int i = 0; i < h->n_ahead; i++) {
		const struct ev_ahead *a = &h->ahead[i];
		int64_t drafted = 0;

		assert_true(a->held <= a->assumed && a->ns > 0 && a->start_ns >= 0 && a->wait_ns >= 0);
		assert_true(a->came != EV_AHEAD_kept || a->held == a->assumed);
		assert_true(a->came != EV_AHEAD_missed || a->held < a->assumed);
		for (int k = 0; k < h->n && a->came == EV_AHEAD_kept; k++)
			if (h->guess[k].request == a->request && h->guess[k].parent == 0 &&
				h->guess[k].pos == a->pos + a->assumed)
				drafted++;
		assert_true(a->came != EV_AHEAD_kept || a->request == 3 || drafted > 0 || !followed);
	}
}

static void same_in_turns(const struct place *p, const char *path, const char *numbers)
{
	static struct world plain, turns, beside;
	static struct heard none, in_turns, ahead;

	run(&plain, &none, p, "off");
	run(&turns, &in_turns, p, spec_of("draft", path, numbers));
	run(&beside, &ahead, p, spec_of("beside", path, numbers));
	world_compare(&plain, &beside, false);
	assert_int_equal(ahead.n, in_turns.n);
	assert_memory_equal(ahead.guess, in_turns.guess, (size_t)ahead.n * sizeof *ahead.guess);
	assert_int_equal(in_turns.n_ahead, 0);
	check_blocks(&ahead, !beside.n_preempted);
	print_message("%s: %d blocks, %d kept, %d missed, %d unsure, %d gone\n", numbers, ahead.n_ahead,
		ahead.came[EV_AHEAD_kept], ahead.came[EV_AHEAD_missed], ahead.came[EV_AHEAD_unsure],
		ahead.came[EV_AHEAD_gone]);
	if (path == model_path) /* its guesses are the model's draws */
		assert_true(ahead.came[EV_AHEAD_kept] > 20 && !ahead.came[EV_AHEAD_missed]);
	else
		assert_true(ahead.came[EV_AHEAD_missed] > 20);
}

static void test_same(void **state)
{
	(void)state;
	same_in_turns(&(struct place){ "cpu", NULL, 1, 16, 64 }, model_path, "4,4,0");
	same_in_turns(&(struct place){ "cpu", NULL, 2, 32, 64 }, model_path, "2,2,0");
	same_in_turns(&(struct place){ "cpu", NULL, 2, 16, 64 }, pruned_path, "4,4,0");
	same_in_turns(&(struct place){ "cpu", NULL, 1, 16, 20 }, pruned_path, "3,3,5"); /* preempts */
	same_in_turns(&(struct place){ "cpu", NULL, 3, 16, 64 }, pruned_path, "4,12,0");
	if (wants_all())
		same_in_turns(&(struct place){ "ref", NULL, 1, 16, 64 }, pruned_path, "2,2,0");
}

/* Requests end in the middle of a block, and the drafter is changed and changed back. */
static void test_ends(void **state)
{
	static struct world w;
	static struct heard h;
	struct sample_params params = { .temperature = 0, .top_p = 1, .repeat_penalty = 1 };
	struct err err = { 0 };
	int32_t ids[PROMPT], stop[16], steps = 0;

	(void)state;
	memset(&h, 0, sizeof h);
	world_open(&w, model_path, &(struct place){ "cpu", NULL, 2, 16, 64 },
		spec_of("beside", model_path, "4,4,0"));
	engine_add_sink(w.e, on_event, &h);
	for (int i = 0; i < 16; i++)
		stop[i] = 32 * i;
	for (uint32_t r = 1; r <= REQUESTS; r++) {
		struct engine_request q = { .kind = EV_REQUEST_KIND_run,
			.ids = ids,
			.n_ids = PROMPT,
			.max_tokens = TOKENS,
			.params = params,
			.stop_ids = stop,
			.n_stop_ids = 16,
			.ignore_end = true };

		for (int i = 0; i < PROMPT; i++)
			ids[i] = (int32_t)(world_chance(&(uint32_t){ r * 5000u + (uint32_t)i }) % 512);
		assert_true(engine_submit(w.e, &q, &err) > 0);
	}
	while (engine_step(w.e, &err) > 0)
		if (++steps == 8) {
			assert_int_equal(engine_set(w.e, "spec", "off", &err), 0);
			assert_int_equal(
				engine_set(w.e, "spec", spec_of("beside", model_path, "3,3,0"), &err), 0);
		}
	engine_close(w.e);
	assert_int_equal(err.code, 0);
	assert_int_equal(w.n_finished, REQUESTS);
	check_blocks(&h, false);
	print_message("%d steps, %d blocks, %d gone\n", steps, h.n_ahead, h.came[EV_AHEAD_gone]);
	assert_true(h.came[EV_AHEAD_gone] > 0 && steps > 8);
}

/* Distributions are kept for one block alone, so it takes turns there. */
static void test_rejection(void **state)
{
	static struct world w;
	static struct heard h;
	struct err err = { 0 };

	(void)state;
	memset(&h, 0, sizeof h);
	world_open(&w, model_path, &(struct place){ "cpu", NULL, 1, 16, 64 },
		spec_of("beside", model_path, "4,4,0"));
	assert_int_equal(engine_set(w.e, "rule", "rejection", &err), 0);
	engine_add_sink(w.e, on_event, &h);
	world_submit(&w, 1);
	world_run(&w, NULL);
	assert_true(h.n > 100 && !h.n_ahead);
}

/* A whole model's guesses come from the processor while the device verifies; layers between the
 * model's ends cannot. */
static void test_device(void **state)
{
	static const struct place cuda = { "cuda", "graph", 1, 16, 64 };
	static struct world plain, w;
	static struct heard heard;
	struct err err = { 0 };

	(void)state;
	if (!world_has_device())
		skip();
	run(&plain, &heard, &(struct place){ "cpu", NULL, 1, 16, 64 }, "off");
	run(&w, &heard, &cuda, spec_of("beside", model_path, "2,2,0"));
	world_compare(&plain, &w, false);
	assert_true(heard.came[EV_AHEAD_kept] > 20);
	world_open(&w, model_path, &cuda, "off");
	assert_int_equal(engine_set(w.e, "spec", spec_of("beside", pruned_path, "2"), &err), -1);
	assert_non_null(strstr(err.text, "on the device"));
	engine_close(w.e);
}

static int setup(void **state)
{
	static char hash[17];
	struct tiny_draft_options pruned = {
		.seed = 9, .kind = "model", .hash = hash, .n_ids = 400, .layers = 2, .type = K_Q8_0
	};
	struct err err = { 0 };
	struct gguf *g;

	(void)state;
	target.layers = 4;
	model_path = tiny_temp(&target, &err);
	if (!model_path || gguf_open(&g, model_path, &err) || draft_vocab_hash(g, hash, &err))
		return -1;
	gguf_close(g);
	pruned_path = tiny_draft_temp(&target, &pruned, &err);
	return pruned_path ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	unlink(model_path);
	unlink(pruned_path);
	free(model_path);
	free(pruned_path);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_same), cmocka_unit_test(test_ends),
		cmocka_unit_test(test_rejection), cmocka_unit_test(test_device) };

	return cmocka_run_group_tests(tests, setup, teardown);
}

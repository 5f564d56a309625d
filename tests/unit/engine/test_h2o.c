/* Heavy hitters in an engine (rule 22): logits are a function of the tokens and of the setting
 * alone: not of chunks, pages, batches, threads, drafts, chains or trees, the prefix cache, forks,
 * going back, preemption, or computing all of it anew. The definition of what is kept:
 * tests/unit/kernels/test_heavy.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/core/engine_impl.h"
#include "engine/observe/probe.h"
#include "tests/support/invariants.h"
#include "tests/support/tiny.h"

/* Two spans of 128 end within the prompt, one while tokens are drawn. */
enum { N = 340, DRAWN = 80, CTX = N + DRAWN, REQUESTS = 8 };

struct drawn {
	int32_t id[CTX];
	int64_t hash[CTX];
	int n;
};
struct world {
	struct engine *e;
	struct drawn of[REQUESTS + 1];
	int64_t at[REQUESTS + 1]; /* first row in the step */
	int n_accepted, n_rejected, n_preempted, hit;
};

static void put(struct drawn *d, int64_t pos, int64_t id, int64_t hash)
{
	d->id[pos] = (int32_t)id;
	d->hash[pos] = hash;
	d->n++;
}

static void on_event(void *arg, const struct event *ev)
{
	struct world *w = arg;

	if (ev->kind == EV_token && ev->u.token.request <= REQUESTS)
		put(&w->of[ev->u.token.request], ev->u.token.pos, ev->u.token.id, ev->u.token.hash);
	if (ev->kind == EV_score && ev->u.score.request <= REQUESTS)
		put(&w->of[ev->u.score.request], ev->u.score.pos, ev->u.score.id, ev->u.score.hash);
	if (ev->kind == EV_draft) {
		w->n_accepted += ev->u.draft.verdict == EV_VERDICT_accepted;
		w->n_rejected += ev->u.draft.verdict == EV_VERDICT_rejected;
	}
	if (ev->kind == EV_batch)
		w->at[ev->u.batch.request] = ev->u.batch.pos;
	if (ev->kind == EV_batch && ev->u.batch.work == EV_WORK_prefill)
		assert_true(
			ev->u.batch.rows <= visible_most_rows(&w->e->memory.visible, (int32_t)ev->u.batch.pos));
	if (ev->kind == EV_draft) /* with the newest token, in one span */
		assert_int_equal(ev->u.draft.pos / K_SPAN, w->at[ev->u.draft.request] / K_SPAN);
	w->n_preempted += ev->kind == EV_preempt;
	if (ev->kind == EV_lookup && ev->u.lookup.hit > w->hit)
		w->hit = (int)ev->u.lookup.hit;
}

static void world_open(struct world *w, const struct engine_options *with)
{
	struct engine_options o = *with;
	struct err err = { 0 };

	memset(w, 0, sizeof *w);
	o.model = tiny_model;
	o.ctx = CTX;
	if (engine_open(&w->e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(w->e, on_event, w);
	engine_begin(w->e, NULL);
}

static void world_run(struct world *w)
{
	struct err err = { 0 };

	while (!engine_idle(w->e)) {
		assert_true(engine_step(w->e, &err) >= 0);
		engine_check(w->e);
	}
}

/* A text that repeats itself, with some of its own: something to guess, and something to keep. */
static void text(int32_t ids[N], int other)
{
	for (int32_t i = 0; i < N; i++)
		ids[i] = 5 + (i * 7 + i / 30 * other * 11 + i / 100 * 3) % 40;
}

static int64_t submit(
	struct world *w, enum ev_code_request_kind kind, const int32_t *ids, int32_t n, int64_t parent)
{
	struct engine_request q = { .kind = kind,
		.ids = ids,
		.n_ids = n,
		.max_tokens = CTX - n,
		.params = SAMPLE_DEFAULTS,
		.parent = parent,
		.fork_pos = parent ? n : 0,
		.text = "test",
		.ignore_end = true };
	struct err err = { 0 };
	int64_t id;

	q.params.temperature = 0;
	id = engine_submit(w->e, &q, &err);
	if (id < 0)
		fail_msg("%s", err.text);
	return id;
}

static void same(const struct drawn *a, const struct drawn *b, int32_t from)
{
	assert_memory_equal(a->id + from, b->id + from, (CTX - (size_t)from) * sizeof *a->id);
	assert_memory_equal(a->hash + from, b->hash + from, (CTX - (size_t)from) * sizeof *a->hash);
}

/* The text alone, among others, and what is drawn after it. */
static void run_with(struct world *w, const struct engine_options *o, int company)
{
	int32_t ids[N];

	world_open(w, o);
	for (int i = 0; i < company; i++) {
		text(ids, i);
		submit(w, EV_REQUEST_KIND_load, ids, N, 0);
	}
	world_run(w);
	engine_close(w->e);
}

static struct engine_options options(const char *visible)
{
	struct engine_options o = ENGINE_DEFAULTS;

	o.visible = visible;
	o.threads = 1;
	return o;
}

static struct world full, want, got; /* large */

static const char *const policies[] = { "h2o:288", "h2o:70%" };
enum { N_POLICIES = sizeof policies / sizeof *policies };

static void test_paths(void **state)
{
	static const struct {
		int32_t chunk, page_size, threads, company;
		const char *spec; /* NULL: the model drafts for itself */
		const char *backend, *rule;
		bool kv_cache, prefix_cache;
	} cases[] = {
		{ 7, 16, 1, 1, "off", "cpu", "race", true, true },
		{ 64, 48, 2, 5, "off", "cpu", "race", true, false },
		{ 0, 256, 3, 3, "ngram:4", "cpu", "race", true, true },
		{ 100, 32, 1, 2, "lookahead", "cpu", "race", true, true },
		{ 0, 16, 1, 1, "jacobi", "cpu", "race", true, true },
		{ 0, 64, 1, 2, "skip:1,4,0", "cpu", "race", true, true },
		{ 0, 64, 1, 1, NULL, "cpu", "race", true, true },
		{ 33, 64, 1, 1, "ngram:4", "cpu", "rejection", true, true },
		{ 0, 64, 1, 1, "off", "ref", "race", true, true },
		{ 0, 64, 2, 1, "off", "cpu", "race", false, true },
	};
	struct engine_options o = options("full");
	int accepted = 0, rejected = 0;
	char itself[128];

	(void)state;
	snprintf(itself, sizeof itself, "draft:%s,7,7,0", tiny_model);
	run_with(&full, &o, 1);
	for (size_t p = 0; p < N_POLICIES; p++) {
		o = options(policies[p]);
		run_with(&want, &o, 1);
		assert_int_equal(want.of[1].n, DRAWN);
		assert_true(memcmp(want.of[1].hash, full.of[1].hash, sizeof full.of[1].hash) != 0);
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
			o.prefill_chunk = cases[i].chunk;
			o.page_size = cases[i].page_size;
			o.threads = cases[i].threads;
			o.spec = cases[i].spec ? cases[i].spec : itself;
			o.backend = cases[i].backend;
			o.rule = cases[i].rule;
			o.kv_cache = cases[i].kv_cache;
			o.prefix_cache = cases[i].prefix_cache;
			run_with(&got, &o, cases[i].company);
			same(&want.of[1], &got.of[1], N);
			accepted += got.n_accepted;
			rejected += got.n_rejected;
		}
	}
	assert_true(accepted > 0 && rejected > 0);
}

/* Each row of logits of a given text is that of the run which drew it; before anything is forgotten
 * it is that of full attention. */
static void test_score(void **state)
{
	struct engine_options o = options("full");
	int32_t ids[CTX];

	(void)state;
	for (size_t p = 0; p < N_POLICIES; p++) {
		o = options(policies[p]);
		run_with(&want, &o, 1);
		text(ids, 0);
		memcpy(ids + N, want.of[1].id + N, DRAWN * sizeof *ids);
		world_open(&got, &o);
		submit(&got, EV_REQUEST_KIND_score, ids, CTX, 0);
		world_run(&got);
		engine_close(got.e);
		same(&want.of[1], &got.of[1], N);
		o = options("full");
		world_open(&full, &o);
		submit(&full, EV_REQUEST_KIND_score, ids, CTX, 0);
		world_run(&full);
		engine_close(full.e);
		assert_memory_equal(full.of[1].hash, got.of[1].hash, 257 * sizeof *full.of[1].hash);
		assert_true(memcmp(full.of[1].hash, got.of[1].hash, sizeof full.of[1].hash) != 0);
	}
}

/* What is wanted of the text under these options, and the text with what is drawn after it. */
static void want_text(const struct engine_options *o, int32_t ids[CTX])
{
	run_with(&want, o, 1);
	text(ids, 0);
	memcpy(ids + N, want.of[1].id + N, DRAWN * sizeof *ids);
}

/* Found in the prefix cache, forked in the middle of a block, taken back over the end of a span and
 * into a block, preempted. */
static void test_memory(void **state)
{
	static const int32_t keep[] = { CTX - 3, N + 50, N + 43, N + 1 };
	struct engine_options o = options(policies[0]);
	struct err err = { 0 };
	int32_t ids[CTX];

	(void)state;
	want_text(&o, ids);
	for (int size = 16; size <= 48; size += 32) {
		o.page_size = size;
		o.prefix_cache = true;
		world_open(&got, &o);
		submit(&got, EV_REQUEST_KIND_load, ids, N, 0);
		while (got.of[1].n < DRAWN - 1)
			assert_int_equal(engine_step(got.e, &err), 1);
		submit(&got, EV_REQUEST_KIND_fork, ids, N + 55, 1);
		submit(&got, EV_REQUEST_KIND_fork, ids, N + 20, 1);
		for (size_t i = 0; i < sizeof keep / sizeof *keep; i++) {
			memset(got.of[1].hash + keep[i], 0, (size_t)(CTX - keep[i]) * sizeof *got.of[1].hash);
			assert_int_equal(engine_rewind(got.e, 1, keep[i], -1, &err), 0);
			while (got.of[1].hash[CTX - 2] == 0)
				assert_int_equal(engine_step(got.e, &err), 1);
		}
		world_run(&got);
		same(&want.of[1], &got.of[1], N);
		same(&want.of[1], &got.of[2], N + 55);
		same(&want.of[1], &got.of[3], N + 20);
		got.hit = 0;
		submit(&got, EV_REQUEST_KIND_load, ids, N, 0);
		world_run(&got);
		assert_in_range(got.hit, N - size, N);
		same(&want.of[1], &got.of[4], N);
		engine_close(got.e);
		o.pages = 2 * CTX / size;
		o.prefix_cache = false;
		o.prefill_chunk = 50;
		run_with(&got, &o, 3);
		assert_true(got.n_preempted > 0);
		same(&want.of[1], &got.of[1], N);
		o = options(policies[0]);
	}
}

/* The deep look computes the same. */
static void test_probe(void **state)
{
	struct engine_options o = options(policies[0]);
	struct probe *p;
	struct err err = { 0 };
	int32_t ids[CTX];

	(void)state;
	want_text(&o, ids);
	world_open(&got, &o);
	for (int32_t n = N; n < CTX; n += 37) {
		assert_int_equal(probe_open(&p, got.e, NULL, ids, n, -1, NULL, NULL, &err), 0);
		assert_int_equal((int64_t)p->stats.hash, want.of[1].hash[n]);
		probe_close(p);
	}
	engine_close(got.e);
}

/* What heads keep has a group of its own beside the keys and values, and a full policy none. */
static void test_setting(void **state)
{
	struct engine_options o = options("full");
	struct err err = { 0 };

	(void)state;
	world_open(&got, &o);
	assert_int_equal(got.e->memory.spec.n, 1);
	assert_int_equal(engine_set(got.e, "visible", "h2o:300", &err), 0);
	assert_int_equal(got.e->memory.spec.n, 2);
	assert_ptr_equal(got.e->memory.spec.group[1].kind, &memory_kept);
	assert_int_equal(engine_set(got.e, "cache-format", "kivi4", &err), -1);
	assert_non_null(strstr(err.text, "h2o:300"));
	err = (struct err){ 0 };
	assert_int_equal(engine_set(got.e, "cache-format", "e4m3", &err), 0);
	assert_int_equal(got.e->memory.spec.n, 2);
	assert_int_equal(engine_set(got.e, "visible", "top:64", &err), 0);
	assert_int_equal(got.e->memory.spec.n, 1);
	assert_int_equal(engine_set(got.e, "visible", "h2o:4000", &err), 0); /* hides nothing here */
	assert_int_equal(got.e->memory.spec.n, 1);
	assert_int_equal(engine_set(got.e, "cache-format", "kivi4", &err), 0);
	assert_int_equal(engine_set(got.e, "visible", "h2o:300", &err), -1);
	engine_close(got.e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_score),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_probe),
		cmocka_unit_test(test_setting),
	};

	return cmocka_run_group_tests_name("h2o", tests, tiny_model_make, tiny_model_drop);
}

/* Formats of codes in an engine (rule 10): the logits at a position depend on the tokens and the
 * format alone, not on chunks, pages, batches, drafts, the prefix cache, a rewind or a preemption,
 * and not on the instruction set. Keys by channel: rows near enough to the beginning give the bits
 * of f16, those after it do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/core/engine_impl.h"
#include "tests/support/invariants.h"
#include "tests/support/tiny.h"

enum { PROMPT = 300, DRAWN = 100, FIRST_CODED = K_RECENT + K_SPAN - 1 };

static char *model;
static const char *const formats[] = { "q8", "kivi4", "kivi2" };
#define EACH(f) for (const char *const *f = formats; f < formats + 3; f++)

/* What is known of the request under test. */
struct drawn {
	int64_t request, hash[PROMPT + DRAWN];
	int n, n_preempted, n_hits, n_verified, n_unseen, n_watched, n_priced, n_equal;
};

/* Rows that read no codes cost exactly nothing. */
static void check_price(struct drawn *d, const struct ev_price *p)
{
	const bool equal = p->hash == d->hash[p->pos];

	assert_true(equal ? p->kl == 0 : p->kl > 0);
	d->n_priced++;
	d->n_equal += equal;
}

static void on_event(void *arg, const struct event *ev)
{
	struct drawn *d = arg;

	if (ev->kind == EV_token && ev->u.token.request == d->request) {
		d->hash[ev->u.token.pos] = ev->u.token.hash;
		d->n++;
	}
	if (ev->kind == EV_score && ev->u.score.request == d->request) {
		d->hash[ev->u.score.pos] = ev->u.score.hash;
		d->n++;
	}
	d->n_preempted += ev->kind == EV_preempt && ev->u.preempt.request == d->request;
	d->n_hits += ev->kind == EV_lookup && ev->u.lookup.request == d->request && ev->u.lookup.hit;
	d->n_verified += ev->kind == EV_draft;
	d->n_unseen += ev->kind == EV_page && ev->u.page.action == EV_PAGE_unseen;
	d->n_watched += ev->kind == EV_attention && !ev->u.attention.read.data;
	if (ev->kind == EV_price)
		check_price(d, &ev->u.price);
}

/* Texts that begin alike repeat themselves, so that there is something to draft. */
static int64_t submit(struct engine *e, enum ev_code_request_kind kind, int other, int32_t n)
{
	struct engine_request q = { .kind = kind,
		.n_ids = n,
		.max_tokens = DRAWN,
		.params = SAMPLE_DEFAULTS,
		.text = "test",
		.ignore_end = true };
	int32_t ids[PROMPT];
	struct err err = { 0 };
	int64_t id;

	for (int32_t i = 0; i < n; i++)
		ids[i] = 5 + (i * 7 + i / 30 * other * 11) % 40;
	q.ids = ids;
	q.params.temperature = 0;
	id = engine_submit(e, &q, &err);
	if (id < 0)
		fail_msg("%s", err.text);
	return id;
}

static struct engine *open_with(const struct engine_options *with, struct drawn *d)
{
	struct engine_options o = *with;
	struct engine *e;
	struct err err = { 0 };

	memset(d, 0, sizeof *d);
	d->request = 1;
	o.model = model;
	o.ctx = PROMPT + DRAWN;
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, on_event, d);
	engine_begin(e, NULL);
	return e;
}

static void finish(struct engine *e)
{
	struct err err = { 0 };

	while (!engine_idle(e))
		assert_true(engine_step(e, &err) >= 0);
	engine_check(e);
	engine_close(e);
}

/* The text and `company - 1` others beside it. */
static struct drawn drawn_with(
	const struct engine_options *o, enum ev_code_request_kind kind, int company)
{
	struct drawn d;
	struct engine *e = open_with(o, &d);

	submit(e, kind, 0, PROMPT);
	for (int i = 1; i < company; i++)
		submit(e, EV_REQUEST_KIND_load, i, PROMPT - 40 * i);
	finish(e);
	return d;
}

static struct engine_options options(const char *format)
{
	struct engine_options o = ENGINE_DEFAULTS;

	o.cache_format = format;
	return o;
}

static void same(const struct drawn *a, const struct drawn *b)
{
	assert_int_equal(a->n, b->n);
	assert_memory_equal(a->hash, b->hash, sizeof a->hash);
}

/* Which rows differ from those of f16. */
static void test_against_f16(void **state)
{
	const struct engine_options exact = options("f16");
	const struct drawn want = drawn_with(&exact, EV_REQUEST_KIND_score, 1);

	(void)state;
	EACH(f)
	{
		const struct engine_options o = options(*f);
		const struct drawn got = drawn_with(&o, EV_REQUEST_KIND_score, 1);
		int equal = 0;

		assert_int_equal(got.n, PROMPT - 1);
		assert_true(f == formats || got.n_unseen > 0); /* given back while it is scored */
		/* the score of a position is that of the row before it */
		for (int pos = 1; pos < PROMPT; pos++)
			if (pos > 2 && (f == formats || pos > FIRST_CODED))
				equal += got.hash[pos] == want.hash[pos];
			else if (f != formats)
				assert_true(got.hash[pos] == want.hash[pos]);
		assert_int_equal(equal, 0);
	}
}

static void test_paths(void **state)
{
	static const struct {
		int32_t chunk, page_size, company;
		const char *spec, *backend, *isa;
		bool give_back;
	} paths[] = {
		{ 7, 48, 5, "off", "cpu", NULL, true },
		{ 0, 16, 1, "off", "cpu", NULL, true },
		{ 64, 128, 3, "ngram", "cpu", NULL, true },
		{ 128, 32, 2, "ngram:8,1,3,4", "cpu", NULL, false },
		{ 100, 64, 1, "lookahead", "cpu", "scalar", true },
		{ 33, 16, 1, "skip:1", "cpu", NULL, true },
		{ 256, 64, 1, "off", "ref", NULL, false },
	};

	(void)state;
	EACH(f)
	{
		struct engine_options o = options(*f);
		const struct drawn want = drawn_with(&o, EV_REQUEST_KIND_load, 1);
		const struct drawn score = drawn_with(&o, EV_REQUEST_KIND_score, 1);

		assert_int_equal(want.n, DRAWN);
		for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
			struct drawn got;

			o.prefill_chunk = paths[i].chunk;
			o.budget = 300;
			o.page_size = paths[i].page_size;
			o.backend = paths[i].backend;
			o.isa = paths[i].isa;
			o.give_back = paths[i].give_back;
			got = drawn_with(&o, EV_REQUEST_KIND_score, 1);
			same(&score, &got);
			o.spec = paths[i].spec;
			got = drawn_with(&o, EV_REQUEST_KIND_load, paths[i].company);
			same(&want, &got);
			assert_true(!strcmp(o.spec, "off") || got.n_verified > 0);
			o.spec = "off";
		}
	}
}

/* A second request finds the first one's pages; pages are few, so that some are taken. */
static void test_memory(void **state)
{
	(void)state;
	EACH(f)
	{
		struct engine_options o = options(*f);
		const struct drawn want = drawn_with(&o, EV_REQUEST_KIND_load, 1);
		struct drawn d;
		struct engine *e = open_with(&o, &d);
		struct err err = { 0 };

		submit(e, EV_REQUEST_KIND_load, 1, PROMPT);
		submit(e, EV_REQUEST_KIND_load, 0, PROMPT);
		while (!engine_idle(e))
			assert_true(engine_step(e, &err) >= 0);
		memset(&d, 0, sizeof d);
		d.request = submit(e, EV_REQUEST_KIND_load, 0, PROMPT);
		finish(e);
		assert_int_equal(d.n_hits, 1);
		same(&want, &d);
		o.pages = 30; /* 25 a request */
		o.slots = 2;
		e = open_with(&o, &d);
		submit(e, EV_REQUEST_KIND_load, 1, 60);
		d.request = submit(e, EV_REQUEST_KIND_load, 0, PROMPT);
		finish(e);
		assert_true(d.n_preempted > 0);
		same(&want, &d);
	}
}

/* Back to just after the prompt, from after the next span became codes. */
static void test_rewind(void **state)
{
	(void)state;
	EACH(f)
	{
		struct engine_options o = options(*f);
		const struct drawn want = drawn_with(&o, EV_REQUEST_KIND_load, 1);

		for (int cache = 0; cache < 2; cache++) {
			struct drawn d;
			struct engine *e;
			struct err err = { 0 };

			o.prefix_cache = cache;
			e = open_with(&o, &d);
			submit(e, EV_REQUEST_KIND_load, 0, PROMPT);
			while (d.n < DRAWN - 2)
				assert_int_equal(engine_step(e, &err), 1);
			assert_int_equal(engine_rewind(e, 1, PROMPT + 1, -1, &err), 0);
			memset(d.hash + PROMPT + 1, 0, (DRAWN - 1) * sizeof *d.hash);
			finish(e);
			assert_memory_equal(d.hash, want.hash, sizeof d.hash);
			assert_true(f == formats || d.n_unseen > 0);
		}
	}
}

/* Attention observed, and each token by its exact twin: the same bits, and a price from the first
 * row on that reads codes. */
static void test_watched(void **state)
{
	(void)state;
	EACH(f)
	{
		struct engine_options o = options(*f);
		const struct drawn want = drawn_with(&o, EV_REQUEST_KIND_load, 1);
		struct drawn d;
		struct engine *e;

		o.twin = "on";
		e = open_with(&o, &d);
		engine_observe(e, true);
		submit(e, EV_REQUEST_KIND_load, 0, PROMPT);
		finish(e);
		same(&want, &d);
		assert_true(d.n_watched > 0);
		assert_int_equal(d.n_priced, DRAWN);
		assert_int_equal(d.n_equal, 0);
		e = open_with(&o, &d);
		submit(e, EV_REQUEST_KIND_load, 0, FIRST_CODED - DRAWN / 2);
		finish(e);
		assert_int_equal(d.n_equal, f == formats ? 0 : DRAWN / 2 + 1);
	}
}

static int64_t pool_bytes(const struct engine *e)
{
	return engine_state(e).pages * (int64_t)engine_state(e).page_bytes;
}

/* In a running program: bytes of a page, groups, a pool of the same bytes, and an answer afterwards
 * like that of an engine that was opened so. */
static void test_setting(void **state)
{
	struct engine_options o = options("f16");
	struct err err = { 0 };
	struct drawn d;
	struct engine *e = open_with(&o, &d);
	const int64_t page = (int64_t)engine_state(e).page_bytes, bytes = pool_bytes(e);

	(void)state;
	EACH(f)
	{
		const struct engine_options with = options(*f);
		const struct drawn want = drawn_with(&with, EV_REQUEST_KIND_load, 1);

		assert_int_equal(engine_set(e, "cache-format", *f, &err), 0);
		assert_int_equal(e->memory.spec.n, f == formats ? 1 : 2);
		assert_true((int64_t)engine_state(e).page_bytes < page);
		assert_true(llabs(pool_bytes(e) - bytes) <= page);
		memset(&d, 0, sizeof d);
		d.request = submit(e, EV_REQUEST_KIND_load, 0, PROMPT);
		while (!engine_idle(e))
			assert_true(engine_step(e, &err) >= 0);
		same(&want, &d);
	}
	assert_int_equal(engine_set(e, "cache-format", "f16", &err), 0);
	assert_int_equal((int64_t)engine_state(e).page_bytes, page);
	assert_int_equal(e->memory.spec.n, 1);
	assert_int_equal(engine_set(e, "cache-format", "f32", &err), 0); /* its pages are of as many
																		tokens */
	assert_int_equal(pool_bytes(e), 2 * bytes);
	assert_int_equal(engine_set(e, "cache-format", "q8", &err), 0);
	assert_int_equal(engine_set(e, "cache-format", "f16", &err), 0);
	assert_int_equal(pool_bytes(e), bytes);
	finish(e);
	o = options("q8");
	e = open_with(&o, &d);
	assert_true(llabs(pool_bytes(e) - bytes) <= page);
	finish(e);
}

/* More tokens in f16: a row of codes is that much later, on any path; of other formats the setting
 * is refused, and goes when its format does. */
static void test_residual(void **state)
{
	struct engine_options o = options("kivi4"), more = o;
	const struct engine_options exact = options("f16");
	const struct drawn f16 = drawn_with(&exact, EV_REQUEST_KIND_load, 1);
	const struct drawn least = drawn_with(&o, EV_REQUEST_KIND_load, 1);
	struct drawn want, d;
	struct err err = { 0 };
	struct engine *e;
	char value[16];

	(void)state;
	more.cache_residual = 2 * K_RECENT;
	want = drawn_with(&more, EV_REQUEST_KIND_load, 1);
	/* the hash at a position is that of the row before it */
	assert_memory_equal(want.hash, f16.hash, (FIRST_CODED + K_RECENT + 1) * sizeof *f16.hash);
	assert_true(want.hash[FIRST_CODED + K_RECENT + 1] != f16.hash[FIRST_CODED + K_RECENT + 1]);
	assert_true(want.hash[PROMPT + 1] != least.hash[PROMPT + 1]);
	more.prefill_chunk = 50;
	more.spec = "ngram";
	more.isa = "scalar";
	d = drawn_with(&more, EV_REQUEST_KIND_load, 3);
	same(&want, &d);
	e = open_with(&o, &d);
	assert_int_equal(engine_set(e, "cache-residual", "100", &err), -1);
	assert_int_equal(engine_set(e, "cache-residual", "0", &err), -1);
	assert_int_equal(engine_set(e, "cache-residual", "256", &err), 0);
	d.request = submit(e, EV_REQUEST_KIND_load, 0, PROMPT);
	while (!engine_idle(e))
		assert_true(engine_step(e, &err) >= 0);
	same(&want, &d);
	assert_int_equal(engine_set(e, "cache-format", "q8", &err), 0);
	assert_int_equal(engine_get(e, "cache-residual", value, sizeof value), 0);
	assert_string_equal(value, "128");
	assert_int_equal(engine_set(e, "cache-residual", "256", &err), -1);
	finish(e);
}

static int setup(void **state)
{
	struct tiny_options t = TINY_DEFAULTS;
	struct err e = { 0 };

	(void)state;
	t.ctx = PROMPT + DRAWN;
	model = tiny_temp(&t, &e);
	return model ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	remove(model);
	free(model);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_f16),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_rewind),
		cmocka_unit_test(test_watched),
		cmocka_unit_test(test_setting),
		cmocka_unit_test(test_residual),
	};

	return cmocka_run_group_tests_name("cache codes", tests, setup, teardown);
}

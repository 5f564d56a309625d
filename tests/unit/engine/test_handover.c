/* Prompts on ranks of their own: the logits and draws of one rank, bit for bit, whatever the prefix
 * cache gives, the cache keeps and rows see; called back, preempted and rewound while away; a rank
 * that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/core/handover_impl.h"
#include "tests/support/invariants.h"
#include "tests/support/tiny.h"

enum { MOST = 1024, TOKENS = 10, PROMPTS = 5, ROUNDS = 2 };

struct found {
	int32_t n;
	struct {
		int64_t request, pos, id, hash;
	} row[MOST];
	int64_t handed, whole, given, back, unequal, failed, preempted, hits;
	char why[128];
};

static void see_handover(struct found *f, const struct ev_handover *h)
{
	f->handed++;
	f->whole += h->computed == h->tokens;
	f->given += h->given;
	f->back += h->back;
	f->unequal += !h->equal;
	assert_true(h->computed <= h->tokens && h->there > 0 && h->asked_ns <= h->end_ns);
	if (h->why.data && strstr(h->why.data, "called back") == NULL) {
		f->failed++;
		snprintf(f->why, sizeof f->why, "%.*s", (int)h->why.size, (const char *)h->why.data);
	}
}

static void see(void *arg, const struct event *ev)
{
	struct found *f = arg;

	if (ev->kind == EV_token && f->n < MOST) {
		f->row[f->n].request = ev->u.token.request;
		f->row[f->n].pos = ev->u.token.pos;
		f->row[f->n].id = ev->u.token.id;
		f->row[f->n++].hash = ev->u.token.hash;
	} else if (ev->kind == EV_handover) {
		see_handover(f, &ev->u.handover);
	} else if (ev->kind == EV_preempt) {
		f->preempted++;
	} else if (ev->kind == EV_lookup) {
		f->hits += ev->u.lookup.hit > 0;
	}
}

static int by_request(const void *a, const void *b)
{
	return memcmp(a, b, 2 * sizeof(int64_t));
}

static int64_t submit(struct engine *e, int32_t n, int32_t kind, int32_t shared)
{
	int32_t ids[512];
	struct err err = { 0 };
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = n,
		.max_tokens = TOKENS,
		.params = SAMPLE_DEFAULTS,
		.ignore_end = true };
	int64_t id;

	for (int32_t k = 0; k < n; k++) /* the first `shared` are those of all */
		ids[k] = 3 + (k % 13 * 7 + k / 5 + (k < shared ? 0 : kind * 31)) % 200;
	q.params.seed = 5;
	q.params.temperature = kind % 2 ? 0.8f : 0;
	id = engine_submit(e, &q, &err);
	if (id < 1)
		fail_msg("%s", err.text);
	return id;
}

static void step(struct engine *e)
{
	struct err err = { 0 };

	if (engine_step(e, &err) < 0)
		fail_msg("%s", err.text);
	engine_check(e);
}

static void finish(struct engine *e)
{
	while (!engine_idle(e))
		step(e);
}

/* Rounds of prompts that share their beginnings, the later ones while the first are answered. */
static void play(struct engine *e)
{
	for (int32_t round = 0; round < ROUNDS; round++) {
		for (int32_t i = 0; i < PROMPTS; i++) {
			submit(e, 70 + 23 * i + 9 * round, i + PROMPTS * round, 60);
			for (int32_t k = 0; k < i; k++)
				step(e);
		}
		finish(e);
	}
}

static struct engine *open_engine(const struct engine_options *o, struct found *f)
{
	struct engine *e = NULL;
	struct err err = { 0 };

	memset(f, 0, sizeof *f);
	if (engine_open(&e, o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, see, f);
	engine_begin(e, NULL);
	return e;
}

static void run(const struct engine_options *o, struct found *f)
{
	struct engine *e = open_engine(o, f);

	play(e);
	engine_close(e);
	qsort(f->row, (size_t)f->n, sizeof *f->row, by_request);
}

static void check_equal(const struct found *one, const struct found *two, const char *what)
{
	assert_int_equal(two->n, one->n);
	for (int32_t i = 0; i < one->n; i++)
		if (memcmp(&one->row[i], &two->row[i], sizeof one->row[i]))
			fail_msg("%s: token %d of request %lld at %lld: id %lld, hash %llx; on one rank id "
					 "%lld, hash %llx",
				what, i, (long long)two->row[i].request, (long long)two->row[i].pos,
				(long long)two->row[i].id, (unsigned long long)two->row[i].hash,
				(long long)one->row[i].id, (unsigned long long)one->row[i].hash);
}

static struct engine_options options(const char *model)
{
	struct engine_options o = ENGINE_DEFAULTS;

	o.model = model;
	o.threads = 1;
	o.packed_cache = "off";
	o.prefill_chunk = 32;
	o.budget = 64;
	o.prefill_least = 8;
	return o;
}

/* One and two prefill ranks against none. */
static void check(struct engine_options o, const char *what, struct found *last)
{
	struct found *f = calloc(2, sizeof *f);

	assert_non_null(f);
	o.prefill_ranks = 0;
	run(&o, &f[0]);
	assert_true(f[0].n >= 4 * TOKENS && !f[0].handed); /* the zoo has short contexts */
	assert_true(!o.pages || f[0].preempted);
	for (int32_t n = 1; n <= 2; n++) {
		o.prefill_ranks = n;
		run(&o, &f[1]);
		check_equal(&f[0], &f[1], what);
		if (!f[1].handed || !f[1].whole || !f[1].back || f[1].unequal || f[1].failed)
			fail_msg("%s: %lld prompts handed over, %lld wholly, %lld failed: %s", what,
				(long long)f[1].handed, (long long)f[1].whole, (long long)f[1].failed, f[1].why);
	}
	if (last)
		*last = f[1];
	free(f);
}

static void test_equal(void **state)
{
	struct engine_options o = options(tiny_model);
	struct found last;

	(void)state;
	check(o, "plain", &last);
	assert_true(last.hits > 0);
	o.prefill_chunk = 0;
	o.spec = "ngram:4";
	check(o, "whole prompts, drafts", NULL);
	o = options(tiny_model);
	o.prefix_cache = false;
	check(o, "no prefix cache", &last);
	assert_true(!last.hits && !last.given);
}

static void test_memory(void **state)
{
	static const char *const formats[] = { "q8", "kivi4", "kivi2", "bf16" };
	struct engine_options o = options(tiny_model);

	(void)state;
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		o.cache_format = formats[i];
		o.page_size = i % 2 ? 48 : 16;
		check(o, formats[i], NULL);
	}
	o = options(tiny_model);
	o.pages = 16;
	o.slots = 3;
	check(o, "few pages", NULL);
}

static void test_visible(void **state)
{
	static const char *const policies[] = { "window:48", "sinks:4+window:32", "top:25%",
		"stream:4+window:28" };
	struct engine_options o = options(tiny_model);

	(void)state;
	for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
		o.visible = policies[i];
		check(o, policies[i], NULL);
	}
	o.visible = "window:40";
	o.cache_format = "kivi4";
	check(o, "a window of codes", NULL);
	o.prefix_cache = false;
	check(o, "a window of codes without a prefix cache", NULL);
	o.prefix_cache = true;
	o.cache_format = "f16";
	o.visible = "full";
	o.skip_below = 0.05f;
	check(o, "small values skipped", NULL);
}

static void test_policies(void **state)
{
	struct engine_options o = options(tiny_model);

	(void)state;
	for (int i = 0; sched_policies[i]; i++) {
		o.policy = sched_policies[i]->name;
		check(o, o.policy, NULL);
	}
}

static void test_families(void **state)
{
	static const char *const families[] = { "qwen3", "gemma3", "mixtral", "gpt-oss", "deepseek3",
		"olmo2", "gpt2", "cohere2", "gemma4" };

	(void)state;
	for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
		struct engine_options o;
		char path[96];

		snprintf(path, sizeof path, "tests/data/zoo/%s.gguf", families[i]);
		o = options(path);
		check(o, families[i], NULL);
	}
}

/* ---- called back ---- */

static bool is_away(const struct engine *e, int64_t id)
{
	const struct request *r = sched_find(&e->sched, id);

	return r && r->where == REQUEST_AWAY;
}

/* Of three prompts that are away one is cancelled, at once or a few chunks on, and its pages go to
 * another one at once. */
static void play_cancel(struct engine *e, int32_t wait)
{
	int64_t id[3];

	for (int32_t i = 0; i < 3; i++)
		id[i] = submit(e, 300 + i, i, 0);
	step(e);
	for (int32_t i = 0; i < wait && is_away(e, id[0]); i++)
		step(e);
	assert_true(engine_cancel(e, id[0]));
	engine_check(e);
	submit(e, 280, 7, 0);
	finish(e);
}

static void drop_cancelled(struct found *f)
{
	int32_t n = 0;

	qsort(f->row, (size_t)f->n, sizeof *f->row, by_request);
	for (int32_t i = 0; i < f->n; i++)
		if (f->row[i].request != 1)
			f->row[n++] = f->row[i];
	f->n = n;
}

static void test_cancel(void **state)
{
	struct engine_options o = options(tiny_model);
	struct found *f = calloc(2, sizeof *f);

	(void)state;
	assert_non_null(f);
	o.pages = 64; /* of three prompts */
	for (int32_t wait = 0; wait < 6; wait++) {
		for (int32_t i = 0; i < 2; i++) {
			struct engine *e;

			o.prefill_ranks = i;
			e = open_engine(&o, &f[i]);
			play_cancel(e, wait);
			engine_close(e);
			drop_cancelled(&f[i]);
		}
		assert_int_equal(f[0].n, 3 * TOKENS);
		check_equal(&f[0], &f[1], "cancelled while away");
		assert_true(f[1].handed >= 3 && !f[1].failed);
	}
	free(f);
}

/* The engine closes while prompts are away. */
static void test_close(void **state)
{
	struct engine_options o = options(tiny_model);
	struct found f;

	(void)state;
	o.prefill_ranks = 2;
	for (int32_t wait = 0; wait < 4; wait++) {
		struct engine *e = open_engine(&o, &f);

		for (int32_t i = 0; i < 5; i++)
			submit(e, 300 + i, i, 0);
		for (int32_t i = 0; i < wait; i++)
			step(e);
		engine_close(e);
	}
}

/* A preempted answer's tokens are handed over, too; it is rewound while away. */
static void test_rewind(void **state)
{
	struct engine_options o = options(tiny_model);
	struct found *f = calloc(2, sizeof *f);
	struct err err = { 0 };

	(void)state;
	assert_non_null(f);
	for (int32_t i = 0; i < 2; i++) {
		struct engine *e;
		int64_t id;

		o.prefill_ranks = i;
		o.prefix_cache = false; /* so that it is computed again */
		e = open_engine(&o, &f[i]);
		id = submit(e, 200, 1, 0);
		while (f[i].n < 4)
			step(e);
		sched_rest(&e->sched, sched_find(&e->sched, id));
		sched_find(&e->sched, id)->backed_off = false;
		step(e);
		assert_true(!i || is_away(e, id));
		if (engine_rewind(e, id, 202, -1, &err))
			fail_msg("%s", err.text);
		engine_check(e);
		finish(e);
		engine_close(e);
		assert_true(!i || f[i].handed > 1);
	}
	check_equal(&f[0], &f[1], "rewound while away");
	free(f);
}

/* ---- a rank that fails ---- */

static const struct transport_ops *plain;
static int32_t calls_left;
static bool lies;

/* Rank 0's side: after so many exchanges a message that came differs, or the rank is gone. */
static int bad_exchange(struct transport *t, const struct message *out, int32_t n_out,
	const struct message *in, int32_t n_in, bool idle, struct err *e)
{
	const bool now = calls_left-- <= 0;

	if (now && !lies)
		return err_set(e, ERR_DEVICE, "the rank is gone");
	if (plain->exchange(t, out, n_out, in, n_in, idle, e))
		return -1;
	if (now && n_in && in[0].bytes > sizeof(struct piece))
		((uint8_t *)in[0].data)[in[0].bytes / 2] ^= 1;
	return 0;
}

static void bad_close(struct transport *t)
{
	plain->close(t);
}

static const struct transport_ops bad = { "bad", bad_exchange, bad_close };

static void check_bad(struct engine_options o, const struct found *one, int32_t calls)
{
	struct found *f = calloc(1, sizeof *f);
	struct engine *e;

	assert_non_null(f);
	o.prefill_ranks = 1;
	e = open_engine(&o, f);
	calls_left = calls;
	plain = e->handover->rank[0].r.k.transport->ops; /* the worker waits for its first job */
	e->handover->rank[0].r.k.transport->ops = &bad;
	play(e);
	engine_close(e);
	qsort(f->row, (size_t)f->n, sizeof *f->row, by_request);
	check_equal(one, f, lies ? "bytes that differ" : "a lost rank");
	assert_true(f->failed > 0 && *f->why);
	assert_int_equal(f->unequal > 0, lies);
	free(f);
}

static void test_failed(void **state)
{
	static const int32_t calls[] = { 0, 1, 2, 3, 5, 8, 20 };
	struct engine_options o = options(tiny_model);
	struct found *one = calloc(1, sizeof *one);

	(void)state;
	assert_non_null(one);
	run(&o, one);
	for (int32_t i = 0; i < 2; i++) {
		lies = i;
		for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
			check_bad(o, one, calls[c]);
	}
	free(one);
}

/* ---- settings, and what is refused ---- */

/* Settings that change while the engine is open change on the ranks, too. */
static void test_set(void **state)
{
	static const char *const change[][2] = { { "cache-format", "bf16" }, { "visible", "window:24" },
		{ "page-size", "64" }, { "budget", "40" }, { "cache-format", "f16" }, { "visible", "full" },
		{ "prefill-least", "100" }, { "prefill-chunk", "16" } };
	struct engine_options o = options(tiny_model);
	struct found *f = calloc(2, sizeof *f);
	struct err err = { 0 };

	(void)state;
	assert_non_null(f);
	for (int32_t i = 0; i < 2; i++) {
		struct engine *e;

		o.prefill_ranks = i;
		e = open_engine(&o, &f[i]);
		for (size_t c = 0; c < sizeof change / sizeof *change; c++) {
			if (engine_set(e, change[c][0], change[c][1], &err))
				fail_msg("%s", err.text);
			for (int32_t k = 0; k < 3; k++)
				submit(e, 60 + 40 * k, k + 3 * (int32_t)c, 0);
			finish(e);
		}
		engine_close(e);
		qsort(f[i].row, (size_t)f[i].n, sizeof *f[i].row, by_request);
	}
	check_equal(&f[0], &f[1], "settings");
	if (f[1].failed || f[1].handed < 10)
		fail_msg("%lld handed over; %s", (long long)f[1].handed, f[1].why);
	free(f);
}

static void test_least(void **state)
{
	struct engine_options o = options(tiny_model);
	struct found f;
	struct engine *e;

	(void)state;
	o.prefill_ranks = 1;
	o.prefill_least = 64;
	e = open_engine(&o, &f);
	submit(e, 64, 0, 0); /* 63 and the last one */
	finish(e);
	assert_int_equal(f.handed, 0);
	submit(e, 65, 1, 0);
	finish(e);
	assert_int_equal(f.handed, 1);
	submit(e, 100, 1, 0); /* of which the cache has the first */
	finish(e);
	assert_int_equal(f.handed, 1);
	engine_close(e);
}

static void refuse(struct engine_options o, const char *says)
{
	struct engine *e = NULL;
	struct err err = { 0 };

	o.prefill_ranks = 1;
	assert_int_equal(engine_open(&e, &o, &err), -1);
	if (!strstr(err.text, says))
		fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

static void test_refused(void **state)
{
	struct engine_options o = options(tiny_model);
	struct engine *e = NULL;
	struct err err = { 0 };

	(void)state;
	o.tensor_parallel = 2;
	refuse(o, "not with tensor-parallel");
	refuse(options("tests/data/zoo/mamba2.gguf"), "keep states");
	refuse(options("tests/data/zoo/jamba.gguf"), "keep states");
	refuse(options("tests/data/zoo/t5.gguf"), "has an encoder");
	o = options(tiny_model);
	o.visible = "h2o:25%";
	refuse(o, "prefill-ranks");
	o = options(tiny_model);
	o.link = "fast";
	refuse(o, "1gbit,50us");
	o = options(tiny_model);
	o.prefill_ranks = 1;
	assert_int_equal(engine_open(&e, &o, &err), 0);
	assert_int_equal(engine_set(e, "visible", "h2o:25%", &err), -1);
	engine_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_equal), cmocka_unit_test(test_memory),
		cmocka_unit_test(test_visible), cmocka_unit_test(test_policies),
		cmocka_unit_test(test_families), cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_close), cmocka_unit_test(test_rewind), cmocka_unit_test(test_failed),
		cmocka_unit_test(test_set), cmocka_unit_test(test_least), cmocka_unit_test(test_refused) };

	return cmocka_run_group_tests_name("handover", tests, tiny_model_make, tiny_model_drop);
}

/* Property tests of the engine with a tiny model: whatever the company, the pages, the cache, the
 * chunks, the threads and the drafts, a request gives the same tokens and the same hashes; and
 * every invariant of pages, cache and queues holds after every step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine_impl.h"
#include "engine/observe/roof.h"
#include "tests/support/allocations.h"
#include "tests/support/invariants.h"
#include "tests/support/tiny.h"

enum { MAX_REQUESTS = 64, MAX_TOKENS = 256 };

/* What one request gave: a sink fills it. */
struct record {
	int32_t id[MAX_TOKENS];
	int64_t hash[MAX_TOKENS], pos[MAX_TOKENS], rows[MAX_TOKENS], pairs[MAX_TOKENS];
	int n;
	int finish; /* -1: not yet */
	int64_t hit, reason;
	char why[200];
};
struct world {
	struct engine *e;
	struct record r[MAX_REQUESTS + 1];
	int64_t last_seq;
	struct ev_stage_time timed; /* the sum of the stages of the step that is open */
	int n_timed;                /* steps whose stages were told */
	int n_share, n_copy, n_evict, n_preempt, n_steps, n_attention, n_accepted, n_rejected;
	bool ran[MAX_REQUESTS + 1]; /* since it was admitted */
	int n_vain;                 /* preempted before they ran */
};

static char model_path[64];

/* In the order of the codes, each once; only stages that did something. */
static void add_stages(struct world *w, struct ev_span told)
{
	struct ev_stage_time s = { 0 };
	size_t n = told.size / sizeof s;

	assert_int_equal(told.size % sizeof s, 0);
	assert_true(n > 0 && !w->timed.ops);
	w->n_timed++;
	for (size_t i = 0; i < n; i++) {
		uint64_t before = s.stage;

		memcpy(&s, (const char *)told.data + i * sizeof s, sizeof s);
		assert_true(s.stage < EV_N_stage && s.ops > 0 && (!i || s.stage > before));
		w->timed.ns += s.ns;
		w->timed.bytes += s.bytes;
		w->timed.ops += s.ops;
	}
}

/* What the stages say adds up to what the step says. */
static void check_stages(struct world *w, const struct ev_step *s)
{
	if (w->timed.ops) {
		assert_int_equal(w->timed.bytes, s->bytes);
		assert_int_equal(w->timed.ops, s->ops);
		assert_true(w->timed.ns > 0 && w->timed.ns <= (uint64_t)s->kernel_ns);
	}
	assert_true(s->drafters_ns >= 0 && s->drafters_ns <= s->ns - s->kernel_ns);
	assert_true(s->run_delay_ns == EV_NULL_I || s->run_delay_ns >= 0);
	w->timed = (struct ev_stage_time){ 0 };
}

static void on_event(void *arg, const struct event *ev)
{
	struct world *w = arg;

	assert_int_equal(ev->seq, w->last_seq + 1);
	w->last_seq = ev->seq;
	if (ev->kind == EV_token) {
		struct record *r = &w->r[ev->u.token.request];
		assert_true(r->n < MAX_TOKENS);
		r->id[r->n] = (int32_t)ev->u.token.id;
		r->pos[r->n] = ev->u.token.pos;
		r->rows[r->n] = ev->u.token.rows;
		r->pairs[r->n] = ev->u.token.pairs;
		assert_true(ev->u.token.ns >= 0);
		r->hash[r->n++] = ev->u.token.hash;
	} else if (ev->kind == EV_score) {
		struct record *r = &w->r[ev->u.score.request];
		assert_true(r->n < MAX_TOKENS);
		assert_int_equal(ev->u.score.pos, ++r->n);
	} else if (ev->kind == EV_finish) {
		struct record *r = &w->r[ev->u.finish.request];
		assert_int_equal(r->finish, -1);
		r->finish = (int)ev->u.finish.reason;
		r->hit = ev->u.finish.hit;
		if (ev->u.finish.why.data)
			snprintf(r->why, sizeof r->why, "%.*s", (int)ev->u.finish.why.size,
				(const char *)ev->u.finish.why.data);
	} else if (ev->kind == EV_lookup) {
		w->r[ev->u.lookup.request].reason = ev->u.lookup.reason;
	} else if (ev->kind == EV_page) {
		w->n_share += ev->u.page.action == EV_PAGE_share;
		w->n_copy += ev->u.page.action == EV_PAGE_copy;
		w->n_evict += ev->u.page.action == EV_PAGE_evict;
	} else if (ev->kind == EV_preempt) {
		w->n_preempt++;
		w->n_vain += !w->ran[ev->u.preempt.request];
	} else if (ev->kind == EV_admit || ev->kind == EV_batch) {
		w->ran[ev->kind == EV_batch ? ev->u.batch.request : ev->u.admit.request] =
			ev->kind == EV_batch;
	} else if (ev->kind == EV_draft) {
		w->n_accepted += ev->u.draft.verdict == EV_VERDICT_accepted;
		w->n_rejected += ev->u.draft.verdict == EV_VERDICT_rejected;
	} else if (ev->kind == EV_time) {
		add_stages(w, ev->u.time.stages);
	} else if (ev->kind == EV_step) {
		check_stages(w, &ev->u.step);
		w->n_steps++;
	} else if (ev->kind == EV_attention) {
		w->n_attention++;
	}
}

static struct engine_options options(void)
{
	struct engine_options o = ENGINE_DEFAULTS;

	o.model = model_path;
	o.threads = 1;
	o.ctx = 256;
	o.pages = 64;
	return o;
}

static void world_open(struct world *w, const struct engine_options *o)
{
	struct err err = { 0 };

	memset(w, 0, sizeof *w);
	for (int i = 0; i <= MAX_REQUESTS; i++)
		w->r[i].finish = -1;
	if (engine_open(&w->e, o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(w->e, on_event, w);
	engine_begin(w->e, NULL);
}

static void world_close(struct world *w)
{
	engine_close(w->e);
}

static uint32_t next(uint32_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 17;
	*s ^= *s << 5;
	return *s;
}

/* Prompts that share beginnings, so that the cache has work: a family, then words of their own. */
static int make_prompt(const struct world *w, int which, int32_t *ids)
{
	uint32_t family = 77u + (uint32_t)(which % 3), own = 1000u + (uint32_t)which * 7919u;
	int shared = 5 + (which % 3) * 19, extra = (which * 5) % 23, n = 0;

	for (; n < shared; n++)
		ids[n] = (int32_t)(next(&family) % (uint32_t)engine_info(w->e)->vocab);
	for (int i = 0; i <= extra; i++, n++)
		ids[n] = (int32_t)(next(&own) % (uint32_t)engine_info(w->e)->vocab);
	return n;
}

static struct sample_params params_of(int which)
{
	struct sample_params p = SAMPLE_DEFAULTS;
	static const float temperature[] = { 0, 0.7f, 1.5f };

	p.temperature = temperature[which % 3];
	p.seed = 42;
	if (which % 4 == 1)
		p.repeat_penalty = 1.2f;
	if (which % 5 == 2)
		p.top_k = 7;
	for (uint32_t id = 0; which % 5 == 3 && id < 250; id += 11)
		sample_bias_add(&p.logit_bias, id, id % 3 ? 2 : -5, NULL);
	return p;
}

static int64_t submit(struct world *w, int which)
{
	int32_t ids[128];
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.max_tokens = 20 + which % 17,
		.params = params_of(which),
		.sample = which,
		.text = "test",
		.ignore_end = true };
	struct err err = { 0 };
	int64_t id;

	q.n_ids = make_prompt(w, which, ids);
	id = engine_submit(w->e, &q, &err);
	if (id < 0)
		fail_msg("%s", err.text);
	return id;
}

static void run_all(struct world *w)
{
	struct err err = { 0 };
	int steps = 0;

	while (engine_step(w->e, &err) > 0) {
		engine_check(w->e);
		assert_true(++steps < 20000);
	}
	assert_true(engine_idle(w->e));
}

/* Each request by itself in a plain engine: what all others are compared with. */
static struct record alone[MAX_REQUESTS];

static void find_alone(void)
{
	static struct world w;
	struct engine_options o = options();

	o.prefix_cache = false;
	o.backend = "ref";
	for (int i = 0; i < MAX_REQUESTS; i++) {
		world_open(&w, &o);
		submit(&w, i);
		run_all(&w);
		alone[i] = w.r[1];
		assert_int_equal(w.r[1].finish, EV_FINISH_length);
		world_close(&w);
	}
}

static void expect_same(const struct record *r, const struct record *base, bool whole)
{
	if (whole)
		assert_int_equal(r->n, base->n);
	assert_true(r->n <= base->n);
	assert_memory_equal(r->id, base->id, (size_t)r->n * sizeof r->id[0]);
	assert_memory_equal(r->hash, base->hash, (size_t)r->n * sizeof r->hash[0]);
	assert_memory_equal(r->pos, base->pos, (size_t)r->n * sizeof r->pos[0]);
}

static void check_company(const struct engine_options *o, int n)
{
	static struct world w;

	world_open(&w, o);
	for (int i = 0; i < n; i++)
		submit(&w, i);
	run_all(&w);
	for (int i = 0; i < n; i++)
		expect_same(&w.r[i + 1], &alone[i], true);
	world_close(&w);
}

static void test_company(void **state)
{
	struct engine_options o = options();

	(void)state;
	check_company(&o, 17);
	for (int i = 0; i < 8; i++) {
		o = options();
		o.slots = (int32_t[]){ 1, 2, 8, 5, 16, 3, 8, 4 }[i];
		o.page_size = (int32_t[]){ 16, 32, 64, 16, 48, 16, 16, 32 }[i];
		o.prefill_chunk = (int32_t[]){ 1, 7, 0, 64, 3, 16, 5, 33 }[i];
		o.budget = (int32_t[]){ 256, 8, 64, 20, 16, 7, 300, 12 }[i];
		o.threads = (int32_t[]){ 1, 2, 3, 2, 1, 7, 1, 2 }[i];
		o.prefix_cache = i % 2;
		o.spec = i % 3 == 0 ? "ngram:4" : i % 3 == 1 ? "ngram:2" : "off";
		check_company(&o, 12 + i);
	}
}

static void test_few_pages(void **state)
{
	static struct world w;
	struct engine_options o = options();

	(void)state;
	o.pages = 9; /* 144 tokens for requests of up to 100: they must take turns */
	o.spec = "ngram:3";
	world_open(&w, &o);
	for (int i = 0; i < 16; i++)
		submit(&w, i);
	run_all(&w);
	for (int i = 0; i < 16; i++)
		expect_same(&w.r[i + 1], &alone[i], true);
	assert_true(w.n_preempt > 0);
	assert_int_equal(w.n_vain, 0);
	assert_true(w.n_evict > 0);
	world_close(&w);
}

/* A text that is scored gives up its pages to an answer that grows; each of its tokens is told
 * once. */
static void test_few_pages_score(void **state)
{
	enum { N = 40 };
	static struct world w;
	struct engine_options o = options();
	int32_t ids[N];
	const struct engine_request q = { .kind = EV_REQUEST_KIND_score, .ids = ids, .n_ids = N };
	struct err err = { 0 };

	(void)state;
	for (int32_t i = 0; i < N; i++)
		ids[i] = 3 * i;
	o.pages = 4;
	o.prefill_chunk = 2;
	world_open(&w, &o);
	submit(&w, 0);
	assert_int_equal(engine_submit(w.e, &q, &err), 2);
	run_all(&w);
	assert_true(w.n_preempt > 0);
	assert_int_equal(w.r[2].n, N - 1);
	world_close(&w);
}

/* Random submits, cancels, steps and settings: invariants after each, and what was generated is
 * right. */
static void random_session(uint32_t seed)
{
	static struct world w;
	struct engine_options o = options();
	int which[MAX_REQUESTS + 1], n = 0;
	bool cancelled[MAX_REQUESTS + 1] = { false };
	uint32_t s = seed * 2654435761u + 1;
	struct err err = { 0 };

	o.pages = 8 + (int32_t)(next(&s) % 30);
	o.slots = 1 + (int32_t)(next(&s) % 9);
	o.budget = o.slots + (int32_t)(next(&s) % 40);
	o.prefill_chunk = (int32_t)(next(&s) % 30);
	o.spec = next(&s) % 2 ? "ngram:4" : "off";
	world_open(&w, &o);
	for (int i = 0; i < 260; i++) {
		uint32_t dice = next(&s) % 100;
		if (dice < 12 && n < MAX_REQUESTS) {
			which[n + 1] = (int)(next(&s) % MAX_REQUESTS);
			assert_int_equal(submit(&w, which[n + 1]), n + 1);
			n++;
		} else if (dice < 16 && n) {
			int64_t id = 1 + next(&s) % (uint32_t)n;
			cancelled[id] |= engine_cancel(w.e, id);
		} else if (dice < 18) {
			engine_set(w.e, "prefix-cache", next(&s) % 2 ? "on" : "off", &err);
		} else if (dice < 20) {
			engine_set(w.e, "spec", next(&s) % 2 ? "ngram:3" : "off", &err);
		} else if (dice < 22) {
			engine_set(w.e, "kv-cache", next(&s) % 2 ? "on" : "off", &err);
		} else {
			assert_true(engine_step(w.e, &err) >= 0);
		}
		engine_check(w.e);
	}
	run_all(&w);
	for (int i = 1; i <= n; i++) {
		assert_true(w.r[i].finish >= 0);
		expect_same(&w.r[i], &alone[which[i]], !cancelled[i] && w.r[i].finish == EV_FINISH_length);
		if (!cancelled[i] && w.r[i].finish != EV_FINISH_length)
			assert_true(w.r[i].finish == EV_FINISH_refused || w.r[i].finish == EV_FINISH_context);
	}
	world_close(&w);
}

static void test_random_sessions(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 25; seed++)
		random_session(seed);
}

static void test_fork_shares_pages(void **state)
{
	static struct world w;
	struct engine_options o = options();
	int32_t ids[128];
	struct engine_request q = { .kind = EV_REQUEST_KIND_fork,
		.ids = ids,
		.max_tokens = 12,
		.params = params_of(1),
		.ignore_end = true };
	struct err err = { 0 };

	(void)state;
	world_open(&w, &o);
	q.n_ids = make_prompt(&w, 11, ids);
	for (int i = 0; i < 5; i++) {
		q.sample = i;
		assert_int_equal(engine_submit(w.e, &q, &err), i + 1);
	}
	run_all(&w);
	/* one prefill; four take its pages, and copy the last one before they write */
	for (int i = 2; i <= 5; i++)
		assert_int_equal(w.r[i].hit, q.n_ids - 1);
	assert_int_equal(w.n_share, 4 * ((q.n_ids + 15) / 16));
	assert_true(w.n_copy >= 4);
	/* the same prompt, other sample numbers: other texts, from the same first row of logits */
	assert_int_equal(w.r[1].hash[0], w.r[3].hash[0]);
	assert_memory_not_equal(w.r[1].id, w.r[3].id, 12 * sizeof(int32_t));
	world_close(&w);
}

static void test_prefix_reasons(void **state)
{
	static struct world w;
	struct engine_options o = options();
	int32_t ids[200];
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = 40,
		.max_tokens = 2,
		.params = params_of(0),
		.ignore_end = true };
	struct err err = { 0 };
	static const int expect[] = { EV_PREFIX_empty, EV_PREFIX_hit, EV_PREFIX_diverged,
		EV_PREFIX_tail, EV_PREFIX_hit, EV_PREFIX_off };

	(void)state;
	world_open(&w, &o);
	for (int i = 0; i < 200; i++)
		ids[i] = 3 + i % 250;
	for (int i = 0; i < 6; i++) {
		q.n_ids = (int[]){ 40, 40, 40, 60, 32, 40 }[i];
		ids[20] = i == 2 ? 9 : 23;
		if (i == 5)
			engine_set(w.e, "prefix-cache", "off", &err);
		engine_submit(w.e, &q, &err);
		run_all(&w);
		assert_int_equal(w.r[i + 1].reason, expect[i]);
	}
	assert_int_equal(w.r[1].hit, 0);
	assert_int_equal(w.r[2].hit, 32);
	assert_int_equal(w.r[3].hit, 16);
	assert_int_equal(w.r[4].hit, 32);
	assert_int_equal(w.r[5].hit, 31); /* all is there; the last token is computed all the same */
	assert_int_equal(w.r[6].hit, 0);
	world_close(&w);
}

static void test_ends(void **state)
{
	static struct world w;
	struct engine_options o = options();
	int32_t ids[300] = { 0 };
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = 256,
		.max_tokens = 5,
		.params = params_of(0),
		.ignore_end = true };
	struct err err = { 0 };

	(void)state;
	world_open(&w, &o);
	for (int i = 0; i < 300; i++)
		ids[i] = 5 + i % 200;
	assert_int_equal(engine_submit(w.e, &q, &err), 1); /* as long as the context */
	q.n_ids = 250;
	q.max_tokens = 0;
	assert_int_equal(engine_submit(w.e, &q, &err), 2);
	run_all(&w);
	assert_int_equal(w.r[1].finish, EV_FINISH_refused);
	assert_non_null(strstr(w.r[1].why, "257"));
	assert_int_equal(w.r[2].finish, EV_FINISH_context);
	assert_int_equal(w.r[2].n, 6);
	q.n_ids = 0;
	assert_int_equal(engine_submit(w.e, &q, &err), -1);
	assert_int_equal(err.code, ERR_USAGE);
	world_close(&w);

	o.pages = 4;
	world_open(&w, &o);
	q.n_ids = 30;
	q.max_tokens = 200;
	assert_int_equal(engine_submit(w.e, &q, &err), 1);
	q.n_ids = 70;
	assert_int_equal(engine_submit(w.e, &q, &err), 2);
	run_all(&w);
	/* 64 positions, and the token that needs no page */
	assert_int_equal(w.r[1].finish, EV_FINISH_context);
	assert_int_equal(w.r[1].n, 35);
	assert_int_equal(w.r[2].finish, EV_FINISH_refused);
	world_close(&w);
}

static void test_stop_string(void **state)
{
	static struct world w;
	struct engine_options o = options();
	const struct record *base = &alone[4];
	int32_t ids[128];
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.max_tokens = 30,
		.params = params_of(4),
		.sample = 4,
		.ignore_end = true };
	struct err err = { 0 };
	char text[64];
	const char *stop[] = { "no such text", text, NULL };
	struct gguf_text a, b;

	(void)state;
	world_open(&w, &o);
	a = tokenizer_bytes(engine_tokenizer(w.e), base->id[3]);
	b = tokenizer_bytes(engine_tokenizer(w.e), base->id[4]);
	/* a stop string across the border of two tokens */
	snprintf(text, sizeof text, "%.1s%.1s", a.data + a.size - 1, b.data);
	q.n_ids = make_prompt(&w, 4, ids);
	q.stop = stop;
	engine_submit(w.e, &q, &err);
	run_all(&w);
	assert_int_equal(w.r[1].finish, EV_FINISH_stop);
	assert_string_equal(w.r[1].why, text);
	assert_true(w.r[1].n <= 5);
	expect_same(&w.r[1], base, false);
	world_close(&w);
}

static void test_page_size_changes(void **state)
{
	static struct world w;
	struct engine_options o = options();
	struct err err = { 0 };

	(void)state;
	world_open(&w, &o);
	submit(&w, 5);
	assert_int_equal(engine_set(w.e, "page-size", "32", &err), -1); /* something waits */
	run_all(&w);
	memset(&err, 0, sizeof err);
	assert_int_equal(engine_set(w.e, "page-size", "33", &err), -1);
	memset(&err, 0, sizeof err);
	assert_int_equal(engine_set(w.e, "page-size", "64", &err), 0);
	assert_int_equal(engine_state(w.e).pages, 16);
	submit(&w, 6);
	run_all(&w);
	expect_same(&w.r[1], &alone[5], true);
	expect_same(&w.r[2], &alone[6], true);
	submit(&w, 5);
	assert_int_equal(engine_set(w.e, "pages", "3", &err), -1); /* something waits */
	run_all(&w);
	assert_int_equal(engine_set(w.e, "pages", "3", &err), 0);
	assert_int_equal(engine_state(w.e).pages, 3);
	submit(&w, 6);
	run_all(&w);
	expect_same(&w.r[4], &alone[6], true);
	assert_int_equal(engine_set(w.e, "pages", "0", &err), 0); /* as many as at the start */
	assert_true(engine_state(w.e).pages > 3);
	world_close(&w);
}

static void test_observation_changes_nothing(void **state)
{
	static struct world w;
	struct engine_options o = options();
	struct err err = { 0 };
	int unseen;

	(void)state;
	world_open(&w, &o);
	engine_observe(w.e, false);
	submit(&w, 7);
	run_all(&w);
	assert_int_equal(w.n_attention, 0);
	assert_int_equal(w.n_timed, 0);
	unseen = w.n_steps;
	engine_observe(w.e, true);
	engine_set(w.e, "observe-layer", "1", &err);
	engine_set(w.e, "observe-head", "2", &err);
	submit(&w, 8);
	run_all(&w);
	assert_true(w.n_attention > 10);
	assert_true(w.n_timed > 10 && w.n_timed == w.n_steps - unseen);
	expect_same(&w.r[1], &alone[7], true);
	expect_same(&w.r[2], &alone[8], true);
	world_close(&w);
}

static void test_attention_every(void **state)
{
	static struct world w;
	struct engine_options o = options();
	struct err err = { 0 };
	int before = 0;

	(void)state;
	world_open(&w, &o);
	for (int i = 1; i <= 4; i++) {
		if (i == 2)
			engine_set(w.e, "attention-every", "1", &err);
		if (i == 3)
			engine_set(w.e, "attention-every", "1000", &err);
		submit(&w, 9);
		if (i == 4)
			engine_look_closely(w.e); /* at the step that computes the first token: no more */
		run_all(&w);
		expect_same(&w.r[i], &alone[9], true);
		/* the default of so small a model: every eighth token, the first included */
		assert_int_equal(w.n_attention - before, i == 1   ? (w.r[1].n + 7) / 8
												 : i == 2 ? w.r[2].n
														  : 1);
		before = w.n_attention;
	}
	world_close(&w);
}

/* Greedy text repeats itself: drafts must be both accepted and rejected, or the test shows
 * nothing. */
static void test_speculation_is_used(void **state)
{
	static struct world w;
	struct engine_options o = options();

	(void)state;
	o.spec = "ngram:4";
	world_open(&w, &o);
	for (int i = 0; i < 30; i++)
		submit(&w, i);
	run_all(&w);
	assert_true(w.n_accepted > 0);
	assert_true(w.n_rejected > 0);
	world_close(&w);
}

/* What a token costs, to the row and to the pair: T (T + 1) / 2 pairs for the T rows of a prompt,
 * then a row with T pairs; without a KV cache all rows for every token, whatever the chunks. */
static void check_costs(bool kv_cache, int32_t chunk)
{
	static struct world w;
	struct engine_options o = options();

	o.kv_cache = kv_cache;
	o.prefill_chunk = chunk;
	o.spec = "ngram:4";
	if (kv_cache)
		o.spec = "off";
	world_open(&w, &o);
	for (int i = 0; i < 5; i++)
		submit(&w, i);
	run_all(&w);
	assert_int_equal(w.n_accepted + w.n_rejected, 0);
	for (int i = 0; i < 5; i++) {
		const struct record *r = &w.r[i + 1];

		expect_same(r, &alone[i], true);
		for (int k = kv_cache && r->reason != EV_PREFIX_empty; k < r->n; k++) {
			int64_t rows = r->pos[k], all = rows * (rows + 1) / 2;

			assert_int_equal(r->rows[k], kv_cache && k ? 1 : rows);
			assert_int_equal(r->pairs[k], kv_cache && k ? rows : all);
		}
	}
	world_close(&w);
}

static void test_what_a_token_costs(void **state)
{
	(void)state;
	check_costs(true, 0);
	check_costs(true, 7);
	check_costs(false, 0);
	check_costs(false, 7);
	check_costs(false, 1);
}

/* ---- a decode step allocates nothing ---- */

static void test_decode_allocates_nothing(void **state)
{
	static struct world w;
	struct engine_options o = options();
	struct err err = { 0 };
	long before;

	(void)state;
	o.spec = "ngram:4";
	world_open(&w, &o);
	submit(&w, 1);
	submit(&w, 2);
	for (int i = 0; i < 3; i++)
		engine_step(w.e, &err);
	before = allocations();
	for (int i = 0; i < 6; i++)
		assert_int_equal(engine_step(w.e, &err), 1);
	assert_int_equal(allocations(), before);
	world_close(&w);
	if (before < 0)
		skip();
}

static int setup(void **state)
{
	struct tiny_options o = TINY_DEFAULTS;
	struct err err = { 0 };

	(void)state;
	snprintf(model_path, sizeof model_path, "/tmp/cutaway-test-%d.gguf", (int)getpid());
	o.type = K_Q4_1;
	if (tiny_write(&o, model_path, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return -1;
	}
	find_alone();
	return 0;
}

/* The hash is of the file that was opened, or there is none. */
static void test_hash_of_what_was_opened(void **state)
{
	struct tiny_options tiny = TINY_DEFAULTS;
	struct engine_options o = ENGINE_DEFAULTS;
	char hash[SHA256_HEX], same[SHA256_HEX], *path, *other;
	struct engine *engine;
	struct err e = { 0 };

	(void)state;
	setenv("XDG_CACHE_HOME", "/proc/nowhere", 1); /* nothing is remembered */
	path = tiny_temp(&tiny, &e);
	tiny.seed++;
	other = tiny_temp(&tiny, &e);
	o.model = path;
	assert_int_equal(engine_open(&engine, &o, &e), 0);
	assert_int_equal(engine_hash_model(engine, NULL, hash, &e), 0);
	assert_int_equal(file_sha256(path, same, &e), 0);
	assert_string_equal(hash, same);
	assert_int_equal(rename(other, path), 0);
	assert_int_equal(engine_hash_model(engine, NULL, hash, &e), -1);
	assert_int_equal(e.code, ERR_INPUT);
	engine_close(engine);
	unlink(path);
	free(path);
	free(other);
}

static int teardown(void **state)
{
	(void)state;
	unlink(model_path);
	return 0;
}

/* The roof is the best of all readings; it is read once nothing runs, and again where kernels were
 * faster than it. */
static void test_roof(void **state)
{
	struct engine_options o = options();
	static struct world w;
	struct engine_roof *r;
	struct err err = { 0 };
	char words[128];

	(void)state;
	o.measure = true;
	world_open(&w, &o);
	r = engine_hook_state(w.e, &roof_hooks);
	assert_int_equal(r->n, 0); /* the start does not wait for it */
	submit(&w, 7);
	engine_rest(w.e);
	assert_int_equal(r->n, 0);
	run_all(&w);
	engine_rest(w.e);
	engine_get(w.e, "roof", words, sizeof words);
	assert_true(strtod(words, NULL) > 0 && strstr(words, "GB/s, best of 1 reading from"));
	assert_true(r->ints > 0 && r->floats > 0);
	engine_rest(w.e);
	assert_int_equal(r->n, 1);
	r->best = 1; /* a machine that had nothing to spare */
	submit(&w, 7);
	run_all(&w);
	engine_rest(w.e);
	assert_true(r->n == 2 && r->best > 1);
	assert_int_equal(engine_set(w.e, "roof", "measure", &err), 0);
	assert_int_equal(r->n, 3);
	assert_int_equal(engine_set(w.e, "roof", "5", &err), -1);
	assert_non_null(strstr(err.text, "it is measured, not set"));
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_roof),
		cmocka_unit_test(test_company),
		cmocka_unit_test(test_few_pages),
		cmocka_unit_test(test_few_pages_score),
		cmocka_unit_test(test_random_sessions),
		cmocka_unit_test(test_fork_shares_pages),
		cmocka_unit_test(test_prefix_reasons),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_stop_string),
		cmocka_unit_test(test_page_size_changes),
		cmocka_unit_test(test_observation_changes_nothing),
		cmocka_unit_test(test_attention_every),
		cmocka_unit_test(test_speculation_is_used),
		cmocka_unit_test(test_what_a_token_costs),
		cmocka_unit_test(test_decode_allocates_nothing),
		cmocka_unit_test(test_hash_of_what_was_opened),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

/* Searches: best of n is what the samples give alone; beam search is that of a slow reference that
 * shares nothing and computes every hypothesis anew; a tree search can be repeated bit for bit.
 * Pages are checked after every step, and a search that is cancelled leaves none in use. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine_impl.h"
#include "engine/observe/probe.h"
#include "engine/search/search.h"
#include "kernels/arith.h"
#include "tests/support/invariants.h"
#include "tests/support/tiny.h"

enum { PROMPT = 37, MOST = 64, N_SAMPLES = 6, VOCAB = 512 };

struct told {
	struct event search[4096];
	int n_search, n_finish, n_copy, n_preempt;
	int64_t told; /* the newest request that is none of a branch */
	int32_t taken[MOST];
	int n_taken;
	int32_t id[MOST]; /* of the request looked at */
	int n;
	int64_t request;
};

static void on_event(void *arg, const struct event *ev)
{
	struct told *t = arg;

	if (ev->kind == EV_search && t->n_search < 4096)
		t->search[t->n_search++] = *ev;
	if (ev->kind == EV_request && ev->u.request.kind != EV_REQUEST_KIND_search) {
		t->told = ev->u.request.request;
		t->n_taken = 0;
	}
	if (ev->kind == EV_token && ev->u.token.source == EV_SOURCE_taken) {
		assert_int_equal(ev->u.token.request, t->told);
		assert_int_equal(ev->u.token.pos, PROMPT + t->n_taken);
		t->taken[t->n_taken++] = (int32_t)ev->u.token.id;
	}
	t->n_preempt += ev->kind == EV_preempt;
	t->n_finish += ev->kind == EV_finish;
	t->n_copy += ev->kind == EV_page && ev->u.page.action == EV_PAGE_copy;
	if (ev->kind == EV_token && ev->u.token.request == t->request)
		t->id[t->n++] = (int32_t)ev->u.token.id;
}

static struct engine *open_engine(int32_t slots, int32_t pages, struct told *t)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *e;
	struct err err = { 0 };

	o.model = tiny_model;
	o.threads = 1;
	o.ctx = 256;
	o.slots = slots;
	o.pages = pages;
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	memset(t, 0, sizeof *t);
	engine_add_sink(e, on_event, t);
	engine_begin(e, NULL);
	return e;
}

static uint32_t prompt = 99;
static int n_ended, n_preempted;

static struct engine_request request_of(int32_t ids[PROMPT], int32_t max_tokens)
{
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = PROMPT,
		.max_tokens = max_tokens,
		.params = SAMPLE_DEFAULTS,
		.text = "test" };
	uint32_t s = prompt;

	for (int i = 0; i < PROMPT; i++) {
		s = s * 1664525u + 1013904223u;
		ids[i] = 3 + (int32_t)(s >> 20) % 400;
	}
	q.params.temperature = 1.1f;
	return q;
}

/* To its end, or so many steps. */
static struct search_view run(struct engine *e, int64_t search, int steps)
{
	struct search_view v = { 0 };
	struct err err = { 0 };

	while (steps-- > 0 && engine_search_look(e, search, &v) && !v.done) {
		assert_int_equal(engine_step(e, &err), 1);
		engine_check(e);
	}
	assert_true(engine_search_look(e, search, &v));
	if (v.err.code)
		fail_msg("%s", v.err.text);
	return v;
}

/* The best answer was told as a request of the kind that was asked for. */
static void assert_told(const struct told *t, const struct search_view *v)
{
	assert_true(v->taken > v->answer[0].request);
	assert_int_equal(t->told, v->taken);
	assert_int_equal(t->n_taken, v->answer[0].n);
	assert_memory_equal(t->taken, v->answer[0].ids, (size_t)t->n_taken * sizeof *t->taken);
}

static int64_t begin(struct engine *e, const char *method, const struct engine_request *q)
{
	struct search_options o = { .method = method };
	struct err err = { 0 };
	int64_t id = engine_search(e, &o, q, &err);

	if (id < 0)
		fail_msg("%s", err.text);
	return id;
}

static void test_best(void **state)
{
	static struct told t;
	int32_t ids[PROMPT];
	struct engine_request q = request_of(ids, 40);
	struct engine *e = open_engine(4, 64, &t);
	struct search_view v = run(e, begin(e, "best:6", &q), 5000);
	struct err err = { 0 };

	(void)state;
	assert_true(v.done);
	assert_int_equal(v.n_answers, N_SAMPLES);
	assert_true(v.most_pages < v.most_unshared && v.unshared > v.pages);
	assert_told(&t, &v);
	for (int i = 1; i < v.n_answers; i++)
		assert_true(v.answer[i - 1].score >= v.answer[i].score);
	for (int sample = 0; sample < N_SAMPLES; sample++) {
		bool found = false;

		q.sample = sample;
		t.n = 0;
		t.request = engine_submit(e, &q, &err);
		while (engine_step(e, &err) > 0)
			;
		assert_true(engine_search_look(e, 1, &v));
		for (int i = 0; i < v.n_answers; i++)
			found |=
				v.answer[i].n == t.n && !memcmp(v.answer[i].ids, t.id, (size_t)t.n * sizeof *t.id);
		assert_true(found);
	}
	engine_close(e);
}

/* A search ends though its last members ended in no step: pages ran out, or they were cancelled. */
static void test_ends_without_a_step(void **state)
{
	static struct told t;
	int32_t ids[PROMPT];
	struct engine_request q = request_of(ids, 0);
	struct engine *e = open_engine(4, 6, &t);
	struct search_view v;
	int64_t id;

	(void)state;
	assert_true(run(e, begin(e, "beam:3", &q), 5000).done);
	id = begin(e, "best:2", &q);
	run(e, id, 3);
	for (int64_t r = 1; r < t.told + 20; r++)
		engine_cancel(e, r);
	assert_true(run(e, id, 2).done);
	assert_true(engine_idle(e));
	assert_true(engine_search_look(e, id, &v) && !v.cancelled);
	engine_close(e);
}

/* Branches share the one page beside a pin and take turns with copies of it, to its end. Those that
 * go along the pin need a page less from there on: another ends outside of a step, when all others
 * are computed and have rested, and they go on. */
static void test_ends_beside_a_pin(void **state)
{
	static struct told t;

	(void)state;
	for (prompt = 110; prompt < 138; prompt++) {
		int32_t ids[PROMPT + 11];
		struct engine_request q = request_of(ids, 40), pin;
		struct engine *e = open_engine(4, 4, &t);
		struct err err = { 0 };
		struct search_view v;

		q.ignore_end = true;
		v = run(e, begin(e, "beam:2", &q), 5000);
		memcpy(ids + PROMPT, v.answer[0].ids, 11 * sizeof *ids);
		assert_int_equal(engine_set(e, "pin-limit", "1", &err), 0);
		pin = q;
		pin.kind = EV_REQUEST_KIND_pin;
		pin.n_ids = pin.pin = PROMPT + 11;
		assert_true(engine_submit(e, &pin, &err) > 0);
		while (engine_step(e, &err) > 0)
			;
		v = run(e, begin(e, "beam:3", &q), 5000);
		assert_true(v.done);
		for (int i = 0; i < v.n_answers; i++)
			assert_true(v.answer[i].n >= 11 && v.answer[i].reason == EV_FINISH_context);
		engine_close(e);
	}
	prompt = 99;
}

/* A pin that waits was promised pages, and a branch needs one of them. */
static void test_refused_branch(void **state)
{
	static struct told t;
	int32_t ids[PROMPT], other[PROMPT];
	struct engine_request q = request_of(ids, 0), pin = request_of(other, 0);
	struct engine *e = open_engine(2, 6, &t);
	struct err err = { 0 };
	struct search_view v;
	int64_t id;

	(void)state;
	q.ignore_end = true;
	id = begin(e, "beam:2", &q);
	run(e, id, 4);
	other[0]++;
	pin.kind = EV_REQUEST_KIND_pin;
	pin.pin = 32;
	assert_true(engine_submit(e, &pin, &err) > 0);
	for (int i = 0; i < 500 && !engine_idle(e); i++)
		assert_int_equal(engine_step(e, &err), 1);
	assert_true(engine_search_look(e, id, &v) && v.done);
	assert_non_null(strstr(v.err.text, "does not fit"));
	engine_close(e);
}

/* ---- beam search as the definition has it ---- */

struct hypothesis {
	int32_t id[PROMPT + MOST], n;
	double logp, score;
};

struct slow {
	struct hypothesis live[8], done[64];
	int n_live, n_done;
};

struct next {
	int from, id;
	double logp;
};

static int by_logp(const void *a, const void *b)
{
	const struct next *x = a, *y = b;

	if (x->logp != y->logp)
		return x->logp > y->logp ? -1 : 1;
	return x->from != y->from ? x->from - y->from : x->id - y->id;
}

static int by_score(const void *a, const void *b)
{
	double x = ((const struct hypothesis *)a)->score, y = ((const struct hypothesis *)b)->score;

	return x == y ? 0 : x > y ? -1 : 1;
}

static int32_t n_own(const struct hypothesis *h)
{
	return h->n - PROMPT;
}

static struct sample_bias bias; /* of the beam searches */

static void take_bias(float *logits, struct k_logit_stats *stats)
{
	if (!bias.n)
		return;
	for (int i = 0; i < bias.n; i++)
		logits[bias.entry[i].id] += bias.entry[i].bias;
	stats->max = -INFINITY;
	for (int id = 0; id < VOCAB; id++)
		stats->max = fmaxf(stats->max, logits[id]);
	stats->mass = 0;
	for (int id = 0; id < VOCAB; id++)
		stats->mass += k_mass(k_exp(k_logit_depth(logits[id], stats->max)));
}

static void extend(struct engine *e, const struct hypothesis *h, int from, struct next *out)
{
	struct probe *p;
	struct err err = { 0 };

	if (probe_open(&p, e, NULL, h->id, h->n, -1, NULL, NULL, &err))
		fail_msg("%s", err.text);
	take_bias(p->logits, &p->stats);
	for (int id = 0; id < VOCAB; id++)
		out[id] = (struct next){ from, id,
			h->logp + ((double)(p->logits[id] - p->stats.max) -
						  k_log64((double)p->stats.mass * 0x1p-40)) };
	probe_close(p);
}

static bool slow_step(struct engine *e, struct slow *s, int width, double alpha)
{
	static struct next next[8 * VOCAB];
	struct slow old = *s;
	int n = 0;

	for (; n < old.n_live; n++)
		extend(e, &old.live[n], n, next + n * VOCAB);
	qsort(next, (size_t)n * VOCAB, sizeof *next, by_logp);
	s->n_live = 0;
	for (int i = 0; s->n_live < width; i++) {
		struct hypothesis h = old.live[next[i].from];

		h.id[h.n++] = next[i].id;
		h.logp = next[i].logp;
		h.score = h.logp / pow(n_own(&h), alpha);
		if (!tokenizer_is_end(engine_tokenizer(e), next[i].id))
			s->live[s->n_live++] = h;
		else if (i < width)
			s->done[s->n_done++] = h;
	}
	qsort(s->done, (size_t)s->n_done, sizeof *s->done, by_score);
	return s->n_done < width ||
		   s->done[width - 1].score < next[0].logp / pow(n_own(&s->live[0]), alpha);
}

static void slow_beam(
	struct engine *e, const struct engine_request *q, int width, double alpha, struct slow *s)
{
	memset(s, 0, sizeof *s);
	memcpy(s->live[0].id, q->ids, PROMPT * sizeof *q->ids);
	s->live[0].n = PROMPT;
	s->n_live = 1;
	for (int i = 0; i < q->max_tokens; i++)
		if (!slow_step(e, s, width, alpha))
			return;
	for (int i = 0; i < s->n_live; i++) {
		s->live[i].score = s->live[i].logp / pow(n_own(&s->live[i]), alpha);
		s->done[s->n_done++] = s->live[i];
	}
	qsort(s->done, (size_t)s->n_done, sizeof *s->done, by_score);
}

static void compare_beam(
	const char *method, int width, double alpha, int32_t max_tokens, int32_t pages)
{
	static struct told t;
	static struct slow slow;
	int32_t ids[PROMPT];
	struct engine_request q = request_of(ids, max_tokens);
	struct engine *e = open_engine(8, pages, &t);
	struct search_view v;

	q.params.logit_bias = bias;
	v = run(e, begin(e, method, &q), 5000);
	assert_true(v.done);
	assert_told(&t, &v);
	slow_beam(e, &q, width, alpha, &slow);
	assert_true(v.n_answers > 0 && v.n_answers <= slow.n_done);
	for (int i = 0; i < v.n_answers && i < width; i++) {
		assert_int_equal(v.answer[i].n, n_own(&slow.done[i]));
		assert_memory_equal(
			v.answer[i].ids, slow.done[i].id + PROMPT, (size_t)v.answer[i].n * sizeof *ids);
		assert_true(v.answer[i].score == slow.done[i].score);
		n_ended += v.answer[i].reason == EV_FINISH_end;
	}
	assert_true(width == 1 || (v.unshared > v.pages && v.rows_shared > 0));
	assert_int_equal(e->memory.pages[0].n_used, 0);
	n_preempted += t.n_preempt;
	engine_close(e);
}

static void test_beam(void **state)
{
	(void)state;
	compare_beam("beam:4", 4, 1, 24, 64);
	compare_beam("beam:1", 1, 1, 30, 64);
	compare_beam("beam:8", 8, 1, 20, 64);
	for (prompt = 100; prompt < 108; prompt++) {
		/* pages run short: branches are preempted and come again */
		compare_beam("beam:3", 3, 1, 40, 6);
		compare_beam("beam:6,0.5", 6, 0.5, 40, 64);
	}
	assert_true(n_ended > 5);
	assert_true(n_preempted > 5);
}

/* The tokens of the best answer without bias, each once: the next search bans one and brings on
 * another. */
static void test_beam_with_bias(void **state)
{
	static struct told t;
	int32_t ids[PROMPT];
	struct engine_request q = request_of(ids, 20);

	(void)state;
	for (int round = 0; round < 6; round++) {
		struct engine *e = open_engine(8, 64, &t);
		struct search_view v;
		bool banned = false, brought = false;

		q.params.logit_bias = bias;
		v = run(e, begin(e, "beam:4", &q), 5000);
		assert_true(v.done && v.n_answers);
		for (int a = 0; a < v.n_answers; a++)
			for (int32_t i = 0; i < v.answer[a].n; i++) {
				banned |= round && v.answer[a].ids[i] == (int32_t)bias.entry[0].id;
				brought |= round && v.answer[a].ids[i] == (int32_t)bias.entry[1].id;
			}
		assert_false(banned);
		assert_true(!round || brought);
		bias = (struct sample_bias){ .n = 2,
			.entry = { { (uint32_t)v.answer[0].ids[0], -100 },
				{ (uint32_t)(v.answer[0].ids[0] + 7) % (VOCAB - 16) + 8, 9 + (float)round } } };
		engine_close(e);
		compare_beam("beam:4", 4, 1, 20, 64);
		compare_beam("beam:3,0.5", 3, 0.5, 30, 6);
	}
	bias.n = 0;
}

static void test_mcts(void **state)
{
	static struct told t, again;
	int32_t ids[PROMPT];
	struct engine_request q = request_of(ids, 30);
	struct engine *e = open_engine(4, 64, &t);
	struct search_view v = run(e, begin(e, "mcts:20,2,8", &q), 5000);
	int nodes = 0, visits = 0;

	(void)state;
	assert_true(v.done && v.n_answers == 20);
	assert_told(&t, &v);
	for (int i = 0; i < t.n_search; i++) {
		const struct ev_search *s = &t.search[i].u.search;

		nodes += s->action == EV_SEARCH_node;
		if (s->node == 0 && s->visits > visits)
			visits = (int)s->visits;
	}
	assert_true(nodes > 5);
	assert_int_equal(visits, 20); /* every simulation passes the root */
	engine_close(e);
	e = open_engine(4, 64, &again);
	v = run(e, begin(e, "mcts:20,2,8", &q), 5000);
	assert_int_equal(t.n_search, again.n_search);
	for (int i = 0; i < t.n_search; i++)
		assert_true(t.search[i].u.search.node == again.search[i].u.search.node &&
					t.search[i].u.search.tokens == again.search[i].u.search.tokens &&
					(t.search[i].u.search.score == again.search[i].u.search.score ||
						isnan(t.search[i].u.search.score)));
	engine_close(e);
}

/* ---- what must make no difference ---- */

struct found {
	int32_t ids[20][MOST], n[20], n_answers;
	double score[20];
};

/* The answers of a search beside other requests, or with other settings; n_load: requests that come
 * meanwhile. */
static void find(const char *method, int32_t slots, int32_t pages, const char *name,
	const char *value, int n_load, struct found *out)
{
	static struct told t;
	int32_t ids[PROMPT], other[PROMPT];
	struct engine_request q = request_of(ids, 30), load = request_of(other, 25);
	struct engine *e = open_engine(slots, pages, &t);
	struct err err = { 0 };
	struct search_view v;
	int64_t id;

	if (name && engine_set(e, name, value, &err))
		fail_msg("%s", err.text);
	load.kind = EV_REQUEST_KIND_load;
	load.ids = other;
	other[3]++;
	id = begin(e, method, &q);
	for (int i = 0; i < n_load; i++) {
		load.sample = i;
		assert_true(engine_submit(e, &load, &err) > 0);
		engine_step(e, &err);
	}
	v = run(e, id, 5000);
	assert_true(v.done && v.n_answers <= 20);
	out->n_answers = v.n_answers;
	for (int i = 0; i < v.n_answers; i++) {
		out->n[i] = v.answer[i].n;
		out->score[i] = v.answer[i].score;
		memcpy(out->ids[i], v.answer[i].ids, (size_t)v.answer[i].n * sizeof *ids);
	}
	n_preempted += t.n_preempt;
	while (engine_step(e, &err) > 0)
		;
	assert_int_equal(e->memory.pages[0].n_used, 0);
	engine_close(e);
}

/* The same set of answers: of equal scores either may be first. */
static void assert_same(const struct found *a, const struct found *b)
{
	assert_int_equal(a->n_answers, b->n_answers);
	for (int i = 0; i < a->n_answers; i++) {
		bool there = false;

		assert_true(a->score[i] == b->score[i]);
		for (int k = 0; k < b->n_answers; k++)
			there |= a->n[i] == b->n[k] &&
					 !memcmp(a->ids[i], b->ids[k], (size_t)a->n[i] * sizeof **a->ids);
		assert_true(there);
	}
}

static void test_nothing_else_matters(void **state)
{
	static const char *const methods[] = { "best:6", "beam:3", "beam:4,0.5", "mcts:18,2",
		"mcts:20,3,6" };
	static const struct {
		const char *name, *value;
		int32_t pages;
		int n_load;
	} other[] = { { NULL, NULL, 64, 5 }, { "prefix-cache", "off", 64, 0 },
		{ "prefix-cache", "off", 64, 3 }, { "spec", "ngram:3", 64, 2 },
		{ "spec", "lookahead:2,2,2", 64, 0 }, { NULL, NULL, 9, 0 }, { NULL, NULL, 9, 3 },
		{ "prefill-chunk", "16", 64, 1 }, { "page-size", "32", 64, 0 } };
	static struct found alone, now;

	(void)state;
	n_preempted = 0;
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
		find(methods[i], 4, 64, NULL, NULL, 0, &alone);
		assert_true(alone.n_answers >= 3);
		for (size_t k = 0; k < sizeof other / sizeof *other; k++) {
			find(methods[i], 4, other[k].pages, other[k].name, other[k].value, other[k].n_load,
				&now);
			assert_same(&alone, &now);
		}
	}
	assert_true(n_preempted > 5);                 /* where pages were few */
	find("best:6", 4, 64, NULL, NULL, 0, &alone); /* more than there are slots: they wait for one */
	find("best:6", 2, 64, NULL, NULL, 0, &now);
	assert_same(&alone, &now);
	find("best:6", 1, 64, NULL, NULL, 0, &now);
	assert_same(&alone, &now);
}

/* Members whose tokens are chosen draft nothing: no pages are taken for that, and none preempts. */
static void test_chosen_drafts_nothing(void **state)
{
	static struct found alone, now;
	int preempted;

	(void)state;
	for (int32_t pages = 6; pages <= 8; pages++) {
		n_preempted = 0;
		find("beam:4", 8, pages, NULL, NULL, 0, &alone);
		preempted = n_preempted;
		find("beam:4", 8, pages, "spec", "skip:1,4", 0, &now);
		assert_same(&alone, &now);
		assert_int_equal(n_preempted, 2 * preempted);
	}
}

/* An answer may end at its first token, and where a stop string is complete. */
static void test_ends(void **state)
{
	static const char *const methods[] = { "best:4", "beam:3", "mcts:9,2" };
	static struct told t;
	int32_t ids[PROMPT];
	char text[64];

	(void)state;
	for (int i = 0; i < 3; i++)
		for (int limit = 1; limit <= 12; limit += 11) {
			struct engine_request q = request_of(ids, limit);
			struct engine *e = open_engine(4, 64, &t);
			struct search_view v = run(e, begin(e, methods[i], &q), 3000);
			const char *stop[] = { text, NULL };
			struct gguf_text b = tokenizer_bytes(engine_tokenizer(e), v.answer[0].ids[0]);
			int n_stopped = 0;

			assert_true(v.done && v.n_answers >= 3 && v.answer[0].n <= limit);
			assert_true(b.size > 0 && b.size < sizeof text);
			memcpy(text, b.data, b.size); /* the best answer's first token is a stop string now */
			text[b.size] = '\0';
			q.stop = stop;
			v = run(e, begin(e, methods[i], &q), 3000);
			assert_true(v.done && v.n_answers >= 1);
			for (int k = 0; k < v.n_answers; k++) {
				n_stopped += v.answer[k].reason == EV_FINISH_stop;
				assert_true(v.answer[k].n >= 1);
			}
			assert_true(n_stopped > 0);
			assert_int_equal(e->memory.pages[0].n_used, 0);
			engine_close(e);
		}
}

static void test_cancel(void **state)
{
	static const char *const methods[] = { "best:7", "beam:4", "mcts:30" };
	static struct told t;
	int32_t ids[PROMPT];
	struct engine_request q = request_of(ids, 60);
	struct engine *e = open_engine(4, 64, &t);

	(void)state;
	for (int i = 0; i < 3; i++)
		for (int steps = 0; steps < 30; steps += 7) {
			int64_t id = begin(e, methods[i], &q);
			struct search_view v = run(e, id, steps);

			assert_false(v.done);
			assert_true(engine_search_cancel(e, id));
			assert_false(engine_search_cancel(e, id));
			assert_true(engine_idle(e));
			assert_int_equal(e->memory.pages[0].n_used, 0);
			engine_check(e);
			engine_search_close(e, id);
			assert_false(engine_search_look(e, id, &v));
		}
	begin(e, "beam:4", &q); /* closed while it runs */
	assert_int_equal(engine_step(e, NULL), 1);
	engine_close(e);
}

/* Room to count the members' pages grows with the pool. */
static void test_more_pages(void **state)
{
	static struct told t;
	int32_t ids[PROMPT];
	struct engine_request q = request_of(ids, 8);
	struct engine *e = open_engine(2, 16, &t);
	struct err err = { 0 };

	(void)state;
	assert_int_equal(engine_set(e, "pages", "4096", &err), 0);
	assert_true(run(e, begin(e, "best:2", &q), 500).done);
	engine_close(e);
}

/* What its grammar ends is an answer, too. */
static void test_whole(void **state)
{
	static const char *const methods[] = { "best:3", "mcts:6,2" };
	static struct told t;
	int32_t ids[PROMPT];
	struct engine_request q = request_of(ids, 20);
	struct engine *e = open_engine(4, 64, &t);

	(void)state;
	q.grammar = "regex:[a-z]{2}";
	for (int i = 0; i < 2; i++) {
		struct search_view v = run(e, begin(e, methods[i], &q), 500);

		assert_true(v.n_answers > 0 && v.answer[0].reason == EV_FINISH_whole);
	}
	engine_close(e);
}

/* A judge that takes its time: it is asked `late` times before it knows. */
struct slow_judge {
	int calls, begun, stopped, most, late, asked;
	const char *text; /* of the answer that it is at; NULL: none */
	bool even;        /* all are as good */
};

static enum score_verdict by_length(
	void *arg, const char *text, size_t size, int wait_ms, double *score, struct err *e)
{
	struct slow_judge *j = arg;

	j->calls++;
	if (!text) {
		j->stopped++;
		j->text = NULL;
		return SCORE_FAILED;
	}
	assert_true(wait_ms >= 0 && (!j->text || j->text == text)); /* one after the other */
	if (!j->text) {
		j->text = text;
		j->asked = 0;
		if (++j->begun > j->most)
			return err_set(e, ERR_INPUT, "enough"), SCORE_FAILED;
	}
	if (j->asked++ < j->late)
		return SCORE_LATER;
	j->text = NULL;
	*score = j->even ? 1 : -(double)size;
	return SCORE_KNOWN;
}

static struct search_view judged(struct engine *e, const char *method, struct slow_judge *j,
	const struct engine_request *q, int64_t *id)
{
	struct search_options o = {
		.method = method, .score = by_length, .arg = j, .scorer = "by length"
	};
	struct search_view v;

	*id = engine_search(e, &o, q, NULL);
	assert_true(*id > 0);
	while (engine_search_look(e, *id, &v) && !v.done)
		assert_int_equal(engine_step(e, NULL), 1);
	return v;
}

static void test_command(void **state)
{
	static struct told t;
	int32_t ids[PROMPT];
	struct engine_request q = request_of(ids, 20);
	struct engine *e = open_engine(4, 64, &t);
	struct slow_judge j = { .most = 5 };
	int64_t id;
	struct search_view v = judged(e, "best:5", &j, &q, &id);

	(void)state;
	assert_int_equal(j.begun, 5);
	assert_int_equal(t.search[0].u.search.judge.size, strlen("by length"));
	for (int i = 1; i < v.n_answers; i++)
		assert_true(v.answer[i - 1].score >= v.answer[i].score);
	j = (struct slow_judge){ .most = 1 }; /* the second answer is one too many */
	v = judged(e, "best:5", &j, &q, &id);
	assert_string_equal(v.err.text, "enough");
	assert_int_equal(v.n_answers, 1);
	assert_true(engine_idle(e));
	assert_int_equal(e->memory.pages[0].n_used, 0);
	engine_close(e);
}

/* However long it takes, the answers, their scores and their order are the same; the engine is not
 * idle until then. */
static void test_slow_command(void **state)
{
	static const char *const methods[] = { "best:5", "beam:3", "mcts:9,2" };
	static struct told t;
	int32_t ids[PROMPT];
	struct engine_request q = request_of(ids, 20);

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct engine *e = open_engine(4, 64, &t);
		struct slow_judge fast = { .most = 100 }, slow = { .most = 100, .late = 7 };
		int64_t a, b;
		struct search_view x = judged(e, methods[i], &fast, &q, &a),
						   y = judged(e, methods[i], &slow, &q, &b);

		assert_int_equal(slow.begun, fast.begun);
		assert_int_equal(slow.calls, 8 * fast.calls);
		assert_int_equal(x.n_answers, y.n_answers);
		for (int k = 0; k < x.n_answers; k++) {
			assert_int_equal(x.answer[k].n, y.answer[k].n);
			assert_memory_equal(
				x.answer[k].ids, y.answer[k].ids, (size_t)x.answer[k].n * sizeof *ids);
			assert_true(x.answer[k].score == y.answer[k].score);
		}
		assert_true(engine_idle(e));
		engine_close(e);
	}
}

/* Of answers that are as good the first sample's comes first, whichever ended first. */
static void test_even_scores(void **state)
{
	static struct told t;
	int32_t ids[PROMPT];
	struct engine_request q = request_of(ids, 40);
	struct engine *e = open_engine(4, 64, &t);
	struct slow_judge j = { .most = 12, .even = true };
	struct search_view v;
	int64_t id;
	bool same = true;

	(void)state;
	q.params.temperature = 3; /* some end early */
	v = judged(e, "best:12", &j, &q, &id);
	assert_int_equal(v.n_answers, 12);
	for (int i = 1; i < v.n_answers; i++) {
		assert_true(v.answer[i - 1].request < v.answer[i].request);
		same &= v.answer[i].n == v.answer[0].n;
	}
	assert_false(same);
	engine_close(e);
}

/* A judge that never ends: others go on meanwhile; the search is cancelled when nothing runs any
 * more, and it is told so. */
static void test_hanging_command(void **state)
{
	static const char *const methods[] = { "best:5", "beam:3", "mcts:9,2" };
	static struct told t;
	int32_t ids[PROMPT];
	struct engine_request q = request_of(ids, 20);
	struct engine *e = open_engine(4, 64, &t);

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct slow_judge never = { .most = 100, .late = 1 << 30 };
		struct search_options o = { .method = methods[i], .score = by_length, .arg = &never };
		int64_t id = engine_search(e, &o, &q, NULL), other = 0;
		struct search_view v;

		for (int k = 0; k < 200; k++) {
			assert_int_equal(engine_step(e, NULL), 1);
			if (k == 100)
				other = engine_submit(e, &q, NULL);
		}
		assert_true(other > 0 && !engine_cancel(e, other)); /* it is done */
		assert_true(engine_search_look(e, id, &v) && !v.done && v.n_waiting > 0);
		assert_int_equal(v.n_answers, 0);
		assert_false(engine_idle(e));
		assert_true(engine_search_cancel(e, id));
		assert_int_equal(never.stopped, 1);
		assert_true(engine_search_look(e, id, &v) && v.done && !v.n_waiting && !v.taken);
		assert_true(engine_idle(e));
		assert_int_equal(e->memory.pages[0].n_used, 0);
		engine_check(e);
		engine_search_close(e, id);
		assert_int_equal(never.stopped, 1);
	}
	engine_close(e);
}

static void test_arguments(void **state)
{
	static const char *const bad[] = { "best:0", "best:65", "best:x", "best:", "beam:0", "beam:33",
		"beam:4,", "beam:4,x", "beam:4,-1", "beam:", "mcts:0", "mcts:", "mcts:3,0", "mcts:1,2,3,4",
		"tree:3", "", "beam:8" /* more than the slots */ };
	static struct told t;
	int32_t ids[PROMPT];
	struct engine_request q = request_of(ids, 20);
	struct engine *e = open_engine(4, 64, &t);

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct search_options o = { .method = bad[i] };
		struct err err = { 0 };

		assert_int_equal(engine_search(e, &o, &q, &err), -1);
		assert_int_equal(err.code, ERR_USAGE);
		assert_true(engine_idle(e));
	}
	engine_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_best),
		cmocka_unit_test(test_ends_without_a_step),
		cmocka_unit_test(test_ends_beside_a_pin),
		cmocka_unit_test(test_refused_branch),
		cmocka_unit_test(test_beam),
		cmocka_unit_test(test_beam_with_bias),
		cmocka_unit_test(test_mcts),
		cmocka_unit_test(test_nothing_else_matters),
		cmocka_unit_test(test_chosen_drafts_nothing),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_more_pages),
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_command),
		cmocka_unit_test(test_slow_command),
		cmocka_unit_test(test_even_scores),
		cmocka_unit_test(test_hanging_command),
		cmocka_unit_test(test_arguments),
	};

	return cmocka_run_group_tests(tests, tiny_model_make, tiny_model_drop);
}

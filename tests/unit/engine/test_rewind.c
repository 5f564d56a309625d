/* Going back: a request that went back gives the same tokens and hashes again, or those of the
 * token that was put there; a fork from any position goes on as its parent did; a recorded sequence
 * computed again draws what it drew. Pages behind are let go of, and every invariant holds after
 * every step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine.h"
#include "engine/core/step_hooks.h"
#include "tests/support/invariants.h"
#include "tests/support/tiny.h"

/* A table of this program's own: what is watched or guessed beside a run has no part in it. */
const struct step_hooks *const step_hooks_table[] = { NULL };

enum { MAX_REQUESTS = 64, MAX_POS = 256, N_PROMPT = 21 };

/* The tokens of a request by position, as the events tell them. */
struct record {
	int32_t id[MAX_POS];
	int64_t hash[MAX_POS];
	int end; /* positions told, prompt and all */
	int finish, n_forced;
};
struct world {
	struct engine *e;
	struct record r[MAX_REQUESTS + 1];
	struct ev_rewind rewind; /* the last */
	struct ev_fork fork;
	int n_rewinds, n_forks, n_copies, n_prefill_rows;
};

static char model_path[64];

static void on_token(struct record *r, const struct ev_token *t)
{
	assert_true(t->pos >= N_PROMPT && t->pos < MAX_POS);
	assert_true(!r->end || t->pos == r->end);
	r->id[t->pos] = (int32_t)t->id;
	r->hash[t->pos] = t->hash;
	r->end = (int)t->pos + 1;
	if (t->source == EV_SOURCE_forced) {
		assert_true(t->hash == EV_NULL_I);
		r->n_forced++;
	}
}

static void on_event(void *arg, const struct event *ev)
{
	struct world *w = arg;

	if (ev->kind == EV_token)
		on_token(&w->r[ev->u.token.request], &ev->u.token);
	else if (ev->kind == EV_finish)
		w->r[ev->u.finish.request].finish = (int)ev->u.finish.reason;
	else if (ev->kind == EV_page)
		w->n_copies += ev->u.page.action == EV_PAGE_copy;
	else if (ev->kind == EV_step)
		w->n_prefill_rows += (int)ev->u.step.prefill_rows;
	else if (ev->kind == EV_fork) {
		w->fork = ev->u.fork;
		w->n_forks++;
	} else if (ev->kind == EV_rewind) {
		w->rewind = ev->u.rewind;
		w->n_rewinds++;
		w->r[ev->u.rewind.request].end = (int)ev->u.rewind.kept;
	}
}

static void world_open(struct world *w, bool cache, const char *spec, int32_t pages)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct err err = { 0 };

	o.model = model_path;
	o.threads = 1;
	o.ctx = MAX_POS;
	o.pages = pages;
	o.prefix_cache = cache;
	o.spec = spec;
	memset(w, 0, sizeof *w);
	for (int i = 0; i <= MAX_REQUESTS; i++)
		w->r[i].finish = -1;
	if (engine_open(&w->e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(w->e, on_event, w);
	engine_begin(w->e, NULL);
}

static void step(struct world *w, int n)
{
	struct err err = { 0 };

	for (int i = 0; i < n; i++) {
		assert_true(engine_step(w->e, &err) >= 0);
		engine_check(w->e);
	}
}

static void run_all(struct world *w)
{
	for (int i = 0; !engine_idle(w->e); i++) {
		assert_true(i < 5000);
		step(w, 1);
	}
}

static struct engine_request request(const int32_t *ids, int32_t n, float temperature)
{
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = n,
		.max_tokens = 80,
		.params = SAMPLE_DEFAULTS,
		.text = "test",
		.ignore_end = true };

	q.params.temperature = temperature;
	q.params.seed = 7;
	q.params.repeat_penalty = 1.1f;
	return q;
}

static int64_t submit(struct world *w, const struct engine_request *q)
{
	struct err err = { 0 };
	int64_t id = engine_submit(w->e, q, &err);

	if (id < 0)
		fail_msg("%s", err.text);
	return id;
}

static void prompt(int32_t *ids)
{
	for (int i = 0; i < N_PROMPT; i++)
		ids[i] = 3 + (i * 37) % 60;
}

/* The whole answer without any going back. */
static void plain(struct record *out, float temperature)
{
	static struct world w;
	int32_t ids[N_PROMPT];
	struct engine_request q;

	prompt(ids);
	world_open(&w, true, "off", 64);
	q = request(ids, N_PROMPT, temperature);
	submit(&w, &q);
	run_all(&w);
	*out = w.r[1];
	engine_close(w.e);
	memcpy(out->id, ids, sizeof ids);
}

static void check_same(const struct record *a, const struct record *b, int from, int to)
{
	for (int p = from; p < to; p++) {
		assert_int_equal(a->id[p], b->id[p]);
		assert_true(a->hash[p] == b->hash[p]);
	}
}

static void test_same_again(void **state)
{
	static struct world w;
	static const char *const specs[] = { "off", "ngram:4" };
	static const int keeps[] = { N_PROMPT, 22, 31, 32, 33, 40, 47, 48, 60 };
	struct record want;
	int32_t ids[N_PROMPT];
	struct engine_request q;
	struct err err = { 0 };

	(void)state;
	prompt(ids);
	for (int s = 0; s < 4; s++) {
		plain(&want, s & 1 ? 0.9f : 0);
		world_open(&w, s < 2, specs[s & 1], 64);
		q = request(ids, N_PROMPT, s & 1 ? 0.9f : 0);
		submit(&w, &q);
		for (size_t i = 0; i < sizeof keeps / sizeof *keeps; i++) {
			while (w.r[1].end < 61)
				step(&w, 1);
			assert_int_equal(engine_rewind(w.e, 1, keeps[i], -1, &err), 0);
			engine_check(w.e);
			assert_int_equal(w.rewind.recompute, 1);
		}
		run_all(&w);
		assert_int_equal(w.n_rewinds, (int)(sizeof keeps / sizeof *keeps));
		assert_int_equal(w.r[1].end, want.end);
		check_same(&w.r[1], &want, N_PROMPT, want.end);
		assert_int_equal(w.n_prefill_rows, N_PROMPT + 1); /* one to the prompt's last token again */
		engine_close(w.e);
	}
}

static void test_pages_let_go(void **state)
{
	static struct world w;
	int32_t ids[N_PROMPT];
	struct engine_request q;
	struct err err = { 0 };

	(void)state;
	prompt(ids);
	world_open(&w, false, "off", 64);
	q = request(ids, N_PROMPT, 0);
	submit(&w, &q);
	while (w.r[1].end < 90)
		step(&w, 1);
	assert_int_equal(engine_rewind(w.e, 1, 33, -1, &err), 0);
	/* 89 positions in 6 pages; 32 stay, in 2 */
	assert_int_equal(w.rewind.pages, 4);
	assert_int_equal(w.rewind.had, 90);
	assert_int_equal(engine_rewind(w.e, 1, 33, 5, &err), 0);
	assert_int_equal(w.rewind.recompute, 2);
	run_all(&w);
	assert_int_equal(w.n_copies, 0);
	engine_close(w.e);
}

/* A token put there: what follows is what a prompt with it gives. */
static void test_forced(void **state)
{
	static struct world w, v;
	int32_t ids[MAX_POS];
	struct engine_request q;
	struct err err = { 0 };

	(void)state;
	prompt(ids);
	world_open(&w, true, "off", 64);
	q = request(ids, N_PROMPT, 0.8f);
	submit(&w, &q);
	while (w.r[1].end < 50)
		step(&w, 1);
	assert_int_equal(engine_rewind(w.e, 1, 35, 9, &err), 0);
	assert_int_equal(w.rewind.forced, 9);
	assert_int_equal(w.rewind.recompute, 1); /* 35 positions are in the cache still */
	run_all(&w);
	assert_int_equal(w.r[1].n_forced, 1);
	assert_int_equal(w.r[1].id[35], 9);
	assert_int_equal(w.r[1].end, N_PROMPT + 80);

	memcpy(ids + N_PROMPT, w.r[1].id + N_PROMPT, (36 - N_PROMPT) * sizeof *ids);
	world_open(&v, false, "off", 64);
	q = request(ids, 36, 0.8f);
	q.max_tokens = N_PROMPT + 80 - 36;
	submit(&v, &q);
	run_all(&v);
	check_same(&w.r[1], &v.r[1], 36, N_PROMPT + 80);
	engine_close(v.e);
	engine_close(w.e);
}

static void test_forced_ends(void **state)
{
	static struct world w;
	int32_t ids[N_PROMPT], end = -1;
	struct engine_request q;
	struct err err = { 0 };

	(void)state;
	prompt(ids);
	world_open(&w, true, "off", 64);
	for (int32_t i = 0; end < 0 && i < engine_info(w.e)->vocab; i++)
		if (tokenizer_is_end(engine_tokenizer(w.e), i))
			end = i;
	assert_true(end >= 0);
	q = request(ids, N_PROMPT, 0);
	submit(&w, &q);
	q.ignore_end = false;
	submit(&w, &q);
	step(&w, 5);
	if (w.r[2].finish < 0) {
		assert_int_equal(engine_rewind(w.e, 2, N_PROMPT, end, &err), 0);
		assert_int_equal(w.r[2].finish, EV_FINISH_end);
	}
	assert_int_equal(engine_rewind(w.e, 1, N_PROMPT, end, &err), 0);
	assert_int_equal(w.r[1].finish, -1);
	run_all(&w);
	assert_int_equal(w.r[1].finish, EV_FINISH_length);
	assert_int_equal(engine_rewind(w.e, 1, N_PROMPT, -1, &err), -1);
	assert_non_null(strstr(err.text, "fork"));
	engine_close(w.e);
}

static void test_refused(void **state)
{
	static struct world w;
	int32_t ids[N_PROMPT];
	struct engine_request q;

	(void)state;
	prompt(ids);
	world_open(&w, true, "off", 64);
	q = request(ids, N_PROMPT, 0);
	submit(&w, &q);
	step(&w, 10);
	for (int i = 0; i < 4; i++) {
		static const int32_t bad[][2] = { { N_PROMPT - 1, -1 }, { 200, -1 }, { 25, -2 },
			{ 25, 1 << 30 } };
		struct err err = { 0 };

		assert_int_equal(engine_rewind(w.e, 1, bad[i][0], bad[i][1], &err), -1);
		assert_int_equal(err.code, ERR_USAGE);
	}
	for (int i = 0; i < 3; i++) { /* what draws no next token has none of its own to go back to */
		static const enum ev_code_request_kind kind[] = { EV_REQUEST_KIND_score,
			EV_REQUEST_KIND_embed, EV_REQUEST_KIND_pin };
		struct err err = { 0 };

		q.kind = kind[i];
		q.pin = kind[i] == EV_REQUEST_KIND_pin ? N_PROMPT : 0;
		submit(&w, &q);
		assert_int_equal(engine_rewind(w.e, 2 + i, N_PROMPT, 7, &err), -1);
		assert_int_equal(err.code, ERR_USAGE);
	}
	assert_int_equal(w.n_rewinds, 0);
	run_all(&w);
	engine_close(w.e);
}

/* From any position a fork goes on as its parent did, beside it; with a token put there it does
 * not. */
static void test_forks(void **state)
{
	static struct world w;
	struct record want;
	struct engine_request q;

	(void)state;
	plain(&want, 0.9f);
	world_open(&w, true, "off", 64);
	q = request(want.id, N_PROMPT, 0.9f);
	submit(&w, &q);
	while (w.r[1].end < 70)
		step(&w, 1);
	for (int at = 22; at < 70; at += 11) {
		int64_t id;

		q = request(want.id, at, 0.9f);
		q.kind = EV_REQUEST_KIND_fork;
		q.max_tokens = N_PROMPT + 80 - at;
		q.parent = 1;
		q.fork_pos = at;
		id = submit(&w, &q);
		assert_int_equal(w.fork.request, id);
		assert_int_equal(w.fork.pos, at);
		assert_true(w.fork.forced == EV_NULL_I);
	}
	run_all(&w);
	assert_int_equal(w.n_forks, 5);
	for (int i = 0; i < 5; i++)
		check_same(&w.r[2 + i], &want, 22 + 11 * i, want.end);
	engine_close(w.e);
}

static void verify(struct world *w, const struct record *r, float temperature)
{
	struct engine_request q = request(r->id, r->end, temperature);

	q.kind = EV_REQUEST_KIND_verify;
	q.n_prompt = N_PROMPT;
	submit(w, &q);
}

static void test_verify(void **state)
{
	static struct world w;
	struct record want[2];
	struct engine_request q;

	(void)state;
	plain(&want[0], 0);
	plain(&want[1], 0.9f);
	for (int pages = 12; pages <= 64; pages += 52) { /* also with so few that some are preempted */
		world_open(&w, true, "ngram:4", pages);
		for (int i = 0; i < 6; i++)
			verify(&w, &want[i & 1], i & 1 ? 0.9f : 0);
		run_all(&w);
		for (int i = 0; i < 6; i++) {
			assert_int_equal(w.r[1 + i].finish, EV_FINISH_end);
			assert_int_equal(w.r[1 + i].end, want[i & 1].end);
			check_same(&w.r[1 + i], &want[i & 1], N_PROMPT, want[i & 1].end);
		}
		engine_close(w.e);
	}
	/* of a token that was not drawn, verify says what would have been */
	want[0].id[30] = (want[0].id[30] + 1) % 60;
	world_open(&w, true, "off", 64);
	verify(&w, &want[0], 0);
	run_all(&w);
	assert_int_not_equal(w.r[1].id[30], want[0].id[30]);
	check_same(&w.r[1], &want[0], N_PROMPT, 30);
	assert_true(w.r[1].hash[31] != want[0].hash[31]);
	q = request(want[0].id, 30, 0);
	q.kind = EV_REQUEST_KIND_verify;
	q.n_prompt = 30;
	assert_int_equal(engine_submit(w.e, &q, NULL), -1);
	engine_close(w.e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_again),
		cmocka_unit_test(test_pages_let_go),
		cmocka_unit_test(test_forced),
		cmocka_unit_test(test_forced_ends),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_forks),
		cmocka_unit_test(test_verify),
	};
	struct tiny_options tiny = TINY_DEFAULTS;
	struct err err = { 0 };
	char *path = tiny_temp(&tiny, &err);
	int failed;

	if (!path)
		return 1;
	snprintf(model_path, sizeof model_path, "%s", path);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	free(path);
	return failed;
}

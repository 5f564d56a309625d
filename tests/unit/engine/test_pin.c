/* Declared prefixes in an engine: what may be pinned, what a pin keeps under pressure, and how it
 * ends; that it changes no bit, and that forks and rewinds of its readers leave it whole. What pins
 * keep in every kind of memory is tests/unit/engine/test_memory.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/duration.h"
#include "engine/core/actor.h"
#include "engine/core/engine_impl.h"
#include "tests/support/invariants.h"
#include "tests/support/tiny.h"

enum { PAGES = 24, SIZE = 16, DOCUMENT = 100, QUESTION = 10, MOST = 64 };

struct world {
	struct engine *e;
	struct ev_lookup lookup[MOST];
	struct ev_finish finish[MOST];
	char why[160], finish_why[160];
	int64_t hash[MOST]; /* of the newest token */
	int n_actions[EV_N_pin_action], n_pin_pages, n_rows, n_expired;
	struct ev_pin last;
};

static void copy_span(char out[160], struct ev_span s)
{
	snprintf(out, 160, "%.*s", (int)s.size, s.data ? (const char *)s.data : "");
}

static void on_event(void *arg, const struct event *ev)
{
	struct world *w = arg;

	switch (ev->kind) {
	case EV_lookup: w->lookup[ev->u.lookup.request] = ev->u.lookup; break;
	case EV_token: w->hash[ev->u.token.request] = ev->u.token.hash; break;
	case EV_page:
		w->n_pin_pages += ev->u.page.action == EV_PAGE_pin;
		w->n_pin_pages -= ev->u.page.action == EV_PAGE_unpin;
		break;
	case EV_pin:
		w->last = ev->u.pin;
		w->n_actions[ev->u.pin.action]++;
		copy_span(w->why, ev->u.pin.why);
		break;
	case EV_finish:
		w->finish[ev->u.finish.request] = ev->u.finish;
		copy_span(w->finish_why, ev->u.finish.why);
		break;
	case EV_step: w->n_rows += (int)ev->u.step.prefill_rows; break;
	default: break;
	}
}

static void world_open(struct world *w, struct engine_options o)
{
	struct err e = { 0 };

	memset(w, 0, sizeof *w);
	o.model = tiny_model;
	o.page_size = SIZE;
	o.pages = PAGES;
	o.threads = 1;
	if (engine_open(&w->e, &o, &e))
		fail_msg("%s", e.text);
	engine_add_sink(w->e, on_event, w);
	engine_begin(w->e, NULL);
}

static void run_out(struct world *w)
{
	while (engine_step(w->e, NULL) > 0)
		engine_check(w->e);
	engine_check(w->e);
}

/* A text of its own for each `nth`. */
static void put_text(int32_t *ids, int n, int nth)
{
	for (int i = 0; i < n; i++)
		ids[i] = 3 + (nth * 31 + i * 7 + i / 5) % 250;
}

static int64_t ask(struct world *w, struct engine_request q, int document, int question)
{
	int32_t ids[DOCUMENT + QUESTION];
	struct err e = { 0 };
	int64_t r;

	put_text(ids, DOCUMENT, document);
	put_text(ids + DOCUMENT, QUESTION, 100 + question);
	q.ids = ids;
	q.n_ids = q.kind == EV_REQUEST_KIND_pin ? q.pin : DOCUMENT + QUESTION;
	q.max_tokens = 4;
	q.params = SAMPLE_DEFAULTS;
	q.params.temperature = 0;
	q.text = "";
	q.ignore_end = true;
	r = engine_submit(w->e, &q, &e);
	if (r < 0)
		fail_msg("%s", e.text);
	run_out(w);
	return r;
}

static int64_t plain(struct world *w, int document, int question)
{
	return ask(w, (struct engine_request){ .kind = EV_REQUEST_KIND_run }, document, question);
}

static int64_t pin(struct world *w, int document, int64_t ttl_ns)
{
	const struct engine_request q = {
		.kind = EV_REQUEST_KIND_pin, .pin = DOCUMENT, .pin_ttl_ns = ttl_ns
	};

	return ask(w, q, document, 0);
}

/* Other prompts until everything that may be evicted was. */
static void press(struct world *w, int first)
{
	for (int i = 0; i < 6; i++)
		plain(w, first + i, i);
}

/* What a drafter learns after a step is of requests that go on: one that only pins is freed in its
 * last. */
static void test_nothing_learnt_of_the_end(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct world w;

	(void)state;
	o.spec = "lookahead";
	o.prefill_chunk = 40;
	world_open(&w, o);
	pin(&w, 1, 0);
	assert_int_equal(w.n_rows, DOCUMENT);
	assert_int_equal(w.e->draft.n_seen, 0);
	engine_close(w.e);
}

static void test_it_stays(void **state)
{
	struct world w;
	struct engine_pin p;
	int64_t id, r;

	(void)state;
	world_open(&w, ENGINE_DEFAULTS);
	r = plain(&w, 1, 1);
	press(&w, 10);
	id = plain(&w, 1, 1);
	assert_int_equal(w.lookup[id].hit, 0); /* without a pin it is gone */
	assert_int_equal(w.hash[id], w.hash[r]);
	press(&w, 10);
	id = pin(&w, 1, 0);
	assert_int_equal(w.finish[id].reason, EV_FINISH_end);
	assert_int_equal(w.finish[id].generated, 0);
	assert_int_equal(w.n_actions[EV_PIN_kept], 1);
	assert_int_equal(w.n_pin_pages, DOCUMENT / SIZE);
	press(&w, 20);
	for (int i = 0; i < 3; i++) {
		w.n_rows = 0;
		r = plain(&w, 1, 1);
		assert_int_equal(w.lookup[r].hit, i ? (DOCUMENT + QUESTION) / SIZE * SIZE : 96);
		assert_int_equal(w.lookup[r].pinned, 96);
		assert_int_equal(w.lookup[r].pin, id);
		assert_int_equal(w.n_rows, DOCUMENT + QUESTION - w.lookup[r].hit);
		assert_int_equal(w.hash[r], w.hash[1]);
	}
	assert_int_equal(engine_pins(w.e, &p, 1), 1);
	assert_true(p.whole && p.tokens == 96 && p.asked == DOCUMENT && p.pages == 6);
	assert_int_equal(p.prompts, 3);
	assert_int_equal(p.given, 3 * 96);
	assert_true(p.left_ns == INT64_MAX);
	assert_true(engine_unpin(w.e, id));
	assert_false(engine_unpin(w.e, id));
	assert_int_equal(w.n_pin_pages, 0);
	press(&w, 30);
	r = plain(&w, 1, 1);
	assert_int_equal(w.lookup[r].hit, 0);
	engine_close(w.e);
}

/* Declared with a prompt; asked for again it is the same pin. */
static void test_declared_and_renewed(void **state)
{
	const struct engine_request q = {
		.kind = EV_REQUEST_KIND_run, .pin = DOCUMENT, .pin_ttl_ns = 60000000000
	};
	struct engine_pin p;
	struct world w;
	int64_t r;

	(void)state;
	world_open(&w, ENGINE_DEFAULTS);
	r = ask(&w, q, 1, 1);
	assert_int_equal(w.finish[r].generated, 4);
	press(&w, 10);
	ask(&w, q, 1, 2);
	assert_int_equal(w.n_actions[EV_PIN_asked], 1);
	assert_int_equal(w.n_actions[EV_PIN_renewed], 1);
	assert_int_equal(w.last.pin, r);
	assert_int_equal(engine_pins(w.e, &p, 1), 1);
	assert_true(p.left_ns > 0 && p.left_ns <= 60000000000);
	engine_close(w.e);
}

static void test_limits(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct world w;
	int64_t r;

	(void)state;
	o.pin_limit = 0.4f; /* 9 of 24 pages; a document takes 6 */
	world_open(&w, o);
	pin(&w, 1, 0);
	r = pin(&w, 2, 0);
	assert_int_equal(w.finish[r].reason, EV_FINISH_refused);
	assert_string_equal(w.finish_why,
		"12 of 24 pages would be pinned, and at most 9 may be; see --pin-limit, --pages");
	assert_string_equal(w.why, w.finish_why);
	assert_int_equal(w.n_actions[EV_PIN_refused], 1);
	assert_int_equal(engine_set(w.e, "pin-limit", "0.6", NULL), 0);
	r = pin(&w, 2, 0);
	assert_int_equal(w.finish[r].reason, EV_FINISH_end);
	assert_int_equal(w.n_pin_pages, 12);
	r = ask(&w, (struct engine_request){ .kind = EV_REQUEST_KIND_pin, .pin = 5 }, 3, 0);
	assert_string_equal(w.finish_why, "5 tokens do not fill a page of 16");
	assert_int_equal(engine_set(w.e, "prefix-cache", "off", NULL), 0);
	assert_int_equal(w.n_actions[EV_PIN_cleared], 2);
	assert_int_equal(w.n_pin_pages, 0);
	r = pin(&w, 1, 0);
	assert_int_equal(w.finish[r].reason, EV_FINISH_refused);
	engine_close(w.e);
}

static bool count_submitted(
	struct engine *e, void *n, struct request *r, const struct engine_request *q)
{
	(void)e, (void)q;
	*(int *)n += r->n_prompt > 0;
	return false;
}

/* A pin that is refused has ended, and is no more: neither a hook nor the caller gets it. */
static void test_nobody_gets_a_refused_pin(void **state)
{
	static const struct step_hooks counts = { .name = "counts", .submitted = count_submitted };
	struct engine_options o = ENGINE_DEFAULTS;
	int32_t ids[DOCUMENT];
	struct engine_request q = {
		.kind = EV_REQUEST_KIND_pin, .ids = ids, .n_ids = 5, .pin = 5, .text = ""
	};
	struct request *r = NULL;
	struct world w;
	int n = 0;

	(void)state;
	world_open(&w, o);
	w.e->hook[w.e->n_hooks].ops = &counts;
	w.e->hook[w.e->n_hooks++].state = &n;
	q.params = SAMPLE_DEFAULTS;
	put_text(ids, DOCUMENT, 1);
	assert_int_equal(engine_submit_owned(w.e, &q, NULL, NULL, &r, NULL), 1);
	assert_int_equal(w.finish[1].reason, EV_FINISH_refused);
	assert_null(r);
	assert_int_equal(n, 0);
	q.n_ids = q.pin = DOCUMENT;
	engine_submit_owned(w.e, &q, NULL, NULL, &r, NULL);
	assert_non_null(r);
	assert_int_equal(n, 1);
	run_out(&w);
	engine_close(w.e);
}

/* A request that does not fit beside what is pinned is refused with its numbers; one that begins
 * with it reads it. What was accepted is not crowded out. */
static void test_others_fit(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	int32_t ids[300];
	struct engine_request q = {
		.kind = EV_REQUEST_KIND_run, .ids = ids, .n_ids = 300, .max_tokens = 1, .text = ""
	};
	struct world w;
	int64_t r;

	(void)state;
	o.pin_limit = 1;
	world_open(&w, o);
	q.params = SAMPLE_DEFAULTS;
	pin(&w, 1, 0);
	put_text(ids, 300, 50);
	r = engine_submit(w.e, &q, NULL); /* 19 of 18 pages */
	assert_int_equal(w.finish[r].reason, EV_FINISH_refused);
	assert_string_equal(w.finish_why,
		"301 tokens need 19 pages of 16; of the pool's 24, 6 are pinned; see --pages, --pin-limit");
	put_text(ids, DOCUMENT, 1); /* 6 of its 19 are the pin's */
	r = engine_submit(w.e, &q, NULL);
	run_out(&w);
	assert_int_equal(w.finish[r].reason, EV_FINISH_length);
	q.n_ids = 270;
	put_text(ids, 270, 50);
	engine_submit(w.e, &q, NULL); /* 17 pages, of the 18 that are left */
	q.kind = EV_REQUEST_KIND_pin;
	q.n_ids = q.pin = 64;
	put_text(ids, 64, 60);
	r = engine_submit(w.e, &q, NULL);
	assert_int_equal(w.finish[r].reason, EV_FINISH_refused);
	assert_true(strstr(w.finish_why, "needs 17 pages and 14 would be left"));
	run_out(&w);
	engine_close(w.e);
}

static void pause_ms(int ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
}

/* On the engine's thread, as the events are. */
static void count_expired(struct engine *e, void *arg)
{
	struct world *w = arg;

	(void)e;
	w->n_expired = w->n_actions[EV_PIN_expired];
}

/* Its time is over while the engine is idle: the actor's thread notes it. */
static void test_expiry(void **state)
{
	struct actor *a;
	struct world w;

	(void)state;
	world_open(&w, ENGINE_DEFAULTS);
	pin(&w, 1, 1000000);
	pause_ms(5);
	assert_true(engine_rest(w.e) == INT64_MAX);
	assert_int_equal(w.n_actions[EV_PIN_expired], 1);
	assert_int_equal(w.n_pin_pages, 0);
	pin(&w, 1, 30000000);
	assert_int_equal(actor_start(&a, w.e, NULL, NULL, NULL), 0);
	for (int i = 0; i < 1000 && w.n_expired < 2; i++) {
		pause_ms(20);
		actor_call(a, count_expired, &w);
	}
	actor_stop(a);
	assert_int_equal(w.n_actions[EV_PIN_expired], 2);
	engine_close(w.e);
}

/* Who computes it is cancelled: it is not whole, and ends. */
static void test_unfinished(void **state)
{
	int32_t ids[DOCUMENT];
	struct engine_request q = {
		.kind = EV_REQUEST_KIND_pin, .ids = ids, .n_ids = DOCUMENT, .pin = DOCUMENT, .text = ""
	};
	struct engine_options o = ENGINE_DEFAULTS;
	struct world w;
	int64_t r;

	(void)state;
	o.prefill_chunk = 32;
	world_open(&w, o);
	q.params = SAMPLE_DEFAULTS;
	put_text(ids, DOCUMENT, 1);
	r = engine_submit(w.e, &q, NULL);
	engine_step(w.e, NULL);
	assert_int_equal(w.n_pin_pages, 2);
	engine_cancel(w.e, r);
	assert_int_equal(w.n_actions[EV_PIN_unfinished], 1);
	assert_int_equal(w.n_pin_pages, 0);
	engine_check(w.e);
	engine_close(w.e);
}

/* A reader goes back into the pin's pages and writes elsewhere: a copy. */
static void test_readers_write_copies(void **state)
{
	struct engine_request q = { .kind = EV_REQUEST_KIND_run, .n_ids = 96, .max_tokens = 8 };
	int32_t ids[96];
	struct world w;
	int64_t r, again;

	(void)state;
	world_open(&w, ENGINE_DEFAULTS);
	pin(&w, 1, 0);
	put_text(ids, 96, 1);
	q.ids = ids;
	q.text = "";
	q.params = SAMPLE_DEFAULTS;
	q.ignore_end = true;
	r = engine_submit(w.e, &q, NULL); /* its last token lies in the pin's last page */
	engine_step(w.e, NULL);
	engine_step(w.e, NULL);
	assert_int_equal(engine_rewind(w.e, r, 96, 7, NULL), 0);
	q.parent = r;
	q.fork_pos = 90;
	q.forced = true;
	ids[90] = 9;
	again = engine_submit(w.e, &q, NULL);
	run_out(&w);
	assert_int_equal(w.finish[r].reason, EV_FINISH_length);
	assert_int_equal(w.finish[again].reason, EV_FINISH_length);
	assert_int_equal(w.n_pin_pages, 6);
	r = plain(&w, 1, 1);
	assert_int_equal(w.lookup[r].pinned, 96);
	engine_close(w.e);
}

static void test_durations(void **state)
{
	static const char *const bad[] = { "", "5", "s", "0s", "-1s", "5 m", "5mm", "25h", "1441m",
		"99999999999999999999s", "1e3s", "+5s", NULL };

	(void)state;
	assert_true(duration_parse("90s") == 90000000000);
	assert_true(duration_parse("5m") == 300000000000);
	assert_true(duration_parse("24h") == 86400000000000);
	for (int i = 0; bad[i]; i++)
		assert_true(duration_parse(bad[i]) == -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_learnt_of_the_end),
		cmocka_unit_test(test_it_stays),
		cmocka_unit_test(test_declared_and_renewed),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_nobody_gets_a_refused_pin),
		cmocka_unit_test(test_others_fit),
		cmocka_unit_test(test_expiry),
		cmocka_unit_test(test_unfinished),
		cmocka_unit_test(test_readers_write_copies),
		cmocka_unit_test(test_durations),
	};

	return cmocka_run_group_tests(tests, tiny_model_make, tiny_model_drop);
}

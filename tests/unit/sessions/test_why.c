/* why answers from the log what the engine decided: a session with few pages, prompts that share
 * beginnings, drafts by both rules and a request that went back is recorded, and every answer is
 * held against the events themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <sqlite3.h>

#include "base/text.h"
#include "engine/core/engine.h"
#include "tests/support/tiny.h"
#include "tests/support/why_answer.h"
#include "trace/recording.h"

enum { MAX_EVENTS = 1 << 15 };

static char model[64], file[64];
/* The events that answers are about; their spans are gone. */
static struct event told[MAX_EVENTS];
static int n_told, n_before; /* n_before: when a setting emptied the cache */
static struct recording *rec;

static void on_event(void *arg, const struct event *ev)
{
	struct err e = { 0 };

	(void)arg;
	if (recording_add(rec, ev, &e))
		fail_msg("%s", e.text);
	assert_true(n_told < MAX_EVENTS);
	told[n_told++] = *ev;
}

static int32_t prompt(int which, int32_t *ids)
{
	int32_t n = 0, shared = 20 + which % 3 * 20;

	for (; n < shared; n++)
		ids[n] = 5 + (n * 7 + which % 3 * 31) % 200;
	for (int i = 0; i < 6 + which * 3 % 20; i++, n++)
		ids[n] = 5 + (which * 13 + i % 4 * 29) % 200;
	return n;
}

static void submit(struct engine *e, int which, float temperature)
{
	int32_t ids[128];
	struct engine_request q = { .kind = EV_REQUEST_KIND_load,
		.ids = ids,
		.max_tokens = 30,
		.params = SAMPLE_DEFAULTS,
		.text = "test",
		.ignore_end = true };
	struct err err = { 0 };

	q.n_ids = prompt(which, ids);
	q.params.temperature = temperature;
	q.params.top_k = which % 2 ? 5 : 0;
	q.sample = which;
	if (engine_submit(e, &q, &err) < 0)
		fail_msg("%s", err.text);
}

static void run(struct engine *e, int n)
{
	struct err err = { 0 };

	for (int i = 0; i < n && !engine_idle(e); i++)
		assert_true(engine_step(e, &err) >= 0);
}

static int record(void **state)
{
	struct tiny_options tiny = TINY_DEFAULTS;
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *e;
	struct err err = { 0 };
	char *path = tiny_temp(&tiny, &err);

	(void)state;
	if (!path)
		return -1;
	snprintf(model, sizeof model, "%s", path);
	free(path);
	snprintf(file, sizeof file, "/tmp/cutaway-why-%d.db", (int)getpid());
	o.model = model;
	o.threads = 1;
	o.ctx = 160;
	o.pages = 20;
	o.slots = 3;
	o.spec = "ngram:3,1,4";
	if (recording_create(&rec, file, &err) || engine_open(&e, &o, &err))
		return -1;
	engine_add_sink(e, on_event, NULL);
	engine_begin(e, NULL);
	assert_int_equal(engine_set(e, "pages", "16", &err), 0);
	for (int i = 0; i < 14; i++)
		submit(e, i, i % 2 ? 1.2f : 0.3f);
	run(e, 60);
	assert_int_equal(engine_set(e, "rule", "rejection", &err), 0);
	run(e, 10000);
	submit(e, 0, 0);
	run(e, 10000);
	n_before = n_told;
	assert_int_equal(engine_set(e, "cache-format", "e4m3", &err), 0);
	submit(e, 0, 0);
	run(e, 10000);
	engine_close(e);
	assert_int_equal(recording_commit(rec, &err), 0);
	recording_close(rec, false);
	return 0;
}

static int clean(void **state)
{
	(void)state;
	unlink(model);
	return unlink(file);
}

static const char *ask_from(const char *what, const char *where, const struct why_here *here)
{
	return why_answer(file, what, where, here);
}

static const char *ask(const char *what, const char *where)
{
	return ask_from(what, where, NULL);
}

static const char *at(int64_t a, int64_t b)
{
	static char text[64];

	if (b >= 0)
		snprintf(text, sizeof text, "%lld:%lld", (long long)a, (long long)b);
	else
		snprintf(text, sizeof text, "%lld", (long long)a);
	return text;
}

#define says(answer, ...) why_says(answer, true, __VA_ARGS__)

static void test_miss(void **state)
{
	int seen[EV_N_prefix] = { 0 }, dropped = 0;
	char done[64] = "";

	(void)state;
	for (int i = 0; i < n_told; i++) {
		const struct ev_lookup *l = &told[i].u.lookup;
		const char *answer;

		if (told[i].kind != EV_lookup || done[l->request]++)
			continue; /* of a request that was preempted the first lookup is explained */
		answer = ask("miss", at(l->request, -1));
		seen[l->reason]++;
		says(answer, "from the cache: %lld of %lld tokens, %lld page%s of", (long long)l->hit,
			(long long)l->asked, (long long)l->hit_pages, plural(l->hit_pages));
		if (l->reason == EV_PREFIX_diverged) {
			says(answer, "parts from the nearest cached one at position %lld",
				(long long)l->diverge_pos);
			says(answer, "by request %lld", (long long)l->nearest);
		}
		dropped += l->reason == EV_PREFIX_evicted && strstr(answer, "was dropped ");
	}
	assert_true(seen[EV_PREFIX_empty] && seen[EV_PREFIX_diverged]);
	assert_int_equal(dropped, seen[EV_PREFIX_evicted]);
	says(ask("miss", NULL), "in the log: SELECT * FROM lookup");
	says(ask("miss", "999"), "asked nothing");
}

static void test_evict(void **state)
{
	struct why_here here = { 0 };
	int64_t page = -1, idle = -1;

	(void)state;
	for (int i = 0; i < n_told; i++)
		if (told[i].kind == EV_page && told[i].u.page.action == EV_PAGE_evict && i < n_before) {
			page = told[i].u.page.page;
			idle = told[i].u.page.other;
		}
	assert_true(page >= 0);
	here.seq = told[n_before - 1].seq;
	says(ask_from("evict", NULL, &here), "Page %lld was dropped", (long long)page);
	says(ask_from("evict", at(page, -1), &here), "for %lld steps", (long long)idle);
	says(ask_from("evict", NULL, &here), "had written it in step");
	says(ask("evict", "9999"), "never evicted");
}

/* A setting that makes the pool anew empties the cache: the cause is it, not want of room. */
static void test_emptied(void **state)
{
	const struct ev_lookup *last = NULL;
	int n_pages = 0;

	(void)state;
	for (int i = n_before; i < n_told; i++) {
		n_pages += told[i].kind == EV_page && told[i].u.page.action == EV_PAGE_evict;
		last = told[i].kind == EV_lookup ? &told[i].u.lookup : last;
	}
	assert_true(n_pages > 0);
	assert_non_null(last);
	says(ask("evict", NULL), "because /cache-format e4m3 emptied the prefix cache");
	says(ask("evict", NULL), "  %d pages went", n_pages);
	assert_null(strstr(ask("evict", NULL), "room was needed"));
	assert_int_equal(last->reason, EV_PREFIX_evicted);
	says(ask("miss", at(last->request, -1)), "because /cache-format e4m3 emptied");
	assert_null(strstr(ask("miss", at(last->request, -1)), "shared whole or not at all"));
}

static void test_preempt(void **state)
{
	const struct ev_preempt *last = NULL;

	(void)state;
	for (int i = 0; i < n_told; i++)
		if (told[i].kind == EV_preempt)
			last = &told[i].u.preempt;
	assert_non_null(last);
	says(ask("preempt", NULL), "request %lld gave up its %lld pages, because request %lld needed",
		(long long)last->request, (long long)last->pages, (long long)last->favour);
	says(ask("preempt", NULL), "the pool: 16 pages;"); /* not those that the session began with */
	says(ask("preempt", at(last->request, -1)), "it came back in step");
}

static void test_wait(void **state)
{
	const struct ev_admit *longest = NULL;

	(void)state;
	for (int i = 0; i < n_told; i++)
		if (told[i].kind == EV_admit && !told[i].u.admit.readmitted &&
			(!longest || told[i].u.admit.waited_ns > longest->waited_ns))
			longest = &told[i].u.admit;
	says(ask("wait", NULL), "Request %lld waited", (long long)longest->request);
	says(ask("wait", NULL), "%.1f ms in the queue", (double)longest->waited_ns / 1e6);
	says(ask("wait", NULL), "what it waited for, step by step:");
	says(ask("wait", NULL), " steps: every slot was taken");
	says(ask("wait", "1"), "nothing, it came while nothing ran");
}

static void test_reject(void **state)
{
	int n[2] = { 0 }, kept = 0, unread = 0;

	(void)state;
	for (int i = 0; i < n_told; i++) {
		const struct ev_draft *d = &told[i].u.draft;
		const char *answer;

		if (told[i].kind != EV_draft || (n[0] > 20 && told[i].seq % 5))
			continue;
		answer = ask("reject", at(d->request, d->pos));
		if (strstr(answer, "was kept"))
			kept++;
		else if (strstr(answer, "discarded"))
			unread++;
		else if (d->verdict == EV_VERDICT_rejected) {
			n[d->rule]++;
			says(answer, d->rule == EV_RULE_race ? "lost the draw" : "was rejected");
			says(answer, "p %.4f", d->p);
		}
	}
	assert_true(n[0] && n[1] && unread + kept);
	says(ask("reject", "3:9999"), "No token was drafted there");
}

static void test_token(void **state)
{
	int n = 0;

	(void)state;
	for (int i = 0; i < n_told; i++) {
		const struct ev_token *t = &told[i].u.token;
		const char *answer;

		if (told[i].kind != EV_token || n++ % 17)
			continue;
		answer = ask("token", at(t->request, t->pos));
		says(answer, "at position %lld of request %lld", (long long)t->pos, (long long)t->request);
		says(answer, "p %.4f in the model's own distribution, of", t->p);
		says(answer, "bits; %.4f in the draw of %lld token%s\n", t->p_draw, (long long)t->survivors,
			t->survivors == 1 ? "" : "s");
		says(answer, "WHERE seq = %lld", (long long)told[i].seq);
	}
	assert_true(n > 100);
}

/* A request is a number or the label that the screens give it. */
static void test_labels(void **state)
{
	static const struct {
		const char *what, *label, *number;
	} alike[] = { { "miss", "c", "3" }, { "token", "b:9999", "2:9999" }, { "wait", "aa", "27" },
		{ "slow", "az:0", "52:0" } };
	static const char *const bad[] = { "a1:2", "b", "b:", "zzzzzzzzzzzzzzzz:1", ":1" };

	(void)state;
	for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
		char *answer = strdup(ask(alike[i].what, alike[i].number));

		assert_string_equal(ask(alike[i].what, alike[i].label), answer);
		assert_null(strstr(answer, "error"));
		free(answer);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		says(ask("token", bad[i]), "is no [REQUEST:]POS");
	says(ask("evict", "a"), "is no PAGE");
}

static void test_slow(void **state)
{
	const struct ev_step *slowest = NULL;

	(void)state;
	for (int i = 0; i < n_told; i++)
		if (told[i].kind == EV_step && (!slowest || told[i].u.step.ns > slowest->ns))
			slowest = &told[i].u.step;
	says(ask("slow", NULL), "Step %lld took %.3f ms: %lld row%s", (long long)slowest->step,
		(double)slowest->ns / 1e6, (long long)slowest->rows, plural(slowest->rows));
	says(ask("slow", at(slowest->step, -1)), "gate_up");
	says(ask("slow", "1"), "prefill");
	says(ask("slow", "100000"), "not in this log");
}

/* The gap before a token: its time, its steps, and where its request lost its pages in it. */
static void test_gap(void **state)
{
	int n = 0, n_preempted = 0;

	(void)state;
	for (int i = 0; i < n_told; i++) {
		const struct ev_token *t = &told[i].u.token;
		int from = i - 1, preempted = 0;

		if (told[i].kind != EV_token)
			continue;
		for (;
			 from >= 0 && (told[from].kind != EV_token || told[from].u.token.request != t->request);
			 from--)
			preempted +=
				told[from].kind == EV_preempt && told[from].u.preempt.request == t->request;
		if (from < 0 || told[from].u.token.step == t->step || (!preempted && i % 13))
			continue;
		says(ask("slow", at(t->request, t->pos)), "came %.3f ms after the token before it:",
			(double)(told[i].t_ns - told[from].t_ns) / 1e6);
		says(ask("slow", at(t->request, t->pos)), "step BETWEEN %lld AND %lld",
			(long long)told[from].u.token.step + 1, (long long)t->step);
		if (preempted)
			says(ask("slow", at(t->request, t->pos)), "without it: it had to wait");
		assert_int_equal(
			!preempted, !strstr(ask("slow", at(t->request, t->pos)), "preempted in step"));
		n_preempted += preempted > 0;
		n++;
	}
	assert_true(n > 20 && n_preempted > 0);
	says(ask("slow", "1:0"), "No request has a generated token there.");
}

/* Questions go to a log of the test's own meanwhile. */
typedef char own_name[sizeof file];

static struct recording *begin_own(const char *name, own_name was)
{
	struct recording *own;
	struct err e = { 0 };

	memcpy(was, file, sizeof file);
	snprintf(file, sizeof file, "/tmp/cutaway-why-%s-%d.db", name, (int)getpid());
	assert_int_equal(recording_create(&own, file, &e), 0);
	return own;
}

static void commit_own(struct recording *own)
{
	struct err e = { 0 };

	assert_int_equal(recording_commit(own, &e), 0);
	recording_close(own, false);
}

static void end_own(own_name was)
{
	unlink(file);
	memcpy(file, was, sizeof file);
}

/* Places that no cache has: the answers stay within what was recorded. */
static void test_hostile_places(void **state)
{
	static const char *const sql[] = {
		"UPDATE page SET block = -1000000; UPDATE lookup SET hit = -9000000, hit_pages = -1000000",
		"UPDATE page SET block = 9223372036854775806;"
		"UPDATE lookup SET hit_pages = 9223372036854775806"
	};
	own_name was;
	sqlite3 *db;
	char into[96];

	(void)state;
	memcpy(was, file, sizeof file);
	snprintf(into, sizeof into, "VACUUM INTO '/tmp/cutaway-why-places-%d.db'", (int)getpid());
	assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, into, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	snprintf(file, sizeof file, "/tmp/cutaway-why-places-%d.db", (int)getpid());
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
		assert_int_equal(sqlite3_exec(db, sql[i], NULL, NULL, NULL), SQLITE_OK);
		sqlite3_close(db);
		says(ask("evict", NULL), "its block %d, positions", i << 24);
		says(ask("miss", NULL), "from the cache: ");
	}
	end_own(was);
}

/* Without a measured bandwidth, the fastest large read of the log is the limit. */
static void test_limit_of_the_log(void **state)
{
	static const struct ev_stage_time told_times[2][2] = {
		{ { EV_STAGE_head, 2000000, 40000000, 1 }, { EV_STAGE_norm, 1, 1000, 1 } },
		{ { EV_STAGE_head, 1000000, 40000000, 1 }, { EV_STAGE_norm, 1, 1000, 1 } },
	};
	struct recording *own;
	struct event ev;
	struct err e = { 0 };
	own_name was;

	(void)state;
	own = begin_own("limit", was);
	for (int i = 0; i < 2; i++) {
		ev_init(&ev, EV_time);
		ev.seq = 2 * i + 1;
		ev.t_ns = i;
		ev.u.time = (struct ev_time){ i + 1, { told_times[i], sizeof told_times[i] } };
		assert_int_equal(recording_add(own, &ev, &e), 0);
		ev_init(&ev, EV_step);
		ev.seq = 2 * i + 2;
		ev.t_ns = i;
		ev.u.step = (struct ev_step){ .step = i + 1,
			.ns = 2100000 - 1000000 * i,
			.kernel_ns = 2000000 - 1000000 * i,
			.rows = 1,
			.decode_rows = 1,
			.bytes = 40001000 };
		assert_int_equal(recording_add(own, &ev, &e), 0);
	}
	commit_own(own);
	says(ask("slow", NULL), "(40.0 GB/s, in this log) take 50 %%");
	says(ask("slow", "2"), "what bound it: memory");
	end_own(was);
}

/* Drafters have a time of their own; in a recording of before they had, it is in that of everything
 * else. */
static void test_drafters(void **state)
{
	struct recording *own;
	struct event ev;
	struct err e = { 0 };
	own_name was;

	(void)state;
	own = begin_own("drafters", was);
	for (int i = 0; i < 3; i++) {
		ev_init(&ev, EV_step);
		ev.seq = i + 1;
		ev.t_ns = i;
		ev.u.step = (struct ev_step){ .step = i + 1,
			.ns = 4000000,
			.kernel_ns = 1500000,
			.drafters_ns = 2000000 / (i + 1),
			.rows = 2,
			.decode_rows = 1,
			.draft_rows = 1,
			.bytes = 40001000 };
		ev.u.step.drafters_ns = i < 2 ? ev.u.step.drafters_ns : 0;
		assert_int_equal(recording_add(own, &ev, &e), 0);
	}
	commit_own(own);
	says(ask("slow", "1"),
		"kernels 1.500 ms; drafters 2.000 ms; everything else (plan, draws, events) 0.500 ms");
	says(ask("slow", "1"), "drafters took 50 %% of it");
	says(ask("slow", "2"), "drafters 1.000 ms; everything else (plan, draws, events) 1.500 ms");
	says(ask("slow", "2"), "38 %% of it passed outside them (plan, draws, events)");
	says(ask("slow", "3"), "kernels 1.500 ms; everything else (plan, draws, events) 2.500 ms");
	end_own(was);
}

/* A step that others' programs made slow says so, and one that they did not make slow says that. */
static void test_run_delay(void **state)
{
	static const int64_t ms[] = { 3, 3, 9, 9, 3, 3, 9, 3, 9 },
						 delay_us[] = { -1, 400, 5000, 0, -1, -1, 5000, 0, 2000 };
	struct recording *own;
	struct event ev;
	struct err e = { 0 };
	own_name was;
	sqlite3 *db;

	(void)state;
	own = begin_own("delay", was);
	ev_init(&ev, EV_session);
	ev.seq = 1;
	ev.t_ns = 0;
	ev.u.session.read_bandwidth = 20e9; /* a step's bytes take 2 ms */
	assert_int_equal(recording_add(own, &ev, &e), 0);
	for (int i = 0; i < 9; i++) {
		ev_init(&ev, EV_step);
		ev.seq = i + 2;
		ev.t_ns = i;
		ev.u.step = (struct ev_step){ .step = i + 1,
			.ns = ms[i] * 1000000,
			.kernel_ns = ms[i] * 1000000 - 10000,
			.run_delay_ns = delay_us[i] < 0 ? EV_NULL_I : delay_us[i] * 1000,
			.rows = 1,
			.decode_rows = 1,
			.bytes = 40001000 };
		assert_int_equal(recording_add(own, &ev, &e), 0);
	}
	commit_own(own);
	assert_null(strstr(ask("slow", "1"), "gave the processor"));
	says(ask("slow", "2"), "gave the processor to others for 0.400 ms of this step");
	assert_null(strstr(ask("slow", "8"), "processor"));
	says(ask("slow", "3"), "gave the processor to others for 5.000 ms of this step");
	says(ask("slow", "3"), "half of that or less: most of the difference is what others had");
	says(ask("slow", "3"), "what bound it: others, who had the processor; its bytes at");
	assert_null(strstr(ask("slow", "4"), "gave the processor"));
	says(ask("slow", "4"), "what bound it: neither memory nor");
	says(ask("slow", "4"), "half of that or less: no thread waited long");
	says(ask("slow", "5"), "for 5.000 ms of the steps 5 to 7, of which this is one");
	says(ask("slow", "7"), "half of that or less: others had the processor meanwhile");
	assert_null(strstr(
		ask_from("slow", "5", &(struct why_here){ .seq = 6, .step = 5 }), "gave the processor"));
	says(ask("slow", "9"), "for 2.000 ms of this step");
	says(ask("slow", "9"), "half of that or less: others had the processor meanwhile");
	assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(db, "UPDATE step SET run_delay_ns = NULL", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	says(ask("slow", "3"), "half of that or less: the machine did something else meanwhile");
	assert_null(strstr(ask("slow", "3"), "gave the processor"));
	end_own(was);
}

/* ---- ranks ---- */

static struct ev_traffic did[64][3];
static int64_t step_ns[64];

static void on_ranks(void *arg, const struct event *ev)
{
	struct err e = { 0 };

	if (recording_add(arg, ev, &e))
		fail_msg("%s", e.text);
	if (ev->kind == EV_traffic && ev->u.traffic.step < 64)
		did[ev->u.traffic.step][ev->u.traffic.rank] = ev->u.traffic;
	if (ev->kind == EV_step && ev->u.step.step < 64)
		step_ns[ev->u.step.step] = ev->u.step.ns;
}

static void record_ranks(struct recording *own)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine *e;
	struct err err = { 0 };

	o.model = model;
	o.threads = 1;
	o.ctx = 160;
	o.tensor_parallel = 2;
	o.link = "20ms"; /* much longer than all else */
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, on_ranks, own);
	engine_begin(e, NULL);
	submit(e, 0, 0);
	usleep(120000); /* held */
	run(e, 4);
	engine_close(e);
}

/* What ranks waited for each other, in numbers of the events. */
static void test_ranks(void **state)
{
	own_name was;
	struct recording *own = begin_own("ranks", was);

	(void)state;
	record_ranks(own);
	commit_own(own);
	says(ask("wait", "1"), "no step ran meanwhile; the engine was held");
	for (int64_t step = 1; step <= 4; step++) {
		const struct ev_traffic *d = did[step];
		const int slowest = d[1].compute_ns > d[0].compute_ns;
		const double waited = (double)(d[0].exchange_ns - d[1].exchange_ns) / 1e6;

		assert_true(d[0].exchanges > 2 && d[0].slowed_ns > 0);
		says(ask("slow", at(step, -1)),
			"exchanges: %lld took %.3f of %.3f ms on rank 0, of which the slowed link added %.3f",
			(long long)d[0].exchanges, (double)d[0].exchange_ns / 1e6, (double)step_ns[step] / 1e6,
			(double)d[0].slowed_ns / 1e6);
		says(ask("slow", at(step, -1)), "the slowest rank was %d, computing %.3f ms", slowest,
			(double)d[slowest].compute_ns / 1e6);
		if (waited > (double)d[0].exchange_ns / 1e6 / 9)
			says(ask("slow", at(step, -1)), "so rank 0 waited %.3f ms at least", waited);
		says(ask("slow", at(step, -1)), "%% of it rank 0 exchanged with other ranks");
	}
	assert_null(strstr(ask("slow", "5"), "exchanges"));
	end_own(was);
	assert_null(strstr(ask("slow", "1"), "rank"));
}

/* Asked from a step, the answer is that of this step or the newest before it, never what came
 * later. */
static void test_here(void **state)
{
	const struct event *token = NULL, *evicted = NULL;
	int n_steps = 0, n_evicted = 0;

	(void)state;
	for (int i = 0; i < n_told; i++) {
		struct why_here here = { .seq = told[i].seq };

		if (told[i].kind == EV_token)
			token = &told[i];
		if (told[i].kind == EV_page && told[i].u.page.action == EV_PAGE_evict)
			evicted = &told[i];
		if (told[i].kind != EV_step || ++n_steps % 7 != 1)
			continue;
		here.step = told[i].u.step.step;
		says(ask_from("slow", NULL, &here), "Step %lld took", (long long)here.step);
		says(ask_from("slow", "3", &here), "Step 3 took");
		if (token)
			says(ask_from("token", NULL, &here), "at position %lld of request %lld ",
				(long long)token->u.token.pos, (long long)token->u.token.request);
		n_evicted += evicted != NULL;
		if (evicted)
			says(ask_from("evict", NULL, &here), "Page %lld was dropped",
				(long long)evicted->u.page.page);
		else
			says(ask_from("evict", NULL, &here), "No page was evicted in this session up to here.");
	}
	assert_true(n_evicted > 0 && n_evicted < n_steps / 7);
}

static void test_wrong(void **state)
{
	(void)state;
	says(ask("misss", NULL), "error: why \"misss\"? It answers miss, evict");
	says(ask("", NULL), "error: why");
	says(ask("m", NULL), "in the log"); /* a unique beginning will do */
	says(ask("slow", "x"), "is no STEP");
	says(ask("slow", "1:"), "is no STEP");
	says(ask("token", "4:"), "is no [REQUEST:]POS");
	says(ask("token", "-4"), "is no");
	says(ask("miss", "99999999999999999999"), "is no");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_miss),
		cmocka_unit_test(test_evict),
		cmocka_unit_test(test_hostile_places),
		cmocka_unit_test(test_emptied),
		cmocka_unit_test(test_preempt),
		cmocka_unit_test(test_wait),
		cmocka_unit_test(test_reject),
		cmocka_unit_test(test_token),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_slow),
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_limit_of_the_log),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_drafters),
		cmocka_unit_test(test_run_delay),
		cmocka_unit_test(test_here),
	};

	return cmocka_run_group_tests(tests, record, clean);
}

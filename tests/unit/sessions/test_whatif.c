/* What if: run again as recorded, every count is that of the log; under other settings, every count
 * is what the engine itself comes to under them. Sessions with few pages, prompts that share
 * beginnings and come while others run, drafts, cancels, and requests that go back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include <cmocka.h>

#include "sessions/whatif/whatif.h"
#include "tests/support/tiny.h"
#include "trace/recording.h"

static char model[64], file[64];
static const char *grammar; /* of every other request */
static int32_t begins;      /* 0, or the token with which answers begin */

static void on_event(void *arg, const struct event *ev)
{
	struct err e = { 0 };

	if (recording_add(arg, ev, &e))
		fail_msg("%s", e.text);
}

static uint32_t next(uint32_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 17;
	*s ^= *s << 5;
	return *s;
}

static int64_t submit(struct engine *e, uint32_t *seed, int which)
{
	int32_t ids[128];
	struct engine_request q = { .kind = EV_REQUEST_KIND_load,
		.ids = ids,
		.params = SAMPLE_DEFAULTS,
		.text = "test",
		.ignore_end = true };
	uint32_t family = 100 + (uint32_t)which % 3;
	struct err err = { 0 };
	int64_t id;

	for (int i = 0; i < 8 + which % 3 * 17; i++)
		ids[q.n_ids++] = (int32_t)(next(&family) % 250);
	for (int n = (int)(next(seed) % 25) + 1; n > 0; n--)
		ids[q.n_ids++] = (int32_t)(next(seed) % 5); /* few, so that drafts find something */
	q.max_tokens = 5 + (int32_t)(next(seed) % 30);
	q.params.temperature = which % 2 ? 0.8f : 0;
	q.sample = which;
	if (grammar && which % 2) {
		q.grammar = grammar;
		q.ignore_end = false;
		q.bound_from = which % 8 == 5 ? q.n_ids - 1 : 0; /* its prompt does not follow it */
	}
	for (uint32_t token = 0; which % 5 == 4 && token < 100; token += 9)
		sample_bias_add(&q.params.logit_bias, token, 2.5, NULL);
	if (which % 7 == 3) {
		q.kind = EV_REQUEST_KIND_score;
		ids[q.n_ids - 3] = begins ? begins : ids[q.n_ids - 3];
		q.max_tokens = 0;
	}
	id = engine_submit(e, &q, &err);
	if (id < 0)
		fail_msg("%s", err.text);
	return id;
}

static ev_sink *extra;
static const char *changed[3]; /* a setting that changes while nothing runs, to one and the other */

enum { STEPS = 4000 };
static uint32_t cancel_each = 40, rewind_each = 30; /* so many steps, about */
static int last_step = STEPS;                       /* killed there */

/* A session of its own for each seed. */
static void record(uint32_t seed, const struct engine_options *given, bool goes_back)
{
	struct engine_options o = *given;
	struct recording *rec;
	struct engine *e = NULL;
	struct err err = { 0 };
	int which = 0;

	unlink(file);
	if (recording_create(&rec, file, &err) || engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, on_event, rec);
	if (extra)
		engine_add_sink(e, extra, NULL);
	engine_begin(e, NULL);
	for (int step = 0; step < last_step && (which < 16 || !engine_idle(e)); step++) {
		if (*changed && engine_idle(e) && engine_set(e, *changed, changed[1 + which % 2], &err))
			fail_msg("%s", err.text);
		if (which < 16 && (engine_idle(e) || next(&seed) % 6 == 0))
			for (int n = (int)(next(&seed) % 3); n >= 0; n--)
				submit(e, &seed, which++);
		if (next(&seed) % cancel_each == 0)
			engine_cancel(e, 1 + (int64_t)(next(&seed) % 16));
		if (goes_back && next(&seed) % rewind_each == 0)
			engine_rewind(e, 1 + (int64_t)(next(&seed) % 16), (int32_t)(20 + next(&seed) % 40),
				next(&seed) % 2 ? (int32_t)(next(&seed) % 5) : -1, NULL);
		if (next(&seed) % 50 == 0)
			engine_set(e, "prefill-chunk", next(&seed) % 2 ? "16" : "0", &err);
		assert_true(engine_step(e, &err) >= 0);
	}
	engine_close(e);
	assert_int_equal(recording_commit(rec, &err), 0);
	recording_close(rec, false);
}

static struct engine_options options(void)
{
	struct engine_options o = ENGINE_DEFAULTS;

	o.model = model;
	o.threads = 1;
	o.ctx = 200;
	o.pages = 22;
	o.slots = 4;
	o.budget = 64;
	o.prefill_chunk = 24;
	o.spec = "ngram:3,1,4";
	return o;
}

static void same(const char *what, const struct whatif_counts *a, const struct whatif_counts *b)
{
#define X(name, doc)                                                                               \
	if (a->name != b->name)                                                                        \
		fail_msg("%s: " #name " %lld, not %lld", what, (long long)a->name, (long long)b->name);
	WHATIF_FIGURES(X)
#undef X
}

static void ask(struct whatif_settings *s, const char *name, const char *value)
{
	struct err e = { 0 };

	if (whatif_ask(s, name, value, &e))
		fail_msg("%s", e.text);
}

static void ask_number(struct whatif_settings *s, const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof text, "%d", value);
	ask(s, name, text);
}

/* With the setting's name and what it may be; the question is as it was. */
static void refuses(const char *name, const char *value, const char *says)
{
	struct whatif_settings s = { 0 }, none = { 0 };
	struct err e = { 0 };

	assert_int_equal(whatif_ask(&s, name, value, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_memory_equal(&s, &none, sizeof s);
	if (strncmp(e.text, name, strlen(name)) || !strstr(e.text, says))
		fail_msg("%s %s: \"%s\" does not say \"%s\"", name, value, e.text, says);
}

static void test_as_recorded(void **state)
{
	const struct whatif_settings s = { 0 };
	struct whatif_counts all = { 0 };

	(void)state;
	for (uint32_t seed = 1; seed <= 60; seed++) {
		struct engine_options o = options();
		struct err e = { 0 };
		struct whatif w;

		cancel_each = rewind_each = 4 + seed % 9 * 5;
		o.pages = 9 + (int32_t)(seed % 4) * 6;
		o.spec = seed % 3 == 2 ? "ngram:3,1,4,3,pool" : seed % 3 ? "ngram:3,1,4" : "off";
		o.policy = seed % 2 ? "shortest" : NULL;
		o.evict = seed % 5 == 0 ? "fifo" : seed % 5 == 1 ? "lfu" : NULL;
		record(seed, &o, true);
		if (whatif_run(file, &s, &w, &e))
			fail_msg("seed %u: %s", seed, e.text);
		same("again", &w.again, &w.recorded);
		same("changed by nothing", &w.changed, &w.recorded);
		assert_true(w.recorded.seconds > 0 && w.changed.seconds > 0);
		assert_true(w.predicted == w.changed.seconds); /* the same settings take the same time */
		all.preemptions += w.recorded.preemptions;
		all.evictions += w.recorded.evictions;
		all.copies += w.recorded.copies;
		all.accepted += w.recorded.accepted;
		all.hit_tokens += w.recorded.hit_tokens;
		all.recomputed += w.recorded.recomputed;
	}
	/* it all had occasion to matter */
	print_message(
		"# %lld preempted, %lld evicted, %lld copied, %lld accepted, %lld hit, %lld recomputed\n",
		(long long)all.preemptions, (long long)all.evictions, (long long)all.copies,
		(long long)all.accepted, (long long)all.hit_tokens, (long long)all.recomputed);
	assert_true(all.preemptions && all.evictions && all.copies && all.accepted && all.hit_tokens &&
				all.recomputed);
}

/* As a kill leaves it that comes in the middle of a step: without so many of its last rows. */
static void cut(int rows)
{
	char sql[120];
	sqlite3 *db;

	assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
	snprintf(
		sql, sizeof sql, "CREATE TEMP TABLE last AS SELECT max(seq) - %d AS seq FROM step", rows);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	for (int k = 0; k < EV_N_KINDS; k++) {
		snprintf(sql, sizeof sql, "DELETE FROM main.%s WHERE seq > (SELECT seq FROM last)",
			ev_info[k].name);
		assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	}
	sqlite3_close(db);
}

/* The log ends before its requests do. */
static void test_killed(void **state)
{
	const struct whatif_settings s = { 0 };
	int64_t preempted = 0;

	(void)state;
	for (uint32_t seed = 1; seed <= 80; seed++) {
		struct engine_options o = options();
		struct err e = { 0 };
		struct whatif w;

		last_step = 10 + (int)seed % 40;
		o.pages = 9;
		record(seed, &o, true);
		if (seed % 2)
			cut(seed / 2);
		if (whatif_run(file, &s, &w, &e))
			fail_msg("seed %u: %s", seed, e.text);
		same("killed", &w.again, &w.recorded);
		preempted += w.recorded.preemptions;
	}
	last_step = STEPS;
	assert_true(preempted > 0);
}

static int n_unseen;

static void count_unseen(void *arg, const struct event *ev)
{
	(void)arg;
	n_unseen += ev->kind == EV_page && ev->u.page.action == EV_PAGE_unseen;
}

/* A model whose layers keep different things: the log says which, and pages go back as they did. */
static void test_memory_groups(void **state)
{
	const struct whatif_settings none = { 0 };
	int64_t preempted = 0;

	(void)state;
	extra = count_unseen;
	for (uint32_t seed = 1; seed <= 60; seed++) {
		struct whatif_settings s = { 0 };
		struct engine_options o = options();
		struct err e = { 0 };
		struct whatif w;

		cancel_each = rewind_each = seed % 3 ? 4 + seed % 9 * 5 : 40;
		o.model = "tests/data/zoo/gemma3.gguf";
		o.pages = 10 + (int32_t)(seed % 7) * 3;
		record(seed, &o, seed % 3 != 0);
		if (whatif_run(file, &none, &w, &e))
			fail_msg("%s", e.text);
		same("again", &w.again, &w.recorded);
		preempted += w.recorded.preemptions;
		if (seed % 3 || seed > 12)
			continue;
		ask(&s, "slots", "2");
		if (whatif_run(file, &s, &w, &e) || whatif_verify(file, &s, &o, NULL, NULL, &w, &e))
			fail_msg("seed %u: %s", seed, e.text);
		w.real.tokens = w.changed.tokens;
		same("for real", &w.changed, &w.real);
	}
	extra = NULL;
	cancel_each = 40;
	rewind_each = 30;
	assert_true(n_unseen > 100 && preempted > 0);
}

/* What an encoder reads takes steps of its own. */
static void test_encoder(void **state)
{
	const struct whatif_settings none = { 0 };

	(void)state;
	for (uint32_t seed = 1; seed <= 8; seed++) {
		struct engine_options o = options();
		struct err e = { 0 };
		struct whatif w;

		begins = 268;
		o.model = "tests/data/zoo/t5.gguf";
		o.pages = 30;
		record(seed, &o, false);
		if (whatif_run(file, &none, &w, &e) || whatif_verify(file, &none, &o, NULL, NULL, &w, &e))
			fail_msg("seed %u: %s", seed, e.text);
		same("again", &w.again, &w.recorded);
		w.real.tokens = w.recorded.tokens;
		same("for real", &w.real, &w.recorded);
	}
	begins = 0;
}

/* Where something lossy changes, the cache is emptied, and its pages are others: in the simulation
 * too, and for real the tokens are those of the log. */
static void test_changes(void **state)
{
	static const char *const all[][3] = { { "visible", "full", "window:24" },
		{ "cache-format", "q8", "e4m3" }, { "cache-format", "f16", "kivi4" },
		{ "skip-below", "0.2", "0" }, { "weights", "4/32", "model" },
		{ "activations", "model", "e4m3" }, { "rule", "rejection", "race" } };
	const struct whatif_settings none = { 0 };

	(void)state;
	for (uint32_t seed = 1; seed <= 14; seed++) {
		struct engine_options o = options();
		struct err e = { 0 };
		struct whatif w;

		memcpy(changed, all[seed % 7], sizeof changed);
		o.visible = seed % 2 ? "window:40" : "full";
		o.pages = 40;
		record(seed, &o, false);
		if (whatif_run(file, &none, &w, &e) || whatif_verify(file, &none, &o, NULL, NULL, &w, &e))
			fail_msg("%s, seed %u: %s", *changed, seed, e.text);
		same(*changed, &w.again, &w.recorded);
		w.real.tokens = w.recorded.tokens;
		same(*changed, &w.real, &w.recorded);
	}
	*changed = NULL;
}

/* Where a grammar rules, it says where the answer ends, for real too; and tokens that it leaves no
 * choice but are drafted. Which guesses of others it cut, the log does not tell. */
static void test_grammar(void **state)
{
	const struct whatif_settings none = { 0 };
	int64_t accepted = 0;

	(void)state;
	grammar = "regex:[a-c]{3}, and so on[0-9]{1,9}";
	for (uint32_t seed = 1; seed <= 9; seed++) {
		struct engine_options o = options();
		struct err e = { 0 };
		struct whatif w;

		o.spec = seed % 3 ? "off" : "ngram:3,1,4";
		record(seed, &o, seed % 2);
		if (whatif_run(file, &none, &w, &e) || whatif_verify(file, &none, &o, NULL, NULL, &w, &e))
			fail_msg("seed %u: %s", seed, e.text);
		accepted += seed % 3 ? w.again.accepted : 0;
		if (seed % 3 == 0)
			w.again.drafted = w.recorded.drafted;
		same("again", &w.again, &w.recorded);
		assert_int_equal(w.real.unfinished, 0);
	}
	grammar = NULL;
	assert_true(accepted > 40);
}

/* What decides the tokens is as recorded, for real and not, though nobody says it again. */
static void test_lossy(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 4; seed++) {
		struct whatif_settings s = { 0 };
		struct engine_options o = options(), plain = o;
		struct err e = { 0 };
		struct whatif w;

		o.cache_format = seed == 1 ? "e4m3" : seed == 2 ? "kivi4" : "f16";
		o.skip_below = seed == 3 ? 0.2 : 0;
		o.rule = seed == 4 ? "rejection" : "race";
		record(seed, &o, false);
		ask(&s, "evict", "fifo");
		if (whatif_run(file, &s, &w, &e) || whatif_verify(file, &s, &plain, NULL, NULL, &w, &e))
			fail_msg("%u: %s", seed, e.text);
		same("again", &w.again, &w.recorded);
		w.real.tokens = w.changed.tokens;
		same("for real", &w.changed, &w.real);
	}
}

static void test_other_settings(void **state)
{
	int differs = 0;

	(void)state;
	for (uint32_t seed = 1; seed <= 24; seed++) {
		static const char *const policy[] = { "lru", "fifo", "lfu" };
		struct whatif_settings s = { 0 };
		struct engine_options o = options();
		struct err e = { 0 };
		struct whatif w;
		char what[40];

		record(seed, &o, false);
		if (seed & 1)
			ask(&s, "page-size", "32");
		if (seed % 3 == 0)
			ask_number(&s, "pages", 14 + (int)seed);
		if (seed % 4 == 1)
			ask_number(&s, "slots", 1 + (int)seed % 6);
		if (seed % 5 == 2)
			ask_number(&s, "prefill-chunk", (int)(seed % 3) * 8);
		if (seed % 6 == 4)
			ask(&s, "prefix-cache", "off");
		if (seed % 7 == 5)
			ask(&s, "spec", seed & 1 ? "off" : seed & 2 ? "ngram:6" : "ngram:4,1,4,3,pool");
		ask(&s, "evict", policy[seed % 3]);
		if (seed % 8 == 3)
			ask(&s, "policy", "shortest");
		if (whatif_run(file, &s, &w, &e) || whatif_verify(file, &s, &o, NULL, NULL, &w, &e))
			fail_msg("seed %u: %s", seed, e.text);
		assert_true(w.verified);
		/* nor what it drew beyond the log before a cancel */
		w.real.tokens = w.changed.tokens;
		snprintf(what, sizeof what, "seed %u for real", seed);
		same(what, &w.changed, &w.real);
		differs += w.changed.steps != w.recorded.steps;
	}
	assert_true(differs > 10);
}

static void test_wrong(void **state)
{
	struct whatif_settings s = { 0 };
	struct engine_options o = options();
	struct whatif w;
	struct err e = { 0 };

	(void)state;
	record(3, &o, true);
	refuses("evict", "none", "lru|fifo|lfu");
	refuses("page-size", "20", "a multiple of 16");
	refuses("slots", "257", "from 1 to 256");
	refuses("budget", "4097", "from 0 to 4096");
	refuses("prefix-cache", "yes", "on|off");
	refuses("temp", "1", "a log cannot say");
	refuses("threads", "1", "a log cannot say");
	ask(&s, "spec", "magic");
	assert_int_equal(whatif_run(file, &s, &w, &e), -1);
	e.code = 0;
	assert_int_equal(whatif_run(model, &s, &w, &e), -1);
	assert_int_equal(e.code, ERR_INPUT);
	/* so few pages that nothing fits */
	s = (struct whatif_settings){ 0 };
	ask(&s, "pages", "1");
	e.code = 0;
	assert_int_equal(whatif_run(file, &s, &w, &e), 0);
	assert_true(w.changed.unfinished > 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_recorded),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_memory_groups),
		cmocka_unit_test(test_encoder),
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_grammar),
		cmocka_unit_test(test_lossy),
		cmocka_unit_test(test_other_settings),
		cmocka_unit_test(test_wrong),
	};
	struct tiny_options tiny = TINY_DEFAULTS;
	struct err err = { 0 };
	char *path = tiny_temp(&tiny, &err);
	int failed;

	if (!path)
		return 1;
	snprintf(model, sizeof model, "%s", path);
	/* in memory where there is such a place: each recording waits for the disk */
	snprintf(file, sizeof file, "%s/cutaway-whatif-%d.db",
		access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", (int)getpid());
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	unlink(file);
	free(path);
	return failed;
}

/* Recordings that differ in one thing: the first token that differs is the one, and the cause is
 * that thing. Hunks are checked against the longest common subsequence by its textbook table, and
 * the screen against its text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/sha256.h"
#include "engine/core/engine.h"
#include "sessions/diff/diff_impl.h"
#include "tests/support/tiny.h"
#include "trace/recording.h"
#include "tui/inspect/inspect.h"
#include "tui/views/view.h"
#include "tests/support/canvas_text.h"

enum { N_PROMPT = 21 };

static char model[2][64], file[2][64];
static struct recording *rec;

static void on_event(void *arg, const struct event *ev)
{
	struct err e = { 0 };

	(void)arg;
	if (recording_add(rec, ev, &e))
		fail_msg("%s", e.text);
}

/* What a session may be made otherwise by. */
struct variant {
	int model;
	struct sample_params params;
	int n_tokens, forced, first, page_size, extra; /* extra: requests of other prompts, too */
	const char *spec;
	bool rejection;
};

static struct variant plain(void)
{
	struct variant v = {
		.params = SAMPLE_DEFAULTS, .n_tokens = 60, .forced = -1, .page_size = 16, .spec = "off"
	};

	v.params.temperature = 0.9f;
	v.params.top_p = 1;
	v.params.seed = 7;
	return v;
}

static void submit(struct engine *e, const struct variant *v, int first)
{
	int32_t ids[N_PROMPT];
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = N_PROMPT,
		.max_tokens = v->n_tokens,
		.params = v->params,
		.text = "what was typed",
		.ignore_end = true };
	struct err err = { 0 };

	for (int i = 0; i < N_PROMPT; i++)
		ids[i] = 3 + (first + i * 37) % 60;
	if (engine_submit(e, &q, &err) < 0)
		fail_msg("%s", err.text);
}

static void record(int which, const struct variant *v)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct err err = { 0 };
	struct engine *e = NULL;
	char sha[SHA256_HEX];

	unlink(file[which]);
	o.model = model[v->model];
	o.threads = 1;
	o.ctx = 128;
	o.page_size = v->page_size;
	o.spec = v->spec;
	o.rule = v->rejection ? "rejection" : "race";
	if (file_sha256(o.model, sha, &err) || recording_create(&rec, file[which], &err) ||
		engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, on_event, NULL);
	engine_begin(e, sha);
	submit(e, v, v->first);
	for (int i = 0; i < v->extra; i++)
		submit(e, v, 100 + i);
	for (int i = 0; !engine_idle(e); i++) {
		if (i == 20 && v->forced >= 0)
			assert_int_equal(engine_rewind(e, 1, N_PROMPT + 9, v->forced, &err), 0);
		assert_true(engine_step(e, &err) >= 0);
	}
	engine_close(e);
	assert_int_equal(recording_commit(rec, &err), 0);
	recording_close(rec, false);
}

static struct diff *open_diff(void)
{
	struct diff *d;
	struct err err = { 0 };

	if (diff_open(&d, file[0], file[1], &err))
		fail_msg("%s", err.text);
	return d;
}

static const char *printed(struct diff *d)
{
	static char text[8192];
	FILE *out = fmemopen(text, sizeof text, "w");

	diff_print(d, out);
	fclose(out);
	return text;
}

static void expect(struct diff *d, const char *words)
{
	const char *text = printed(d);

	if (!strstr(text, words))
		fail_msg("\"%s\" is not in:\n%s", words, text);
}

/* The first token that differs is where they say, by the sequences themselves. */
static const struct diff_pair *check_pair(struct diff *d, enum diff_cause cause)
{
	const struct diff_pair *p = &d->pair[0];
	int32_t at = 0;

	assert_int_equal(d->n_pairs, 1);
	assert_string_equal(diff_cause_names[p->cause], diff_cause_names[cause]);
	while (at < p->side[0].n && at < p->side[1].n && p->side[0].ids[at] == p->side[1].ids[at])
		at++;
	assert_int_equal(p->at, at);
	return p;
}

static struct diff *compare(const struct variant *a, const struct variant *b)
{
	record(0, a);
	record(1, b);
	return open_diff();
}

static void test_equal(void **state)
{
	struct variant a = plain(), b = plain();
	struct diff *d;

	(void)state;
	b.page_size = 32; /* and drafts: none of it matters */
	b.spec = "ngram:4";
	d = compare(&a, &b);
	check_pair(d, DIFF_EQUAL);
	assert_int_equal(d->n_equal, 1);
	assert_int_equal(d->pair[0].before.n, 60);
	assert_int_equal(d->pair[0].before.same, 60);
	assert_true(d->pair[0].before.kl_max == 0 && d->same_model && d->same_vocab);
	expect(d, "equal: 1 of 1 requests");
	diff_close(d);
}

static void test_settings(void **state)
{
	static const char *const words[] = { "seed 7 and 8", "temp 0.9 and 2", "top-k 0 and 1",
		"top-p 1 and 0.05", "min-p 0 and 0.9", "repeat-penalty 1 and 5",
		"logit-bias off and 7:100" };

	(void)state;
	for (int i = 0; i < 7; i++) {
		struct variant a = plain(), b = plain();
		const struct diff_pair *p;
		struct diff *d;

		b.params.seed += i == 0;
		b.params.temperature = i == 1 ? 2 : 0.9f;
		b.params.top_k = i == 2;
		b.params.top_p = i == 3 ? 0.05f : 1;
		b.params.min_p = i == 4 ? 0.9f : 0;
		b.params.repeat_penalty = i == 5 ? 5 : 1;
		if (i == 6)
			sample_bias_add(&b.params.logit_bias, 7, 100, NULL);
		d = compare(&a, &b);
		p = check_pair(d, DIFF_SETTING);
		expect(d, words[i]);
		assert_true(diff_row(p, 0) && diff_row(p, 1));
		assert_true(p->before.top == p->before.n && p->before.kl_max == 0);
		assert_int_equal(p->before.same, p->before.n - 1);
		assert_true(p->after.n > 0 && p->after.kl_max > 0);
		assert_int_equal(p->before.n + p->after.n, 60);
		if (i == 2)
			expect(d, "A's was not among its 8 candidates");
		diff_close(d);
	}
}

static void test_forced_length_prompt(void **state)
{
	struct variant a = plain(), b = plain();
	struct diff *d;

	(void)state;
	b.forced = 5;
	d = compare(&a, &b);
	assert_int_equal(check_pair(d, DIFF_FORCED)->at, N_PROMPT + 9);
	expect(d, "put there by the user");
	diff_close(d);
	b = plain();
	b.n_tokens = 40;
	d = compare(&a, &b);
	assert_int_equal(check_pair(d, DIFF_LENGTH)->at, N_PROMPT + 40);
	expect(d, "B ends there (length), A goes on for 20 tokens (length); max-tokens 60 and 40");
	diff_close(d);
	b = plain();
	b.first = 11;
	d = compare(&a, &b);
	assert_int_equal(check_pair(d, DIFF_PROMPT)->at, 0);
	assert_int_equal(d->pair[0].after.n, 60);
	diff_close(d);
}

static void test_logits(void **state)
{
	struct variant a = plain(), b = plain();
	struct diff *d;
	sqlite3 *db;

	(void)state;
	b.model = 1;
	d = compare(&a, &b);
	check_pair(d, DIFF_LOGITS);
	assert_false(d->same_model);
	expect(d, "the models differ");
	assert_true(d->pair[0].hash_at == N_PROMPT && d->pair[0].before.kl > 0);
	diff_close(d);
	/* equal tokens, one hash that is not: the file is wrong, not the world */
	b = plain();
	record(0, &a);
	record(1, &b);
	assert_int_equal(sqlite3_open(file[1], &db), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(db, "UPDATE token SET hash = 1 WHERE pos = 33", NULL, NULL, NULL), 0);
	sqlite3_close(db);
	d = open_diff();
	assert_int_equal(d->pair[0].cause, DIFF_LOGITS);
	assert_int_equal(d->pair[0].at, 33);
	expect(d, "cutaway verify");
	expect(d, "KL at least 0 nats"); /* other logits, in what the log has not of them */
	diff_close(d);
	assert_int_equal(sqlite3_open(file[1], &db), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(db,
			"UPDATE token SET hash = (SELECT t.hash FROM token t WHERE t.pos = 32) WHERE pos = 99;"
			"UPDATE token SET id = id + 1 WHERE pos = 30",
			NULL, NULL, NULL),
		0);
	sqlite3_close(db);
	d = open_diff();
	assert_int_equal(d->pair[0].cause, DIFF_DRAW);
	assert_int_equal(d->pair[0].at, 30);
	diff_close(d);
}

static void test_matching(void **state)
{
	struct variant a = plain(), b = plain();
	struct diff *d;

	(void)state;
	a.extra = 2;
	b.extra = 1;
	b.first = 101; /* A's third request is B's first; A's second is B's second */
	d = compare(&a, &b);
	assert_int_equal(d->n_pairs, 3);
	assert_int_equal(d->n_equal, 2);
	assert_int_equal(d->pair[0].cause, DIFF_ALONE);
	assert_int_equal(d->pair[1].side[1].request->number, 2);
	assert_int_equal(d->pair[2].side[1].request->number, 1);
	expect(d, "only in A");
	diff_close(d);
}

/* Tens of thousands of requests that the other has not are no matter of minutes. */
static void test_many(void **state)
{
	struct variant v = plain();
	const clock_t began = clock();
	struct diff *d;

	(void)state;
	v.n_tokens = 4;
	for (int i = 0; i < 2; i++) {
		char sql[400];
		sqlite3 *db;

		record(i, &v);
		assert_int_equal(sqlite3_open(file[i], &db), 0);
		snprintf(sql, sizeof sql,
			"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
			" INSERT INTO request (seq, t_ns, request, kind, n_prompt, prompt, text)"
			" SELECT 1000000 + i, 0, 1000 + i, %d, 2, randomblob(8), %d || 'of' || i FROM n",
			EV_REQUEST_KIND_load, i);
		assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), 0);
		sqlite3_close(db);
	}
	d = open_diff();
	assert_int_equal(d->n_pairs, 40001);
	assert_int_equal(d->n_equal, 1);
	diff_close(d);
	assert_true((double)(clock() - began) / CLOCKS_PER_SEC < 6);
}

static void test_deep(void **state)
{
	struct variant a = plain(), b = plain();
	struct diff_deep_options o = { .engine = { ENGINE_DEFAULTS, ENGINE_DEFAULTS } };
	struct diff_distance m[3];
	struct err err = { 0 };
	struct diff *d;

	(void)state;
	o.engine[0].threads = o.engine[1].threads = 1;
	for (int other = 0; other < 2; other++) {
		b.model = other;
		b.params.seed = other ? 7 : 8;
		d = compare(&a, &b);
		o.engine[0].model = model[0];
		o.engine[1].model = model[other];
		if (diff_deep(d, &o, m, &err))
			fail_msg("%s", err.text);
		/* every row of A's answer, or those behind the parting */
		assert_int_equal(m[0].n, other ? 60 : d->pair[0].after.n);
		assert_true(m[0].kl > 0 && m[0].kl_max >= m[0].kl);
		if (!other) { /* the candidates' bound is one, and the best tokens are the same */
			assert_true(d->pair[0].after.kl <= m[0].kl + 1e-6);
			assert_int_equal(d->pair[0].after.top, m[0].top);
		}
		diff_close(d);
	}
	b = plain();
	d = compare(&a, &b);
	assert_int_equal(diff_deep(d, &o, m, &err), 0);
	assert_int_equal(m[0].n, 0);
	diff_close(d);
}

/* ---- hunks ---- */

static int32_t seq[2][64];

static bool same(void *arg, int32_t i, int32_t k)
{
	(void)arg;
	return seq[0][i] == seq[1][k];
}

static int32_t lcs(int32_t n, int32_t m)
{
	static int32_t t[65][65];

	for (int i = 1; i <= n; i++)
		for (int k = 1; k <= m; k++)
			t[i][k] = seq[0][i - 1] == seq[1][k - 1] ? t[i - 1][k - 1] + 1
					  : t[i - 1][k] > t[i][k - 1]    ? t[i - 1][k]
													 : t[i][k - 1];
	return t[n][m];
}

static void test_hunks(void **state)
{
	uint32_t random = 1;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		int32_t n[2], n_hunks, a = 0, b = 0, kept = 0, most = round % 3 ? 200 : round % 9;
		struct diff_hunk *h;

		for (int s = 0; s < 2; s++) {
			n[s] = (int32_t)((random = random * 1664525 + 1013904223) >> 26);
			for (int i = 0; i < n[s]; i++)
				seq[s][i] = (int32_t)((random = random * 1664525 + 1013904223) >> 30);
		}
		h = diff_hunks(n[0], n[1], same, NULL, most, &n_hunks);
		assert_true(n_hunks >= 0);
		for (int i = 0; i <= n_hunks; i++) {
			struct diff_hunk end = { n[0], n[0], n[1], n[1] }, *next = i < n_hunks ? &h[i] : &end;

			assert_true(next->a >= a && next->a - a == next->b - b);
			assert_true(i == n_hunks || next->a < next->a_end || next->b < next->b_end);
			for (; a < next->a; a++, b++, kept++)
				assert_int_equal(seq[0][a], seq[1][b]);
			a = next->a_end;
			b = next->b_end;
		}
		assert_true(a == n[0] && b == n[1]);
		if (most == 200)
			assert_int_equal(kept, lcs(n[0], n[1]));
		free(h);
	}
}

/* ---- the screen ---- */

static char *screen_text(struct diff_screen *s, struct canvas *c, int w, int h)
{
	struct err e = { 0 };

	assert_int_equal(canvas_resize(c, w, h, &e), 0);
	assert_int_equal(screen_draw(&s->screen, c, &e), 0);
	return canvas_to_text(c);
}

static void expect_on(struct diff_screen *s, struct canvas *c, int w, int h, const char *words)
{
	char *text = screen_text(s, c, w, h);

	if (!strstr(text, words))
		fail_msg("\"%s\" is not in:\n%s", words, text);
	free(text);
}

static void test_screen(void **state)
{
	struct variant a = plain(), b = plain();
	struct diff_screen s;
	struct canvas c = { 0 };
	struct diff *d;
	static const int keys[] = { 'n', 'N', ']', '[', KEY_DOWN_, KEY_UP_, KEY_PAGE_DOWN, KEY_END_,
		KEY_HOME_, 'x' };
	int reversed = 0;

	(void)state;
	a.extra = b.extra = 1;
	b.params.seed = 8;
	d = compare(&a, &b);
	diff_screen_init(&s, d);
	expect_on(&s, &c, 80, 24, "request 1 of 2");
	expect_on(&s, &c, 80, 24, "difference 1 of");
	expect_on(&s, &c, 80, 24, "the draw, from equal logits: seed 7 and 8");
	expect_on(&s, &c, 80, 24, "B drew ");
	expect_on(&s, &c, 80, 24, "what was typed");
	for (int i = 0; i < c.w * c.h; i++)
		reversed += (c.cell[i].attr & ATTR_REVERSE) != 0;
	assert_true(reversed >= 2); /* the token that parts them, on both sides */
	assert_true(screen_key(&s.screen, 'n', 80, 24));
	expect_on(&s, &c, 80, 24, "difference 2 of");
	assert_true(screen_key(&s.screen, 'N', 80, 24));
	assert_true(screen_key(&s.screen, ']', 80, 24));
	expect_on(&s, &c, 120, 40, "request 2 of 2");
	/* back over the border of a request: to its last */
	assert_true(screen_key(&s.screen, 'N', 80, 24));
	expect_on(&s, &c, 120, 40, "request 1 of 2");
	assert_int_equal(s.hunk, d->pair[0].n_hunks - 1);
	for (int i = 0; i < 400; i++) { /* any keys at any size */
		assert_true(screen_key(&s.screen, keys[(i * 7 + i / 10) % 10], 80, 1 + i % 50));
		free(screen_text(&s, &c, 1 + i * 13 % 210, 1 + i % 50));
	}
	assert_true(screen_key(&s.screen, KEY_F1_, 80, 24));
	assert_true(s.screen.popup.open);
	assert_true(screen_key(&s.screen, 'q', 80, 24)); /* closes the help alone */
	assert_false(s.screen.popup.open);
	assert_false(screen_key(&s.screen, 'q', 80, 24));
	screen_free(&s.screen);
	canvas_free(&c);
	diff_close(d);
}

/* Forged files: whatever they say, there is an answer or an error, and a screen. */
static void test_hostile(void **state)
{
	static const char *const sql[] = {
		"UPDATE request SET prompt = NULL",
		"UPDATE request SET prompt = x'ffffffff', n_prompt = 1",
		"UPDATE request SET kind = 4",
		"UPDATE request SET text = x'1b5b33316d' || text",
		"UPDATE token SET pos = pos + 1 WHERE pos > 30",
		"UPDATE token SET candidates = x'00', stages = x'01'",
		"UPDATE token SET candidates = zeroblob(2000)",
		"UPDATE token SET candidates = CAST(replace(hex(candidates), '0', 'f') AS BLOB)",
		"UPDATE token SET p = 9e999, p_draw = -9e999, survivors = NULL, source = 77",
		"UPDATE token SET hash = NULL",
		"UPDATE vocab SET bytes = x'00'",
		"UPDATE vocab SET bytes = x'1b5b324a'",
		"DELETE FROM vocab",
		"DELETE FROM token",
		"DELETE FROM request",
		"UPDATE session SET vocab = 100000",
	};
	struct variant a = plain(), b = plain();

	(void)state;
	b.params.seed = 8;
	for (size_t i = 0; i < sizeof sql / sizeof *sql; i++) {
		struct diff_screen s;
		struct canvas c = { 0 };
		struct err e = { 0 };
		struct diff *d;
		sqlite3 *db;

		if (!i)
			record(0, &a);
		record(1, &b);
		assert_int_equal(sqlite3_open(file[1], &db), SQLITE_OK);
		if (sqlite3_exec(db, sql[i], NULL, NULL, NULL))
			assert_true(sqlite3_errcode(db) == SQLITE_CONSTRAINT);
		sqlite3_close(db);
		if (diff_open(&d, file[0], file[1], &e)) {
			assert_int_equal(e.code, ERR_INPUT);
			continue;
		}
		assert_null(strchr(printed(d), '\033'));
		diff_screen_init(&s, d);
		free(screen_text(&s, &c, 80, 24));
		screen_key(&s.screen, ']', 80, 24);
		free(screen_text(&s, &c, 80, 24));
		screen_free(&s.screen);
		canvas_free(&c);
		diff_close(d);
	}
}

static int make(void **state)
{
	struct tiny_options tiny = TINY_DEFAULTS;
	struct err err = { 0 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		char *path;

		/* the same weights, rounded otherwise: as two files of one model */
		tiny.type = i ? K_Q8_0 : K_Q4_1;
		path = tiny_temp(&tiny, &err);
		if (!path)
			return -1;
		snprintf(model[i], sizeof model[i], "%s", path);
		free(path);
		snprintf(file[i], sizeof file[i], "/tmp/cutaway-diff-%d-%c.db", (int)getpid(), 'a' + i);
	}
	return 0;
}

static int clean(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		unlink(model[i]);
		unlink(file[i]);
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_forced_length_prompt),
		cmocka_unit_test(test_logits),
		cmocka_unit_test(test_matching),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_hunks),
		cmocka_unit_test(test_screen),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, make, clean);
}

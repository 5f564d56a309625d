/* A session with everything that can happen to a request is recorded and computed again: all equal.
 * Then the file, the model and a kernel are changed one bit at a time, and each change is found and
 * put where it belongs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/sha256.h"
#include "engine/core/engine.h"
#include "kernels/cpu/isa.h"
#include "sessions/verify/verify.h"
#include "tests/support/tiny.h"
#include "trace/recording.h"

static char model[64], other_model[64], file[64], copy[64];
static struct recording *rec;
static int64_t n_drawn; /* tokens told that were not forced, and scores */

static void on_event(void *arg, const struct event *ev)
{
	struct err e = { 0 };

	(void)arg;
	n_drawn +=
		(ev->kind == EV_token && ev->u.token.source != EV_SOURCE_forced) || ev->kind == EV_score;
	if (recording_add(rec, ev, &e))
		fail_msg("%s", e.text);
}

static struct engine_request request(int which, int32_t *ids, int32_t n)
{
	struct engine_request q = { .kind = EV_REQUEST_KIND_load,
		.ids = ids,
		.n_ids = n,
		.max_tokens = 40,
		.params = SAMPLE_DEFAULTS,
		.text = "test",
		.sample = which,
		.ignore_end = true };

	for (int32_t i = 0; i < n; i++) /* they share beginnings, and repeat so that drafts are made */
		ids[i] = 5 + (i < 20 ? i * 7 : (which * 13 + i % 4 * 29)) % 200;
	q.params.temperature = which % 3 ? 0.4f * (float)which : 0;
	q.params.top_k = which % 2 ? 20 : 0;
	q.params.repeat_penalty = which % 4 == 3 ? 1.2f : 1;
	for (uint32_t id = 0; which % 3 == 1 && id < 200; id += 7)
		sample_bias_add(&q.params.logit_bias, id, id % 2 ? 3.5 : -2, NULL);
	q.params.seed = which == 4 ? UINT64_C(1) << 63 /* it looks absent in the file */ : 7;
	return q;
}

static int64_t submit(struct engine *e, const struct engine_request *q)
{
	struct err err = { 0 };
	int64_t id = engine_submit(e, q, &err);

	if (id < 0)
		fail_msg("%s", err.text);
	return id;
}

static void run(struct engine *e, int n)
{
	struct err err = { 0 };

	for (int i = 0; i < n && !engine_idle(e); i++)
		assert_true(engine_step(e, &err) >= 0);
}

/* Back and forth, with a token put there; forks; drafts under both rules; one stopped, one refused;
 * so few pages that some are preempted; a score. */
static void live(struct engine *e)
{
	int32_t ids[256];
	struct engine_request q;
	struct err err = { 0 };
	int64_t first = 0, id;

	for (int i = 0; i < 6; i++) {
		q = request(i, ids, 24 + 3 * i);
		id = submit(e, &q);
		first = first ? first : id;
	}
	run(e, 14);
	assert_int_equal(engine_rewind(e, first, 27, -1, &err), 0);
	run(e, 4);
	assert_int_equal(engine_rewind(e, first, 26, 9, &err), 0);
	assert_int_equal(engine_rewind(e, first + 1, 27, 11, &err), 0);
	run(e, 5);
	engine_cancel(e, first + 1);
	run(e, 1000);
	assert_int_equal(engine_set(e, "rule", "rejection", &err), 0);
	for (int i = 6; i < 9; i++) {
		q = request(i, ids, 30);
		submit(e, &q);
	}
	run(e, 1000);
	q = request(1, ids, 200);
	submit(e, &q); /* refused */
	q = request(2, ids, 60);
	q.kind = EV_REQUEST_KIND_score;
	submit(e, &q);
	q = request(2, ids, 33);
	q.kind = EV_REQUEST_KIND_fork;
	q.parent = 3;
	q.fork_pos = 32;
	q.forced = true;
	submit(e, &q);
	run(e, 1000);
}

static void short_life(struct engine *e)
{
	int32_t ids[64];
	struct engine_request q = request(0, ids, 30);

	submit(e, &q);
	q = request(4, ids, 30);
	submit(e, &q);
	run(e, 25);
}

/* What ranks send is rounded for a while; without ranks it cannot be. */
static void halved_life(struct engine *e)
{
	static const char *const form[] = { "q8", "f16", "f32" };
	int32_t ids[64];
	struct err err = { 0 };

	for (int i = 0; i < 3; i++) {
		struct engine_request q = request(i, ids, 30 - i);

		assert_int_equal(engine_set(e, "exchange", form[i], &err), 0);
		submit(e, &q);
		run(e, 1000);
	}
}

/* whole: the session ends in order; else as after a kill. */
static void record(const char *path, void (*life)(struct engine *e), bool whole)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct err err = { 0 };
	struct engine *e = NULL;
	char sha[SHA256_HEX];

	unlink(path);
	o.model = model;
	o.threads = 1;
	o.ctx = 128;
	o.pages = 22;
	o.slots = 4;
	o.spec = life == live ? "ngram:3,1,4" : "off";
	o.tensor_parallel = life == halved_life ? 2 : 1;
	n_drawn = 0;
	if (file_sha256(model, sha, &err) || recording_create(&rec, path, &err) ||
		engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, on_event, NULL);
	engine_begin(e, sha);
	life(e);
	if (whole)
		engine_close(e);
	assert_int_equal(recording_commit(rec, &err), 0);
	recording_close(rec, !whole);
	if (!whole) {
		struct engine *gone = e;
		char line[] = "/tmp/cutaway-verify-XXXXXX";

		assert_true(mkstemp(line) >= 0); /* what is told at the end goes nowhere near the file */
		unlink(line);
		assert_int_equal(recording_create(&rec, line, &err), 0);
		engine_close(gone);
		recording_close(rec, true);
		unlink(line);
	}
}

/* ---- verifying ---- */

struct outcome {
	struct err err;
	struct verify_summary sum;
	int n_told;
	int64_t last_request;
	char text[2048]; /* the explanation */
};

static void on_result(void *arg, const struct verify_result *v)
{
	struct outcome *o = arg;

	assert_true(v->request->number > o->last_request);
	o->last_request = v->request->number;
	o->n_told++;
}

static struct outcome verify(const char *path, const char *with, int64_t from, int64_t to)
{
	static struct outcome o;
	struct verify_options options = { .engine = ENGINE_DEFAULTS, .from = from, .to = to };
	struct history *h;
	char *found = NULL;

	memset(&o, 0, sizeof o);
	if (history_open(&h, path, &o.err))
		return o;
	options.engine.threads = 1;
	options.engine.packed_cache = "off";
	if (!verify_model(h, with, NULL, &found, &o.err)) {
		FILE *out = fmemopen(o.text, sizeof o.text, "w");

		options.engine.model = found;
		verify_run(h, &options, on_result, NULL, &o, &o.sum, &o.err);
		if (!o.err.code || o.err.code == ERR_DIFFERS)
			verify_explain(h, &o.sum, out);
		fclose(out);
		/* what it points to is gone with the history */
		o.sum.first.request = NULL;
	}
	free(found);
	history_close(h);
	return o;
}

static struct outcome again(const char *path)
{
	return verify(path, NULL, 0, INT64_MAX);
}

/* A copy of a recording with these statements run on it. */
static void change(const char *from, const char *sql)
{
	char command[200];
	sqlite3 *db;
	char *error = NULL;

	snprintf(command, sizeof command, "cp %s %s", from, copy);
	assert_int_equal(system(command), 0);
	assert_int_equal(sqlite3_open(copy, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &error))
		fail_msg("%s: %s", sql, error);
	sqlite3_close(db);
}

static struct outcome changed(const char *sql)
{
	change(file, sql);
	return again(copy);
}

static void test_equal(void **state)
{
	struct outcome o;
	struct history *h;
	int n_rewound = 0, n_rejection = 0;

	(void)state;
	record(copy, live, true);
	o = again(copy);
	assert_string_equal(o.err.text, "");
	assert_int_equal(o.sum.rows, n_drawn);
	assert_int_equal(o.n_told, 12);
	assert_true(o.sum.draws > 300);
	assert_int_equal(history_open(&h, copy, NULL), 0);
	for (int i = 0; i < h->n_requests; i++) {
		assert_string_equal(h->request[i].broken, ""); /* nor that one which is cut: refused */
		n_rewound += h->request[i].n_takes > 1;
		for (int k = 0; k < h->request[i].n_rows; k++)
			n_rejection += h->request[i].row[k].by_rejection;
	}
	history_close(h);
	assert_int_equal(n_rewound, 2);
	assert_true(n_rejection > 0 && o.sum.hash_alone > 0 && o.sum.hash_alone <= n_rejection);
}

/* What rows see and the format of the cache are set, changed and set back between requests. */
static void lossy_life(struct engine *e)
{
	static const char *const set[][2] = { { "visible", "full" }, { "visible", "sinks:2+window:9" },
		{ "visible", "window:20" }, { "visible", "top:64" }, { "visible", "h2o:16" },
		{ "visible", "stride:3+window:5" }, { "visible", "stream:2+window:9" },
		{ "cache-format", "e4m3" }, { "visible", "full" }, { "activations", "int8-token" },
		{ "weights", "nf4/64" }, { "activations", "model" }, { "weights", "model" },
		{ "skip-below", "0.2" }, { "skip-below", "0" }, { "cache-format", "bf16" },
		{ "cache-format", "f32" }, { "cache-format", "kivi4" }, { "cache-residual", "256" },
		{ "cache-format", "f16" }, { "visible", "top:64" } };
	int32_t ids[64];
	struct err err = { 0 };

	for (size_t i = 0; i < sizeof set / sizeof *set; i++) {
		assert_int_equal(engine_set(e, set[i][0], set[i][1], &err), 0);
		/* none between codes and a choice of keys: neither is possible beside the other */
		for (int k = 0; k < 2 && i != sizeof set / sizeof *set - 2; k++) {
			struct engine_request q = request(k, ids, 30);

			submit(e, &q);
		}
		run(e, 1000);
	}
}

/* A recording of its own, whose name is *path, and all of it verified. */
static struct outcome of_life(void (*life)(struct engine *), const char *name, char path[80])
{
	struct outcome o;

	snprintf(path, 80, "%s-%s", file, name);
	record(path, life, true);
	o = again(path);
	assert_string_equal(o.err.text, "");
	assert_int_equal(o.sum.rows, n_drawn);
	return o;
}

static void test_lossy(void **state)
{
	char lossy[80];
	struct outcome o = of_life(lossy_life, "lossy", lossy);

	(void)state;
	assert_int_equal(o.n_told, 40);
	change(
		lossy, "UPDATE setting SET value = 'sinks:2+window:10' WHERE value = 'sinks:2+window:9'");
	o = again(copy);
	assert_int_equal(o.err.code, ERR_DIFFERS);
	assert_int_equal(o.sum.n_differ, 2);
	change(lossy, "UPDATE setting SET value = 'f16' WHERE value = 'bf16'");
	o = again(copy);
	assert_int_equal(o.err.code, ERR_DIFFERS);
	assert_int_equal(o.sum.n_differ, 2);
	change(lossy, "UPDATE setting SET value = '0.3' WHERE value = '0.2'");
	o = again(copy);
	assert_int_equal(o.err.code, ERR_DIFFERS);
	assert_int_equal(o.sum.n_differ, 2);
	change(lossy, "UPDATE setting SET value = 'f64' WHERE value = 'bf16'");
	o = again(copy);
	assert_int_equal(o.err.code, ERR_USAGE);
	change(lossy, "UPDATE setting SET value = 'windows' WHERE value = 'window:20'");
	o = again(copy);
	assert_int_equal(o.err.code, ERR_USAGE);
	unlink(lossy);
}

static void test_halved(void **state)
{
	char halved[80];
	struct outcome o = of_life(halved_life, "halved", halved);

	(void)state;
	change(halved, "UPDATE setting SET value = 'q8' WHERE value = 'f16'");
	o = again(copy);
	assert_int_equal(o.err.code, ERR_DIFFERS);
	unlink(halved);
}

static void test_range(void **state)
{
	struct outcome all = again(file), a, b;

	(void)state;
	a = verify(file, NULL, 0, 9);
	b = verify(file, NULL, 10, INT64_MAX);
	assert_int_equal(a.err.code, 0);
	assert_int_equal(b.err.code, 0);
	assert_true(a.sum.rows > 0 && b.sum.rows > 0);
	assert_int_equal(a.sum.rows + b.sum.rows, all.sum.rows);
	/* outside the range nothing is looked at */
	change(file, "UPDATE token SET hash = hash + 1 WHERE step = 12");
	assert_int_equal(verify(copy, NULL, 0, 11).err.code, 0);
	assert_int_equal(verify(copy, NULL, 13, 100).err.code, 0);
	assert_int_equal(verify(copy, NULL, 12, 12).err.code, ERR_DIFFERS);
}

static void check_found(struct outcome o, enum verify_what what, const char *words)
{
	assert_int_equal(o.err.code, ERR_DIFFERS);
	assert_int_equal(o.sum.first.first.what, what);
	if (!strstr(o.text, words))
		fail_msg("\"%s\" is not in: %s", words, o.text);
}

#define AT_40 " WHERE request = 2 AND pos = 40"

static void test_changed_file(void **state)
{
	struct outcome o;

	(void)state;
	o = changed("UPDATE token SET hash = hash + 4096" AT_40);
	check_found(o, VERIFY_HASH, "this row alone");
	check_found(o, VERIFY_HASH, "agree with each other and not with the file");
	assert_true(o.sum.bisect.agree && !o.sum.bisect.found);
	assert_int_equal(o.sum.bisect.end[0].hash + 4096, o.sum.bisect.recorded);
	/* the slow reference only where there is nobody else to ask */
	assert_int_equal(o.sum.bisect.end[o.sum.bisect.n_ends - 1].unasked, o.sum.bisect.n_ends > 2);
	assert_non_null(strstr(o.err.text, "first request 2: hash of the logits at position 40"));
	o = changed("UPDATE token SET id = (id + 1) % 200" AT_40);
	check_found(o, VERIFY_ID, "the token in the file was changed");
	assert_int_equal(o.sum.drawn_fits, 1);
	o = changed("UPDATE request SET seed = 8 WHERE request = 2");
	check_found(o, VERIFY_ID, "its settings were changed");
	check_found(changed("UPDATE token SET p = p / 2" AT_40), VERIFY_P, "column");
	check_found(changed("UPDATE token SET p_draw = p_draw / 2" AT_40), VERIFY_P_DRAW, "column");
	check_found(
		changed("UPDATE token SET survivors = survivors + 1" AT_40), VERIFY_SURVIVORS, "column");
	check_found(
		changed("UPDATE token SET entropy = entropy + 1e-6" AT_40), VERIFY_ENTROPY, "column");
	check_found(changed("UPDATE token SET hash = NULL" AT_40), VERIFY_HASH, "recorded");
	/* one more prompt token, or another */
	check_found(
		changed("UPDATE request SET prompt = CAST(x'07000000' || substr(prompt, 5) AS BLOB) WHERE "
				"request = 2"),
		VERIFY_HASH, "agree with each other");
	assert_int_equal(o.sum.n_requests, 2);
}

static void check_refused(struct outcome o, enum err_code code, const char *words)
{
	assert_int_equal(o.err.code, code);
	if (!strstr(o.err.text, words))
		fail_msg("\"%s\" is not in: %s", words, o.err.text);
}

static void test_not_this(void **state)
{
	char sql[256];

	(void)state;
	check_refused(changed("UPDATE session SET arith = 2"), ERR_INPUT, "arithmetic 2");
	check_refused(
		verify(file, other_model, 0, INT64_MAX), ERR_INPUT, "is not the model that was recorded");
	check_refused(verify(file, "/nowhere/model.gguf", 0, INT64_MAX), ERR_IO, "/nowhere");
	check_refused(changed("UPDATE session SET model_path = '/nowhere/m.gguf'"), ERR_IO, "--model");
	check_refused(changed("UPDATE session SET model_path = '/dev/zero'"), ERR_IO, "--model");
	snprintf(sql, sizeof sql, "UPDATE session SET model_path = '%s'", other_model);
	check_refused(changed(sql), ERR_INPUT, "is another file than when it was recorded");
	/* another model without a word of what it was: every row differs, and it says so */
	snprintf(
		sql, sizeof sql, "UPDATE session SET model_sha256 = NULL, model_path = '%s'", other_model);
	check_found(changed(sql), VERIFY_HASH, "25 of 25 rows differ");
}

static void test_missing(void **state)
{
	struct outcome o;

	(void)state;
	/* the end is cut off: a recording of a killed session is a recording of a prefix */
	o = changed("DELETE FROM token WHERE seq > (SELECT seq FROM step WHERE step = 12);"
				"DELETE FROM step WHERE step > 12; DELETE FROM finish; DELETE FROM closed");
	assert_int_equal(o.err.code, 0);
	assert_int_equal(o.sum.rows, 24);
	/* a hole is not */
	o = changed("DELETE FROM token WHERE request = 2 AND pos = 40");
	check_refused(o, ERR_INPUT, "not all rows");
	assert_int_equal(o.sum.rows, 25 + 10);
	o = changed("DELETE FROM token WHERE request = 2");
	assert_int_equal(o.err.code, 0);
	record(copy, short_life, false);
	o = again(copy);
	assert_string_equal(o.err.text, "");
	assert_int_equal(o.sum.rows, 50);
}

/* What is not compared is counted, and is no success. */
static void test_left_out(void **state)
{
	static const char *const sql[][2] = {
		{ "DELETE FROM request WHERE request = 2", "25 rows of no request" },
		{ "UPDATE token SET request = 77 WHERE request = 2", "first of request 77" },
		{ "UPDATE token SET source = 10 WHERE request = 2", "not all rows" },
		{ "UPDATE token SET source = 10, hash = NULL WHERE request = 2", "not all rows" },
		{ "UPDATE token SET source = 4, hash = NULL" AT_40, "not all rows" },
		{ "UPDATE request SET kind = 5 WHERE request = 1", "not all rows" },
	};
	struct outcome o;

	(void)state;
	for (size_t i = 0; i < sizeof sql / sizeof *sql; i++)
		check_refused(changed(sql[i][0]), ERR_INPUT, sql[i][1]);
	o = changed("INSERT INTO setting (seq, t_ns, name, value) SELECT min(seq), 0, 'continues', "
				"'x.db' FROM vocab; DELETE FROM vocab WHERE seq IN (SELECT seq FROM setting);"
				"UPDATE token SET source = 10, hash = NULL WHERE request = 2 AND pos < 35");
	assert_string_equal(o.err.text, "");
	assert_int_equal(o.sum.rows, 45);
	assert_int_equal(o.sum.given, 5);
	check_refused(changed("UPDATE vocab SET bytes = CAST(bytes || 'x' AS BLOB) WHERE id = 12"),
		ERR_DIFFERS, "1 text of tokens in the file is not the model's, first that of token 12");
}

/* Made to hurt: it may be refused or found to differ, but it must end in order. */
static void test_hostile(void **state)
{
	static const char *const sql[] = {
		"UPDATE session SET vocab = 9223372036854775807",
		"UPDATE session SET vocab = 300",
		"UPDATE session SET n_layers = -1, n_kv_heads = 9223372036854775807, head_dim = 0, "
		"page_size = 0",
		"UPDATE session SET model_path = NULL, model_sha256 = '0'",
		"DELETE FROM session",
		"CREATE TEMP TABLE s AS SELECT * FROM session; UPDATE s SET seq = 9000000, arith = 7;"
		"INSERT INTO session SELECT * FROM s",
		"UPDATE request SET request = 2",
		"UPDATE request SET request = -request",
		"UPDATE request SET kind = 99",
		"UPDATE request SET kind = 4",
		"UPDATE request SET kind = 5",
		"UPDATE request SET prompt = NULL",
		"UPDATE request SET prompt = x''",
		"UPDATE request SET prompt = x'ffffffff', n_prompt = 1",
		"UPDATE request SET prompt = zeroblob(4000000), n_prompt = 1000000",
		"UPDATE request SET prompt = x'0500000006'",
		"UPDATE request SET temperature = 9e999, top_p = -1, min_p = 7",
		"UPDATE request SET temperature = NULL, top_k = -5, penalty_window = 9223372036854775807",
		"UPDATE request SET repeat_penalty = 0, frequency_penalty = 1e300",
		"UPDATE request SET spec = NULL, stop = NULL, text = NULL, seed = NULL",
		"UPDATE token SET pos = 9223372036854775807 WHERE pos = 40",
		"UPDATE token SET pos = -1 WHERE pos = 40",
		"UPDATE token SET id = -1 WHERE pos = 40",
		"UPDATE token SET id = 9223372036854775807 WHERE pos = 40",
		"UPDATE token SET source = 4, hash = NULL",
		"UPDATE token SET source = 99, step = -5",
		"UPDATE token SET request = 77",
		"UPDATE token SET p = 9e999, entropy = -9e999",
		"INSERT INTO rewind (seq, t_ns, request, had, kept) SELECT seq + 1, 0, request, pos + 1, 0 "
		"FROM token WHERE pos = 40",
		"INSERT INTO rewind (seq, t_ns, request, had, kept) VALUES (9000000, 0, 2, -5, "
		"9223372036854775807)",
		"INSERT INTO finish (seq, t_ns, request, reason, generated) VALUES (9000001, 0, 1, 77, -1)",
		"INSERT INTO finish (seq, t_ns, request, reason, generated) VALUES (9000001, 0, 99, 1, 1)",
		"UPDATE vocab SET id = 5",
		"UPDATE vocab SET bytes = NULL",
		"UPDATE step SET ns = 9223372036854775807",
		"INSERT INTO score (seq, t_ns, request, pos, id, logp, hash) VALUES (9000001, 0, 1, 1, 1, "
		"1, 1)",
		"INSERT INTO fork (seq, t_ns, request, parent, pos, forced) VALUES (9000001, 0, 1, 1, -1, "
		"1)",
	};

	(void)state;
	for (size_t i = 0; i < sizeof sql / sizeof *sql; i++) {
		struct outcome o = changed(sql[i]);

		if (o.err.code != 0 && o.err.code != ERR_DIFFERS && o.err.code != ERR_INPUT &&
			o.err.code != ERR_IO)
			fail_msg("%s: %d %s", sql[i], (int)o.err.code, o.err.text);
		assert_true(!o.err.code || o.err.text[0]);
	}
	/* not SQLite at all, and half a file */
	assert_int_equal(truncate(copy, 5000), 0);
	assert_int_equal(again(copy).err.code, ERR_INPUT);
	assert_int_equal(truncate(copy, 0), 0);
	assert_int_equal(again(copy).err.code, ERR_INPUT);
	assert_int_equal(again("/nowhere.db").err.code, ERR_IO);
}

/* ---- a kernel that errs ---- */

static k_fn *sound;            /* attention as it is */
static int32_t fault_pos = -1; /* where it errs by one bit, in layer 1 */
enum { FAULT_LAYER = 1, FAULT_AT = 17 };

static void faulty(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_attention *a = &op->u.attention;

	sound(op, tid, n_threads, scratch);
	for (int32_t i = 0; a->layer == FAULT_LAYER && i < a->n; i++)
		if (a->rows[i].pos == fault_pos)
			a->out.q[(size_t)i * (size_t)a->out.dim + FAULT_AT] ^= 1;
}

/* The table of the best instruction set of this machine is read-only, but not for us. */
static bool set_attention(k_fn *fn, k_fn **was)
{
	const struct k_isa *isa = NULL;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at;

#ifdef __x86_64__
	if (!strcmp(k_isas()[0], "avx512"))
		isa = &k_isa_avx512;
	else if (!strcmp(k_isas()[0], "avxvnni"))
		isa = &k_isa_avxvnni;
	else if (!strcmp(k_isas()[0], "avx2"))
		isa = &k_isa_avx2;
#endif
	if (!isa)
		return false;
	at = (uintptr_t)isa & ~(page - 1);
	if (mprotect((void *)at, (uintptr_t)(isa + 1) - at, PROT_READ | PROT_WRITE))
		return false;
	if (was)
		*was = isa->fn[K_OP_attention];
	memcpy((void *)(uintptr_t)&isa->fn[K_OP_attention], &fn, sizeof fn);
	return true;
}

static void check_fault(int32_t pos, int32_t row_pos)
{
	const struct bisect *b;
	struct outcome o;

	fault_pos = pos;
	o = again(file);
	fault_pos = -1;
	b = &o.sum.bisect;
	/* where there is nobody else, the reference stops at the first row that differs, and that row
	 * was not recorded */
	check_found(o, VERIFY_HASH,
		b->end[b->a].matches ? "as recorded" : "parts from the others before this row");
	assert_int_equal(b->end[0].matches, 0); /* the one that errs */
	/* another one that is right, or the reference, which stops where it parts */
	assert_int_equal(b->end[b->n_ends - 1].unasked, b->n_ends > 2);
	assert_int_equal(b->b, 0);
	assert_int_not_equal(b->a, 0);
	assert_true(b->end[b->a].matches || (b->n_ends == 2 && b->end[b->a].rows <= b->n));
	assert_string_equal(b->end[b->b].isa, k_isas()[0]);
	assert_int_equal(b->n, row_pos);
	assert_true(b->found);
	assert_int_equal(b->pos, pos);
	assert_int_equal(b->layer, FAULT_LAYER);
	assert_string_equal(b->stage, "attention");
	assert_string_equal(b->part, "mixed");
	assert_int_equal(b->index, FAULT_AT);
	assert_int_equal(b->n_differ, 1);
	assert_true(b->value_a != b->value_b);
	assert_non_null(strstr(o.text, "layer 1, stage attention, mixed[17]"));
}

static void test_faulty_kernel(void **state)
{
	(void)state;
	if (!set_attention(faulty, &sound))
		skip();
	assert_int_equal(again(file).err.code, 0);
	check_fault(44, 45); /* of a token that was drawn */
	check_fault(29, 30); /* the prompt's last */
	check_fault(10, 30); /* within the prompt: it shows in the first row that is compared */
	set_attention(sound, NULL);
	assert_int_equal(again(file).err.code, 0);
}

static int make(void **state)
{
	struct tiny_options tiny = TINY_DEFAULTS;
	struct err err = { 0 };
	char *path, *second;

	(void)state;
	tiny.layers = 3; /* one before and one behind the layer that errs */
	path = tiny_temp(&tiny, &err);
	tiny.seed = 2;
	second = tiny_temp(&tiny, &err);
	if (!path || !second)
		return -1;
	snprintf(model, sizeof model, "%s", path);
	snprintf(other_model, sizeof other_model, "%s", second);
	snprintf(file, sizeof file, "/tmp/cutaway-verify-%d.db", (int)getpid());
	snprintf(copy, sizeof copy, "/tmp/cutaway-verify-%d-copy.db", (int)getpid());
	free(path);
	free(second);
	record(file, short_life, true);
	return 0;
}

static int clean(void **state)
{
	char command[256];

	(void)state;
	unlink(model);
	unlink(other_model);
	unlink(file);
	snprintf(command, sizeof command, "rm -f %s %s-wal %s-shm", copy, copy, copy);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_lossy),
		cmocka_unit_test(test_halved),
		cmocka_unit_test(test_range),
		cmocka_unit_test(test_changed_file),
		cmocka_unit_test(test_not_this),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_left_out),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_faulty_kernel),
	};

	return cmocka_run_group_tests(tests, make, clean);
}

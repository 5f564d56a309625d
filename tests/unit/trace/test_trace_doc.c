/* docs/trace.md is what the tables give, and what it says works: its queries and its Python run
 * against a recording that the engine makes here, and against a made-up one with more in it.
 *
 *     build/tests/test_trace_doc --write      writes docs/trace.md anew */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "engine/core/engine.h"
#include "tests/support/demo_events.h"
#include "tests/support/tiny.h"
#include "tests/support/trace_doc.h"
#include "trace/recording.h"
#include "trace/schema.h"
#include "trace/writer.h"

static char dir[64], path[2][96]; /* the engine's recording, the made-up one */
static sqlite3 *db[2];

static void submit(struct engine *e, int n, int seed, int64_t sample)
{
	int32_t ids[64];
	struct err err = { 0 };
	struct engine_request q = { .kind = EV_REQUEST_KIND_chat,
		.ids = ids,
		.n_ids = n,
		.max_tokens = 40,
		.params = SAMPLE_DEFAULTS,
		.sample = sample,
		.text = "a test",
		.ignore_end = true };

	for (int i = 0; i < n; i++)
		ids[i] = 3 + (i % 7 + seed * (i > 32)) % 200; /* repeats itself, for the drafter */
	if (engine_submit(e, &q, &err) < 0)
		fail_msg("%s", err.text);
}

/* given NULL: a tiny dense model. */
static void record_engine(const char *file, const char *given)
{
	struct tiny_options tiny = TINY_DEFAULTS;
	struct engine_options o = ENGINE_DEFAULTS;
	struct err err = { 0 };
	struct engine *e = NULL;
	struct ring *ring;
	struct writer *w;
	char *model = given ? NULL : tiny_temp(&tiny, &err);
	/* a canvas or states: no attention that could see less, no twin */
	const bool plain = given && (strstr(given, "llada") || strstr(given, "mamba2"));

	assert_true(given || model);
	o.model = given ? given : model;
	o.watch_layers = true;
	o.threads = 1;
	o.ctx = 128;
	o.spec = plain ? "off" : "ngram:3";
	o.twin = plain ? "off" : "on";
	o.visible = plain ? "full" : "sinks:2+window:20";
	if (ring_open(&ring, 1 << 22, &err) || writer_open(&w, file, ring, &err) ||
		engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, ring_push, ring);
	engine_begin(e, NULL);
	for (int i = 0; i < 4; i++) {
		submit(e, 40 + i, i / 2, i);
		while (engine_step(e, &err) > 0)
			;
	}
	engine_close(e);
	assert_int_equal(writer_close(w, &err), 0);
	ring_close(ring);
	if (model)
		unlink(model);
	free(model);
}

static void add(void *recording, const struct event *ev)
{
	struct err e = { 0 };

	if (recording_add(recording, ev, &e))
		fail_msg("%s", e.text);
}

static int open_all(void **state)
{
	struct recording *rec;
	struct err e = { 0 };

	(void)state;
	strcpy(dir, "/tmp/cutaway-doc-XXXXXX");
	assert_non_null(mkdtemp(dir));
	for (int i = 0; i < 2; i++)
		snprintf(path[i], sizeof path[i], "%s/%d.db", dir, i);
	record_engine(path[0], NULL);
	assert_int_equal(recording_create(&rec, path[1], &e), 0);
	demo_play(add, rec, DEMO_STEPS);
	assert_int_equal(recording_commit(rec, &e), 0);
	recording_close(rec, false);
	for (int i = 0; i < 2; i++)
		assert_int_equal(sqlite3_open_v2(path[i], &db[i], SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	return 0;
}

static int close_all(void **state)
{
	char command[100];

	(void)state;
	for (int i = 0; i < 2; i++)
		sqlite3_close(db[i]);
	snprintf(command, sizeof command, "rm -rf %s", dir);
	return system(command);
}

/* Number of rows; one that has nothing but NULL does not count. */
static int count_rows(sqlite3 *on, const char *sql)
{
	sqlite3_stmt *s;
	int n = 0, rc;

	if (sqlite3_prepare_v2(on, sql, -1, &s, NULL))
		fail_msg("%s: %s", sql, sqlite3_errmsg(on));
	while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
		int filled = 0;

		for (int i = 0; i < sqlite3_column_count(s); i++)
			filled |= sqlite3_column_type(s, i) != SQLITE_NULL;
		n += filled;
	}
	if (rc != SQLITE_DONE)
		fail_msg("%s: %s", sql, sqlite3_errmsg(on));
	sqlite3_finalize(s);
	return n;
}

static void test_queries(void **state)
{
	int n = 0;

	(void)state;
	for (const struct trace_query *q = trace_queries; q->question; q++, n++)
		for (int i = 0; i < 2; i++)
			if (!count_rows(db[i], q->sql))
				fail_msg("no answer in %s: %s", path[i], q->question);
	assert_int_equal(n, 10);
}

static void test_views(void **state)
{
	(void)state;
	for (const struct schema_view *v = schema_views; v->name; v++)
		for (int i = 0; i < 2; i++) {
			char *sql = sqlite3_mprintf("SELECT * FROM \"%w\"", v->name);

			/* the made-up session has no exact twin, counts no small values, and reads all */
			if (!count_rows(db[i], sql) && strcmp(v->name, "settings") &&
				strcmp(v->name, "expert_use") && strcmp(v->name, "layer_states") &&
				strcmp(v->name, "denoised") &&
				(!i || (strcmp(v->name, "prices") && strcmp(v->name, "near_zero_values") &&
						   strcmp(v->name, "pages_read"))))
				fail_msg("the view %s shows nothing of %s", v->name, path[i]);
			sqlite3_free(sql);
		}
}

/* A recording of a file of the zoo. */
static sqlite3 *recorded(const char *name)
{
	char file[80], model[80];
	sqlite3 *on;

	snprintf(file, sizeof file, "%s/%s.db", dir, name);
	snprintf(model, sizeof model, "tests/data/zoo/%s.gguf", name);
	record_engine(file, model);
	assert_int_equal(sqlite3_open_v2(file, &on, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	return on;
}

/* Of each watched row and layer the weights sum to 1, and as many experts as the model uses have
 * one. */
static void test_expert_use(void **state)
{
	sqlite3 *on = recorded("mixtral");

	(void)state;
	assert_true(count_rows(on, "SELECT 1 FROM expert_use WHERE weight > 0") > 40 * 2 * 2);
	assert_int_equal(
		count_rows(on,
			"SELECT 1 FROM expert_use GROUP BY seq, layer HAVING "
			"abs(sum(weight) - 1) > 0.02 OR sum(weight > 0) <> 2 OR abs(sum(share) - 2) > 0.001"),
		0);
	sqlite3_close(on);
}

/* A row has a line for each recurrent layer, in which half-lives ascend, and states that are not 0.
 */
static void test_layer_states(void **state)
{
	sqlite3 *on = recorded("mamba2");

	(void)state;
	assert_true(count_rows(on, "SELECT 1 FROM layer_states WHERE norm > 0 AND heads > 0") > 40);
	assert_int_equal(
		count_rows(on,
			"SELECT 1 FROM layer_states WHERE NOT (0 < shortest AND shortest <= median AND "
			"median <= coalesce(longest, 1e300))"),
		0);
	assert_int_equal(count_rows(on, "SELECT 1 FROM state"),
		count_rows(on,
			"SELECT 1 FROM layer_states GROUP BY seq HAVING count(*) = (SELECT n_layers FROM "
			"session)"));
	sqlite3_close(on);
}

/* Each position of each answer is fixed once, with the probability and the id of its token. */
static void test_denoised(void **state)
{
	sqlite3 *on = recorded("llada");

	(void)state;
	assert_true(count_rows(on, "SELECT 1 FROM token") > 0);
	assert_int_equal(
		count_rows(on,
			"SELECT 1 FROM token t LEFT JOIN denoised d ON d.request = t.request AND d.pos = t.pos "
			"AND d.fixed WHERE d.id IS NOT t.id OR d.p IS NOT t.p OR abs(d.entropy - t.entropy) > "
			"1e-5 OR (SELECT count(*) FROM denoised x WHERE x.request = t.request AND x.pos = "
			"t.pos AND x.fixed) <> 1"),
		0);
	sqlite3_close(on);
}

static sqlite3_stmt *prepare(sqlite3 *on, const char *sql)
{
	sqlite3_stmt *s;

	if (sqlite3_prepare_v2(on, sql, -1, &s, NULL))
		fail_msg("%s: %s", sql, sqlite3_errmsg(on));
	return s;
}

/* The column of a view is the float as it lies in the blob: the same bits. */
static void expect_float(sqlite3_stmt *s, int column, float want)
{
	if (!isfinite(want))
		assert_int_equal(sqlite3_column_type(s, column), SQLITE_NULL);
	else
		assert_true(sqlite3_column_type(s, column) == SQLITE_FLOAT &&
					sqlite3_column_double(s, column) == (double)want);
}

static void check_candidates(sqlite3 *on)
{
	sqlite3_stmt *t =
		prepare(on, "SELECT seq, candidates, stages FROM token WHERE length(candidates)");
	sqlite3_stmt *c =
		prepare(on, "SELECT id, logit, tempered_p, arrival, cut FROM candidates WHERE seq = ?");
	sqlite3_stmt *g =
		prepare(on, "SELECT tokens_left, mass_left, value FROM sampler_stages WHERE seq = ?");
	int tokens = 0;

	for (; tokens < 60 && sqlite3_step(t) == SQLITE_ROW; tokens++) {
		struct ev_candidate want[64];
		struct ev_stage stage[EV_N_STAGES];
		int n = sqlite3_column_bytes(t, 1) / (int)sizeof *want;

		assert_in_range(n, 1, 64);
		memcpy(want, sqlite3_column_blob(t, 1), (size_t)n * sizeof *want);
		sqlite3_bind_int64(c, 1, sqlite3_column_int64(t, 0));
		for (int i = 0; i < n; i++) {
			assert_int_equal(sqlite3_step(c), SQLITE_ROW);
			assert_int_equal(sqlite3_column_int64(c, 0), want[i].id);
			expect_float(c, 1, want[i].logit);
			expect_float(c, 2, want[i].p);
			expect_float(c, 3, want[i].arrival);
			assert_string_equal(sqlite3_column_text(c, 4), ev_code_name("cut", want[i].cut));
		}
		assert_int_equal(sqlite3_step(c), SQLITE_DONE);
		sqlite3_reset(c);
		if (sqlite3_column_bytes(t, 2) != (int)sizeof stage)
			continue;
		memcpy(stage, sqlite3_column_blob(t, 2), sizeof stage);
		sqlite3_bind_int64(g, 1, sqlite3_column_int64(t, 0));
		for (int i = 0; i < EV_N_STAGES; i++) {
			assert_int_equal(sqlite3_step(g), SQLITE_ROW);
			assert_int_equal(sqlite3_column_int64(g, 0), stage[i].left);
			expect_float(g, 1, stage[i].mass);
			expect_float(g, 2, stage[i].value);
		}
		sqlite3_reset(g);
	}
	assert_true(tokens > 20);
	sqlite3_finalize(t);
	sqlite3_finalize(c);
	sqlite3_finalize(g);
}

/* Floats of every size through the view, not only those that a session happens to have. */
static void test_floats(void **state)
{
	static const float value[] = { 0.f, -0.f, 1.f, -1.f, 0.1f, 1e-45f, -1e-40f, 1.17549435e-38f,
		3.4028235e38f, 16777217.f, (float)NAN, (float)INFINITY, -(float)INFINITY };
	struct ev_candidate c[sizeof value / sizeof *value];
	struct recording *rec;
	struct event ev;
	struct err e = { 0 };
	char file[100];
	sqlite3 *own;
	sqlite3_stmt *s;

	(void)state;
	snprintf(file, sizeof file, "%s/floats.db", dir);
	ev_init(&ev, EV_token);
	for (size_t i = 0; i < sizeof c / sizeof *c; i++)
		c[i] = (struct ev_candidate){ 0xfffffff0u + (uint32_t)i, value[i], 0, value[i], 0 };
	ev.seq = 1;
	ev.t_ns = 0;
	ev.u.token.candidates = (struct ev_span){ c, sizeof c };
	assert_int_equal(recording_create(&rec, file, &e), 0);
	assert_int_equal(recording_add(rec, &ev, &e), 0);
	assert_int_equal(recording_commit(rec, &e), 0);
	recording_close(rec, false);
	assert_int_equal(sqlite3_open_v2(file, &own, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	s = prepare(own, "SELECT id, logit FROM candidates");
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		assert_int_equal(sqlite3_step(s), SQLITE_ROW);
		assert_int_equal(sqlite3_column_int64(s, 0), c[i].id);
		expect_float(s, 1, value[i]);
	}
	sqlite3_finalize(s);
	sqlite3_close(own);
}

/* Adds the token of a position, drawn under a grammar, and its price; both were carried or not. */
static void add_bound(struct recording *rec, int64_t seq, int64_t pos, int64_t source)
{
	static const struct ev_stage stage[EV_MOST_STAGES] = { [EV_AT_GRAMMAR] = { 5, 0.5f, 2 } };
	static const struct ev_candidate c[] = { { 7, 3, 0, 0, EV_CUT_grammar }, { 8, 2, 1, 0, 0 } };
	struct event ev;

	ev_init(&ev, EV_price);
	ev.seq = seq;
	ev.t_ns = seq;
	ev.u.price.request = 1;
	ev.u.price.pos = pos;
	assert_int_equal(recording_add(rec, &ev, NULL), 0);
	ev_init(&ev, EV_token);
	ev.seq = seq + 1;
	ev.t_ns = seq + 1;
	ev.u.token =
		(struct ev_token){ .request = 1, .pos = pos, .id = 8, .source = source, .rank = 1 };
	ev.u.token.candidates = (struct ev_span){ c, sizeof c };
	ev.u.token.stages = (struct ev_span){ stage, sizeof stage };
	assert_int_equal(recording_add(rec, &ev, NULL), 0);
}

/* What was rewound is no part of an answer; a grammar has a stage, and ranks among what it allows;
 * a carried token has no latency. */
static void test_rewound_and_bound(void **state)
{
	struct recording *rec;
	struct event ev;
	char file[100];
	sqlite3 *own;

	(void)state;
	snprintf(file, sizeof file, "%s/rewound.db", dir);
	assert_int_equal(recording_create(&rec, file, NULL), 0);
	ev_init(&ev, EV_request);
	ev.seq = 1;
	ev.t_ns = 0;
	ev.u.request.request = 1;
	assert_int_equal(recording_add(rec, &ev, NULL), 0);
	add_bound(rec, 2, 10, EV_SOURCE_carried);
	add_bound(rec, 4, 11, EV_SOURCE_carried);
	ev_init(&ev, EV_rewind);
	ev.seq = 6;
	ev.t_ns = 5;
	ev.u.rewind = (struct ev_rewind){ .request = 1, .had = 12, .kept = 11, .forced = EV_NULL_I };
	assert_int_equal(recording_add(rec, &ev, NULL), 0);
	add_bound(rec, 7, 11, EV_SOURCE_carried);
	assert_int_equal(recording_commit(rec, NULL), 0);
	recording_close(rec, false);
	assert_int_equal(sqlite3_open_v2(file, &own, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(count_rows(own, "SELECT 1 FROM answers WHERE tokens = 2"), 1);
	assert_int_equal(count_rows(own, "SELECT 1 FROM prices WHERE tokens = 2"), 1);
	assert_int_equal(count_rows(own, "SELECT 1 FROM latency WHERE itl_p50_ms IS NULL"), 1);
	assert_int_equal(count_rows(own, "SELECT 1 FROM sampler_stages WHERE stage = 'grammar'"), 3);
	assert_int_equal(
		count_rows(own, "SELECT 1 FROM candidates WHERE rank IS iif(drawn, 1, NULL)"), 6);
	sqlite3_close(own);
}

/* Stages through the view are the numbers of the blob, up to the largest that SQL holds. */
static void test_kernel_stages(void **state)
{
	static const struct ev_stage_time told[] = { { EV_STAGE_down, 0, 1, 255 },
		{ EV_STAGE_embed, 256, 0xffffffff, 1ull << 32 },
		{ EV_STAGE_stats, 0x123456789abcdef, INT64_MAX, 7 }, { EV_N_stage, 1, 1, 1 } };
	struct recording *rec;
	struct event ev;
	struct err e = { 0 };
	char file[100];
	sqlite3 *own;
	sqlite3_stmt *s;

	(void)state;
	snprintf(file, sizeof file, "%s/stages.db", dir);
	ev_init(&ev, EV_time);
	ev.seq = 1;
	ev.t_ns = 0;
	ev.u.time = (struct ev_time){ 9, { told, 3 * sizeof *told } };
	assert_int_equal(recording_create(&rec, file, &e), 0);
	assert_int_equal(recording_add(rec, &ev, &e), 0);
	ev.seq = 2;
	ev.u.time = (struct ev_time){ 10, { told + 3, sizeof *told } };
	assert_int_equal(recording_add(rec, &ev, &e), 0);
	ev.seq = 3;
	/* no list of stages: none in the view */
	ev.u.time = (struct ev_time){ 11, { told, sizeof told - 8 } };
	assert_int_equal(recording_add(rec, &ev, &e), 0);
	assert_int_equal(recording_commit(rec, &e), 0);
	recording_close(rec, false);
	assert_int_equal(sqlite3_open_v2(file, &own, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	s = prepare(own, "SELECT step, stage, ns, bytes, ops FROM kernel_stages ORDER BY seq");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(sqlite3_step(s), SQLITE_ROW);
		assert_int_equal(sqlite3_column_int64(s, 0), 9);
		assert_string_equal(
			sqlite3_column_text(s, 1), ev_code_name("stage", (int64_t)told[i].stage));
		assert_int_equal(sqlite3_column_int64(s, 2), told[i].ns);
		assert_int_equal(sqlite3_column_int64(s, 3), told[i].bytes);
		assert_int_equal(sqlite3_column_int64(s, 4), told[i].ops);
	}
	assert_int_equal(sqlite3_step(s), SQLITE_ROW); /* a stage that has no name */
	assert_int_equal(sqlite3_column_type(s, 1), SQLITE_NULL);
	assert_int_equal(sqlite3_step(s), SQLITE_DONE);
	sqlite3_finalize(s);
	sqlite3_close(own);
}

static void test_unpacked(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		check_candidates(db[i]);
	/* Each layer's shares add up to about 1, for they are those of a softmax, in 8 bits. */
	assert_int_equal(count_rows(db[0], "SELECT seq FROM attention_pages GROUP BY seq, layer\n"
									   "HAVING abs(sum(share) - 1) > 0.1"),
		0);
	assert_int_equal(
		count_rows(db[0], "SELECT 1 FROM near_zero WHERE share NOT BETWEEN 0 AND 1"), 0);
	assert_int_equal(count_rows(db[0], "SELECT request FROM prompt_tokens GROUP BY request\n"
									   "HAVING count(*) = (SELECT n_prompt FROM request r\n"
									   "WHERE r.request = prompt_tokens.request)"),
		4);
	assert_int_equal(
		count_rows(db[1], "SELECT 1 FROM answers WHERE answer LIKE 'The sky appears blue%\xc3\xa9"
						  "clairant%'"),
		1);
}

/* Every table, view and column of the file is described in it. */
static void test_described(void **state)
{
	(void)state;
	assert_int_equal(
		count_rows(db[0], "SELECT m.name FROM sqlite_schema m WHERE m.type IN ('table', 'view')\n"
						  "AND m.name NOT IN ('doc', 'code')\n"
						  "AND NOT EXISTS (SELECT 1 FROM doc WHERE tbl = m.name AND col = ''\n"
						  "AND doc <> '')"),
		0);
	assert_int_equal(count_rows(db[0],
						 "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c\n"
						 "WHERE m.type = 'table' AND m.name NOT IN ('doc', 'code')\n"
						 "AND NOT EXISTS (SELECT 1 FROM doc WHERE tbl = m.name\n"
						 "AND col = c.name AND doc <> '')"),
		0);
}

/* The Python of the document, extracted and run, prints what the views say. */
static void test_python(void **state)
{
	char *doc = trace_doc(), *from = strstr(doc, "```python\n"), *to, file[100], command[300],
		 line[400];
	int candidates = 0, kernels = 0, lines = 0;
	FILE *f;

	(void)state;
	assert_non_null(from);
	from += strlen("```python\n");
	to = strstr(from, "```");
	snprintf(file, sizeof file, "%s/unpack.py", dir);
	f = fopen(file, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(from, 1, (size_t)(to - from), f), to - from);
	fclose(f);
	sqlite3_free(doc);
	snprintf(command, sizeof command, "python3 %s %s", file, path[0]);
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof line, f)) {
		lines++;
		candidates += !strncmp(line, "candidate ", 10);
		kernels += !strncmp(line, "kernels ", 8);
	}
	assert_int_equal(pclose(f), 0);
	assert_int_equal(candidates, count_rows(db[0], "SELECT 1 FROM candidates"));
	assert_int_equal(kernels, count_rows(db[0], "SELECT 1 FROM kernel_stages"));
	assert_int_equal(
		lines, count_rows(db[0], "SELECT 1 FROM candidates UNION ALL SELECT 1 FROM sampler_stages\n"
								 "UNION ALL SELECT 1 FROM near_zero\n"
								 "UNION ALL SELECT 1 FROM kernel_stages\n"
								 "UNION ALL SELECT 1 FROM request"));
}

static void test_document(void **state)
{
	char *doc = trace_doc(), *file = calloc(1, 1 << 20);
	FILE *f = fopen("docs/trace.md", "r");

	(void)state;
	assert_non_null(doc);
	if (!f)
		fail_msg("docs/trace.md is not there: build/tests/test_trace_doc --write");
	assert_true(fread(file, 1, (1 << 20) - 1, f) > 0);
	fclose(f);
	if (strcmp(doc, file))
		fail_msg("docs/trace.md is not what the tables give: build/tests/test_trace_doc --write");
	free(file);
	sqlite3_free(doc);
}

static int write_document(void)
{
	char *doc = trace_doc();
	FILE *f = fopen("docs/trace.md", "w");
	int rc = !doc || !f || fputs(doc, f) < 0;

	rc |= f && fclose(f);
	sqlite3_free(doc);
	return rc;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_document),
		cmocka_unit_test(test_queries),
		cmocka_unit_test(test_views),
		cmocka_unit_test(test_expert_use),
		cmocka_unit_test(test_layer_states),
		cmocka_unit_test(test_denoised),
		cmocka_unit_test(test_kernel_stages),
		cmocka_unit_test(test_rewound_and_bound),
		cmocka_unit_test(test_unpacked),
		cmocka_unit_test(test_floats),
		cmocka_unit_test(test_described),
		cmocka_unit_test(test_python),
	};

	if (argc > 1 && !strcmp(argv[1], "--write"))
		return write_document();
	return cmocka_run_group_tests_name("trace document", tests, open_all, close_all);
}

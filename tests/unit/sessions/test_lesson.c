/* Lessons: what Markdown becomes, what is refused and where, queries that only read, predictions
 * and their judgement; every shipped lesson can be read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include <sqlite3.h>

#include "sessions/lesson/lesson.h"
#include "trace/query.h"
#include "trace/schema.h"

static struct lesson *parsed(const char *text)
{
	struct err e = { 0 };
	struct lesson *l;

	if (lesson_parse(&l, "test", text, strlen(text), &e))
		fail_msg("%s", e.text);
	return l;
}

static void refused(const char *text, const char *why)
{
	struct err e = { 0 };
	struct lesson *l;

	assert_int_equal(lesson_parse(&l, "test", text, strlen(text), &e), -1);
	assert_null(l);
	if (!strstr(e.text, why))
		fail_msg("\"%s\" says nothing of \"%s\"", e.text, why);
}

static void parts_of_a_text(void **state)
{
	struct lesson *l = parsed(
		"# What is **it**?\n\nSome `code` and\nmore.\n\n- one\n- two\n\n3. three\n4. four\n\n"
		"```look pages\nfree\nshared\n```\n\n---\n\n```do\n/temp 0\nHello.\n```\n\n"
		"```predict\n? How many?\n= number, 10 %\nSELECT 1\n```\n\n"
		"```predict\n? Which?\n= one of up, down the hill\nSELECT 'up'\n```\n\n"
		"```check\n? True.\nSELECT 1,\n2\n```\n\n```\nplain\n```\n");
	static const enum lesson_kind kinds[] = { LESSON_HEADING, LESSON_PROSE, LESSON_ITEM,
		LESSON_ITEM, LESSON_ITEM, LESSON_ITEM, LESSON_LOOK, LESSON_PAGE, LESSON_DO, LESSON_PREDICT,
		LESSON_PREDICT, LESSON_CHECK, LESSON_CODE };

	(void)state;
	assert_int_equal(l->n, sizeof kinds / sizeof *kinds);
	for (int32_t i = 0; i < l->n; i++)
		assert_int_equal(l->part[i].kind, kinds[i]);
	assert_string_equal(l->title, "What is \1it\1?");
	assert_string_equal(l->part[1].text, "Some \2code\2 and more.");
	assert_int_equal(l->part[2].number, 0);
	assert_int_equal(l->part[5].number, 4);
	assert_string_equal(l->part[6].view, "pages");
	assert_string_equal(l->part[6].text, "free\nshared");
	assert_string_equal(l->part[8].text, "/temp 0\nHello.");
	assert_string_equal(l->part[9].text, "How many?");
	assert_true(fabs(l->part[9].tolerance - 0.1) < 1e-9);
	assert_int_equal(l->part[10].n_choices, 2);
	assert_string_equal(l->part[10].choice[1], "down the hill");
	assert_string_equal(l->part[11].sql, "SELECT 1,\n2");
	assert_int_equal(lesson_stop(l, 0), 7);
	assert_int_equal(lesson_stop(l, 8), 8);
	assert_int_equal(lesson_stop(l, 12), 13);
	lesson_free(l);
}

static void a_model_of_its_own(void **state)
{
	struct lesson *l = parsed("# T\n\n```model\nmamba2.gguf\n```\n\n```do\nHello.\n```\n");

	(void)state;
	assert_string_equal(l->model, "mamba2.gguf");
	assert_int_equal(lesson_stop(l, 0), 2);
	lesson_free(l);
	l = parsed("# T\n");
	assert_null(l->model);
	lesson_free(l);
}

static void ranks_of_its_own(void **state)
{
	struct lesson *l =
		parsed("# T\n\n```start\ntensor-parallel 2\npipeline-parallel 3\n```\n\n```do\nHi.\n```\n");
	const struct engine_options plain = ENGINE_DEFAULTS;
	struct engine_options o = plain;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(lesson_stop(l, 0), 2);
	assert_int_equal(lesson_options(l, &o, &e), 0);
	assert_true(o.tensor_parallel == 2 && o.pipeline_parallel == 3 && o.sequence_parallel == 1);
	assert_true(lesson_fits(l, NULL, &o) && !lesson_fits(l, NULL, &plain));
	o.tensor_parallel = 3; /* as many ranks, but others */
	o.pipeline_parallel = 2;
	assert_false(lesson_fits(l, NULL, &o));
	lesson_free(l);
	l = parsed("# T\n");
	assert_true(lesson_fits(l, NULL, &plain) && lesson_fits(l, NULL, &o));
	lesson_free(l);
	l = parsed("# T\n\n```start\nprefill-ranks 1\n```\n");
	o = plain;
	o.prefill_ranks = 1;
	assert_true(lesson_fits(l, NULL, &o) && !lesson_fits(l, NULL, &plain));
	lesson_free(l);
}

static void what_is_refused(void **state)
{
	(void)state;
	refused("", "without a text");
	refused("# T\n\n```do\n```\n", "line 3: a line to type");
	refused("# T\n\n```look\n```\n", "line 3: a view");
	refused("# T\n\n```model\n```\n", "line 3: the name of a model");
	refused("# T\n\n```model\none\ntwo\n```\n", "line 3: the name of a model");
	refused("# T\n\n```model\n/etc/passwd\n```\n", "without a folder");
	refused("# T\n\n```start\n```\n", "line 3: a line as");
	refused("# T\n\n```start\ntensor-parallel 64\n```\n", "line 3: a line as");
	refused("# T\n\n```start\ntensor-parallel 2\nmodel 2\n```\n", "line 3: a line as");
	refused("# T\n\n```start\nthreads 2\n```\n", "line 3: a line as");
	refused("```predict\n? Q\nSELECT 1\n```\n", "\"= number");
	refused("```predict\n? Q\n= number, -3 %\nSELECT 1\n```\n", "tolerance");
	refused("```predict\n? Q\n= one of yes\nSELECT 1\n```\n", "one of yes, no");
	refused("```predict\n= number\nSELECT 1\n```\n", "\"? …\"");
	refused("```check\n? Q\n```\n", "a query");
}

/* Whatever the bytes: an error, or parts whose text has no control characters but styles. */
static void any_bytes(void **state)
{
	static const char *const pieces[] = { "```predict\n", "```do\n", "```look x\n", "```\n",
		"? q\n", "= number\n", "= one of a, b\n", "---\n", "# ", "- ", "1. ", "**", "`", "\n",
		"\n\n", "text", "\x1b[31m", "\x01\x02", "\xff\xfe", "\t", "> ", "SELECT 1\n", "=", "?",
		"  - " };
	uint32_t s = 7;

	(void)state;
	for (int round = 0; round < 4000; round++) {
		char text[600];
		size_t n = 0;
		struct lesson *l;
		struct err e = { 0 };

		for (int i = 0; i < 30; i++) {
			const char *piece;

			s = s * 1664525 + 1013904223;
			piece = pieces[(s >> 8) % (sizeof pieces / sizeof *pieces)];
			memcpy(text + n, piece, strlen(piece));
			n += strlen(piece);
		}
		if (lesson_parse(&l, "test", text, n, &e)) {
			assert_true(e.code == ERR_INPUT && !l);
			continue;
		}
		for (int32_t i = 0; i < l->n; i++)
			for (const char *c = l->part[i].text; c && *c; c++)
				assert_true((unsigned char)*c >= ' ' || *c == '\n' || *c <= LESSON_SLANTED);
		lesson_free(l);
	}
}

/* ---- queries ---- */

static char path[] = "/tmp/cutaway-lesson-XXXXXX";

static int make_file(void **state)
{
	sqlite3 *db;
	int fd = mkstemp(path);

	(void)state;
	close(fd);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(schema_create(db), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(db, "INSERT INTO cancel VALUES (1, 2, 3), (2, 3, 5)", 0, 0, 0), SQLITE_OK);
	sqlite3_close(db);
	return 0;
}

static int drop_file(void **state)
{
	(void)state;
	return unlink(path);
}

static void asked(const char *sql, const char *text, double value)
{
	int64_t left = LESSON_ASK_NS;
	struct lesson_found f;
	struct err e = { 0 };

	if (lesson_ask(path, sql, &left, &f, &e))
		fail_msg("%s: %s", sql, e.text);
	assert_int_equal(f.known, text != NULL);
	if (text)
		assert_string_equal(f.text, text);
	assert_true(isnan(value) ? isnan(f.value) : f.value == value);
}

static void not_asked(const char *sql, const char *why)
{
	int64_t left = LESSON_ASK_NS;
	struct lesson_found f;
	struct err e = { 0 };

	assert_int_equal(lesson_ask(path, sql, &left, &f, &e), -1);
	assert_int_equal(e.code, ERR_INPUT);
	if (!strstr(e.text, why))
		fail_msg("%s: \"%s\" says nothing of \"%s\"", sql, e.text, why);
}

static void queries_only_read(void **state)
{
	(void)state;
	asked("SELECT count(*) FROM cancel", "2", 2);
	asked("SELECT 1.5 * request FROM cancel ORDER BY seq DESC;", "7.5", 7.5);
	asked("SELECT 'yes'", "yes", NAN);
	asked("SELECT NULL", NULL, NAN);
	asked("SELECT request FROM cancel WHERE 0", NULL, NAN);
	asked(
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT sum(i) "
		"FROM n",
		"45", 45);
	not_asked("DELETE FROM cancel", "not authorized");
	not_asked("ATTACH '/tmp/x.db' AS x", "not authorized");
	not_asked("PRAGMA user_version = 3", "not authorized");
	not_asked("SELECT load_extension('x')", "not authorized");
	not_asked("SELECT 1; SELECT 2", "one SELECT");
	not_asked("", "one SELECT");
	not_asked("SELECT naught FROM cancel", "no such column");
	not_asked(
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
		"too long");
	/* nothing can stop a function: its texts and patterns are short, and between any two of them it
	 * is asked whether to go on */
	not_asked("SELECT printf('%.250000c', 'a') LIKE '%' || printf('%.45000c', 'a') || 'b'",
		"pattern too complex");
	asked("SELECT printf('%.*c', 1 << 25, 'a') = 'b'", NULL, NAN);
	/* SQLite's own take seconds for each of these */
	asked(
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 99), a(t) AS (SELECT "
		"printf('%.261000c', 'a')) SELECT sum(instr(t, substr(t, 130000 + i) || 'b')) FROM n, a",
		"0", 0);
	asked(
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 99), a(t) AS (SELECT "
		"printf('%.261000c', 'a')) SELECT sum(length(replace(t, substr(t, 130000 + i) || 'b', "
		"''))) FROM n, a",
		"25839000", 25839000);
	not_asked("SELECT trim('aa', 'ba')", "not authorized");
	not_asked(
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n), a(t) AS (SELECT "
		"printf('%.250000c', 'a')) SELECT sum(instr(t, substr(t, i % 9 + 1, 125000) || 'b')) FROM "
		"n, a",
		"too long");
}

/* Our instr() and replace() against SQLite's. */
static void functions(void **state)
{
	static const char *const calls[] = { "instr('aXbX', 'X')", "instr('Größe', 'e')",
		"instr(x'c3b6', x'b6')", "instr('a', '')", "instr('', '')", "instr('', 'a')",
		"instr(NULL, 'a')", "instr('a', NULL)", "instr(1234, 34)", "instr('abc', x'63')",
		"instr(x'', x'')", "replace('aXbX', 'X', 'yy')", "replace('a', '', 'b')",
		"replace('', 'a', 'b')", "replace(NULL, 'a', 'b')", "replace('aaa', 'aa', '')",
		"replace('a', 'a', '')", "replace(1210, 1, 'ö')", "replace('x', NULL, 'y')",
		"replace(x'616263', 'b', 'ö')" };
	struct query_bound b = { .most_ns = LESSON_ASK_NS, .longest = 1000 };
	sqlite3 *own, *theirs;

	(void)state;
	assert_int_equal(sqlite3_open(":memory:", &own) || sqlite3_open(":memory:", &theirs), 0);
	query_bind(own, &b);
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		char sql[200];
		sqlite3_stmt *x, *y = NULL;

		snprintf(sql, sizeof sql, "SELECT quote(%s) || typeof(%s)", calls[i], calls[i]);
		assert_int_equal(sqlite3_prepare_v2(own, sql, -1, &x, NULL) ||
							 sqlite3_prepare_v2(theirs, sql, -1, &y, NULL),
			0);
		assert_int_equal(sqlite3_step(x), SQLITE_ROW);
		assert_int_equal(sqlite3_step(y), SQLITE_ROW);
		if (strcmp((const char *)sqlite3_column_text(x, 0),
				(const char *)sqlite3_column_text(y, 0)) != 0)
			fail_msg("%s: %s", calls[i], sqlite3_column_text(x, 0));
		sqlite3_finalize(x);
		sqlite3_finalize(y);
	}
	sqlite3_close(own);
	sqlite3_close(theirs);
}

/* All of one stop share a time. */
static void one_time_for_all(void **state)
{
	int64_t left = 50000000;
	struct lesson_found f;
	struct err e = { 0 };

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(
			lesson_ask(path,
				"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) "
				"FROM n",
				&left, &f, &e),
			-1);
		assert_true(left <= 0);
		e.code = 0;
	}
	assert_true(left > -LESSON_ASK_NS * 100);
}

/* ---- predictions ---- */

static void predicted(
	const struct lesson_part *p, const char *typed, const char *want, double value)
{
	struct err e = { 0 };
	char text[64];
	double v;

	assert_int_equal(lesson_read_answer(p, typed, text, sizeof text, &v, &e), want ? 0 : -1);
	if (want)
		assert_string_equal(text, want);
	if (want && !isnan(value))
		assert_true(v == value);
}

static void predictions(void **state)
{
	struct lesson *l = parsed("```predict\n? N\n= number, 10 %\nSELECT 1\n```\n\n"
							  "```predict\n? W\n= one of up, down\nSELECT 1\n```\n");
	const struct lesson_part *number = &l->part[0], *word = &l->part[1];
	struct lesson_found hundred = { .known = true, .text = "100", .value = 100 },
						up = { .known = true, .text = "up", .value = NAN }, none = { .value = NAN },
						odd = { .known = true, .text = "left", .value = NAN };

	(void)state;
	predicted(number, " 1,024 ", "1024", 1024);
	predicted(number, "1,000,000", "1e+06", 1e6);
	predicted(number, "-1,040.5", "-1040.5", -1040.5);
	predicted(number, "1 000", "1000", 1000);
	predicted(number, "1_000", "1000", 1000);
	predicted(number, "7,5", "7.5", 7.5);
	predicted(number, "6,5 %", "6.5", 6.5);
	predicted(number, "1,5k", "1500", 1500);
	predicted(number, "0,125", "0.125", 0.125);
	predicted(number, "1234,567", "1234.57", 1234.567);
	predicted(number, ",500", "0.5", 0.5);
	predicted(number, "1,2,3", NULL, 0);
	predicted(number, "1,00,000", NULL, 0);
	predicted(number, "1.000,5", NULL, 0);
	predicted(number, ",", NULL, 0);
	predicted(number, "1.5k", "1500", 1500);
	predicted(number, "30 %", "30", 30);
	predicted(number, "many", NULL, 0);
	predicted(number, "nan", NULL, 0);
	predicted(word, "UP", "up", NAN);
	predicted(word, "b", "down", NAN);
	predicted(word, "left", NULL, 0);
	assert_int_equal(lesson_judge(number, "110", 110, &hundred), EV_ANSWER_right);
	assert_int_equal(lesson_judge(number, "111", 111, &hundred), EV_ANSWER_wrong);
	assert_int_equal(lesson_judge(number, NULL, NAN, &hundred), EV_ANSWER_shown);
	assert_int_equal(lesson_judge(number, "1", 1, &none), EV_ANSWER_open);
	assert_int_equal(lesson_judge(word, "up", NAN, &up), EV_ANSWER_right);
	assert_int_equal(lesson_judge(word, "down", NAN, &up), EV_ANSWER_wrong);
	assert_int_equal(lesson_judge(word, NULL, NAN, &odd), EV_ANSWER_failed);
	lesson_free(l);
}

/* ---- files ---- */

static void shipped_lessons_can_be_read(void **state)
{
	const char *name;
	int n = 0;

	(void)state;
	for (; (name = lesson_name(n)); n++) {
		struct err e = { 0 };
		struct lesson *l = NULL;
		size_t size;
		char *text;

		if (lesson_load(name, &text, &size, &e) || lesson_parse(&l, name, text, size, &e))
			fail_msg("%s", e.text);
		assert_non_null(l->title);
		if (!strchr(l->title, '?'))
			fail_msg("%s opens with no question", name);
		lesson_free(l);
		free(text);
	}
	assert_true(n > 2);
}

/* A model that a lesson brought is not that of the lessons without one. */
static void what_comes_next(void **state)
{
	const struct engine_options now = ENGINE_DEFAULTS;
	char next[64];

	(void)state;
	assert_true(lesson_next("price", "models/any.gguf", &now, next, sizeof next));
	assert_string_equal(next, "outliers");
	assert_true(lesson_next("price", NULL, &now, next, sizeof next));
	assert_string_equal(next, "fewer-bits");
	assert_true(lesson_next("fewer-bits", "x/stories-f16.gguf", &now, next, sizeof next));
	assert_string_equal(next, "distillation");
	assert_false(lesson_next("distillation", "x/stories-f16.gguf", &now, next, sizeof next));
	assert_true(lesson_next("going-back", NULL, NULL, next, sizeof next));
	assert_string_equal(next, "ranks"); /* which has ranks to begin with */
	assert_false(lesson_next("no-such-lesson", NULL, &now, next, sizeof next));
}

static void progress_and_a_lesson_of_ones_own(void **state)
{
	char home[] = "/tmp/cutaway-home-XXXXXX", command[100], *own, *text;
	struct lesson_progress p;
	struct err e = { 0 };
	struct lesson *l;
	size_t size;

	(void)state;
	assert_non_null(mkdtemp(home));
	setenv("XDG_DATA_HOME", home, 1);
	lesson_progress_get("mine", &p);
	assert_int_equal(p.parts, 0);
	lesson_progress_put("mine", 3, 9);
	lesson_progress_put("other", 1, 2);
	lesson_progress_put("mine", 9, 9);
	lesson_progress_get("mine", &p);
	assert_true(p.part == 9 && p.parts == 9 && p.unix_s > 0);
	lesson_progress_put("mine", 3, 9);
	lesson_progress_get("mine", &p);
	assert_true(p.part == 9 && p.parts == 9); /* the furthest */
	lesson_progress_put("mine", 3, 8);
	lesson_progress_get("mine", &p);
	assert_true(p.part == 3 && p.parts == 8); /* it is another lesson now */
	assert_int_equal(lesson_new("mine", &own, &e), 0);
	free(own);
	assert_int_equal(lesson_new("mine", &own, &e), -1);
	assert_int_equal(lesson_new("../x", &own, &e), -1);
	e = (struct err){ 0 };
	assert_int_equal(lesson_new("kv-cache", &own, &e), -1); /* it would hide the shipped one */
	assert_non_null(strstr(e.text, "choose another name"));
	e = (struct err){ 0 };
	assert_int_equal(lesson_load("mine", &text, &size, &e), 0);
	assert_int_equal(lesson_parse(&l, "mine", text, size, &e), 0);
	lesson_free(l);
	free(text);
	assert_int_equal(lesson_load("kv-cash", &text, &size, &e), -1);
	assert_non_null(strstr(e.text, "did you mean kv-cache?"));
	snprintf(command, sizeof command, "rm -r %s", home);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_of_a_text),
		cmocka_unit_test(a_model_of_its_own),
		cmocka_unit_test(ranks_of_its_own),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(any_bytes),
		cmocka_unit_test(queries_only_read),
		cmocka_unit_test(functions),
		cmocka_unit_test(one_time_for_all),
		cmocka_unit_test(predictions),
		cmocka_unit_test(shipped_lessons_can_be_read),
		cmocka_unit_test(what_comes_next),
		cmocka_unit_test(progress_and_a_lesson_of_ones_own),
	};

	return cmocka_run_group_tests_name("lesson", tests, make_file, drop_file);
}

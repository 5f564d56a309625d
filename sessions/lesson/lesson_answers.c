/* See lesson_answers.h. */
#include "sessions/lesson/lesson_answers.h"

#include "base/array.h"
#include "base/median.h"
#include "base/text.h"
#include "trace/foreign.h"

void answers_free(struct answers *a)
{
	for (int32_t i = 0; i < a->n; i++) {
		free(a->at[i].lesson);
		free(a->at[i].question);
		free(a->at[i].predicted);
		free(a->at[i].found);
	}
	free(a->at);
}

/* A file's text may hold anything; what a terminal could obey becomes a stand-in. */
static char *text_of(sqlite3_stmt *s, int column)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	return text ? text_clean(text, (size_t)sqlite3_column_bytes(s, column), false, NULL) : NULL;
}

static double real_of(sqlite3_stmt *s, int column)
{
	return sqlite3_column_type(s, column) == SQLITE_NULL ? (double)NAN
														 : sqlite3_column_double(s, column);
}

/* Of the answers to a question the newest (bare columns are those of the row with the maximum). */
static const char sql[] =
	"SELECT lesson, question, predicted, found, ask, verdict, value, measured, tolerance, part, "
	"(SELECT reader FROM lesson WHERE lesson.seq < newest AND reader IS NOT NULL "
	"ORDER BY lesson.seq DESC LIMIT 1) FROM (SELECT *, max(seq) AS newest FROM answer "
	"WHERE lesson IS NOT NULL AND question IS NOT NULL GROUP BY lesson, part) ORDER BY newest";
static const char count_sql[] =
	"SELECT (SELECT count(*) FROM answer) + (SELECT count(*) FROM lesson)";

/* A longer one is no class's, and the query above would take long. */
static int check_size(struct foreign *f, const char *path, struct err *e)
{
	sqlite3_stmt *s = NULL;
	int rc = sqlite3_prepare_v2(f->db, count_sql, -1, &s, NULL);

	rc = rc || sqlite3_step(s) != SQLITE_ROW ? foreign_fail(f->db, path, e)
		 : sqlite3_column_int64(s, 0) > ANSWERS_MOST
			 ? err_set(e, ERR_INPUT, "%s: more than %d answers and marks of lessons", path,
				   ANSWERS_MOST)
			 : 0;
	sqlite3_finalize(s);
	return rc;
}

/* The name that the reader gave, or the recording's. */
static void name_reader(struct answer *row, sqlite3_stmt *s, const char *path)
{
	const char *file = basename(path), *dot = strrchr(file, '.');
	char *reader = text_of(s, 10);

	snprintf(row->reader, sizeof row->reader, "%s", reader ? reader : "");
	free(reader);
	if (!*row->reader)
		text_cleaned(row->reader, sizeof row->reader, file,
			dot > file ? (size_t)(dot - file) : strlen(file));
}

static int take_row(struct answers *a, sqlite3_stmt *s, const char *path, struct err *e)
{
	struct answer *row;

	if (a->n == ANSWERS_MOST)
		return err_set(e, ERR_INPUT, "more than %d answers: give fewer recordings", ANSWERS_MOST);
	if (!ARRAY_ROOM(a->at, a->cap, a->n + 1))
		return err_no_memory(e, "the answers");
	row = &a->at[a->n++];
	*row = (struct answer){ .lesson = text_of(s, 0),
		.question = text_of(s, 1),
		.predicted = text_of(s, 2),
		.found = text_of(s, 3),
		.ask = sqlite3_column_int64(s, 4),
		.verdict = sqlite3_column_int64(s, 5),
		.value = real_of(s, 6),
		.measured = real_of(s, 7),
		.tolerance = real_of(s, 8),
		.part = sqlite3_column_int64(s, 9),
		.recording = a->n_read };
	name_reader(row, s, path);
	return row->lesson && row->question ? 0 : err_no_memory(e, "the answers");
}

int answers_read(struct answers *a, const char *path, struct err *e)
{
	sqlite3_stmt *s = NULL;
	struct foreign f;
	int rc;

	if (foreign_open(&f, path, e))
		return -1;
	rc = check_size(&f, path, e);
	if (!rc && sqlite3_prepare_v2(f.db, sql, -1, &s, NULL))
		rc = foreign_fail(f.db, path, e);
	else if (!rc) {
		while ((rc = sqlite3_step(s)) == SQLITE_ROW && !take_row(a, s, path, e))
			;
		rc = rc == SQLITE_DONE ? 0 : rc == SQLITE_ROW ? -1 : foreign_fail(f.db, path, e);
	}
	sqlite3_finalize(s);
	foreign_close(&f);
	a->n_read++;
	return rc;
}

/* ---- by lesson and question ---- */

static int apart(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

int answers_order(const void *x, const void *y)
{
	const struct answered *a = x, *b = y;
	int d = apart(a->lesson, b->lesson);

	d = d ? d : apart(a->part, b->part);
	d = d ? d : apart(a->question, b->question);
	d = d ? d : !a->a->predicted - !b->a->predicted;
	if (d || !a->a->predicted)
		return d ? d : apart(a->a - b->a, 0);
	d = (a->a->value > b->a->value) - (a->a->value < b->a->value);
	d = d ? d : strcmp(a->a->predicted, b->a->predicted);
	return d ? d : apart(a->a - b->a, 0);
}

static bool same_question(const struct answer *a, const struct answer *b)
{
	return !strcmp(a->lesson, b->lesson) && !strcmp(a->question, b->question) && a->ask == b->ask;
}

struct answered *answers_sorted(const struct answers *a)
{
	struct answered *c = calloc((size_t)a->n, sizeof *c);

	for (int32_t i = 0, k; c && i < a->n; i++) {
		c[i].a = &a->at[i];
		for (k = 0; strcmp(a->at[k].lesson, a->at[i].lesson) != 0;)
			k++;
		c[i].lesson = k;
		for (; !same_question(&a->at[k], &a->at[i]);)
			k++;
		c[i].question = k;
		c[i].part = a->at[k].part;
	}
	if (c)
		qsort(c, (size_t)a->n, sizeof *c, answers_order);
	return c;
}

int32_t answers_run(const struct answered *c, int32_t n, bool question)
{
	int32_t k = 1;

	while (k < n && c[k].lesson == c->lesson && (!question || c[k].question == c->question))
		k++;
	return k;
}

struct spread answers_spread(const struct answered *c, int32_t n, bool measured)
{
	double *v = calloc((size_t)n, sizeof *v);
	struct spread s = { 0 };

	for (int32_t i = 0; v && i < n; i++) {
		const double x = measured ? c[i].a->measured : c[i].a->value;

		if (!isnan(x))
			v[s.n++] = x;
	}
	if (s.n) {
		sorted_of(v, s.n);
		s.least = v[0];
		s.median = s.n % 2 ? v[s.n / 2] : (v[s.n / 2 - 1] + v[s.n / 2]) / 2;
		s.most = v[s.n - 1];
	}
	free(v);
	return s;
}

int answers_count(const struct answered *c, int32_t n, bool right)
{
	int found = 0;

	for (int32_t i = 0; i < n; i++)
		found += (c->a->ask == EV_ASK_check || c[i].a->predicted) &&
				 (!right || c[i].a->verdict == EV_ANSWER_right);
	return found;
}

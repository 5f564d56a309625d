/* See lesson.h: the answers of a class, one row a question. */
#include "sessions/lesson/lesson.h"
#include "sessions/lesson/lesson_answers.h"

enum { BAR = 40 }; /* columns */

/* ---- the table ---- */

static bool seen_before(const struct answers *a, int32_t at)
{
	for (int32_t i = 0; i < at; i++)
		if (answers_same(&a->at[i], &a->at[at]))
			return true;
	return false;
}

static void print_spread(FILE *out, const char *word, struct spread s)
{
	if (s.n == 1 || (s.n && s.least == s.most))
		fprintf(out, "  %s %g", word, s.median);
	else if (s.n)
		fprintf(out, "  %s %g (%g to %g)", word, s.median, s.least, s.most);
}

/* By what was predicted; who left it out comes last. */
static int by_predicted(const void *x, const void *y)
{
	const struct answer *a = *(struct answer *const *)x, *b = *(struct answer *const *)y;

	if (!a->predicted || !b->predicted)
		return !a->predicted - !b->predicted;
	return isnan(a->value) || isnan(b->value) ? strcmp(a->predicted, b->predicted)
											  : (a->value > b->value) - (a->value < b->value);
}

/* How many predicted what: a bar for each prediction, of up to so many marks. */
static void print_bars(struct answer *const *of, int32_t n, FILE *out)
{
	for (int32_t i = 0, k; i < n && of[i]->predicted; i += k) {
		fprintf(out, "    %-12s ", of[i]->predicted);
		for (k = 0; i + k < n && of[i + k]->predicted && !by_predicted(of + i, of + i + k); k++)
			if (k < BAR)
				putc('#', out);
		fprintf(out, " %d\n", k);
	}
}

static void print_who(const struct answers *a, const struct answer *like, FILE *out)
{
	struct answer **of = calloc((size_t)a->n, sizeof *of);
	int32_t n = 0;

	for (int32_t i = 0; of && i < a->n; i++)
		if (answers_same(&a->at[i], like))
			of[n++] = &a->at[i];
	if (n > 1) {
		qsort(of, (size_t)n, sizeof *of, by_predicted);
		print_bars(of, n, out);
	}
	for (int32_t i = 0; i < n; i++)
		fprintf(out, "    %-20s %s -> %s  %s\n", of[i]->reader,
			of[i]->predicted ? of[i]->predicted : "left out",
			of[i]->found ? of[i]->found : "not measured",
			of[i]->verdict == EV_ANSWER_right   ? "right"
			: of[i]->verdict == EV_ANSWER_wrong ? "wrong"
												: "");
	free(of);
}

static void print_table(const struct answers *a, FILE *out)
{
	const char *lesson = "";

	for (int32_t i = 0; i < a->n; i++) {
		const struct answer *q = &a->at[i];

		if (seen_before(a, i))
			continue;
		if (strcmp(lesson, q->lesson) != 0)
			fprintf(out, "%s%s\n", *lesson ? "\n" : "", q->lesson);
		lesson = q->lesson;
		fprintf(out, "  %s\n   ", q->question);
		print_spread(out, "predicted", answers_spread(a, q, false));
		if (q->ask == EV_ASK_predict)
			print_spread(out, "measured", answers_spread(a, q, true));
		if (answers_count(a, q, false))
			fprintf(out, "  %s %d of %d\n", q->ask == EV_ASK_check ? "holds in" : "right",
				answers_count(a, q, true), answers_count(a, q, false));
		else
			fputs("  nobody predicted it\n", out);
		if (q->ask == EV_ASK_predict)
			print_who(a, q, out);
	}
}

static const struct listing_column columns[] = { { "lesson", NULL, 0 }, { "question", NULL, 0 },
	{ "reader", NULL, 0 }, { "ask", NULL, 0 }, { "predicted", NULL, 0 }, { "found", NULL, 0 },
	{ "right", NULL, 0 }, { 0 } };

/* An answer a row, in the order of the files. */
static int list(const struct answers *a, bool json, const char *csv, struct err *e)
{
	struct listing l;
	struct json j = { 0 };

	if (json)
		json_array(&j, NULL);
	if (listing_open(&l, columns, NULL, json ? &j : NULL, csv, e))
		return -1;
	for (int32_t i = 0; i < a->n; i++) {
		const struct answer *q = &a->at[i];

		listing_text(&l, q->lesson);
		listing_text(&l, q->question);
		listing_text(&l, q->reader);
		listing_text(&l, q->ask == EV_ASK_check ? "check" : "predict");
		listing_text(&l, q->predicted);
		listing_text(&l, q->found);
		listing_bool(&l, q->verdict == EV_ANSWER_right);
	}
	return listing_end(&l, 0, e);
}

int lesson_report(char *const *path, int n, const struct lesson_report_to *to, struct err *e)
{
	struct answers a = { 0 };
	int rc = 0;

	for (int i = 0; i < n && !rc; i++)
		rc = answers_read(&a, path[i], e);
	if (!rc && !a.n)
		rc = err_set(e, ERR_INPUT, "no answers in %s: none of them is of a lesson",
			n == 1 ? path[0] : "these recordings");
	if (!rc)
		rc = list(&a, to->json, to->csv, e);
	if (!rc && to->html)
		rc = answers_html(&a, to->html, e);
	if (!rc && !to->json)
		print_table(&a, to->out);
	answers_free(&a);
	return rc;
}

int lesson_verdicts(const char *path, const char *name, FILE *out, struct err *e)
{
	struct answers a = { 0 };
	int failed = 0, rc = answers_read(&a, path, e);

	if (!rc && !a.n)
		rc = err_set(e, ERR_INPUT, "%s: it asked and checked nothing", name);
	for (int32_t i = 0; i < a.n && !rc; i++) {
		const struct answer *q = &a.at[i];
		bool good = q->verdict == EV_ANSWER_right || q->verdict == EV_ANSWER_shown;

		fprintf(out, "%s - %s: %s%s%s%s\n", good ? "ok" : "not ok", q->lesson, q->question,
			q->found ? " (" : "", q->found ? q->found : "", q->found ? ")" : "");
		failed += !good;
	}
	fflush(out);
	answers_free(&a);
	return rc ? -1 : failed;
}

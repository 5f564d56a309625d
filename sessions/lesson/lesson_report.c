/* See lesson.h: the answers of a class, one row a question. */
#include "sessions/lesson/lesson.h"
#include "sessions/lesson/lesson_answers.h"

enum { BAR = 40 }; /* columns */

/* ---- the table ---- */

static void print_spread(FILE *out, const char *word, struct spread s)
{
	if (s.n == 1 || (s.n && s.least == s.most))
		fprintf(out, "  %s %g", word, s.median);
	else if (s.n)
		fprintf(out, "  %s %g (%g to %g)", word, s.median, s.least, s.most);
}

/* How many predicted what: a bar for each prediction, of up to so many marks. */
static void print_bars(const struct answered *c, int32_t n, FILE *out)
{
	for (int32_t i = 0, k; i < n && c[i].a->predicted; i += k) {
		fprintf(out, "    %-12s ", c[i].a->predicted);
		for (k = 0; i + k < n && c[i + k].a->predicted &&
					!strcmp(c[i].a->predicted, c[i + k].a->predicted);
			 k++)
			if (k < BAR)
				putc('#', out);
		fprintf(out, " %d\n", k);
	}
}

static void print_who(const struct answer *a, FILE *out)
{
	fprintf(out, "    %-20s %s -> %s  %s\n", a->reader, a->predicted ? a->predicted : "left out",
		a->found ? a->found : "not measured",
		a->verdict == EV_ANSWER_right   ? "right"
		: a->verdict == EV_ANSWER_wrong ? "wrong"
										: "");
}

static void print_question(const struct answered *c, int32_t n, FILE *out)
{
	const bool predicts = c->a->ask == EV_ASK_predict;
	const int asked = answers_count(c, n, false);

	fprintf(out, "  %s\n   ", c->a->question);
	print_spread(out, "predicted", answers_spread(c, n, false));
	if (predicts)
		print_spread(out, "measured", answers_spread(c, n, true));
	if (asked)
		fprintf(out, "  %s %d of %d\n", predicts ? "right" : "holds in", answers_count(c, n, true),
			asked);
	else
		fputs("  nobody predicted it\n", out);
	if (predicts && n > 1)
		print_bars(c, n, out);
	for (int32_t i = 0; i < n && predicts; i++)
		print_who(c[i].a, out);
}

static void print_table(const struct answered *c, int32_t n, FILE *out)
{
	for (int32_t i = 0, k; i < n; i += k) {
		k = answers_run(c + i, n - i, true);
		if (!i || c[i].lesson != c[i - 1].lesson)
			fprintf(out, "%s%s\n", i ? "\n" : "", c[i].a->lesson);
		print_question(c + i, k, out);
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
		if (q->verdict == EV_ANSWER_right || q->verdict == EV_ANSWER_wrong)
			listing_bool(&l, q->verdict == EV_ANSWER_right);
		else /* left out, or never measured */
			listing_text(&l, NULL);
	}
	return listing_end(&l, 0, e);
}

int lesson_report(char *const *path, int n, const struct lesson_report_to *to, struct err *e)
{
	struct answers a = { 0 };
	struct answered *c;
	int rc = 0;

	for (int i = 0; i < n && !rc; i++)
		rc = answers_read(&a, path[i], e);
	if (!rc && !a.n)
		rc = err_set(e, ERR_INPUT, "no answers in %s: none of them is of a lesson",
			n == 1 ? path[0] : "these recordings");
	if (!rc)
		rc = list(&a, to->json, to->csv, e);
	c = rc ? NULL : answers_sorted(&a);
	if (!rc && !c)
		rc = err_no_memory(e, "the answers");
	if (!rc && !to->json)
		print_table(c, a.n, to->out);
	if (!rc && to->html)
		rc = answers_html(c, a.n, to->html, e);
	free(c);
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

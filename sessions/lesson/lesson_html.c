/* See lesson_answers.h. A page without scripts: lesson by lesson how the predictions lie, then a
 * table of its readers. All texts are foreign and go through put(). */
#include "base/embed.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "event/event.h"
#include "sessions/lesson/lesson_answers.h"

EMBED(lesson_page, "sessions/lesson/lesson_page.html");

/* Units of a picture: its plot, a dot, the highest pile. BINS: places for dots. COLUMNS: questions
 * in a table; WORDS: of a question without numbers. */
enum {
	PLOT_W = 640,
	PLOT_X = 20,
	BIN = 8,
	BINS = PLOT_W / BIN,
	PILE = 160,
	COLUMNS = 60,
	WORDS = 20
};

static void put(FILE *out, const char *text)
{
	text_xml(out, text, strlen(text));
}

static int by_reader(const void *x, const void *y)
{
	const struct answered *a = x, *b = y;
	int d = a->lesson - b->lesson;

	d = d ? d : a->a->recording - b->a->recording;
	d = d ? d : strcmp(a->a->reader, b->a->reader);
	return d ? d : answers_order(x, y);
}

static const char *class_of(const struct answer *a)
{
	return a->verdict == EV_ANSWER_right   ? "right"
		   : a->verdict == EV_ANSWER_wrong ? "wrong"
										   : "dim";
}

/* ---- how the predictions lie: numbers ---- */

/* Positive numbers that lie far apart are drawn by their logarithm. */
struct axis {
	double low, high;
	bool log;
};

static double place(const struct axis *x, double v)
{
	if (v <= x->low)
		return 0;
	if (x->log)
		return (log(v) - log(x->low)) / (log(x->high) - log(x->low));
	return (v / 2 - x->low / 2) / (x->high / 2 - x->low / 2); /* halves: no overflow */
}

static double plot_x(const struct axis *x, double v)
{
	double at = place(x, v);

	return PLOT_X + PLOT_W * (at > 1 ? 1 : at);
}

static struct axis axis_of(struct spread p, struct spread m)
{
	struct axis x = { fmin(p.least, m.n ? m.least : p.least), fmax(p.most, m.n ? m.most : p.most),
		false };

	if (x.low == x.high) { /* all the same: in the middle */
		x.low -= fabs(x.low) / 2 + 1;
		x.high += fabs(x.high) / 2 + 1;
	}
	x.log = x.low > 0 && x.high / x.low > 10;
	return x;
}

/* The bin of a reader's dot, and the dots below it in `pile`; -1: it has no number. */
static int bin_of(const struct axis *x, const struct answer *a)
{
	return !a->predicted || !isfinite(a->value)
			   ? -1
			   : (int)((plot_x(x, a->value) - PLOT_X) / (BIN + 0.01));
}

static int highest(const struct axis *x, const struct answered *c, int32_t n)
{
	int pile[BINS] = { 0 }, most = 1;

	for (int32_t i = 0, b; i < n; i++)
		if ((b = bin_of(x, c[i].a)) >= 0 && ++pile[b] > most)
			most = pile[b];
	return most;
}

/* base: the y of the axis; step: from a dot to the next above it. */
static void put_dots(
	FILE *out, const struct axis *x, const struct answered *c, int32_t n, double base, double step)
{
	int pile[BINS] = { 0 };

	for (int32_t i = 0; i < n; i++) {
		const struct answer *a = c[i].a;
		int b = bin_of(x, a);

		if (b < 0)
			continue;
		fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"><title>", class_of(a),
			PLOT_X + BIN * (b + 0.5), base - step * (pile[b]++ + 0.6), 0.45 * BIN);
		put(out, a->reader);
		fputs(": ", out);
		put(out, a->predicted);
		fputs("</title></circle>\n", out);
	}
}

static void put_axis(
	FILE *out, const struct axis *x, struct spread m, double tolerance, double base)
{
	const double off = isfinite(tolerance) ? fabs(tolerance * m.median) : 0;
	const double from = m.n ? plot_x(x, m.median - off) : 0,
				 to = m.n ? plot_x(x, m.median + off) : 0;

	if (to > from)
		fprintf(out, "<rect class=\"band\" x=\"%.1f\" y=\"16\" width=\"%.1f\" height=\"%.1f\"/>\n",
			from, to - from, base - 16);
	fprintf(out, "<line class=\"axis\" x1=\"%d\" y1=\"%g\" x2=\"%d\" y2=\"%g\"/>\n", PLOT_X, base,
		PLOT_X + PLOT_W, base);
	fprintf(out, "<text x=\"%d\" y=\"%g\">%.4g</text>\n", PLOT_X, base + 16, x->low);
	fprintf(out, "<text x=\"%d\" y=\"%g\" text-anchor=\"end\">%.4g%s</text>\n", PLOT_X + PLOT_W,
		base + 16, x->high, x->log ? " (log)" : "");
	if (m.n)
		fprintf(out, "<text x=\"%.1f\" y=\"12\" text-anchor=\"middle\">%.4g</text>\n",
			plot_x(x, m.median), m.median);
}

static void put_found(
	FILE *out, const struct axis *x, const struct answered *c, int32_t n, double base)
{
	for (int32_t i = 0; i < n; i++)
		if (isfinite(c[i].a->measured))
			fprintf(out, "<line class=\"found\" x1=\"%.1f\" y1=\"16\" x2=\"%.1f\" y2=\"%g\"/>\n",
				plot_x(x, c[i].a->measured), plot_x(x, c[i].a->measured), base);
}

static void put_numbers(
	FILE *out, const struct answered *c, int32_t n, struct spread p, struct spread m)
{
	const struct axis x = axis_of(p, m);
	const int most = highest(&x, c, n);
	const double step = most * BIN > PILE ? (double)PILE / most : BIN, base = 28 + step * most;

	fprintf(out, "<svg viewBox=\"0 0 %d %.0f\" role=\"img\">\n", PLOT_W + 2 * PLOT_X, base + 22);
	put_axis(out, &x, m, c->a->tolerance, base);
	put_found(out, &x, c, n, base);
	put_dots(out, &x, c, n, base, step);
	fputs("</svg>\n", out);
}

/* ---- words ---- */

static void put_words(FILE *out, const struct answered *c, int32_t n)
{
	int32_t i = 0, k, rows = 0;

	for (; i < n && c[i].a->predicted && rows < WORDS; i += k, rows++) {
		for (k = 1; i + k < n && c[i + k].a->predicted &&
					!strcmp(c[i].a->predicted, c[i + k].a->predicted);)
			k++;
		fprintf(out, "<div class=\"bar %s\"><span>", class_of(c[i].a));
		put(out, c[i].a->predicted);
		fprintf(
			out, "</span><span><i style=\"width:%.1f%%\"></i>%d</span></div>\n", 85.0 * k / n, k);
	}
	for (k = 0; i + k < n && c[i + k].a->predicted;)
		k++;
	if (k)
		fprintf(out, "<p class=\"dim\">and %d others</p>\n", k);
}

/* ---- a question ---- */

static void put_spread(FILE *out, const char *word, struct spread s)
{
	if (s.n && s.least == s.most)
		fprintf(out, "%s %.4g; ", word, s.median);
	else if (s.n)
		fprintf(out, "%s %.4g (%.4g to %.4g); ", word, s.median, s.least, s.most);
}

/* What was measured in words, where it is no number: of the first reader whose run got there. */
static void put_found_words(FILE *out, const struct answered *c, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		if (c[i].a->found && isnan(c[i].a->measured)) {
			fputs("measured ", out);
			put(out, c[i].a->found);
			fputs("; ", out);
			return;
		}
}

static void put_question(FILE *out, const struct answered *c, int32_t n, int number)
{
	const struct answer *q = c->a;
	const struct spread p = answers_spread(c, n, false), m = answers_spread(c, n, true);
	const int asked = answers_count(c, n, false), right = answers_count(c, n, true);
	const bool finite = p.n && isfinite(p.least) && isfinite(p.most) &&
						(!m.n || (isfinite(m.least) && isfinite(m.most)));

	fprintf(out, "<section><h3>%d. ", number);
	put(out, q->question);
	fputs("</h3>\n<p class=\"dim\">", out);
	if (q->ask == EV_ASK_predict) {
		put_spread(out, "predicted", p);
		put_spread(out, "measured", m);
		put_found_words(out, c, n);
	}
	if (q->tolerance > 0 && q->ask == EV_ASK_predict)
		fprintf(out, "within %g %%: ", 100 * q->tolerance);
	fprintf(out, "%s %d of %d", q->ask == EV_ASK_predict ? "right" : "holds in", right, asked);
	if (asked < n)
		fprintf(out, "; %d left it out", n - asked);
	fputs("</p>\n", out);
	if (q->ask == EV_ASK_predict && finite)
		put_numbers(out, c, n, p, m);
	else if (q->ask == EV_ASK_predict)
		put_words(out, c, n);
	fputs("</section>\n", out);
}

/* ---- the readers ---- */

static void put_cell(FILE *out, const struct answer *a)
{
	fprintf(out, "<td class=\"%s\">", class_of(a));
	put(out, a->predicted ? a->predicted : a->ask == EV_ASK_check && a->found ? a->found : "–");
	if (a->ask == EV_ASK_predict && a->found) {
		fputs(" <small>→ ", out);
		put(out, a->found);
		fputs("</small>", out);
	}
	fputs("</td>", out);
}

/* A row: the cells of one reader, in the order of the questions. */
static void put_reader(
	FILE *out, const struct answered *c, int32_t n, const int32_t *question, int n_questions)
{
	int32_t at = 0, right = 0, asked = 0, left_out = 0;

	fputs("<tr><td>", out);
	put(out, c->a->reader);
	fputs("</td>", out);
	for (int i = 0; i < n_questions; i++) {
		if (at < n && c[at].question == question[i])
			put_cell(out, c[at].a);
		else
			fputs("<td></td>", out);
		while (at < n && c[at].question == question[i])
			at++;
	}
	for (int32_t i = 0; i < n; i++) {
		asked += c[i].a->ask == EV_ASK_predict && c[i].a->predicted;
		left_out += c[i].a->ask == EV_ASK_predict && !c[i].a->predicted;
		right += c[i].a->ask == EV_ASK_predict && c[i].a->verdict == EV_ANSWER_right;
	}
	fprintf(out, "<td>%d of %d", right, asked);
	if (left_out)
		fprintf(out, "; %d left out", left_out);
	fputs("</td></tr>\n", out);
}

static bool one_reader(const struct answered *a, const struct answered *b)
{
	return a->a->recording == b->a->recording && !strcmp(a->a->reader, b->a->reader);
}

/* Sorts the cells, which are of one lesson, by reader. */
static void put_readers(
	FILE *out, struct answered *c, int32_t n, const int32_t *question, int n_questions)
{
	fputs("<table><tr><th>reader</th>", out);
	for (int i = 0; i < n_questions; i++)
		fprintf(out, "<th>%d</th>", i + 1);
	fputs("<th>right</th></tr>\n", out);
	qsort(c, (size_t)n, sizeof *c, by_reader);
	for (int32_t i = 0, k; i < n; i += k) {
		for (k = 1; i + k < n && one_reader(c + i, c + i + k);)
			k++;
		put_reader(out, c + i, k, question, n_questions);
	}
	fputs("</table>\n", out);
}

/* ---- all ---- */

static void put_lesson(FILE *out, struct answered *c, int32_t n)
{
	int32_t question[COLUMNS];
	int n_questions = 0;

	fputs("<h2>", out);
	put(out, c->a->lesson);
	fputs("</h2>\n", out);
	for (int32_t i = 0, k; i < n; i += k) {
		k = answers_run(c + i, n - i, true);
		if (n_questions == COLUMNS) {
			fprintf(out, "<p class=\"dim\">more than %d questions: the others are left out</p>\n",
				COLUMNS);
			break;
		}
		question[n_questions++] = c[i].question;
		put_question(out, c + i, k, n_questions);
	}
	put_readers(out, c, n, question, n_questions);
}

int answers_html(struct answered *c, int32_t n, const char *file, struct err *e)
{
	struct whole_file f;

	if (whole_file_open(&f, file, e))
		return -1;
	fputs(lesson_page, f.out);
	for (int32_t i = 0, k; i < n; i += k) {
		k = answers_run(c + i, n - i, false);
		put_lesson(f.out, c + i, k);
	}
	return whole_file_close(&f, 0, e);
}

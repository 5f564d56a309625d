/* See compare.h: the table in words and as JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sessions/compare/compare.h"

enum { QUOTED = 8, DIFFERENCES = 12 };

/* ---- the rows ---- */

static void put_number(char *buf, size_t cap, int digits, double x)
{
	char value[32];

	snprintf(value, sizeof value, "%.*f", digits, x);
	snprintf(buf, cap, "%s", isfinite(x) ? value : "-");
}

/* "88.1 (87.2 … 89.0)"; of one value there is no range. */
static void put_median(char *buf, size_t cap, int digits, const struct median *m)
{
	if (m->n < 2)
		put_number(buf, cap, digits, m->value);
	else
		snprintf(buf, cap, "%.*f (%.*f … %.*f)", digits, m->value, digits, m->low, digits, m->high);
}

static struct compare_row figure_row(const char *name, const struct compare_figure *f)
{
	struct compare_row r = { .name = name };

	for (int i = 0; i < 2; i++)
		put_median(r.side[i], sizeof r.side[i], 1, &f->side[i]);
	put_median(r.ratio, sizeof r.ratio, 3, &f->ratio);
	return r;
}

/* digits: after the point. */
static struct compare_row plain_row(const char *name, int digits, double a, double b)
{
	struct compare_row r = { .name = name };

	put_number(r.side[0], sizeof r.side[0], digits, a);
	put_number(r.side[1], sizeof r.side[1], digits, b);
	if (a > 0 && b >= 0)
		snprintf(r.ratio, sizeof r.ratio, "%.3f", b / a);
	return r;
}

int compare_rows(const struct compare_table *t, struct compare_row row[COMPARE_ROWS])
{
	const struct compare_total *a = &t->total[0], *b = &t->total[1];
	int n = 0;

	row[n++] = figure_row("tokens a second", &t->rate);
	row[n++] = figure_row("TTFT, ms", &t->ttft);
	row[n++] = plain_row("ITL p50, ms", 2, t->itl50[0], t->itl50[1]);
	row[n++] = plain_row("ITL p99, ms", 2, t->itl99[0], t->itl99[1]);
	row[n++] = plain_row("tokens", 0, (double)a->tokens, (double)b->tokens);
	row[n++] = plain_row("steps", 0, (double)a->steps, (double)b->steps);
	row[n++] = plain_row("rows computed", 0, a->rows, b->rows);
	row[n++] = plain_row("KV pages at most", 0, (double)a->pages, (double)b->pages);
	row[n++] = plain_row("read and written, GB", 2, a->bytes / 1e9, b->bytes / 1e9);
	row[n++] = plain_row("perplexity of A's texts", 4, t->perplexity[0], t->perplexity[1]);
	return n;
}

/* ---- texts ---- */

/* The tokens of an answer from `at` on, as one line. */
static void quote(
	const struct compare_side *s, const struct compare_answer *a, int32_t at, char *buf, size_t cap)
{
	size_t n = 0;

	if (at >= a->n) {
		snprintf(buf, cap, "ends (%s)", ev_code_name("finish", a->finish));
		return;
	}
	n = (size_t)snprintf(buf, cap, "\"");
	for (int32_t i = at; i < a->n && i < at + QUOTED && n + 2 < cap; i++) {
		const struct ev_text *t = ev_texts_get(&s->texts, a->id[i]);
		char *clean = t ? text_clean(t->bytes, t->size, false, NULL) : NULL;

		n += (size_t)snprintf(buf + n, cap - n - 1, "%s", clean ? clean : "?");
		free(clean);
	}
	n = n < cap - 2 ? n : cap - 2;
	snprintf(buf + n, cap - n, "\"");
}

void compare_say_difference(
	const struct compare *c, const struct compare_difference *d, char *buf, size_t cap)
{
	char side[2][160];

	for (int i = 0; i < 2; i++)
		quote(&c->side[i], d->answer[i], d->at, side[i], sizeof side[i]);
	snprintf(buf, cap, "position %d: A %s, B %s", d->answer[0]->n_prompt + d->at, side[0], side[1]);
}

/* At most w columns of foreign text, on one line. */
static void print_clean(FILE *out, const char *text, int w)
{
	size_t next;
	char *clean = text_clean(text, strlen(text), false, NULL);

	if (clean)
		fprintf(out, "%.*s", (int)text_line(clean, w, false, &next), clean);
	free(clean);
}

static void print_texts(const struct compare *c, const struct compare_table *t, FILE *out)
{
	char text[400];

	if (!t->same_vocab) {
		fprintf(out,
			"the two models have different vocabularies: texts are not compared token by token\n");
		return;
	}
	fprintf(out, "texts: equal in %d of %d pairs\n", t->n_equal, t->n_pairs);
	for (int i = 0; i < t->n_differences && i < DIFFERENCES; i++) {
		compare_say_difference(c, &t->difference[i], text, sizeof text);
		fputs("  ", out);
		print_clean(out, t->difference[i].answer[0]->text, 50);
		fprintf(out, ": %s\n", text);
	}
	if (t->n_differences > DIFFERENCES)
		fprintf(out, "  … and to %d other prompts\n", t->n_differences - DIFFERENCES);
}

/* ---- all of it ---- */

static void print_cell(FILE *out, const char *text, int w)
{
	fprintf(out, "%*s%s", w - text_width(text, strlen(text), false), "", text);
}

static void print_rows(const struct compare_table *t, FILE *out)
{
	struct compare_row row[COMPARE_ROWS];
	int n = compare_rows(t, row);

	fprintf(out, "%-24s%22s%22s    %s\n", "", "A", "B", "B / A");
	for (int i = 0; i < n; i++) {
		fprintf(out, "%-24s", row[i].name);
		print_cell(out, row[i].side[0], 22);
		print_cell(out, row[i].side[1], 22);
		fprintf(out, "    %s\n", row[i].ratio);
	}
}

void compare_print(const struct compare *c, const struct compare_table *t, FILE *out)
{
	for (int i = 0; i < 2; i++) {
		const struct compare_side *s = &c->side[i];

		fprintf(out, "%c  ", 'A' + i);
		print_clean(out, *s->label ? s->label : "as it is", COMPARE_LABEL);
		fputs("  (", out);
		print_clean(out, s->model, 60);
		fputs("; ", out);
		print_clean(out, s->machine, 60);
		fputs(")\n", out);
	}
	fprintf(out, "%d pairs of answers to %d prompt%s\n\n", t->n_pairs, t->n_prompts,
		t->n_prompts == 1 ? "" : "s");
	print_rows(t, out);
	if (t->rate.ratio.n > 1)
		fprintf(out, "\nin brackets: where the median lies with %.1f %% confidence%s",
			100 * t->rate.ratio.sure, t->rate.ratio.sure < 0.95 ? " (95 % takes six pairs)" : "");
	fputc('\n', out);
	print_texts(c, t, out);
}

static void add_median(struct json *j, const char *key, const struct median *m)
{
	json_object(j, key);
	json_real(j, "median", m->value, 9);
	json_real(j, "low", m->low, 9);
	json_real(j, "high", m->high, 9);
	json_real(j, "confidence", m->sure, 6);
	json_int(j, "n", m->n);
	json_end(j);
}

static void add_side(
	struct json *j, const struct compare *c, const struct compare_table *t, int side)
{
	const struct compare_side *s = &c->side[side];

	json_object(j, side ? "b" : "a");
	json_text(j, "settings", s->label);
	json_text(j, "model", s->model);
	json_text(j, "machine", s->machine);
	add_median(j, "tokens_a_second", &t->rate.side[side]);
	add_median(j, "ttft_ms", &t->ttft.side[side]);
	json_real(j, "itl_p50_ms", t->itl50[side], 6);
	json_real(j, "itl_p99_ms", t->itl99[side], 6);
	json_int(j, "tokens", t->total[side].tokens);
	json_int(j, "steps", t->total[side].steps);
	json_real(j, "rows", t->total[side].rows, 15);
	json_int(j, "pages_at_most", t->total[side].pages);
	json_real(j, "bytes", t->total[side].bytes, 15);
	json_real(j, "perplexity_of_a", t->perplexity[side], 9);
	json_end(j);
}

static void add_difference(
	struct json *j, const struct compare *c, const struct compare_difference *d)
{
	char text[160];

	json_object(j, NULL);
	json_text(j, "prompt", d->answer[0]->text);
	json_int(j, "pos", d->answer[0]->n_prompt + d->at);
	json_int(j, "at", d->at);
	for (int i = 0; i < 2; i++) {
		quote(&c->side[i], d->answer[i], d->at, text, sizeof text);
		json_text(j, i ? "b" : "a", text);
	}
	json_end(j);
}

void compare_json(const struct compare *c, const struct compare_table *t, struct json *j)
{
	json_object(j, NULL);
	json_int(j, "pairs", t->n_pairs);
	json_int(j, "prompts", t->n_prompts);
	add_side(j, c, t, 0);
	add_side(j, c, t, 1);
	json_object(j, "ratio");
	add_median(j, "tokens_a_second", &t->rate.ratio);
	add_median(j, "ttft", &t->ttft.ratio);
	json_end(j);
	json_bool(j, "same_vocabulary", t->same_vocab);
	json_int(j, "equal_texts", t->n_equal);
	json_array(j, "differences");
	for (int i = 0; i < t->n_differences; i++)
		add_difference(j, c, &t->difference[i]);
	json_end(j);
}

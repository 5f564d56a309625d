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
	if (isfinite(x))
		snprintf(buf, cap, "%.*f", digits, x);
	else
		snprintf(buf, cap, "-");
}

/* The medians, and below them where they lie. Returns how many rows. */
static int add_figure(struct compare_row *r, const char *name, const struct compare_figure *f)
{
	const struct median *m[3] = { &f->side[0], &f->side[1], &f->ratio };

	memset(r, 0, 2 * sizeof *r);
	snprintf(r->name, sizeof r->name, "%s", name);
	snprintf(r[1].name, sizeof r->name, "  %.1f %% range", 100 * f->ratio.sure);
	r[1].range = true;
	for (int i = 0; i < 3; i++) {
		const int digits = i < 2 ? 1 : 3;

		put_number(r->cell[i], sizeof r->cell[i], digits, m[i]->value);
		snprintf(
			r[1].cell[i], sizeof r->cell[i], "%.*f … %.*f", digits, m[i]->low, digits, m[i]->high);
	}
	return f->ratio.n > 1 ? 2 : 1; /* one value has no range */
}

/* What each side has one number of: as a row of the table, and as a member of its object. */
struct plain {
	const char *name, *key;
	int digits;      /* of the row: after the point */
	int significant; /* of JSON; 0: a whole number */
	double unit;     /* of the row */
	double value[2];
};
enum { PLAINS = 8 };

static void plains_of(const struct compare_table *t, struct plain out[PLAINS])
{
	const struct compare_total *a = &t->total[0], *b = &t->total[1];
	const struct plain all[PLAINS] = {
		{ "ITL p50, ms", "itl_p50_ms", 2, 6, 1, { t->itl50[0], t->itl50[1] } },
		{ "ITL p99, ms", "itl_p99_ms", 2, 6, 1, { t->itl99[0], t->itl99[1] } },
		{ "tokens", "tokens", 0, 0, 1, { (double)a->tokens, (double)b->tokens } },
		{ "steps", "steps", 0, 0, 1, { (double)a->steps, (double)b->steps } },
		{ "rows computed", "rows", 0, 15, 1, { a->rows, b->rows } },
		{ "KV pages at most", "pages_at_most", 0, 0, 1, { (double)a->pages, (double)b->pages } },
		{ "read, written, GB", "bytes", 2, 15, 1e9, { a->bytes, b->bytes } },
		{ "perplexity of A", "perplexity_of_a", 4, 9, 1, { t->perplexity[0], t->perplexity[1] } },
	};

	memcpy(out, all, sizeof all);
}

static void add_plain(struct compare_row *r, const struct plain *p)
{
	const double a = p->value[0] / p->unit, b = p->value[1] / p->unit;

	memset(r, 0, sizeof *r);
	snprintf(r->name, sizeof r->name, "%s", p->name);
	put_number(r->cell[0], sizeof r->cell[0], p->digits, a);
	put_number(r->cell[1], sizeof r->cell[1], p->digits, b);
	if (a > 0 && b >= 0)
		snprintf(r->cell[2], sizeof r->cell[2], "%.3f", b / a);
}

int compare_rows(const struct compare_table *t, struct compare_row row[COMPARE_ROWS])
{
	struct plain plain[PLAINS];
	int n = add_figure(row, "tokens a second", &t->rate);

	n += add_figure(row + n, "TTFT, ms", &t->ttft);
	plains_of(t, plain);
	for (int i = 0; i < PLAINS; i++)
		add_plain(&row[n++], &plain[i]);
	return n;
}

/* ---- texts ---- */

void compare_quote(
	const struct compare *c, const struct compare_difference *d, int side, char *buf, size_t cap)
{
	const struct compare_answer *a = d->answer[side];
	size_t n = 0;

	if (d->at >= a->n) {
		snprintf(buf, cap, "ends (%s)", ev_code_name("finish", a->finish));
		return;
	}
	n = (size_t)snprintf(buf, cap, "\"");
	for (int32_t i = d->at; i < a->n && i < d->at + QUOTED && n + 2 < cap; i++) {
		const struct ev_text *t = ev_texts_get(&c->side[side].texts, a->id[i]);
		char *clean = t ? text_clean(t->bytes, t->size, false, NULL) : NULL;

		n += (size_t)snprintf(buf + n, cap - n - 1, "%s", clean ? clean : "?");
		free(clean);
	}
	n = n < cap - 2 ? n : cap - 2;
	snprintf(buf + n, cap - n, "\"");
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
	char text[160];

	if (!t->same_vocab) {
		fprintf(out,
			"the two models have different vocabularies: texts are not compared token by token\n");
		return;
	}
	fprintf(out, "texts: equal in %d of %d pairs\n", t->n_equal, t->n_pairs);
	for (int i = 0; i < t->n_differences && i < DIFFERENCES; i++) {
		const struct compare_difference *d = &t->difference[i];

		fputs("  ", out);
		print_clean(out, d->answer[0]->text, 50);
		fprintf(out, ": part at position %d\n", d->answer[0]->n_prompt + d->at);
		for (int side = 0; side < 2; side++) {
			compare_quote(c, d, side, text, sizeof text);
			fprintf(out, "    %c  %s\n", 'A' + side, text);
		}
	}
	if (t->n_differences > DIFFERENCES)
		fprintf(out, "  … and to %d other prompts\n", t->n_differences - DIFFERENCES);
}

/* ---- all of it ---- */

static void print_rows(const struct compare_table *t, FILE *out)
{
	static const int wide[] = { 18, 18, 19 };
	struct compare_row row[COMPARE_ROWS];
	int n = compare_rows(t, row);

	fprintf(out, "%-20s%18s%18s%19s\n", "", "A", "B", "B / A");
	for (int i = 0; i < n; i++) {
		fprintf(out, "%-20s", row[i].name);
		for (int k = 0; k < 3; k++)
			fprintf(out, "%*s%s",
				wide[k] - text_width(row[i].cell[k], strlen(row[i].cell[k]), false), "",
				row[i].cell[k]);
		fputc('\n', out);
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
	fprintf(out, "%d pairs of answers to %d prompt%s\n", t->n_pairs, t->n_prompts,
		plural(t->n_prompts));
	fputs(
		"with a range: medians, and of the ratios of the pairs, not the ratio of medians\n\n", out);
	print_rows(t, out);
	fputc('\n', out);
	print_texts(c, t, out);
}

static void add_median(struct json *j, const char *key, const struct median *m)
{
	json_object(j, key);
	json_put(j, "'median': %.9g, 'low': %.9g, 'high': %.9g, 'confidence': %.6g, 'n': %d}", m->value,
		m->low, m->high, m->sure, m->n);
}

static void add_side(
	struct json *j, const struct compare *c, const struct compare_table *t, int side)
{
	const struct compare_side *s = &c->side[side];
	struct plain plain[PLAINS];

	json_object(j, side ? "b" : "a");
	json_put(j, "'settings': %s, 'model': %s, 'machine': %s", s->label, s->model, s->machine);
	add_median(j, "tokens_a_second", &t->rate.side[side]);
	add_median(j, "ttft_ms", &t->ttft.side[side]);
	plains_of(t, plain);
	for (int i = 0; i < PLAINS; i++)
		if (plain[i].significant)
			json_real(j, plain[i].key, plain[i].value[side], plain[i].significant);
		else
			json_int(j, plain[i].key, (int64_t)plain[i].value[side]);
	json_end(j);
}

static void add_difference(
	struct json *j, const struct compare *c, const struct compare_difference *d)
{
	char text[160];

	json_put(j, "{'prompt': %s, 'pos': %d, 'at': %d", d->answer[0]->text,
		d->answer[0]->n_prompt + d->at, d->at);
	for (int i = 0; i < 2; i++) {
		compare_quote(c, d, i, text, sizeof text);
		json_text(j, i ? "b" : "a", text);
	}
	json_end(j);
}

void compare_json(const struct compare *c, const struct compare_table *t, struct json *j)
{
	json_put(j, "{'pairs': %d, 'prompts': %d", t->n_pairs, t->n_prompts);
	add_side(j, c, t, 0);
	add_side(j, c, t, 1);
	json_object(j, "ratio");
	add_median(j, "tokens_a_second", &t->rate.ratio);
	add_median(j, "ttft", &t->ttft.ratio);
	json_put(j, "}, 'same_vocabulary': %hhd, 'equal_texts': %d, 'differences': [", t->same_vocab,
		t->n_equal);
	for (int i = 0; i < t->n_differences; i++)
		add_difference(j, c, &t->difference[i]);
	json_end(j);
}

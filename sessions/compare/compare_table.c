/* See compare.h: figures of two folded sides. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/ids.h"
#include "sessions/compare/compare.h"

enum { REACH = 4096 }; /* answers of B looked at for the partner of one of A */

/* ---- pairs ---- */

static bool counts(const struct compare_answer *a)
{
	return a->counted && a->over;
}

/* The n-th answer to a prompt under A belongs to the n-th to it under B. pair: [n_answers of A],
 * NULL where there is none. */
static int match(const struct compare *c, const struct compare_answer **pair, struct err *e)
{
	const struct compare_side *a = &c->side[0], *b = &c->side[1];
	bool *taken = calloc((size_t)b->n_answers + 1, sizeof *taken);
	int from = 0;

	if (!taken)
		return err_no_memory(e, "pairs of answers");
	for (int i = 0; i < a->n_answers; i++) {
		while (from < b->n_answers && (taken[from] || !counts(&b->answer[from])))
			from++;
		for (int k = from; counts(&a->answer[i]) && k < b->n_answers && k - from < REACH; k++)
			if (!taken[k] && counts(&b->answer[k]) &&
				!strcmp(a->answer[i].text, b->answer[k].text)) {
				taken[k] = true;
				pair[i] = &b->answer[k];
				break;
			}
	}
	free(taken);
	return 0;
}

static bool is_known(const struct compare_table *t, const char *text)
{
	for (int i = 0; i < t->n_differences; i++)
		if (!strcmp(t->difference[i].answer[0]->text, text))
			return true;
	return false;
}

static int note_texts(struct compare_table *t, int *cap, const struct compare_answer *a,
	const struct compare_answer *b, struct err *e)
{
	const int32_t at = ids_common(a->id, a->n, b->id, b->n);

	t->n_equal += at == a->n && at == b->n;
	if ((at == a->n && at == b->n) || is_known(t, a->text))
		return 0;
	if (!ARRAY_ROOM(t->difference, *cap, t->n_differences + 1))
		return err_no_memory(e, "differences");
	t->difference[t->n_differences++] = (struct compare_difference){ { a, b }, at };
	return 0;
}

static int compare_texts(const struct compare *c, const struct compare_answer *const *pair,
	struct compare_table *t, struct err *e)
{
	const struct compare_side *a = &c->side[0];
	int cap = 0;

	t->same_vocab = a->vocab == c->side[1].vocab && ev_texts_agree(&a->texts, &c->side[1].texts);
	for (int i = 0; i < a->n_answers; i++)
		if (pair[i] && t->same_vocab && note_texts(t, &cap, &a->answer[i], pair[i], e))
			return -1;
	return 0;
}

static int count_prompts(
	const struct compare_side *a, const struct compare_answer *const *pair, int *n_pairs)
{
	const char *last = NULL;
	int n = 0;

	for (int i = 0; i < a->n_answers; i++) {
		if (!pair[i])
			continue;
		++*n_pairs;
		n += !last || strcmp(last, a->answer[i].text) != 0; /* repetitions follow one another */
		last = a->answer[i].text;
	}
	return n;
}

/* ---- figures ---- */

/* NaN: all its tokens came in one step. */
static double rate_of(const struct compare_answer *a)
{
	const double s = (a->newest_ns - a->first_ns) / 1e9;

	return s > 0 && a->n > a->n_first ? (a->n - a->n_first) / s : (double)NAN;
}

static double ttft_of(const struct compare_answer *a)
{
	const double ms = (a->first_ns - a->asked_ns) / 1e6;

	return a->n && ms > 0 ? ms : (double)NAN;
}

static int figure(const struct compare_side *a, const struct compare_answer *const *pair,
	double (*of)(const struct compare_answer *a), struct compare_figure *f, struct err *e)
{
	const size_t n = (size_t)a->n_answers + 1;
	double *value = calloc(3 * n, sizeof *value);
	int got = 0;

	if (!value)
		return err_no_memory(e, "figures");
	for (int i = 0; i < a->n_answers; i++) {
		const double x = pair[i] ? of(&a->answer[i]) : (double)NAN, y = pair[i] ? of(pair[i]) : x;

		if (!isfinite(x) || !isfinite(y))
			continue;
		value[got] = x;
		value[n + (size_t)got] = y;
		value[2 * n + (size_t)got++] = y / x;
	}
	f->side[0] = median_of(value, got);
	f->side[1] = median_of(value + n, got);
	f->ratio = median_of(value + 2 * n, got);
	free(value);
	return 0;
}

/* Answers of a side: those of A that have a partner, or the partners. */
static const struct compare_answer *answer_at(
	const struct compare *c, const struct compare_answer *const *pair, int side, int i)
{
	return pair[i] && !side ? &c->side[0].answer[i] : pair[i];
}

static size_t sum(const struct compare *c, const struct compare_answer *const *pair, int side,
	struct compare_total *t)
{
	size_t n_gaps = 0;

	for (int i = 0; i < c->side[0].n_answers; i++) {
		const struct compare_answer *a = answer_at(c, pair, side, i);

		if (!a)
			continue;
		n_gaps += (size_t)a->n_gaps;
		t->tokens += a->n;
		t->steps += a->steps;
		t->pages = a->pages > t->pages ? a->pages : t->pages;
		t->rows += a->rows;
		t->bytes += a->bytes;
	}
	return n_gaps;
}

static int waits(const struct compare *c, const struct compare_answer *const *pair, int side,
	struct compare_table *t, struct err *e)
{
	const size_t n = sum(c, pair, side, &t->total[side]);
	double *gap = malloc((n + 1) * sizeof *gap);
	int got = 0;

	if (!gap)
		return err_no_memory(e, "figures");
	for (int i = 0; i < c->side[0].n_answers; i++) {
		const struct compare_answer *a = answer_at(c, pair, side, i);

		for (int k = 0; a && k < a->n_gaps; k++)
			gap[got++] = a->gap[k];
	}
	sorted_of(gap, got);
	t->itl50[side] = quantile_of(gap, got, 0.5);
	t->itl99[side] = quantile_of(gap, got, 0.99);
	free(gap);
	return 0;
}

static int fill(const struct compare *c, const struct compare_answer **pair,
	struct compare_table *t, struct err *e)
{
	const struct compare_side *s = c->side;
	const bool scored = s[0].n_scored && s[0].n_scored == s[1].n_scored;

	if (match(c, pair, e) || compare_texts(c, pair, t, e) ||
		figure(&s[0], pair, rate_of, &t->rate, e) || figure(&s[0], pair, ttft_of, &t->ttft, e))
		return -1;
	t->n_prompts = count_prompts(&s[0], pair, &t->n_pairs);
	for (int i = 0; i < 2; i++) {
		t->perplexity[i] =
			scored && t->same_vocab ? exp(-s[i].logp / (double)s[i].n_scored) : (double)NAN;
		if (waits(c, pair, i, t, e))
			return -1;
	}
	return 0;
}

int compare_table(const struct compare *c, struct compare_table *t, struct err *e)
{
	const struct compare_answer **pair = calloc((size_t)c->side[0].n_answers + 1, sizeof *pair);
	int rc;

	*t = (struct compare_table){ 0 };
	if (!pair)
		return err_no_memory(e, "pairs of answers");
	rc = fill(c, pair, t, e);
	free((void *)pair);
	if (rc)
		compare_table_free(t);
	return rc;
}

void compare_table_free(struct compare_table *t)
{
	free(t->difference);
	*t = (struct compare_table){ 0 };
}

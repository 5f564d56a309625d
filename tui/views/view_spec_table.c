/* The table of the view "speculation": each drafted token with the numbers that decided its
 * acceptance. See view_spec.c. Thread: the UI's. */

#include "tui/views/view_util.h"

/* columns from one rule's verdict to the other's, where there is no room for words */
enum { SECOND_RULE = 6, WORDS_W = 36 };
enum {
	AT_STEP,
	AT_LETTER,
	AT_NTH,
	AT_DRAFT,
	AT_Q,
	AT_P,
	AT_ARRIVAL,
	AT_WINNER,
	AT_WINNER_ARRIVAL,
	AT_VERDICT
};
static const struct column wide[] = { { "step", 6, 0 }, { NULL, -2, 2 }, { "nth", 2, 0 },
	{ "drafted", -15, 2 }, { "q", 8, 0 }, { "p", 8, 0 }, { NULL, 10, 0 }, { NULL, -15, 2 },
	{ NULL, 8, 0 }, { NULL, 0, 2 } };
static const struct column narrow[] = { { "step", 6, 0 }, { NULL, -2, 2 }, { "nth", 2, 0 },
	{ "drafted", -11, 2 }, { "q", 7, 0 }, { "p", 6, 0 }, { NULL, 8, 0 }, { NULL, -11, 2 },
	{ NULL, 6, 0 }, { NULL, 0, 2 } };

static bool has_words(const struct table *t)
{
	return table_rect(t, AT_VERDICT).w >= WORDS_W;
}

static void draw_heads(const struct table *t, enum ev_code_rule rule)
{
	const bool race = rule == EV_RULE_race;

	table_heads(t);
	table_put(t, AT_ARRIVAL, INK_DIM, race ? "arrival" : "u");
	table_put(t, AT_WINNER, INK_DIM, race ? "first" : "drawn");
	table_put(t, AT_WINNER_ARRIVAL, INK_DIM, race ? "arrival" : "p/q");
	if (!has_words(t))
		table_put(t, AT_VERDICT, INK_DIM, race ? "race  rej." : "rej.  race");
}

static void put_number(const struct table *t, int column, double v)
{
	if (!isnan(v) && fabs(v) < 1e5)
		table_put(t, column, INK_TEXT, v < 100 ? "%.3f" : "%.0f", v);
	else if (isinf(v))
		table_put(t, column, INK_TEXT, "never");
}

/* A token that is cut by the sampler gets no arrival: it can never win. */
static void put_verdict(
	const struct table *table, const struct timeline *t, const struct tl_draft *d)
{
	struct pen in = table_cell(table, AT_WINNER);

	put_number(table, AT_P, (double)d->p);
	put_number(table, AT_ARRIVAL, (double)d->arrival);
	in.ink = INK_TEXT;
	view_put_token(&in, 0, 0, in.r.w, t, d->winner);
	put_number(table, AT_WINNER_ARRIVAL, (double)d->winner_arrival);
}

/* Of the drafts of one step the children of `parent`, and below each its own children: the tree in
 * reading order. Stops when *left of them are before *found. */
static void walk_tree(
	const struct tl_draft *d, int32_t n, int32_t parent, int32_t *left, int32_t *found)
{
	for (int32_t i = 0; i < n && *found < 0; i++) {
		if (d[i].parent != parent || d[i].nth <= parent)
			continue;
		if (!(*left)--)
			*found = i;
		else
			walk_tree(d, n, d[i].nth, left, found);
	}
}

/* The draft at the index of the i-th. */
static const struct tl_draft *in_order(const struct timeline *t, int32_t i)
{
	const struct tl_draft *d = t->draft;
	int32_t first = i, end = i + 1, left, found = -1;

	while (first > 0 && d[first - 1].step == d[i].step && d[first - 1].request == d[i].request)
		first--;
	while (end < t->n_drafts && d[end].step == d[i].step && d[end].request == d[i].request)
		end++;
	left = i - first;
	walk_tree(d + first, end - first, 0, &left, &found);
	return found < 0 ? &d[i] : &d[first + found];
}

/* The verdict that the rule not in use would have given on the same draft. */
static void put_other(const struct table *t, const struct tl_draft *d, const char *word,
	enum glyph mark, enum ink ink)
{
	const int x = table_rect(t, AT_VERDICT).x;

	if (has_words(t))
		view_put(t->p, x + 13, t->y, INK_DIM, "%s: %s",
			d->rule == EV_RULE_race ? "rejection" : "race", word);
	else
		view_put(t->p, x + SECOND_RULE, t->y, ink, "%s", glyph(t->p->c, mark));
}

/* The step number is shown at its first draft and in the top row. In a tree a draft is to the right
 * of its parent. */
static void draw_row(
	const struct table *table, const struct timeline *t, const struct tl_draft *d, bool first)
{
	static const struct {
		enum ink ink, word_ink;
		enum glyph mark;
		const char *word;
	} verdicts[EV_N_verdict] = {
		[EV_VERDICT_accepted] = { INK_ACCEPTED, INK_ACCEPTED, GLYPH_CHECK, "kept" },
		[EV_VERDICT_rejected] = { INK_REJECTED, INK_DIM, GLYPH_CROSS, "rejected" },
		[EV_VERDICT_discarded] = { INK_DIM, INK_DIM, GLYPH_DOT, "discarded" },
	};
	struct pen word = table_cell(table, AT_DRAFT), label = table_cell(table, AT_LETTER);
	const bool both = d->other >= 0 && d->verdict != EV_VERDICT_discarded;
	const int deep = (int)within(2 * ((int64_t)d->depth - 1), 0, word.r.w / 2);

	if (first || table->y == 1)
		table_put(table, AT_STEP, INK_DIM, "%lld", (long long)d->step);
	view_put_label(&label, 0, 0, d->request);
	table_put(table, AT_NTH, INK_TEXT, "%d", d->nth);
	word.ink = (uint8_t)verdicts[d->verdict].word_ink;
	view_put_token(&word, deep, 0, word.r.w - deep, t, d->id);
	put_number(table, AT_Q, (double)d->q);
	if (d->verdict != EV_VERDICT_discarded)
		put_verdict(table, t, d);
	table_put(table, AT_VERDICT, verdicts[d->verdict].ink,
		has_words(table) || !both ? "%s %s" : "%s", glyph(table->p->c, verdicts[d->verdict].mark),
		verdicts[d->verdict].word);
	if (both)
		put_other(
			table, d, verdicts[d->other].word, verdicts[d->other].mark, verdicts[d->other].ink);
}

void view_spec_table(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct table table = TABLE(p, wide, 0);
	const int rows = p->r.h - 1,
			  below = table_first(&s->cursor[VIEW_SPECULATION], t->n_drafts, rows);
	int32_t from = t->n_drafts - below - rows;

	from = at_least(from, 0);
	table.column = p->r.w < 96 ? narrow : wide;
	draw_heads(&table, t->draft[from].rule);
	for (int i = 0; i < rows && from + i < t->n_drafts; i++) {
		const struct tl_draft *d = &t->draft[from + i];

		table.y++;
		draw_row(&table, t, in_order(t, from + i),
			d == t->draft || d[-1].step != d->step || d[-1].request != d->request);
	}
}

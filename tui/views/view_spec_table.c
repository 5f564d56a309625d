/* The table of the view "speculation": each drafted token with the numbers that decided its
 * acceptance. See view_spec.c. Thread: the UI's. */
#include <math.h>

#include "tui/views/view_util.h"
#include "tui/views/views.h"

/* Columns of the table: numbers end, words begin there. */
/* columns from one rule's verdict to the other's, where there is no room for words */
enum { SECOND_RULE = 6 };
static const struct columns {
	int step, letter, nth, draft, q, p, arrival, winner, winner_arrival, verdict, word_w;
} wide = { 6, 8, 12, 14, 37, 45, 55, 57, 80, 82, 15 },
  narrow = { 6, 8, 12, 14, 32, 38, 46, 48, 65, 67, 11 };

static const struct columns *columns_for(const struct pen *p)
{
	return p->r.w < 96 ? &narrow : &wide;
}

static void draw_table_head(struct pen *p, int y, enum ev_code_rule rule)
{
	const struct columns *c = columns_for(p);
	bool race = rule == EV_RULE_race;

	view_put_right(p, c->step, y, INK_DIM, "step");
	view_put_right(p, c->nth, y, INK_DIM, "nth");
	view_put(p, c->draft, y, INK_DIM, "drafted");
	view_put_right(p, c->q, y, INK_DIM, "q");
	view_put_right(p, c->p, y, INK_DIM, "p");
	view_put_right(p, c->arrival, y, INK_DIM, race ? "arrival" : "u");
	view_put(p, c->winner, y, INK_DIM, race ? "first" : "drawn");
	view_put_right(p, c->winner_arrival, y, INK_DIM, race ? "arrival" : "p/q");
	if (p->r.w < c->verdict + 36)
		view_put(p, c->verdict, y, INK_DIM, race ? "race  rej." : "rej.  race");
}

static void put_number(struct pen *p, int x, int y, enum ink ink, double v)
{
	if (!isnan(v) && fabs(v) < 1e5)
		view_put_right(p, x, y, ink, v < 100 ? "%.3f" : "%.0f", v);
	else if (isinf(v))
		view_put_right(p, x, y, ink, "never");
}

/* A token that is cut by the sampler gets no arrival: it can never win. */
static void put_verdict(struct pen *p, int y, const struct timeline *t, const struct tl_draft *d)
{
	const struct columns *c = columns_for(p);
	struct pen in = *p;

	put_number(p, c->p, y, INK_TEXT, (double)d->p);
	put_number(p, c->arrival, y, INK_TEXT, (double)d->arrival);
	in.ink = INK_TEXT;
	view_put_token(&in, c->winner, y, c->word_w, t, d->winner);
	put_number(p, c->winner_arrival, y, INK_TEXT, (double)d->winner_arrival);
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
static void put_other(
	struct pen *p, int y, const struct tl_draft *d, const char *word, enum glyph mark, enum ink ink)
{
	const struct columns *c = columns_for(p);

	if (p->r.w >= c->verdict + 36)
		view_put(p, c->verdict + 13, y, INK_DIM, "%s: %s",
			d->rule == EV_RULE_race ? "rejection" : "race", word);
	else
		view_put(p, c->verdict + SECOND_RULE, y, ink, "%s", glyph(p->c, mark));
}

/* The step number is shown at its first draft and in the top row. In a tree a draft is to the right
 * of its parent. */
static void draw_table_row(
	struct pen *p, int y, const struct timeline *t, const struct tl_draft *d, bool first)
{
	static const struct {
		enum ink ink, word_ink;
		enum glyph mark;
		const char *word;
	} verdicts[EV_N_verdict] = {
		[EV_VERDICT_accepted] = { INK_ACCEPTED, INK_ACCEPTED, GLYPH_CHECK, "kept" },
		[EV_VERDICT_rejected] = { INK_REJECTED, INK_DIM, GLYPH_CROSS, "rejected" },
		[EV_VERDICT_unread] = { INK_DIM, INK_DIM, GLYPH_DOT, "discarded" },
	};
	const struct columns *c = columns_for(p);
	struct pen in = *p;
	bool both = d->other >= 0 && d->verdict != EV_VERDICT_unread;
	int most = c->word_w / 2, deep = d->depth <= 1     ? 0
									 : d->depth > most ? most
													   : 2 * (d->depth - 1);

	deep = deep > most ? most : deep;
	if (first || y == 1)
		view_put_right(p, c->step, y, INK_DIM, "%lld", (long long)d->step);
	view_put_label(p, c->letter, y, d->request);
	view_put_right(p, c->nth, y, INK_TEXT, "%d", d->nth);
	in.ink = (uint8_t)verdicts[d->verdict].word_ink;
	view_put_token(&in, c->draft + deep, y, c->word_w - deep, t, d->id);
	put_number(p, c->q, y, INK_TEXT, (double)d->q);
	if (d->verdict != EV_VERDICT_unread)
		put_verdict(p, y, t, d);
	view_put(p, c->verdict, y, verdicts[d->verdict].ink,
		p->r.w >= c->verdict + 36 || !both ? "%s %s" : "%s", glyph(p->c, verdicts[d->verdict].mark),
		verdicts[d->verdict].word);
	if (both)
		put_other(
			p, y, d, verdicts[d->other].word, verdicts[d->other].mark, verdicts[d->other].ink);
}

void view_spec_table(struct pen *p, const struct timeline *t, struct view_state *s)
{
	int64_t *below = &s->cursor[VIEW_SPECULATION];
	int rows = p->r.h - 1;
	int32_t from;

	*below = *below > t->n_drafts - rows ? t->n_drafts - rows : *below;
	*below = *below < 0 ? 0 : *below;
	from = t->n_drafts - (int32_t)*below - rows;
	from = from < 0 ? 0 : from;
	draw_table_head(p, 0, t->draft[from].rule);
	for (int i = 0; i < rows && from + i < t->n_drafts; i++) {
		const struct tl_draft *d = &t->draft[from + i];
		bool first = d == t->draft || d[-1].step != d->step || d[-1].request != d->request;

		draw_table_row(p, 1 + i, t, in_order(t, from + i), first);
	}
}

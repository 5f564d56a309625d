/* The importance view: how much each layer turns the stream, how a layer's heads share what they
 * add, and how few channels add nearly all. All of it is the event importance. Thread: the UI's. */

#include "tui/views/view_util.h"

enum { HEADS = 2, HEAD = 3 };
enum { AT_LAYER, AT_BAR, AT_INFLUENCE, AT_HEADS, AT_LEAST, AT_TOP };
static const struct column columns[] = { { "layer", -5, 0 }, { "influence", -8, 1 }, { NULL, 7, 0 },
	{ "heads, % of what they add", 0, 2 }, { "least half", 11, 0 }, { "top 1/16", 11, 0 },
	{ NULL, 1, 0 } };

static double known(double v)
{
	return fmax(v, 0); /* a recording's may be no number */
}

static double largest(const struct timeline *t)
{
	double most = 0;

	for (int32_t i = 0; i < t->n_importance; i++)
		most = fmax(most, known(t->importance[i].influence));
	return most;
}

/* Of items first to end - 1 the one of the least influence. */
static const struct tl_importance *least_of(const struct timeline *t, int32_t first, int32_t end)
{
	const struct tl_importance *least = &t->importance[first];

	for (int32_t i = first + 1; i < end; i++)
		if (t->importance[i].influence < least->influence)
			least = &t->importance[i];
	return least;
}

static void put_share(const struct table *t, int column, enum ink ink, double share)
{
	const double percent = 100 * known(share);

	if (percent < 0.01)
		table_put(t, column, ink, "<.01%%");
	else
		table_put(t, column, ink, percent < 1 ? "%.2f%%" : "%.0f%%", fmin(percent, 100));
}

static void put_heads(const struct table *t, const struct tl_importance *l)
{
	struct pen p = table_cell(t, AT_HEADS);
	const int room = p.r.w / HEAD, n = l->n_heads > room ? room - 1 : l->n_heads;

	for (int i = 0; i < n; i++) {
		const double share = fmin(known((double)l->head[i]), 1);

		view_put_right(&p, (i + 1) * HEAD - 1, 0, share < 0.08 ? INK_DIM : view_heat_ink(share),
			"%.0f", fmin(100 * share, 99));
	}
	if (l->n_heads > n)
		view_put(&p, n * HEAD + 1, 0, INK_DIM, "+%d", l->n_heads - n);
}

/* The least half of the channels, and the sixteenth that adds most. */
static void put_channels(const struct table *t, const struct tl_importance *l)
{
	if (l->n_least < TL_SIXTEENTHS)
		return;
	put_share(t, AT_LEAST, INK_TEXT, (double)l->least[TL_SIXTEENTHS / 2 - 1]);
	put_share(t, AT_TOP, INK_BRIGHT, 1 - (double)l->least[TL_SIXTEENTHS - 2]);
}

static void put_line(
	const struct table *t, const struct tl_importance *l, double most, bool is_least)
{
	const enum ink ink = is_least ? INK_REJECTED : INK_TEXT;

	table_put(t, AT_LAYER, ink, "%4d", (int)l->layer);
	table_bar(t, AT_BAR, INK_TEXT, most > 0 ? sqrt(fmin(known(l->influence) / most, 1)) : 0);
	table_put(t, AT_INFLUENCE, ink, "%.4f", fmin(known(l->influence), 2));
	put_heads(t, l);
	put_channels(t, l);
}

static void importance_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const int32_t n = t->n_importance;
	const int rows = p->r.h - HEADS;
	const struct tl_importance *least;
	struct table table = TABLE(p, columns, HEADS - 1);

	(void)s;
	if (!n) {
		view_empty(p, "importance",
			"what each layer and head adds to the answer: `/importance measure` runs the shipped "
			"prompts, which takes seconds");
		return;
	}
	least = least_of(t, 0, n);
	view_head(p, "importance", "layer %d does least: it turns the stream by %.4f",
		(int)least->layer, fmin(known(least->influence), 2));
	table_heads(&table);
	for (int32_t first = 0, each = rows > 0 ? (n + rows - 1) / rows : n; rows > 0 && first < n;
		 first += each) {
		const struct tl_importance *l = least_of(t, first, at_most(first + each, n));

		table.y++;
		put_line(&table, l, largest(t), l == least);
	}
}

const struct view view_importance = {
	VIEW(IMPORTANCE, importance, "importance", 70, 6, 34),
	.draw = importance_draw,
};

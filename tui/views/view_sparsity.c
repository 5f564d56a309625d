/* The sparsity view: how much of a token's computation is near zero, by layer, and whether it is
 * the same from token to token. All of it is the events sparsity and attention of the newest
 * observed row. Thread: the UI's. */

#include "tui/views/view_util.h"

enum { LAYER = 7, BAR_LEAST = 4, FIGURE = 6, SUMS = 6, COLUMNS = 5, AT_BELOW = 1 };
static const struct column below[] = { { "smaller than", -22, 0 }, { "1/10", 9, 0 },
	{ "1/100", 9, 0 }, { "1/1,000", 9, 0 }, { "1/10,000", 9, 0 }, { "of the largest", 0, 2 } };

/* what: of the sparsity; -1: attention's weights. */
static double layer_value(const struct tl_request *r, int32_t layer, int what)
{
	if (what >= 0)
		return (double)r->sparsity.share[layer * EV_N_sparse + what];
	return layer < r->attention.n_layers ? (double)r->attention.near_zero[layer] : (double)NAN;
}

/* Mean of layers first to end - 1 that have it; NaN: none has. */
static double group_value(const struct tl_request *r, int32_t first, int32_t end, int what)
{
	double sum = 0;
	int n = 0;

	for (int32_t l = first; l < end; l++) {
		const double v = layer_value(r, l, what);

		sum += isnan(v) ? 0 : v;
		n += !isnan(v);
	}
	return n ? sum / n : (double)NAN;
}

static double mean_of(const struct tl_request *r, int what)
{
	return group_value(r, 0, r->sparsity.n_layers, what);
}

static double weights_mean(const struct tl_request *r)
{
	const struct tl_attention *a = &r->attention;
	double sum = 0;

	for (int32_t l = 0; l < a->n_layers; l++)
		sum += (double)a->near_zero[l];
	return a->step == r->sparsity.step && a->n_layers ? sum / a->n_layers : (double)NAN;
}

/* Two independent sets of this share of all have in common, of all that are in either. */
static double by_chance(const struct tl_sparsity *s)
{
	double sum = 0;
	int n = 0;

	for (int32_t l = 0; l < s->n_layers; l++) {
		const double p = (double)s->share[l * EV_N_sparse + EV_SPARSE_kept];

		if (p > 0) {
			sum += p / (2 - p);
			n++;
		}
	}
	return n ? sum / n : (double)NAN;
}

static void put_shares(struct table *t, const char *label, const struct tl_request *r, int first)
{
	t->y++;
	table_put(t, 0, INK_DIM, "%s", label);
	for (int k = 0; k < 4; k++)
		table_put(t, AT_BELOW + k, INK_BRIGHT, "%s", view_percent(mean_of(r, first + k)).text);
}

/* ---- the sums ---- */

static void put_thresholds(struct pen *p, const struct tl_request *r)
{
	struct table t = TABLE(p, below, 1);

	table_heads(&t);
	put_shares(&t, "attention's output", r, EV_SPARSE_output_1);
	put_shares(&t, "feed-forward's inner", r, EV_SPARSE_inner_1);
	t.y++;
	table_put(&t, 0, INK_DIM, "attention's weights");
	table_put(&t, AT_BELOW, INK_BRIGHT, "%s", view_percent(weights_mean(r)).text);
	view_put(p, table_rect(&t, AT_BELOW + 1).x + 2, t.y, INK_DIM, "are below %g",
		r->attention.threshold);
}

static void put_kept(struct pen *p, int y, const struct tl_request *r)
{
	const struct tl_sparsity *s = &r->sparsity;
	const double overlap = mean_of(r, EV_SPARSE_overlap);
	int x = view_say(p, 0, y, IN_DIM "inner, %s: " IN_BRIGHT "%s",
		s->mark > 0 ? view_form("at least %.3g", s->mark).text : "not 0",
		view_percent(mean_of(r, EV_SPARSE_kept)).text);

	if (!isnan(overlap))
		x += view_say(p, x, y,
			IN_DIM " \xc2\xb7 as %s before: " IN_BRIGHT "%s" IN_DIM " (by chance %s)",
			s->since == 1 ? "one token" : view_form("%lld", (long long)s->since).text,
			view_percent(overlap).text, view_percent(by_chance(s)).text);
	if (s->rows > 1)
		view_say(p, x, y, IN_DIM " \xc2\xb7 any of %lld rows: " IN_BRIGHT "%s", (long long)s->rows,
			view_percent(mean_of(r, EV_SPARSE_together)).text);
}

/* ---- by layer ---- */

struct layer_column {
	const char *label;
	int what;
};
static const struct layer_column columns[COLUMNS] = {
	{ "weights", -1 },
	{ "output 1/100", EV_SPARSE_output_2 },
	{ "inner 1/100", EV_SPARSE_inner_2 },
	{ "kept", EV_SPARSE_kept },
	{ "as before", EV_SPARSE_overlap },
};

static void put_layers(struct pen *p, int y, const struct tl_request *r)
{
	const int width = (p->r.w - LAYER) / COLUMNS, bar = width - FIGURE - 2, rows = p->r.h - y - 1;
	const int32_t n = r->sparsity.n_layers, per_row = rows > 0 ? (n + rows - 1) / rows : 0;

	if (rows < 2 || bar < BAR_LEAST)
		return;
	view_put_right(p, LAYER - 2, y, INK_DIM, "layer");
	for (int c = 0; c < COLUMNS; c++)
		view_put(p, LAYER + c * width, y, INK_DIM, "%.*s", width - 1, columns[c].label);
	for (int32_t first = 0; first < n; first += per_row) {
		const int32_t end = at_most(first + per_row, n);

		y++;
		if (per_row == 1)
			view_put_right(p, LAYER - 2, y, INK_DIM, "%d", (int)first);
		else
			view_put_right(p, LAYER - 2, y, INK_DIM, "%d\xe2\x80\x93%d", (int)first, (int)end - 1);
		for (int c = 0; c < COLUMNS; c++) {
			const double v = group_value(r, first, end, columns[c].what);
			const int x = LAYER + c * width;

			if (!isnan(v))
				view_bar(p, x, y, bar, INK_TEXT, v);
			view_put_right(p, x + bar + FIGURE, y, INK_TEXT, "%s", view_percent(v).text);
		}
	}
}

static void sparsity_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const struct tl_request *r = view_request(t, s);

	if (!r || r->sparsity.step == EV_NULL_I || !r->sparsity.share) {
		view_empty(p, "sparsity",
			"how much of attention is near zero, by layer: counted at tokens whose attention is "
			"observed; ask, or `/attention-every 1`");
		return;
	}
	view_head(p, "sparsity", "request %s, position %lld", view_label(r->id).text,
		(long long)r->sparsity.pos);
	put_thresholds(p, r);
	put_kept(p, SUMS - 1, r);
	put_layers(p, SUMS + 1, r);
}

const struct view view_sparsity = {
	VIEW(SPARSITY, sparsity, "sparsity", 60, 7, 24),
	.draw = sparsity_draw,
};

/* The layers view: a file that is quantised or pruned, layer by layer: what it changes in what the
 * layer computes, beside what rounding to the nearest would. All of it is the event changed.
 * Thread: the UI's. */

#include "tui/views/view_util.h"

enum { LAYER, NEAREST, WRITTEN, RATIO, WEIGHTS, APART, GONE, TIME, ALPHA, BAR = ALPHA + TL_ALPHAS };
enum { COLUMNS = BAR + 1, HEADS = 2, FOOT = 2 };

static const struct column columns[COLUMNS] = { { "layer", 5, 0 }, { "nearest", 8, 1 },
	{ "written", 8, 1 }, { "ratio", 6, 1 }, { "weights", 8, 1 }, { "apart", 6, 1 },
	{ "gone", 6, 1 }, { "time", 8, 1 }, { "q k v", 5, 2 }, { "out", 4, 1 }, { "gate up", 7, 1 },
	{ "down", 4, 1 }, { NULL, 0, 2 } };

static double value_of(const struct tl_changed *c, int column)
{
	const struct ev_changed *e = &c->e;

	switch (column) {
	case LAYER: return (double)e->layer;
	case NEAREST: return e->nearest;
	case WRITTEN:
	case BAR: return e->error;
	case RATIO: return sqrt(e->error / e->nearest);
	case WEIGHTS: return e->weights_error;
	case APART: return e->apart > 0 ? (double)e->apart : (double)NAN;
	case GONE:
		return e->gone > 0 && e->weights > 0 ? (double)e->gone / (double)e->weights : (double)NAN;
	case TIME: return (double)e->ns;
	default: return (double)c->alpha[column - ALPHA];
	}
}

static bool any(const struct timeline *t, int column)
{
	for (int32_t i = 0; i < t->n_changed; i++)
		if (!isnan(value_of(&t->changed[i], column)))
			return true;
	return false;
}

/* The columns that this file has. at: which they are. */
static int choose(const struct timeline *t, struct column *out, int *at)
{
	int n = 0;

	for (int i = 0; i < COLUMNS; i++)
		if (any(t, i)) {
			out[n] = columns[i];
			at[n++] = i;
		}
	return n;
}

static double largest(const struct timeline *t)
{
	double most = 0;

	for (int32_t i = 0; i < t->n_changed; i++)
		most = fmax(most, fmax(t->changed[i].e.nearest, t->changed[i].e.error));
	return sqrt(most);
}

/* The error as it is written, and where that of the nearest would end. */
static void put_bar(struct pen *p, const struct tl_changed *c, double most)
{
	const double w = most > 0 ? p->r.w / most : 0;

	view_bar(p, 0, 0, p->r.w, INK_BAR, most > 0 ? sqrt(c->e.error) / most : 0);
	if (!isnan(c->e.nearest))
		view_put(p, (int)fmin(sqrt(c->e.nearest) * w, p->r.w - 1), 0, INK_REJECTED, "|");
}

static void put_cell(
	const struct table *t, int i, int column, const struct tl_changed *c, double most)
{
	const double v = value_of(c, column);
	struct pen bar;

	if (isnan(v))
		return;
	switch (column) {
	case LAYER: table_put(t, i, INK_DIM, "%.0f", v); break;
	case RATIO: table_put(t, i, v < 1 ? INK_ACCEPTED : INK_REJECTED, "%.2f", v); break;
	case APART: table_put(t, i, INK_TEXT, "%.0f", v); break;
	case GONE: table_put(t, i, INK_TEXT, "%s", view_percent(v).text); break;
	case TIME: table_put(t, i, INK_DIM, "%s", view_ns(v).text); break;
	case WRITTEN: table_put(t, i, INK_BRIGHT, "%.1f %%", 100 * sqrt(v)); break;
	case NEAREST:
	case WEIGHTS: table_put(t, i, INK_TEXT, "%.1f %%", 100 * sqrt(v)); break;
	case BAR:
		bar = table_cell(t, i);
		put_bar(&bar, c, most);
		break;
	default: table_put(t, i, INK_TEXT, "%.2f", v);
	}
}

static void put_rows(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const int over = t->n_changed - (p->r.h - HEADS - FOOT), last = at_least(over, 0);
	const double most = largest(t);
	struct column chosen[COLUMNS];
	int at[COLUMNS], n = choose(t, chosen, at), first;
	struct table table = { .p = p, .column = chosen, .n = n, .y = 1 };

	/* the newest are seen while it goes on; scrolled up: from there on */
	s->scroll[VIEW_LAYERS] = at_most(s->scroll[VIEW_LAYERS], last);
	first = last - (int)(at_least(s->scroll[VIEW_LAYERS], 0));
	table_heads(&table);
	for (int i = first; i < t->n_changed && table.y < p->r.h - FOOT; i++) {
		table.y++;
		for (int k = 0; k < n; k++)
			put_cell(&table, k, at[k], &t->changed[i], most);
	}
}

/* Over the layers so far. */
static void put_sums(struct pen *p, const struct timeline *t)
{
	double nearest = 0, error = 0, ns = 0;

	for (int32_t i = 0; i < t->n_changed; i++) {
		nearest += t->changed[i].e.nearest / t->n_changed;
		error += t->changed[i].e.error / t->n_changed;
		ns += (double)t->changed[i].e.ns;
	}
	view_say(p, 0, p->r.h - 1,
		IN_DIM "error of what a layer adds, rms: " IN_BRIGHT "%s" IN_DIM "%s \xc2\xb7 %s",
		isnan(error) ? "not measured" : view_form("%.1f %%", 100 * sqrt(error)).text,
		isnan(nearest) ? "" : view_form(", %.1f %% to the nearest", 100 * sqrt(nearest)).text,
		view_ns(ns).text);
}

static void layers_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const struct tl_changed *last = t->n_changed ? &t->changed[t->n_changed - 1] : NULL;

	if (!last) {
		view_empty(p, "layers",
			"a file that is quantised or pruned, layer by layer: cutaway quantize --record FILE, "
			"or prune, tells it, and cutaway replay --follow FILE shows it");
		return;
	}
	view_head(
		p, "layers", "%s \xc2\xb7 %d of %d", last->method, (int)t->n_changed, (int)last->e.layers);
	put_rows(p, t, s);
	put_sums(p, t);
}

static bool layers_key(int key, const struct timeline *t, struct view_state *s)
{
	return view_scroll(key, &s->scroll[VIEW_LAYERS], 10, t->n_changed);
}

const struct view view_layers = {
	VIEW(LAYERS, layers, "layers", 60, 6, 40),
	.draw = layers_draw,
	.key = layers_key,
};

/* The attention view: attention weights of the newest row of the request in focus, by page.
 *
 * Shares are means over all heads (of one layer, or of all), or those of one chosen head, which the
 * engine observes from the step after it was chosen on. They are normalised, because packing moves
 * their sum slightly off 1. Colours are those of the pages view (view_heat). Thread: the UI's. */

#include "tui/views/view_util.h"

/* Pages over columns: several columns a page while there is room, else several pages a column. */
struct scale {
	int32_t n, per_column; /* pages */
	int w, x_page;         /* columns in all, and of a page */
};

static struct scale scale_make(int32_t n, int w, int page_w)
{
	struct scale c = { .n = n, .per_column = 1, .x_page = page_w };

	if (w < 1)
		return (struct scale){ 0 };
	while (c.x_page > 1 && (int64_t)c.x_page * n > w)
		c.x_page--;
	c.per_column = (int32_t)(((int64_t)n + w - 1) / w);
	c.w = c.per_column > 1 ? (int)(((int64_t)n + c.per_column - 1) / c.per_column) : c.x_page * n;
	return c;
}

static double column_share(const struct scale *c, const float *page, int x)
{
	int32_t from = c->per_column > 1 ? x * c->per_column : x / c->x_page;
	double sum = 0;

	for (int32_t i = from; i < from + c->per_column && i < c->n; i++)
		sum += (double)page[i];
	return sum;
}

static int column_of_page(const struct scale *c, int32_t page)
{
	return c->per_column > 1 ? page / c->per_column : page * c->x_page;
}

static double highest(const struct scale *c, const float *page)
{
	double most = 0;

	for (int x = 0; x < c->w; x++)
		most = fmax(most, column_share(c, page, x));
	return most;
}

enum { RECENT_TOKENS = 64, PAGE_W = 3, ZOOM_PAGE_W = 6, BARS_MAX = 6 };
#define MOST 0.9 /* of the attention is in the "top pages" */

struct look {
	const struct tl_attention *a;
	int32_t layer, head; /* -1: mean */
	int32_t n, recent;   /* pages; how many of them at the end are recent */
	int32_t input;       /* of them at the beginning, which an encoder read; 0: there is none */
	float *page;         /* [n] shares, sum 1; owned */
	bool head_missing;   /* one was chosen, and no step has observed it yet */
};

static float layer_share(const struct tl_attention *a, int32_t layer, int32_t page)
{
	float sum = 0;

	if (layer >= 0)
		return a->share[(size_t)layer * (size_t)a->n_pages + (size_t)page];
	for (int32_t l = 0; l < a->n_layers; l++)
		sum += a->share[(size_t)l * (size_t)a->n_pages + (size_t)page];
	return sum / (float)a->n_layers;
}

static void normalise(float *page, int32_t n)
{
	double sum = 0;

	for (int32_t i = 0; i < n; i++)
		sum += (double)page[i];
	for (int32_t i = 0; sum > 0 && i < n; i++)
		page[i] = (float)((double)page[i] / sum);
}

static int32_t recent_pages(const struct timeline *t, int32_t n)
{
	int64_t size = t->session.page_size;
	int32_t k = size > 0 && size < RECENT_TOKENS ? (int32_t)(RECENT_TOKENS / size) : 1;

	return k < n ? k : n - 1; /* the first page counts as the sink, however short the text */
}

/* With a page that has the first tokens of the answer, too. */
static int32_t input_pages(const struct timeline *t, const struct tl_request *r, int32_t n)
{
	const int64_t size = t->session.page_size, input = r->params.input;

	if (input == EV_NULL_I || input < 1 || size < 1 || (input - 1) / size >= n - 1)
		return 0;
	return (int32_t)((input - 1) / size) + 1;
}

/* False: nothing was observed, or memory ran out. */
static bool look_take(struct look *k, const struct timeline *t, const struct view_state *s)
{
	const struct tl_request *r = view_drew(t, view_computing(t, s));
	const struct tl_attention *a = r ? &r->attention : NULL;
	bool head;

	*k = (struct look){ .a = a, .layer = -1, .head = -1 };
	if (!a || a->n_layers < 1 || a->n_pages < 1)
		return false;
	if (s->layer >= 0)
		k->layer = s->layer < a->n_layers ? s->layer : a->n_layers - 1;
	head = k->layer >= 0 && s->head >= 0 && a->head == s->head && a->head_layer == k->layer;
	k->head_missing = k->layer >= 0 && s->head >= 0 && !head;
	k->head = head ? a->head : -1;
	k->n = head ? a->head_pages : a->n_pages;
	k->recent = recent_pages(t, k->n);
	k->input = input_pages(t, r, k->n);
	k->page = malloc((size_t)k->n * sizeof *k->page);
	if (!k->page)
		return false;
	for (int32_t i = 0; i < k->n; i++)
		k->page[i] = head ? a->head_share[i] : layer_share(a, k->layer, i);
	normalise(k->page, k->n);
	return true;
}

static int by_share_falling(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* The fewest pages that hold MOST of it. */
static int32_t top_pages(const struct look *k, double *share)
{
	float *sorted = malloc((size_t)k->n * sizeof *sorted);
	int32_t n = 0;

	*share = 0;
	if (!sorted)
		return 0;
	for (int32_t i = 0; i < k->n; i++)
		sorted[i] = k->page[i];
	qsort(sorted, (size_t)k->n, sizeof *sorted, by_share_falling);
	while (n < k->n && *share < MOST)
		*share += (double)sorted[n++];
	free(sorted);
	return n;
}

/* Layers without attention are possible. */
static bool has_attention(const struct tl_attention *a, int32_t layer)
{
	for (int32_t i = 0; i < a->n_pages; i++)
		if (layer_share(a, layer, i) > 0)
			return true;
	return false;
}

static double near_zero(const struct tl_attention *a, int32_t layer)
{
	double sum = 0;
	int32_t n = 0;

	if (layer >= 0)
		return (double)a->near_zero[layer];
	for (int32_t l = 0; l < a->n_layers; l++) {
		sum += has_attention(a, l) ? (double)a->near_zero[l] : 0;
		n += has_attention(a, l);
	}
	return sum / n;
}

/* The request, layer and head, and the share of the top pages: the longest form that fits w
 * columns; the request is always named. */
static struct view_text figure_of(const struct look *k, int w)
{
	double share;
	const int32_t top = top_pages(k, &share);
	const struct view_text part = view_percent(share),
						   where = k->head >= 0 ? view_form("layer %d head %d", k->layer, k->head)
								   : k->layer >= 0 ? view_form("layer %d", k->layer)
												   : view_form("all layers");
	const struct view_text forms[] = {
		view_form("%s · %s in %d of %d page%s", where.text, part.text, top, k->n, plural(k->n)),
		view_form("%s · %s in %d page%s", where.text, part.text, top, plural(top)),
		view_form("%s · %s in %d/%d", where.text, part.text, top, k->n),
		view_form("%s · %s", where.text, part.text),
	};
	int i = 0;

	if (!has_attention(k->a, k->layer))
		return view_form("%s %s no attention", where.text, k->layer < 0 ? "have" : "has");
	while (i < 3 && text_width(forms[i].text, strlen(forms[i].text), false) > w)
		i++;
	return forms[i];
}

/* Bars h rows high, the highest share fills them; the colour says how much a share is. */
static void draw_bars(struct pen *p, int x0, int y, int h, const struct scale *c, const float *page)
{
	double most = highest(c, page);

	for (int x = 0; x < c->w; x++) {
		double share = column_share(c, page, x), part = most > 0 ? share / most * h : 0;
		for (int row = 0; row < h && (row == 0 || part > row); row++)
			view_spark(p, x0 + x, y + h - 1 - row, view_heat_ink(share), part - row);
	}
}

static void draw_marks(struct pen *p, int x0, int y, const struct scale *c, const struct look *k)
{
	const char *second = k->input ? "answer" : "recent";
	int end = x0 + c->w, from = x0 + column_of_page(c, k->input ? k->input : c->n - k->recent);

	view_put(p, x0, y, INK_DIM, k->input ? "input" : "sink");
	if ((!k->input && k->recent < 1) || end < x0 + 12)
		return;
	if (from + 6 <= p->r.w && from > x0 + 5 - !k->input)
		view_put(p, from, y, INK_DIM, "%s", second);
	else
		view_put_right(p, end, y, INK_DIM, "%s", second);
}

static int share_item(struct pen *p, int x, int y, const char *label, double share)
{
	const struct view_text part = view_percent(share);

	if (x + (int)snprintf(NULL, 0, "%s %5s", label, part.text) > p->r.w)
		return 0;
	return view_say(p, x, y, IN_DIM "%s " IN_TEXT "%5s", label, part.text) + 2;
}

/* What attention read of the cache in the newest step, where that is not all. */
static void put_read(struct pen *p, int x, int y, const struct timeline *t)
{
	const struct tl_step *step = timeline_last_step(t);
	struct view_text line;

	if (!step || step->s.kv_bytes >= step->s.kv_whole_bytes)
		return;
	line = view_form("KV read %s of %s", view_bytes((double)step->s.kv_bytes).text,
		view_bytes((double)step->s.kv_whole_bytes).text);
	if (x + text_width(line.text, strlen(line.text), false) <= p->r.w)
		view_put(p, x, y, INK_TEXT, "%s", line.text);
}

/* Of the shares of n pages: that of the sink, or in a look at an encoder's input of the page that
 * gets most, and that of the newest pages in the look at the text so far. NaN: there are none. */
static void ends_of(const struct look *k, const float *page, int32_t n, double *first, double *last)
{
	double all[2] = { 0, 0 }, most = 0, recent = 0;

	for (int32_t i = 0; i < n; i++) {
		all[i >= k->input] += (double)page[i];
		most = i < k->input || !i ? fmax(most, (double)page[i]) : most;
		recent += i && i >= k->input && i >= n - k->recent ? (double)page[i] : 0;
	}
	*first = all[!k->input] > 0 ? most / all[!k->input] : (double)NAN;
	*last = all[1] > 0 ? recent / all[1] : (double)NAN;
}

static void draw_shares(struct pen *p, int y, const struct timeline *t, const struct look *k)
{
	int32_t recent = at_most(k->n - k->input, k->recent);
	double share[2];
	int x = p->r.w < 56 ? 0 : view_put(p, 0, y, INK_DIM, "share") + 2;

	ends_of(k, k->page, k->n, &share[0], &share[1]);

	x += share_item(p, x, y, k->input ? "top input page" : "sink", share[0]);
	if (recent > 0)
		x += share_item(
			p, x, y, recent == 1 ? "last page" : view_form("last %d pages", recent).text, share[1]);
	x += share_item(p, x, y, "sparsity", near_zero(k->a, k->layer));
	put_read(p, x, y, t);
}

static void draw_small(struct pen *p, const struct timeline *t, const struct look *k)
{
	struct scale c = scale_make(k->n, p->r.w, PAGE_W);
	int under = p->r.h >= 4 ? 2 : p->r.h == 3 ? 1 : 0, h = p->r.h - 1 - under;

	h = at_most(h, BARS_MAX);
	draw_bars(p, 0, 1, h, &c, k->page);
	if (under == 2)
		draw_marks(p, 0, 1 + h, &c, k);
	if (under)
		draw_shares(p, under + h, t, k);
}

/* The map of all layers, when zoomed. */

enum { MAP_X = 7, STATS_W = 32 };

static void draw_stats(
	struct pen *p, int y, const struct look *k, int32_t layer, const float *row, enum ink ink)
{
	double v[3] = { 0, 0, near_zero(k->a, layer) };

	ends_of(k, row, k->a->n_pages, &v[0], &v[1]);
	for (int i = 0; i < 3; i++)
		view_put_right(p, p->r.w - 22 + 11 * i, y, ink, "%s", view_percent(v[i]).text);
}

/* A cell's height and colour show the same value, so that the map can be read without colours. */
static void draw_layer(
	struct pen *p, int y, const struct look *k, int32_t layer, const struct scale *c, float *row)
{
	bool chosen = layer == k->layer;

	for (int32_t i = 0; i < k->a->n_pages; i++)
		row[i] = layer_share(k->a, layer, i);
	normalise(row, k->a->n_pages);
	view_put_right(p, MAP_X - 2, y, chosen ? INK_BRIGHT : INK_DIM, "%s",
		layer < 0 ? "mean" : view_count(layer).text);
	if (chosen)
		pen_restyle(p, (struct rect){ 0, y, MAP_X - 1, 1 }, ATTR_REVERSE);
	for (int x = 0; x < c->w; x++) {
		double share = column_share(c, row, x);
		view_spark(p, MAP_X + x, y, view_heat_ink(share), view_heat(share));
	}
	draw_stats(p, y, k, layer, row, chosen ? INK_BRIGHT : INK_TEXT);
}

/* First visible layer: the chosen one is visible, the mean is always on top. */
static int32_t first_layer(const struct look *k, int rows)
{
	int32_t last = k->a->n_layers - rows, from = k->layer - rows / 2;

	if (rows >= k->a->n_layers || from < 0)
		return 0;
	return at_most(from, last);
}

static void draw_map(struct pen *p, int y, const struct look *k)
{
	float *row = malloc((size_t)k->a->n_pages * sizeof *row);
	struct scale c = scale_make(k->a->n_pages, p->r.w - MAP_X - STATS_W, ZOOM_PAGE_W);
	int rows = p->r.h - y - 4;
	const char *const heads[] = { k->input ? "input" : "sink", "recent", "sparsity" };

	if (!row || rows < 1) {
		free(row);
		return;
	}
	view_put(p, 0, y, INK_DIM, "layer");
	draw_marks(p, MAP_X, y, &c, k);
	for (int i = 0; i < 3; i++)
		view_put_right(p, p->r.w - 22 + 11 * i, y, INK_DIM, "%s", heads[i]);
	draw_layer(p, ++y, k, -1, &c, row);
	for (int32_t l = first_layer(k, rows), i = 0; i < rows && l < k->a->n_layers; i++, l++)
		draw_layer(p, ++y, k, l, &c, row);
	if (rows < k->a->n_layers)
		view_put(p, 0, y + 1, INK_DIM, "%d of %d layers, up and down go on", rows, k->a->n_layers);
	free(row);
}

/* Of each page how much was read, where that is not all. */
static void draw_reads(struct pen *p, int y, const struct look *k, const struct scale *c)
{
	if (!k->a->n_read || k->n != k->a->n_read)
		return;
	view_put_right(p, MAP_X - 2, y, INK_DIM, "read");
	for (int x = 0; x < c->w; x++)
		pen_spark(p, MAP_X + x, y, column_share(c, k->a->read, x) / c->per_column);
}

static void draw_note(struct pen *p, const struct timeline *t, const struct look *k)
{
	const bool known = k->a->threshold > 0 && k->a->threshold <= 1;

	view_put(p, 0, p->r.h - 1, INK_DIM,
		"row of position %lld, step %lld. attention sparsity: values below %s, of all heads. "
		"%lld tokens a page",
		(long long)k->a->pos, (long long)k->a->step,
		known ? view_form("%g", k->a->threshold).text : "the threshold",
		(long long)t->session.page_size);
}

static void draw_zoomed(struct pen *p, const struct timeline *t, const struct look *k)
{
	struct scale c = scale_make(k->n, p->r.w - MAP_X - STATS_W, ZOOM_PAGE_W);
	int bars = p->r.h >= 30 ? 5 : p->r.h >= 20 ? 3 : 1, y = 2;

	view_put_right(p, MAP_X - 2, y, INK_DIM, "%s", view_percent(highest(&c, k->page)).text);
	draw_bars(p, MAP_X, y, bars, &c, k->page);
	y += bars;
	draw_reads(p, y, k, &c);
	draw_shares(p, y + 1, t, k);
	draw_map(p, y + 3, k);
	draw_note(p, t, k);
}

static void attention_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct look k;
	const struct tl_request *r = view_computing(t, s);
	struct view_text figure;

	if (!look_take(&k, t, s)) {
		pen_head(p, view_attention.name, view_no_attention(t) ? "none in this model" : NULL);
		view_nothing(p, view_no_attention(t) ? VIEW_NO_ATTENTION
						: r && r->n_tokens
							? VIEW_FAR_BACK
							: "nothing yet: seen when a request in focus computes a row");
		return;
	}
	figure = figure_of(&k, p->r.w - (int)sizeof "attention ");
	if (k.head_missing)
		view_head(p, view_attention.name, "head %d from the next step · %s", s->head, figure.text);
	else
		pen_head(p, view_attention.name, figure.text);
	if (s->zoomed && p->r.h >= 12 && p->r.w >= MAP_X + STATS_W + 12)
		draw_zoomed(p, t, &k);
	else
		draw_small(p, t, &k);
	free(k.page);
}

static int32_t bounded(int64_t v, int64_t n)
{
	return v < -1 ? -1 : v >= n ? (int32_t)(n - 1) : (int32_t)v;
}

static bool attention_key(int key, const struct timeline *t, struct view_state *s)
{
	int64_t layers = t->session.n_layers, heads = t->session.n_heads;

	if (layers < 1 || layers > TL_MAX_LAYERS || heads < 1 || heads > INT32_MAX)
		return false;
	switch (key) {
	case KEY_UP_: s->layer = bounded((int64_t)s->layer - 1, layers); break;
	case KEY_DOWN_: s->layer = bounded((int64_t)s->layer + 1, layers); break;
	case KEY_HOME_: s->layer = -1; break;
	case KEY_END_: s->layer = (int32_t)layers - 1; break;
	case KEY_LEFT_: s->head = bounded((int64_t)s->head - 1, heads); break;
	case KEY_RIGHT_:
		s->head = bounded((int64_t)s->head + 1, heads);
		if (s->layer < 0) /* a head needs a layer */
			s->layer = 0;
		break;
	default: return false;
	}
	if (s->layer < 0)
		s->head = -1;
	return true;
}

const struct view view_attention = {
	VIEW(ATTENTION, attention, "attention", 24, 2, 4),
	.draw = attention_draw,
	.key = attention_key,
};

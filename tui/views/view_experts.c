/* The experts view: which experts of each layer ran, how evenly, and what their weights are beside
 * those of a dense model. All of it is the event experts of the newest watched row. Thread: the
 * UI's. */

#include "tui/views/view_util.h"

enum { SUMS = 5, LAYER = 6, FIGURES = 27, GAP = 2 };
enum { LOAD = 1, LATELY }; /* of a layer's shares: those of all rows, of the last ones */
enum { AT_LAYER, AT_LAST, AT_ALL, AT_BITS, AT_BUSIEST, AT_UNUSED, N_COLUMNS };

static bool has_experts(const struct tl_watched *w, int32_t layer)
{
	return !isnan(tl_layer_experts(w, layer)[3 * w->n]);
}

/* The most of the shares `which` of experts first … of a cell. */
static double cell_of(
	const struct tl_watched *w, const float *value, int which, int32_t first, int32_t each)
{
	double most = 0;

	for (int32_t i = first; i < first + each && i < w->n; i++)
		most = fmax(most, (double)value[which * w->n + i]);
	return most;
}

static bool used_now(const struct tl_watched *w, const float *value, int32_t first, int32_t each)
{
	for (int32_t i = first; i < first + each && i < w->n; i++)
		if (value[i] > 0)
			return true;
	return false;
}

/* Half a cell high: what an expert gets if all get the same. */
static void put_cells(struct pen *p, int x, int y, const struct tl_watched *w, const float *value,
	int which, int32_t each)
{
	const double even = (double)w->used / w->n;
	for (int32_t i = 0; i < w->n; i += each, x++) {
		const double share = cell_of(w, value, which, i, each);

		if (share > 0)
			view_spark(p, x, y, used_now(w, value, i, each) ? INK_BRIGHT : INK_BAR,
				fmin(fmax(share / (2 * even), 0.125), 1));
		else
			view_put(p, x, y, INK_DIM, "\xc2\xb7");
	}
}

/* Times the even share that the busiest expert of all counted rows has; experts that none used. */
static double busiest(const struct tl_watched *w, const float *value, int *unused)
{
	double most = 0;

	*unused = 0;
	for (int32_t i = 0; i < w->n; i++) {
		most = fmax(most, (double)value[w->n + i]);
		*unused += !(value[w->n + i] > 0);
	}
	return most * w->n / fmax(w->used, 1);
}

/* The columns where `cells` cells stand for the experts. */
static void columns_for(struct column out[N_COLUMNS], int cells)
{
	const bool wide = cells > 8;

	out[AT_LAYER] = (struct column){ "layer", LAYER - 1, 0 };
	out[AT_LAST] = (struct column){ wide ? "last rows" : "last", -cells, 1 };
	out[AT_ALL] = (struct column){ wide ? "all rows" : "all", -cells, GAP };
	out[AT_BITS] = (struct column){ "bits", 8, GAP };
	out[AT_BUSIEST] = (struct column){ "busiest", 9, 0 };
	out[AT_UNUSED] = (struct column){ "unused", 8, 0 };
}

static void put_layer(
	const struct table *t, const struct tl_watched *w, int32_t layer, int32_t each)
{
	const float *value = tl_layer_experts(w, layer);
	int unused;
	const double most = busiest(w, value, &unused);

	table_put(t, AT_LAYER, INK_DIM, "%d ", (int)layer);
	if (!has_experts(w, layer)) {
		view_put(t->p, LAYER, t->y, INK_DIM, "dense: no experts");
		return;
	}
	put_cells(t->p, table_rect(t, AT_LAST).x, t->y, w, value, LATELY, each);
	put_cells(t->p, table_rect(t, AT_ALL).x, t->y, w, value, LOAD, each);
	table_put(t, AT_BITS, INK_TEXT, "%.2f", fmax((double)value[3 * w->n], 0));
	table_put(t, AT_BUSIEST, INK_TEXT, "%.1f \xc3\x97", most);
	table_put(t, AT_UNUSED, unused ? INK_BRIGHT : INK_DIM, "%d", unused);
}

static void put_bytes(struct pen *p, const struct timeline *t, const struct tl_watched *w)
{
	const double token = (double)t->session.weight_bytes,
				 dense = token - (double)w->read + (double)w->whole;
	const int x =
		view_say(p, 0, 1, IN_DIM "a token reads " IN_BRIGHT "%s" IN_DIM " of %s of experts",
			view_bytes((double)w->read).text, view_bytes((double)w->whole).text);

	if (token <= 0 || dense < token)
		return;
	view_say(p, x, 1, IN_DIM "; with the rest " IN_BRIGHT "%s", view_bytes(token).text);
	view_say(p, 0, 2, IN_DIM "a dense model as large reads %s: " IN_BRIGHT "%.1f \xc3\x97 as much",
		view_bytes(dense).text, dense / token);
}

static void put_key(struct pen *p, const struct tl_watched *w, int32_t each)
{
	const int x = view_put(p, 0, 3, INK_DIM,
		"half high: even share, %d of %d \xc2\xb7 bright: this token's", (int)w->used, (int)w->n);

	if (each > 1)
		view_put(p, x, 3, INK_DIM, " \xc2\xb7 column: most of %d", (int)each);
}

static void nothing(struct pen *p, const struct timeline *t)
{
	bool routes = false, reported = t->n_products > 0;
	const char *on = timeline_setting(t, "watch-layers");

	for (int32_t i = 0; i < t->n_products; i++)
		routes |= t->product[i].stage == EV_STAGE_route;
	view_empty(p, "experts",
		reported && !routes
			? "no experts: the feed-forward is dense, every token reads all of it; a mixture of "
			  "experts (`/model experts`) shows here which ones each token read"
		: on && !strcmp(on, "on")
			? "nothing yet: the next token tells which experts it used"
			: "which experts each token read, by layer: `/watch-layers on`, then ask");
}

static void experts_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const struct tl_request *r = view_request(t, s);
	const struct tl_watched *w = r ? &r->experts : NULL;
	const int rows = p->r.h - SUMS, room = (p->r.w - LAYER - FIGURES - 2 * GAP) / 2;
	struct column column[N_COLUMNS];
	struct table table = TABLE(p, column, SUMS - 1);
	int32_t each, first;

	if (!w || w->step == EV_NULL_I || !w->value || w->n < 1 || room < 1) {
		nothing(p, t);
		return;
	}
	each = (w->n + room - 1) / room;
	view_head(p, "experts", "request %s, position %lld \xc2\xb7 %s rows", view_label(r->id).text,
		(long long)w->pos, view_count(w->rows).text);
	put_bytes(p, t, w);
	put_key(p, w, each);
	columns_for(column, (w->n + each - 1) / each);
	table_heads(&table);
	first = table_first(&s->cursor[VIEW_EXPERTS], w->n_layers, rows);
	for (int32_t i = first; i < w->n_layers && ++table.y < p->r.h; i++)
		put_layer(&table, w, i, each);
}

static bool experts_key(int key, const struct timeline *t, struct view_state *s)
{
	const struct tl_request *r = view_request(t, s);

	return table_key(key, &s->cursor[VIEW_EXPERTS], r ? r->experts.n_layers : 0);
}

static const struct hint hints[] = { { "\xe2\x86\x91\xe2\x86\x93", "layers" }, { NULL, NULL } };

const struct view view_experts = {
	VIEW(EXPERTS, experts, "experts", 60, 7, 24),
	.draw = experts_draw,
	.key = experts_key,
	.hints = hints,
};

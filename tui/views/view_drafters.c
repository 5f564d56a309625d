/* The drafters view: shadow drafters, which draft without effect on the run: their predicted
 * acceptance, cost and speedup; next to it the measured values of the active one.
 *
 * A line is a drafter, the highest predicted speed on top. Zoomed: also what a step of K rows
 * costs, and what auto chose. cursor[VIEW_DRAFTERS] is the first line shown. Thread: the UI's. */

#include "tui/views/view_util.h"

enum { NAME_W = 20, NAME_NARROW = 14, PLACE_W = 6, LEAST_W = 44, WIDE = 100 };

static double plain_of(const struct timeline *t)
{
	const struct tl_shadow *off = timeline_shadow(t, "off");

	return off ? off->predicted : (double)NAN;
}

static const char *name_of(const char *drafter)
{
	return strcmp(drafter, "off") ? drafter : "plain decoding";
}

static double rank_of(const struct tl_shadow *s)
{
	return isnan(s->predicted) ? isnan(s->measured) ? -1 : s->measured : s->predicted;
}

static int by_prediction(const void *a, const void *b)
{
	const struct tl_shadow *x = *(const struct tl_shadow *const *)a,
						   *y = *(const struct tl_shadow *const *)b;
	double p = rank_of(x), q = rank_of(y);

	return p != q ? (p < q) - (p > q) : strcmp(x->drafter, y->drafter);
}

static struct view_text two(double v, const char *form)
{
	struct view_text out = { "–" };

	if (!isnan(v))
		snprintf(out.text, sizeof out.text, form, v);
	return out;
}

/* Columns end there; 0: there is no room. */
struct columns {
	int name_w, tokens, places, n_places, cost, predicted, speed, measured;
};

static int places_of(const struct timeline *t)
{
	int n = 0;

	for (int32_t i = 0; i < t->n_shadows; i++)
		for (int p = n; p < TL_PLACES; p++)
			if (t->shadow[i].verified[p])
				n = p + 1;
	return n;
}

static struct columns columns_for(const struct pen *p, const struct timeline *t)
{
	struct columns c = { .name_w = p->r.w < 70 ? NAME_NARROW : NAME_W };
	int whole = 2 + c.name_w + 6 + PLACE_W * places_of(t) + 37, end = p->r.w, room;

	if (end > WIDE && end > whole + PLACE_W) /* a wider gap would need a ruler to cross it */
		end = at_least(whole, WIDE);
	c.measured = end;
	c.speed = end - 10;
	c.predicted = end - 17;
	c.cost = p->r.w >= 62 ? c.predicted - 11 : 0;
	c.tokens = 2 + c.name_w + 6;
	room = ((c.cost ? c.cost : c.predicted) - 9 - c.tokens) / PLACE_W;
	c.n_places = at_least(at_most(places_of(t), room), 0);
	c.places = c.tokens + 2;
	return c;
}

static void draw_head(struct pen *p, int y, const struct columns *c)
{
	view_put(p, 2, y, INK_DIM, "drafter");
	view_put_right(p, c->tokens, y, INK_DIM, "a step");
	for (int i = 0; i < c->n_places; i++)
		view_put_right(p, c->places + (i + 1) * PLACE_W - 1, y, INK_DIM, i ? "%d" : "at %d", i + 1);
	if (c->cost)
		view_put_right(p, c->cost, y, INK_DIM, "its cost");
	view_put_right(p, c->speed, y, INK_DIM, "predicted");
	view_put_right(p, c->measured, y, INK_DIM, "measured");
}

/* The setting says which is on. The shadow rows of drafters that are told of no more still have the
 * flag of their time. */
static bool is_used(const struct timeline *t, const struct tl_shadow *s)
{
	const char *spec = timeline_setting(t, "spec");

	return spec ? !strncmp(spec, s->drafter, TL_DRAFTER - 1) : s->used;
}

static void draw_drafter(struct pen *p, int y, const struct timeline *t, const struct tl_shadow *s,
	const struct columns *c)
{
	bool plain = !strcmp(s->drafter, "off"), used = is_used(t, s);
	double base = plain_of(t), each = s->steps > 0
										  ? (double)(s->propose_ns + s->learn_ns) / (double)s->steps
										  : (double)NAN;

	if (used)
		view_put(p, 0, y, INK_ACCEPTED, "%s", glyph(p->c, GLYPH_ARROW));
	p->ink = used ? INK_BRIGHT : INK_TEXT;
	pen_clip(p, 2, y, c->name_w, name_of(s->drafter), -1);
	view_put_right(p, c->tokens, y, INK_TEXT, "%s", two(s->tokens_ema, "%.2f").text);
	for (int i = 0; i < c->n_places; i++)
		if (s->verified[i])
			view_put_right(p, c->places + (i + 1) * PLACE_W - 1, y, INK_TEXT, "%s",
				view_percent(s->accepted[i] <= s->verified[i]
								 ? (double)s->accepted[i] / s->verified[i]
								 : (double)NAN)
					.text);
	if (c->cost && !plain && !isnan(each))
		view_put_right(p, c->cost, y, INK_TEXT, "%s", view_ns(each).text);
	view_put_right(p, c->predicted, y, INK_BRIGHT, "%s", two(s->predicted, "%.0f").text);
	if (!plain && base > 0 && !isnan(s->predicted))
		view_put_right(p, c->speed, y, s->predicted > base ? INK_ACCEPTED : INK_DIM, "%s",
			two(s->predicted / base, "x%.2f").text);
	view_put_right(p, c->measured, y, INK_BRIGHT, "%s", two(s->measured, "%.0f").text);
}

/* Cost of a step of K rows at small depth. More rows cannot take less time, so a value above a
 * later one was disturbed. 0: not measured. */
static double cost_of(const struct timeline *t, int64_t rows)
{
	double least = INFINITY;
	bool there = false;

	for (int32_t i = 0; i < t->n_costs; i++) {
		if (t->cost[i].depth || t->cost[i].rows < rows)
			continue;
		there |= t->cost[i].rows == rows;
		least = fmin((double)t->cost[i].ns, least);
	}
	return there ? least : 0;
}

/* c(K)/c(1) for some K. */
static void draw_cost(struct pen *p, int y, const struct timeline *t)
{
	static const int rows[] = { 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64 };
	double one = cost_of(t, 1);
	int x = view_put(p, 0, y, INK_DIM, "a step of K rows costs, against one: ");

	for (size_t k = 0; k < sizeof rows / sizeof *rows && x + 9 <= p->r.w; k++)
		if (one > 0 && cost_of(t, rows[k]) > 0)
			x +=
				view_say(p, x, y, IN_DIM "%d " IN_TEXT "%.2f", rows[k], cost_of(t, rows[k]) / one) +
				2;
}

static void draw_choices(struct pen *p, int y, int rows, const struct timeline *t)
{
	int n = at_most(t->n_choices, rows);

	for (int i = 0; i < n; i++) {
		const struct tl_choice *c = &t->choice[t->n_choices - n + i];
		view_say(p, 0, y + i,
			IN_DIM "step %lld: auto took " IN_BRIGHT "%s" IN_TEXT "%s: x%.2f" IN_DIM " (%s: x%.2f)",
			(long long)c->step, name_of(c->drafter),
			c->nodes > 0 ? view_form(", up to %d tokens", c->nodes).text : "", c->speed,
			name_of(c->before), c->speed_before);
	}
}

/* Of the shadow drafters, and on top one for the drafter that is on and none of them. */
static int n_rows(const struct timeline *t)
{
	bool own = timeline_setting(t, "spec");

	for (int32_t i = 0; i < t->n_shadows; i++)
		own &= !is_used(t, &t->shadow[i]);
	return t->n_shadows + own;
}

static void draw_table(struct pen *p, const struct timeline *t, struct view_state *s, int rows)
{
	const struct tl_shadow *by[TL_SHADOWS + 1];
	struct columns c = columns_for(p, t);
	struct tl_shadow own = {
		.tokens_ema = (double)NAN, .predicted = (double)NAN, .measured = (double)NAN
	};
	int n = n_rows(t), first = n - t->n_shadows, from;

	if (first) {
		snprintf(own.drafter, sizeof own.drafter, "%s", timeline_setting(t, "spec"));
		by[0] = &own;
	}
	for (int32_t i = 0; i < t->n_shadows; i++)
		by[first + i] = &t->shadow[i];
	qsort(by + first, (size_t)t->n_shadows, sizeof *by, by_prediction);
	from = table_first(&s->cursor[VIEW_DRAFTERS], n, rows);
	draw_head(p, 1, &c);
	for (int i = 0; i < rows && from + i < n; i++)
		draw_drafter(p, 2 + i, t, by[from + i], &c);
}

static void drafters_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const char *list = timeline_setting(t, "shadow");
	bool on = list && strcmp(list, "off") != 0, zoomed = s->zoomed && p->r.h >= 12;
	int rows = p->r.h - 2, below = zoomed ? 2 + (at_most(t->n_choices, 6)) : 0;

	if (!t->n_shadows) {
		view_empty(p, view_drafters.name,
			on ? "nothing settled yet: guesses are compared with the text that comes"
			   : "which drafter would be kept how often: `/shadow all` lets all guess beside the "
				 "run");
		return;
	}
	view_head(p, view_drafters.name, "%.60s · plain %s tok/s", on ? list : "auto",
		two(plain_of(t), "%.0f").text);
	rows = at_most(rows - below, n_rows(t));
	draw_table(p, t, s, at_least(rows, 1));
	if (!zoomed)
		return;
	draw_cost(p, 3 + rows, t);
	draw_choices(p, 4 + rows, at_most(p->r.h - 4 - rows, 6), t);
}

static bool drafters_key(int key, const struct timeline *t, struct view_state *s)
{
	return table_key(key, &s->cursor[VIEW_DRAFTERS], t->n_shadows + 1);
}

const struct view view_drafters = {
	VIEW(DRAFTERS, drafters, "drafters", LEAST_W, 4, 8),
	.draw = drafters_draw,
	.key = drafters_key,
};

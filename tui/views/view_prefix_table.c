/* Parts of the prefix cache view: the pins, and the table of all lookups. */
#include "tui/views/view_prefix.h"

#include <math.h>
#include <stdio.h>

#include "tui/views/table.h"
#include "tui/views/view_util.h"

/* Declared prefixes: what each costs in pages, how long it is kept, and what it gave. */
static void draw_pin(struct pen *p, int y, const struct timeline *t, const struct tl_pin *pin)
{
	const int64_t left =
		pin->ttl_ns == EV_NULL_I ? EV_NULL_I : pin->t_ns + pin->ttl_ns - t->last_t_ns;
	const char *dot = glyph(p->c, GLYPH_DOT);
	int x = view_put(p, 0, y, INK_TEXT, "pin ");

	x += view_put_label(p, x, y, pin->pin);
	x += view_put(p, x, y, INK_DIM, " %s tokens %s ", view_count(pin->tokens).text, dot);
	x += view_put(p, x, y, INK_TEXT, "%s pages", view_count(pin->pages).text);
	x += view_put(p, x, y, INK_DIM, ", %s %s ", view_bytes((double)pin->bytes).text, dot);
	if (pin->last == EV_PIN_asked)
		x += view_put(p, x, y, INK_DIM, "is computed");
	else if (left == EV_NULL_I)
		x += view_put(p, x, y, INK_DIM, "until it is removed");
	else
		x += view_put(
			p, x, y, INK_TEXT, "%lld s left", (long long)(left > 0 ? left / 1000000000 : 0));
	x += view_put(p, x, y, INK_DIM, " %s gave %s tokens to %lld prompt%s", dot,
		view_count(pin->given).text, (long long)pin->prompts, pin->prompts == 1 ? "" : "s");
}

int view_put_pins(struct pen *p, int y, int rows, const struct timeline *t)
{
	int n = 0, at = 0;

	for (int32_t i = 0; i < t->n_pins; i++)
		n += timeline_pin_lives(&t->pin[i]);
	n = n < rows ? n : rows;
	for (int32_t i = t->n_pins; p && i-- > 0 && at < n;)
		if (timeline_pin_lives(&t->pin[i]))
			draw_pin(p, y + n - ++at, t, &t->pin[i]);
	return n > 0 ? n : 0;
}

enum { AT_REQUEST, AT_ASKED, AT_HIT, AT_PAGES, AT_PART, AT_WHY };
static const struct column wide[] = { { "request", -26, 0 }, { "prompt", 10, 0 }, { "found", 8, 0 },
	{ "pages", 8, 0 }, { "part", 8, 0 }, { "why it ended there", 0, 3 } };
static const struct column narrow[] = { { "request", -18, 0 }, { "prompt", 8, 0 },
	{ "found", 7, 0 }, { "pages", 7, 0 }, { "part", 7, 0 }, { "why it ended there", 0, 2 } };

static void put_reason(
	const struct table *table, const struct timeline *t, const struct ev_lookup *l)
{
	if (l->reason == EV_PREFIX_diverged && l->got != EV_NULL_I && l->expected != EV_NULL_I) {
		table_put(table, AT_WHY, INK_DIM, "at %s it says %s, %s said %s",
			view_count(l->diverge_pos).text, view_quote(t, (int32_t)l->got).text,
			l->nearest > 0 ? view_label(l->nearest).text : "?",
			view_quote(t, (int32_t)l->expected).text);
		return;
	}
	for (const struct ev_code *c = ev_codes; c->list; c++)
		if (!strcmp(c->list, "prefix") && c->value == l->reason)
			table_put(table, AT_WHY, INK_DIM, "%s", c->doc);
}

static void draw_lookup(
	const struct table *table, const struct timeline *t, const struct tl_request *r)
{
	const struct ev_lookup *l = &r->lookup;
	char asks[VIEW_ASKS];
	struct pen in = table_cell(table, AT_REQUEST);
	const int label_w = view_put_label(&in, 0, 0, r->id);

	view_clip(&in, label_w + 1, 0, in.r.w - label_w - 1,
		r->state != TL_FINISHED ? view_ink(r->id) : INK_DIM, view_asks(r, asks, sizeof asks));
	table_put(table, AT_ASKED, INK_TEXT, "%s", view_count(l->asked).text);
	table_put(table, AT_HIT, INK_TEXT, "%s", view_count(l->hit).text);
	table_put(table, AT_PAGES, INK_TEXT, "%s", view_count(l->hit_pages).text);
	table_put(table, AT_PART, INK_BRIGHT, "%s",
		view_percent(l->asked > 0 ? (double)l->hit / (double)l->asked : (double)NAN).text);
	put_reason(table, t, l);
}

void view_put_lookups(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct table table = TABLE(p, wide, 0);
	int rows = p->r.h - 1, n = 0, skip;

	for (int32_t i = 0; i < t->n_requests; i++)
		n += t->request[i].looked_up;
	table.column = p->r.w < 96 ? narrow : wide;
	table_heads(&table);
	skip = table_first(&s->cursor[VIEW_PREFIX], n, rows); /* counted from the end */
	table.y = n < rows ? n : rows;
	for (int32_t i = t->n_requests; i-- > 0 && table.y > 0;)
		if (t->request[i].looked_up && skip-- <= 0) {
			draw_lookup(&table, t, &t->request[i]);
			table.y--;
		}
}

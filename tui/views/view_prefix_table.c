/* Parts of the prefix cache view: the pins, and the table of all lookups. */
#include "tui/views/view_prefix.h"

#include <math.h>
#include <stdio.h>

#include "tui/views/view_util.h"

/* Declared prefixes: what each costs in pages, how long it is kept, and what it gave. */
static void draw_pin(struct pen *p, int y, const struct timeline *t, const struct tl_pin *pin)
{
	const int64_t left =
		pin->ttl_ns == EV_NULL_I ? EV_NULL_I : pin->t_ns + pin->ttl_ns - t->last_t_ns;
	const char *dot = glyph(p->c, GLYPH_DOT);
	char n[VIEW_NUM], bytes[VIEW_NUM];
	int x = view_put(p, 0, y, INK_TEXT, "pin ");

	x += view_put_label(p, x, y, pin->pin);
	x += view_put(p, x, y, INK_DIM, " %s tokens %s ", view_count(n, pin->tokens), dot);
	x += view_put(p, x, y, INK_TEXT, "%s pages", view_count(n, pin->pages));
	x += view_put(p, x, y, INK_DIM, ", %s %s ", view_bytes(bytes, (double)pin->bytes), dot);
	if (pin->last == EV_PIN_asked)
		x += view_put(p, x, y, INK_DIM, "is computed");
	else if (left == EV_NULL_I)
		x += view_put(p, x, y, INK_DIM, "until it is removed");
	else
		x += view_put(
			p, x, y, INK_TEXT, "%lld s left", (long long)(left > 0 ? left / 1000000000 : 0));
	x += view_put(p, x, y, INK_DIM, " %s gave %s tokens to %lld prompt%s", dot,
		view_count(n, pin->given), (long long)pin->prompts, pin->prompts == 1 ? "" : "s");
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

static const struct columns { /* numbers end there, words begin */
	int text_w, asked, hit, pages, part, why;
} wide = { 24, 36, 44, 52, 60, 63 }, narrow = { 16, 26, 33, 40, 47, 49 };

static const struct columns *columns_for(const struct pen *p)
{
	return p->r.w < 96 ? &narrow : &wide;
}

static void long_reason(char *out, size_t cap, const struct timeline *t, const struct ev_lookup *l)
{
	char got[VIEW_TOKEN], expected[VIEW_TOKEN], pos[VIEW_NUM];

	*out = '\0';
	if (l->reason == EV_PREFIX_diverged && l->got != EV_NULL_I && l->expected != EV_NULL_I) {
		snprintf(out, cap, "at %s it says %s, %s said %s", view_count(pos, l->diverge_pos),
			view_quote(got, t, (int32_t)l->got), l->nearest > 0 ? view_label(l->nearest).text : "?",
			view_quote(expected, t, (int32_t)l->expected));
		return;
	}
	for (const struct ev_code *c = ev_codes; c->list; c++)
		if (!strcmp(c->list, "prefix") && c->value == l->reason)
			snprintf(out, cap, "%s", c->doc);
}

static void draw_lookup(struct pen *p, int y, const struct timeline *t, const struct tl_request *r)
{
	const struct columns *c = columns_for(p);
	const struct ev_lookup *l = &r->lookup;
	char words[3 * VIEW_TOKEN], n[VIEW_NUM], asks[VIEW_ASKS];
	struct pen in = *p;

	int label_w = view_put_label(p, 0, y, r->id);

	in.ink = r->state != TL_FINISHED ? (uint8_t)view_ink(r->id) : INK_DIM;
	pen_clip(&in, label_w + 1, y, c->text_w + 1 - label_w, view_asks(r, asks, sizeof asks), -1);
	view_put_right(p, c->asked, y, INK_TEXT, "%s", view_count(n, l->asked));
	view_put_right(p, c->hit, y, INK_TEXT, "%s", view_count(n, l->hit));
	view_put_right(p, c->pages, y, INK_TEXT, "%s", view_count(n, l->hit_pages));
	view_put_right(p, c->part, y, INK_BRIGHT, "%s",
		view_percent(n, l->asked > 0 ? (double)l->hit / (double)l->asked : (double)NAN));
	long_reason(words, sizeof words, t, l);
	in.ink = INK_DIM;
	pen_clip(&in, c->why, y, p->r.w - c->why, words, -1);
}

static void draw_heads(struct pen *p, int y)
{
	const struct columns *c = columns_for(p);

	view_put(p, 0, y, INK_DIM, "request");
	view_put_right(p, c->asked, y, INK_DIM, "prompt");
	view_put_right(p, c->hit, y, INK_DIM, "found");
	view_put_right(p, c->pages, y, INK_DIM, "pages");
	view_put_right(p, c->part, y, INK_DIM, "part");
	view_put(p, c->why, y, INK_DIM, "why it ended there");
}

void view_put_lookups(struct pen *p, const struct timeline *t, struct view_state *s)
{
	int rows = p->r.h - 1, n = 0, skip, y = rows;
	int64_t *below = &s->cursor[VIEW_PREFIX];

	for (int32_t i = 0; i < t->n_requests; i++)
		n += t->request[i].looked_up;
	*below = *below > n - rows ? n - rows : *below;
	*below = *below < 0 ? 0 : *below;
	skip = (int)*below;
	y = n < rows ? n : rows;
	draw_heads(p, 0);
	for (int32_t i = t->n_requests; i-- > 0 && y > 0;)
		if (t->request[i].looked_up && skip-- <= 0)
			draw_lookup(p, y--, t, &t->request[i]);
}

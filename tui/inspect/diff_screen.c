/* The screen of `cutaway diff --view`. See inspect.h. */
#include "tui/inspect/inspect.h"

#include "base/embed.h"
#include "tui/views/view.h"

enum { HEAD_ROWS = 3, FOOT_ROWS = 5, WIDE = 120, HIGH = 20 };

EMBED(diff_screen_help, "tui/inspect/diff_screen.txt");

/* On narrow screens each side's draw takes two lines. */
static int foot_rows(int w, int h)
{
	return w < WIDE && h >= HIGH ? FOOT_ROWS + 2 : FOOT_ROWS;
}

static const struct diff_pair *pair_of(const struct diff_screen *s)
{
	return &s->d->pair[s->pair];
}

/* ---- columns ---- */

/* First token shown: the answer's first, or the first difference if that is earlier. */
static int32_t base_of(const struct diff_pair *p, int side)
{
	int32_t at = p->from[side] + p->at, n_prompt = p->side[side].n_prompt;

	if (p->side[side].request->kind == EV_REQUEST_KIND_score)
		return 0;
	return p->cause != DIFF_PROMPT && p->cause != DIFF_EQUAL && p->cause != DIFF_ALONE &&
				   at < n_prompt
			   ? at
			   : n_prompt;
}

static int fill_column(struct text_column *c, const struct history *h, const struct diff_pair *p,
	int side, struct err *e)
{
	const struct diff_side *s = &p->side[side];
	const int32_t base = base_of(p, side);

	return text_column_fill(c, base, s->ids + base, s->n - base, &h->texts, e);
}

/* The hunk a third down, in both columns. */
static void scroll_to_hunk(struct diff_screen *s, int rows)
{
	const struct diff_pair *p = pair_of(s);

	for (int side = 0; side < 2; side++) {
		struct text_column *c = &s->screen.column[side];
		int32_t token = s->hunk < 0 ? c->base : side ? p->hunk[s->hunk].b : p->hunk[s->hunk].a;

		if (!c->text || token < c->base || token > c->base + c->n)
			continue;
		c->scroll = text_column_line(c, token) - rows / 3;
	}
}

static int lay(struct diff_screen *s, int w, int rows, bool ascii, struct err *e)
{
	const struct diff_pair *p = pair_of(s);
	bool fresh = !s->laid;

	for (int side = 0; side < 2; side++) {
		struct text_column *c = &s->screen.column[side];

		if (fresh) {
			text_column_free(c);
			if (p->side[side].request && fill_column(c, s->d->h[side], p, side, e))
				return -1;
		}
		fresh |= c->w != w;
		if (text_column_wrap(c, w, ascii, e))
			return -1;
	}
	if (fresh)
		scroll_to_hunk(s, rows);
	s->laid = true;
	text_column_clamp(&s->screen.column[0], rows);
	text_column_clamp(&s->screen.column[1], rows);
	return 0;
}

/* ---- drawing ---- */

static int hunk_of(const struct diff_pair *p, int side, int32_t token)
{
	for (int32_t i = 0; i < p->n_hunks; i++) {
		int32_t from = side ? p->hunk[i].b : p->hunk[i].a,
				end = side ? p->hunk[i].b_end : p->hunk[i].a_end;

		if (token < from)
			return -1;
		if (token < end)
			return i;
	}
	return -1;
}

struct styled {
	const struct diff_screen *s;
	int side;
};

static void style(void *arg, int32_t token, bool standin, struct pen *pen)
{
	const struct styled *of = arg;
	const struct diff_pair *p = pair_of(of->s);
	int hunk = hunk_of(p, of->side, token);

	pen->ink = standin || (hunk < 0 && p->n_hunks) ? INK_DIM : hunk < 0 ? INK_TEXT : INK_BRIGHT;
	pen->attr = hunk < 0              ? 0
				: hunk == of->s->hunk ? ATTR_UNDERLINE | ATTR_BOLD
				: pen->c->mono        ? ATTR_BOLD
									  : 0;
	if (p->n_hunks && token == (of->side ? p->hunk[0].b : p->hunk[0].a) && hunk == 0)
		pen->attr = ATTR_REVERSE | ATTR_BOLD; /* the first difference */
}

static void draw_column(const struct diff_screen *s, int side, struct pen *pen)
{
	const struct text_column *c = &s->screen.column[side];

	text_column_draw(c, pen, style, &(struct styled){ s, side });
	pen->attr = 0;
	pen->ink = INK_DIM;
	if (!pair_of(s)->side[side].request)
		pen_text(pen, 0, 0, "no such request", -1);
	else if (!c->n)
		pen_text(pen, 0, 0, "nothing was drawn", -1);
}

static void draw_title(const struct diff_screen *s, int side, struct canvas *c)
{
	const struct diff_side *d = &pair_of(s)->side[side];
	struct pen p = screen_title(c, side, basename(s->d->h[side]->path));
	int x;

	if (!d->request)
		return;
	x = pen_printf(&p, 0, 1, "request %lld ", (long long)d->request->number);
	pen_clip(&p, x, 1, p.r.w - x, d->request->text, -1);
}

static void draw_status(struct diff_screen *s, struct canvas *c)
{
	struct pen p = screen_status(c);
	const struct diff_pair *pair = pair_of(s);

	pen_printf(&p, 1, 0, "request %d of %d", s->pair + 1, s->d->n_pairs);
	if (pair->n_hunks)
		pen_printf(&p, 22, 0, "difference %d of %d", s->hunk + 1, pair->n_hunks);
	p.ink = INK_DIM;
	pen_right(&p, c->w - 1, 0,
		c->w >= 100 ? "n N difference   [ ] request   %s scroll   F1 explain   q quit"
					: "n N next   F1 explain   q quit",
		c->ascii ? "up down" : "↑ ↓");
}

static void draw_cause(struct diff_screen *s, struct canvas *c)
{
	int foot = foot_rows(c->w, c->h), each = (foot - 3) / 2;
	struct pen p = pen_of(c, (struct rect){ 0, c->h - foot, c->w, foot - 1 });
	const struct diff_pair *pair = pair_of(s);
	char text[400];
	int x;

	pen_hline(&p, 0, 0, c->w);
	diff_describe(s->d, pair, text, sizeof text);
	p.ink = INK_BRIGHT;
	if (pair->cause == DIFF_EQUAL || pair->cause == DIFF_ALONE) {
		pen_clip(&p, 1, 1, c->w - 2, text, -1);
		return;
	}
	x = 1 + pen_printf(&p, 1, 1, "%d: ", pair->from[0] + pair->at);
	x += pen_clip(&p, x, 1, c->w - 1 - x, text, -1);
	p.ink = INK_DIM;
	if (pair->after.n_top && x + 50 < c->w)
		pen_right(&p, c->w - 1, 1, "after it the same best token at %d of %d", pair->after.top,
			pair->after.n_top);
	p.ink = INK_TEXT;
	for (int side = 0; side < 2; side++) {
		diff_describe_draw(s->d, pair, side, text, sizeof text);
		int y = 2 + side * each;

		if (!text[0])
			continue;
		x = 1 + pen_printf(&p, 1, y, "%c drew ", 'A' + side);
		if (each > 1)
			pen_wrap(&p, x, y, c->w - 1 - x, each, text);
		else
			pen_clip(&p, x, y, c->w - 1 - x, text, -1);
	}
}

static int draw(void *screen, struct canvas *c, struct err *e)
{
	struct diff_screen *s = screen;
	int left = (c->w - 1) / 2, rows = c->h - HEAD_ROWS - foot_rows(c->w, c->h);

	if (!s->d->n_pairs || rows < 1 || left < 8) {
		struct pen p = pen_of(c, (struct rect){ 0, 0, c->w, c->h });

		pen_text(
			&p, 0, 0, s->d->n_pairs ? "too small" : "neither recording has a request; q quits", -1);
		return 0;
	}
	if (lay(s, left - 2, rows, c->ascii, e))
		return -1;
	for (int side = 0; side < 2; side++) {
		struct pen text = screen_side(c, side, HEAD_ROWS, rows);

		draw_title(s, side, c);
		draw_column(s, side, &text);
	}
	for (int y = 0; y < HEAD_ROWS + rows; y++) {
		struct pen rule = pen_of(c, (struct rect){ left, y, 1, 1 });

		rule.ink = INK_RULE;
		pen_text(&rule, 0, 0, c->ascii ? "|" : "\xe2\x94\x82", -1);
	}
	draw_cause(s, c);
	draw_status(s, c);
	return 0;
}

/* ---- keys ---- */

static void go_to_pair(struct diff_screen *s, int pair, bool last)
{
	if (pair < 0 || pair >= s->d->n_pairs)
		return;
	s->pair = pair;
	s->hunk = !s->d->pair[pair].n_hunks ? -1 : last ? s->d->pair[pair].n_hunks - 1 : 0;
	s->laid = false;
}

static void go_to_hunk(struct diff_screen *s, int by, int rows)
{
	int next = s->hunk + by;

	if (s->hunk >= 0 && next >= 0 && next < pair_of(s)->n_hunks) {
		s->hunk = next;
		scroll_to_hunk(s, rows);
		return;
	}
	for (int i = s->pair + by; i >= 0 && i < s->d->n_pairs; i += by)
		if (s->d->pair[i].n_hunks) {
			go_to_pair(s, i, by < 0);
			return;
		}
}

static void scroll(struct diff_screen *s, int by, int rows)
{
	for (int side = 0; side < 2; side++) {
		s->screen.column[side].scroll += by;
		text_column_clamp(&s->screen.column[side], rows);
	}
}

static void key(void *screen, int code, int w, int h)
{
	struct diff_screen *s = screen;
	int rows = h - HEAD_ROWS - foot_rows(w, h);

	if (!s->d->n_pairs || rows < 1)
		return;
	switch (code) {
	case 'n': go_to_hunk(s, 1, rows); break;
	case 'N':
	case 'p': go_to_hunk(s, -1, rows); break;
	case ']':
	case KEY_RIGHT_: go_to_pair(s, s->pair + 1, false); break;
	case '[':
	case KEY_LEFT_: go_to_pair(s, s->pair - 1, false); break;
	case 'j':
	case KEY_DOWN_: scroll(s, 1, rows); break;
	case 'k':
	case KEY_UP_: scroll(s, -1, rows); break;
	case ' ':
	case KEY_PAGE_DOWN: scroll(s, rows - 1, rows); break;
	case KEY_PAGE_UP: scroll(s, 1 - rows, rows); break;
	case 'g':
	case KEY_HOME_: scroll(s, -(1 << 30), rows); break;
	case 'G':
	case KEY_END_: scroll(s, 1 << 29, rows); break;
	}
}

const struct screen_kind diff_screen = {
	.draw = draw, .key = key, .name = "diff", .help = diff_screen_help
};

void diff_screen_init(struct diff_screen *s, struct diff *d)
{
	*s = (struct diff_screen){ .screen.kind = &diff_screen, .d = d, .hunk = -1 };
	for (int i = 0; i < d->n_pairs; i++)
		if (d->pair[i].n_hunks) {
			go_to_pair(s, i, false);
			return;
		}
}

int tui_diff(struct diff *d, const struct tui_options *o, struct err *e)
{
	struct diff_screen s;
	int rc;

	diff_screen_init(&s, d);
	rc = screen_loop(&s.screen, o, e);
	screen_free(&s.screen);
	return rc;
}

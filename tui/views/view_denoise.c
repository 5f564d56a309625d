/* The denoising view: the answer of a diffusion model as text with its masks, and below it as steps
 * by positions: which step fixed which position, how surely. All of it is the request's canvas,
 * which the events denoise left. Thread: the UI's. */

#include "tui/views/view_util.h"

enum { LABEL = 10, HEAD = 3, FOOT = 2 };

/* The cell under the cursor: the chosen one, else the surest of the newest step. */
static int32_t cell_under(const struct tl_canvas *c, const struct view_state *s)
{
	int32_t best = 0;

	if (s->cursor[VIEW_DENOISE] > 0)
		return (int32_t)(at_most(s->cursor[VIEW_DENOISE], c->n)) - 1;
	for (int32_t i = 1; i < c->n; i++) {
		const struct tl_cell *a = &c->cell[i], *b = &c->cell[best];

		if (a->nth > b->nth || (a->nth == b->nth && a->p > b->p))
			best = i;
	}
	return best;
}

/* ---- the text ---- */

static void ink_cell(
	struct pen *p, const struct tl_canvas *c, const struct tl_cell *cell, bool under)
{
	p->ink = !cell->nth ? INK_DIM : cell->nth == c->nth ? INK_ACCEPTED : INK_TEXT;
	p->attr = (uint8_t)((cell->nth == c->nth ? ATTR_BOLD : 0) | (under ? ATTR_REVERSE : 0));
}

/* One glyph at *x, *y, or at the start of the next line. */
static void put_glyph(struct pen *p, int *x, int *y, const char *text, int width)
{
	if (*x + width > p->r.w) {
		*x = 0;
		++*y;
	}
	if (*y < p->r.h)
		pen_text(p, *x, *y, text, -1);
	*x += width;
}

static void put_piece(struct pen *p, int *x, int *y, const char *text, int32_t size)
{
	while (size > 0) {
		const struct glyph_run g = text_next(text, (size_t)size, p->c->ascii);

		if (!g.used)
			return;
		if (g.newline || g.tab)
			put_glyph(p, x, y, g.newline ? "\\n" : "\\t", 2);
		else
			put_glyph(p, x, y, g.text, g.width);
		text += g.used;
		size -= (int32_t)g.used;
	}
}

/* A token that is still a mask is shown as what was proposed for it last, dim; "_": nothing was.
 * Returns the lines used. */
static int put_text(
	struct pen *p, const struct timeline *t, const struct tl_canvas *c, int32_t under)
{
	struct pen in = *p;
	int x = 0, y = 0;

	for (int32_t i = 0; i < c->n && y < p->r.h; i++) {
		const struct tl_cell *cell = &c->cell[i];
		int32_t size = 0;
		const char *text = cell->id < 0 ? "" : timeline_token_bytes(t, cell->id, &size);

		ink_cell(&in, c, cell, i == under);
		if (size)
			put_piece(&in, &x, &y, text, size);
		else
			put_glyph(&in, &x, &y, "_", 1);
	}
	return at_most(y + 1, p->r.h);
}

/* ---- steps by positions ---- */

static int32_t fixed_in(const struct tl_canvas *c, int32_t nth)
{
	int32_t n = 0;

	for (int32_t i = 0; i < c->n; i++)
		n += c->cell[i].nth == nth;
	return n;
}

/* A mask is a dot; a token stands as high as it was sure, bright in the step that fixed it. */
static void put_step(
	struct pen *p, int y, const struct tl_canvas *c, int32_t nth, int32_t first, int32_t under)
{
	struct pen in = *p;

	view_put_right(p, 4, y, nth == c->nth ? INK_BRIGHT : INK_DIM, "%d", nth);
	view_put_right(p, LABEL - 1, y, INK_DIM, "+%d", fixed_in(c, nth));
	for (int32_t i = first; i < c->n && LABEL + i - first < p->r.w; i++) {
		const struct tl_cell *cell = &c->cell[i];
		const int x = LABEL + i - first;

		in.paper = i == under ? INK_BAND : p->paper;
		in.ink = cell->nth == nth ? INK_ACCEPTED : INK_BAR_CUT;
		if (cell->nth && cell->nth <= nth)
			pen_spark(&in, x, y, cell->p > 0.1f ? (double)cell->p : 0.1);
		else
			view_put(&in, x, y, INK_DIM, ".");
	}
}

/* The newest steps that fit, scrolled by the view's lines. */
static void put_steps(
	struct pen *p, int y, int rows, const struct tl_canvas *c, struct view_state *s, int32_t under)
{
	const int32_t room = p->r.w - LABEL, most = c->n > room ? c->n - room : 0;
	int32_t first = under - room / 2, last;

	first = within(first, 0, most);
	if (s->scroll[VIEW_DENOISE] > c->nth - rows)
		s->scroll[VIEW_DENOISE] = c->nth > rows ? c->nth - rows : 0;
	last = c->nth - s->scroll[VIEW_DENOISE];
	for (int32_t nth = last > rows ? last - rows + 1 : 1; nth <= last; nth++)
		put_step(p, y++, c, nth, first, under);
}

/* ---- words ---- */

static void put_cell(
	struct pen *p, int y, const struct timeline *t, const struct tl_canvas *c, int32_t at)
{
	const struct tl_cell *cell = &c->cell[at];

	if (cell->id < 0) {
		view_put(p, 0, y, INK_DIM, "position %d: a mask, and nothing proposed yet", c->from + at);
		return;
	}
	view_put(p, 0, y, INK_TEXT, "position %d: %s %s, p %.3g, entropy of its row %.2f bits",
		c->from + at, view_quote(t, cell->id).text,
		cell->nth ? view_form("was fixed in step %d", cell->nth).text : "is proposed, still a mask",
		(double)cell->p, (double)cell->entropy);
}

static struct view_text why_these(const struct tl_canvas *c)
{
	return c->schedule == EV_SCHEDULE_threshold
			   ? view_form("all with p > %g, or the best", (double)c->above)
		   : c->schedule == EV_SCHEDULE_entropy ? view_form("those of least entropy")
												: view_form("the most probable");
}

/* What a step is worth, and what it costs, beside one token after another. */
static void put_price(struct pen *p, const struct tl_canvas *c)
{
	const int32_t done = c->n - c->masked, all = c->from + c->n;

	view_put(p, 0, 1, INK_TEXT, "%d tokens in %d steps: %.2f a step (one after another: 1)", done,
		c->nth, (double)done / c->nth);
	view_put(p, 0, 2, INK_DIM, "%s rows computed (one after another: %s); each step fixes %s",
		view_count((int64_t)c->nth * all).text, view_count(c->from + done).text, why_these(c).text);
}

static void put_head(struct pen *p, const struct tl_request *r)
{
	const struct tl_canvas *c = &r->canvas;

	view_head(p, "denoising", "request %s, step %d%s \xc2\xb7 %d mask%s left%s",
		view_label(r->id).text, c->nth, c->steps ? view_form(" of %d", c->steps).text : "",
		c->masked, plural(c->masked),
		c->block && c->block < c->n ? view_form(" \xc2\xb7 blocks of %d", c->block).text : "");
}

static void denoise_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const struct tl_request *r = view_request(t, s);
	const struct tl_canvas *c = r ? &r->canvas : NULL;
	int32_t under;
	int lines, y = HEAD;

	if (!c || !c->cell || c->nth < 1) {
		view_empty(p, "denoising",
			"how the words of an answer settle, round by round: only a diffusion model (llada, "
			"dream) answers so; `/model diffusion` opens one");
		return;
	}
	under = cell_under(c, s);
	put_head(p, r);
	put_price(p, c);
	lines = (p->r.h - HEAD - FOOT) / 2;
	if (lines > 0) {
		struct pen text = pen_sub(p, (struct rect){ 0, HEAD + 1, p->r.w, lines - 1 });

		y += 2 + put_text(&text, t, c, under);
	}
	put_steps(p, y, p->r.h - y - 1, c, s, under);
	put_cell(p, p->r.h - 1, t, c, under);
}

static bool denoise_key(int key, const struct timeline *t, struct view_state *s)
{
	const struct tl_request *r = view_request(t, s);
	const struct tl_canvas *c = r && r->canvas.cell ? &r->canvas : NULL;
	if (!c)
		return false;
	if (key == KEY_LEFT_ || key == KEY_RIGHT_) {
		const int32_t at = cell_under(c, s) + (key == KEY_LEFT_ ? -1 : 1);

		s->cursor[VIEW_DENOISE] = 1 + (within(at, 0, c->n - 1));
		return true;
	}
	return view_scroll(key, &s->scroll[VIEW_DENOISE], 8, c->nth > 1 ? c->nth - 1 : 0);
}

static const struct hint hints[] = { { "\xe2\x86\x90\xe2\x86\x92", "position" },
	{ "\xe2\x86\x91\xe2\x86\x93", "steps" }, { NULL, NULL } };

const struct view view_denoise = {
	VIEW(DENOISE, denoise, "denoising", 60, 10, 20),
	.draw = denoise_draw,
	.key = denoise_key,
	.hints = hints,
};

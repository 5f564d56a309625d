/* See canvas.h. The grid of cells and the pens that draw on it.
 *
 * Invariants: (1) every cell holds one whole grapheme, a blank, or "" right of a wide one; (2) a
 * wide one never hangs over the edge of a pen, and when half of it is drawn over, the other half
 * becomes blank. */
#include "tui/term/canvas.h"

#include <stdarg.h>
#include <stdio.h>

enum { CANVAS_MAX = 2000 };

static const struct {
	const char *text, *ascii;
} glyphs[GLYPH_N] = {
#define GLYPH(name, text, ascii) { text, ascii },
#include "tui/term/glyphs.def"
};

const char *glyph(const struct canvas *c, enum glyph g)
{
	return c->ascii ? glyphs[g].ascii : glyphs[g].text;
}

static const struct cell blank = { .text = " " };

int canvas_resize(struct canvas *c, int w, int h, struct err *e)
{
	struct cell *cell;

	w = w < 1 ? 1 : w > CANVAS_MAX ? CANVAS_MAX : w;
	h = h < 1 ? 1 : h > CANVAS_MAX ? CANVAS_MAX : h;
	cell = malloc((size_t)w * (size_t)h * sizeof *cell);
	if (!cell)
		return err_no_memory(e, "a screen of %d by %d characters", w, h);
	free(c->cell);
	c->cell = cell;
	c->w = w;
	c->h = h;
	canvas_clear(c);
	return 0;
}

void canvas_free(struct canvas *c)
{
	free(c->cell);
	c->cell = NULL;
	c->w = c->h = 0;
}

void canvas_clear(struct canvas *c)
{
	for (int i = 0; i < c->w * c->h; i++)
		c->cell[i] = blank;
	c->cursor_x = c->cursor_y = -1;
	c->nothing = false;
}

static struct rect rect_cut(struct rect r, struct rect to)
{
	int x1 = r.x + r.w < to.x + to.w ? r.x + r.w : to.x + to.w;
	int y1 = r.y + r.h < to.y + to.h ? r.y + r.h : to.y + to.h;

	r.x = r.x > to.x ? r.x : to.x;
	r.y = r.y > to.y ? r.y : to.y;
	r.w = x1 > r.x ? x1 - r.x : 0;
	r.h = y1 > r.y ? y1 - r.y : 0;
	return r;
}

struct pen pen_of(struct canvas *c, struct rect r)
{
	return (struct pen){ .c = c, .r = rect_cut(r, (struct rect){ 0, 0, c->w, c->h }) };
}

struct pen pen_sub(const struct pen *p, struct rect r)
{
	struct pen sub = *p;

	r.x += p->r.x;
	r.y += p->r.y;
	sub.r = rect_cut(r, p->r);
	return sub;
}

/* x and y of the canvas. */
static void put_cell(struct pen *p, int x, int y, const char *text, int width, uint8_t ink)
{
	struct cell *row = p->c->cell + (size_t)y * (size_t)p->c->w;
	int last = x + width - 1;

	if (!row[x].text[0] && x > 0)
		strcpy(row[x - 1].text, " ");
	if (last + 1 < p->c->w && !row[last + 1].text[0])
		strcpy(row[last + 1].text, " ");
	for (int i = x; i <= last; i++)
		row[i] = (struct cell){ .ink = ink, .paper = p->paper, .attr = p->attr };
	snprintf(row[x].text, sizeof row[x].text, "%s", text);
}

/* A grapheme, or a stand-in like "^N": one cell for each of its characters, so that all of them get
 * a position. */
static void put_run(struct pen *p, int x, int y, const struct glyph_run *g, int width)
{
	uint8_t ink = g->standin ? INK_DIM : p->ink;
	bool pair = width == 2 && (unsigned char)g->text[0] < 0x80;

	if (!pair) {
		put_cell(p, x, y, g->text, width, ink);
		return;
	}
	put_cell(p, x, y, (char[]){ g->text[0], '\0' }, 1, ink);
	put_cell(p, x + 1, y, g->text + 1, 1, ink);
}

/* The ASCII equivalent of a glyph of ours, also within a text. */
static const char *ascii_twin(const char *text, size_t size, size_t *used)
{
	for (int g = 0; g < GLYPH_N; g++) {
		*used = strlen(glyphs[g].text);
		if (*used <= size && !memcmp(glyphs[g].text, text, *used))
			return glyphs[g].ascii;
	}
	return NULL;
}

/* Columns of a text on this canvas. */
static int text_columns(const struct canvas *c, const char *text, size_t size)
{
	int columns = 0;

	while (size > 0) {
		size_t used = 0;
		const char *twin = c->ascii ? ascii_twin(text, size, &used) : NULL;

		if (twin) {
			columns += (int)strlen(twin);
		} else {
			struct glyph_run g = text_next(text, size, c->ascii);

			if (!g.used)
				break;
			columns += g.newline || g.tab || g.width < 1 ? 1 : g.width;
			used = g.used;
		}
		text += used;
		size -= used;
	}
	return columns;
}

/* Draws from x on, up to column `end` (exclusive), both of the pen. */
static int draw_text(struct pen *p, int x, int y, int end, const char *text, size_t size)
{
	size_t used;
	int at = x;

	if (y < 0 || y >= p->r.h)
		return 0;
	end = end < p->r.w ? end : p->r.w;
	while (size > 0 && at < end) {
		const char *twin = p->c->ascii ? ascii_twin(text, size, &used) : NULL;

		if (twin) {
			at += draw_text(p, at, y, end, twin, strlen(twin));
			text += used;
			size -= used;
			continue;
		}
		struct glyph_run g = text_next(text, size, p->c->ascii);
		bool space = g.newline || g.tab || !g.text[0];
		int width = space || g.width < 1 ? 1 : g.width;

		if (!g.used)
			break;
		text += g.used;
		size -= g.used;
		if (at + width > end)
			break;
		if (at >= 0 && space)
			put_cell(p, p->r.x + at, p->r.y + y, " ", 1, p->ink);
		else if (at >= 0)
			put_run(p, p->r.x + at, p->r.y + y, &g, width);
		at += width;
	}
	return at > x ? at - x : 0;
}

int pen_text(struct pen *p, int x, int y, const char *text, long size)
{
	return draw_text(p, x, y, p->r.w, text, size < 0 ? strlen(text) : (size_t)size);
}

int pen_printf(struct pen *p, int x, int y, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	/* a cut number would be a wrong one: mark it */
	return pen_clip(p, x, y, p->r.w - x, line, -1);
}

int pen_right(struct pen *p, int x, int y, const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	int width;

	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	width = text_columns(p->c, line, strlen(line));
	return width > x ? pen_clip(p, 0, y, x, line, -1)
					 : draw_text(p, x - width, y, x, line, strlen(line));
}

int pen_clip(struct pen *p, int x, int y, int w, const char *text, long size)
{
	size_t n = size < 0 ? strlen(text) : (size_t)size;
	int used;

	if (w > p->r.w - x)
		w = p->r.w - x;
	if (w < 1)
		return 0;
	while (n && text[n - 1] == ' ' && text_columns(p->c, text, n) > w)
		n--;
	if (text_columns(p->c, text, n) <= w)
		return draw_text(p, x, y, x + w, text, n);
	used = draw_text(p, x, y, x + w - 1, text, n);
	return used + pen_text(p, x + used, y, glyph(p->c, GLYPH_ELLIPSIS), -1);
}

void pen_hline(struct pen *p, int x, int y, int w)
{
	struct pen in = *p;

	in.ink = INK_RULE;
	for (int i = 0; i < w; i++)
		pen_text(&in, x + i, y, glyph(p->c, GLYPH_HRULE), -1);
}

/* Rounds a part to n steps; anything above 0 is at least one step, so that it is visible. */
static int part_steps(double part, int n)
{
	int steps;

	if (!(part > 0))
		return 0;
	steps = part >= 1 ? n : (int)(part * n + 0.5);
	return steps < 1 ? 1 : steps;
}

void pen_spark(struct pen *p, int x, int y, double part)
{
	static const char *const eighth[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const level[] = { " ", ".", "-", "=", "#" };

	pen_text(p, x, y, p->c->ascii ? level[part_steps(part, 4)] : eighth[part_steps(part, 8)], -1);
}

/* Length of the longest prefix of `figure`, cut at " · ", that takes at most w columns. */
static size_t figure_fit(const struct canvas *c, const char *figure, int w)
{
	size_t n = strlen(figure);

	while (n && text_columns(c, figure, n) > w) {
		size_t cut = n;

		while (cut > 0 && !(cut + 3 < n && !memcmp(figure + cut, " \xc2\xb7 ", 4)))
			cut--;
		n = cut;
	}
	return n;
}

void pen_head(struct pen *p, const char *title, const char *figure)
{
	struct pen in = *p;
	int used, right = p->r.w;
	size_t n;

	in.ink = INK_BRIGHT;
	in.attr = ATTR_BOLD;
	used = pen_clip(&in, 0, 0, p->r.w, title, -1) + 1;
	in.attr = 0;
	n = figure ? figure_fit(p->c, figure, p->r.w - used - 1) : 0;
	if (n) {
		right = p->r.w - text_columns(p->c, figure, n);
		in.ink = INK_DIM;
		draw_text(&in, right, 0, p->r.w, figure, n);
		right--;
	}
	pen_hline(&in, used, 0, right - used);
}

void pen_fill(struct pen *p, struct rect r)
{
	struct pen in = pen_sub(p, r);

	for (int y = 0; y < in.r.h; y++)
		for (int x = 0; x < in.r.w; x++)
			put_cell(&in, in.r.x + x, in.r.y + y, " ", 1, in.ink);
}

void pen_restyle(struct pen *p, struct rect r, uint8_t attr)
{
	struct pen in = pen_sub(p, r);

	for (int y = 0; y < in.r.h; y++)
		for (int x = 0; x < in.r.w; x++)
			p->c->cell[(size_t)(in.r.y + y) * (size_t)p->c->w + (size_t)(in.r.x + x)].attr |= attr;
}

int pen_wrap(struct pen *p, int x, int y, int w, int rows, const char *text)
{
	int used = 0;

	for (size_t next, n; *text && used < rows; text += next, used++) {
		n = text_line(text, w, p->c->ascii, &next);
		if (used == rows - 1 && text[next])
			pen_clip(p, x, y + used, w, text, -1);
		else
			pen_text(p, x, y + used, text, (long)n);
	}
	return used;
}

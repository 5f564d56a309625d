/* See svg.h. Two passes over the rows: shapes (grounds, bars, lines), then text over them. */
#include "tui/term/svg.h"

/* The font's size is such that a character of DejaVu Sans Mono is exactly a cell wide: some
 * programs ignore textLength. */
enum { CELL_W = 10, CELL_H = 20, BASELINE = 15, MARGIN = 10, RECTS = 4 };
#define FONT                                                                                       \
	"font-family=\"'DejaVu Sans Mono',Menlo,Consolas,monospace\" font-size=\"16.61\" "             \
	"xml:space=\"preserve\""

/* ---- what a cell is ---- */

struct paint {
	int fg, bg; /* 0xrrggbb */
	bool bold, dim, underline;
};

static struct paint paint_of(const struct theme *t, const struct cell *c)
{
	struct theme_style s = theme_style(t, c->ink, c->paper, c->attr);
	int fg = s.fg < 0 ? theme_own(t, false) : s.fg, bg = s.bg < 0 ? theme_own(t, true) : s.bg;

	return (struct paint){ .fg = s.reverse ? bg : fg,
		.bg = s.reverse ? fg : bg,
		.bold = s.bold,
		.dim = s.dim,
		.underline = s.underline };
}

static bool same_paint(const struct paint *a, const struct paint *b)
{
	return a->fg == b->fg && a->bg == b->bg && a->bold == b->bold && a->dim == b->dim &&
		   a->underline == b->underline;
}

/* Of the first character. */
static int code_of(const char *utf8)
{
	int32_t code;

	text_point(utf8, strlen(utf8), &code);
	return code > 0 ? code : 0;
}

/* ---- characters that are shapes ---- */

struct shape {
	struct rect r[RECTS]; /* in units of the cell */
	int n;
	double opacity;
};

static void shape_rect(struct shape *s, int x, int y, int to_x, int to_y)
{
	s->r[s->n++] = (struct rect){ x, y, to_x - x, to_y - y };
}

/* Block elements: U+2580 to U+259F. Eighths of a cell's height are not whole units: they are
 * rounded. */
static void shape_block(struct shape *s, int code)
{
	static const uint8_t quadrants[] = { 4, 8, 1, 13, 9, 7, 11, 2, 6, 14 }; /* 1 2 over 4 8 */
	const int w = CELL_W, h = CELL_H;

	if (code == 0x2580)
		shape_rect(s, 0, 0, w, h / 2);
	else if (code <= 0x2588)
		shape_rect(s, 0, h - (h * (code - 0x2580) + 4) / 8, w, h);
	else if (code <= 0x258f)
		shape_rect(s, 0, 0, (w * (0x2590 - code) + 4) / 8, h);
	else if (code == 0x2590)
		shape_rect(s, w / 2, 0, w, h);
	else if (code <= 0x2593)
		shape_rect(s, 0, 0, w, h);
	else if (code == 0x2594)
		shape_rect(s, 0, 0, w, (h + 4) / 8);
	else if (code == 0x2595)
		shape_rect(s, w - (w + 4) / 8, 0, w, h);
	for (int i = 0; code >= 0x2596 && i < 4; i++)
		if (quadrants[code - 0x2596] >> i & 1)
			shape_rect(s, i % 2 * w / 2, i / 2 * h / 2, (i % 2 + 1) * w / 2, (i / 2 + 1) * h / 2);
	if (code >= 0x2591 && code <= 0x2593)
		s->opacity = (code - 0x2590) / 4.0;
}

/* Lines of box drawing by their arms; those with double or dashed lines are letters. */
static void shape_lines(struct shape *s, int code)
{
	enum { U = 1, R = 2, D = 4, L = 8, HEAVY = 16 };
	static const struct {
		int code, arms;
	} lines[] = { { 0x2500, L | R }, { 0x2501, L | R | HEAVY }, { 0x2502, U | D },
		{ 0x2503, U | D | HEAVY }, { 0x250c, D | R }, { 0x2510, D | L }, { 0x2514, U | R },
		{ 0x2518, U | L }, { 0x251c, U | D | R }, { 0x2524, U | D | L }, { 0x252c, L | R | D },
		{ 0x2534, L | R | U }, { 0x253c, U | R | D | L }, { 0x256d, D | R }, { 0x256e, D | L },
		{ 0x256f, U | L }, { 0x2570, U | R }, { 0x2574, L }, { 0x2575, U }, { 0x2576, R },
		{ 0x2577, D } };
	const int w = CELL_W, h = CELL_H, x = w / 2, y = h / 2;

	for (size_t i = 0; i < ARRAY_N(lines); i++) {
		int arms = lines[i].arms, thin = arms & HEAVY ? 1 : 0; /* a line is 1 or 3 wide */

		if (lines[i].code != code)
			continue;
		if (arms & (L | R))
			shape_rect(
				s, arms & L ? 0 : x - thin, y - thin, arms & R ? w : x + 1 + thin, y + 1 + thin);
		if (arms & (U | D))
			shape_rect(
				s, x - thin, arms & U ? 0 : y - thin, x + 1 + thin, arms & D ? h : y + 1 + thin);
	}
}

static bool shape_of(struct shape *s, int code)
{
	*s = (struct shape){ .opacity = 1 };
	if (code >= 0x2580 && code <= 0x259f)
		shape_block(s, code);
	else if (code >= 0x2500 && code < 0x2580)
		shape_lines(s, code);
	else if (code == 0x25a0) /* the square of page maps: fonts differ in its size */
		shape_rect(s, 1, 6, CELL_W - 1, CELL_H - 6);
	return s->n > 0;
}

/* ---- shapes ---- */

static void put_rect(FILE *out, int x, int y, int w, int h, int colour, double opacity)
{
	fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#%06x\"", x, y, w, h,
		(unsigned)colour);
	if (opacity < 1)
		fprintf(out, " fill-opacity=\"%g\"", opacity);
	fputs("/>\n", out);
}

/* n equal cells: a shape that goes from edge to edge is drawn once. */
static void put_shape(FILE *out, const struct shape *s, int x, int y, int n, const struct paint *p)
{
	for (int i = 0; i < s->n; i++) {
		struct rect r = s->r[i];
		bool whole = r.x == 0 && r.w == CELL_W;

		for (int k = 0; k < (whole ? 1 : n); k++)
			put_rect(out, x + r.x + k * CELL_W, y + r.y, whole ? n * CELL_W : r.w, r.h, p->fg,
				s->opacity * (p->dim ? 0.6 : 1));
	}
}

/* Cells from x on that have the paint of the first. */
static int painted_alike(const struct theme *t, const struct cell *row, int x, int w)
{
	struct paint first = paint_of(t, &row[x]);
	int end = x + 1;

	for (; end < w; end++) {
		struct paint p = paint_of(t, &row[end]);

		if (!same_paint(&p, &first))
			break;
	}
	return end;
}

static void row_shapes(FILE *out, const struct theme *t, const struct cell *row, int w, int y)
{
	for (int x = 0, end; x < w; x = end) {
		struct paint p = paint_of(t, &row[x]);
		struct shape s;

		end = painted_alike(t, row, x, w);
		if (p.bg != theme_own(t, true))
			put_rect(out, x * CELL_W, y, (end - x) * CELL_W, CELL_H, p.bg, 1);
		if (p.underline)
			put_rect(out, x * CELL_W, y + BASELINE + 2, (end - x) * CELL_W, 1, p.fg, 1);
		for (int from = x, to; from < end; from = to) {
			for (to = from + 1; to < end && !strcmp(row[to].text, row[from].text);)
				to++;
			if (shape_of(&s, code_of(row[from].text)))
				put_shape(out, &s, from * CELL_W, y, to - from, &p);
		}
	}
}

/* ---- text ---- */

/* Latin, Greek and Cyrillic letters have a cell in every font, and are written from left to right.
 */
static bool in_run(const struct cell *c)
{
	int code = code_of(c->text);

	return code && code < 0x590;
}

/* Column after the run that begins at x: a run of letters goes up to the next two blanks, so that
 * columns of a table do not depend on each other; any other character stands alone. */
static int run_end(const struct cell *row, int x, int end)
{
	int last = x + 1;

	if (!in_run(&row[x]))
		return last < end && !*row[last].text ? last + 1 : last;
	for (int i = last; i < end && i <= last + 1 && in_run(&row[i]); i++)
		if (strcmp(row[i].text, " ") != 0)
			last = i + 1;
	return last;
}

static void put_run(FILE *out, const struct cell *row, int x, int end, int y, const struct paint *p)
{
	int wide = (end - x) * CELL_W;

	if (in_run(&row[x]))
		fprintf(out, "<text x=\"%d\" y=\"%d\" textLength=\"%d\"", x * CELL_W, y + BASELINE, wide);
	else
		fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\"", x * CELL_W + wide / 2,
			y + BASELINE);
	fprintf(out, " fill=\"#%06x\"%s%s>", (unsigned)p->fg, p->bold ? " font-weight=\"bold\"" : "",
		p->dim ? " fill-opacity=\"0.6\"" : "");
	for (; x < end; x++)
		text_xml(out, row[x].text, strlen(row[x].text));
	fputs("</text>\n", out);
}

static void row_text(FILE *out, const struct theme *t, const struct cell *row, int w, int y)
{
	for (int x = 0, end; x < w; x = end) {
		struct paint p = paint_of(t, &row[x]);
		struct shape s;

		end = x + 1;
		if (!*row[x].text || !strcmp(row[x].text, " ") || shape_of(&s, code_of(row[x].text)))
			continue;
		end = run_end(row, x, painted_alike(t, row, x, w));
		put_run(out, row, x, end, y, &p);
	}
}

/* ---- all of it ---- */

static void put_head(FILE *out, const struct canvas *c, const struct theme *t, const char *title)
{
	int w = c->w * CELL_W + 2 * MARGIN, h = c->h * CELL_H + 2 * MARGIN;
	char *clean = text_clean(title, strlen(title), false, NULL);

	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"viewBox=\"%d %d %d %d\">\n<title>",
		w, h, -MARGIN, -MARGIN, w, h);
	if (clean)
		text_xml(out, clean, strlen(clean));
	fputs("</title>\n", out);
	free(clean);
	put_rect(out, -MARGIN, -MARGIN, w, h, theme_own(t, true), 1);
}

void svg_write(FILE *out, const struct canvas *c, const struct theme *t, const char *title)
{
	put_head(out, c, t, title);
	fputs("<g shape-rendering=\"crispEdges\">\n", out);
	for (int y = 0; y < c->h; y++)
		row_shapes(out, t, c->cell + (size_t)y * (size_t)c->w, c->w, y * CELL_H);
	fputs("</g>\n<g " FONT ">\n", out);
	for (int y = 0; y < c->h; y++)
		row_text(out, t, c->cell + (size_t)y * (size_t)c->w, c->w, y * CELL_H);
	fputs("</g>\n</svg>\n", out);
}

/* A grid of cells that views draw on. Independent of ncurses: term.c shows a canvas, tests print
 * it.
 *
 * Everything that draws clips to its rectangle, so a view can never draw outside. Text passes
 * base/text.h: no control character reaches a terminal. Thread: the UI's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "base/text.h"

/* Semantic colours: the theme (theme.h) maps each to truecolor, 256, 16 or mono, dark or light. A
 * colour has the same meaning everywhere. */
enum ink {
	INK_TEXT,     /* plain */
	INK_BRIGHT,   /* what matters; titles are bright and bold */
	INK_DIM,      /* context, labels, what was cut */
	INK_RULE,     /* thin lines */
	INK_ACCEPTED, /* green */
	INK_REJECTED, /* vermilion; also the recording dot and errors */
	INK_BAR,      /* neutral bars: not of one request */
	INK_BAR_CUT,  /* what was cut, as a bar */
	INK_TINT_0,   /* chat: probability of a token, low … high (8 steps) */
	INK_TINT_7 = INK_TINT_0 + 7,
	INK_HEAT_0, /* amber: attention, 16 steps; as background of pages and as ink of bars */
	INK_HEAT_15 = INK_HEAT_0 + 15,
	INK_REQUEST_0, /* a request's own colour: request number modulo 8 */
	INK_REQUEST_7 = INK_REQUEST_0 + 7,
	INK_PART_0, /* grey tones that only separate parts (time) */
	INK_PART_8 = INK_PART_0 + 8,
	INK_EXCHANGE,  /* between ranks: moving bytes, and waiting for others */
	INK_PREDICTED, /* what a formula says of what was not run */
	INK_BAND,      /* background of the status line and of popups */
	INK_N,
};

enum { ATTR_BOLD = 1, ATTR_REVERSE = 2, ATTR_UNDERLINE = 4 };

struct cell {
	char text[16]; /* one grapheme, UTF-8, NUL-terminated; "" for the right half of a wide one */
	uint8_t ink;   /* foreground, enum ink */
	uint8_t paper; /* background: 0 for the terminal's own, else enum ink */
	uint8_t attr;
};

struct rect {
	int x, y, w, h;
};

struct canvas {
	int w, h;
	bool ascii;             /* no UTF-8: shapes come from the ASCII column of the glyph table */
	bool mono;              /* no colours: texts must not mention them */
	bool nothing;           /* a view said that it has nothing to show (view_nothing) */
	char offer[64];         /* the command that would fill it, or "" */
	struct cell *cell;      /* [h][w] */
	int cursor_x, cursor_y; /* -1: hidden */
};

int canvas_resize(struct canvas *c, int w, int h, struct err *e);
void canvas_free(struct canvas *c);
void canvas_clear(struct canvas *c);

/* A pen clipped to a rectangle of a canvas. All coordinates are relative to it. */
struct pen {
	struct canvas *c;
	struct rect r;
	uint8_t ink, paper, attr;
};
struct pen pen_of(struct canvas *c, struct rect r);
struct pen pen_sub(const struct pen *p, struct rect r); /* r relative to p, clipped */
/* Text at (x, y); stops at the edge. Returns the columns used. Text need not be clean (see
 * base/text.h). size < 0: NUL-terminated. */
int pen_text(struct pen *p, int x, int y, const char *text, long size);
int pen_printf(struct pen *p, int x, int y, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The same, ending at column x (exclusive). */
int pen_right(struct pen *p, int x, int y, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Clips text to w columns with an ellipsis. */
int pen_clip(struct pen *p, int x, int y, int w, const char *text, long size);
/* Over at most `rows` lines, cut between words; the last ends in … if text is left. Returns the
 * lines used. */
int pen_wrap(struct pen *p, int x, int y, int w, int rows, const char *text);
/* A thin rule, in INK_RULE. */
void pen_hline(struct pen *p, int x, int y, int w);
/* A vertical bar one cell wide and one cell high, part in eighths. */
void pen_spark(struct pen *p, int x, int y, double part);
/* The head of a view: bold title, thin rule, the main figure at the right. Row 0. A figure that is
 * too long loses its last parts, which are separated by " · ". */
void pen_head(struct pen *p, const char *title, const char *figure);

/* Glyphs with an ASCII equivalent. */
enum glyph {
#define GLYPH(name, ...) GLYPH_##name,
#include "tui/term/glyphs.def"
	GLYPH_N,
};
const char *glyph(const struct canvas *c, enum glyph g);

/* Fills a rectangle of the pen (relative to it) with blanks on its paper. */
void pen_fill(struct pen *p, struct rect r);
/* Sets attributes of cells that are drawn already. */
void pen_restyle(struct pen *p, struct rect r, uint8_t attr);

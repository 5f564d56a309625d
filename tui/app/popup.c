/* See popup.h. */
#include "tui/app/popup.h"

#include <stdio.h>

#include "tui/views/view.h"

enum { POPUP_W = 96, HANG_MOST = 44 };

void popup_free(struct popup *p)
{
	free(p->text);
	*p = (struct popup){ 0 };
}

void popup_show(struct popup *p, const char *title, const char *text)
{
	popup_free(p);
	p->text = strdup(text);
	p->open = p->text != NULL;
	snprintf(p->title, sizeof p->title, "%s", title);
}

/* Indent of the continuation of a long line: under its last column, or a little right of its
 * indent. A column begins after two blanks. */
static int hang_of(const char *line, int w)
{
	int n = (int)strcspn(line, "\n"), indent = (int)strspn(line, " "),
		most = w / 2 < HANG_MOST ? w / 2 : HANG_MOST;
	int hang = indent ? indent + 2 : 0;

	for (int i = indent + 2; i < n && i <= most; i++)
		if (line[i] != ' ' && line[i - 1] == ' ' && line[i - 2] == ' ')
			hang = i;
	return hang <= most ? hang : 0;
}

/* Draws from line `from` on (nothing without a pen); returns the number of lines. */
static int popup_lines(struct pen *p, const char *text, int w, bool ascii, int from)
{
	int y = 0, hang = 0;
	bool begins = true;

	for (size_t next; *text; text += next, y++) {
		int x = begins ? 0 : hang;
		size_t n, name;

		if (begins)
			hang = hang_of(text, w);
		n = text_line(text, w - x, ascii, &next);
		name = begins && *text == '/' ? strcspn(text, " ") : 0;
		begins = next && text[next - 1] == '\n';
		if (!p || y < from)
			continue;
		p->ink = INK_TEXT;
		pen_text(p, 2 + x, y - from + 2, text, (long)n);
		p->ink = INK_BRIGHT;
		if (name && name < n)
			pen_text(p, 2, y - from + 2, text, (long)name);
	}
	return y;
}

void popup_draw(struct popup *popup, struct canvas *c)
{
	struct rect all = { 0, 0, c->w, c->h }, r;
	/* narrow strips of the views behind would confuse */
	int w = all.w < POPUP_W + 12 ? all.w : POPUP_W, most = all.h - 2;
	struct pen p, in;

	if (!popup->open || w < 8 || most < 3)
		return;
	popup->lines = popup_lines(NULL, popup->text, w - 4, c->ascii, 0);
	r.w = w;
	r.h = popup->lines + 4 < most ? popup->lines + 4 : most;
	r.x = (all.w - w) / 2;
	r.y = (all.h - r.h) / 3;
	popup->shown = r.h - 4 < 1 ? 1 : r.h - 4;
	p = pen_of(c, r);
	p.ink = INK_TEXT;
	p.paper = INK_BAND;
	pen_fill(&p, (struct rect){ 0, 0, r.w, r.h });
	in = pen_sub(&p, (struct rect){ 2, r.h > 4, r.w - 4, 1 });
	pen_head(&in, popup->title,
		popup->lines > popup->shown ? "↑ ↓ Space PgUp PgDn scroll · any other key closes"
									: "any key closes");
	in = pen_sub(&p, (struct rect){ 0, r.h > 4, r.w, popup->shown + 2 });
	popup_lines(&in, popup->text, w - 4, c->ascii, popup->scroll);
	c->cursor_x = c->cursor_y = -1;
}

/* Keys that only close the popup, both where letters are text and where they are commands. */
static bool only_closes(int key, bool typing)
{
	return key == KEY_ESC || key == '\r' || key == '\n' || key == ' ' || key == KEY_F1_ ||
		   key == KEY_MOUSE_ || (!typing && (key == 'q' || key == '?' || key == 'h'));
}

bool popup_key(struct popup *p, int key, bool typing)
{
	int last = p->lines - p->shown, page = p->shown > 1 ? p->shown - 1 : 1;
	int by = key == KEY_UP_ || key == 'k'         ? -1
			 : key == KEY_DOWN_ || key == 'j'     ? 1
			 : key == KEY_PAGE_UP                 ? -page
			 : key == KEY_PAGE_DOWN || key == ' ' ? page
			 : key == KEY_HOME_ || key == 'g'     ? -last
			 : key == KEY_END_ || key == 'G'      ? last
												  : 0;

	if (by && last > 0) {
		p->scroll += by;
		p->scroll = p->scroll > last ? last : p->scroll < 0 ? 0 : p->scroll;
		return true;
	}
	p->open = false;
	/* a letter means nothing to who reads; the beginning of a command, and what is pasted, does */
	return by || only_closes(key, typing) || (typing && key > ' ' && key < 256 && key != '/');
}

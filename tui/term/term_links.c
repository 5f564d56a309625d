/* Hyperlinks: see term_impl.h. ncurses has none, so the cells of a link are sent once more, with
 * ncurses' own words for their attributes, and the cursor is put back where ncurses left it. What
 * is overwritten later loses its link, as it should. */

#include "tui/term/term_impl.h"

static FILE *to; /* ncurses calls a function without an argument of ours; one terminal at a time */

static int put(int c)
{
	return fputc(c, to);
}

static bool is(const struct cell *c, char letter)
{
	return c->text[0] == letter && !c->text[1];
}

static bool digits(const struct cell *c, int n)
{
	for (int i = 0; i < n; i++)
		if (c[i].text[0] < '0' || c[i].text[0] > '9')
			return false;
	return true;
}

/* The cells of "arXiv:2211.17192" at c, of n that are left in the row; 0: it does not stand there.
 */
static int paper_at(const struct cell *c, int n)
{
	static const char name[] = "arXiv:";
	const int from = (int)strlen(name);

	if (n < from + 10)
		return 0;
	for (int i = 0; i < from; i++)
		if (!is(&c[i], name[i]))
			return 0;
	return digits(c + from, 4) && is(&c[from + 4], '.') && digits(c + from + 5, 5) ? from + 10 : 0;
}

static void draw_link(struct terminal *t, const struct canvas *c, int x, int y, int n)
{
	const struct cell *cell = &c->cell[y * c->w + x];
	short pair;

	tputs(tparm(cursor_address, y, x), 1, put);
	fputs("\033]8;;https://arxiv.org/abs/", to);
	for (int i = n - 10; i < n; i++)
		fputs(cell[i].text, to);
	fputs("\033\\", to);
	for (int i = 0; i < n; i++) {
		attr_t attr = term_attr(t, &cell[i], &pair);

		vid_puts(attr, pair, NULL, put);
		fputs(cell[i].text, to);
	}
	vid_puts(A_NORMAL, 0, NULL, put);
	fputs("\033]8;;\033\\", to);
}

void links_draw(struct terminal *t, const struct canvas *c)
{
	bool any = false;

	if (tigetnum("colors") < 256) /* a terminal of a time that had no hyperlinks */
		return;
	to = t->memory;
	for (int y = 0; y < c->h; y++)
		for (int x = 0; x < c->w; x++) {
			int n = paper_at(&c->cell[y * c->w + x], c->w - x);

			if (n)
				draw_link(t, c, x, y, n);
			any |= n > 0;
		}
	if (any)
		tputs(tparm(cursor_address, getcury(curscr), getcurx(curscr)), 1, put);
}

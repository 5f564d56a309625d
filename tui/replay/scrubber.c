/* See scrubber.h. */
#include "tui/replay/scrubber.h"

static int column_of(int64_t step, int64_t n_steps, int w)
{
	return n_steps > 0 ? (int)((double)step / (double)n_steps * (w - 1) + 0.5) : 0;
}

/* Where several fall on one column, a turn hides an eviction hides a rejection. */
static void draw_marks(const struct player *player, struct pen *p, int64_t n_steps)
{
	static const struct {
		enum reader_mark kind;
		enum glyph glyph;
		enum ink ink;
	} look[] = { { MARK_REJECTED, GLYPH_MARK_REJECTED, INK_REJECTED },
		{ MARK_EVICTED, GLYPH_MARK_EVICTED, INK_DIM }, { MARK_TURN, GLYPH_TURN, INK_BRIGHT } };
	int n;
	const struct player_mark *mark = player_marks(player, &n);

	for (size_t k = 0; k < ARRAY_N(look); k++)
		for (int i = 0, x, last = -1; i < n; i++)
			if (mark[i].kind == look[k].kind &&
				(x = column_of(mark[i].step, n_steps, p->r.w)) != last) {
				p->ink = (uint8_t)look[k].ink;
				pen_text(p, x, 0, glyph(p->c, look[k].glyph), -1);
				last = x; /* a long recording has thousands of marks */
			}
}

static void draw_legend(struct pen *p, const char *right)
{
	p->ink = INK_DIM;
	pen_printf(p, 0, 2, "%s turn   %s rejected draft   %s eviction", glyph(p->c, GLYPH_TURN),
		glyph(p->c, GLYPH_MARK_REJECTED), glyph(p->c, GLYPH_MARK_EVICTED));
	pen_right(p, p->r.w, 2, "%s", right);
}

void scrubber_draw(struct pen *p, const struct player *player, const char *right)
{
	int64_t n_steps = player_n_steps(player);
	int knob = column_of(player_at(player), n_steps, p->r.w);

	draw_marks(player, p, n_steps);
	p->ink = INK_BRIGHT;
	for (int x = 0; x < knob; x++)
		pen_text(p, x, 1, glyph(p->c, GLYPH_HEAVY), -1);
	pen_hline(p, knob + 1, 1, p->r.w - knob - 1);
	p->ink = INK_BRIGHT;
	pen_text(p, knob, 1, glyph(p->c, GLYPH_KNOB), -1);
	if (p->r.h > 2)
		draw_legend(p, right);
}

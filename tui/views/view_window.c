/* Part of the speculation view: the window of a drafter that iterates guesses (Jacobi, lookahead),
 * in the newest steps side by side. In a block each line is an iterate, and the last line the
 * model's new predictions in this step: in the next block it is the newest iterate, shifted by the
 * tokens drawn. Guesses that equal the final text are green (converged). A column of lookahead's,
 * read downwards, is an n-gram, and enters the pool. Thread: the UI's. */

#include "tui/views/view_util.h"

enum { LABEL_W = 10, CELL_W = 11, GAP_W = 3, BLOCKS_MAX = 6 };

/* The newest windows of the request with the newest one, oldest first. */
static int newest(
	const struct timeline *t, int64_t request, const struct tl_window *out[BLOCKS_MAX], int w)
{
	int n = 0, used = LABEL_W;

	for (int32_t i = t->n_windows; i-- > 0 && n < BLOCKS_MAX;) {
		const struct tl_window *k = &t->window[i];
		int width = k->columns * CELL_W + GAP_W;

		if (request && k->request != request)
			continue;
		if (n && (used + width > w || k->levels != out[0]->levels))
			break;
		request = k->request;
		used += width;
		memmove(out + 1, out, (size_t)n++ * sizeof *out);
		out[0] = k;
	}
	return n;
}

static void put_cell(struct pen *p, int x, int y, const struct timeline *t,
	const struct tl_window *w, int64_t pos, int32_t id, bool now)
{
	const struct tl_token *k =
		timeline_branch_token(t, (struct tl_branch){ w->request, -1, 0 }, (int32_t)pos);
	struct pen in = *p;

	/* whether the text has it there now */
	in.ink = k && k->id == id ? INK_ACCEPTED : now ? INK_TEXT : INK_DIM;
	if (x + CELL_W > p->r.w)
		return;
	if (id < 0)
		view_put(p, x, y, INK_DIM, "%s", glyph(p->c, GLYPH_DOT));
	else
		view_put_token(&in, x, y, CELL_W - 1, t, id);
}

/* Its head and lines from y on; returns the columns used. */
static int draw_block(
	struct pen *p, int x, int y, const struct timeline *t, const struct tl_window *w, bool now)
{
	const int32_t *id = t->window_id + w->ids_at;

	view_put(p, x, y++, now ? INK_BRIGHT : INK_DIM, "step %lld", (long long)w->step);
	for (int32_t l = 0; l <= w->levels; l++, y++)
		for (int32_t j = 0; j < w->columns; j++)
			put_cell(p, x + j * CELL_W, y, t, w, w->pos + j + l, id[l * w->columns + j], now);
	return w->columns * CELL_W + GAP_W;
}

/* Bright: n-grams from columns of the window; dim: from the drawn text. The size of the pool is
 * always shown. */
static void draw_entered(struct pen *p, int y, const struct timeline *t, const struct tl_window *w)
{
	const int32_t *id = t->window_id + w->ids_at + (w->levels + 1) * w->columns;
	int x = view_put(p, 0, y, INK_DIM, "entered") + 3, end;
	const struct view_text pool = view_form("%d in the pool", w->pool);

	end = p->r.w - (int)strlen(pool.text);
	for (int32_t i = 0; i < w->n_entered; i++) {
		struct view_text gram = { "" };

		for (int32_t j = 0; j < w->gram; j++)
			view_add(&gram, "%s%s", j ? " " : "", view_word(t, id[i * w->gram + j]).text);
		if (x + text_width(gram.text, strlen(gram.text), p->c->ascii) + 3 > end) {
			x += view_put(p, x, y, INK_DIM, "%s ", glyph(p->c, GLYPH_ELLIPSIS));
			break;
		}
		x += view_put(p, x, y, i < w->own ? INK_BRIGHT : INK_DIM, "%s", gram.text);
		x += view_put(p, x, y, INK_DIM, " %s ", glyph(p->c, GLYPH_DOT));
	}
	view_put(p, x, y, INK_DIM, "%s", pool.text);
}

int view_window_draw(struct pen *p, int y, const struct timeline *t, int64_t request)
{
	const struct tl_window *w[BLOCKS_MAX];
	int n = newest(t, request, w, p->r.w), x = LABEL_W;

	if (!n)
		return y;
	view_put(p, 0, y++, INK_DIM,
		"'says' is the next newest, moved by what was accepted; green: in the text now%s",
		w[n - 1]->gram && p->r.w >= 130 ? "; each column, read downwards, enters the pool" : "");
	for (int32_t l = 0; l <= w[0]->levels; l++)
		view_put(p, 0, y + 1 + l, INK_DIM,
			l == w[0]->levels      ? "says"
			: l + 1 < w[0]->levels ? l ? "older" : "oldest"
			: w[0]->levels > 1     ? "newest"
								   : "guessed");
	for (int i = 0; i < n; i++)
		x += draw_block(p, x, y, t, w[i], i == n - 1);
	y += 2 + w[0]->levels;
	if (w[n - 1]->gram)
		draw_entered(p, y++, t, w[n - 1]);
	return y + 1;
}

/* Part of the speculation view: the window of a drafter that iterates guesses (Jacobi, lookahead). Each column
 * is a place behind the text, each line an iterate of it; the last line is what the model says behind them in this
 * step, with which the next window begins. What the text has become is green: it has frozen. Below, the n-grams that
 * entered the pool. Thread: the UI's. */
#include <string.h>

#include "base/text.h"
#include "tui/view_util.h"
#include "tui/views.h"

enum { LABEL_W = 10, COLUMN_W = 14 };

static const struct tl_window *newest(const struct timeline *t, int64_t request)
{
	for (int32_t i = t->n_windows; i-- > 0;)
		if (!request || t->window[i].request == request)
			return &t->window[i];
	return NULL;
}

/* Whether the text has this token at this position now. */
static bool has_frozen(const struct timeline *t, const struct tl_window *w, int64_t pos, int32_t id)
{
	const struct tl_request *r = timeline_request(t, w->request);
	int64_t i = r ? pos - r->n_prompt : -1;

	return i >= 0 && i < r->n_tokens && r->token[i].pos == pos && r->token[i].id == id;
}

static void put_cell(struct pen *p, int x, int y, const struct timeline *t, const struct tl_window *w, int64_t pos,
					 int32_t id)
{
	struct pen in = *p;

	in.ink = has_frozen(t, w, pos, id) ? INK_ACCEPTED : INK_TEXT;
	if (id < 0)
		view_put(p, x, y, INK_DIM, "%s", glyph(p->c, GLYPH_DOT));
	else if (x + COLUMN_W <= p->r.w)
		view_put_token(&in, x, y, COLUMN_W - 1, t, id);
}

static void draw_entered(struct pen *p, int y, const struct timeline *t, const struct tl_window *w, const int32_t *id)
{
	int x = view_put(p, 0, y, INK_DIM, "entered") + 3;
	char word[VIEW_TOKEN];

	for (int32_t i = 0; i < w->n_entered && x + 3 * COLUMN_W < p->r.w; i++) {
		for (int32_t j = 0; j < w->gram; j++)
			x += view_put(p, x, y, i < w->own ? INK_BRIGHT : INK_DIM, "%s%s", j ? " " : "",
						  view_word(word, t, id[i * w->gram + j]));
		x += view_put(p, x, y, INK_DIM, " %s ", glyph(p->c, GLYPH_DOT));
	}
	view_put(p, x, y, INK_DIM, "%d in the pool", w->pool);
}

int view_window_draw(struct pen *p, int y, const struct timeline *t, int64_t request)
{
	const struct tl_window *w = newest(t, request);
	const int32_t *id = w ? t->window_id + w->ids_at : NULL;

	if (!w)
		return y;
	view_put(p, 0, y++, INK_DIM, "window of step %lld: guesses by place, the oldest iterate first; green is the text now",
			 (long long)w->step);
	for (int32_t l = 0; l <= w->levels; l++, y++) {
		view_put(p, 0, y, INK_DIM, l == w->levels ? "says" : l ? "newer" : w->levels > 1 ? "oldest" : "guessed");
		for (int32_t j = 0; j < w->columns; j++)
			put_cell(p, LABEL_W + j * COLUMN_W, y, t, w, w->pos + j + l, id[l * w->columns + j]);
	}
	if (w->gram)
		draw_entered(p, y++, t, w, id + (w->levels + 1) * w->columns);
	return y + 1;
}

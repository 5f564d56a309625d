/* Watches: a user-defined number of each step (/watch NAME EXPRESSION), as a sparkline up to the
 * step shown. */

#include "tui/state/breaks.h"
#include "tui/views/view_util.h"

enum { NAME_W = 14, VALUE_W = 10, ROWS = 2 };

/* Leaves out values after the step shown. */
static int known(const struct breaks_series *w, int64_t step)
{
	int n = w->n;

	while (n > 0 && w->step[n - 1] > step)
		n--;
	return n;
}

static void range(const struct breaks_series *w, int from, int to, float *low, float *high)
{
	*low = INFINITY;
	*high = -INFINITY;
	for (int i = from; i < to; i++) {
		*low = fminf(w->value[i], *low);
		*high = fmaxf(w->value[i], *high);
	}
}

static void draw_line(struct pen *p, int x, int y, int w, const struct breaks_series *s, int n)
{
	int from = n > w ? n - w : 0;
	float low, high;

	range(s, from, n, &low, &high);
	low = fminf(low, 0); /* bars start at zero */
	for (int i = from; i < n; i++)
		if (!isnan(s->value[i]))
			view_spark(p, x + i - from, y, INK_BAR,
				high > low ? (double)((s->value[i] - low) / (high - low)) : 0.1);
}

static void draw_watch(struct pen *p, int y, const struct breaks_series *s, int64_t step)
{
	int n = known(s, step), x = NAME_W + VALUE_W + 1, w = p->r.w - x;
	float low, high;

	range(s, n > w ? n - w : 0, n, &low, &high);
	pen_clip(p, 0, y, NAME_W, s->name, -1);
	if (n && isnan(s->value[n - 1]))
		view_put_right(p, NAME_W + VALUE_W, y, INK_DIM, "NULL");
	else if (n)
		view_put_right(p, NAME_W + VALUE_W, y, INK_BRIGHT, "%.5g", (double)s->value[n - 1]);
	draw_line(p, x, y, w, s, n);
	view_put(p, 0, y + 1, INK_DIM,
		high >= low ? "%s   %.5g \xe2\x80\xa6 %.5g"
		: n         ? "%s"
					: "%s   from the next step on",
		s->expr, (double)low, (double)high);
}

static void draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const struct tl_step *last = timeline_last_step(t);
	struct breaks_series w;
	int n = 0;

	while (s->breaks && breaks_series(s->breaks, n, &w)) {
		if (2 + n * (ROWS + 1) + ROWS <= p->r.h)
			draw_watch(p, 2 + n * (ROWS + 1), &w, last ? last->s.step : 0);
		n++;
	}
	pen_head(p, "watches", n ? "value · bars from 0 to the most that is shown" : "");
	if (!n)
		view_nothing(p, "a curve of any quantity by step: `/watch surprise entropy`");
}

const struct view view_watch = {
	VIEW(WATCH, watch, "watches", 40, 4, 6),
	.draw = draw,
};

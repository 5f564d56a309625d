/* Part of the view "ranks": what each did over the time of one step, the newest that told it. A
 * column's bar is the share of its time in which the rank computed; what is above it, exchanged.
 * Where there is neither, the rank had not begun or had ended. */

#include "tui/views/view_util.h"

enum { LABEL = 4, MOST_W = 400, TICK_W = 12, COMPUTE = INK_PART_0 + 4 };

struct axis {
	double from, to; /* ns after rank 0 began */
	int w;
};

struct cover { /* ns of a column */
	double compute, exchange;
};

static int64_t newest_step(const struct timeline *t)
{
	int64_t step = 0;

	for (int32_t i = 0; i < t->n_ranks; i++)
		if (t->rank[i].n_lane && t->rank[i].lane_step > step)
			step = t->rank[i].lane_step;
	return step;
}

bool view_ranks_have_lanes(const struct timeline *t)
{
	return newest_step(t) > 0;
}

static bool has_lane(const struct timeline *t, int32_t rank)
{
	return t->rank[rank].n_lane && t->rank[rank].lane_step == newest_step(t);
}

/* A start that is not known is drawn as that of rank 0. */
static double start_of(const struct tl_rank *r)
{
	return r->lane_start_ns == EV_NULL_I ? 0 : (double)r->lane_start_ns;
}

static double end_of(const struct tl_rank *r)
{
	double ns = start_of(r);

	for (int32_t i = 0; i < r->n_lane; i++)
		ns += (double)r->lane[i];
	return ns;
}

/* Of all ranks, so that nothing moves while their list is scrolled. */
static struct axis axis_of(const struct timeline *t, int w)
{
	struct axis a = { .from = INFINITY, .to = -INFINITY, .w = at_most(w, MOST_W) };

	for (int32_t i = 0; i < t->n_ranks; i++)
		if (has_lane(t, i)) {
			a.from = fmin(a.from, start_of(&t->rank[i]));
			a.to = fmax(a.to, end_of(&t->rank[i]));
		}
	a.to = fmax(a.to, a.from + 1);
	return a;
}

static void paint(const struct axis *a, struct cover *c, double from, double to, bool exchange)
{
	const double each = (a->to - a->from) / a->w;
	const int last = (int)((to - a->from) / each);

	for (int x = (int)((from - a->from) / each); x <= last && x < a->w; x++) {
		const double begin = a->from + x * each, ns = fmin(to, begin + each) - fmax(from, begin);

		*(exchange ? &c[x].exchange : &c[x].compute) += fmax(ns, 0);
	}
}

/* With colours the bar's paper is the rest of the column; without, a dot says that there is one. */
static void draw_column(struct pen *p, int x, int y, int rows, const struct cover *c)
{
	const double sum = c->compute + c->exchange;
	struct pen in = *p;

	if (!(sum > 0))
		return;
	in.ink = COMPUTE;
	in.paper = INK_EXCHANGE;
	for (int k = 0; k < rows; k++) {
		const double part = c->compute / sum * rows - k;

		pen_spark(&in, x, y + rows - 1 - k, fmin(fmax(part, 0), 1));
		if ((p->c->mono || p->c->ascii) && !k && part * 8 < 1)
			view_put(p, x, y + rows - 1, INK_DIM, "%s", glyph(p->c, GLYPH_DOT));
	}
}

static void draw_lane(
	struct pen *p, int y, int rows, const struct timeline *t, int32_t rank, const struct axis *a)
{
	const struct tl_rank *r = &t->rank[rank];
	struct cover c[MOST_W] = { { 0, 0 } };
	double at = start_of(r);

	view_put_right(p, LABEL - 1, y + rows - 1, INK_DIM, "%d%s", rank,
		r->lane_start_ns == EV_NULL_I && has_lane(t, rank) ? "?" : "");
	for (int32_t i = 0; i < r->n_lane && has_lane(t, rank); i++) {
		paint(a, c, at, at + (double)r->lane[i], i % 2);
		at += (double)r->lane[i];
	}
	for (int x = 0; x < a->w; x++)
		draw_column(p, LABEL + x, y, rows, &c[x]);
}

/* ---- around them ---- */

static void draw_legend(struct pen *p, int y, const struct timeline *t, const struct axis *a)
{
	struct pen in = *p;
	int x = view_put(p, 0, y, INK_DIM, "step %lld, %s:  ", (long long)newest_step(t),
		view_ns(a->to - a->from).text);

	in.ink = COMPUTE;
	in.paper = INK_EXCHANGE;
	pen_spark(&in, x, y, 1);
	x += 2 + view_put(p, x + 1, y, INK_DIM, " computing  ");
	if (p->c->mono || p->c->ascii) {
		view_put(p, x, y, INK_DIM, "above: exchanging");
		return;
	}
	pen_spark(&in, x, y, 0);
	view_put(p, x + 1, y, INK_DIM, " exchanging");
}

/* 1, 2 or 5 times a power of ten, so that ticks are TICK_W columns apart or more. */
static double tick_of(const struct axis *a)
{
	const double least = (a->to - a->from) / a->w * TICK_W;
	double tick = pow(10, floor(log10(least)));

	for (int i = 0; tick < least; i++)
		tick *= i % 3 == 1 ? 2.5 : 2;
	return tick;
}

static void draw_axis(struct pen *p, int y, const struct axis *a)
{
	const double tick = tick_of(a), each = (a->to - a->from) / a->w;
	const bool us = a->to < 2e6;

	for (double at = ceil(a->from / tick) * tick; at < a->to; at += tick) {
		const int x = LABEL + (int)((at - a->from) / each);
		const bool first = at - tick < a->from;
		char label[40];

		snprintf(label, sizeof label, first ? "%.6g %s" : "%.6g", at / (us ? 1e3 : 1e6) + 0.0,
			us ? "µs" : "ms");
		if (x + (int)strlen(label) <= p->r.w)
			view_put(p, x, y, INK_DIM, "%s", label);
	}
}

int view_ranks_lanes_lines(int n, int rows)
{
	return 2 + n * rows + (rows > 1 ? n - 1 : 0);
}

void view_ranks_lanes(struct pen *p, int y, const struct timeline *t, int first, int n, int rows)
{
	const struct axis a = axis_of(t, p->r.w - LABEL);

	if (a.w < TICK_W)
		return;
	draw_legend(p, y++, t, &a);
	for (int i = 0; i < n; i++)
		draw_lane(p, y + i * (rows + (rows > 1)), rows, t, first + i, &a);
	draw_axis(p, y + view_ranks_lanes_lines(n, rows) - 2, &a);
}

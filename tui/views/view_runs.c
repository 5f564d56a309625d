/* The view "runs": whole busy periods, each compressed into the width, the newest below. A row is a
 * slot, a column some steps, the same number in all, so that a longer run is wider. */

#include "tui/views/view_util.h"

enum { LABEL = 3, LEGEND_W = 40, WIDE = 72 };

struct scale {
	int64_t steps; /* of the longest run that is shown */
	int x, w;
};

static int column(const struct scale *s, const struct tl_run *r, int64_t step)
{
	const double at = (double)(step - r->first) * s->w / (double)s->steps;

	return s->x + (at < 0 ? 0 : at >= s->w ? s->w - 1 : (int)at);
}

static int64_t length(const struct tl_run *r)
{
	return r->last < r->first ? 1 : r->last - r->first + 1;
}

static int slots_of(const struct timeline *t)
{
	int32_t most = t->session.slots > 0 && t->session.slots < 64 ? (int32_t)t->session.slots : 0;

	for (int32_t i = 0; i < t->n_stays && t->session.slots < 1; i++)
		most = t->stay[i].slot >= most && t->stay[i].slot < 64 ? t->stay[i].slot + 1 : most;
	return most;
}

/* What lies before the oldest stay that is kept is not known. */
static int first_column(const struct timeline *t, const struct scale *s, const struct tl_run *r)
{
	return t->n_stays == TL_STAYS ? column(s, r, t->stay[0].from) : s->x;
}

static void draw_stay(struct pen *p, const struct timeline *t, const struct scale *s,
	const struct tl_run *r, const struct tl_stay *k, int y)
{
	const struct tl_request *q = k->to == EV_NULL_I ? timeline_request(t, k->request) : NULL;
	const int64_t read = q && q->first_step != EV_NULL_I ? q->first_step + 1 : k->read;
	const int from = column(s, r, k->from);
	const int to = column(s, r, k->to == EV_NULL_I ? t->last_step : k->to);
	const int first = read == EV_NULL_I ? to : column(s, r, read);

	for (int x = from; x <= to; x++)
		view_spark(p, x, y, view_ink(k->request), x == from || x < first ? 1 : 3 / 8.0);
	if (k->lost)
		view_put(p, to, y, INK_REJECTED, "%s", glyph(p->c, GLYPH_TIMES));
}

static void draw_title(struct pen *p, const struct timeline *t, const struct tl_run *r, int y)
{
	const double room = (double)r->steps * slots_of(t);

	view_put(p, 0, y, INK_BRIGHT, "%s: %lld step%s%s, %s %s%s", r->policy, (long long)r->steps,
		plural(r->steps),
		p->r.w >= WIDE ? view_form(", %d request%s", r->requests, plural(r->requests)).text : "",
		room > 0 ? view_form("%.0f %%", 100 * fmax(0, 1 - (double)r->members / room)).text : "–",
		r->preempted && p->r.w < WIDE ? "idle" : "of the slots idle",
		r->preempted ? view_form(", %d preempted", r->preempted).text : "");
}

static int draw_run(
	struct pen *p, const struct timeline *t, const struct scale *s, const struct tl_run *r, int y)
{
	const int rows = slots_of(t), end = column(s, r, r->last);

	draw_title(p, t, r, y++);
	for (int slot = 0; slot < rows; slot++) {
		view_put(p, 0, y + slot, INK_DIM, "%d", slot);
		for (int x = first_column(t, s, r); x <= end; x++)
			view_put(p, x, y + slot, INK_RULE, "%s", glyph(p->c, GLYPH_DOT));
	}
	for (int32_t i = 0; i < t->n_stays; i++) {
		const struct tl_stay *k = &t->stay[i];

		if (is_index(k->slot, rows) && k->from >= r->first && k->from <= r->last)
			draw_stay(p, t, s, r, k, y + k->slot);
	}
	return y + rows;
}

static void draw_legend(struct pen *p, int y)
{
	int x = 0;

	pen_spark(p, x, y, 1);
	x += 2 + view_put(p, x + 2, y, INK_DIM, "prompt  ");
	pen_spark(p, x, y, 3 / 8.0);
	x += 2 + view_put(p, x + 2, y, INK_DIM, "answer  ");
	view_put(p, x, y, INK_DIM, "%s idle  %s preempted", glyph(p->c, GLYPH_DOT),
		glyph(p->c, GLYPH_TIMES));
}

static void draw_runs(struct pen *p, const struct timeline *t, struct view_state *state)
{
	const int rows = slots_of(t) + 1, fit = (p->r.h - 1) / (at_least(rows, 1));
	const int n = within(fit, 1, t->n_runs);
	struct scale s = { .steps = 1, .x = LABEL, .w = p->r.w - LABEL };
	int y = 1;

	(void)state;
	if (!t->n_runs) {
		view_empty(p, "runs", "no run yet: try `/load 32`, then another /policy");
		return;
	}
	for (int i = t->n_runs - n; i < t->n_runs; i++)
		s.steps = at_least(length(&t->run[i]), s.steps);
	if (s.steps < s.w)
		s.w = (int)s.steps;
	view_head(
		p, "runs", "a column is %.3g step%s", (double)s.steps / s.w, s.steps == s.w ? "" : "s");
	for (int i = t->n_runs - n; i < t->n_runs; i++)
		y = draw_run(p, t, &s, &t->run[i], y);
	if (y < p->r.h && p->r.w >= LEGEND_W)
		draw_legend(p, y);
}

const struct view view_runs = {
	VIEW(RUNS, runs, "runs", 30, 3, 19),
	.draw = draw_runs,
	.key = view_requests_key,
};

/* The view "latency": how TTFT, inter-token latency, the time to the end and the queue are
 * distributed over the session, in time as measured and in steps as counted, with the targets; and
 * what the slowest are made of. */

#include "base/histogram.h"
#include "tui/views/view_util.h"

enum { GAP = 3, TITLE_W = 6, MOST_W = 256, LEAST_BARS_W = 24, FOOT = 2, ONE_LINE_W = 112 };

static const struct {
	enum tl_latency of;
	const char *name;
} panels[] = { { TL_TTFT, "TTFT" }, { TL_ITL, "ITL" }, { TL_E2E, "e2e" }, { TL_QUEUE, "queue" } };
enum { N_PANELS = sizeof panels / sizeof *panels };

/* ---- one histogram ---- */

struct scale { /* of values to columns */
	double low, high;
	bool linear;
	int x, w;
};

static int column_of(const struct scale *s, double v)
{
	double at;

	if (s->high <= s->low)
		return s->x;
	if (s->linear)
		at = (v - s->low) / (s->high - s->low);
	else
		at = log(fmax(v, 1) / fmax(s->low, 1)) / log(s->high / fmax(s->low, 1));
	at = at < 0 ? 0 : at > 1 ? 1 : at;
	return s->x + (int)(at * (s->w - 1) + 0.5);
}

/* Few different counts are apart by equal differences; else columns are equal ratios. */
static struct scale scale_of(const struct histogram *h, int x, int w)
{
	struct scale s = { (double)NAN, 0, false, x, w };

	for (int b = 0; b < HISTOGRAM_BUCKETS; b++)
		if (h->count[b]) {
			s.high = histogram_middle(b);
			s.low = isnan(s.low) ? s.high : s.low;
		}
	s.linear = s.high - s.low < w;
	return s;
}

static struct view_text value_words(double v, bool steps)
{
	return steps ? view_count(isnan(v) ? EV_NULL_I : (int64_t)(v + 0.5)) : view_ns(v);
}

/* Counts by column; what is beyond the target has the colour of a rejection. */
static void draw_bars(
	struct pen *p, const struct histogram *h, const struct scale *s, double target, int y, int rows)
{
	double sum[MOST_W] = { 0 }, most = 0;

	for (int b = 0; b < HISTOGRAM_BUCKETS; b++)
		if (h->count[b])
			sum[column_of(s, histogram_middle(b)) - s->x] += h->count[b];
	for (int x = 0; x < s->w; x++)
		most = fmax(sum[x], most);
	for (int x = 0; x < s->w; x++)
		view_stack(p, s->x + x, y, rows,
			target > 0 && s->x + x > column_of(s, target) ? INK_REJECTED : INK_BAR,
			most > 0 ? sum[x] / most * rows : 0);
}

struct label { /* of one quantile, or of several that lie in its columns */
	int x, n;
	char text[16];
};

/* Moves the last of k labels into w columns, and joins it to the one before where they touch;
 * returns how many are left. */
static int settle(struct label *l, int k, int w)
{
	struct label *last = &l[k - 1];

	last->x = at_most(last->x, w - last->n);
	if (k < 2 || last->x > l[k - 2].x + l[k - 2].n)
		return k;
	snprintf(l[k - 2].text + l[k - 2].n, sizeof l->text - (size_t)l[k - 2].n, "/%s", last->text);
	l[k - 2].n = (int)strlen(l[k - 2].text);
	return settle(l, k - 1, w);
}

/* The rule below the bars: the ends of what it shows, and the quantiles where they lie: 50/90/99
 * where all are in one place. */
static void draw_axis(
	struct pen *p, const struct histogram *h, const struct scale *s, double target, int y)
{
	static const int quantile[] = { 50, 90, 99 };
	struct label label[3];
	int n = 0;

	for (int x = 0; x < s->w; x++)
		view_put(p, s->x + x, y, INK_RULE, "%s", glyph(p->c, GLYPH_HRULE));
	for (int i = 0; i < 3; i++) {
		const int at = column_of(s, histogram_quantile(h, quantile[i] / 100.0)) - s->x;

		label[n] = (struct label){ .x = at, .n = 2 };
		snprintf(label[n].text, sizeof label[n].text, "%d", quantile[i]);
		n = settle(label, n + 1, s->w);
	}
	for (int i = 0; i < n; i++)
		view_put(p, s->x + label[i].x, y, INK_BRIGHT, "%s", label[i].text);
	if (target > s->low && target < s->high)
		view_put(p, column_of(s, target), y, INK_REJECTED, "%s", glyph(p->c, GLYPH_TREE_DOWN));
}

static void draw_title(
	struct pen *p, const struct histogram *h, const char *name, bool steps, int y)
{
	static const int percent[] = { 50, 90, 99 };
	const struct view_text most = value_words(histogram_quantile(h, 0.99), steps);
	const int column = (int)at_least(5 + (int64_t)strlen(most.text), steps ? 9 : 12);
	const int first = TITLE_W + (steps ? 6 : 0), roomy = p->r.w >= first + 3 * column - steps;

	view_say(p, 0, y, IN_BRIGHT "%s" IN_DIM "%s", name, steps ? " steps" : "");
	/* without room for all three the median and the worst of a hundred stay */
	for (int i = 0, k = 0; i < 3; i += roomy ? 1 : 2, k++) {
		const int x = first + k * column;
		/* dim: so few samples that none lies beyond it */
		view_say(p, x, y, IN_DIM "p%d %s%s", percent[i],
			histogram_n(h) * (100 - percent[i]) < 100 ? "" : IN_TEXT,
			value_words(histogram_quantile(h, percent[i] / 100.0), steps).text);
	}
}

static void draw_ends(struct pen *p, const struct scale *s, bool steps, int y)
{
	view_put(p, 0, y, INK_DIM, "%s", value_words(s->low, steps).text);
	if (s->high > s->low)
		view_put_right(p, p->r.w, y, INK_DIM, "%s", value_words(s->high, steps).text);
}

/* In the rectangle of p: title, bars, axis, the ends. */
static void draw_panel(
	struct pen *p, const struct histogram *h, const char *name, double target, bool steps)
{
	const int w = at_most(p->r.w, MOST_W), rows = p->r.h - 1 - FOOT;
	const struct scale s = scale_of(h, 0, w);

	draw_title(p, h, name, steps, 0);
	if (rows < 1 || w < LEAST_BARS_W || isnan(s.low))
		return;
	draw_bars(p, h, &s, target, 1, rows);
	draw_axis(p, h, &s, target, 1 + rows);
	draw_ends(p, &s, steps, 2 + rows);
}

/* ---- the targets ---- */

/* From (x, y): how many met it, and by which part the others missed it. */
static void draw_goodput(struct pen *p, const struct timeline *t, int x, int y)
{
	const struct tl_slo *slo = &t->slo;
	const double s = (double)(slo->last_ns - slo->since_ns) / 1e9;

	if (!slo->ended)
		return;
	x += view_say(p, x, y, IN_DIM "met by " IN_BRIGHT "%s of %s, %s", view_count(slo->met).text,
		view_count(slo->ended).text, view_percent((double)slo->met / (double)slo->ended).text);
	if (s > 0)
		x += view_put(p, x, y, INK_DIM, " · goodput %.3g of %.3g a second", (double)slo->met / s,
			(double)slo->ended / s);
	if (slo->late + slo->slow > 0)
		view_put(p, x, y, INK_REJECTED, " · missed: TTFT %s, ITL %s", view_count(slo->late).text,
			view_count(slo->slow).text);
}

static bool has_target(const struct timeline *t)
{
	const struct tl_target target = timeline_target(t);

	return target.ttft > 0 || target.itl > 0;
}

static void draw_target(struct pen *p, const struct timeline *t, int y)
{
	const struct tl_target target = timeline_target(t);
	int x;

	if (!has_target(t)) {
		view_put(p, 0, y, INK_DIM, "no target: /slo-ttft 500 and /slo-itl 50 set one, in ms");
		return;
	}
	x = view_say(p, 0, y, IN_DIM "target " IN_TEXT "%s%s%s",
		target.ttft > 0 ? view_form("TTFT %s ", view_ns(target.ttft).text).text : "",
		target.ttft > 0 && target.itl > 0 ? "and " : "",
		target.itl > 0 ? view_form("ITL p99 %s ", view_ns(target.itl).text).text : "");
	draw_goodput(p, t, p->r.w < ONE_LINE_W ? 0 : x, y + (p->r.w < ONE_LINE_W));
}

/* ---- the slowest ---- */

/* Of the requests that are kept: whose first token took longest. */
static void draw_slowest(struct pen *p, const struct timeline *t, int y)
{
	const struct tl_request *r = NULL;
	struct tl_latencies worst = { .ttft = -1 }, steps;
	int x;

	for (int32_t i = 0; i < t->n_requests; i++) {
		const struct tl_latencies l = timeline_waits(t, &t->request[i]);

		if (l.ttft > worst.ttft) {
			worst = l;
			r = &t->request[i];
		}
	}
	if (!r)
		return;
	steps = timeline_latency_steps(t, r);
	x = view_put(p, 0, y, INK_DIM, "slowest TTFT ");
	x += view_put_label(p, x, y, r->id);
	view_say(p, x, y, IN_TEXT " %s = %s queue + %s prompt" IN_DIM " · steps %.0f = %.0f + %.0f",
		view_ns(worst.ttft).text, view_ns(worst.queue).text, view_ns(worst.ttft - worst.queue).text,
		steps.ttft, steps.queue, steps.ttft - steps.queue);
}

struct gap {
	const struct tl_request *r;
	const struct tl_token *k;
};

/* Of the tokens of requests that are kept: the one that came latest after the one before it. */
static struct gap longest_gap(const struct timeline *t)
{
	struct gap g = { NULL, NULL };

	for (int32_t i = 0; i < t->n_requests; i++) {
		const struct tl_request *r = &t->request[i];

		for (int32_t k = r->n_tokens - 1; k > 0; k--)
			if (r->token[k - 1].step < r->token[k].step && r->token[k].source <= EV_SOURCE_chosen &&
				r->token[k].source != EV_SOURCE_forced && (!g.k || r->token[k].ns > g.k->ns))
				g = (struct gap){ r, &r->token[k] };
	}
	return g;
}

/* What the engine did in the steps of a gap. */
static struct view_text gap_words(const struct timeline *t, const struct gap *g)
{
	const int64_t from = g->k[-1].step + 1, to = g->k->step;
	int64_t rows = 0;
	bool lost = false;

	for (int32_t i = 0; i < t->n_steps; i++)
		if (t->step[i].s.step >= from && t->step[i].s.step <= to)
			rows += t->step[i].s.prefill_rows;
	for (int32_t i = 0; i < t->n_preempts; i++)
		lost |= t->preempt[i].p.request == g->r->id && t->preempt[i].step >= from &&
				t->preempt[i].step <= to;
	if (!t->n_steps || from < t->step[0].s.step)
		return view_form("to step %" PRId64 ", whose work is no longer kept", to);
	if (from == to)
		return view_form(
			"step %" PRId64 ", with %" PRId64 " row%s of prompts", to, rows, plural(rows));
	return view_form("%ssteps %" PRId64 " to %" PRId64 ", with %" PRId64 " row%s of prompts",
		lost ? "preempted, " : "", from, to, rows, plural(rows));
}

static void draw_gap(struct pen *p, const struct timeline *t, int y)
{
	const struct gap g = longest_gap(t);
	const double most = histogram_quantile(&t->latency[TL_ITL], 1);
	int x;

	if (!g.k)
		return;

	x = view_put(p, 0, y, INK_DIM, "longest gap  ");
	x += view_put_label(p, x, y, g.r->id);
	/* a histogram keeps what went back or left the window, within 1.6 % */
	view_put(p, x, y, INK_TEXT, " %s%s before its token %d: %s", view_ns((double)g.k->ns).text,
		most > 1.05 * (double)g.k->ns ? " of the tokens kept," : "", (int)(g.k - g.r->token),
		gap_words(t, &g).text);
}

/* ---- all ---- */

static void draw_head(struct pen *p, const struct timeline *t)
{
	const int64_t tokens = (int64_t)histogram_n(&t->latency[TL_TTFT]);

	view_head(p, "latency", "%s first token%s · time measured, steps counted",
		view_count(tokens).text, plural(tokens));
}

static void draw_latency(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const bool both = p->r.w >= 2 * LEAST_BARS_W + GAP + 24, foot = p->r.h >= 9;
	const int w = both ? (p->r.w - GAP) / 2 : p->r.w;
	const int lines = has_target(t) && p->r.w < ONE_LINE_W ? 2 : 1;
	const int room = p->r.h - 1 - (foot ? lines + 3 : 0), least = 1 + FOOT + 1;
	const int n = room / N_PANELS >= least || room < least ? N_PANELS : room / least;
	const int h = within(room / n, 1, 10);
	const struct tl_target target = timeline_target(t);
	int y = 1;

	(void)s;
	draw_head(p, t);
	if (!histogram_n(&t->latency[TL_QUEUE])) {
		view_nothing(
			p, "no request was admitted yet: TTFT, ITL, e2e and queue, in time and in steps");
		return;
	}
	if (foot) {
		draw_target(p, t, y);
		y += lines;
	}
	for (int i = 0; i < n; i++, y += h) {
		const double line = panels[i].of == TL_TTFT  ? target.ttft
							: panels[i].of == TL_ITL ? target.itl
													 : 0;
		struct pen left = pen_sub(p, (struct rect){ 0, y, w, h });
		struct pen right = pen_sub(p, (struct rect){ w + GAP, y, w, h });

		draw_panel(&left, &t->latency[panels[i].of], panels[i].name, line, false);
		if (both)
			draw_panel(&right, &t->latency_steps[panels[i].of], panels[i].name, 0, true);
	}
	if (!foot)
		return;
	draw_slowest(p, t, p->r.h - 2);
	draw_gap(p, t, p->r.h - 1);
}

const struct view view_latency = {
	VIEW(LATENCY, latency, "latency", 24, 3, 6),
	.draw = draw_latency,
};

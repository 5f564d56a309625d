/* Curves and requests of a load, drawn on a terminal and as SVG: see load.h. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "load/load.h"

enum { MOST_W = 200, MOST_H = 60, AXIS = 10, MOST_COLUMNS = 512, QUEUE_ROWS = 4 };

/* Okabe and Ito's colours, which colour-blind eyes tell apart. */
static const char *const colour[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
	"#56b4e9", "#000000" };
enum { COLOURS = sizeof colour / sizeof *colour };

static int within(int n, int low, int high)
{
	return n < low ? low : n > high ? high : n;
}

/* ---- the curve ---- */

/* x: output tokens a second; y: log10 of the mean time to the end, s. */
struct frame {
	double right, least, most;
};

static bool drawn(const struct load_point *p)
{
	return p->result.e2e.n && p->result.e2e.mean > 0;
}

static struct frame frame_of(const struct load_point *p, int n)
{
	struct frame f = { 0, INFINITY, -INFINITY };
	double step;

	for (int i = 0; i < n; i++) {
		if (!drawn(&p[i]))
			continue;
		f.right = fmax(f.right, p[i].result.tokens_s);
		f.least = fmin(f.least, floor(log10(p[i].result.e2e.mean)));
		f.most = fmax(f.most, ceil(log10(p[i].result.e2e.mean)));
	}
	step = f.right > 0 ? pow(10, floor(log10(f.right))) / 2 : 1;
	f.right = f.right > 0 ? ceil(f.right / step) * step : 1;
	f.least = isfinite(f.least) ? f.least : 0;
	f.most = f.most > f.least ? f.most : f.least + 1;
	return f;
}

static double height(const struct frame *f, const struct load_point *p)
{
	return (f->most - log10(p->result.e2e.mean)) / (f->most - f->least);
}

static void letters_of(const struct load_point *p, int n_policies, int n_each, FILE *out)
{
	fprintf(out, "%*s", AXIS, "");
	for (int k = 0; k < n_policies; k++) {
		const int knee = load_knee(p + k * n_each, n_each);

		fprintf(out, "%s%c: %s", k ? ", " : "", 'a' + k, p[k * n_each].policy);
		if (knee >= 0)
			fprintf(out, ", its knee %c at %.4g", 'A' + k, p[k * n_each + knee].load);
	}
	fputc('\n', out);
}

void load_curve(const struct load_point *p, int n_policies, int n_each, int w, int h, FILE *out)
{
	const struct frame f = frame_of(p, n_policies * n_each);
	char cell[MOST_H][MOST_W + 1];

	w = within(w - AXIS, 10, MOST_W);
	h = within(h, 4, MOST_H);
	memset(cell, ' ', sizeof cell);
	for (int i = 0; i < n_policies * n_each; i++) {
		const int k = i / n_each, knee = load_knee(p + k * n_each, n_each);
		char *at;

		if (!drawn(&p[i]))
			continue;
		at = &cell[(int)(height(&f, &p[i]) * (h - 1) + 0.5)]
				  [(int)(p[i].result.tokens_s / f.right * (w - 1) + 0.5)];
		if (*at < 'A' || *at > 'Z')
			*at = (char)((i - k * n_each == knee ? 'A' : 'a') + k);
	}
	fprintf(out, "mean time to the end, s\n");
	for (int y = 0; y < h; y++) {
		const double decade = nearbyint(f.most - (f.most - f.least) * y / (h - 1));

		cell[y][w] = '\0';
		if ((int)((f.most - decade) / (f.most - f.least) * (h - 1) + 0.5) == y)
			fprintf(out, "%*.4g |%s\n", AXIS - 2, pow(10, decade), cell[y]);
		else
			fprintf(out, "%*s|%s\n", AXIS - 1, "", cell[y]);
	}
	fprintf(out, "%*s+", AXIS - 1, "");
	for (int x = 0; x < w; x++)
		fputc('-', out);
	fprintf(out, "\n%*s0%*.4g tokens/s\n", AXIS, "", w - 1 - 9, f.right);
	letters_of(p, n_policies, n_each, out);
}

/* ---- requests over time ---- */

static int by_number(const void *a, const void *b)
{
	const struct tally_request *const *x = a, *const *y = b;

	return ((*x)->number > (*y)->number) - ((*x)->number < (*y)->number);
}

/* The longest queue in each of w columns from from_s on, `per` columns a second, over times at
 * which it did not change; returns the longest of all. */
static int64_t queue_columns(
	const struct load_point *p, double from_s, double per, int w, int64_t column[MOST_COLUMNS])
{
	const bool all = p->tally.n_changes < 2 * p->tally.o.keep;
	struct tally_change *c;
	const int64_t n = tally_queue(&p->tally, &c);
	int64_t most = 0;

	memset(column, 0, (size_t)w * sizeof *column);
	for (int64_t i = 0; i + !all < n; i++) {
		const double end = i + 1 < n ? ceil((c[i + 1].at_s - from_s) * per) : w;

		for (int x = within((int)((c[i].at_s - from_s) * per), 0, w); x < fmin(end, w); x++)
			column[x] = c[i].waiting > column[x] ? c[i].waiting : column[x];
		most = c[i].waiting > most ? c[i].waiting : most;
	}
	free(c);
	return most;
}

/* At most `most` of those kept, evenly, in order of arrival, and from when to when they are;
 * malloc'd. */
static const struct tally_request **chosen(
	const struct load_point *p, int64_t most, int64_t *n, double *from, double *to)
{
	const struct tally_request **r = malloc((size_t)(p->tally.n_kept + 1) * sizeof *r);
	const int64_t all = r ? p->tally.n_kept : 0;

	*n = all < most ? all : most;
	for (int64_t i = 0; i < all; i++)
		r[i] = &p->tally.kept[i];
	if (r)
		qsort(r, (size_t)all, sizeof *r, by_number);
	*from = *to = all ? r[0]->arrived_s : 0;
	for (int64_t i = 0; i < *n; i++) {
		r[i] = r[i * all / *n];
		*to = fmax(*to, r[i]->ended_s);
	}
	return r;
}

static double first_of(const struct tally_request *r)
{
	return isnan(r->first_s) ? r->ended_s : r->first_s;
}

static double admitted_of(const struct tally_request *r)
{
	return isnan(r->admitted_s) ? first_of(r) : r->admitted_s;
}

static void draw_row(const struct tally_request *r, double from, double per, int w, char *cell)
{
	const double first = first_of(r), admitted = admitted_of(r);

	memset(cell, ' ', (size_t)w);
	cell[w] = '\0';
	/* a cell shows what the request did in the middle of its time there */
	for (int x = within((int)((r->arrived_s - from) * per), 0, w - 1); x < w; x++) {
		const double left = fmax(from + x / per, r->arrived_s);
		const double at = (left + fmin(from + (x + 1) / per, r->ended_s)) / 2;

		if (left > r->ended_s)
			break;
		cell[x] = at >= first ? '#' : at >= admitted ? ':' : '.';
	}
	if (r->failed)
		cell[within((int)((r->ended_s - from) * per), 0, w - 1)] = '!';
}

static void draw_queue(const struct load_point *p, double from, double per, int w, FILE *out)
{
	int64_t column[MOST_COLUMNS];
	const int64_t most = queue_columns(p, from, per, w, column);
	const int h = within((int)most, 0, QUEUE_ROWS);

	if (!most)
		fprintf(out, "%17s nobody waited\n", "queue:");
	for (int y = h; y > 0; y--) {
		char label[32] = "";

		if (y == h)
			snprintf(label, sizeof label, "queue up to %lld", (long long)most);
		fprintf(out, "%17s |", label);
		for (int x = 0; x < w; x++)
			fputc(column[x] * h > (y - 1) * most ? '=' : ' ', out);
		fputc('\n', out);
	}
}

void load_gantt(const struct load_point *p, int w, int h, FILE *out)
{
	char cell[MOST_W + 1];
	double from, to;
	int64_t n;
	const struct tally_request **r = chosen(p, within(h, 1, 1000), &n, &from, &to);

	w = within(w - 18, 10, MOST_W);
	for (int64_t i = 0; i < n && to > from; i++) {
		draw_row(r[i], from, w / (to - from), w, cell);
		fprintf(out, "%6lld %4d+%-4d |%s\n", (long long)r[i]->number, r[i]->n_prompt,
			r[i]->n_output, cell);
	}
	if (to > from)
		draw_queue(p, from, w / (to - from), w, out);
	if (n)
		fprintf(out,
			"%17s %-*.4g%*.4g s\n%17s . waits, : its prompt is computed, # answers, ! failed\n",
			"prompt+answer", w / 2, from, w - w / 2, to, "");
	free(r);
}

/* ---- SVG ---- */

enum {
	W = 720,
	H = 420,
	LEFT = 80,
	TOP = 30,
	BOTTOM = 60,
	RIGHT = 150,
	ROW = 6,
	MOST_ROWS = 400,
	QUEUE_H = 60
};

static void svg_begin(int h, FILE *out)
{
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
		"font-family=\"sans-serif\" font-size=\"12\"><rect width=\"%d\" height=\"%d\" "
		"fill=\"#fff\"/>\n",
		W, h, W, h);
}

static void __attribute__((format(printf, 5, 6)))
svg_text(FILE *out, double x, double y, const char *anchor, const char *fmt, ...)
{
	va_list args;

	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
	va_start(args, fmt);
	vfprintf(out, fmt, args);
	va_end(args);
	fprintf(out, "</text>\n");
}

static double svg_x(const struct frame *f, const struct load_point *p)
{
	return LEFT + p->result.tokens_s / f->right * (W - LEFT - RIGHT);
}

static double svg_y(const struct frame *f, const struct load_point *p)
{
	return TOP + height(f, p) * (H - TOP - BOTTOM);
}

static void svg_axes(const struct frame *f, FILE *out)
{
	for (double v = f->least; v <= f->most; v++) {
		const double y = TOP + (f->most - v) / (f->most - f->least) * (H - TOP - BOTTOM);

		fprintf(out, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>\n", LEFT, y, W - RIGHT);
		svg_text(out, LEFT - 6, y + 4, "end", "%g s", pow(10, v));
	}
	for (int i = 0; i <= 5; i++)
		svg_text(out, LEFT + (W - LEFT - RIGHT) * i / 5.0, H - BOTTOM + 18, "middle", "%.4g",
			f->right * i / 5);
	svg_text(out, (LEFT + W - RIGHT) / 2.0, H - 16, "middle", "tokens/s, and mean time to the end");
}

static void svg_policy(const struct frame *f, const struct load_point *p, int n, int k, FILE *out)
{
	const int knee = load_knee(p, n);
	const char *c = colour[k % COLOURS];

	fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", c);
	for (int i = 0; i < n; i++)
		if (drawn(&p[i]))
			fprintf(out, "%.1f,%.1f ", svg_x(f, &p[i]), svg_y(f, &p[i]));
	fprintf(out, "\"/>\n");
	for (int i = 0; i < n; i++) {
		if (!drawn(&p[i]))
			continue;
		fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\" stroke=\"%s\"/>\n",
			svg_x(f, &p[i]), svg_y(f, &p[i]), i == knee ? 7 : 3, i == knee ? "none" : c, c);
		svg_text(out, svg_x(f, &p[i]), svg_y(f, &p[i]) - 9, "middle", "%.4g", p[i].load);
	}
	fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\"/>\n",
		W - RIGHT + 14, TOP + 20 * k, c);
	svg_text(out, W - RIGHT + 30, TOP + 20 * k + 10, "start", "%s", p->policy);
}

void load_curve_svg(const struct load_point *p, int n_policies, int n_each, FILE *out)
{
	const struct frame f = frame_of(p, n_policies * n_each);

	svg_begin(H, out);
	svg_axes(&f, out);
	for (int k = 0; k < n_policies; k++)
		svg_policy(&f, p + k * n_each, n_each, k, out);
	svg_text(out, W - RIGHT + 14, H - BOTTOM, "start", "ring: the knee");
	fprintf(out, "</svg>\n");
}

static void svg_bar(double from, double to, double y, const char *fill, FILE *out)
{
	if (to > from)
		fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n",
			from, y, to - from, ROW - 1, fill);
}

static void svg_request(const struct tally_request *r, double from, double per, double y, FILE *out)
{
	const double first = first_of(r), admitted = admitted_of(r);

	svg_bar(LEFT + (r->arrived_s - from) * per, LEFT + (admitted - from) * per, y, "#cccccc", out);
	svg_bar(LEFT + (admitted - from) * per, LEFT + (first - from) * per, y, colour[4], out);
	svg_bar(LEFT + (first - from) * per, LEFT + (r->ended_s - from) * per, y,
		r->failed ? colour[1] : colour[0], out);
}

/* Below the requests, in their columns. */
static void svg_queue(const struct load_point *p, double from, double per, double y, FILE *out)
{
	int64_t column[MOST_COLUMNS];
	const int64_t most = queue_columns(p, from, per, W - LEFT - RIGHT, column);

	svg_text(out, W - RIGHT + 14, y + QUEUE_H, "start", "queue, at most %lld", (long long)most);
	fprintf(out, "<path fill=\"#999999\" d=\"M%d %.1f", LEFT, y + QUEUE_H);
	for (int x = 0; x < W - LEFT - RIGHT; x++)
		if (!x || column[x] != column[x - 1])
			fprintf(out, "H%dV%.1f", LEFT + x,
				y + QUEUE_H * (1 - (double)column[x] / (double)(most ? most : 1)));
	fprintf(out, "H%dV%.1fZ\"/>\n", W - RIGHT, y + QUEUE_H);
}

void load_gantt_svg(const struct load_point *p, FILE *out)
{
	static const char *const legend[] = { "waits", "its prompt", "answers", "failed" };
	static const char *const fill[] = { "#cccccc", "#e69f00", "#0072b2", "#d55e00" };
	double from, to;
	int64_t n;
	const struct tally_request **r = chosen(p, MOST_ROWS, &n, &from, &to);

	svg_begin((int)(TOP + ROW * n + QUEUE_H + BOTTOM), out);
	for (int64_t i = 0; i < n && to > from; i++)
		svg_request(r[i], from, (W - LEFT - RIGHT) / (to - from), (double)(TOP + ROW * i), out);
	if (to > from)
		svg_queue(p, from, (W - LEFT - RIGHT) / (to - from), (double)(TOP + ROW * n), out);
	for (int i = 0; i <= 5; i++)
		svg_text(out, LEFT + (W - LEFT - RIGHT) * i / 5.0, (double)(TOP + ROW * n + QUEUE_H + 20),
			"middle", "%.4g s", from + (to - from) * i / 5);
	for (int i = 0; i < 4; i++) {
		svg_bar(W - RIGHT + 14, W - RIGHT + 24, TOP + 20 * i, fill[i], out);
		svg_text(out, W - RIGHT + 30, TOP + 20 * i + 7, "start", "%s", legend[i]);
	}
	fprintf(out, "</svg>\n");
	free(r);
}

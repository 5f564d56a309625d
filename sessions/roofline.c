/* See roofline.h. Axes are logarithmic in both directions and cover every point, and both roofs with
 * the ridge where they meet. Thread: any; no state. */
#include "sessions/roofline.h"

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

static const char *const names[] = {
#define X(name, label, doc) [K_STAGE_##name] = #name,
	K_STAGES(X)
#undef X
};

static double roof_at(const struct roofline *p, double intensity)
{
	double reads = p->read_rate * intensity;
	return reads < p->int_rate ? reads : p->int_rate;
}

void roofline_of(struct roofline *p, const struct bench_report *r)
{
	*p = (struct roofline){r->read_gb_s.median * 1e9, r->int_gmac_s.median * 2e9, {{0}}, 0};
	for (int phase = 0; phase < BENCH_N_PHASES; phase++)
		for (int i = 0; i < EV_N_stage && phase != BENCH_DEEP; i++) {
			const struct bench_stage *s = &r->profile[phase].stage[i];
			if (!(s->ns > 0 && s->bytes > 0 && s->ops > 0))
				continue;
			p->point[p->n_points++] =
				(struct roofline_point){names[i], (enum bench_phase)phase, s->ops / s->bytes,
										s->ops / s->ns * 1e9, s->roof_ns / s->ns};
		}
}

/* Powers of ten that hold everything. */
struct frame {
	double x0, x1, y0, y1;
};

static struct frame frame_of(const struct roofline *p)
{
	double ridge = p->int_rate / p->read_rate;
	struct frame f = {log10(ridge), log10(ridge), log10(p->int_rate), log10(p->int_rate)};
	for (int i = 0; i < p->n_points; i++) {
		double x = log10(p->point[i].intensity), y = log10(p->point[i].rate);
		f.x0 = fmin(f.x0, x);
		f.x1 = fmax(f.x1, x);
		f.y0 = fmin(f.y0, y);
		f.y1 = fmax(f.y1, y);
	}
	return (struct frame){floor(f.x0), ceil(f.x1 + 0.2), floor(f.y0), ceil(f.y1 + 0.1)};
}

enum { COLUMNS = 68, ROWS = 20 };

static int column_of(const struct frame *f, double intensity)
{
	return (int)lround((log10(intensity) - f->x0) / (f->x1 - f->x0) * (COLUMNS - 1));
}

static int row_of(const struct frame *f, double rate)
{
	return (int)lround((f->y1 - log10(rate)) / (f->y1 - f->y0) * (ROWS - 1));
}

static char letter(const struct roofline_point *point)
{
	for (int i = 0; i < EV_N_stage; i++)
		if (!strcmp(names[i], point->name))
			return (char)((point->phase == BENCH_DECODE ? 'a' : 'A') + i);
	return '?';
}

static void print_axis(const struct frame *f, bool ascii, FILE *out)
{
	char marks[COLUMNS + 8];
	fprintf(out, "%8s %s", "", ascii ? "+" : "└");
	for (int x = 0; x < COLUMNS; x++)
		fputs(ascii ? "-" : "─", out);
	memset(marks, ' ', sizeof marks);
	marks[COLUMNS + 7] = 0;
	for (int x = (int)f->x0; x <= (int)f->x1; x++) {
		char text[8];
		int n = snprintf(text, sizeof text, "%g", pow(10, x));
		int at = column_of(f, pow(10, x));
		at = at + n > COLUMNS ? COLUMNS - n : at;
		if (n > 0 && n < (int)sizeof text)
			memcpy(marks + at, text, (size_t)n);
	}
	marks[COLUMNS] = 0;
	fprintf(out, "\n%10s%s\n%10sarithmetic intensity, FLOP/byte; the axis upward: GFLOP/s\n", "",
			marks, "");
}

static void print_points(const struct roofline *p, FILE *out)
{
	fprintf(out, "\n   %-10s %-8s %10s %12s %14s\n", "stage", "", "FLOP/byte", "GFLOP/s", "of its roof");
	for (int i = 0; i < p->n_points; i++) {
		const struct roofline_point *a = &p->point[i];
		fprintf(out, "%c  %-10s %-8s %10.2f %12.2f %13.0f%%\n", letter(a), a->name,
				a->phase == BENCH_DECODE ? "decode" : "prefill", a->intensity, a->rate / 1e9,
				100 * a->share);
	}
}

void roofline_print(const struct roofline *p, bool ascii, FILE *out)
{
	char cell[ROWS][COLUMNS];
	struct frame f = frame_of(p);
	memset(cell, ' ', sizeof cell);
	for (int x = 0; x < COLUMNS; x++) {
		double intensity = pow(10, f.x0 + (f.x1 - f.x0) * x / (COLUMNS - 1));
		int y = row_of(&f, roof_at(p, intensity));
		if (y >= 0 && y < ROWS)
			cell[y][x] = '.';
	}
	for (int i = 0; i < p->n_points; i++) {
		int x = column_of(&f, p->point[i].intensity), y = row_of(&f, p->point[i].rate);
		/* where several stages meet, they stand side by side */
		while (x >= 0 && x < COLUMNS - 1 && y >= 0 && y < ROWS && strchr(" .", cell[y][x]) == NULL)
			x++;
		if (x >= 0 && x < COLUMNS && y >= 0 && y < ROWS)
			cell[y][x] = letter(&p->point[i]);
	}
	fprintf(out, "Roofs: reads %.1f GB/s, 8-bit integers %.1f Gop/s.\n"
				 "Small letters: decode; capitals: prefill.\n",
			p->read_rate / 1e9, p->int_rate / 1e9);
	for (int y = 0; y < ROWS; y++) {
		double exponent = round(f.y1 - (f.y1 - f.y0) * y / (ROWS - 1));
		if (row_of(&f, pow(10, exponent)) == y)
			fprintf(out, "%8g %s", pow(10, exponent - 9), ascii ? "+" : "┤");
		else
			fprintf(out, "%8s %s", "", ascii ? "|" : "│");
		for (int x = 0; x < COLUMNS; x++)
			fputs(cell[y][x] == '.' && !ascii ? "·" : (char[]){cell[y][x], 0}, out);
		fputc('\n', out);
	}
	print_axis(&f, ascii, out);
	print_points(p, out);
}

/* ---- SVG ---- */

enum { LEFT = 80, TOP = 50, WIDTH = 680, HEIGHT = 420 };

static double svg_x(const struct frame *f, double intensity)
{
	return LEFT + (log10(intensity) - f->x0) / (f->x1 - f->x0) * WIDTH;
}

static double svg_y(const struct frame *f, double rate)
{
	return TOP + (f->y1 - log10(rate)) / (f->y1 - f->y0) * HEIGHT;
}

static void svg_grid(const struct frame *f, FILE *out)
{
	for (int x = (int)f->x0; x <= (int)f->x1; x++) {
		double at = svg_x(f, pow(10, x));
		fprintf(out, "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#ddd'/>\n", at, TOP, at,
				TOP + HEIGHT);
		fprintf(out, "<text x='%.1f' y='%d' text-anchor='middle'>%g</text>\n", at,
				TOP + HEIGHT + 20, pow(10, x));
	}
	for (int y = (int)f->y0; y <= (int)f->y1; y++) {
		double at = svg_y(f, pow(10, y));
		fprintf(out, "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#ddd'/>\n", LEFT, at,
				LEFT + WIDTH, at);
		fprintf(out, "<text x='%d' y='%.1f' text-anchor='end'>%g</text>\n", LEFT - 8, at + 4,
				pow(10, y - 9));
	}
}

static void svg_roofs(const struct roofline *p, const struct frame *f, FILE *out)
{
	double left = pow(10, f->x0), right = pow(10, f->x1), ridge = p->int_rate / p->read_rate;
	double low = roof_at(p, left), bottom = pow(10, f->y0);
	if (low < bottom) { /* the slope enters through the bottom */
		low = bottom;
		left = bottom / p->read_rate;
	}
	fprintf(out,
			"<polyline fill='none' stroke='#222' stroke-width='2' points='%.1f,%.1f %.1f,%.1f "
			"%.1f,%.1f'/>\n",
			svg_x(f, left), svg_y(f, low), svg_x(f, ridge), svg_y(f, p->int_rate), svg_x(f, right),
			svg_y(f, p->int_rate));
	fprintf(out, "<text x='%d' y='%.1f' text-anchor='end'>8-bit integers %.1f Gop/s</text>\n",
			LEFT + WIDTH - 4, svg_y(f, p->int_rate) - 8, p->int_rate / 1e9);
}

enum { NAME_H = 13, NAME_W = 70 };

static bool is_free(const struct roofline *p, const struct frame *f, const double *y, int i)
{
	for (int j = 0; j < i; j++)
		if (p->point[j].phase == p->point[i].phase && fabs(y[j] - y[i]) < NAME_H &&
			fabs(svg_x(f, p->point[j].intensity) - svg_x(f, p->point[i].intensity)) < NAME_W)
			return false;
	return true;
}

/* Names stand left of decode's points and right of prefill's, at the nearest free height above or below. */
static double place_name(const struct roofline *p, const struct frame *f, double *y, int i)
{
	double own = svg_y(f, p->point[i].rate) + 4;

	y[i] = own;
	for (int n = 1; !is_free(p, f, y, i); n++) {
		y[i] = own + (n % 2 ? 1 : -1) * ((n + 1) / 2) * (NAME_H + 0.5);
		if (y[i] < TOP + NAME_H) /* not above the frame */
			y[i] = own + n * (NAME_H + 0.5);
	}
	return y[i];
}

static void svg_points(const struct roofline *p, const struct frame *f, FILE *out)
{
	double name_y[BENCH_N_PHASES * EV_N_stage];
	for (int i = 0; i < p->n_points; i++) {
		const struct roofline_point *a = &p->point[i];
		bool decode = a->phase == BENCH_DECODE;
		const char *colour = decode ? "#b45309" : "#1d4ed8";
		double x = svg_x(f, a->intensity), y = svg_y(f, a->rate), name = place_name(p, f, name_y, i);
		double end = decode ? x - 12 : x + 12;

		if (fabs(name - 4 - y) > 1) /* a line leads to a name that gave way */
			fprintf(out, "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='%s' stroke-opacity='0.5'/>\n", x, y, end,
					name - 4, colour);
		else
			end = decode ? x - 7 : x + 7;
		fprintf(out,
				"<circle cx='%.1f' cy='%.1f' r='4' fill='%s'><title>%s: %.2f FLOP/byte, %.2f "
				"GFLOP/s, %.0f%% of its roof</title></circle>\n"
				"<text x='%.1f' y='%.1f' fill='%s' text-anchor='%s'>%s</text>\n",
				x, y, colour, a->name, a->intensity, a->rate / 1e9, 100 * a->share,
				end, name, colour,
				decode ? "end" : "start", a->name);
	}
}

void roofline_svg(const struct roofline *p, FILE *out)
{
	struct frame f = frame_of(p);
	fprintf(out,
			"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 800 540' "
			"font-family='sans-serif' font-size='12' fill='#222'>\n"
			"<rect width='800' height='540' fill='#fff'/>\n"
			"<text x='%d' y='22' font-size='15'>cutaway: kernel stages against the machine "
			"(reads %.1f GB/s)</text>\n"
			"<circle cx='%d' cy='36' r='4' fill='#b45309'/><text x='%d' y='40'>decode</text>\n"
			"<circle cx='%d' cy='36' r='4' fill='#1d4ed8'/><text x='%d' y='40'>prefill</text>\n",
			LEFT, p->read_rate / 1e9, LEFT + 4, LEFT + 14, LEFT + 84, LEFT + 94);
	svg_grid(&f, out);
	svg_roofs(p, &f, out);
	svg_points(p, &f, out);
	fprintf(out,
			"<text x='%d' y='%d' text-anchor='middle'>arithmetic intensity, FLOP/byte</text>\n"
			"<text transform='translate(22 %d) rotate(-90)' text-anchor='middle'>GFLOP/s"
			"</text>\n</svg>\n",
			LEFT + WIDTH / 2, TOP + HEIGHT + 44, TOP + HEIGHT / 2);
}

/* The curve of a model's bits, drawn: see curve.h. */
#include <math.h>
#include <string.h>

#include "lab/curve.h"

enum { MOST_W = 120, MOST_H = 40, AXIS = 9 };

static const char letter[] = "rgasl"; /* by method, in the order of QUANT_METHODS */

struct span {
	double least, most; /* of log10 KL */
	double left, right; /* bits */
};

static double height_of(const struct curve_point *p)
{
	return log10(fmax(prices_kl(&p->prices), 1e-6));
}

static struct span span_of(const struct curve_point *p, int n)
{
	struct span s = { INFINITY, -INFINITY, INFINITY, -INFINITY };

	for (int i = 0; i < n; i++) {
		if (!p[i].done)
			continue;
		s.least = fmin(s.least, floor(height_of(&p[i])));
		s.most = fmax(s.most, ceil(height_of(&p[i])));
		s.left = fmin(s.left, floor(p[i].bits));
		s.right = fmax(s.right, ceil(p[i].bits));
	}
	s.most += s.most <= s.least;
	s.right += s.right <= s.left;
	return s;
}

void curve_draw(const struct curve_point *p, int n, int w, int h, FILE *out)
{
	const struct span s = span_of(p, n);
	char cell[MOST_H][MOST_W + 1];

	w = w < MOST_W ? w : MOST_W;
	h = h < MOST_H ? h : MOST_H;
	for (int y = 0; y < h; y++) {
		memset(cell[y], ' ', (size_t)w);
		cell[y][w] = '\0';
	}
	for (int i = 0; i < n; i++) {
		const double x = (p[i].bits - s.left) / (s.right - s.left);
		const double y = (s.most - height_of(&p[i])) / (s.most - s.least);

		if (p[i].done)
			cell[(int)(y * (h - 1) + 0.5)][(int)(x * (w - 1) + 0.5)] =
				p[i].form.bits ? letter[p[i].method] : 'F';
	}
	for (int y = 0; y < h; y++) {
		const double decade = nearbyint(s.most - (s.most - s.least) * y / (h - 1));

		if ((int)((s.most - decade) / (s.most - s.least) * (h - 1) + 0.5) == y)
			fprintf(out, "%*.2g |%s\n", AXIS - 2, pow(10, decade), cell[y]);
		else
			fprintf(out, "%*s|%s\n", AXIS - 1, "", cell[y]);
	}
	fprintf(out, "%*s+%.*s\n%*s%-*.0f%*.0f\n", AXIS - 1, "KL", w,
		"------------------------------------------------------------"
		"------------------------------------------------------------",
		AXIS, "", w / 2, s.left, w - w / 2, s.right);
	fprintf(out,
		"%*sbits a weight; F: a file's format, r: rtn, g: gptq, a: awq, s: smoothquant, l: "
		"llm.int8\n",
		AXIS, "");
}

/* ---- SVG ---- */

enum { W = 640, H = 400, LEFT = 70, TOP = 40, BOTTOM = 50, RIGHT = 120 };

/* Okabe and Ito's colours, which colour-blind eyes tell apart. */
static const char *const colour[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00" };

static double x_at(const struct span *s, double bits)
{
	return LEFT + (bits - s->left) / (s->right - s->left) * (W - LEFT - RIGHT);
}

static double y_at(const struct span *s, double log_kl)
{
	return TOP + (s->most - log_kl) / (s->most - s->least) * (H - TOP - BOTTOM);
}

static void svg_axes(const struct span *s, FILE *out)
{
	for (double v = s->least; v <= s->most; v++)
		fprintf(out,
			"<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
			"<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
			LEFT, W - RIGHT, y_at(s, v), y_at(s, v), LEFT - 6, y_at(s, v) + 4, pow(10, v));
	for (double v = s->left; v <= s->right; v++)
		fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n", x_at(s, v),
			H - BOTTOM + 18, v);
	fprintf(out,
		"<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">bits a weight</text><text x=\"14\" "
		"y=\"%d\" transform=\"rotate(-90 14 %d)\" text-anchor=\"middle\">KL, nats a token</text>\n",
		(LEFT + W - RIGHT) / 2, H - 12, (TOP + H - BOTTOM) / 2, (TOP + H - BOTTOM) / 2);
}

/* The grids of a method as a line, in the order of the points; formats of files as squares. */
static void svg_method(
	const struct curve_point *p, int n, const struct span *s, int method, FILE *out)
{
	bool any = false;

	fprintf(
		out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour[method]);
	for (int i = 0; i < n; i++)
		if (p[i].done && p[i].form.bits && (int)p[i].method == method) {
			fprintf(out, "%.1f,%.1f ", x_at(s, p[i].bits), y_at(s, height_of(&p[i])));
			any = true;
		}
	fprintf(out, "\"/>\n");
	if (any)
		fprintf(out, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", W - RIGHT + 12,
			TOP + 20 * method + 10, colour[method], quant_method_name((enum quant_method)method));
}

static void svg_format(const struct curve_point *p, const struct span *s, FILE *out)
{
	const double x = x_at(s, p->bits), y = y_at(s, height_of(p));
	char name[32];

	fprintf(out,
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"8\" fill=\"#000\"/>"
		"<text x=\"%.1f\" y=\"%.1f\" font-size=\"10\">%s</text>\n",
		x - 4, y - 4, x + 7, y - 5, form_name(&p->form, name));
}

/* A title of strangers' letters: only what stands for itself in XML. */
static void svg_title(const char *title, FILE *out)
{
	fprintf(out, "<text x=\"%d\" y=\"22\" font-size=\"15\">", LEFT);
	for (; *title; title++)
		fputc((unsigned char)*title < 0x20 || strchr("<>&\"'", *title) ? ' ' : *title, out);
	fprintf(out, "</text>\n");
}

void curve_svg(const struct curve_point *p, int n, const char *title, FILE *out)
{
	const struct span s = span_of(p, n);

	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
		"font-family=\"sans-serif\" font-size=\"12\"><rect width=\"%d\" height=\"%d\" "
		"fill=\"#fff\"/>\n",
		W, H, W, H);
	svg_title(title, out);
	svg_axes(&s, out);
	for (int m = 0; m < (int)(ARRAY_N(colour)); m++) /* those that a curve takes */
		svg_method(p, n, &s, m, out);
	for (int i = 0; i < n; i++)
		if (p[i].done && !p[i].form.bits)
			svg_format(&p[i], &s, out);
	fprintf(out, "</svg>\n");
}

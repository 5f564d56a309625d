/* The roofline view (Williams, Waterman and Patterson 2009): how many operations a second each
 * kernel stage reaches, over how many it does for a byte, under what the machine could do.
 *
 * Points are means of the last decode steps and of the last prompt steps; a step with rows of both
 * is in neither. Times and roofs are measured, bytes and operations counted from shapes.
 * Thread: the UI's. */

#include "fold/formulas.h"
#include "tui/views/view_util.h"

enum { AXIS_W = 11, NAME_W = 5, BESIDE_W = 62, BESIDE_LEAST = 124, BELOW_LEAST = 32, N_MARKS = 8 };
#define OLD_NS 600e9 /* ten minutes */
enum phase { DECODE, PREFILL, N_PHASES };

static const struct {
	enum ev_code_stage stage;
	char mark[N_PHASES];
	const char *name;
} marks[N_MARKS] = {
	{ EV_STAGE_qkv, { 'q', 'Q' }, "qkv" },
	{ EV_STAGE_attention, { 'a', 'A' }, "attention" },
	{ EV_STAGE_scan, { 's', 'S' }, "scan" },
	{ EV_STAGE_out, { 'o', 'O' }, "out" },
	{ EV_STAGE_gate_up, { 'u', 'U' }, "gate·up" },
	{ EV_STAGE_down, { 'd', 'D' }, "down" },
	{ EV_STAGE_route, { 'r', 'R' }, "router" },
	{ EV_STAGE_head, { 'h', 'H' }, "LM head" },
};
/* Greys: they only need telling apart, and a colour would mean something else elsewhere. */
static const enum ink phase_ink[N_PHASES] = { INK_BRIGHT, INK_PART_0 };

struct point {
	double intensity, rate, roof; /* op/byte; op/s; op/s there at most, 0: not known */
};
struct chart {
	struct formula_machine machine;
	struct tl_sample sample[N_PHASES];
	struct point point[N_PHASES][N_MARKS]; /* rate 0: none */
	double x0, x1, y0, y1;                 /* decades: log10 of the edges */
	bool beaten;                           /* a point is above its roof */
	int32_t n_mixed;
};

static double peak_of(const struct timeline *t, const struct formula_machine *m, int stage)
{
	return formula_stage(t, stage).ints ? m->ints : m->floats;
}

static struct point point_of(const struct timeline *t, const struct formula_machine *m,
	const struct tl_sample *sample, int stage)
{
	const struct tl_cost *c = &sample->stage[stage];
	struct point p = { 0 };

	if (!(c->ns > 0) || !(c->bytes > 0) || !(c->ops > 0))
		return p;
	p.intensity = c->ops / c->bytes;
	p.rate = c->ops / c->ns * 1e9;
	if (m->reads > 0)
		p.roof = c->ops / formula_roofline(c->ops, c->bytes, peak_of(t, m, stage), m->reads);
	return p;
}

/* A stranger's recording may say anything of a machine; the chart ends at what none reaches. */
#define LEAST_X 1e-6
#define MOST_X 1e9
#define LEAST_Y 1.0
#define MOST_Y 1e21

/* The edges are whole and half decades around points and ridges. */
static void chart_frame(struct chart *c)
{
	const struct formula_machine *m = &c->machine;
	const double peak = fmax(m->ints, m->floats);
	double x0 = 0.5, x1 = 20, y0 = 1e10, y1 = 2e10;

	if (m->reads > 0 && peak > 0) {
		x1 = fmax(x1, 2 * formula_ridge(peak, m->reads));
		y1 = fmax(y1, peak);
	}
	for (int phase = 0; phase < N_PHASES; phase++)
		for (int i = 0; i < N_MARKS; i++) {
			const struct point *p = &c->point[phase][i];

			if (!(p->rate > 0))
				continue;
			x0 = fmin(x0, p->intensity);
			x1 = fmax(x1, p->intensity);
			y0 = fmin(y0, p->rate);
			y1 = fmax(y1, p->rate);
			c->beaten = c->beaten || (p->roof > 0 && p->rate > p->roof);
		}
	c->x0 = floor(2 * log10(fmax(x0, LEAST_X))) / 2;
	c->x1 = ceil(2 * log10(fmin(x1, MOST_X))) / 2;
	c->y0 = floor(2 * log10(fmax(y0, LEAST_Y))) / 2;
	c->y1 = ceil(2 * log10(fmin(y1, MOST_Y)) + 0.1) / 2;
}

static struct chart chart_of(const struct timeline *t)
{
	struct chart c = { .n_mixed = 0 };

	formula_machine_at(t, 0, &c.machine);
	c.sample[DECODE] = timeline_sample(t, TL_DECODE);
	c.sample[PREFILL] = timeline_sample(t, TL_PREFILL);
	for (int phase = 0; phase < N_PHASES; phase++)
		for (int i = 0; i < N_MARKS; i++)
			c.point[phase][i] = point_of(t, &c.machine, &c.sample[phase], (int)marks[i].stage);
	for (int32_t i = 0; i < t->n_steps; i++)
		c.n_mixed += timeline_phase(&t->step[i]) == TL_MIXED;
	chart_frame(&c);
	return c;
}

/* ---- the chart ---- */

static int column_of(const struct chart *c, int w, double x)
{
	const double at = fmin(fmax(log10(x), c->x0 - 1), c->x1 + 1);

	return (int)floor((at - c->x0) / (c->x1 - c->x0) * (w - 1) + 0.5);
}

static int row_of(const struct chart *c, int h, double y)
{
	const double at = fmin(fmax(log10(y), c->y0 - 1), c->y1 + 1);

	return h - 1 - (int)floor((at - c->y0) / (c->y1 - c->y0) * (h - 1) + 0.5);
}

static struct view_text decade(double power)
{
	static const char *const unit[] = { "op/s", "Kop/s", "Mop/s", "Gop/s", "Top/s", "Pop/s" };
	const int i = power < 0 ? 0 : power >= 18 ? 5 : (int)(power / 3);

	return view_form("%.0f %s", pow(10, power - 3 * i), unit[i]);
}

/* in: the inner rectangle, right of the labels and above those of the x axis. */
static void draw_axes(struct pen *p, const struct pen *in, const struct chart *c)
{
	for (double y = ceil(c->y0); y <= c->y1; y++) {
		const int row = row_of(c, in->r.h, pow(10, y));

		view_put_right(p, AXIS_W - 1, 1 + row, INK_DIM, "%s", decade(y).text);
		pen_hline(&(struct pen){ .c = in->c, .r = in->r }, 0, row, in->r.w);
	}
	for (double x = ceil(c->x0); x < c->x1; x++) {
		const int at = column_of(c, in->r.w, pow(10, x));

		if (at + (x < 1 ? 3 : (int)x + 1) + 7 < in->r.w) /* the unit stands at the end */
			view_put(p, AXIS_W + at, 1 + in->r.h, INK_DIM, x < 0 ? "%.1f" : "%.0f", pow(10, x));
	}
	view_put_right(p, p->r.w, 1 + in->r.h, INK_DIM, "op/byte");
}

/* Its name stands right of it, where no point is. */
static void draw_flat(
	struct pen *p, struct pen *in, const struct chart *c, double peak, const char *name)
{
	const int row = peak > 0 ? row_of(c, in->r.h, peak) : -1;
	const int x = peak > 0 ? column_of(c, in->r.w, formula_ridge(peak, c->machine.reads)) : 0;

	if (!(peak > 0))
		return;
	for (int i = x; i < in->r.w; i++)
		view_put(in, i, row, INK_BAR, "%s", in->c->ascii ? "=" : "━");
	view_put_right(p, p->r.w, 1 + row, INK_TEXT, "%s", name);
}

static void draw_roofs(struct pen *p, struct pen *in, const struct chart *c)
{
	const struct formula_machine *m = &c->machine;
	const double peak = fmax(m->ints, m->floats);

	if (!(m->reads > 0))
		return;
	for (int i = 0; i < in->r.w; i++) {
		const double x = pow(10, c->x0 + (c->x1 - c->x0) * i / (in->r.w - 1)), y = m->reads * x;

		if (peak <= 0 || y <= peak)
			view_put(in, i, row_of(c, in->r.h, y), INK_BAR, "%s", in->c->ascii ? "/" : "╱");
	}
	draw_flat(p, in, c, m->ints, "int8");
	draw_flat(p, in, c, m->floats, "f32");
}

/* Whole steps of the window, as dots: they move right as the batch grows. */
static void draw_trail(struct pen *in, const struct chart *c, const struct timeline *t)
{
	for (int32_t i = 0; i < t->n_steps; i++) {
		const struct ev_step *s = &t->step[i].s;
		const unsigned phase = timeline_phase(&t->step[i]);

		if (phase == TL_MIXED || s->bytes <= 0 || s->ops <= 0 || s->kernel_ns <= 0)
			continue;
		view_put(in, column_of(c, in->r.w, (double)s->ops / (double)s->bytes),
			row_of(c, in->r.h, (double)s->ops / (double)s->kernel_ns * 1e9),
			phase_ink[phase == TL_DECODE ? DECODE : PREFILL], "%s", glyph(in->c, GLYPH_MIDDOT));
	}
}

struct place {
	int x, y;
};

static bool is_taken(const struct place *taken, int n, struct place at)
{
	while (n-- > 0)
		if (taken[n].x == at.x && taken[n].y == at.y)
			return true;
	return false;
}

/* Two points in one cell stand side by side. */
static void draw_points(struct pen *in, const struct chart *c)
{
	struct place taken[N_PHASES * N_MARKS];
	int n = 0;

	in->attr = ATTR_BOLD;
	for (int phase = 0; phase < N_PHASES; phase++)
		for (int i = 0; i < N_MARKS; i++) {
			const struct point *p = &c->point[phase][i];
			struct place at;

			if (!(p->rate > 0))
				continue;
			at = (struct place){ column_of(c, in->r.w, p->intensity), row_of(c, in->r.h, p->rate) };
			while (at.x < in->r.w - 1 && is_taken(taken, n, at))
				at.x++;
			taken[n++] = at;
			view_put(in, at.x, at.y, phase_ink[phase], "%c", marks[i].mark[phase]);
		}
	in->attr = 0;
}

/* ---- legend, table, notes ---- */

static int draw_legend(struct pen *p, int y, const struct chart *c)
{
	int x = 0;

	for (int i = 0; i < N_MARKS; i++) {
		if (!(c->point[DECODE][i].rate > 0) && !(c->point[PREFILL][i].rate > 0))
			continue;
		x += view_say(p, x, y, IN_BRIGHT "%c " IN_DIM "%s", marks[i].mark[DECODE], marks[i].name) +
			 2;
	}
	if (x + 24 > p->r.w) {
		x = 0;
		y++;
	}
	x += view_put(p, x, y, phase_ink[DECODE], "abc decode") + 2;
	view_put(p, x, y, phase_ink[PREFILL], "ABC prefill");
	return y + 1;
}

static const struct column columns[] = { { NULL, -12, 0 }, { "op/byte", 8, 0 }, { "Gop/s", 8, 0 },
	{ "of roof", 8, 0 }, { "op/byte", 8, 0 }, { "Gop/s", 8, 0 }, { "of roof", 8, 0 } };

/* first: column of the phase */
static void draw_figures(const struct table *t, int first, const struct point *at)
{
	if (!(at->rate > 0))
		return;
	table_put(t, first, INK_TEXT, "%.*f", at->intensity < 9.995 ? 2 : 1, at->intensity);
	table_put(t, first + 1, INK_TEXT, "%.1f", at->rate / 1e9);
	if (at->roof > 0)
		table_put(t, first + 2, INK_BRIGHT, "%s",
			at->rate > at->roof ? "> roof" : view_percent(at->rate / at->roof).text);
}

static int draw_table(struct pen *p, int y, const struct chart *c)
{
	static const char *const name[N_PHASES] = { "decode", "prefill" };
	struct table t = TABLE(p, columns, y + 1);

	for (int phase = 0; phase < N_PHASES; phase++)
		view_put_right(p, 12 + 24 * (phase + 1), y, phase_ink[phase], "%s, %d step%s", name[phase],
			c->sample[phase].n, plural(c->sample[phase].n));
	table_heads(&t);
	for (int i = 0; i < N_MARKS; i++) {
		if (!(c->point[DECODE][i].rate > 0) && !(c->point[PREFILL][i].rate > 0))
			continue;
		t.y++;
		table_put(&t, 0, INK_TEXT, "%c %s", marks[i].mark[DECODE], marks[i].name);
		for (int phase = 0; phase < N_PHASES; phase++)
			draw_figures(&t, 1 + 3 * phase, &c->point[phase][i]);
	}
	return t.y + 2;
}

static int put_note(struct pen *p, int y, const char *text)
{
	p->ink = INK_DIM;
	return y + pen_wrap(p, 0, y, p->r.w, 3, text);
}

static int note_flat(struct pen *p, int y, const struct chart *c, double peak, const char *name)
{
	if (!(peak > 0))
		return y;
	return put_note(p, y,
		view_form("%s roof: %.4g Gop/s, from the ridge at %.3g op/byte on", name, peak / 1e9,
			formula_ridge(peak, c->machine.reads))
			.text);
}

/* Which readings the roofs are, and whether they can be believed. */
static int note_roofs(struct pen *p, int y, const struct timeline *t, const struct chart *c)
{
	const struct tl_roof *r = &t->roof;
	const double age = (double)t->last_t_ns - (double)r->t_ns;

	if (!r->n)
		return put_note(p, y,
			c->machine.reads > 0
				? "of the roofs only the bandwidth was read: /roof measure reads the others"
				: "no roof was measured: a chat does so at its start, and /roof measure");
	y = put_note(p, y,
		view_form("memory roof: %s, best of %d reading%s, least %s%s%s%s", view_rate(r->reads).text,
			r->n, plural(r->n), view_rate(r->least).text, age > OLD_NS ? ", read " : "",
			age > OLD_NS ? view_ns(age).text : "",
			c->beaten      ? ", and a step was faster: /roof measure reads it again"
			: age > OLD_NS ? " ago: /roof measure reads it again"
						   : "")
			.text);
	y = note_flat(p, y, c, c->machine.ints, "int8");
	return note_flat(p, y, c, c->machine.floats, "f32");
}

static void draw_notes(struct pen *p, int y, const struct timeline *t, const struct chart *c)
{
	y = note_roofs(p, y, t, c);
	if (c->beaten)
		y = put_note(p, y,
			"above a roof: it was read while the machine was busy, or weights stay in a cache");
	if (c->n_mixed)
		put_note(p, y,
			view_form(
				"left out: %d step%s of prompt rows and newest tokens at once, neither decode "
				"nor prefill",
				c->n_mixed, plural(c->n_mixed))
				.text);
}

static void draw_chart(struct pen *p, const struct chart *c, const struct timeline *t)
{
	struct pen in = pen_sub(p, (struct rect){ AXIS_W, 1, p->r.w - AXIS_W - NAME_W, p->r.h - 2 });

	draw_axes(p, &in, c);
	draw_roofs(p, &in, c);
	draw_trail(&in, c, t);
	draw_points(&in, c);
}

static struct view_text figure_of(const struct chart *c)
{
	const struct tl_sample *m = c->sample[DECODE].n ? &c->sample[DECODE] : &c->sample[PREFILL];

	return view_form("%.3g row%s a step · %.3g op/byte · %.4g Gop/s", m->rows, plural(m->rows),
		m->kernels.ops / m->kernels.bytes, m->kernels.ops / m->kernels.ns);
}

static void roofline_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const struct chart c = chart_of(t);
	const bool beside = p->r.w >= BESIDE_LEAST, below = !beside && p->r.h >= BELOW_LEAST;
	const int notes = p->r.h >= 16 ? 6 : 2, w = beside ? p->r.w - BESIDE_W : p->r.w;
	const int h = p->r.h - (beside ? 2 : below ? notes + 11 : notes);
	struct pen chart = pen_sub(p, (struct rect){ 0, 0, w, h }), rest;

	(void)s;
	if (!c.sample[DECODE].n && !c.sample[PREFILL].n) {
		view_empty(p, view_roofline.name,
			t->n_steps ? "no step was timed" : "nothing yet: no step was run");
		return;
	}
	draw_chart(&chart, &c, t);
	pen_head(p, view_roofline.name, figure_of(&c).text);
	rest = pen_sub(p, beside ? (struct rect){ w + 2, 2, BESIDE_W - 2, p->r.h - 2 }
							 : (struct rect){ 0, h, w, p->r.h - h });
	draw_notes(&rest,
		beside || below ? draw_table(&rest, draw_legend(&rest, 0, &c) + 1, &c)
						: draw_legend(&rest, 0, &c),
		t, &c);
}

const struct view view_roofline = {
	VIEW(ROOFLINE, roofline, "roofline", 44, 10, 18),
	.draw = roofline_draw,
};

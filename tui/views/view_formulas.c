/* The formulas view: the arithmetic of inference with this model's numbers, and beside each formula
 * what the last decode steps counted and measured.
 *
 * Keys change batch, depth, drafts and machine; what is then shown was not run: it is a prediction,
 * in its own colour, and nothing measured stands beside it. cursor[VIEW_FORMULAS] has the knobs,
 * packed (struct knobs). Thread: the UI's. */
#include "tui/views/view_util.h"

enum {
	TOP = 2,
	PAGE = 8,
	RULE_X = 28,
	RULES_LEAST = 78,
	NUMBER_W = 12,
	MOST_BATCH = 1 << 16,
	MOST_DEPTH = 1 << 20,
	MOST_DRAFTS = 64
};
enum knob { KNOB_BATCH, KNOB_DEPTH, KNOB_DRAFTS, KNOB_MACHINE, N_KNOBS };

struct knobs {
	enum knob chosen;
	int32_t batch, depth, drafts, machine; /* 0: as it is; drafts: 1 more than their number */
};

static struct knobs knobs_of(int64_t packed)
{
	return (struct knobs){ .chosen = (enum knob)(packed & 3),
		.batch = (int32_t)(packed >> 2 & 0xfffff),
		.depth = (int32_t)(packed >> 22 & 0xffffff),
		.drafts = (int32_t)(packed >> 46 & 0xff),
		.machine = (int32_t)(packed >> 54 & 0xff) };
}

static int64_t knobs_pack(const struct knobs *k)
{
	return (int64_t)k->chosen | (int64_t)k->batch << 2 | (int64_t)k->depth << 22 |
		   (int64_t)k->drafts << 46 | (int64_t)k->machine << 54;
}

static void sheet_take(
	const struct timeline *t, const struct view_state *s, struct formula_sheet *out)
{
	const struct knobs k = knobs_of(s->cursor[VIEW_FORMULAS]);

	formula_sheet(t, s->request,
		(struct formula_knobs){
			.batch = k.batch, .depth = k.depth, .drafts = k.drafts - 1, .machine = k.machine },
		out);
}

const char view_formula_letters[] =
	"P, W: weights of the model, of its products · L layers · N, K heads of queries, of keys and "
	"values · H width of a head · b bytes of an element · B sequences of S tokens · k drafts a "
	"step · rows = B·(k + 1) · act: bytes of activations a row · a request has a prompt of p "
	"tokens and an answer of T · X exchanges a step of n ranks";

struct view_text view_formula_number(enum formula_unit unit, double v)
{
	if (!isfinite(v) || v < 0 || v > 1e18)
		return view_form("–");
	switch (unit) {
	case FORMULA_HEAD: break;
	case FORMULA_BYTES: return view_bytes(v);
	case FORMULA_EXACT_BYTES: return view_form("%s B", view_count(llround(v)).text);
	case FORMULA_NS: return v >= 99950 ? view_ns(v) : view_form("%.1f us", v / 1e3);
	case FORMULA_COUNT: return view_count(llround(v));
	case FORMULA_NUMBER: return view_form("%.2f", v);
	case FORMULA_INTENSITY: return view_form(v < 9.995 ? "%.3f" : "%.1f", v);
	case FORMULA_TOKENS_S: return view_tokens_s(v);
	case FORMULA_OPS: return view_form("%.4g Gop", v / 1e9);
	}
	return (struct view_text){ "" };
}

/* ---- drawing ---- */

static int put_knob(struct pen *p, int x, bool chosen, const char *name, const char *value)
{
	const int w = view_put(p, x, 1, INK_DIM, "%s ", name);
	int end;

	end = x + w + view_put(p, x + w, 1, chosen ? INK_BRIGHT : INK_TEXT, "%s", value);
	if (chosen)
		pen_restyle(p, (struct rect){ x + w, 1, end - x - w, 1 }, ATTR_REVERSE);
	return end + 3;
}

static void draw_knobs(struct pen *p, const struct formula_sheet *f, const struct view_state *s)
{
	const struct knobs k = knobs_of(s->cursor[VIEW_FORMULAS]);
	int x = 0;

	x = put_knob(p, x, s->focused && k.chosen == KNOB_BATCH, "B", view_form("%.4g", f->batch).text);
	x = put_knob(
		p, x, s->focused && k.chosen == KNOB_DEPTH, "S", view_count(llround(f->depth)).text);
	x = put_knob(
		p, x, s->focused && k.chosen == KNOB_DRAFTS, "k", view_form("%.3g", f->drafts).text);
	x = put_knob(p, x, s->focused && k.chosen == KNOB_MACHINE, "on", f->machine.name);
	if (f->machine.reads > 0)
		view_put(p, x, 1, INK_DIM, "%s", view_rate(f->machine.reads).text);
}

static int draw_line(
	struct pen *p, int y, const struct formula_sheet *f, const struct formula_line *l, int end)
{
	if (l->unit == FORMULA_HEAD) {
		view_put(p, 0, y, INK_BRIGHT, "%s", l->label);
		view_put_right(p, end - NUMBER_W, y, f->predicted ? INK_PREDICTED : INK_DIM, "%s",
			f->predicted ? "predicted" : "formula");
		if (!f->predicted)
			view_put_right(p, end, y, INK_DIM, "seen");
		return y + 1;
	}
	view_put(p, 2, y, INK_TEXT, "%s", l->label);
	if (end >= RULES_LEAST)
		view_put(p, RULE_X, y, INK_DIM, "%s", l->rule);
	view_put_right(p, end - NUMBER_W, y, f->predicted ? INK_PREDICTED : INK_TEXT, "%s",
		view_formula_number(l->unit, l->formula).text);
	if (isfinite(l->seen))
		view_put_right(p, end, y, INK_BRIGHT, "%s", view_formula_number(l->unit, l->seen).text);
	return y + 1;
}

/* Where there is room beside the numbers, notes stand there, else below. */
static int draw_note(struct pen *p, int y, const struct formula_line *l, int end)
{
	const int beside = p->r.w - end - 2;

	if (!*l->note)
		return y;
	if (beside >= 60) {
		view_clip(p, end + 2, y - 1, beside, INK_DIM, l->note);
		return y;
	}
	p->ink = INK_DIM;
	return y + pen_wrap(p, 4, y, p->r.w - 4, 3, l->note);
}

/* From line y on; returns the line after them. */
static int draw_lines(struct pen *p, int y, const struct formula_sheet *f)
{
	const int end = at_most(p->r.w, 84);

	for (int i = 0; i < f->n; i++) {
		y = draw_line(p, y, f, &f->line[i], end);
		y = draw_note(p, y, &f->line[i], end);
	}
	return y;
}

static struct view_text figure_of(const struct formula_sheet *f)
{
	if (!f->sample.n && f->machine.id && !strcmp(f->machine.id, "this"))
		return view_form("prediction: no decode step was timed yet");
	return f->predicted
			   ? view_form("prediction: this was not run")
			   : view_form("beside the last %d decode step%s", f->sample.n, plural(f->sample.n));
}

/* As far as there are lines below. */
static void draw_scrolled(struct pen *p, const struct formula_sheet *f, int64_t *scroll)
{
	struct pen in = pen_sub(p, (struct rect){ 0, TOP, p->r.w, p->r.h - TOP });
	struct pen nowhere = pen_sub(p, (struct rect){ 0, TOP, p->r.w, 0 });
	const int rows = draw_lines(&nowhere, 0, f) + 1;
	const int most = rows > in.r.h ? rows - in.r.h : 0;
	int y;

	*scroll = within(*scroll, 0, most);
	y = draw_lines(&in, -(int)*scroll, f);
	in.ink = INK_DIM;
	pen_wrap(&in, 0, y, in.r.w, 3, view_formula_letters);
}

static void formulas_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct formula_sheet f;

	sheet_take(t, s, &f);
	if (!f.known) {
		view_empty(
			p, view_formulas.name, "nothing yet: the session does not say what its model is");
		return;
	}
	pen_head(p, view_formulas.name, figure_of(&f).text);
	draw_knobs(p, &f, s);
	draw_scrolled(p, &f, &s->scroll[VIEW_FORMULAS]);
}

/* ---- keys ---- */

/* The next power of two, up or down; from 1 to most. */
static int32_t doubled(double now, bool up, int32_t most)
{
	int32_t v = 1;

	while (v < most && (up ? v <= now : (double)v * 2 < now))
		v *= 2;
	return v;
}

static void turn(struct knobs *k, bool up, const struct timeline *t, const struct formula_sheet *f)
{
	struct formula_machine m;
	const double drafts = floor(f->drafts + 0.5) + (up ? 1 : -1);

	switch (k->chosen) {
	case KNOB_BATCH: k->batch = doubled(f->batch, up, MOST_BATCH); break;
	case KNOB_DEPTH: k->depth = doubled(f->depth, up, MOST_DEPTH); break;
	case KNOB_DRAFTS:
		k->drafts = drafts < 0 ? 1 : drafts > MOST_DRAFTS ? MOST_DRAFTS + 1 : (int32_t)drafts + 1;
		break;
	case KNOB_MACHINE:
		k->machine += up ? 1 : -1;
		if (k->machine < 0)
			while (formula_machine_at(t, k->machine + 1, &m))
				k->machine++;
		if (!formula_machine_at(t, k->machine, &m))
			k->machine = 0;
		break;
	case N_KNOBS: break;
	}
}

static bool formulas_key(int key, const struct timeline *t, struct view_state *s)
{
	struct knobs k = knobs_of(s->cursor[VIEW_FORMULAS]);
	struct formula_sheet f;

	sheet_take(t, s, &f);
	switch (key) {
	case KEY_UP_: k.chosen = (enum knob)((k.chosen + N_KNOBS - 1) % N_KNOBS); break;
	case KEY_DOWN_: k.chosen = (enum knob)((k.chosen + 1) % N_KNOBS); break;
	case KEY_LEFT_:
	case KEY_RIGHT_: turn(&k, key == KEY_RIGHT_, t, &f); break;
	case KEY_HOME_: k = (struct knobs){ .chosen = k.chosen }; break;
	case KEY_PAGE_UP: s->scroll[VIEW_FORMULAS] -= PAGE; break;
	case KEY_PAGE_DOWN: s->scroll[VIEW_FORMULAS] += PAGE; break;
	default: return false;
	}
	s->cursor[VIEW_FORMULAS] = knobs_pack(&k);
	return true;
}

const struct view view_formulas = {
	VIEW(FORMULAS, formulas, "formulas", 56, 6, 20),
	.draw = formulas_draw,
	.key = formulas_key,
	.hints = (const struct hint[]){ { "↑ ↓", "B, S, k, machine" }, { "← →", "change it" },
		{ "PgDn", "more lines" }, { "Home", "as measured" }, { NULL, NULL } },
};

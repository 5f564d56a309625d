/* The outliers view: channels of activations by their largest magnitudes, layer by layer, before
 * and after SmoothQuant. All of it is the event outliers. Thread: the UI's. */

#include "tui/views/view_util.h"

enum { INPUTS = 4, HEADS = 3 };
static const struct column columns[] = { { "layer", 5, 0 }, { "ratio", 5, 2 }, { "smooth", 7, 0 },
	{ "≥6", 4, 0 }, { "ratio", 5, 2 }, { "smooth", 7, 0 }, { "≥6", 4, 0 }, { "ratio", 5, 2 },
	{ "smooth", 7, 0 }, { "≥6", 4, 0 }, { "ratio", 5, 2 }, { "smooth", 7, 0 }, { "≥6", 4, 0 } };

static const struct {
	int stage;
	const char *label;
} inputs[INPUTS] = { { EV_STAGE_qkv, "q, k, v" }, { EV_STAGE_out, "attention out" },
	{ EV_STAGE_gate_up, "gate, up" }, { EV_STAGE_down, "down" } };

static double ratio_of(const struct tl_outliers *o)
{
	return o->median > 0 ? o->largest / o->median : (double)NAN;
}

/* The input of this stage with the greatest ratio in layers first to end - 1; NULL: none. */
static const struct tl_outliers *worst_of(
	const struct timeline *t, int32_t first, int32_t end, int stage)
{
	const struct tl_outliers *worst = NULL;

	for (int32_t i = 0; i < t->n_outliers; i++) {
		const struct tl_outliers *o = &t->outliers[i];

		if (o->layer >= first && o->layer < end && (stage < 0 || o->stage == stage) &&
			(!worst || ratio_of(o) > ratio_of(worst)))
			worst = o;
	}
	return worst;
}

static int32_t n_layers(const struct timeline *t)
{
	int32_t n = 0;

	for (int32_t i = 0; i < t->n_outliers; i++)
		n = t->outliers[i].layer >= n ? t->outliers[i].layer + 1 : n;
	return n;
}

/* first: column of the input's ratio */
static void put_input(const struct table *t, int first, const struct tl_outliers *o)
{
	const double before = ratio_of(o);

	table_put(
		t, first, before >= 20 ? INK_REJECTED : INK_BRIGHT, before < 100 ? "%.1f" : "%.0f", before);
	table_put(t, first + 1, INK_DIM, o->smoothed < 100 ? "%.1f" : "%.0f", o->smoothed);
	if (o->above_six)
		table_put(t, first + 2, INK_TEXT, "%d", (int)o->above_six);
}

static void put_layers(struct pen *p, const struct timeline *t, int rows)
{
	const int32_t n = n_layers(t), per_row = rows > 0 ? (n + rows - 1) / rows : 0;
	struct table table = TABLE(p, columns, HEADS - 1);

	for (int i = 0; i < INPUTS; i++)
		view_put(p, table_rect(&table, 1 + 3 * i).x, 1, INK_TEXT, "%s", inputs[i].label);
	table_heads(&table);
	for (int32_t first = 0; per_row && first < n; first += per_row) {
		const int32_t end = at_most(first + per_row, n);

		table.y++;
		table_put(
			&table, 0, INK_DIM, per_row == 1 ? "%d" : "%d\xe2\x80\x93%d", (int)first, (int)end - 1);
		for (int i = 0; i < INPUTS; i++) {
			const struct tl_outliers *o = worst_of(t, first, end, inputs[i].stage);

			if (o)
				put_input(&table, 1 + 3 * i, o);
		}
	}
}

/* The widest of all, with its channels. */
static void put_worst(struct pen *p, int y, const struct tl_outliers *o)
{
	int x = view_put(p, 0, y, INK_DIM, "widest: layer %d %s, of %d channels ", (int)o->layer,
		ev_code_name("stage", o->stage), (int)o->channels);

	for (int i = 0; i < o->n_top && x + 14 < p->r.w; i++)
		x += view_put(p, x, y, i ? INK_TEXT : INK_REJECTED, "%s%d: %.3g", i ? ", " : "",
			(int)o->channel[i], (double)o->size[i]);
}

static void outliers_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const struct tl_outliers *worst = worst_of(t, 0, INT32_MAX, -1);

	(void)s;
	if (!worst) {
		view_empty(p, "outliers",
			"channels far larger than the rest, by layer: `/outliers measure` runs the shipped "
			"prompts, which takes seconds");
		return;
	}
	view_head(
		p, "outliers", "largest channel over the median one \xc2\xb7 up to %.3g", ratio_of(worst));
	put_layers(p, t, p->r.h - HEADS - 1);
	put_worst(p, p->r.h - 1, worst);
}

const struct view view_outliers = {
	VIEW(OUTLIERS, outliers, "outliers", 78, 7, 24),
	.draw = outliers_draw,
};

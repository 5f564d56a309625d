/* The state view: how long the recurrent layers keep what they read, and how much they hold. All of
 * it is the event state of the newest watched row. Thread: the UI's. */

#include "tui/views/view_util.h"

enum { LAYER = 7, STRIP = TL_RANKS + 2, SUMS = 3, PAST_ROWS = 3, DOUBLINGS = 14 };
enum { AT_LAYER, AT_STRIP, AT_HALF, AT_TAPS = AT_HALF + 3, AT_LENGTH, AT_BAR };
static const struct column columns[] = { { "layer", LAYER - 2, 0 }, { "half-lives", -TL_RANKS, 2 },
	{ "fastest", 7, 2 }, { "median", 9, 0 }, { "slowest", 9, 0 }, { "taps", 7, 0 },
	{ "length", 10, 0 }, { NULL, 0, 2 } };

/* Height of a half-life: a logarithmic scale that never moves, full from 2^14 tokens on. */
static double height(double half_life)
{
	return isinf(half_life) ? 1 : fmin(fmax(log2(1 + half_life) / DOUBLINGS, 0.06), 1);
}

static struct view_text tokens(double half_life)
{
	if (isnan(half_life))
		return view_form("\xe2\x80\x93");
	if (isinf(half_life) || half_life >= 1e6)
		return view_form("all");
	return view_form(half_life < 9.95 ? "%.1f" : "%.0f", half_life);
}

static void put_strip(struct pen *p, int y, const float *half)
{
	for (int i = 0; i < TL_RANKS; i++)
		if (!isnan(half[i]))
			view_spark(p, LAYER + i, y, INK_BAR, height((double)half[i]));
}

static double longest(const struct tl_watched *w)
{
	double most = 0;

	for (int32_t l = 0; l < w->n_layers; l++)
		most = fmax(most, (double)tl_layer_state(w, l)[TL_STATE_NORM]);
	return most;
}

static void put_layer(const struct table *t, const struct tl_watched *w, int32_t layer, double most)
{
	const float *v = tl_layer_state(w, layer), *half = v + TL_STATE_HALF;
	static const int places[] = { 0, TL_RANKS / 2, TL_RANKS - 1 };
	const double norm = (double)v[TL_STATE_NORM];
	const int bar_w = table_rect(t, AT_BAR).w;

	table_put(t, AT_LAYER, INK_DIM, "%d", (int)layer);
	if (!(v[TL_STATE_HEADS] > 0) && !(v[TL_STATE_TAPS] > 0)) {
		view_put(
			t->p, LAYER, t->y, INK_DIM, "no state: it reads keys and values, or only its own row");
		return;
	}
	if (v[TL_STATE_HEADS] > 0) {
		put_strip(t->p, t->y, half);
		for (int i = 0; i < 3; i++)
			table_put(t, AT_HALF + i, i == 1 ? INK_BRIGHT : INK_TEXT, "%s",
				tokens((double)half[places[i]]).text);
	} else {
		view_put(t->p, LAYER, t->y, INK_DIM, "the last %.0f positions, no more",
			(double)v[TL_STATE_TAPS]);
	}
	table_put(t, AT_TAPS, INK_TEXT, "%.0f", (double)v[TL_STATE_TAPS]);
	table_put(t, AT_LENGTH, INK_TEXT, isnan(norm) ? "\xe2\x80\x93" : "%.3g", norm);
	if (bar_w > 3 && most > 0)
		view_bar(t->p, table_rect(t, AT_BAR).x, t->y, bar_w - 1, INK_BAR, fmax(norm, 0) / most);
}

/* ---- the last tokens ---- */

static void put_past(struct pen *p, int y, const struct tl_watched *w, int which)
{
	const float *past = tl_state_history(w);
	const int room = p->r.w - LAYER - STRIP - 12;
	const int n = at_most(w->n, room);
	double most = 0;

	for (int i = 0; i < w->n; i++)
		most = fmax(most, (double)past[2 * i]);
	for (int i = 0; i < n; i++) {
		const double v = (double)past[2 * (w->n - n + i) + which];

		if (!isnan(v))
			view_spark(p, LAYER + STRIP + i, y, INK_BAR,
				which      ? height(v)
				: most > 0 ? v / most
						   : 0);
	}
	view_put(p, 0, y, INK_DIM, which ? "median half-life" : "length of all states");
	if (w->n && n > 0 && !which)
		view_put(p, LAYER + STRIP + n + 1, y, INK_BRIGHT, "%.3g", (double)past[2 * (w->n - 1)]);
	else if (w->n && n > 0)
		view_put(p, LAYER + STRIP + n + 1, y, INK_BRIGHT, "%s",
			tokens((double)past[2 * (w->n - 1) + 1]).text);
}

static void nothing(struct pen *p, const struct timeline *t)
{
	const char *on = timeline_setting(t, "watch-layers");
	bool states = !t->n_memory;

	for (int32_t g = 0; g < t->n_memory; g++)
		states |= t->memory[g].kind == EV_MEMORY_KIND_recurrent;
	view_empty(p, "state",
		!states
			? "no state: every layer reads keys and values of the positions it sees, and forgets "
			  "none; `/model mamba2` has such a state"
		: on && !strcmp(on, "on")
			? "nothing yet: the next token tells what its layers keep"
			: "what recurrent layers keep of each token: `/watch-layers on`, then ask");
}

static void state_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const struct tl_request *r = view_request(t, s);
	const struct tl_watched *w = r ? &r->states : NULL;
	const int past = p->r.h >= 12 ? PAST_ROWS : 0, rows = p->r.h - SUMS - past;
	struct table table = TABLE(p, columns, SUMS - 1);
	int32_t first;

	if (!w || w->step == EV_NULL_I || !w->value) {
		nothing(p, t);
		return;
	}
	view_head(p, "state", "request %s, position %lld", view_label(r->id).text, (long long)w->pos);
	view_put(p, 0, 1, INK_DIM,
		"tokens until half is forgotten, by rank of heads or channels; full: %d on",
		1 << DOUBLINGS);
	table_heads(&table);
	first = table_first(&s->cursor[VIEW_STATE], w->n_layers, rows);
	for (int32_t i = 0; i < rows && first + i < w->n_layers; i++) {
		table.y++;
		put_layer(&table, w, first + i, longest(w));
	}
	for (int i = 0; past && i < 2; i++)
		put_past(p, p->r.h - 2 + i, w, i);
}

static bool state_key(int key, const struct timeline *t, struct view_state *s)
{
	const struct tl_request *r = view_request(t, s);

	return table_key(key, &s->cursor[VIEW_STATE], r ? r->states.n_layers : 0);
}

static const struct hint hints[] = { { "\xe2\x86\x91\xe2\x86\x93", "layers" }, { NULL, NULL } };

const struct view view_state = {
	VIEW(STATE, state, "state", 68, 6, 24),
	.draw = state_draw,
	.key = state_key,
	.hints = hints,
};

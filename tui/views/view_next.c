/* The view "next token": the sampling race of the candidates for one position, and the probability
 * that the cuts (top-k, top-p, min-p) removed. */

#include "tui/views/view_util.h"

enum { P_W = 4, RACE_W = 14, BAR_MIN_W = 6, NOTE_W = 14, DRAWN_W = 74 };

/* Columns, from the width of the pen. race: 0 where there is no room for it. */
struct next_columns {
	int text_w, p, bar, bar_w, logit, race;
};

static struct next_columns columns(int w, bool zoomed)
{
	struct next_columns c = { .text_w = w / 5 };

	c.text_w = within(c.text_w, 8, 24);
	c.p = c.text_w + 1;
	c.bar = c.p + P_W + 2;
	c.race = w - c.bar >= BAR_MIN_W + RACE_W + 2 ? w : 0;
	c.logit = zoomed && w >= 64 ? w - RACE_W - 2 : 0;
	c.bar_w = w - c.bar - (c.race ? RACE_W + 2 : 0) - (c.logit ? 10 : 0);
	return c;
}

static bool by_rejection(const struct timeline *t, const struct tl_token *k)
{
	return is_index(k->draft, t->n_drafts) && t->draft[k->draft].rule == EV_RULE_rejection;
}

/* The model's own distribution is another than that of the bars, once temperature or penalties
 * changed it. */
static bool is_tempered(const struct ev_request *q)
{
	return q->temperature > 0 && q->temperature != 1;
}

/* " before bias, penalties, temp 0.7", or with "after"; empty: nothing changed it. */
static struct view_text changed(const struct tl_request *r, const char *when)
{
	const struct ev_request *q = &r->params;
	const bool biased = r->n_bias > 0, penalised = view_penalised(q);

	if (!biased && !penalised && !is_tempered(q))
		return (struct view_text){ "" };
	return view_form(" %s %s%s%s%s", when, biased ? "bias" : "", biased && penalised ? ", " : "",
		penalised ? "penalties" : "",
		!is_tempered(q)
			? ""
			: view_form(biased || penalised ? ", temp %.3g" : "temp %.3g", q->temperature).text);
}

/* "12 of 49,152 allowed · ", of one that a grammar rules */
static struct view_text allowed(const struct timeline *t, const struct tl_token *k)
{
	const struct ev_stage *s = &k->stage[EV_AT_GRAMMAR];

	return k->staged && s->left > 0 ? view_form("%s of %s allowed · ", view_count(s->left).text,
										  view_count(t->n_vocab).text)
									: (struct view_text){ "" };
}

/* What of the settings decided the draw: "top-p 0.9 · race: first wins". */
static struct view_text rule_words(
	const struct timeline *t, const struct ev_request *q, const struct tl_token *k)
{
	if (k->source >= EV_SOURCE_chosen)
		return view_form(k->source == EV_SOURCE_taken      ? "taken from a search"
						 : k->source == EV_SOURCE_recorded ? "of the session before"
						 : k->source == EV_SOURCE_carried  ? "of another model's answer"
														   : "chosen by a search");
	if (q->temperature == 0)
		return view_form("greedy: the most probable wins");
	return view_form("%s%s%s%s",
		q->top_k > 0 ? view_form("top-k %" PRId64 " · ", q->top_k).text : "",
		q->top_p > 0 && q->top_p < 1 ? view_form("top-p %.3g · ", q->top_p).text : "",
		q->min_p > 0 && q->min_p < 1 ? view_form("min-p %.3g · ", q->min_p).text : "",
		by_rejection(t, k) ? "rejection sampling" : "exponential race: first wins");
}

/* "1.42 bits before temp 0.7 · top-p 0.9 · race: first wins" */
static struct view_text figure(
	const struct timeline *t, const struct tl_request *r, const struct tl_token *k)
{
	if (t->attached.on)
		return view_form(k->source == EV_SOURCE_piece
							 ? "unknown: a piece of the stream, whose tokens are not told"
							 : "as the server tells it");
	return view_form("%s%s%s", allowed(t, k).text,
		isnan(k->entropy)
			? ""
			: view_form("%.2f bits%s · ", (double)k->entropy, changed(r, "before").text).text,
		rule_words(t, &r->params, k).text);
}

static int winner(const struct tl_token *k)
{
	for (int i = 0; i < k->n_candidates; i++)
		if (k->candidate[i].id == (uint32_t)k->id)
			return i;
	return -1;
}

/* What the model itself gave a candidate that its grammar forbids, which no draw gives anything. */
static double own_p(const struct tl_token *k, const struct ev_candidate *it)
{
	const int won = winner(k);

	return won < 0 ? (double)NAN
				   : fmin(1, (double)k->p * exp((double)(it->logit - k->candidate[won].logit)));
}

static const char *cut_words(uint32_t cut)
{
	static const char *const words[] = { "", "cut by top-k", "cut by top-p", "cut by min-p",
		"not the first", "", "forbidden" };
	_Static_assert(sizeof words / sizeof *words == EV_N_cut, "a word for each code");

	return words[cut < EV_N_cut ? cut : 0];
}

/* The rule of the grammar that forbids it, where there is room. */
static void draw_rule(struct pen *p, const struct next_columns *c, int y,
	const struct ev_candidate *k, const struct tl_bound *b)
{
	char rule[RACE_W + 1] = "";
	int pass;

	if (!b || !tl_bound_rule(b->forbidden, k->id, rule, sizeof rule - 2, &pass))
		snprintf(rule, sizeof rule, "forbidden");
	view_put_right(p, c->race, y, INK_REJECTED, "%s %s", glyph(p->c, GLYPH_CROSS), rule);
}

static void draw_race(struct pen *p, const struct next_columns *c, int y,
	const struct ev_candidate *k, const struct tl_bound *b, bool won)
{
	enum ink ink = won ? INK_BRIGHT : INK_DIM;

	if (!c->race)
		return;
	if (k->cut == EV_CUT_grammar) {
		draw_rule(p, c, y, k, b);
		return;
	}
	if (k->cut != EV_CUT_kept && !won)
		view_put_right(p, c->race, y, INK_DIM, "%s", cut_words(k->cut));
	else if (!isnan(k->arrival) && fabsf(k->arrival) < 1000)
		view_put_right(p, c->race, y, ink, "%.2f", (double)k->arrival);
	if (won && k->cut == EV_CUT_unknown)
		view_put_right(p, c->race, y, INK_BRIGHT, "%s taken", glyph(p->c, GLYPH_WON));
	else if (won)
		view_put(p, c->race - RACE_W + 2, y, INK_BRIGHT, "%s won", glyph(p->c, GLYPH_WON));
}

static void draw_candidate(struct pen *p, const struct timeline *t, const struct tl_request *r,
	const struct tl_token *k, int i, int y, const struct next_columns *c)
{
	const struct ev_candidate *it = &k->candidate[i];
	bool won = it->id == (uint32_t)k->id;
	bool cut = it->cut != EV_CUT_kept && it->cut != EV_CUT_unknown && !won;
	const double share = it->cut == EV_CUT_grammar ? own_p(k, it) : (double)it->p;
	struct pen in = *p;

	in.ink = cut ? INK_DIM : won ? INK_BRIGHT : INK_TEXT;
	in.attr = won ? ATTR_BOLD : 0;
	view_put_token(&in, 0, y, c->text_w, t, it->id <= INT32_MAX ? (int32_t)it->id : -1);
	if (!isnan(share))
		view_put(p, c->p, y, cut ? INK_DIM : INK_TEXT,
			share >= 0.005 || share == 0 ? "%.2f" : "<.01", share);
	view_bar(p, c->bar, y, c->bar_w, cut ? INK_BAR_CUT : view_ink(r->id), share);
	if (c->logit && fabsf(it->logit) < 10000)
		view_put_right(p, c->logit, y, INK_DIM, "%.2f", (double)it->logit);
	draw_race(p, c, y, it, timeline_bound(t, r->id, k->pos), won);
}

static void draw_heads(
	struct pen *p, const struct next_columns *c, const struct tl_request *r, bool reported, int y)
{
	const struct view_text words = changed(r, "after");

	view_put(p, 0, y, INK_DIM, "token");
	view_put(p, c->p, y, INK_DIM,
		reported         ? "p"
		: c->bar_w >= 36 ? "p%s%s before cuts"
		: c->bar_w >= 26 ? "p%s"
						 : "p",
		words.text, *words.text ? "," : "");
	if (c->logit && !reported)
		view_put_right(p, c->logit, y, INK_DIM, "logit");
	if (c->race && !reported)
		view_put_right(p, c->race, y, INK_DIM, "arrival");
}

/* What the grammar says here, in up to two lines. Returns how many. */
static int draw_grammar(struct pen *p, const struct timeline *t, const struct tl_request *r,
	const struct tl_token *k, int y)
{
	const struct tl_bound *b = timeline_bound(t, r->id, k->pos);

	if (!b || !k->staged)
		return 0;
	view_put(p, 0, y, INK_DIM, "grammar");
	view_put(p, NOTE_W, y, INK_TEXT, "%s%s", b->stack[0] ? b->stack : "the text may end here",
		b->e.forced ? " · no choice" : "");
	view_put(p, 0, y + 1, INK_DIM, "it allows");
	view_put(p, NOTE_W, y + 1, INK_TEXT, "what the model gave %.1f %% · found in %.0f us%s",
		(double)k->stage[EV_AT_GRAMMAR].mass * 100, (double)b->e.ns / 1e3,
		b->e.known ? ", known before" : "");
	return 2;
}

/* Below the race, where there is room: the position, and what happened to the other candidates. */
static void draw_notes(struct pen *p, const struct timeline *t, const struct tl_request *r,
	const struct tl_token *k, int y)
{
	int x = NOTE_W;

	view_put(p, 0, y, INK_DIM, "where");
	view_put(p, x + view_put_label(p, x, y, r->id) + 1, y, INK_TEXT,
		"position %" PRId64 ", step %" PRId64 ": %s", k->pos, k->step, view_quote(t, k->id).text);
	y++;
	if (k->survivors >= 0) {
		view_put(p, 0, y, INK_DIM, "in the draw");
		view_put(p, x, y++, INK_TEXT, "%s of %s tokens", view_count(k->survivors).text,
			view_count(t->n_vocab).text);
	}
	if (!isnan(k->p) && !isnan(k->p_draw)) {
		view_put(p, 0, y, INK_DIM, "the drawn");
		view_put(p, x, y++, INK_TEXT,
			p->r.w < DRAWN_W ? "p %.4f of the model, %.4f in the draw"
							 : "p %.4f in the model's own distribution; %.4f in the draw",
			(double)k->p, (double)k->p_draw);
	}
	y += draw_grammar(p, t, r, k, y);
	view_put(p, 0, y, INK_DIM, "logits");
	if (t->attached.on)
		view_put(p, x, y++, INK_TEXT, "unknown: the server does not tell them");
	if (t->attached.on && t->attached.p) {
		view_put(p, 0, y, INK_DIM, "p is");
		view_put(p, x, y, INK_TEXT, "%s", t->attached.p);
	}
	if (t->attached.on)
		return;
	view_put(p, x, y, INK_TEXT, "hash %016" PRIx64, (uint64_t)k->hash);
}

static void draw_next(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct tl_token buf;
	const struct tl_request *r = view_computing(t, s);
	const struct tl_token *k = view_drawn(t, r, s, &buf);
	struct next_columns c = columns(p->r.w, s->zoomed);
	int y = 1;

	if (!k) {
		view_empty(p, "next token", "nothing drawn yet: each token of an answer is drawn here");
		return;
	}
	pen_head(p, "next token", figure(t, r, k).text);
	if (!k->n_candidates)
		y += view_nothing(p,
			k->source == EV_SOURCE_taken
				? "a branch of a search drew this token: its candidates are in the recording"
			: k->source == EV_SOURCE_recorded
				? "the session that this one continues drew this token: its recording has the "
				  "candidates"
			: k->source == EV_SOURCE_carried
				? "another model's answer, in this one's tokens: its recording has what that drew"
			: t->attached.on ? "unknown: the server tells no candidates"
							 : "the candidates of this token were not recorded");
	if (k->n_candidates && p->r.h > k->n_candidates + 2)
		draw_heads(p, &c, r, t->attached.on, y++);
	for (int i = 0, won = winner(k); i < k->n_candidates && y < p->r.h; i++, y++) {
		/* the winner is always shown: if it is below the visible rows, in the last one */
		const int shown = y == p->r.h - 1 && won > i ? won : i;

		draw_candidate(p, t, r, k, shown, y, &c);
		if (view_clicked(s, p, 0, y, p->r.w))
			s->cursor[VIEW_NEXT] = shown + 1;
		if (s->zoomed && s->focused && shown + 1 == s->cursor[VIEW_NEXT])
			view_mark_row(p, y);
	}
	if (p->r.h - y > 4)
		draw_notes(p, t, r, k, y + 1);
}

/* Zoomed, up and down choose a candidate, and Enter takes it instead of the drawn one. */
static bool key_next(int key, const struct timeline *t, struct view_state *s)
{
	struct tl_token buf;
	const struct tl_request *r = view_computing(t, s);
	const struct tl_token *k = view_drawn(t, r, s, &buf);
	int64_t *at = &s->cursor[VIEW_NEXT];

	if (!s->zoomed || !k || !k->n_candidates ||
		(key != KEY_UP_ && key != KEY_DOWN_ && (key != KEY_ENTER_ || *at < 1))) {
		*at = 0;
		return view_walk_tokens(key, t, s);
	}
	*at = at_most(*at, k->n_candidates);
	if (key != KEY_ENTER_) {
		*at += key == KEY_DOWN_ ? 1 : *at > 1 ? -1 : 0;
		*at = within(*at, 1, k->n_candidates);
		return true;
	}
	if (k->candidate[*at - 1].id <= INT32_MAX)
		s->action = (struct view_action){ .what = ACTION_TRY,
			.branch = { r->id, -1, (int32_t)k->pos },
			.token = (int32_t)k->candidate[*at - 1].id };
	*at = 0;
	return true;
}

const struct view view_next = {
	VIEW(NEXT, next, "next token", 24, 3, 6),
	.draw = draw_next,
	.key = key_next,
	.hints = (const struct hint[]){ { "← →", "token" }, { "↑ ↓", "candidate" },
		{ "Enter", "take it" }, { NULL, NULL } },
};

/* The view "why this token": each sampler stage from the logit to the drawn token, as recorded. */

#include "tui/views/view_util.h"

enum {
	N_ROWS = 10,
	ROW_W = 200,
	BARS_FROM_W = 100,
	BARS_W = 30,
	STAGE_PENALTIES = 0,
	STAGE_TEMPERATURE,
	STAGE_TOP_K,
	STAGE_TOP_P,
	STAGE_MIN_P
};

struct row {
	struct view_text label, value, words;
	enum ink ink; /* of the value */
	bool off;     /* had no effect: left out first if rows are scarce */
	double left;  /* share of the probability that is left after it, or NaN: shown as a bar */
};

static struct view_text real(double v)
{
	return isnan(v) || fabs(v) > 1e6 ? view_form("–") : view_form("%.2f", v);
}

static const struct ev_candidate *candidate_of(const struct tl_token *k, uint32_t id)
{
	for (int i = 0; i < k->n_candidates; i++)
		if (k->candidate[i].id == id)
			return &k->candidate[i];
	return NULL;
}

static struct view_text ordinal(int n)
{
	static const char *const words[] = { "first", "second", "third", "fourth", "fifth", "sixth" };

	return n >= 0 && n < (int)(sizeof words / sizeof *words) ? view_form("%s", words[n])
															 : view_form("number %d", n + 1);
}

/* The best candidate besides the drawn one. */
static const struct ev_candidate *rival_of(const struct tl_token *k)
{
	for (int i = 0; i < k->n_candidates; i++)
		if (k->candidate[i].id != (uint32_t)k->id)
			return &k->candidate[i];
	return NULL;
}

/* By logit: the ranks of the log are those after the penalties. */
static int rank_of(const struct tl_token *k, const struct ev_candidate *c)
{
	int rank = 0;

	for (int i = 0; i < k->n_candidates; i++)
		rank += k->candidate[i].logit > c->logit;
	return rank;
}

static struct view_text quote_of(const struct timeline *t, uint32_t id)
{
	return view_quote(t, id <= INT32_MAX ? (int32_t)id : -1);
}

static void row_logit(
	struct row *w, const struct timeline *t, const struct ev_request *q, const struct tl_token *k)
{
	const struct ev_candidate *own = candidate_of(k, (uint32_t)k->id), *rival = rival_of(k);
	const bool last = own == &k->candidate[TL_CANDIDATES - 1];
	struct view_text next = { "" };

	w->label = view_form("logit");
	w->value = real(own ? (double)own->logit : (double)NAN);
	if (!own)
		return;
	if (rival && fabsf(rival->logit) < 1e6f)
		next = view_form("; %s %s %.2f", ordinal(rank_of(k, rival)).text,
			quote_of(t, rival->id).text, (double)rival->logit);
	if (last && k->rank < 1)
		w->words = view_form("not among the %d best of %s%s", TL_CANDIDATES - 1,
			view_count(t->n_vocab).text, next.text);
	else
		w->words = view_form("%s of %s%s%s", ordinal(last ? k->rank - 1 : rank_of(k, own)).text,
			view_count(t->n_vocab).text, last && view_penalised(q) ? ", penalised" : "", next.text);
}

static bool is_bound(const struct tl_token *k)
{
	return k->stage[EV_AT_GRAMMAR].left > 0;
}

/* Where there is a grammar alone, the stage of the bias is there all the same. */
static bool is_biased(const struct tl_request *r, const struct tl_token *k)
{
	return k->stage[EV_AT_BIAS].left > 0 && (!is_bound(k) || r->n_bias > 0);
}

static void row_grammar(struct row *w, const struct timeline *t, const struct tl_token *k)
{
	const struct ev_stage *s = &k->stage[EV_AT_GRAMMAR];

	w->label = view_form("grammar");
	w->value = view_form(s->left == 1 ? "forced" : "allowed");
	w->words = view_form("%s of %s left, %.1f %% of the mass", view_count(s->left).text,
		view_count(t->n_vocab).text, (double)s->mass * 100);
}

static void row_bias(struct row *w, const struct tl_token *k)
{
	const struct ev_candidate *own = candidate_of(k, (uint32_t)k->id);
	const double after = (double)k->stage[EV_AT_BIAS].value;
	const double by = own ? after - (double)own->logit : 0;

	w->label = view_form("logit bias");
	w->value = real(after);
	if (isnan(by) || by == 0)
		w->words = view_form("none for it");
	else
		w->words = view_form("%+.4g: the request moves it", by);
}

static void row_penalties(struct row *w, const struct ev_request *q, const struct tl_token *k)
{
	const struct ev_candidate *own = candidate_of(k, (uint32_t)k->id);
	double after = (double)k->stage[STAGE_PENALTIES].value;
	double before = k->stage[EV_AT_BIAS].left > 0 ? (double)k->stage[EV_AT_BIAS].value
					: own                         ? (double)own->logit
												  : (double)NAN;
	double by = after - before;
	bool set = view_penalised(q);

	w->label = view_form("penalties");
	w->value = real(after);
	w->off = !set;
	if (!set || isnan(by) || by == 0)
		w->words = view_form(set ? "none applies to it" : "none apply");
	else
		w->words = view_form(
			"%+.2f: it was there within the last %" PRId64 " tokens", by, q->penalty_window);
}

static void row_temperature(struct row *w, const struct ev_request *q, const struct tl_token *k)
{
	const struct ev_candidate *own = candidate_of(k, (uint32_t)k->id);

	if (q->temperature == 0) {
		w->label = view_form("temperature 0");
		w->value = view_form("greedy");
		w->words = view_form("the highest logit is taken: no draw");
		return;
	}
	w->label = view_form("temperature %.3g", q->temperature);
	w->value = real((double)k->stage[STAGE_TEMPERATURE].value);
	w->off = q->temperature == 1;
	if (own && !isnan(own->p) && !isnan(k->p))
		w->words = view_form("probability %.*f becomes %.*f", k->p < 0.01f ? 4 : 2, (double)k->p,
			own->p < 0.01f ? 4 : 2, (double)own->p);
}

static void row_cut(
	struct row *w, const struct tl_token *k, int stage, const char *name, bool on, double setting)
{
	const struct ev_stage *st = &k->stage[stage];

	w->off = !on;
	w->label = view_form("%s%s", name,
		!on                    ? ""
		: stage == STAGE_TOP_K ? view_form(" %.0f", setting).text
							   : view_form(" %.3g", setting).text);
	if (!on) {
		w->value = view_form("off");
		w->ink = INK_DIM;
		return;
	}
	w->value = view_form("kept");
	if (isnan(st->mass))
		w->words = view_form("%s left", view_count(st->left).text);
	else
		w->words = view_form("%s left, %.1f %%%s", view_count(st->left).text,
			(double)st->mass * 100, stage == STAGE_TOP_K ? " of the mass" : " of what came in");
}

static void row_race(
	struct row *w, const struct timeline *t, const struct tl_request *r, const struct tl_token *k)
{
	const struct ev_candidate *own = candidate_of(k, (uint32_t)k->id), *second = NULL;
	struct view_text next = { "" };

	w->label = view_form("race");
	if (r->params.temperature == 0 || !own || isnan(own->arrival)) {
		w->value = view_form("none");
		w->ink = INK_DIM;
		w->off = true;
		return;
	}
	w->value = real((double)own->arrival);
	for (int i = 0; i < k->n_candidates; i++) {
		const struct ev_candidate *c = &k->candidate[i];

		if (c != own && !isnan(c->arrival) && (!second || c->arrival < second->arrival))
			second = c;
	}
	if (second && fabsf(second->arrival) < 1e6f)
		next =
			view_form("; %s came at %.2f", quote_of(t, second->id).text, (double)second->arrival);
	if (k->survivors == 1)
		w->words = view_form("alone: all others were cut%s", next.text);
	else
		w->words = view_form("first of %s%s",
			view_count(k->survivors < 0 ? EV_NULL_I : k->survivors).text, next.text);
}

/* Rank of the drafted token in the sampling race, among the known candidates; -1: cut or not
 * known. */
static int race_place(const struct tl_token *k, uint32_t id)
{
	const struct ev_candidate *own = candidate_of(k, id);
	int place = 0;

	if (!own || isnan(own->arrival))
		return -1;
	for (int i = 0; i < k->n_candidates; i++)
		place += k->candidate[i].arrival < own->arrival;
	return place;
}

static void draft_words(
	struct row *w, const struct timeline *t, const struct tl_token *k, const struct tl_draft *d)
{
	const char *who = d->drafter[0] ? d->drafter : "the drafter";
	const struct ev_candidate *c = candidate_of(k, (uint32_t)d->id);
	int place = race_place(k, (uint32_t)d->id);
	const struct view_text quote = view_quote(t, d->id);

	if (d->rule == EV_RULE_rejection && !isnan(d->arrival) && !isnan(d->winner_arrival))
		w->words = view_form("%s said %s: drew %.2f against p/q %.2f", who, quote.text,
			(double)d->arrival, (double)d->winner_arrival);
	else if (d->verdict == EV_VERDICT_accepted)
		w->words = view_form("%s said so: it won the race", who);
	else if (place > 0)
		w->words = view_form("%s said %s: %s in the race", who, quote.text, ordinal(place).text);
	else if (c && c->cut != EV_CUT_kept)
		w->words = view_form("%s said %s: cut by %s", who, quote.text, ev_code_name("cut", c->cut));
	else if (!isnan(d->p) && d->p > 0)
		w->words = view_form("%s said %s: p %.4f, it came later", who, quote.text, (double)d->p);
	else
		w->words = view_form("%s said %s: it was cut", who, quote.text);
}

static void row_draft(struct row *w, const struct timeline *t, const struct tl_token *k)
{
	const struct tl_draft *d = is_index(k->draft, t->n_drafts) ? &t->draft[k->draft] : NULL;

	w->label = view_form("draft");
	if (d) {
		bool kept = d->verdict == EV_VERDICT_accepted;

		w->value = view_form(kept ? "accepted" : "rejected");
		w->ink = kept ? INK_ACCEPTED : INK_REJECTED;
		draft_words(w, t, k, d);
	} else if (k->source == EV_SOURCE_bonus) {
		w->value = view_form("bonus");
		w->words = view_form("after a wholly accepted draft: it cost nothing more");
	} else {
		w->value = view_form("none");
		w->ink = INK_DIM;
		w->off = true;
	}
}

/* Cuts apply one after the other, so the remaining probability is the product. first: the row of
 * the penalties. */
static void add_bars(struct row *w, int first, const struct tl_token *k)
{
	double left = 1;

	for (int i = 0; i <= first + STAGE_MIN_P; i++) {
		if (i >= first + STAGE_TOP_K)
			left *= (double)k->stage[i - first].mass;
		w[i].left = left;
	}
}

static int make_rows(
	struct row *w, const struct timeline *t, const struct tl_request *r, const struct tl_token *k)
{
	const struct ev_request *q = &r->params;
	bool greedy = q->temperature == 0;
	int n = 0, first;

	for (int i = 0; i < N_ROWS; i++)
		w[i] = (struct row){ .ink = INK_BRIGHT, .left = (double)NAN };
	row_logit(&w[n++], t, q, k);
	if (k->staged && is_biased(r, k))
		row_bias(&w[n++], k);
	if (k->staged && is_bound(k))
		row_grammar(&w[n++], t, k);
	first = n;
	if (k->staged) {
		row_penalties(&w[n++], q, k);
		row_temperature(&w[n++], q, k);
		row_cut(&w[n++], k, STAGE_TOP_K, "top-k", q->top_k > 0 && !greedy, (double)q->top_k);
		row_cut(
			&w[n++], k, STAGE_TOP_P, "top-p", q->top_p > 0 && q->top_p < 1 && !greedy, q->top_p);
		row_cut(&w[n++], k, STAGE_MIN_P, "min-p", q->min_p > 0 && !greedy, q->min_p);
		if (!greedy)
			add_bars(w, first, k);
	}
	row_race(&w[n++], t, r, k);
	row_draft(&w[n++], t, k);
	return n;
}

/* Drops rows without effect in favour of the others. */
static int drop_rows(struct row *w, int n, int room)
{
	for (int i = n; i-- > 0 && n > room;)
		if (w[i].off) {
			memmove(w + i, w + i + 1, (size_t)(n - i - 1) * sizeof *w);
			n--;
		}
	return at_most(n, room);
}

static void draw_row(struct pen *p, int y, const struct row *w)
{
	int label_w = p->r.w < 60 ? 16 : 17, value_w = p->r.w < 60 ? 9 : 11;
	int bars_w = p->r.w >= BARS_FROM_W ? BARS_W + 2 : 0;

	view_clip(p, 0, y, label_w - 1, INK_DIM, w->label.text);
	view_clip(p, label_w, y, value_w - 1, w->ink, w->value.text);
	view_clip(p, label_w + value_w, y, p->r.w - label_w - value_w - bars_w,
		w->off ? INK_DIM : INK_TEXT, w->words.text);
	if (bars_w)
		view_bar(p, p->r.w - BARS_W, y, BARS_W, w->off ? INK_BAR_CUT : INK_BAR, w->left);
}

enum { AT_POS, AT_TOKEN, AT_P, AT_BITS, AT_DRAW, AT_STEP, AT_FROM, NEAR_W = 69 };
static const struct column near_columns[] = { { "position", 8, 0 }, { "token", -20, 3 },
	{ "model p", 8, 0 }, { "bits", 9, 0 }, { "in draw", 9, 0 }, { "step", 9, 0 }, { NULL, 0, 3 } };

static void draw_near_row(
	const struct table *table, const struct timeline *t, const struct tl_token *k, bool chosen)
{
	static const char *const from[] = { "", "drafted", "corrects a draft", "after a draft",
		"put there", "chosen", "of a search", "of the session before", "of the server", "a piece",
		"of another model" };
	_Static_assert(sizeof from / sizeof *from == EV_N_source, "a word for each code");
	struct pen word = table_cell(table, AT_TOKEN);

	word.ink = chosen ? INK_BRIGHT : INK_TEXT;
	table_put(table, AT_POS, INK_DIM, "%s", view_count(k->pos).text);
	view_put_token(&word, 0, 0, word.r.w, t, k->id);
	if (!isnan(k->p))
		table_put(table, AT_P, INK_TEXT, "%.3f", (double)k->p);
	if (!isnan(k->entropy))
		table_put(table, AT_BITS, INK_TEXT, "%.2f", (double)k->entropy);
	if (k->survivors >= 0)
		table_put(table, AT_DRAW, INK_TEXT, "%s", view_count(k->survivors).text);
	table_put(table, AT_STEP, INK_DIM, "%s", view_count(k->step).text);
	table_put(table, AT_FROM, k->source == EV_SOURCE_accepted ? INK_ACCEPTED : INK_DIM, "%s",
		from[k->source]);
	if (chosen)
		view_mark_row(table->p, table->y);
}

/* The tokens around it: shows where the model was certain, and where the settings left a choice. */
static void draw_near(
	struct pen *p, const struct timeline *t, const struct tl_request *r, int32_t at, int y)
{
	struct table table = TABLE(p, near_columns, y);
	const int rows = p->r.h - y - 1;
	int64_t from = at - rows / 2;

	table_heads(&table);
	for (int32_t i = table_first(&from, r->n_tokens, rows); i < r->n_tokens && i < from + rows;
		 i++) {
		table.y++;
		draw_near_row(&table, t, timeline_whole(t, &r->token[i]), i == at);
	}
}

static void draw_sampler(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const struct tl_request *r = view_computing(t, s);
	struct tl_token buf;
	const struct tl_token *k = view_drawn(t, r, s, &buf);
	struct row rows[N_ROWS];
	int n;

	if (!k) {
		view_empty(p, "why this token",
			"nothing drawn yet: each stage of the sampler tells here what it did");
		return;
	}
	view_head(p, "why this token", "request %s · position %" PRId64 " · %s", view_label(r->id).text,
		k->pos, view_quote(t, k->id).text);
	n = drop_rows(rows, make_rows(rows, t, r, k), p->r.h - 1);
	for (int i = 0; i < n; i++)
		draw_row(p, 1 + i, &rows[i]);
	if (!k->staged && n + 1 < p->r.h)
		view_put(p, 0, n + 1, INK_DIM, "%s",
			k->source == EV_SOURCE_taken || k->source == EV_SOURCE_chosen
				? "it was not drawn here: a search chose it"
			: k->source == EV_SOURCE_recorded
				? "it was not drawn here: the session that this one continues drew it"
			: k->source == EV_SOURCE_carried
				? "it was not drawn: another model's answer, in this one's tokens"
				: "the sampler's stages were not recorded");
	if (s->zoomed && p->r.h - n > 6 && p->r.w > NEAR_W)
		draw_near(p, t, r, view_token_index(r, s), n + 3);
}

static bool key_sampler(int key, const struct timeline *t, struct view_state *s)
{
	/* the table of the zoomed view goes down the page */
	if (s->zoomed && (key == KEY_UP_ || key == KEY_DOWN_))
		key = key == KEY_UP_ ? KEY_LEFT_ : KEY_RIGHT_;
	return view_walk_tokens(key, t, s);
}

const struct view view_sampler = {
	VIEW(SAMPLER, sampler, "why this token", 48, 5, 9),
	.draw = draw_sampler,
	.key = key_sampler,
};

/* The speculation view: which drafted tokens were accepted, which were not, and what was drawn
 * instead.
 *
 * A line is one verify step of the request in focus (of any request, if it never drafted), newest
 * last, as the text is read. cursor[VIEW_SPECULATION] counts how many lines of the zoomed table lie
 * below its end. Thread: the UI's. */

#include "tui/views/view_util.h"

enum { GROUPS_MAX = 128, PLACE_W = 10, LONG_HEAD = 90 };

struct group { /* the drafts that one step verified for one request */
	int32_t first, n;
};

static bool same_step(const struct tl_draft *a, const struct tl_draft *b)
{
	return a->step == b->step && a->request == b->request;
}

/* The newest groups of a request (0: of all), oldest first in out; returns how many. */
static int groups_newest(const struct timeline *t, int64_t request, int want, struct group *out)
{
	int32_t i = t->n_drafts - 1;
	int n = 0;

	while (i >= 0 && n < want) {
		int32_t last = i;

		while (i >= 0 && same_step(&t->draft[i], &t->draft[last]))
			i--;
		if (!request || t->draft[last].request == request)
			out[want - ++n] = (struct group){ i + 1, last - i };
	}
	memmove(out, out + want - n, (size_t)n * sizeof *out);
	return n;
}

/* The request whose drafts are shown: 0 for all, if the one in focus has none. */
static int64_t request_of(const struct timeline *t, const struct view_state *s)
{
	const struct tl_request *r = view_request(t, s);

	return r && r->n_drafted ? r->id : 0;
}

static const struct tl_token *bonus_of(const struct timeline *t, const struct group *g)
{
	const struct tl_draft *last = &t->draft[g->first + g->n - 1];
	const struct tl_token *k =
		timeline_branch_token(t, (struct tl_branch){ last->request, -1, 0 }, last->pos + 1);

	return k && k->step == last->step && k->source == EV_SOURCE_bonus ? k : NULL;
}

/* Settings: "ngram", "ngram:4", "off". */
static bool is_on(const struct timeline *t)
{
	const char *spec = timeline_setting(t, "spec");

	return spec && strcmp(spec, "off") != 0;
}

static int places_of(const struct tl_speculation *u)
{
	int n = TL_PLACES;

	while (n > 0 && !u->verified[n - 1])
		n--;
	return n;
}

/* The setting as one types it, a file without its folder; the first number of skip is layers. */
static struct view_text drafter_words(const struct timeline *t)
{
	const char *spec = timeline_setting(t, "spec"), *slash = spec ? strrchr(spec, '/') : NULL;

	if (!spec || !is_on(t)) /* a grammar drafts what has no choice all the same */
		return view_form(t->n_drafts && !strcmp(t->draft[t->n_drafts - 1].drafter, "grammar")
							 ? "grammar"
							 : "off");
	if (!strncmp(spec, "skip:", 5))
		return view_form("skip %d layers", atoi(spec + 5));
	return slash ? view_form("%.*s:%s", (int)strcspn(spec, ":"), spec, slash + 1)
				 : view_form("%s", spec);
}

/* "15 of 33 kept": of the places for which something was guessed. */
static struct view_text kept_of(const struct tl_speculation *u)
{
	return view_form(
		"%s of %s kept", view_count(u->n_accepted).text, view_count(u->n_verified).text);
}

static double mean_of(const struct tl_speculation *u)
{
	return (double)u->tokens / (double)u->members;
}

/* The answer in focus, and beside it all of them where there were others. */
static struct view_text figure_of(const struct timeline *t, int64_t request, bool brief)
{
	const char *rule = timeline_setting(t, "rule");
	struct tl_speculation all = timeline_speculation(t, 0), u = timeline_speculation(t, request);
	const double mean = mean_of(&u);
	const struct view_text kept = kept_of(&u),
						   name = view_form("%.47s%s", drafter_words(t).text,
							   rule && !strcmp(rule, "rejection") ? ", rejection" : "");

	if (!u.members || !is_on(t))
		return name;
	if (u.members != all.members)
		return view_form("%s · %s %s, %.2f%s a step%s, all %.2f", name.text,
			view_label(request).text, kept.text, mean, brief ? "" : " tokens",
			brief ? "" : " in this answer", mean_of(&all));
	if (brief)
		return view_form("%s · %s, %.2f a step", name.text, kept.text, mean);
	return view_form("%s · %s, %.2f tokens a step · %lld step%s · mean accepted length %.2f + 1",
		name.text, kept.text, mean, (long long)u.members, plural(u.members), mean - 1);
}

/* One word with its mark; 0 if it does not fit any more. */
static int put_marked(struct pen *p, int x, int y, enum ink mark_ink, const char *mark,
	enum ink ink, const char *word)
{
	int w =
		text_width(mark, strlen(mark), p->c->ascii) + text_width(word, strlen(word), p->c->ascii);
	int from = x;

	if (x + w > p->r.w)
		return 0;
	x += view_put(p, x, y, mark_ink, "%s", mark);
	x += view_put(p, x, y, ink, "%s", word);
	return x + 1 - from;
}

/* Whether another child of the same parent was accepted. */
static bool has_kept_sibling(
	const struct timeline *t, const struct group *g, const struct tl_draft *d)
{
	for (int32_t i = g->first; i < g->first + g->n; i++)
		if (t->draft[i].parent == d->parent && t->draft[i].verdict == EV_VERDICT_accepted)
			return true;
	return false;
}

/* What was drawn instead of several is shown after the last of them. */
static bool has_next_sibling(
	const struct timeline *t, const struct group *g, const struct tl_draft *d)
{
	return d + 1 < t->draft + g->first + g->n && d[1].parent == d->parent &&
		   d[1].verdict == d->verdict;
}

static int put_draft(struct pen *p, int x, int y, const struct timeline *t, const struct group *g,
	const struct tl_draft *d)
{
	int used, more;

	if (d->verdict == EV_VERDICT_accepted)
		return put_marked(p, x, y, INK_ACCEPTED, glyph(p->c, GLYPH_CHECK), INK_ACCEPTED,
			view_word(t, d->id).text);
	if (d->verdict == EV_VERDICT_rejected &&
		(has_kept_sibling(t, g, d) || has_next_sibling(t, g, d)))
		return put_marked(
			p, x, y, INK_REJECTED, glyph(p->c, GLYPH_CROSS), INK_DIM, view_word(t, d->id).text);
	if (d->verdict == EV_VERDICT_discarded)
		return put_marked(
			p, x, y, INK_DIM, glyph(p->c, GLYPH_DOT), INK_DIM, view_word(t, d->id).text);
	used = put_marked(
		p, x, y, INK_REJECTED, glyph(p->c, GLYPH_CROSS), INK_DIM, view_word(t, d->id).text);
	more = put_marked(p, x + used, y, INK_BRIGHT, glyph(p->c, GLYPH_ARROW), INK_TEXT,
		view_word(t, d->winner).text);
	return used && more ? used + more : 0;
}

/* Read from left to right: kept, kept, lost → drawn instead; discarded drafts come last, dim.
 * Drafts of another drafter or setting than the head's have its name at the end. */
static void draw_group(
	struct pen *p, int y, const struct timeline *t, const struct group *g, bool letter)
{
	const struct tl_token *bonus = bonus_of(t, g);
	struct pen cut = *p;
	int x = 0, used = 1;

	if (!timeline_drafter_since(t, t->draft[g->first].step)) {
		view_put_right(p, p->r.w - 1, y, INK_DIM, "before: %s", t->draft[g->first].drafter);
		cut.r.w -= 9 + (int)strlen(t->draft[g->first].drafter);
		p = &cut;
	}
	if (letter)
		x = view_put_label(p, 0, y, t->draft[g->first].request) + 1;
	for (int32_t i = 0; i < g->n && used; i++) {
		used = put_draft(p, x, y, t, g, &t->draft[g->first + i]);
		x += used;
	}
	if (bonus && used) {
		used = put_marked(p, x, y, INK_BRIGHT, "+", INK_TEXT, view_word(t, bonus->id).text);
		x += used;
	}
	if (!used)
		view_put(p, x < p->r.w ? x : p->r.w - 1, y, INK_DIM, "%s", glyph(p->c, GLYPH_ELLIPSIS));
}

static double acceptance(const struct tl_speculation *u, int i)
{
	return u->verified[i] > 0 ? (double)u->accepted[i] / (double)u->verified[i] : (double)NAN;
}

static void draw_places(struct pen *p, int y, const struct timeline *t, int64_t request)
{
	struct tl_speculation u = timeline_speculation(t, request);
	int n = places_of(&u), x = p->r.w < 44 || !n ? 0 : view_put(p, 0, y, INK_DIM, "accepted") + 2;
	int w = x + n * PLACE_W - 1 <= p->r.w ? PLACE_W : PLACE_W - 1;

	for (int i = 0; i < n && x + PLACE_W - 2 <= p->r.w; i++, x += w) {
		double share = acceptance(&u, i);

		view_put(p, x, y, INK_DIM, "%d", i + 1);
		view_spark(p, x + 2, y, INK_ACCEPTED, share);
		view_put_right(p, x + w - 1, y, INK_TEXT, "%s", view_percent(share).text);
	}
}

static void draw_small(struct pen *p, const struct timeline *t, const struct view_state *s)
{
	struct group g[GROUPS_MAX];
	int64_t request = request_of(t, s);
	bool places = p->r.h >= 4;
	int rows = p->r.h - 1 - places;
	int n = groups_newest(t, request, at_most(rows, GROUPS_MAX), g);

	for (int i = 0; i < n; i++)
		draw_group(p, 1 + i, t, &g[i], !request);
	if (places)
		draw_places(p, 1 + rows, t, request);
}

/* Zoomed: the positions as bars, and a table of drafts with the numbers that decided on them. */

static int draw_place_bars(struct pen *p, int y, const struct timeline *t, int64_t request)
{
	struct tl_speculation u = timeline_speculation(t, request);
	int n = places_of(&u), w = p->r.w > 84 ? 48 : p->r.w - 36;

	view_put(p, 0, y++, INK_DIM,
		"acceptance rate at position n, those before it accepted: %.47s, %lld step%s, %s%s",
		drafter_words(t).text, (long long)u.members, plural(u.members),
		request ? "answer " : "all requests", request ? view_label(request).text : "");
	for (int i = 0; i < n; i++, y++) {
		double share = acceptance(&u, i);

		view_put_right(p, 4, y, INK_DIM, "%d", i + 1);
		view_bar(p, 6, y, w, INK_ACCEPTED, share);
		view_put_right(p, 14 + w, y, INK_BRIGHT, "%s", view_percent(share).text);
		view_put(p, 16 + w, y, INK_DIM, "%s of %s", view_count(u.accepted[i]).text,
			view_count(u.verified[i]).text);
	}
	return y;
}

enum { LOW_H = 24 }; /* with fewer rows the table replaces texts and bars */

static void draw_zoomed(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct group g[4];
	int64_t request = request_of(t, s);
	bool low = p->r.h < LOW_H;
	int n = groups_newest(t, request, low ? 2 : 4, g), y = low ? 1 : 2, left;
	bool race = t->draft[t->n_drafts - 1].rule == EV_RULE_race;
	struct pen table;

	for (int i = 0; i < n; i++)
		draw_group(p, y++, t, &g[i], !request);
	y = view_window_draw(p, y + 1, t, request);
	y = view_spec_lanes(p, y, t, request);
	if (low)
		draw_places(p, y++, t, request);
	else
		y = draw_place_bars(p, y, t, request) + 1;
	left = p->r.h - y - (low ? 0 : 2);
	if (left < 3)
		return;
	table = pen_sub(p, (struct rect){ 0, y, p->r.w, left });
	view_spec_table(&table, t, s);
	if (!low)
		view_put(p, 0, p->r.h - 1, INK_DIM, "%s",
			race ? "kept: first in the target's own race, so the text is that of plain decoding"
				 : "kept if u < p/q, so the distribution is that of plain decoding");
}

static void spec_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const int64_t request = request_of(t, s);
	struct group newest;

	pen_head(p, view_speculation.name, figure_of(t, request, p->r.w < LONG_HEAD).text);
	if (!groups_newest(t, request, 1, &newest))
		view_nothing(p, request     ? VIEW_FAR_BACK
						: !is_on(t) ? "off: `/spec ngram` guesses tokens from the text so far"
						: !t->n_requests
							? "nothing drafted yet: nothing was asked"
							: "nothing drafted yet: the last words have not occurred before");
	else if (s->zoomed && p->r.h >= 16 && p->r.w >= 60)
		draw_zoomed(p, t, s);
	else
		draw_small(p, t, s);
}

static bool spec_key(int key, const struct timeline *t, struct view_state *s)
{
	return s->zoomed && view_scroll(key, &s->cursor[VIEW_SPECULATION], 16, t->n_drafts);
}

const struct view view_speculation = {
	VIEW_AS(SPECULATION, speculation, "spec", "speculation", 30, 2, 5),
	.draw = spec_draw,
	.key = spec_key,
};

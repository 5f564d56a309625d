/* The view "search": several answers to one question as a tree: running branches, ended ones with
 * their scores, pruned ones, the winner and why it won, and the memory that shared pages save. */

#include "tui/views/search_tree.h"

enum { TOP = 4, TEXT_MAX = 4000, COLUMN = 9, STATE_W = 21, WIDE = 100, GUTTER = 2 };

/* ---- which search, and what of it is chosen ---- */

/* scroll: bit 0: hidden rows, too; then how many searches back; then the rows of the last drawing
 * of the tree, so that keys move over visible rows. */
enum { ALL = 1, ONE_BACK = 2, BACK = 0xfe, ROWS_AT = 8 };

static int back_of(const struct view_state *v)
{
	return (int)(v->scroll[VIEW_SEARCH] & BACK) / ONE_BACK;
}

/* Pruned branches and those tried once are shown if there is room for all. */
static bool shows_all(const struct view_state *v, const struct tl_search *s)
{
	return v->scroll[VIEW_SEARCH] & ALL ||
		   s->n_nodes + s->n_members <= v->scroll[VIEW_SEARCH] >> ROWS_AT;
}

static const struct tl_search *chosen_search(const struct timeline *t, const struct view_state *v)
{
	int back = back_of(v) < t->n_searches ? back_of(v) : t->n_searches - 1;

	return t->n_searches ? &t->search[t->n_searches - 1 - back] : NULL;
}

/* cursor: 0 follows the best; a node's number + 1; less than 0: the request of a simulation that
 * runs. */
static int64_t cursor_of(const struct search_row *r)
{
	return r->m ? -r->m->request : r->k->node + 1;
}

static int chosen_row(
	const struct search_rows *g, const struct tl_search *s, const struct view_state *v)
{
	const struct tl_node *leader = search_leader(s);
	int found = 0;

	for (int i = 0; i < g->n; i++) {
		if (v->cursor[VIEW_SEARCH] && cursor_of(&g->row[i]) == v->cursor[VIEW_SEARCH])
			return i;
		if (!g->row[i].m && g->row[i].k == leader)
			found = i;
	}
	return found;
}

/* ---- above the tree ---- */

static struct view_text figure(const struct tl_search *s, const struct canvas *c)
{
	struct view_text out = view_form("%.40s", s->method ? s->method : "");
	char judge[SEARCH_JUDGE_MAX];

	if (s->judge)
		view_add(&out, " · scored by %s", view_search_judge(judge, s, c->w < WIDE ? 24 : 60));
	if (s->stopped)
		view_add(&out, " · %.40s", s->why ? s->why : "stopped");
	else if (!s->over)
		view_add(&out, " · %s %d run", glyph(c, GLYPH_PLAY), search_running(s));
	if (search_waiting(s))
		view_add(&out, " · %d wait for it", search_waiting(s));
	if (s->n_answers)
		view_add(&out, " · %s answer%s", view_count(s->n_answers).text, plural(s->n_answers));
	if (s->n_dropped)
		view_add(&out, " · %s pruned", view_count(s->n_dropped).text);
	if (s->steps)
		view_add(&out, " · %s step%s", view_count(s->steps).text, plural(s->steps));
	return out;
}

static double saved(int64_t pages, int64_t unshared)
{
	return unshared > 0 ? 1 - (double)pages / (double)unshared : 0;
}

/* Memory saved in the newest steps, if there is room. */
static void draw_shares(struct pen *p, int x, int y, const struct tl_search *s)
{
	static const char label[] = "by step ";
	int n = p->r.w - x - (int)strlen(label);

	n = at_most(n, s->n_shares);
	if (n < 12)
		return;
	x += view_put(p, x, y, INK_DIM, "%s", label);
	for (int i = 0; i < n; i++)
		view_spark(p, x + i, y, INK_BAR, s->share[s->n_shares - n + i] / 255.0);
}

static void draw_sharing(struct pen *p, int y, const struct tl_search *s)
{
	int pages = s->over ? s->most_pages : s->pages,
		unshared = s->over ? s->most_unshared : s->unshared, x;
	int bar_w = p->r.w >= WIDE ? 20 : 10;

	if (!s->steps)
		return;
	x = view_say(p, 0, y,
		IN_DIM "pages %s" IN_BRIGHT "%d" IN_DIM " of " IN_TEXT "%d" IN_DIM " if unshared ",
		s->over ? "at most " : "", pages, unshared);
	view_bar(p, x, y, bar_w, INK_BAR, unshared ? (double)pages / unshared : 0);
	x += bar_w + 1;
	x += view_say(p, x, y, IN_DIM "saved " IN_BRIGHT "%s" IN_DIM "%s",
		view_percent(saved(s->sum_pages, s->sum_unshared)).text,
		p->r.w >= WIDE ? " over all steps" : "");
	draw_shares(p, x + 3, y, s);
}

static int columns_w(const struct pen *p, const struct tl_search *s)
{
	return 3 * COLUMN + (p->r.w >= WIDE ? STATE_W : GUTTER) +
		   (search_sort(s) == SEARCH_OF_TREE && p->r.w >= WIDE ? 14 : 0);
}

static void draw_heads(struct pen *p, int y, const struct tl_search *s)
{
	static const char *const words[][3] = { [SEARCH_OF_SAMPLES] = { "tokens", "log-prob", "score" },
		[SEARCH_OF_BEAMS] = { "tokens", "log-prob", "score" },
		[SEARCH_OF_TREE] = { "visits", "value", "UCT" } };
	int x = p->r.w - (p->r.w >= WIDE ? STATE_W : GUTTER);

	view_put(p, GUTTER, y, INK_DIM, search_sort(s) == SEARCH_OF_TREE ? "sentence" : "branch");
	for (int i = 0; i < 3; i++)
		view_put_right(p, x - (2 - i) * COLUMN, y, INK_DIM, "%s", words[search_sort(s)][i]);
}

/* ---- a row ---- */

static struct view_text state_words(const struct tl_search *s, const struct search_row *r)
{
	const struct tl_node *k = r->k;

	if (r->m)
		return view_form(!r->m->ended ? "runs" : s->judge ? "waits for a score" : "waits its turn");
	if (s->winner && k == search_leader(s))
		return view_form("won");
	if (k->visits >= 0)
		return (struct view_text){ "" };
	if (k->state == TL_NODE_DROPPED)
		return view_form("%s, step %" PRId64, k->n_answers ? "ended" : "pruned", k->last);
	if (k->state == TL_NODE_ENDED)
		return view_form(k->n_answers         ? "ended"
						 : search_waits(s, k) ? "waits for a score"
											  : "stopped");
	return view_form("%s", s->over ? "" : k->n_answers ? "answered, runs on" : "runs");
}

static enum glyph state_glyph(const struct tl_search *s, const struct search_row *r)
{
	if (r->m)
		return r->m->ended ? GLYPH_PAUSE : GLYPH_PLAY;
	if (s->winner && r->k == search_leader(s))
		return GLYPH_WON;
	if (r->k->visits >= 0)
		return GLYPH_N;
	if (r->k->n_answers)
		return GLYPH_CHECK;
	if (search_waits(s, r->k))
		return GLYPH_PAUSE;
	return r->k->state == TL_NODE_DROPPED ? GLYPH_CROSS : s->over ? GLYPH_N : GLYPH_PLAY;
}

static enum ink row_ink(const struct tl_search *s, const struct search_row *r)
{
	if (r->won)
		return INK_BRIGHT;
	return r->m || (r->k->visits < 0 && r->k->state == TL_NODE_DROPPED && !r->k->n_answers) ||
				   (s->over && r->k->visits >= 0 && r->k->visits < 2)
			   ? INK_DIM
			   : INK_TEXT;
}

static void put_real(struct pen *p, int x, int y, enum ink ink, double v, int decimals)
{
	if (!isnan(v))
		view_put_right(p, x, y, ink, "%.*f", decimals, v);
}

static void draw_numbers(
	struct pen *p, int y, const struct tl_search *s, const struct search_row *r)
{
	const struct tl_node *k = r->k;
	bool wide = p->r.w >= WIDE;
	int x = p->r.w - (wide ? STATE_W : GUTTER);
	enum ink ink = row_ink(s, r);
	struct search_uct u;

	if (r->m) {
		view_put_right(p, x - 2 * COLUMN, y, INK_DIM, "%d tok", r->m->n);
	} else if (search_sort(s) == SEARCH_OF_TREE) {
		view_put_right(p, x - 2 * COLUMN, y, ink, "%d", (int)at_least(k->visits, 0));
		put_real(p, x - COLUMN, y, ink, k->score, 3);
		if (search_uct(s, k, &u))
			put_real(p, x, y, ink, u.mean + u.bonus, 2);
		if (wide && s->n_answers && k->visits > 0)
			view_bar(
				p, x - 3 * COLUMN - 12, y, 14, INK_BAR, (double)k->visits / (double)s->n_answers);
	} else {
		bool answered = k->n_answers > 0;

		view_put_right(p, x - 2 * COLUMN, y, ink, "%d", answered ? k->answer_tokens : k->tokens);
		put_real(p, x - COLUMN, y, ink, answered ? k->answer_logp : k->logp, 2);
		put_real(p, x, y, ink, search_score(s, k), 3);
	}
}

/* On the path to the best answer, tokens that are not part of it are dim. */
static void draw_text(struct pen *p, int x, int y, int w, const struct timeline *t,
	const struct tl_search *s, const struct search_row *r)
{
	char text[TEXT_MAX];
	int used;

	if (w < 1)
		return;
	if (r->m)
		search_member_text(t, r->m, r->k->tokens, text, sizeof text);
	else
		search_own_text(t, r->k, 0, r->won ? r->lead : INT32_MAX, text, sizeof text);
	if (!r->m && !r->k->tokens)
		snprintf(text, sizeof text, r->k->visits >= 0 ? "(any answer)" : "(begins)");
	else if (!r->m && !*text && search_own_tokens(r->k) > 0 &&
			 (!r->won || r->lead >= search_own_tokens(r->k)))
		snprintf(text, sizeof text, "(ends)"); /* control tokens alone */
	used = view_clip(p, x, y, w, row_ink(s, r), text + (*text == ' '));
	if (!r->won || used >= w)
		return;
	search_own_text(t, r->k, r->lead, INT32_MAX, text, sizeof text);
	view_clip(p, x + used, y, w - used, INK_DIM, text);
}

static void draw_row(struct pen *p, int y, const struct timeline *t, const struct tl_search *s,
	const struct search_row *r)
{
	int x = view_rails(p, GUTTER, y, p->r.w / 2, &r->rail), right = p->r.w - columns_w(p, s);
	enum glyph state = state_glyph(s, r);

	if (r->won)
		view_put(p, 0, y, INK_BRIGHT, "%s", glyph(p->c, GLYPH_ARROW));
	if (r->m || r->k->visits < 0)
		x += view_put_label(p, x, y, r->m ? r->m->request : r->k->request) + 1;
	draw_text(p, x, y, right - x, t, s, r);
	draw_numbers(p, y, s, r);
	if (p->r.w >= WIDE)
		view_put(p, p->r.w - STATE_W + 2, y, state == GLYPH_WON ? INK_BRIGHT : INK_DIM, "%s",
			state_words(s, r).text);
	else if (state != GLYPH_N)
		view_put(
			p, p->r.w - 1, y, state == GLYPH_WON ? INK_BRIGHT : INK_DIM, "%s", glyph(p->c, state));
}

/* ---- all of it ---- */

/* In the line of the heads, as long as there is room before them. */
static void draw_hidden(struct pen *p, const struct tl_search *s, int n)
{
	const int x = GUTTER + 10, room = p->r.w - columns_w(p, s) - x;
	const struct view_text whole = view_form("a shows %d more that were %s", n,
		search_sort(s) == SEARCH_OF_TREE ? "tried once" : "pruned");

	view_clip(p, x, TOP - 1, room, INK_DIM,
		(int)strlen(whole.text) > room ? view_form("a: %d more", n).text : whole.text);
}

static void draw_rows(
	struct pen *p, const struct timeline *t, struct view_state *v, const struct tl_search *s)
{
	int rows = p->r.h - TOP, at, first;
	bool detail = rows >= SEARCH_WHY_H + 4;
	struct search_rows g;

	rows = detail ? rows - SEARCH_WHY_H : at_least(rows, 0);
	v->scroll[VIEW_SEARCH] = (v->scroll[VIEW_SEARCH] & (ALL | BACK)) | rows << ROWS_AT;
	if (!search_rows_make(&g, s, shows_all(v, s)))
		return;
	if (g.n_hidden)
		draw_hidden(p, s, g.n_hidden);
	at = chosen_row(&g, s, v);
	first = at >= rows ? at - rows + 1 : 0;
	for (int i = first; i < g.n && i < first + rows; i++) {
		draw_row(p, TOP + i - first, t, s, &g.row[i]);
		if (i == at && v->focused)
			view_mark_row(p, TOP + i - first);
	}
	if (detail && g.n)
		view_search_why(p, TOP + rows, t, s, &g.row[at]);
	search_rows_free(&g);
}

static void search_draw(struct pen *p, const struct timeline *t, struct view_state *v)
{
	const struct tl_search *s = chosen_search(t, v);
	int x;

	if (!s) {
		view_empty(p, view_search.name,
			"the tree of the branches that an answer was chosen from: `/search beam 4`, then ask");
		return;
	}
	pen_head(p, view_search.name, figure(s, p->c).text);
	x = view_put(p, 0, 1, INK_DIM, "you ");
	pen_clip(p, x, 1, p->r.w - x, s->text ? s->text : "", -1);
	draw_sharing(p, 2, s);
	draw_heads(p, 3, s);
	draw_rows(p, t, v, s);
}

static void move(struct view_state *v, const struct tl_search *s, int by)
{
	struct search_rows g;
	int at;

	if (!search_rows_make(&g, s, shows_all(v, s)))
		return;
	at = chosen_row(&g, s, v) + by;
	at = within(at, 0, g.n - 1);
	if (g.n)
		v->cursor[VIEW_SEARCH] = cursor_of(&g.row[at]);
	search_rows_free(&g);
}

static bool search_key(int key, const struct timeline *t, struct view_state *v)
{
	const struct tl_search *s = chosen_search(t, v);
	int64_t *scroll = &v->scroll[VIEW_SEARCH];

	if (!s)
		return false;
	switch (key) {
	case KEY_UP_: move(v, s, -1); break;
	case KEY_DOWN_: move(v, s, 1); break;
	case KEY_PAGE_UP: move(v, s, -10); break;
	case KEY_PAGE_DOWN: move(v, s, 10); break;
	case KEY_END_: v->cursor[VIEW_SEARCH] = 0; break;
	case 'a': *scroll ^= ALL; break;
	case '[':
	case ']':
		if (key == '[' ? back_of(v) < t->n_searches - 1 : back_of(v) > 0)
			*scroll += key == '[' ? ONE_BACK : -ONE_BACK;
		v->cursor[VIEW_SEARCH] = 0;
		break;
	default: return false;
	}
	return true;
}

int view_search_leading(const struct timeline *t, const struct tl_search *s, char *text, size_t cap)
{
	const struct tl_node *k = search_leader(s);

	text[0] = '\0';
	if (search_sort(s) == SEARCH_OF_TREE && s->n_members && (!k || !k->tokens))
		return (int)search_member_text(t, &s->member[0], 0, text, cap);
	return k ? (int)search_whole_text(t, s, k, text, cap) : 0;
}

const struct view view_search = {
	VIEW(SEARCH, search, "search", 56, 6, 14),
	.draw = search_draw,
	.key = search_key,
	.hints = (const struct hint[]){ { "↑ ↓", "choose" }, { "a", "all" }, { "[ ]", "searches" },
		{ NULL, NULL } },
};

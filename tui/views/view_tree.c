/* The view "branches": the session as a tree. Each answer goes on from the turn before it or from
 * where it was forked; what a request dropped when it went back is a branch where it diverged. */

#include "tui/views/view_util.h"

enum {
	NODES_MAX = 1024,
	DEEPEST = 40,
	WORDS_MAX = 400,
	STATE_W = 26,
	PART_W = 30,
	FROM_W = 7,
	DETAIL_H = 9
};

struct node {
	struct tl_branch b;      /* .pos: its length */
	struct tl_branch origin; /* .request 0: it begins a conversation */
	struct view_rail rail;
};
struct tree {
	struct node *made, *node; /* as found, and in the order of the screen */
	int n_made, n;
};

static bool same(struct tl_branch a, struct tl_branch b)
{
	return a.request == b.request && a.abandoned == b.abandoned;
}

static void add(
	struct tree *g, const struct timeline *t, struct tl_branch b, struct tl_branch origin)
{
	if (g->n_made == NODES_MAX)
		return;
	if (!timeline_request(t, origin.request)) /* so long ago that it is not kept */
		origin.request = 0;
	b.pos = timeline_branch_length(t, b);
	g->made[g->n_made++] = (struct node){ .b = b, .origin = origin };
}

static void find_nodes(struct tree *g, const struct timeline *t)
{
	for (int32_t i = 0; i < t->n_requests; i++)
		if (view_is_chat(&t->request[i]) && (t->request[i].n_tokens || !t->request[i].finished))
			add(g, t, (struct tl_branch){ t->request[i].id, -1, 0 }, t->request[i].origin);
	for (int32_t i = 0; i < t->n_abandoned; i++) {
		const struct tl_request *r = timeline_request(t, t->abandoned[i].request);

		if (r && view_is_chat(r))
			add(g, t, (struct tl_branch){ r->id, i, 0 }, t->abandoned[i].origin);
	}
}

static bool hangs_on(const struct node *child, const struct node *parent)
{
	return parent ? same(child->origin, parent->b) : !child->origin.request;
}

/* Asked after all of its parent, and not from within it. */
static bool goes_on(const struct node *child, const struct node *parent)
{
	return parent && child->origin.pos >= parent->b.pos;
}

/* Depth first. The only continuation of its parent stays in its column, so that a plain
 * conversation is a plain list; what parts from within it, or beside others, is a column
 * further. */
static void order(struct tree *g, const struct node *parent, int depth)
{
	int n_on = 0;

	for (int i = 0; i < g->n_made; i++)
		n_on += hangs_on(&g->made[i], parent) && goes_on(&g->made[i], parent);
	/* those that part first, and the one that goes on below them */
	for (int i = 0; i < 2 * g->n_made; i++) {
		struct node *child = &g->made[i % g->n_made];
		bool straight = !parent || (n_on == 1 && goes_on(child, parent));

		if (!hangs_on(child, parent) || straight != (i >= g->n_made))
			continue;
		child->rail.straight = straight;
		child->rail.depth = straight ? depth : (int)at_most(depth + 1, DEEPEST);
		g->node[g->n++] = *child;
		order(g, child, child->rail.depth);
	}
}

static bool tree_make(struct tree *g, const struct timeline *t)
{
	uint64_t below = 0;

	*g = (struct tree){ .made = calloc(2 * NODES_MAX, sizeof *g->made) };
	if (!g->made)
		return false;
	g->node = g->made + NODES_MAX;
	find_nodes(g, t);
	order(g, NULL, 0);
	for (int i = g->n; i-- > 0;)
		below = view_rail(&g->node[i].rail, below);
	return true;
}

/* Pages that both block tables have at the same index: counted, not guessed. */
static int shared_pages(const struct timeline *t, const struct node *n)
{
	const struct tl_request *r = timeline_request(t, n->b.request),
							*from = timeline_request(t, n->origin.request);
	int shared = 0;

	for (int32_t i = 0; r && from && r != from && i < r->n_pages && i < from->n_pages; i++)
		shared += r->pages[i] >= 0 && r->pages[i] == from->pages[i];
	return shared;
}

static bool is_active(const struct timeline *t, const struct view_state *s, const struct node *n)
{
	const struct tl_request *r = view_active(t, s);

	return r && n->b.abandoned < 0 && n->b.request == r->id;
}

/* Pages it had from what was there before it: of the request that it was forked from, while both
 * run; else what the cache gave it when it began. */
static int64_t pages_given(const struct timeline *t, const struct node *n)
{
	const struct tl_request *r = timeline_request(t, n->b.request);
	int shared = shared_pages(t, n);

	return shared ? shared : r->looked_up && r->lookup.hit_pages > 0 ? r->lookup.hit_pages : 0;
}

/* Of each request, pages that it wrote and the cache still has: a branch from it need not compute
 * them again. malloc'd; NULL: no memory. */
static int32_t *kept_pages(const struct timeline *t)
{
	int32_t *kept = calloc((size_t)t->n_requests + 1, sizeof *kept);

	for (int32_t i = 0; kept && i < t->n_pages; i++)
		if (t->page[i].cached && timeline_request(t, t->page[i].owner))
			kept[timeline_request(t, t->page[i].owner) - t->request]++;
	return kept;
}

static struct view_text state_words(
	const struct timeline *t, const struct node *n, const int32_t *kept_by)
{
	const struct tl_request *r = timeline_request(t, n->b.request);
	const int64_t given = pages_given(t, n);
	const int kept = kept_by ? kept_by[r - t->request] : 0;

	if (n->b.abandoned >= 0)
		return view_form("left at step %" PRId64, t->abandoned[n->b.abandoned].step);
	if (r->finished && kept)
		return view_form("%s, %d page%s kept", view_requests_state(t, r).text, kept, plural(kept));
	if (r->finished)
		return view_requests_state(t, r);
	if (r->state != TL_RUNNING)
		return view_form("waits");
	return given ? view_form("runs, shares %" PRId64 " of %d", given, view_pages_held(r))
				 : view_form("runs, %d page%s", view_pages_held(r), plural(view_pages_held(r)));
}

/* Its own first words, after the position where it diverges. */
static void own_words(char *out, size_t cap, const struct timeline *t, const struct node *n)
{
	const struct tl_request *r = timeline_request(t, n->b.request);
	int32_t from =
		n->b.abandoned >= 0 || timeline_within_answer(t, r) ? n->origin.pos : r->n_prompt;
	size_t used = 0;

	out[0] = '\0';
	for (int32_t i = from; i < n->b.pos && used + 1 < cap; i++)
		used = view_add_token(t, timeline_branch_id(t, n->b, i), out, cap, used);
}

/* What it has and what the branch it left has where they part; false: it only goes on. */
static bool parts(
	const struct timeline *t, const struct node *n, int32_t *pos, int32_t *own, int32_t *other)
{
	if (!n->origin.request)
		return false;
	*pos = timeline_branch_common(t, n->b, n->origin);
	*own = timeline_branch_id(t, n->b, *pos);
	*other = timeline_branch_id(t, n->origin, *pos);
	return *own >= 0 && *other >= 0;
}

static void draw_node(struct pen *p, int y, const struct timeline *t, const struct view_state *s,
	const struct node *n, const int32_t *kept)
{
	const struct tl_request *r = timeline_request(t, n->b.request);
	char words[WORDS_MAX];
	bool wide = p->r.w >= 100, active = is_active(t, s, n),
		 asks = n->b.abandoned < 0 && !timeline_within_answer(t, r);
	int right = p->r.w - (p->r.w >= 60 ? STATE_W : 0) - (wide ? PART_W : 0), x;
	int32_t pos, own, other;

	if (active)
		view_put(p, 0, y, INK_BRIGHT, "%s", glyph(p->c, GLYPH_ARROW));
	x = view_rails(p, 2, y, p->r.w, &n->rail);
	x += view_put_label(p, x, y, r->id) + 1;
	own_words(words, sizeof words, t, n);
	if (asks && r->text)
		x += view_clip(p, x, y, (right - x) / 2, INK_DIM, r->text) + 2;
	view_clip(p, x, y, right - FROM_W - x,
		active                ? INK_BRIGHT
		: n->b.abandoned >= 0 ? INK_DIM
							  : INK_TEXT,
		words + (*words == ' '));
	view_put_right(p, right - 2, y, INK_DIM, "%d", asks ? r->n_prompt : n->origin.pos);
	if (wide && parts(t, n, &pos, &own, &other) && !asks)
		view_clip(p, right, y, PART_W - 2, INK_DIM,
			view_form("%s, not %s", view_quote(t, own).text, view_quote(t, other).text).text);
	if (p->r.w >= 60)
		view_clip(p, p->r.w - STATE_W, y, STATE_W,
			n->b.abandoned < 0 && !r->finished ? INK_TEXT : INK_DIM, state_words(t, n, kept).text);
}

static void draw_heads(struct pen *p, const struct timeline *t, int n)
{
	int right = p->r.w - (p->r.w >= 60 ? STATE_W : 0) - (p->r.w >= 100 ? PART_W : 0);

	view_head(p, "branches", "%d branch%s%s · Enter goes to one", n, n == 1 ? "" : "es",
		t->n_abandoned ? view_form(", %d left by going back", t->n_abandoned).text : "");
	view_put(p, 2, 1, INK_DIM, "branch");
	view_put_right(p, right - 2, 1, INK_DIM, "from");
	if (p->r.w >= 100)
		view_put(p, right, 1, INK_DIM, "parts with");
	if (p->r.w >= 60)
		view_put(p, p->r.w - STATE_W, 1, INK_DIM, "state, pages");
}

/* What going back cost: pages are shared whole, so what a partial one held is computed again.
 * Returns the rows. */
static int draw_given(struct pen *p, int y, const struct timeline *t, const struct node *n)
{
	const struct tl_request *r = timeline_request(t, n->b.request);
	int64_t again = r->looked_up ? r->lookup.asked - r->lookup.hit : 0;

	if (n->b.abandoned >= 0 || !n->origin.request || !r->looked_up)
		return 0;
	view_put(p, 0, y, INK_TEXT,
		"%s of its first %s tokens came in %" PRId64 " cached page%s, %" PRId64 " %s computed",
		view_count(r->lookup.hit).text, view_count(r->lookup.asked).text, r->lookup.hit_pages,
		plural(r->lookup.hit_pages), again, again == 1 ? "was" : "were");
	return 1;
}

/* About the branch under the cursor: where it parts, and its own text. */
static void draw_detail(struct pen *p, int y, const struct timeline *t, const struct node *n)
{
	char words[4 * WORDS_MAX];
	const struct tl_token *a, *b;
	int32_t pos, own, other;

	pen_hline(p, 0, y++, p->r.w);
	if (parts(t, n, &pos, &own, &other)) {
		a = timeline_branch_token(t, n->b, pos);
		b = timeline_branch_token(t, n->origin, pos);
		view_put(p, 0, y, INK_TEXT, "same as %s for %d token%s, then %s",
			view_label(n->origin.request).text, pos, plural(pos), view_quote(t, own).text);
		view_put(p, 2, y + 1, INK_DIM, "where %s has %s%s", view_label(n->origin.request).text,
			view_quote(t, other).text,
			a && b && !isnan(a->p) && !isnan(b->p)
				? view_form("  (p %.3f and %.3f)", (double)a->p, (double)b->p).text
				: "");
	} else {
		view_put(p, 0, y, INK_TEXT,
			n->origin.request ? "goes on from %s, after its %d tokens" : "begins a conversation",
			view_label(n->origin.request).text, n->origin.pos);
	}
	y += draw_given(p, y + 2, t, n);
	own_words(words, sizeof words, t, n);
	p->ink = INK_DIM;
	pen_wrap(p, 0, y + 3, p->r.w, p->r.h - y - 3, words);
}

static int cursor_of(const struct tree *g, const struct timeline *t, struct view_state *s)
{
	int64_t at = s->cursor[VIEW_TREE] - 1;

	for (int i = 0; at < 0 && i < g->n; i++)
		if (is_active(t, s, &g->node[i]))
			return i;
	return (int)within(at, 0, g->n - 1);
}

static void draw_tree(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct tree g;
	int rows = p->r.h - 2, at, first;
	bool detail;
	int32_t *kept;

	if (!tree_make(&g, t))
		return;
	kept = kept_pages(t);
	if (!g.n)
		view_empty(p, "branches",
			"nothing said yet: answers, forks and what was left by going back stand here");
	else
		draw_heads(p, t, g.n);
	detail = g.n && (rows > 16 || g.n + DETAIL_H <= rows);
	rows -= detail ? DETAIL_H : 0;
	at = cursor_of(&g, t, s);
	first = at >= rows ? at - rows + 1 : 0;
	for (int i = first; i < g.n && i < first + rows; i++) {
		draw_node(p, 2 + i - first, t, s, &g.node[i], kept);
		if (view_clicked(s, p, 0, 2 + i - first, p->r.w))
			s->cursor[VIEW_TREE] = 1 + i;
		if (i == at && s->focused)
			view_mark_row(p, 2 + i - first);
	}
	if (detail)
		draw_detail(p, 2 + rows, t, &g.node[at]);
	free(kept);
	free(g.made);
}

static bool key_tree(int key, const struct timeline *t, struct view_state *s)
{
	struct tree g;
	int64_t at;
	bool used;

	if (!tree_make(&g, t))
		return false;
	at = cursor_of(&g, t, s);
	used = table_key(key, &at, g.n);
	if (used)
		s->cursor[VIEW_TREE] = 1 + at;
	if (key == KEY_ENTER_ && g.n) {
		s->action = (struct view_action){ .what = ACTION_BRANCH, .branch = g.node[at].b };
		s->cursor[VIEW_TREE] = 0; /* follows the active one again */
	}
	free(g.made);
	return used || key == KEY_ENTER_;
}

const struct view view_tree = {
	VIEW(TREE, tree, "branches", 40, 4, 12),
	.draw = draw_tree,
	.key = key_tree,
	.hints = (const struct hint[]){ { "↑ ↓", "choose" }, { "Enter", "go there" }, { NULL, NULL } },
};

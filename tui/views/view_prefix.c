/* The prefix cache view: who begins like whom, where they part, and what the cache made of it.
 *
 * The tree is made from the tokens themselves, in whole pages, because whole pages are what can be
 * shared: a line with letters is a beginning that several requests share, the lines under it are
 * what is their own. A request that ended and that another goes on from (the last turn of a
 * conversation) is a part of that other's line. cursor[VIEW_PREFIX] is the scroll of the zoomed
 * table. Thread: the UI's. */

#include "tui/views/view_util.h"

enum {
	LEAVES_MAX = 24,
	LINES_MAX = 2 * LEAVES_MAX,
	LOOK_BACK = 128,
	REASON_X = 31,
	PAGES_W = 9,
	SYSTEM_SPECIALS = 3
};

/* Tokens of a request: prompt, then what was generated. */
static int64_t length_of(const struct tl_request *r)
{
	return (int64_t)r->n_prompt + r->n_tokens;
}

static int32_t token_at(const struct tl_request *r, int64_t pos)
{
	return pos < r->n_prompt ? r->prompt[pos] : r->token[pos - r->n_prompt].id;
}

/* Whole pages that two requests have in common, of which `from` are known. */
static int64_t common_pages(
	const struct tl_request *a, const struct tl_request *b, int64_t from, int64_t size)
{
	int64_t n = at_most(length_of(a), length_of(b)), pos = from * size;

	while (pos < n && token_at(a, pos) == token_at(b, pos))
		pos++;
	return pos / size;
}

static bool is_live(const struct tl_request *r)
{
	return r->state != TL_FINISHED;
}

/* Pages of its keys and values; the newest token has none. Of an ended request whole ones stay. */
static int64_t pages_of(const struct tl_request *r, int64_t size)
{
	int64_t n = length_of(r) - (r->n_tokens > 0);

	return (n + (is_live(r) ? size - 1 : 0)) / size;
}

/* The whole pages of an ended request are the beginning of a later one. */
static bool goes_on(const struct tl_request *r, const struct tl_request *later, int64_t size)
{
	return !is_live(r) && later->id > r->id && length_of(later) > length_of(r) &&
		   common_pages(r, later, 0, size) >= length_of(r) / size && length_of(r) >= size;
}

struct leaves {
	const struct tl_request *r[LEAVES_MAX];
	int n;
};

/* In order of arrival, without what ended before a setting emptied the cache, and what was refused
 * and never asked. */
static void leaves_add(
	struct leaves *l, const struct timeline *t, const struct tl_request *r, int most)
{
	int at;

	if (l->n == most || !length_of(r) || (!is_live(r) && (!r->looked_up || r->id <= t->cleared)))
		return;
	for (int i = 0; i < l->n; i++)
		if (l->r[i] == r || goes_on(r, l->r[i], view_page_size(t)))
			return;
	for (at = l->n++; at > 0 && l->r[at - 1]->id > r->id; at--)
		l->r[at] = l->r[at - 1];
	l->r[at] = r;
}

/* The one in focus, those at work, then those that ended last. */
static void leaves_choose(
	struct leaves *l, const struct timeline *t, const struct view_state *s, int most)
{
	const struct tl_request *focus = view_request(t, s);
	int32_t last = t->n_requests > LOOK_BACK ? t->n_requests - LOOK_BACK : 0;

	l->n = 0;
	most = at_most(most, LEAVES_MAX);
	if (focus)
		leaves_add(l, t, focus, most);
	for (int pass = 0; pass < 2; pass++)
		for (int32_t i = t->n_requests; i-- > last;)
			if (is_live(&t->request[i]) == (pass == 0))
				leaves_add(l, t, &t->request[i], most);
}

/* A line of the tree: one request, or (several) a beginning that they share. */
struct line {
	const struct tl_request *r[LEAVES_MAX];
	int n_r;
	struct view_rail rail;
	int64_t from, pages; /* first page of its own, how many */
};
struct tree {
	struct line line[LINES_MAX];
	int n;
};

static void tree_grow(struct tree *tree, const struct line *in, int64_t size);

/* Those whose next page is the same go together, in order of their first. */
static void tree_branch(
	struct tree *tree, const struct line *in, int64_t at, int depth, int64_t size)
{
	bool taken[LEAVES_MAX] = { false };

	for (int i = 0; i < in->n_r; i++) {
		struct line child = { .rail.depth = depth, .from = at };

		if (taken[i])
			continue;
		for (int k = i; k < in->n_r; k++) {
			if (taken[k] || (k > i && common_pages(in->r[i], in->r[k], at, size) <= at))
				continue;
			taken[k] = true;
			child.r[child.n_r++] = in->r[k];
		}
		tree_grow(tree, &child, size);
	}
}

static void tree_grow(struct tree *tree, const struct line *in, int64_t size)
{
	struct line *line;
	int64_t upto;

	if (tree->n == LINES_MAX || !in->n_r)
		return;
	upto = in->n_r > 1 ? INT64_MAX : pages_of(in->r[0], size);
	for (int i = 1; i < in->n_r; i++) {
		int64_t same = common_pages(in->r[0], in->r[i], in->from, size);

		upto = at_most(same, upto);
	}
	if (in->n_r > 1 && upto <= in->from) { /* nothing in common: no line of their own */
		tree_branch(tree, in, in->from, in->rail.depth, size);
		return;
	}
	line = &tree->line[tree->n++];
	*line = *in;
	line->pages = upto - in->from;
	if (in->n_r > 1)
		tree_branch(tree, line, upto, in->rail.depth + 1, size);
}

/* The most requests whose tree fits the rows. */
static void tree_make(
	struct tree *tree, const struct timeline *t, const struct view_state *s, int rows)
{
	struct leaves l;

	for (int most = rows; most > 0; most--) {
		struct line all = { .n_r = 0 };

		leaves_choose(&l, t, s, most);
		memcpy(all.r, l.r, sizeof all.r);
		all.n_r = l.n;
		tree->n = 0;
		tree_grow(tree, &all, view_page_size(t));
		if (tree->n <= rows)
			return;
	}
	tree->n = 0;
}

/* The first prompt that was looked up, or the first since a setting emptied the cache; each adapter
 * has a tree of its own. */
static bool is_first(const struct timeline *t, const struct tl_request *which)
{
	const struct tl_request *r = t->request;

	while (r->id < which->id &&
		   (!r->looked_up || r->id <= t->cleared || !tl_same_text(r->adapter, which->adapter)))
		r++;
	/* else older ones are forgotten */
	return r->id == which->id && t->request->id <= t->cleared + 1;
}

/* Nothing began like the prompt. */
static struct view_text empty_words(const struct timeline *t, const struct tl_request *r)
{
	if (!is_first(t, r))
		return view_form("no match");
	if (t->n_adapters)
		return view_form("first with %.20s", r->adapter ? r->adapter : "none");
	return view_form("cache was empty");
}

/* Why the match ended, in words. */
static struct view_text reason_words(const struct timeline *t, const struct tl_request *r)
{
	const struct ev_lookup *l = &r->lookup;

	switch (l->reason) {
	case EV_PREFIX_hit:
		return view_form("hit %s of %s", view_count(l->hit).text, view_count(l->asked).text);
	case EV_PREFIX_diverged:
		return view_form("miss at %s: %s", view_count(l->diverge_pos).text,
			l->got == EV_NULL_I ? "?" : view_quote(t, (int32_t)l->got).text);
	case EV_PREFIX_evicted: return view_form("evicted from %s on", view_count(l->hit).text);
	case EV_PREFIX_pruned: return view_form("no state after %s", view_count(l->hit).text);
	case EV_PREFIX_tail: return view_form("new from %s on", view_count(l->hit).text);
	case EV_PREFIX_empty: return empty_words(t, r);
	case EV_PREFIX_off: return view_form("cache off");
	default: return (struct view_text){ "" };
	}
}

static bool is_system(const char *text, size_t n)
{
	return n >= 7 && !memcmp(text, "system ", 7);
}

/* The first words of a shared beginning, and of what was asked if it has more than the system text;
 * without control tokens and line breaks. */
static int put_beginning(
	struct pen *p, int x, int y, int w, const struct timeline *t, const struct line *line)
{
	int64_t pos = line->from * view_page_size(t), end = pos + line->pages * view_page_size(t);
	char text[160];
	size_t n = 0;
	int dots = 0, n_special = 0;
	/* the system text has ended: its begin, its end, the begin of what follows */
	bool beyond = false;

	for (; pos < end && n < 100; pos++) {
		int32_t size, id = token_at(line->r[0], pos);
		const char *bytes = timeline_token_bytes(t, id, &size);

		if (view_is_special(t, id)) {
			if (line->from == 0 && ++n_special == SYSTEM_SPECIALS && is_system(text, n)) {
				beyond = true;
				n = 0;
			}
			continue;
		}
		for (int32_t i = 0; i < size && n + 1 < sizeof text; i++) {
			char c = bytes[i] == '\n' ? ' ' : bytes[i];

			if (c != ' ' || (n && text[n - 1] != ' '))
				text[n++] = c;
		}
	}
	if (beyond && n > 5 && !memcmp(text, "user ", 5))
		return pen_clip(p, x, y, w, text + 5, (long)n - 5);
	if (line->from == 0 && (beyond || is_system(text, n)))
		return view_put(p, x, y, INK_TEXT, "%.*s", w, "system prompt");
	if (line->from)
		dots = view_put(p, x, y, INK_DIM, "%s", glyph(p->c, GLYPH_ELLIPSIS));
	return dots + pen_clip(p, x + dots, y, w - dots, text, (long)n);
}

static int put_pages(struct pen *p, int x, int y, int64_t pages)
{
	return view_put(p, x, y, INK_DIM, "%s page%s", view_count(pages).text, plural(pages));
}

static void draw_shared(struct pen *p, int y, const struct timeline *t, const struct line *line)
{
	int x = view_rails(p, 0, y, p->r.w, &line->rail), w = p->r.w - x - PAGES_W;

	for (int i = 0; i < line->n_r; i++)
		w -= view_label_width(line->r[i]->id) + 1;

	x += put_beginning(p, x, y, within(w, 13, 24), t, line) + 1;
	x += put_pages(p, x, y, line->pages) + 1;
	for (int i = 0; i < line->n_r && x < p->r.w; i++)
		x += view_put_label(p, x, y, line->r[i]->id) + 1;
}

static void draw_leaf(struct pen *p, int y, const struct timeline *t, const struct line *line)
{
	const struct tl_request *r = line->r[0];
	int reason_x = p->r.w < 44 ? p->r.w * 5 / 9 : p->r.w * REASON_X / 50;
	int x = view_rails(p, 0, y, p->r.w, &line->rail), end = reason_x - PAGES_W - 2;
	char asks[VIEW_ASKS];

	x += view_put_label(p, x, y, r->id) + 1;
	view_clip(p, x, y, end - x - (line->pages > 99), is_live(r) ? view_ink(r->id) : INK_DIM,
		view_asks(r, asks, sizeof asks));
	view_put_right(p, end + 3, y, INK_DIM, "%lld", (long long)line->pages);
	view_put(p, end + 4, y, INK_DIM, line->pages == 1 ? "page" : "pages");
	view_clip(p, reason_x, y, p->r.w - reason_x, INK_DIM,
		r->looked_up ? reason_words(t, r).text : "waits");
}

static void draw_tree(struct pen *p, const struct timeline *t, const struct view_state *s)
{
	struct tree tree;
	uint64_t below = 0;

	tree_make(&tree, t, s, p->r.h);
	for (int i = tree.n; i-- > 0;)
		below = view_rail(&tree.line[i].rail, below);
	if (!tree.n && t->cleared)
		view_put(p, 0, 0, INK_DIM, "empty: a setting emptied the cache, and no prompt came since");
	for (int y = 0; y < tree.n; y++)
		if (tree.line[y].n_r > 1)
			draw_shared(p, y, t, &tree.line[y]);
		else
			draw_leaf(p, y, t, &tree.line[y]);
}

/* One line for small screens: the newest lookup, in words. */
static void draw_newest(struct pen *p, int y, const struct timeline *t, const struct tl_request *r)
{
	view_put(p, view_put_label(p, 0, y, r->id) + 1, y, INK_DIM, "%s", reason_words(t, r).text);
}

static void draw_rate(struct pen *p, int y, const struct timeline *t)
{
	if (!t->n_prompt_tokens)
		return;
	view_put(p, 0, y, INK_TEXT, "in this session %s of %s prompt tokens were found: %s",
		view_count(t->n_hit_tokens).text, view_count(t->n_prompt_tokens).text,
		view_percent((double)t->n_hit_tokens / (double)t->n_prompt_tokens).text);
}

/* --- pins, and the table of lookups --- */

static struct view_text kept_words(const struct timeline *t, const struct tl_pin *pin)
{
	if (pin->last == EV_PIN_asked)
		return view_form("is computed");
	if (pin->ttl_ns == EV_NULL_I)
		return view_form("until it is removed");
	return view_form(IN_TEXT "%lld s left",
		(long long)at_least(pin->t_ns + pin->ttl_ns - t->last_t_ns, 0) / 1000000000);
}

/* Declared prefixes: what each costs in pages, how long it is kept, and what it gave. */
static void draw_pin(struct pen *p, int y, const struct timeline *t, const struct tl_pin *pin)
{
	const char *dot = glyph(p->c, GLYPH_DOT);
	int x = view_put(p, 0, y, INK_TEXT, "pin ");

	x += view_put_label(p, x, y, pin->pin);
	view_say(p, x, y,
		IN_DIM " %s tokens %s " IN_TEXT "%s page%s" IN_DIM ", %s %s %s" IN_DIM
			   " %s gave %s tokens to %lld prompt%s",
		view_count(pin->tokens).text, dot, view_count(pin->pages).text, plural(pin->pages),
		view_bytes((double)pin->bytes).text, dot, kept_words(t, pin).text, dot,
		view_count(pin->given).text, (long long)pin->prompts, plural(pin->prompts));
}

static int draw_pins(struct pen *p, int y, int rows, const struct timeline *t)
{
	int n = 0, at = 0;

	for (int32_t i = 0; i < t->n_pins; i++)
		n += timeline_pin_lives(&t->pin[i]);
	n = at_most(n, rows);
	for (int32_t i = t->n_pins; p && i-- > 0 && at < n;)
		if (timeline_pin_lives(&t->pin[i]))
			draw_pin(p, y + n - ++at, t, &t->pin[i]);
	return at_least(n, 0);
}

enum { AT_REQUEST, AT_ASKED, AT_HIT, AT_PAGES, AT_PART, AT_WHY };
static const struct column wide[] = { { "request", -26, 0 }, { "prompt", 10, 0 }, { "found", 8, 0 },
	{ "pages", 8, 0 }, { "part", 8, 0 }, { "why it ended there", 0, 3 } };
static const struct column narrow[] = { { "request", -18, 0 }, { "prompt", 8, 0 },
	{ "found", 7, 0 }, { "pages", 7, 0 }, { "part", 7, 0 }, { "why it ended there", 0, 2 } };

static void put_reason(
	const struct table *table, const struct timeline *t, const struct ev_lookup *l)
{
	if (l->reason == EV_PREFIX_diverged && l->got != EV_NULL_I && l->expected != EV_NULL_I) {
		table_put(table, AT_WHY, INK_DIM, "at %s it says %s, %s said %s",
			view_count(l->diverge_pos).text, view_quote(t, (int32_t)l->got).text,
			l->nearest > 0 ? view_label(l->nearest).text : "?",
			view_quote(t, (int32_t)l->expected).text);
		return;
	}
	for (const struct ev_code *c = ev_codes; c->list; c++)
		if (!strcmp(c->list, "prefix") && c->value == l->reason)
			table_put(table, AT_WHY, INK_DIM, "%s", c->doc);
}

static void draw_lookup(
	const struct table *table, const struct timeline *t, const struct tl_request *r)
{
	const struct ev_lookup *l = &r->lookup;
	char asks[VIEW_ASKS];
	struct pen in = table_cell(table, AT_REQUEST);
	const int label_w = view_put_label(&in, 0, 0, r->id);

	view_clip(&in, label_w + 1, 0, in.r.w - label_w - 1,
		r->state != TL_FINISHED ? view_ink(r->id) : INK_DIM, view_asks(r, asks, sizeof asks));
	table_put(table, AT_ASKED, INK_TEXT, "%s", view_count(l->asked).text);
	table_put(table, AT_HIT, INK_TEXT, "%s", view_count(l->hit).text);
	table_put(table, AT_PAGES, INK_TEXT, "%s", view_count(l->hit_pages).text);
	table_put(table, AT_PART, INK_BRIGHT, "%s",
		view_percent(l->asked > 0 ? (double)l->hit / (double)l->asked : (double)NAN).text);
	put_reason(table, t, l);
}

static void draw_lookups(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct table table = TABLE(p, wide, 0);
	int rows = p->r.h - 1, n = 0, skip;

	for (int32_t i = 0; i < t->n_requests; i++)
		n += t->request[i].looked_up;
	table.column = p->r.w < 96 ? narrow : wide;
	table_heads(&table);
	skip = table_first(&s->cursor[VIEW_PREFIX], n, rows); /* counted from the end */
	table.y = at_most(n, rows);
	for (int32_t i = t->n_requests; i-- > 0 && table.y > 0;)
		if (t->request[i].looked_up && skip-- <= 0) {
			draw_lookup(&table, t, &t->request[i]);
			table.y--;
		}
}

static void draw_zoomed(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const int pins = draw_pins(NULL, 0, 8, t), half = (p->r.h - 5 - pins) / 2;
	struct pen tree = pen_sub(p, (struct rect){ 0, 2, at_most(p->r.w, 90), half });
	struct pen table =
		pen_sub(p, (struct rect){ 0, 5 + half + pins, p->r.w, p->r.h - 5 - half - pins });

	draw_tree(&tree, t, s);
	draw_pins(p, 3 + half, pins, t);
	draw_rate(p, 3 + half + pins, t);
	draw_lookups(&table, t, s);
}

/* What became of the request in focus. */
static struct view_text figure_of(const struct tl_request *r)
{
	if (r && r->looked_up)
		return view_form("hit %s of %s tokens%s", view_count(r->lookup.hit).text,
			view_count(r->lookup.asked).text,
			r->lookup.pinned > 0
				? view_form(" · %s of them pinned", view_count(r->lookup.pinned).text).text
				: "");
	return view_form(!r || r->state != TL_FINISHED ? "waits to be looked up"
					 : r->n_tokens && r->token[0].source == EV_SOURCE_taken ? "taken from a search"
					 : r->n_tokens && ev_is_earlier(r->token[0].source) ? "of the session before"
																		: "was not looked up");
}

static void prefix_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	const struct tl_request *r = view_request(t, s);

	const int pins = draw_pins(NULL, 0, (p->r.h - 1) / 3, t);
	struct pen tree = pen_sub(p, (struct rect){ 0, 1, p->r.w, p->r.h - 1 - pins });

	if (!t->n_requests) {
		view_empty(p, view_prefix.name, "nothing yet: each prompt is looked up when it arrives");
		return;
	}
	pen_head(p, view_prefix.name, figure_of(r).text);
	if (s->zoomed && p->r.h >= 14 && p->r.w >= 60)
		draw_zoomed(p, t, s);
	else if (p->r.h == 2 && r && r->looked_up)
		draw_newest(p, 1, t, r);
	else {
		draw_tree(&tree, t, s);
		draw_pins(p, p->r.h - pins, pins, t);
	}
}

static bool prefix_key(int key, const struct timeline *t, struct view_state *s)
{
	return s->zoomed && view_scroll(key, &s->cursor[VIEW_PREFIX], 8, t->n_requests);
}

const struct view view_prefix = {
	VIEW(PREFIX, prefix, "prefix cache", 24, 2, 5),
	.draw = prefix_draw,
	.key = prefix_key,
};

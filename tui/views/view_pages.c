/* The KV pages view: a map of the pool, and the history of one page.
 *
 * Each page is a pair of cells: the label of the request that wrote it, in its colour, on the heat
 * of the attention it got; beside it the number of readers, if there are several. A dim letter is a
 * page that only the prefix cache keeps, a dot a free one. The cursor is view_state.page; while it
 * is unset, the page of the token under the cursor is shown. Where not all pages fit, free ones are
 * left out, then cached ones. cursor[VIEW_PAGES] remembers what the last drawing showed, for the
 * arrow keys; scroll[VIEW_PAGES] its first row. Thread: the UI's. */

#include "tui/views/view_util.h"

enum { SIDE_W = 52, STRIP_MIN = 2, STRIP_MAX = 5, READERS_MAX = 12, TABLES_W = 48, LARGE_H = 14 };

/* The page to describe: the one under the cursor, else that of the selected token; -1: none. */
static int32_t page_in_focus(const struct timeline *t, const struct view_state *s)
{
	const struct tl_request *r = view_computing(t, s);
	const struct tl_token *k;
	int64_t block;

	if (s->page >= 0)
		return s->page < t->n_pages ? s->page : t->n_pages - 1;
	if (!r || s->token < 0 || !(k = view_token(r, s)))
		return -1;
	block = k->pos / view_page_size(t);
	return block < r->n_pages && r->pages[block] < t->n_pages ? r->pages[block] : -1;
}

static bool pages_are_states(const struct timeline *t)
{
	return t->n_memory == 1 && t->memory[0].kind == EV_MEMORY_KIND_recurrent;
}

/* What a token takes in the format of the cache, if that is not f16, and how many there is room
 * for. */
static struct view_text format_words(const struct timeline *t)
{
	const char *format = timeline_setting(t, "cache-format");
	const struct ev_memory *m = t->memory;

	if (!format || !strcmp(format, "f16") || !t->n_memory || m->page_size < 1)
		return (struct view_text){ "" };
	return view_form(" · %.8s: %s a token, %s fit", format,
		view_bytes((double)m->page_bytes / (double)m->page_size).text,
		view_count(m->pages * m->page_size).text);
}

static struct view_text figure_of(const struct timeline *t)
{
	int32_t used = 0, shared = 0, cached = 0, pinned = 0;

	for (int32_t i = 0; i < t->n_pages; i++) {
		used += t->page[i].refs > 0;
		shared += t->page[i].refs > 1;
		cached += !t->page[i].refs && !page_is_free(&t->page[i]);
		pinned += t->page[i].pinned;
	}
	/* without readers, only cached pages are left to show */
	return view_form(pages_are_states(t) ? "%s of %s%s%s%s%s%s · one every %lld tokens"
										 : "%s of %s%s%s%s%s%s · %lld tokens each",
		view_count(used).text, view_count(t->n_pages).text,
		t->n_memory > 1 ? view_form(" in %d groups", t->n_memory).text : "",
		shared || !cached ? view_form(" · %s shared", view_count(shared).text).text : "",
		cached ? view_form(" · %s cached", view_count(cached).text).text : "",
		pinned ? view_form(" · %s pinned", view_count(pinned).text).text : "", format_words(t).text,
		(long long)view_page_size(t));
}

/* The history of a page. */

static int put_readers(struct pen *p, int x, int y, const struct timeline *t, int32_t page)
{
	int from = x, n = 0;

	for (int32_t i = t->n_requests; i-- > 0 && n < READERS_MAX;) {
		const struct tl_request *r = &t->request[i];
		int32_t block = t->page[page].block;

		if (!is_index(block, r->n_pages) || r->pages[block] != page)
			continue;
		x += view_put_label(p, x, y, r->id) + 1;
		n++;
	}
	return x - from;
}

static int put_summary(struct pen *p, int y, const struct timeline *t, int32_t page)
{
	const struct tl_page *g = timeline_page(t, page);
	const char *dot = glyph(p->c, GLYPH_DOT);
	int64_t size = view_page_size(t);
	int x = view_put(p, 0, y, INK_BRIGHT, "page %d ", page);

	if (t->n_memory > 1)
		x += view_put(p, x, y, INK_DIM, "%s %s ", dot,
			ev_code_name("memory_kind", t->memory[timeline_group(t, page)].kind));
	if (page_is_free(g))
		return x + view_put(p, x, y, INK_DIM, "%s free", dot);
	if (g->block >= 0)
		x += view_put(p, x, y, INK_DIM, "%s tokens %lld-%lld ", dot, (long long)(g->block * size),
			(long long)(g->block * size + size - 1));
	if (g->refs) {
		x += view_put(p, x, y, INK_DIM, "%s read by ", dot);
		x += put_readers(p, x, y, t, page);
	}
	if (g->cached)
		x += view_put(p, x, y, INK_DIM, g->refs ? "%s cached " : "%s cached, no reader ", dot);
	if (g->pinned)
		x += view_put(p, x, y, INK_DIM, "%s pinned ", dot);
	if (g->refs && g->skipped > 0)
		x += g->skipped < 1 ? view_put(p, x, y, INK_DIM, "%s %s read ", dot,
								  view_percent(1 - (double)g->skipped).text)
							: view_put(p, x, y, INK_DIM, "%s not read ", dot);
	if (g->refs && g->heat > 0 && x + 17 <= p->r.w)
		x += view_put(p, x, y, INK_DIM, "%s attention %s", dot, view_percent((double)g->heat).text);
	return x;
}

/* The event as text; the label of the request comes before it. */
static struct view_text event_words(const struct tl_page_event *e)
{
	switch (e->action) {
	case EV_PAGE_alloc: return view_form("takes it for its block %d", e->block);
	case EV_PAGE_share:
		return view_form("reads it: same beginning, %d reader%s", e->refs, plural(e->refs));
	case EV_PAGE_copy:
		return view_form("copies page %lld into it before writing", (long long)e->other);
	case EV_PAGE_release:
		return e->refs ? view_form("lets go, %d reader%s left", e->refs, plural(e->refs))
					   : view_form("released, no reader is left");
	case EV_PAGE_unseen: return view_form("gives it back: out of sight of all its rows to come");
	case EV_PAGE_cache: return view_form("filled it: kept by the prefix cache");
	case EV_PAGE_evict:
		return e->other >= 0 ? view_form("evicted, unused for %lld step%s", (long long)e->other,
								   plural(e->other))
							 : view_form("evicted: the cache was emptied");
	case EV_PAGE_free: return view_form("free");
	case EV_PAGE_pin: return view_form("pinned, for request %lld", (long long)e->other);
	case EV_PAGE_unpin: return view_form("pinned no more");
	case EV_N_page_action: break;
	}
	return (struct view_text){ "" };
}

static void put_event(struct pen *p, int y, const struct tl_page_event *e)
{
	int w = 1;

	view_put_right(p, 9, y, INK_DIM, "step %4lld", (long long)e->step);
	if (e->request)
		w = view_put_label(p, 11, y, e->request);
	else if (e->action == EV_PAGE_evict)
		view_put(p, 11, y, INK_BRIGHT, "%s", glyph(p->c, GLYPH_MARK_EVICTED));
	view_put(p, 12 + w, y, INK_TEXT, "%s", event_words(e).text);
}

/* Newest last, as it is read. Returns the row after it. */
static int put_history(struct pen *p, int y, int rows, const struct tl_page *g)
{
	int n = at_most(g->n_history, TL_PAGE_HISTORY);

	n = at_most(n, rows);
	for (int i = n; i-- > 0;)
		put_event(p, y++, page_history(g, i));
	return y;
}

/* A token as in running text: blanks are blanks, but line breaks are visible. */
static int put_plain(struct pen *p, int x, int y, const struct timeline *t, int32_t id,
	const char *text, int32_t size)
{
	struct pen in = *p;

	in.ink = view_is_special(t, id) ? INK_DIM : INK_TEXT;
	return memchr(text, '\n', (size_t)size) ? view_put_token(p, x, y, p->r.w - x, t, id)
											: pen_text(&in, x, y, text, size);
}

/* The words that the page holds, as far as the timeline knows them. */
static int put_contents(
	struct pen *p, int y, int rows, const struct timeline *t, const struct tl_page *g)
{
	int64_t size = view_page_size(t), pos = g->block * size, end = pos + size;
	int x = 0, last = y + rows;

	for (; g->block >= 0 && pos < end && y < last; pos++) {
		int32_t id = timeline_branch_id(t, (struct tl_branch){ g->owner, -1, 0 }, (int32_t)pos);
		int32_t bytes;
		const char *text = timeline_token_bytes(t, id, &bytes);
		int w = text_width(text, (size_t)bytes, p->c->ascii);

		if (id < 0)
			break;
		if (x && x + w > p->r.w) {
			x = 0;
			y++;
		}
		if (y < last)
			x += put_plain(p, x, y, t, id, text, bytes);
	}
	return x ? y + 1 : y;
}

/* What each rank keeps of a page, where a model is on several. */
static void put_ranks(struct pen *p, int y, const struct timeline *t)
{
	int x = 0;

	for (int32_t i = 0; i < t->n_ranks && t->n_ranks > 1 && x < p->r.w; i++) {
		const struct ev_rank *has = &t->rank[i].has;
		const int64_t first = has->first_kv_head;

		x += view_say(p, x, y, IN_DIM "%srank %d: " IN_TEXT "%s%s", i ? ", " : "", i,
			has->layers < t->session.n_layers
				? view_form("layers %lld–%lld ", (long long)has->first_layer,
					  (long long)(has->first_layer + has->layers - 1))
					  .text
				: "",
			first == EV_NULL_I ? "all heads"
							   : view_form(has->kv_heads > 1 ? "heads %lld–%lld" : "head %lld",
									 (long long)first, (long long)(first + has->kv_heads - 1))
									 .text);
	}
}

static void draw_side(struct pen *p, const struct timeline *t, int32_t page)
{
	const struct tl_page *g = timeline_page(t, page);
	int y = 2;

	put_summary(p, 0, t, page);
	if (!page_is_free(g) && timeline_group(t, page) == 0)
		put_ranks(p, 1, t);
	if (g->n_history > TL_PAGE_HISTORY)
		view_put(p, 13, y++, INK_DIM, "%d event%s before these", g->n_history - TL_PAGE_HISTORY,
			plural(g->n_history - TL_PAGE_HISTORY));
	y = put_history(p, y, p->r.h - y, g);
	if (page_is_free(g) || y + 2 >= p->r.h)
		return;
	view_put(p, 0, ++y, INK_DIM, "it holds");
	put_contents(p, y + 1, at_most(p->r.h - y - 1, 12), t, g);
}

/* Allocated but unused memory, compared with contiguous allocation. */
static void draw_waste(struct pen *p, int y, const struct timeline *t)
{
	const struct tl_step *last = timeline_last_step(t);
	bool wide = p->r.w >= 84;

	if (!last || !last->s.running || !(last->s.tail_waste_bytes || last->s.reserve_waste_bytes))
		return; /* a recurrent state has a fixed size */
	view_say(p, 0, y, IN_DIM "%s " IN_TEXT "%s" IN_DIM " %s %s" IN_TEXT " %s",
		wide ? "internal fragmentation (unused room in last pages)" : "fragmentation",
		view_bytes((double)last->s.tail_waste_bytes).text, glyph(p->c, GLYPH_DOT),
		wide ? view_form("contiguous reservation (%s tokens each)", view_count(t->session.ctx).text)
				   .text
			 : "reserved",
		view_bytes((double)last->s.reserve_waste_bytes).text);
}

/* The block table of a request: its pages in the order of its text, each number on the heat of the
 * attention that the page got. Returns the row after it. */
static int put_table(
	struct pen *p, int y, const struct timeline *t, const struct tl_request *r, int32_t shown)
{
	enum { LEFT = 26, MORE = 10 };
	const int digits = snprintf(NULL, 0, "%d", t->n_pages - 1), step = digits + 1,
			  held = view_pages_held(r);
	int x = LEFT;

	view_put(p, view_put_label(p, 0, y, r->id) + 1, y, INK_DIM, "%d page%s, %lld token%s", held,
		plural(held), (long long)r->computed, plural(r->computed));
	for (int32_t b = 0; b < r->n_pages; b++) {
		struct pen in = *p;
		int32_t page = r->pages[b];

		if (!is_index(page, t->n_pages))
			continue;
		if (x + digits > p->r.w) {
			x = LEFT;
			y++;
		}
		if (y == p->r.h - 1 && x + step + digits > p->r.w - MORE &&
			x + (r->n_pages - b) * step - 1 > p->r.w) {
			view_put(p, x, y, INK_DIM, "+%d more", r->n_pages - b);
			break;
		}
		in.ink = t->page[page].refs > 1 ? INK_BRIGHT : INK_TEXT;
		in.paper = (uint8_t)view_heat_ink((double)t->page[page].heat);
		in.attr = page == shown ? ATTR_REVERSE : 0;
		pen_printf(&in, x, y, "%*d", digits, page);
		x += step;
	}
	return y + 1;
}

/* In the rows below the map: block tables of the newest requests that hold pages. */
static void draw_tables(struct pen *p, const struct timeline *t, int32_t shown)
{
	int y = 1, left = 0;

	if (p->r.h < 2 || p->r.w < TABLES_W)
		return;
	for (int32_t i = t->n_requests; i-- > 0;)
		if (t->request[i].n_pages && y < p->r.h)
			y = put_table(p, y, t, &t->request[i], shown);
		else
			left += t->request[i].n_pages > 0;
	if (y > 1)
		view_put(p, 0, 0, INK_DIM, "block tables: %s%s",
			p->r.w < 84 ? "pages in the order of the text"
						: "the pages of each request in the order of its text; bright: shared",
			left ? view_form(" · +%d more", left).text : "");
}

/* Rows of the map out of h: it leaves some to the tables, if there are any, that no page in use
 * needs. */
static int map_rows(const struct timeline *t, int w, int h)
{
	const int least = pages_map_least(t, w), part = at_least(h * 2 / 3, least);

	for (int32_t i = 0; i < t->n_requests && w >= TABLES_W; i++)
		if (t->request[i].n_pages)
			return at_most(part, h);
	return h;
}

/* Where there is room: the map, the history of a page beside or below it, block tables. */
static void draw_large(struct pen *p, const struct timeline *t, struct view_state *s, int32_t shown)
{
	bool side = shown >= 0 && p->r.w >= SIDE_W + 32;
	int map_w = side ? (p->r.w - SIDE_W - 3) / 2 * 2 : p->r.w;
	int rows, h = p->r.h - 3, strip = side || shown < 0 ? 0 : h / 3;
	struct pen map = pen_sub(p, (struct rect){ 0, 1, map_w, map_rows(t, map_w, h - strip) });
	struct pen history = side ? pen_sub(p, (struct rect){ map_w + 3, 1, SIDE_W, h })
							  : pen_sub(p, (struct rect){ 0, 2 + h - strip, p->r.w, strip - 1 });
	struct pen waste;

	rows = pages_map_draw(&map, t, s, shown);
	if (shown >= 0)
		draw_side(&history, t, shown);
	if (rows + 2 < h - strip) {
		const int end = strip ? 1 + h - strip : p->r.h;
		struct pen tables = pen_sub(p, (struct rect){ 0, rows + 4, map_w, end - rows - 4 });

		waste = pen_sub(p, (struct rect){ 0, rows + 2, map_w, 1 });
		draw_tables(&tables, t, shown);
	} else {
		waste = pen_sub(p, (struct rect){ 0, p->r.h - 1, map_w, 1 });
	}
	draw_waste(&waste, 0, t);
}

static void draw_small(struct pen *p, const struct timeline *t, struct view_state *s, int32_t shown)
{
	int h = p->r.h - 1, strip = 0;
	struct pen map, history;

	if (shown >= 0 && h >= STRIP_MIN + 2) {
		strip = at_most(h / 2, STRIP_MAX);
		history = pen_sub(p, (struct rect){ 0, 1 + h - strip, p->r.w, strip });
		put_summary(&history, 0, t, shown);
		put_history(&history, 1, strip - 1, timeline_page(t, shown));
	} else if (h >= 7) {
		draw_waste(p, h, t);
		strip = 1;
	}
	map = pen_sub(p, (struct rect){ 0, 1, p->r.w, h - strip });
	pages_map_draw(&map, t, s, shown);
}

static void pages_draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	int32_t shown = t->n_pages ? page_in_focus(t, s) : -1;

	if (t->attached.on) {
		view_attached_cache(p, t);
		return;
	}
	if (!t->n_pages) {
		view_empty(p, view_pages.name, "nothing yet: the pool of pages is made with the session");
		return;
	}
	pen_head(p, pages_are_states(t) ? "states" : view_pages.name, figure_of(t).text);
	if (p->r.h >= (s->zoomed ? 10 : LARGE_H) && p->r.w >= 30)
		draw_large(p, t, s, shown);
	else
		draw_small(p, t, s, shown);
}

static bool pages_key(int key, const struct timeline *t, struct view_state *s)
{
	int64_t row = s->cursor[VIEW_PAGES] >= PAGES_ROW ? s->cursor[VIEW_PAGES] / PAGES_ROW : 1,
			by = 0;
	int64_t at = t->n_pages ? page_in_focus(t, s) : -1;

	switch (key) {
	case KEY_LEFT_: by = -1; break;
	case KEY_RIGHT_: by = 1; break;
	case KEY_UP_: by = -row; break;
	case KEY_DOWN_: by = row; break;
	case KEY_PAGE_UP: by = -8 * row; break;
	case KEY_PAGE_DOWN: by = 8 * row; break;
	case KEY_HOME_: by = -t->n_pages; break;
	case KEY_END_: by = t->n_pages; break;
	case KEY_ESC:
		if (s->page < 0)
			return false;
		s->page = -1;
		return true;
	default: return false;
	}
	if (!t->n_pages)
		return false;
	/* the first key only shows it */
	s->page = (int32_t)(at < 0 ? pages_map_on(t, s, -1, 1) : pages_map_on(t, s, at, by));
	s->page = at_least(s->page, 0);
	return true;
}

const struct view view_pages = {
	VIEW(PAGES, pages, "KV pages", 24, 2, 8),
	.draw = pages_draw,
	.key = pages_key,
	.hints = (const struct hint[]){ { "← → ↑ ↓", "page" }, { NULL, NULL } },
};

/* Part of the KV pages view: the map of the pool.
 *
 * A page is a cell: the label of the request that wrote it, on the heat of the attention it got,
 * and the number of its readers, if there are several; else, where rows do not read all that they
 * see, a bar for how much of it was read. What a pin keeps is underlined. All cells are as wide as
 * the longest label needs. Where not all pages fit, the free ones at the end are left out and
 * counted, then all free ones, then those that only the prefix cache keeps: pages in use matter
 * most. Thread: the UI's. */

#include "tui/views/view_util.h"

enum { FLASH_STEPS = 8, NOTE_W = 26 };

static int64_t step_now(const struct timeline *t)
{
	const struct tl_step *last = timeline_last_step(t);

	return last ? last->s.step : 0;
}

const struct tl_page_event *page_history(const struct tl_page *p, int i)
{
	if (i >= p->n_history || i >= TL_PAGE_HISTORY)
		return NULL;
	return &p->history[(p->n_history - 1 - i) % TL_PAGE_HISTORY];
}

static bool just_evicted(const struct tl_page *p, int64_t now)
{
	const struct tl_page_event *e;

	for (int i = 0; (e = page_history(p, i)) && e->step > now - FLASH_STEPS; i++)
		if (e->action == EV_PAGE_evict)
			return true;
	return false;
}

bool page_is_free(const struct tl_page *p)
{
	return !p->refs && !p->cached;
}

static const char *readers_mark(int32_t refs, bool ascii)
{
	static const char *const raised[] = { "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹", "⁺" };
	static const char *const plain[] = { "2", "3", "4", "5", "6", "7", "8", "9", "+" };
	int i = refs > 9 ? 8 : refs - 2;

	return refs < 2 ? " " : ascii ? plain[i] : raised[i];
}

static void draw_page(
	struct pen *p, int x, int y, const struct timeline *t, const struct tl_page *page)
{
	struct pen in = *p;
	const char *mark = readers_mark(page->refs, p->c->ascii);
	bool flash = just_evicted(page, step_now(t));

	if (page_is_free(page)) {
		view_put(p, x, y, flash ? INK_BRIGHT : INK_RULE, "%s",
			glyph(p->c, flash ? GLYPH_MARK_EVICTED : GLYPH_DOT));
		return;
	}
	in.ink = page->refs ? (uint8_t)view_ink(page->owner) : INK_DIM;
	in.attr = (page->refs ? ATTR_BOLD : 0) | (page->pinned ? ATTR_UNDERLINE : 0);
	in.paper = page->refs ? (uint8_t)view_heat_ink((double)page->heat) : p->paper;
	x += pen_printf(&in, x, y, "%s", view_label(page->owner).text);
	in.ink = flash ? INK_BRIGHT : INK_TEXT;
	in.attr = 0;
	if (!flash && page->refs == 1 && page->selected) {
		pen_spark(&in, x, y, 1 - (double)page->skipped);
		return;
	}
	pen_text(&in, x, y, flash && page->refs < 2 ? glyph(p->c, GLYPH_MARK_EVICTED) : mark, -1);
}

struct map {
	int cell, per_row, rows; /* columns of a page; pages in a row */
	/* where not all fit, free ones are left out, then cached ones */
	enum held { ALL_PAGES, HELD_PAGES, READ_PAGES } held;
	int32_t from, to;     /* pages of the group */
	int32_t focus;        /* page, or -1 */
	int32_t n;            /* pages in the map */
	int32_t first, cells; /* drawn of these: first … first + cells - 1 */
	int note_w;           /* columns of the note at the end of the last row */
	struct view_text note;
};

/* A label and the mark of its readers. */
static int cell_w(const struct timeline *t)
{
	int w = 1;

	for (int32_t i = 0; i < t->n_pages; i++)
		if (!page_is_free(&t->page[i]) && view_label_width(t->page[i].owner) > w)
			w = view_label_width(t->page[i].owner);
	return w + 1;
}

static bool in_map(const struct map *m, const struct timeline *t, int32_t page)
{
	const struct tl_page *g = &t->page[page];

	if (m->held == ALL_PAGES || page == m->focus)
		return true;
	return m->held == READ_PAGES ? g->refs > 0 : !page_is_free(g) || just_evicted(g, step_now(t));
}

/* Pages of the map before a page. */
static int32_t rank_of(const struct map *m, const struct timeline *t, int32_t page)
{
	int32_t n = 0;

	for (int32_t i = m->from; i < page; i++)
		n += in_map(m, t, i);
	return n;
}

/* Counts what does not fit, at the end of the last row. */
static void note_make(struct map *m, const struct timeline *t)
{
	int32_t rank = 0, held = 0, free = 0;
	bool read = false;

	for (int32_t i = m->from; i < m->to; i++) {
		bool in = in_map(m, t, i), seen = in && rank >= m->first && rank < m->first + m->cells;

		rank += in;
		free += !seen && page_is_free(&t->page[i]);
		held += !seen && !page_is_free(&t->page[i]);
		read |= !seen && t->page[i].refs > 0;
	}
	m->note = !held ? view_form("+%s free", view_count(free).text)
					: view_form("+%s %s, %s free", view_count(held).text, read ? "more" : "cached",
						  view_count(free).text);
	m->note_w = (int)strlen(m->note.text);
}

static int32_t row_to_keep(
	const struct map *m, const struct timeline *t, const struct view_state *s)
{
	const struct tl_request *r = view_computing(t, s);

	if (m->focus >= 0)
		return rank_of(m, t, m->focus) / m->per_row;
	for (int32_t b = r ? r->n_pages : 0; b-- > 0;)
		if (r->pages[b] >= m->from && r->pages[b] < m->to)
			return rank_of(m, t, r->pages[b]) / m->per_row;
	return 0;
}

/* Pages up to the last one that is not free. */
static int32_t used_pages(const struct map *m, const struct timeline *t)
{
	int32_t n = m->to - m->from;

	while (n > 0 && page_is_free(&t->page[m->from + n - 1]))
		n--;
	return n;
}

int pages_map_least(const struct timeline *t, int w)
{
	const struct map m = { .to = t->n_pages };

	return used_pages(&m, t) / (w / cell_w(t)) + 2;
}

/* Scrolls only as far as needed to show the page in focus. */
static int32_t map_top(const struct map *m, const struct timeline *t, const struct view_state *s)
{
	int32_t total = (m->n + m->per_row - 1) / m->per_row, keep = row_to_keep(m, t, s),
			top = s->scroll[VIEW_PAGES];
	/* the note stands in the last row, which may have no room beside the last page */
	const bool full = (m->per_row - (m->n - 1) % m->per_row) * m->cell < NOTE_W;
	const int32_t least = keep - (m->rows > 1 ? m->rows - 2 : 0),
				  most = total - m->rows + (m->rows > 1 && full);

	top = top > keep ? keep : top < least ? least : top;
	top = at_most(top, most);
	return at_least(top, 0);
}

/* The note's own length depends on what it hides. */
static void make_room_for_note(struct map *m, const struct timeline *t, int w)
{
	for (int i = 0; i < 2; i++) {
		int32_t whole;

		note_make(m, t);
		whole = m->rows * m->per_row - (m->note_w + m->cell) / m->cell;
		if (m->note_w + 2 <= w && m->first + whole < m->n)
			m->cells = whole;
	}
	note_make(m, t);
}

static struct map map_make(
	const struct timeline *t, struct view_state *s, int w, int h, struct map m)
{
	m.cell = cell_w(t);
	m.rows = h;
	m.n = m.to - m.from;
	m.per_row = w / m.cell > 0 ? w / m.cell : 1;
	s->cursor[VIEW_PAGES] = PAGES_ROW * m.per_row;
	if ((m.n + m.per_row - 1) / m.per_row <= h) {
		s->scroll[VIEW_PAGES] = 0;
		m.cells = m.n;
		return m;
	}
	if (used_pages(&m, t) > h * m.per_row - NOTE_W / m.cell - 1) {
		struct map read = m;

		m.held = HELD_PAGES;
		m.n = rank_of(&m, t, m.to);
		read.held = READ_PAGES;
		read.n = rank_of(&read, t, m.to);
		if (m.n > h * m.per_row && read.n > (m.focus >= 0))
			m = read;
	}
	s->cursor[VIEW_PAGES] += (int64_t)m.held;
	s->scroll[VIEW_PAGES] = m.held || m.focus >= 0 ? map_top(&m, t, s) : 0;
	m.first = s->scroll[VIEW_PAGES] * m.per_row;
	m.cells = at_most(h * m.per_row, m.n - m.first);
	make_room_for_note(&m, t, w);
	return m;
}

static int draw_map(struct pen *p, const struct timeline *t, struct view_state *s, struct map m)
{
	int32_t shown = m.focus;
	int end, last;

	if (p->r.h < 1 || p->r.w < 2)
		return 0;
	m = map_make(t, s, p->r.w, p->r.h, m);
	for (int32_t i = m.from, at = -m.first; i < m.to && at < m.cells; i++) {
		int x = at % m.per_row * m.cell, y = at / m.per_row;

		if (!in_map(&m, t, i) || at++ < 0)
			continue;
		draw_page(p, x, y, t, &t->page[i]);
		if (view_clicked(s, p, x, y, m.cell))
			s->page = i;
		if (i == shown)
			pen_restyle(p, (struct rect){ x, y, m.cell, 1 }, ATTR_REVERSE);
	}
	if (!*m.note.text)
		return (m.cells + m.per_row - 1) / m.per_row;
	end = m.cells % m.per_row * m.cell;
	last = m.cells / m.per_row + (end + 2 + m.note_w > p->r.w);
	last = at_most(last, m.rows - 1);
	view_put_right(p, m.per_row * m.cell, last, INK_DIM, "%s", m.note.text);
	return last + 1;
}

static void draw_group_name(
	struct pen *p, const struct timeline *t, const struct ev_memory *m, int32_t first)
{
	int x = view_put(p, 0, 0, INK_DIM, "%s", ev_code_name("memory_kind", m->kind));
	int32_t used = 0;

	for (int32_t i = first; i < first + m->pages; i++)
		used += t->page[i].refs > 0;
	if (m->window > 0)
		x += view_put(p, x, 0, INK_DIM, " of %lld", (long long)m->window);
	view_put(p, x, 0, INK_DIM, ": %lld layer%s, %d of %s %s, %s each", (long long)m->layers,
		plural(m->layers), used, view_count(m->pages).text, tl_keeps_states(m) ? "states" : "pages",
		view_bytes((double)m->page_bytes).text);
}

/* The map of the shown page's memory group scrolls; the others get the rows they need, or a
 * share. */
int pages_map_draw(struct pen *p, const struct timeline *t, struct view_state *s, int32_t shown)
{
	int32_t main = shown >= 0 ? timeline_group(t, shown) : 0, first = 0;
	int n = t->n_memory, share = p->r.h / (n + 1), y = 0;

	if (!n || (n == 1 && (t->memory[0].kind != EV_MEMORY_KIND_recurrent || p->r.h < 2)))
		return draw_map(p, t, s, (struct map){ .to = t->n_pages, .focus = shown });
	for (int32_t g = 0; g < n; first += (int32_t)t->memory[g++].pages) {
		struct view_state still = *s;
		struct map m = { .from = first,
			.to = first + (int32_t)t->memory[g].pages,
			.focus = g == main ? shown : -1 };
		struct pen in = *p;

		in.r.y += y;
		in.r.h = g == main ? p->r.h - share * (n - 1) : share;
		if (in.r.h < 2)
			continue;
		draw_group_name(&in, t, &t->memory[g], first);
		in.r.y++;
		in.r.h--;
		still.scroll[VIEW_PAGES] = 0;
		y += 1 + draw_map(&in, t, g == main ? s : &still, m);
	}
	return y;
}

int64_t pages_map_on(const struct timeline *t, const struct view_state *s, int64_t at, int64_t by)
{
	const struct map m = { .held = (enum held)(s->cursor[VIEW_PAGES] % PAGES_ROW), .focus = -1 };
	int64_t to = at;

	for (int64_t i = at; by && (i += by < 0 ? -1 : 1) >= 0 && i < t->n_pages;) {
		if (!in_map(&m, t, (int32_t)i))
			continue;
		to = i;
		by -= by < 0 ? -1 : 1;
	}
	return to;
}

/* See layout.h. Three arrangements: one column of pairs below the chat (small), two columns, three
 * columns.
 *
 * A column is a list of views by name, most wanted first in rank; from the bottom of the ranks
 * views are dropped until the rest fits with their smallest heights, then rows are distributed:
 * first each view's minimum of useful rows, then a blank line above each view but the first, then
 * up to the wanted height in order of rank, then further useful rows, and the rest to the
 * stretching view. */
#include "tui/app/layout.h"

/* LESSON_H: least rows of a lesson above a wide view, SHARED_H: from which the chat stands beside
 * it. CHAT_H: rows of the chat below what a lesson looks at; ROOMY_LOOK: from which that needs no
 * more. */
enum {
	MARGIN = 1,
	GUTTER = 2,
	COLUMN_VIEWS = 8,
	ROOMY_H = 46,
	LESSON_H = 8,
	SHARED_H = 16,
	CHAT_H = 6,
	ROOMY_LOOK = 24
};

/* STRETCH: takes the remaining rows. ROOMY: left out in a live chat unless the screen is tall,
 * because the chat needs the rows. TALL: in a replay, too, and where it has nothing to show. */
enum { STRETCH = 1, ROOMY = 2, TALL = 4 };

/* The views of a column from top to bottom. A rank of 0 is dropped last. */
struct place {
	const char *id;
	int rank;
	int flags;
	int more; /* useful rows beyond its want_h */
	int firm; /* rows that it gets before any blank lines */
};
struct column {
	struct place place[COLUMN_VIEWS];
};

/* 80x24: the chat over the full width, two columns below. */
static const struct column small_left = { { { "pages", 0, STRETCH, 0, 0 }, { "next", 1, 0, 0, 0 },
	{ "attention", 2, 0, 0, 0 }, { "sampler", 3, 0, 0, 0 } } };
static const struct column small_right = { { { "batch", 0, STRETCH, 0, 4 }, /* three slots */
	{ "spec", 1, 0, 0, 0 }, { "prefix", 2, 0, 0, 0 }, { "time", 3, 0, 0, 0 } } };
/* 120x40 */
static const struct column two_left = { { { "chat", 0, STRETCH, 0, 0 },
	{ "sampler", 3, ROOMY, 0, 0 }, { "next", 1, 0, 0, 0 }, { "time", 2, 0, 0, 0 } } };
static const struct column two_right = { { { "pages", 0, STRETCH, 0, 0 }, { "batch", 1, 0, 4, 0 },
	{ "spec", 2, 0, 0, 0 }, { "prefix", 3, 0, 0, 0 }, { "attention", 4, 0, 0, 0 } } };
/* 200x50 and beyond */
static const struct column three_left = { { { "chat", 0, STRETCH, 0, 24 },
	{ "roofline", 2, TALL, 0, 0 }, { "time", 1, 0, 2, 0 } } };
static const struct column three_mid = { { { "next", 0, 0, 4, 0 }, { "sampler", 1, 0, 0, 0 },
	{ "spec", 2, 0, 3, 0 }, { "prefix", 3, STRETCH, 0, 0 } } };
static const struct column three_right = { { { "pages", 0, STRETCH, 0, 0 },
	{ "batch", 1, 0, 10, 0 }, { "attention", 2, 0, 3, 0 } } };

static int view_find(const struct layout_request *ask, const char *id)
{
	for (int i = 0; ask->views[i] && i < LAYOUT_VIEWS; i++)
		if (!strcmp(ask->views[i]->id, id))
			return i;
	return -1;
}

struct member {
	int view, rank, h, gap; /* gap: blank lines above */
	int want, more, firm;
	bool stretch;
};

static int rows_taken(const struct member *m, int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++)
		sum += m[i].h + m[i].gap;
	return sum;
}

static int worst_rank(const struct member *m, int n)
{
	int worst = 0;

	for (int i = 1; i < n; i++)
		if (m[i].rank > m[worst].rank)
			worst = i;
	return worst;
}

/* Members that fit a rectangle, each with its smallest height. */
static int column_members(
	const struct layout_request *ask, const struct column *c, struct rect r, struct member *m)
{
	int n = 0;

	for (int i = 0; i < COLUMN_VIEWS && c->place[i].id; i++) {
		const int v = view_find(ask, c->place[i].id), flags = c->place[i].flags;
		const bool empty = v >= 0 && (ask->empty >> v & 1);

		if (ask->h < ROOMY_H ? empty || flags & TALL || (flags & ROOMY && !ask->scrubber)
							 : empty && flags & TALL)
			continue;
		if (v >= 0 && ask->views[v]->min_w <= r.w)
			m[n++] = (struct member){ .view = v,
				.rank = c->place[i].rank,
				.h = ask->views[v]->min_h,
				.want = ask->views[v]->want_h,
				.more = c->place[i].more,
				.firm = c->place[i].firm,
				.stretch = flags & STRETCH };
	}
	while (n > 0 && rows_taken(m, n) > r.h) {
		int out = worst_rank(m, n);

		memmove(m + out, m + out + 1, (size_t)(n - out - 1) * sizeof *m);
		n--;
	}
	return n;
}

/* Gives one row at a time to each view that wants more, in order of rank, so that none gets
 * nothing. Returns the rest. */
static int give_rows(struct member *m, int n, int left, bool more)
{
	bool given = true;

	while (left > 0 && given) {
		given = false;
		for (int rank = 0; rank < COLUMN_VIEWS; rank++)
			for (int i = 0; i < n && left > 0; i++)
				if (m[i].rank == rank && m[i].h < m[i].want + (more ? m[i].more : 0)) {
					m[i].h++;
					left--;
					given = true;
				}
	}
	return left;
}

static void column_grow(struct member *m, int n, int left)
{
	for (int i = 0; i < n; i++)
		for (; m[i].h < m[i].firm && left > 0; left--)
			m[i].h++;
	for (int i = 1; i < n && left > 0; i++, left--)
		m[i].gap = 1;
	left = give_rows(m, n, left, false);
	left = give_rows(m, n, left, true);
	for (int i = 0; i < n && left > 0; i++)
		if (m[i].stretch) {
			m[i].h += left;
			left = 0;
		}
	if (left > 0 && n > 0)
		m[n - 1].h += left;
}

static void column_fill(
	struct layout *l, const struct layout_request *ask, const struct column *c, struct rect r)
{
	struct member m[COLUMN_VIEWS];
	int n = column_members(ask, c, r, m), y = r.y;

	column_grow(m, n, r.h - rows_taken(m, n));
	for (int i = 0; i < n; i++) {
		y += m[i].gap;
		l->view[m[i].view] = (struct rect){ r.x, y, r.w, m[i].h };
		y += m[i].h;
	}
}

static void arrange_small(struct layout *l, const struct layout_request *ask, struct rect r)
{
	int chat = view_find(ask, "chat"), half = (r.w - GUTTER) / 2;
	/* The chat keeps 2 of 5 rows, and all of them where nothing else would fit. */
	int top = r.h < 12 || r.w < 48 ? r.h : r.h * 2 / 5 < 5 ? 5 : r.h * 2 / 5;

	if (chat >= 0)
		l->view[chat] = (struct rect){ r.x, r.y, r.w, top };
	if (top == r.h)
		return;
	r.y += top + 1;
	r.h -= top + 1;
	column_fill(l, ask, &small_left, (struct rect){ r.x, r.y, half, r.h });
	column_fill(l, ask, &small_right, (struct rect){ r.x + r.w - half, r.y, half, r.h });
}

static void arrange_two(struct layout *l, const struct layout_request *ask, struct rect r)
{
	int right = (r.w - GUTTER) * 43 / 100;

	column_fill(l, ask, &two_left, (struct rect){ r.x, r.y, r.w - GUTTER - right, r.h });
	column_fill(l, ask, &two_right, (struct rect){ r.x + r.w - right, r.y, right, r.h });
}

static void arrange_three(struct layout *l, const struct layout_request *ask, struct rect r)
{
	int side = (r.w - 2 * GUTTER) * 30 / 100;
	int chat = r.w - 2 * GUTTER - 2 * side;

	column_fill(l, ask, &three_left, (struct rect){ r.x, r.y, chat, r.h });
	column_fill(l, ask, &three_mid, (struct rect){ r.x + chat + GUTTER, r.y, side, r.h });
	column_fill(l, ask, &three_right, (struct rect){ r.x + r.w - side, r.y, side, r.h });
}

/* A view that is too wide to stand beside the lesson: over the full width. */
static bool look_below(struct layout *l, const struct layout_request *ask, struct rect r)
{
	const struct view *v = ask->views[ask->look];
	int h = r.h * 2 / 5 > v->min_h ? r.h * 2 / 5 : v->min_h;

	if (v->min_w <= (r.w - GUTTER) * 53 / 100 || v->min_w > r.w || h + 1 + LESSON_H > r.h)
		return false;
	l->view[ask->look] = (struct rect){ r.x, r.y + r.h - h, r.w, h };
	return true;
}

/* Rows of what a lesson looks at, out of h: more than half, and what it wants if the chat has room
 * then. */
static int look_rows(const struct layout_request *ask, int h)
{
	int half = (h - 1) * 55 / 100, most = h - 1 - CHAT_H, want;

	if (ask->look < 0)
		return 0;
	if (ask->look_all)
		return most > ROOMY_LOOK ? most : h;
	want = ask->views[ask->look]->want_h;
	want = want < most ? want : most;
	return want > half ? want : half;
}

/* The lesson at the left; what it looks at above the chat, or in its place, or, where it is too
 * wide for that, below both, where few rows are left below the lesson alone. Where that is too
 * narrow, the lesson above the chat. */
static void arrange_lesson(struct layout *l, const struct layout_request *ask, struct rect r)
{
	int lesson = view_find(ask, "lesson"), chat = view_find(ask, "chat");
	int left = (r.w - GUTTER) * 47 / 100, top = look_rows(ask, r.h);
	struct rect side = { r.x + left + GUTTER, r.y, r.w - left - GUTTER, r.h };

	if (r.w < 64) {
		l->view[lesson] = (struct rect){ r.x, r.y, r.w, r.h * 3 / 5 };
		l->view[chat] = (struct rect){ r.x, r.y + r.h * 3 / 5, r.w, r.h - r.h * 3 / 5 };
		return;
	}
	if (top > 0 && look_below(l, ask, r)) {
		r.h = side.h = l->view[ask->look].y - 1 - r.y;
		top = 0;
		if (r.h < SHARED_H) {
			l->view[lesson] = r;
			return;
		}
	}
	l->view[lesson] = (struct rect){ r.x, r.y, left, r.h };
	if (top < 1 || ask->look == chat || ask->look == lesson ||
		ask->views[ask->look]->min_w > side.w || ask->views[ask->look]->min_h > top) {
		l->view[chat] = side;
		return;
	}
	l->view[ask->look] = (struct rect){ side.x, side.y, side.w, top };
	if (side.h > top + 1)
		l->view[chat] = (struct rect){ side.x, side.y + top + 1, side.w, side.h - top - 1 };
}

static struct rect take_bottom(struct rect *r, int rows)
{
	r->h -= rows;
	return (struct rect){ r->x, r->y + r->h, r->w, rows };
}

/* The lines around the body: dropped first on a small screen. */
static struct rect frame(struct layout *l, const struct layout_request *ask)
{
	struct rect r = { 0, 0, ask->w, ask->h };
	int prompt = ask->prompt_lines, most = ask->h / 3;

	prompt = prompt > most ? most : prompt;
	prompt = prompt < 1 ? 1 : prompt;
	if (ask->h >= 5) {
		l->status = (struct rect){ 0, 0, ask->w, 1 };
		r.y++, r.h--;
	}
	if (ask->h >= 8)
		l->hints = take_bottom(&r, 1);
	l->prompt = take_bottom(&r, prompt);
	if (ask->h >= 7)
		l->rule = take_bottom(&r, 1);
	if (ask->scrubber && r.h >= 8)
		l->scrubber = take_bottom(&r, r.h >= 24 ? 3 : 2);
	if (ask->h >= 14) /* a blank line below the status line */
		r.y++, r.h--;
	if (ask->h >= 30) /* and above the rule */
		r.h--;
	if (ask->w >= 24) {
		r.x += MARGIN, r.w -= 2 * MARGIN;
		l->prompt.x += MARGIN, l->prompt.w -= 2 * MARGIN;
		l->hints.x += MARGIN, l->hints.w -= l->hints.w > 2 ? 2 * MARGIN : 0;
		l->scrubber.x += MARGIN, l->scrubber.w -= l->scrubber.w > 2 ? 2 * MARGIN : 0;
	}
	return r;
}

void layout_make(struct layout *l, const struct layout_request *ask)
{
	memset(l, 0, sizeof *l);
	l->body = frame(l, ask);
	if (ask->zoom >= 0 && ask->zoom < LAYOUT_VIEWS)
		l->view[ask->zoom] = l->body;
	else if (ask->lesson && l->body.h >= 9)
		arrange_lesson(l, ask, l->body);
	else if (ask->w >= 150 && ask->h >= 36)
		arrange_three(l, ask, l->body);
	else if (ask->w >= 100 && ask->h >= 28)
		arrange_two(l, ask, l->body);
	else
		arrange_small(l, ask, l->body);
}

/* The view "chat": the conversation, its tokens tinted by how probable they were, in green where a
 * draft was right. Lines are made from the end backwards, so that a long conversation costs only
 * its visible part. */

#include "tui/views/chat_turn.h"

enum {
	MAX_TURNS = 4096,
	PAGE_LINES = 10,
	TURN_HEAD = 3 /* blank, question, note */
};

static const char left_words[] = "left out of the context from here up";

#define TYPE_BELOW                                                                                 \
	"nothing said yet: type below, for example \"List the first five prime numbers.\""

static enum ink tint(const struct tl_token *k)
{
	return k && !isnan(k->p) ? (enum ink)(INK_TINT_0 + (int)(k->p * 7 + 0.5f)) : INK_TEXT;
}

static const struct tl_token *owner_token(const struct turn *n, int32_t owner)
{
	if (owner >= 0)
		return &n->r->token[owner];
	return owner <= WRAP_GIVEN ? timeline_branch_token(n->t, n->r->origin, WRAP_GIVEN - owner)
							   : NULL;
}

static enum ink owner_ink(const struct turn *n, int32_t owner, const struct tl_token *k)
{
	if (owner >= 0 && k->source == EV_SOURCE_accepted)
		return INK_ACCEPTED;
	return owner >= 0 && n->r->kind == EV_REQUEST_KIND_fork ? view_ink(n->r->id) : tint(k);
}

static void choose(const struct turn *n, int32_t owner, const struct tl_token *k)
{
	const int64_t from = n->r->origin.request;
	const struct tl_request *r = owner >= 0 ? n->r : timeline_request(n->t, from);

	if (!r || k < r->token || k >= r->token + r->n_tokens)
		return;
	n->state->request = r->id;
	n->state->token = k - r->token;
}

/* Every second token on a ground of its own, or underlined where there is no colour. */
static void alternate(struct pen *in, int32_t owner)
{
	if (owner & 1 && in->c->mono)
		in->attr |= ATTR_UNDERLINE;
	else if (owner & 1)
		in->paper = INK_RULE;
}

/* Returns the column after the line. */
static int draw_line(struct pen *p, int y, const struct turn *n, const struct wrap *w, int32_t line)
{
	struct pen in = *p;
	size_t at = w->line[line].from, to = w->line[line].to;
	int x = TURN_LABEL_W + w->line[line].indent;

	if (!is_index(y, p->r.h))
		return x;
	if (at < to && w->style && w->style[at] & MARK_BLOCK) {
		in.paper = INK_BAND;
		pen_fill(&in, (struct rect){ TURN_LABEL_W, y, p->r.w - TURN_LABEL_W, 1 });
	}
	while (at < to && x < p->r.w) {
		const unsigned style = w->style ? w->style[at] : 0;

		struct glyph_run g = text_next(w->text + at, to - at, p->c->ascii);
		int32_t owner = w->owner ? w->owner[at] : WRAP_NOBODY;
		const struct tl_token *k = w == &n->asked ? NULL : owner_token(n, owner);

		if (!g.used)
			break;
		in.ink = w == &n->asked && at < n->n_who ? view_ink(n->r->id)
				 : style & MARK_DIM || n->left   ? INK_DIM
				 : n->plain                      ? INK_TEXT
												 : owner_ink(n, owner, k);
		in.paper = style & MARK_CODE ? INK_BAND : p->paper;
		in.attr = k && k == n->marked ? ATTR_REVERSE | ATTR_BOLD
				  : style & MARK_BOLD ? ATTR_BOLD
									  : 0;
		if (owner != WRAP_NOBODY && n->state && n->state->pieces)
			alternate(&in, owner);
		if (k && view_clicked(n->state, p, x, y, g.width))
			choose(n, owner, k);
		if (!g.newline)
			x += pen_text(&in, x, y, w->text + at, (long)g.used);
		else if (in.attr)
			pen_text(&in, x, y, " ", 1);
		at += g.used;
	}
	return x;
}

static void draw_label(struct pen *p, int y, const struct turn *n)
{
	if (n->r->kind == EV_REQUEST_KIND_fork || n->is_choice)
		view_put_label(p, 0, y, n->r->id);
	else
		view_put(p, 0, y, INK_DIM, "ai");
}

/* The question, with its notes. Returns the line after them. */
static int draw_asked(struct pen *p, int y, const struct turn *n)
{
	y += !n->same_question;
	if (*n->trimmed.text)
		view_put(p, TURN_LABEL_W, y++, INK_DIM, "%s", n->trimmed.text);
	if (n->asked.n_lines && n->r->kind == EV_REQUEST_KIND_served)
		view_put_label(p, 0, y, n->r->id);
	else if (n->asked.n_lines)
		view_put(p, 0, y, INK_DIM, "you");
	for (int32_t i = 0; i < n->asked.n_lines; i++)
		draw_line(p, y++, n, &n->asked, i);
	if (*n->files.text)
		view_put(p, TURN_LABEL_W, y++, INK_DIM, "%s", n->files.text);
	if (*n->abandoned.text)
		view_put(p, TURN_LABEL_W, y++, INK_DIM, "%s", n->abandoned.text);
	return y;
}

/* Draws the lines of a turn whose first one is at y (perhaps above the pen), down to `end`
 * (exclusive). */
static void draw_turn(struct pen *p, int y, int top, const struct turn *n, bool last)
{
	struct pen in = pen_sub(p, (struct rect){ 0, top, p->r.w, p->r.h - top });
	int x = TURN_LABEL_W;

	y -= top;
	if (n->rule) {
		pen_hline(&in, 0, ++y, p->r.w);
		view_put(&in, TURN_LABEL_W, y++, INK_TEXT, " %s ", n->rule);
	}
	y = draw_asked(&in, y, n);
	if ((n->answer.n_lines || *n->after.text || *n->thought.text) && !n->waits)
		draw_label(&in, y, n);
	if (*n->thought.text)
		view_put(&in, TURN_LABEL_W, y++, INK_DIM, "%s", n->thought.text);
	if (n->skip)
		view_put(&in, 2, y, INK_DIM, "%s", glyph(p->c, GLYPH_ELLIPSIS));
	for (int32_t i = n->skip; i < n->answer.n_lines; i++)
		x = draw_line(&in, y++, n, &n->answer, i);
	if (last && n->r->state == TL_RUNNING && n->answer.n_lines) {
		struct pen block = in;

		block.ink = INK_BRIGHT;
		block.attr = ATTR_REVERSE;
		pen_text(&block, x < p->r.w ? x : p->r.w - 1, y - 1, " ", 1);
	}
	for (int32_t i = 0; i < n->below.n_lines; i++)
		draw_line(&in, y++, n, &n->below, i);
}

struct page_room {
	int64_t want; /* lines */
	int rows, width;
	bool ascii;
};
struct page { /* turns, from the newest backwards, that fill the window */
	struct turn *turn;
	int32_t n, lines;
	int32_t cursor; /* lines between it and the end, or -1 */
	int32_t held;   /* lines from the top of the turn that is read to the end, or -1 */
	bool more;      /* there are older ones */
	int n_left;     /* requests of other branches */
	bool *shown;    /* view_shown */
	struct chat_left left;
};

static void page_rule(struct page *g, const struct timeline *t, const char *words)
{
	g->turn[g->n++] = (struct turn){ .t = t, .r = &turn_nobody, .rule = words, .n_lines = 2 };
	g->lines += 2;
}

/* Draws what follows the newest request. */
static void unanswered(
	struct page *g, const struct timeline *t, const struct view_state *s, int width, bool ascii)
{
	const struct view_waiting *w = s->waiting;
	const struct tl_request *r = timeline_chat(t);

	for (int i = w ? w->n : 0; i-- > 0 && i + TURNS_WAITING >= w->n;)
		turn_of_waiting(&g->turn[g->n++], t, w, i, width, ascii);
	if (turn_searching(t))
		turn_of_search(&g->turn[g->n++], t, turn_searching(t), width, ascii);
	if (w && w->ahead && *w->ahead)
		turn_of_words(&g->turn[g->n++], t, w->ahead, width, ascii);
	for (int32_t i = 0; i < g->n; i++)
		g->lines += g->turn[i].n_lines;
	if (s->anew && r && r->id == s->anew)
		page_rule(g, t, turn_anew);
}

/* Of what is asked of a server many answers run at once: these stand last, each with its newest
 * lines. Forks of one turn stay together. */
static bool stands_last(const struct tl_request *r)
{
	return !r->finished && (r->kind == EV_REQUEST_KIND_served || r->kind == EV_REQUEST_KIND_chat);
}

/* Lines that each of those may have for its answer. */
static int32_t lines_each(const struct timeline *t, const bool *shown, int32_t rows)
{
	int32_t n = 0, each;

	for (int32_t i = 0; i < t->n_requests; i++)
		n += shown[i] && stands_last(&t->request[i]);
	each = n > 1 ? rows / n - TURN_HEAD : INT32_MAX;
	return at_least(each, 1);
}

static void page_add(struct page *g, const struct timeline *t, struct view_state *s,
	const struct tl_request *r, int32_t lines, const struct page_room *room)
{
	struct turn *n = &g->turn[g->n++];
	int32_t at;

	turn_of_request(n, t, r,
		&(struct turn_look){
			.shown = g->shown,
			.width = room->width,
			.ascii = room->ascii,
			.marks = s->marks,
			.thoughts = s->thoughts,
			.pieces = s->pieces,
			.live = s->waiting,
			.token = s->request == r->id ? s->token : -1,
		});
	n->plain = s->plain;
	n->left = r >= t->request + g->left.from && r < t->request + g->left.end;
	n->state = s;
	turn_mark(n, t, s);
	turn_shorten(n, lines);
	at = turn_cursor_line(n, s);
	if (at >= 0)
		g->cursor = g->lines + at;
	g->lines += n->n_lines;
	if (r->id == s->read.request)
		g->held = g->lines;
}

/* Enough turns to fill `want` lines, and to have the cursor and the turn that is read. */
static void page_make(struct page *g, const struct timeline *t, struct view_state *s,
	const struct page_room *room, bool find_cursor)
{
	bool find_held = s->scroll[VIEW_CHAT] > 0 && timeline_request(t, s->read.request);
	const bool *shown;
	bool ruled = false;
	int32_t each;

	*g = (struct page){ .cursor = -1, .held = -1 };
	shown = g->shown = view_shown(t, s, &g->n_left);
	each = shown ? lines_each(t, shown, room->rows) : 0;
	g->left = chat_left(t, shown);
	g->turn = calloc(MAX_TURNS + 1, sizeof *g->turn);
	if (g->turn)
		unanswered(g, t, s, room->width, room->ascii);
	for (int last = 1; last >= 0; last--)
		for (int32_t i = t->n_requests; shown && g->turn && !g->more && i-- > 0;) {
			const struct tl_request *r = &t->request[i];

			if (!shown[i] || stands_last(r) != last)
				continue;
			if (i < g->left.end && !ruled) {
				page_rule(g, t, left_words);
				ruled = true;
			}
			g->more =
				g->n >= MAX_TURNS || (g->lines >= room->want && !(find_cursor && g->cursor < 0) &&
										 !(find_held && g->held < 0));
			if (!g->more)
				page_add(g, t, s, r, last ? each : INT32_MAX, room);
		}
}

static void page_free(struct page *g)
{
	for (int32_t i = 0; i < g->n; i++)
		turn_free(&g->turn[i]);
	free(g->turn);
	free(g->shown);
}

/* Notes which turn is at the end of the window, and where its top is. */
static void hold(struct view_state *s, const struct page *g, int32_t scroll)
{
	int32_t lines = 0;

	s->read.request = 0;
	s->read.scroll = scroll;
	for (int32_t i = 0; i < g->n && !s->read.request; i++) {
		lines += g->turn[i].n_lines;
		if (lines > scroll)
			s->read.request = g->turn[i].r->id;
	}
	s->read.above = lines - scroll;
}

/* How many lines stay below the window. Text that is read stays where it is when lines are added
 * below it. */
static int32_t scroll_of(struct view_state *s, const struct page *g, int32_t rows)
{
	int32_t scroll = s->scroll[VIEW_CHAT], most = g->lines > rows ? g->lines - rows : 0;

	if (scroll > 0 && s->read.scroll > 0 && g->held >= 0)
		scroll += g->held - s->read.above - s->read.scroll;
	if (s->cursor[VIEW_CHAT] == VIEW_KEEP_CURSOR && g->cursor >= 0) {
		if (g->cursor < scroll)
			scroll = g->cursor;
		if (g->cursor >= scroll + rows) /* with what stands before it */
			scroll = g->cursor - rows / 2;
		s->cursor[VIEW_CHAT] = 0;
	}
	scroll = within(scroll, 0, most);
	s->scroll[VIEW_CHAT] = scroll;
	hold(s, g, scroll);
	return scroll;
}

/* Requests beside the conversation that are not over. */
static int n_background(const struct timeline *t)
{
	int n = 0;

	for (int32_t i = 0; i < t->n_requests; i++)
		n += !view_is_chat(&t->request[i]) && t->request[i].state != TL_FINISHED;
	return n;
}

/* If not all fits, the constant parts are left out. */
static struct view_text legend(
	const struct timeline *t, int n_left, bool plain, const struct canvas *c, int w)
{
	const int others = n_background(t);
	const char *greens = plain     ? "/tint on shows each token's probability"
						 : c->mono ? "underlined = drafted and accepted"
								   : "green = drafted and accepted";
	const struct view_text brief = view_form("%s%s%s", greens,
							   others ? view_form(" · %d in the background", others).text : "",
							   n_left ? view_form(" · %d left: /tree", n_left).text : ""),
						   whole = view_form(
							   "%s%s", c->mono || plain ? "" : "tint = probability · ", brief.text);

	return (others || n_left) && text_width(whole.text, strlen(whole.text), false) > w ? brief
																					   : whole;
}

static struct view_text head_words(
	const struct timeline *t, const struct view_state *s, const struct canvas *c, int w)
{
	const struct tl_request *r = view_request(t, s);
	int n_left;

	free(view_shown(t, s, &n_left));
	if (r && is_index(s->token, r->n_tokens))
		return view_form("cursor on token %" PRId64, r->token[s->token].pos);
	if (s->scroll[VIEW_CHAT] > 0)
		return view_form(
			"%d line%s below", (int)s->scroll[VIEW_CHAT], plural(s->scroll[VIEW_CHAT]));
	return legend(t, n_left, s->plain, c, w);
}

static void draw_turns(struct pen *p, const struct timeline *t, struct view_state *s, int top)
{
	int rows = p->r.h - top, width = p->r.w - TURN_LABEL_W;
	bool keep = s->cursor[VIEW_CHAT] == VIEW_KEEP_CURSOR && s->token >= 0;
	struct page g;
	int32_t scroll, y;

	if (rows < 1)
		return;
	page_make(&g, t, s,
		&(struct page_room){ .want = (int64_t)s->scroll[VIEW_CHAT] + rows + PAGE_LINES,
			.rows = rows,
			.width = at_least(width, 1),
			.ascii = p->c->ascii },
		keep);
	/* no blank line above the very first turn */
	if (g.n && !g.more)
		g.lines--;
	scroll = scroll_of(s, &g, rows);
	y = g.lines - scroll <= rows ? top + g.lines : p->r.h + scroll;
	for (int32_t i = 0; i < g.n; i++) {
		const struct turn *n = &g.turn[i];

		y -= n->n_lines;
		if (y + n->n_lines > top && y < p->r.h)
			draw_turn(p, y, top, n, true);
	}
	page_free(&g);
}

/* One thing to do first, and three after it. */
static void draw_first(struct pen *p)
{
	static const struct column columns[] = { { NULL, -27, 1 }, { NULL, 0, 2 } };
	static const char *const after[][2] = { { "/lesson tokens-and-sampling",
												"a lesson: it types, you predict" },
		{ "^P", "finds commands, views, settings" },
		{ "/sessions", "those of before: go on, replay" } };
	enum { LINES = sizeof after / sizeof *after, LEAST_W = 60 };
	struct table t = TABLE(p, columns, 1 + view_nothing(p, TYPE_BELOW));

	for (int i = 0; i < LINES && p->r.w >= LEAST_W && t.y + 1 < p->r.h; i++) {
		t.y++;
		table_put(&t, 0, INK_TEXT, "%s", after[i][0]);
		table_put(&t, 1, INK_DIM, "%s", after[i][1]);
	}
}

static void draw_chat(struct pen *p, const struct timeline *t, struct view_state *s)
{
	bool reported = s->focused || s->token >= 0 || s->scroll[VIEW_CHAT] > 0;
	bool head = p->r.h >= 9 || (p->r.h > 3 && reported), air = p->r.h >= 12;

	if (!timeline_chat(t) && !turn_searching(t) && !(s->waiting && s->waiting->n)) {
		struct pen in = pen_sub(p, (struct rect){ 0, head + air - 1, p->r.w, p->r.h });

		/* a replay has nothing that could wait */
		if (s->waiting && !t->attached.on)
			draw_first(head ? &in : p);
		else
			view_nothing(head ? &in : p, s->waiting ? TYPE_BELOW : "nothing said yet");
	} else {
		draw_turns(p, t, s, head + (head && air)); /* first: it bounds the scroll */
	}
	if (head)
		pen_head(p, "chat", head_words(t, s, p->c, p->r.w - 8).text);
}

static bool key_chat(int key, const struct timeline *t, struct view_state *s)
{
	int64_t *scroll = &s->scroll[VIEW_CHAT];

	if (key == KEY_END_) {
		s->request = 0;
		s->token = -1;
	}
	if (view_scroll(key, scroll, PAGE_LINES, INT32_MAX / 2))
		return true;
	if (!view_walk_tokens(key, t, s))
		return false;
	s->cursor[VIEW_CHAT] = VIEW_KEEP_CURSOR;
	if (s->token < 0)
		*scroll = 0;
	return true;
}

const struct view view_chat = {
	VIEW(CHAT, chat, "chat", 16, 1, 16),
	.draw = draw_chat,
	.key = key_chat,
	.hints = (const struct hint[]){ { "← →", "token" }, { "↑ ↓", "scroll" }, { NULL, NULL } },
};

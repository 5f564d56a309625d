/* See palette.h. */
#include "tui/app/palette.h"

#include "base/near.h"
#include "tui/views/view_util.h"

enum { CTRL_N = 14, CTRL_P = 16, CTRL_U = 21, CTRL_W = 23, ESC = 27, BACKSPACE = 127, CTRL_H = 8 };
enum { WIDTH = 120, MARGIN = 20, HEAD = 3, WORDS = 2, FOOT = WORDS + 2 };

/* ---- what there is ---- */

static char *copy(const char *text)
{
	return strdup(text ? text : "");
}

/* Those that copy() made. */
static void free_item(struct palette_item *i)
{
	const char *const text[] = { i->name, i->value, i->text, i->more, i->line };

	for (size_t k = 0; k < ARRAY_N(text); k++)
		free((void *)(uintptr_t)text[k]);
}

void palette_close(struct palette *p)
{
	for (int i = 0; i < p->n; i++)
		free_item(&p->item[i]);
	free(p->item);
	free(p->row);
	*p = (struct palette){ 0 };
}

void palette_begin(struct palette *p, const char *title, const char *filter)
{
	palette_close(p);
	snprintf(p->title, sizeof p->title, "%s", title);
	snprintf(p->filter, sizeof p->filter, "%s", filter);
}

void palette_add(struct palette *p, const struct palette_item *item)
{
	struct palette_item i = *item;

	i.name = copy(item->name);
	i.value = copy(item->value);
	i.text = copy(item->text);
	i.more = copy(item->more);
	i.line = copy(item->line);
	if (i.name && i.value && i.text && i.more && i.line && ARRAY_ROOM(p->item, p->cap, p->n + 1))
		p->item[p->n++] = i;
	else
		free_item(&i);
}

/* ---- the filter ---- */

static int best(int a, int b)
{
	return a > b ? a : b;
}

/* Names count most, then what else it is called, then its words; letters that are scattered count
 * in its name alone. */
static int score_word(const struct palette_item *i, const char *word, size_t n)
{
	const int name = fuzzy_score(i->name, word, n), more = fuzzy_within(i->more, word, n),
			  group = fuzzy_within(i->group, word, n), text = fuzzy_within(i->text, word, n);
	int score = name > FUZZY_NONE ? 10 * name : FUZZY_NONE;

	score = best(score, more > FUZZY_NONE ? 7 * more : FUZZY_NONE);
	score = best(score, group > FUZZY_NONE ? 2 * group : FUZZY_NONE);
	return best(score, text > FUZZY_NONE ? text : FUZZY_NONE);
}

/* All words have to be somewhere. */
static int score_of(const struct palette_item *i, const char *filter)
{
	int sum = 0;

	for (size_t n; *filter; filter += n) {
		int score;

		filter += strspn(filter, " /");
		n = strcspn(filter, " ");
		if (!n)
			break;
		score = score_word(i, filter, n);
		if (score == FUZZY_NONE)
			return FUZZY_NONE;
		sum += score;
	}
	return sum;
}

static bool is_all(const struct palette *p)
{
	return !p->filter[strspn(p->filter, " /")];
}

/* Stable, so that equals stay in their order: by insertion, of a few hundred. */
static void put_sorted(struct palette *p, int item)
{
	int at = p->n_rows++;

	for (; at && p->item[p->row[at - 1].item].score < p->item[item].score; at--)
		p->row[at] = p->row[at - 1];
	p->row[at] = (struct palette_row){ item, false };
}

static void put_grouped(struct palette *p, int item)
{
	const char *before = p->n_rows ? p->item[p->row[p->n_rows - 1].item].group : "";

	if (strcmp(before, p->item[item].group) != 0)
		p->row[p->n_rows++] = (struct palette_row){ item, true };
	p->row[p->n_rows++] = (struct palette_row){ item, false };
}

static void filter(struct palette *p)
{
	p->n_rows = p->n_shown = p->top = 0;
	for (int i = 0; i < p->n; i++) {
		p->item[i].score = score_of(&p->item[i], p->filter);
		p->n_shown += p->item[i].score > FUZZY_NONE;
		if (is_all(p))
			put_grouped(p, i);
		else if (p->item[i].score > FUZZY_NONE)
			put_sorted(p, i);
	}
	p->chosen = p->n_rows && p->row[0].heading;
}

void palette_show(struct palette *p)
{
	p->row = calloc(2 * (size_t)p->n + 1, sizeof *p->row);
	p->open = p->row != NULL;
	if (p->open)
		filter(p);
}

void palette_grow(struct palette *p)
{
	const int top = p->top, item = p->n_rows ? p->row[p->chosen].item : 0;
	struct palette_row *row = realloc(p->row, (2 * (size_t)p->n + 1) * sizeof *row);
	const bool begins = p->chosen <= 1; /* nobody has moved: the best stays chosen */

	if (!row)
		return;
	p->row = row;
	filter(p);
	for (int i = 0; !begins && i < p->n_rows; i++)
		if (p->row[i].item == item && !p->row[i].heading)
			p->chosen = i;
	p->top = top < p->n_rows ? top : 0;
}

void palette_note(struct palette *p, const char *note)
{
	snprintf(p->note, sizeof p->note, "%s", note);
}

/* ---- keys ---- */

static void type(struct palette *p, const char *text, size_t n)
{
	const size_t had = strlen(p->filter);

	if (had + n >= sizeof p->filter)
		return;
	for (size_t i = 0; i < n; i++) /* what is pasted may have lines */
		p->filter[had + i] = text[i] == '\n' || text[i] == '\t' ? ' ' : text[i];
	p->filter[had + n] = '\0';
	filter(p);
}

static void erase(struct palette *p, int key)
{
	size_t n = strlen(p->filter);

	if (key == CTRL_U)
		n = 0;
	while (key == CTRL_W && n && p->filter[n - 1] == ' ')
		n--;
	do { /* bytes that follow in a character, too */
		n -= n > 0;
	} while (n && ((p->filter[n] & 0xc0) == 0x80 || (key == CTRL_W && p->filter[n - 1] != ' ')));
	p->filter[n] = '\0';
	filter(p);
}

/* Onto the next item in that direction. */
static void move(struct palette *p, int by)
{
	int to = p->chosen + by;

	to = to >= p->n_rows ? p->n_rows - 1 : to;
	to = to < 0 ? 0 : to;
	if (p->n_rows && p->row[to].heading)
		to += by < 0 && to ? -1 : 1;
	p->chosen = to;
}

static int step_of(const struct palette *p, const struct term_key *k)
{
	const int page = p->fit > 2 ? p->fit - 1 : 1;

	switch (k->code) {
	case KEY_UP_:
	case CTRL_P:
	case KEY_BACKTAB: return -1;
	case KEY_DOWN_:
	case CTRL_N: return 1;
	case KEY_PAGE_UP: return -page;
	case KEY_PAGE_DOWN: return page;
	case KEY_HOME_: return -p->n_rows;
	case KEY_END_: return p->n_rows;
	case KEY_MOUSE_:
		return k->button == MOUSE_WHEEL_UP ? -3 : k->button == MOUSE_WHEEL_DOWN ? 3 : 0;
	default: return 0;
	}
}

static bool click(struct palette *p, const struct term_key *k)
{
	const int row = p->top + k->y - p->y0;

	if (k->y < p->y0 || k->y >= p->y0 + p->fit || row >= p->n_rows || p->row[row].heading)
		return false;
	p->chosen = row;
	return true;
}

static enum palette_answer choose(struct palette *p, const struct term_key *k)
{
	switch (k->code) {
	case '\r':
	case '\n':
	case KEY_ENTER_: return p->n_rows ? PALETTE_RUN : PALETTE_STAYS;
	case '\t':
	case KEY_TAB_: return p->n_rows ? PALETTE_TYPE : PALETTE_STAYS;
	case KEY_F1_: return p->n_rows ? PALETTE_EXPLAIN : PALETTE_STAYS;
	case KEY_MOUSE_: return k->button == MOUSE_CLICK && click(p, k) ? PALETTE_RUN : PALETTE_STAYS;
	case ESC:
	case KEY_ESC: return PALETTE_LEFT;
	default: return PALETTE_STAYS;
	}
}

enum palette_answer palette_key(
	struct palette *p, const struct term_key *k, const struct palette_item **chosen)
{
	const int by = step_of(p, k);
	const enum palette_answer answer = choose(p, k);

	*chosen = NULL;
	if (answer != PALETTE_STAYS) {
		*chosen = p->n_rows ? &p->item[p->row[p->chosen].item] : NULL;
		return answer;
	}
	if (by)
		move(p, by);
	else if (k->code == BACKSPACE || k->code == CTRL_H || k->code == CTRL_U || k->code == CTRL_W)
		erase(p, k->code);
	else if (k->code == KEY_PASTE_)
		type(p, k->text, k->size);
	else if (k->code == KEY_CHAR_ || (k->code >= ' ' && k->code < BACKSPACE))
		type(p, k->seq, strlen(k->seq));
	return PALETTE_STAYS;
}

/* ---- drawing ---- */

enum { NAME, VALUE, TEXT, KEY, COLUMNS, NARROW = 100 };

/* Widths depend on all there is, so that columns stay where they are while one types. */
static void set_columns(const struct palette *p, int w, struct column column[COLUMNS])
{
	bool values = false, keys = false;

	for (int i = 0; i < p->n; i++) {
		values |= *p->item[i].value != 0;
		keys |= p->item[i].key != NULL;
	}
	column[NAME] = (struct column){ NULL, w < NARROW ? -22 : -29, 2 };
	column[VALUE] = (struct column){ NULL, values ? w < NARROW ? -8 : -12 : -1, values };
	column[TEXT] = (struct column){ NULL, 0, values };
	column[KEY] = (struct column){ NULL, w < NARROW ? keys ? 4 : 1 : 13, 1 };
}

/* kind: what it is, where no heading says so. */
static void draw_item(
	const struct table *t, const struct palette_item *i, const char *kind, bool chosen)
{
	const enum ink ink = chosen ? INK_BRIGHT : INK_TEXT, dim = chosen ? INK_BRIGHT : INK_DIM;

	table_put(t, NAME, ink, "%s", i->name);
	table_put(t, VALUE, ink, "%s", i->value);
	table_put(t, TEXT, dim, "%s", i->text);
	table_put(t, KEY, dim, "%s", i->key ? i->key : t->p->r.w < NARROW ? "" : kind);
	if (chosen)
		pen_restyle(t->p, (struct rect){ 1, t->y, t->p->r.w - 1, 1 }, ATTR_REVERSE);
}

/* The heading of the first group stays with it. */
static void scroll(struct palette *p, int fit)
{
	const int first = p->chosen == 1 && p->row[0].heading ? 0 : p->chosen;

	p->fit = fit;
	p->top = p->top > first ? first : p->top;
	p->top = p->top < p->chosen - fit + 1 ? p->chosen - fit + 1 : p->top;
}

static void draw_list(struct palette *p, struct pen *in)
{
	struct column column[COLUMNS];
	struct table t = { .p = in, .column = column, .n = COLUMNS };

	set_columns(p, in->r.w, column);
	p->y0 = in->r.y;
	scroll(p, in->r.h);
	for (; t.y < p->fit && p->top + t.y < p->n_rows; t.y++) {
		const struct palette_row *row = &p->row[p->top + t.y];
		const struct palette_item *i = &p->item[row->item];

		if (row->heading)
			view_put(in, 1, t.y, INK_BRIGHT, "%s", i->group);
		else
			draw_item(&t, i, is_all(p) ? "" : i->group, row == &p->row[p->chosen]);
	}
	if (!p->n_rows)
		view_put(in, 2, 0, INK_DIM, "nothing is called so; Backspace takes a letter away");
}

/* As high as the screen, whatever the filter leaves: nothing moves while one types. */
static struct pen frame(struct canvas *c)
{
	struct rect r = { 0, 1, c->w, c->h - 2 };
	struct pen pen;

	if (c->w >= WIDTH + 2 * MARGIN) { /* less would be scraps of the screen */
		r.w = WIDTH;
		r.x = (c->w - r.w) / 2;
	}
	pen = pen_of(c, r);
	pen.ink = INK_TEXT;
	pen.paper = INK_BAND;
	pen_fill(&pen, (struct rect){ 0, 0, r.w, r.h });
	return pen;
}

static void draw_head(const struct palette *p, const struct pen *pen)
{
	struct pen in = pen_sub(pen, (struct rect){ 1, 0, pen->r.w - 2, 2 });
	char count[48];
	int x;

	snprintf(count, sizeof count, "%d of %d", p->n_shown, p->n);
	pen_head(&in, p->title, *p->note ? p->note : count);
	x = view_put(&in, 0, 1, INK_DIM, "%s ", glyph(in.c, GLYPH_PROMPT));
	x += view_put(&in, x, 1, INK_BRIGHT, "%s", p->filter);
	in.c->cursor_x = in.r.x + x;
	in.c->cursor_y = in.r.y + 1;
}

/* What has no room in its line. */
static void draw_foot(const struct palette *p, const struct pen *pen)
{
	struct pen in = pen_sub(pen, (struct rect){ 1, pen->r.h - FOOT, pen->r.w - 2, FOOT });

	pen_hline(&in, 0, 0, in.r.w);
	in.ink = INK_TEXT;
	if (p->n_rows)
		pen_wrap(&in, 0, 1, in.r.w, WORDS, p->item[p->row[p->chosen].item].text);
	view_put(&in, 0, FOOT - 1, INK_DIM,
		"Enter runs it · Tab: into the prompt · F1 explains · Esc closes");
}

void palette_draw(struct palette *p, struct canvas *c)
{
	struct pen pen, in;

	if (!p->open || c->w < 24 || c->h < HEAD + FOOT + 4)
		return;
	pen = frame(c);
	draw_head(p, &pen);
	in = pen_sub(&pen, (struct rect){ 0, HEAD, pen.r.w - 1, pen.r.h - HEAD - FOOT });
	draw_list(p, &in);
	draw_foot(p, &pen);
}

/* The screen of `cutaway compare`. See inspect.h. */
#include "base/embed.h"
#include "base/ids.h"
#include "tui/inspect/inspect.h"

#include "tui/views/view.h"

enum { HEAD_ROWS = 4, LEAST_TEXT = 3, NAME_W = 20, CELL_W = 18, FRAME_MS = 100 };

EMBED(compare_screen_help, "tui/inspect/compare_screen.txt");

/* ---- what is shown ---- */

/* The newest answer, `back` prompts back; NULL: there is none. */
static const struct compare_answer *answer_back(const struct compare_side *s, int back)
{
	const struct compare_answer *a = s->n_answers ? &s->answer[s->n_answers - 1] : NULL;

	for (int i = s->n_answers - 1; i >= 0; i--)
		if (strcmp(s->answer[i].text, a->text) != 0) {
			if (back-- == 0)
				return a;
			a = &s->answer[i];
		}
	return back > 0 ? NULL : a;
}

static const struct compare_answer *answer_to(const struct compare_side *s, const char *text)
{
	for (int i = s->n_answers - 1; i >= 0; i--)
		if (!strcmp(s->answer[i].text, text))
			return &s->answer[i];
	return NULL;
}

/* Tokens that both begin with; INT32_MAX if one only goes on where the other still runs. */
static int32_t first_difference(const struct compare_answer *a, const struct compare_answer *b)
{
	const int32_t at = a && b ? ids_common(a->id, a->n, b->id, b->n) : 0;

	if (!a || !b || (at == a->n && (!a->over || at == b->n)) || (at == b->n && !b->over))
		return INT32_MAX;
	return at;
}

/* ---- drawing ---- */

static void style(void *arg, int32_t token, bool standin, struct pen *pen)
{
	const int32_t at = *(const int32_t *)arg;

	pen->ink = standin || token < at ? (at == INT32_MAX ? INK_TEXT : INK_DIM) : INK_BRIGHT;
	pen->attr = token == at ? ATTR_REVERSE | ATTR_BOLD : 0;
}

static int draw_side(struct compare_screen *s, int side, const struct compare_answer *a, int32_t at,
	struct pen *pen, struct err *e)
{
	struct text_column *column = &s->screen.column[side];

	pen->ink = INK_DIM;
	if (!a) {
		pen_text(pen, 0, 0, "not answered yet", -1);
		return 0;
	}
	if (text_column_fill(column, 0, a->id, a->n, &s->c->side[side].texts, e) ||
		text_column_wrap(column, pen->r.w, pen->c->ascii, e))
		return -1;
	column->scroll = column->n_lines; /* the end, or a little before what differs */
	if (at < a->n && a->over)
		column->scroll = text_column_line(column, at) - pen->r.h / 3;
	text_column_clamp(column, pen->r.h);
	text_column_draw(column, pen, style, &at);
	return 0;
}

static void draw_title(const struct compare_side *s, int side, struct canvas *c)
{
	struct pen p = screen_title(c, side, *s->label ? s->label : "as it is");
	const int x = pen_clip(&p, 0, 1, p.r.w, s->model, -1);

	pen_clip(&p, x + 2, 1, p.r.w - x - 2, s->machine, -1);
}

/* Both sides, and the prompt above them. */
static int draw_texts(struct compare_screen *s, struct canvas *c, int rows, struct err *e)
{
	const struct compare_answer *newest = answer_back(&s->c->side[s->c->newest], s->back), *a[2];
	struct pen all = pen_of(c, (struct rect){ 1, 0, c->w - 2, HEAD_ROWS + rows });
	int rc = 0;

	for (int side = 0; side < 2; side++)
		a[side] = newest ? answer_to(&s->c->side[side], newest->text) : NULL;
	all.ink = INK_TEXT;
	if (newest)
		pen_clip(&all, 0, 2, all.r.w, newest->text, -1);
	for (int side = 0; !rc && side < 2; side++) {
		struct pen text = screen_side(c, side, HEAD_ROWS, rows);

		draw_title(&s->c->side[side], side, c);
		rc = draw_side(s, side, a[side], first_difference(a[0], a[1]), &text, e);
	}
	pen_hline(&all, 0, 3, all.r.w);
	return rc;
}

static void draw_table(const struct compare_screen *s, struct pen *p)
{
	static const char *const heads[] = { "A", "B", "B / A" };

	pen_hline(p, 0, 0, p->r.w);
	for (int k = 0; k < 3; k++) {
		p->ink = INK_BRIGHT;
		pen_right(p, NAME_W + (k + 1) * CELL_W, 0, " %s", heads[k]);
	}
	for (int i = 0; i < s->n_rows && i + 1 < p->r.h; i++) {
		p->ink = s->row[i].range ? INK_DIM : INK_TEXT;
		pen_text(p, 0, i + 1, s->row[i].name, -1);
		for (int k = 0; k < 3; k++)
			pen_right(p, NAME_W + (k + 1) * CELL_W, i + 1, "%s", s->row[i].cell[k]);
	}
	p->ink = INK_DIM;
	if (!s->n_rows)
		pen_text(p, 0, 1, "no pair has been answered yet", -1);
}

/* Of the newest prompt: which it is, and how many answers of a side count so far. */
static void place_of(const struct compare_side *s, int *prompt, int *run)
{
	const char *last = NULL;

	*prompt = *run = 0;
	for (int i = 0; i < s->n_answers; i++) {
		if (!last || strcmp(last, s->answer[i].text) != 0) {
			++*prompt;
			*run = 0;
		}
		last = s->answer[i].text;
		*run += s->answer[i].counted;
	}
}

static void draw_status(const struct compare_screen *s, struct canvas *c)
{
	struct pen p = screen_status(c);
	int prompt, run, x = 1;

	place_of(&s->c->side[s->c->newest], &prompt, &run);
	if (atomic_load(s->over))
		x += pen_text(&p, x, 0, "over; q prints the table", -1);
	else if (s->c->side[s->c->newest].phase == COMPARE_SCORE)
		x += pen_text(&p, x, 0, "A's texts are scored under both", -1);
	else if (!run)
		x += pen_printf(
			&p, x, 0, "prompt %d of %d, to warm up, %c", prompt, s->n_prompts, 'A' + s->c->newest);
	else
		x += pen_printf(&p, x, 0, "prompt %d of %d, run %d of %d, %c", prompt, s->n_prompts, run,
			s->repeat, 'A' + s->c->newest);
	p.ink = INK_DIM;
	pen_right(&p, c->w - 1, 0, "n p prompt   F1 explain   q leaves");
}

/* The rows change when an answer has ended or a token was scored. */
static int update_rows(struct compare_screen *s, struct err *e)
{
	struct compare_table t;
	int64_t n = s->c->side[0].n_scored + s->c->side[1].n_scored;

	for (int side = 0; side < 2; side++)
		for (int i = 0; i < s->c->side[side].n_answers; i++)
			n += s->c->side[side].answer[i].over;
	if (n == s->n_ended)
		return 0;
	s->n_ended = n;
	if (compare_table(s->c, &t, e))
		return -1;
	s->n_rows = t.n_pairs ? compare_rows(&t, s->row) : 0;
	compare_table_free(&t);
	return 0;
}

static int draw_all(struct compare_screen *s, struct canvas *c, struct err *e)
{
	const int most = c->h - HEAD_ROWS - LEAST_TEXT - 1;
	const int table = most < COMPARE_ROWS + 1 ? most : COMPARE_ROWS + 1;
	struct pen p = pen_of(c, (struct rect){ 1, c->h - 1 - table, c->w - 2, table });

	if (table < 2 || c->w < 40) {
		p = pen_of(c, (struct rect){ 0, 0, c->w, c->h });
		pen_text(&p, 0, 0, "too small", -1);
		return 0;
	}
	if (update_rows(s, e) || draw_texts(s, c, c->h - HEAD_ROWS - table - 1, e))
		return -1;
	draw_table(s, &p);
	draw_status(s, c);
	return 0;
}

static int draw(void *screen, struct canvas *c, struct err *e)
{
	struct compare_screen *s = screen;
	int rc;

	pthread_mutex_lock(s->lock);
	rc = draw_all(s, c, e);
	pthread_mutex_unlock(s->lock);
	return rc;
}

static void key(void *screen, int code, int w, int h)
{
	struct compare_screen *s = screen;

	(void)w, (void)h;
	if (code == 'n')
		s->back -= s->back > 0;
	if (code != 'p')
		return;
	pthread_mutex_lock(s->lock);
	s->back += answer_back(&s->c->side[s->c->newest], s->back + 1) != NULL;
	pthread_mutex_unlock(s->lock);
}

/* A frame is due while something changes, and one after it has ended. */
static int wait_ms(void *screen)
{
	const struct compare_screen *s = screen;

	return atomic_load(s->over) ? 10 * FRAME_MS : FRAME_MS;
}

const struct screen_kind compare_screen = {
	.draw = draw, .key = key, .wait_ms = wait_ms, .name = "compare", .help = compare_screen_help
};

/* --- the screen of `cutaway compare` --- */

struct run {
	const struct tui_compare *of;
	struct err err; /* of the work */
	atomic_bool over;
};

static void *work(void *arg)
{
	struct run *r = arg;

	r->of->work(r->of->arg, &r->err);
	atomic_store(&r->over, true);
	return NULL;
}

int tui_compare(const struct tui_compare *t, const struct tui_options *o, struct err *e)
{
	struct run r = { .of = t };
	struct compare_screen s = { .screen.kind = &compare_screen,
		.c = t->compare,
		.lock = t->lock,
		.over = &r.over,
		.n_prompts = t->n_prompts,
		.repeat = t->repeat };
	pthread_t thread;
	int rc;

	if (pthread_create(&thread, NULL, work, &r))
		return err_set(e, ERR_IO, "the system refused a thread");
	rc = screen_loop(&s.screen, o, e);
	atomic_store(t->stop, true);
	pthread_join(thread, NULL);
	screen_free(&s.screen);
	return rc || r.err.code ? err_set(e, r.err.code, "%s", r.err.text) : 0;
}

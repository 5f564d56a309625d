/* One frame: status line, views, message, prompt, hints, and a popup over them. See app.h. */

#include "tui/app/app.h"

enum { MESSAGE_ROWS = 4, AGE_W = 12, MATCH_ROWS = 10, LOSSY_W = 6 };

static struct pen pen_ink(struct app *a, struct rect r, enum ink ink)
{
	struct pen p = pen_of(&a->canvas, r);

	p.ink = (uint8_t)ink;
	return p;
}

/* --- status --- */

void app_field(struct app_status *s, enum ink ink, const char *fmt, ...)
{
	va_list ap;

	if (s->n == STATUS_FIELDS)
		return;
	va_start(ap, fmt);
	vsnprintf(s->text[s->n], sizeof s->text[s->n], fmt, ap);
	va_end(ap);
	s->ink[s->n++] = ink;
}

/* Fields stand at the right end, in the order of their rank from right to left; those that do not
 * fit beside the name are left out: the first `kept` give way to `least` columns of it only.
 * Returns the column where they begin. */
static int draw_fields(struct pen *p, const struct app_status *s, int least, int name_w)
{
	int x = p->r.w - 1, gap = p->r.w >= 100 ? 3 : 2;

	for (int i = 0; i < s->n; i++) {
		int w = text_width(s->text[i], strlen(s->text[i]), p->c->ascii);

		if (x - w < (i < s->n_kept ? least : name_w) + 1)
			break;
		p->ink = (uint8_t)s->ink[i];
		pen_text(p, x - w, 0, s->text[i], -1);
		x -= w + gap;
	}
	return x;
}

/* A name that is too long loses its last parts, which are separated by dots. */
static void draw_name(struct pen *p, int x, int w, char *name)
{
	for (char *cut; text_width(name, strlen(name), p->c->ascii) > w && (cut = strrchr(name, ' '));)
		*cut = '\0';
	if (strlen(name) > 3 && !strcmp(name + strlen(name) - 3, " ·"))
		name[strlen(name) - 3] = '\0';
	if (w > 8)
		pen_clip(p, x, 0, w, name, -1);
}

/* What is lossy is a warning: cut to w columns, but always there. Returns the columns it took. */
static int draw_lossy(struct pen *p, int x, int w, const char *lossy)
{
	int n;

	if (!*lossy)
		return 0;
	p->ink = INK_REJECTED;
	n = pen_clip(p, x, 0, w < LOSSY_W ? LOSSY_W : w, lossy, (long)strlen(lossy) - 1);
	p->ink = INK_DIM;
	pen_text(p, x + n + 1, 0, glyph(p->c, GLYPH_DOT), -1);
	return n + 3;
}

/* Columns of the fields that what is lossy gives way to: those that are kept, but for the last. */
static int kept_width(struct app *a, const struct app_status *s, int gap)
{
	int w = 0;

	for (int i = 0; i < s->n_kept - 1; i++)
		w += gap + text_width(s->text[i], strlen(s->text[i]), a->canvas.ascii);
	return w;
}

static void draw_status(struct app *a, struct rect r)
{
	struct pen p = pen_ink(a, r, INK_BRIGHT);
	struct app_status s = { .n = 0 };
	struct view_text name, lossy = app_lossy_title(app_timeline(a));
	int x, end, all, least, room;

	if (r.h < 1)
		return;
	p.paper = INK_BAND;
	pen_fill(&p, (struct rect){ 0, 0, r.w, 1 });
	name = a->mode->name(a);
	a->mode->status(a, &s);
	all = text_width(name.text, strlen(name.text), a->canvas.ascii);
	least = text_width(name.text, strcspn(name.text, " "), a->canvas.ascii);
	p.attr = ATTR_BOLD;

	x = r.w < (*lossy.text ? 100 : 40) ? 1 : pen_clip(&p, 1, 0, r.w - 1, "cutaway", -1) + 3;
	x += draw_lossy(&p, x, r.w - 4 - x - least - kept_width(a, &s, r.w >= 100 ? 3 : 2), lossy.text);
	p.attr = 0;
	room = r.w / 2 - x > least ? r.w / 2 - x : least;
	end = draw_fields(&p, &s, r.w < 60 ? x : x + least, x + (all < room ? all : room));
	p.ink = INK_DIM;
	draw_name(&p, x, end - x, name.text);
}

/* --- message, hints --- */

static struct view_text message_age(const struct app *a)
{
	const int64_t age = (now_ns() - a->message_ns) / 1000000000;

	return age >= 60  ? view_form("%d min ago", (int)(age / 60))
		   : age >= 2 ? view_form("%d s ago", (int)age)
					  : view_form("%s", "");
}

static int message_rows(const char *text, int w, bool ascii)
{
	int rows = 0;

	for (size_t next; *text && rows < MESSAGE_ROWS; text += next, rows++)
		text_line(text, w, ascii, &next);
	return rows;
}

/* Shows its age, if that needs no further row: a message that grew a row after two seconds would
 * jump. */
static int message_width(const struct app *a, int w)
{
	int all = w - 2, beside = w - 1 - AGE_W;

	return w < 40 || message_rows(a->message, beside, a->canvas.ascii) >
						 message_rows(a->message, all, a->canvas.ascii)
			   ? all
			   : beside;
}

static void draw_message(struct app *a, struct pen *p)
{
	const int w = message_width(a, p->r.w);

	p->ink = INK_DIM;
	if (w < p->r.w - 2)
		pen_right(p, p->r.w - 1, 0, "%s", message_age(a).text);
	p->ink = a->message_kind == SAY_ERROR ? INK_REJECTED : INK_TEXT;
	pen_wrap(p, 1, 0, w, p->r.h, a->message);
}

/* On the rule and, if it is long, over the end of the views: a cut message could not be acted
 * on. */
static void draw_message_above(struct app *a, struct rect r)
{
	const struct rect *lesson = &a->layout.view[VIEW_LESSON];
	const int side = lesson->x + lesson->w + 2;
	int rows = message_rows(a->message, message_width(a, r.w), a->canvas.ascii);
	struct pen p;

	if (rows > 1 && lesson->h > 0 && side < r.w / 2 + 4) { /* its end is what is read */
		r = (struct rect){ side, r.y, r.x + r.w - side, r.h };
		rows = message_rows(a->message, message_width(a, r.w), a->canvas.ascii);
	}
	rows = rows > 1 + a->layout.body.h / 4 ? 1 + a->layout.body.h / 4 : rows;
	p = pen_ink(a, (struct rect){ r.x, r.y - rows + 1, r.w, rows }, INK_TEXT);
	pen_fill(&p, (struct rect){ 0, 0, r.w, rows });
	draw_message(a, &p);
}

static void draw_rule(struct app *a, struct rect r)
{
	struct pen p = pen_ink(a, r, INK_RULE);
	char hint[512];

	if (r.h < 1)
		return;
	commands_hint(&a->host, a->focus < 0 ? prompt_text() : "", hint, sizeof hint);
	if (*hint) {
		p.ink = INK_DIM;
		pen_clip(&p, 1, 0, r.w - 2, hint, -1);
		return;
	}
	if (a->canvas.h >= 14)
		pen_hline(&p, 0, 0, r.w);
	if (a->message_ns)
		draw_message_above(a, r);
}

/* Where there is no line for them, messages take that of the prompt. */
static bool draw_message_over(struct app *a)
{
	struct pen p = pen_ink(a, a->layout.prompt, INK_TEXT);

	if (a->layout.rule.h > 0 || !a->message_ns || *prompt_text())
		return false;
	draw_message(a, &p);
	return true;
}

/* A view alone on the screen while the prompt has the keys. */
static const struct hint alone_hints[] = { { "^O", "keys to the view" }, { "Esc", "back" },
	{ "F1", "explain" }, { "PgUp PgDn", "scroll" }, { "^P", "commands" }, { "^C", "stop" },
	{ NULL, NULL } };

/* A command is typed in a replay, where letters are keys else. */
static const struct hint type_hints[] = { { "Enter", "run" }, { "Tab", "complete" },
	{ "Esc", "leave" }, { "F1", "explain" }, { "^P", "commands" }, { NULL, NULL } };

static const struct hint turn_hint = { "F7 F8", "views" };
static const struct hint view_hints[] = {
	{ "Enter", "zoom" }, /* draw_hints() knows that it is the first */
	{ "Esc", "back" },
	{ "F1", "explain" },
	{ "w", "why" },
	{ "1-9", "views" },
	{ "space", "pause" },
	{ "F10", "step" },
	{ "^P", "commands" },
	{ "^O", "prompt" },
	{ NULL, NULL },
};

static const struct hint lesson_hints[] = { { "Enter", "reads on" },
	{ "/lesson off", "leaves it" } };

/* Returns the column after it, or -1 if it does not fit. */
static int draw_hint(struct pen *p, int x, const struct hint *h)
{
	int w = text_width(h->key, strlen(h->key), p->c->ascii) + 1 + (int)strlen(h->word);

	if (x + w > p->r.w)
		return -1;
	p->ink = INK_BRIGHT;
	p->attr = ATTR_BOLD;
	x += pen_text(p, x, 0, h->key, -1) + 1;
	p->ink = INK_DIM;
	p->attr = 0;
	return x + pen_text(p, x, 0, h->word, -1) + 3;
}

/* A view handles Enter itself only when it is zoomed; a replay takes no other token. */
static void draw_hints(struct app *a, struct rect r)
{
	const struct hint *own = a->focus >= 0 ? views[a->focus]->hints : NULL, *h;
	struct pen p = pen_ink(a, r, INK_DIM);
	const bool zoomed = app_zoom(a) >= 0, offers = a->focus >= 0 && *a->offer,
			   takes = zoomed && !offers && !(a->host.replay && a->focus == VIEW_NEXT);
	const char *pause = a->host.replay                                             ? "play"
						: a->state.waiting && a->state.waiting->paused && !a->past ? "go on"
																				   : "pause";
	int x = 0;

	if (r.h < 1 || a->palette.open) /* which has the keys, and says so itself */
		return;
	if (a->projector)
		x = draw_hint(&p, x, &turn_hint);
	if (a->focus < 0 && a->mode->reads && a->mode->reads(a))
		x = draw_hint(&p, draw_hint(&p, x, &lesson_hints[0]), &lesson_hints[1]);
	if (offers)
		x = draw_hint(&p, x, &(struct hint){ "Enter", a->offer });
	for (h = own; h && h->key && x >= 0; h++)
		if (takes || strcmp(h->key, "Enter") != 0)
			x = draw_hint(&p, x, h);
	for (h = a->focus >= 0                                        ? view_hints
			 : a->host.replay && !a->prompt_hidden                ? type_hints
			 : a->past                                            ? a->mode->past_hints
			 : a->zoom >= 0 && !a->prompt_hidden && !a->projector ? alone_hints
																  : a->mode->hints;
		 h->key && x >= 0; h++)
		if (h != view_hints || !(zoomed || offers))
			x = draw_hint(
				&p, x, strcmp(h->word, "pause") != 0 ? h : &(struct hint){ h->key, pause });
}

/* --- views --- */

static bool head_drawn(const struct canvas *c, struct rect r, const char *name)
{
	const struct cell *cell = c->cell + (size_t)r.y * (size_t)c->w + (size_t)r.x;
	size_t n = strlen(name);

	if (n > (size_t)r.w)
		return false;
	for (size_t i = 0; i < n; i++)
		if (cell[i].text[0] != name[i])
			return false;
	return true;
}

/* The head of the view in focus is one bright bar, and while a view has the focus, each shows the
 * key that selects it. */
static void draw_focus(struct app *a, int i)
{
	static const char *const digit[] = { "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹" };
	struct rect r = a->layout.view[i];
	struct pen p = pen_ink(a, (struct rect){ 0, 0, a->canvas.w, a->canvas.h }, INK_DIM);

	if (a->focus < 0)
		return;
	if (a->focus == i && head_drawn(&a->canvas, r, views[i]->name)) {
		struct pen head = pen_of(&a->canvas, r);

		view_mark_row(&head, 0);
	}
	if (r.x > 0 && i < 9 && !a->canvas.ascii)
		pen_text(&p, r.x - 1, r.y, digit[i], -1);
	else if (r.x > 0 && i < 9)
		pen_printf(&p, r.x - 1, r.y, "%d", i + 1);
}

/* points: what a lesson points at in the view that it looks at. */
static void draw_views(struct app *a, const struct layout_request *ask, const char *points)
{
	for (int i = 0; i < VIEW_N; i++) {
		struct pen p = pen_of(&a->canvas, a->layout.view[i]);

		if (p.r.h < 1)
			continue;
		a->state.focused = a->focus == i;
		a->state.zoomed = app_zoom(a) == i;
		a->canvas.offer[0] = '\0';
		view_draw(i, &p, app_timeline(a), &a->state);
		if (a->focus == i)
			snprintf(a->offer, sizeof a->offer, "%s",
				commands_find(&a->host, a->canvas.offer) ? a->canvas.offer : "");
		if (i == ask->look)
			view_lesson_point(&p, points);
		draw_focus(a, i);
	}
}

/* --- the prompt and what Tab found --- */

static const struct command *command_named(const char *text)
{
	for (const struct command *c = commands; *text == '/' && c->s; c++)
		if (!strcmp(c->s->name, text + 1))
			return c;
	return NULL;
}

static void draw_match(struct pen *p, int x, int y, int w, const char *text, bool alone)
{
	const struct command *c = command_named(text);
	char arg[64];

	view_clip(p, x, y, w, INK_BRIGHT, text);
	if (!c || !alone)
		return;
	view_clip(p, x + 19, y, 15, INK_DIM, setting_arg(c->s, arg, sizeof arg));
	view_clip(p, x + 35, y, w - 35, INK_DIM, c->s->doc);
}

/* Above the prompt: one a line with its meaning if there is room, else in columns. */
static void draw_matches(struct app *a)
{
	int n = prompt_n_matches(), widest = 1, most = a->layout.body.h / 2, columns, rows;
	struct rect r = a->layout.body;
	struct pen p;

	if (!n || a->focus >= 0 || most < 1)
		return;
	for (int i = 0; i < n; i++) {
		int w = text_width(prompt_match(i), strlen(prompt_match(i)), a->canvas.ascii);

		widest = w > widest ? w : widest;
	}
	most = most > MATCH_ROWS ? MATCH_ROWS : most;
	columns = n <= most ? 1 : (r.w - 2) / (widest + 2) < 1 ? 1 : (r.w - 2) / (widest + 2);
	rows = (n + columns - 1) / columns;
	rows = rows > most ? most : rows;
	p = pen_ink(a, (struct rect){ r.x, r.y + r.h - rows, r.w, rows }, INK_TEXT);
	p.paper = INK_BAND;
	pen_fill(&p, (struct rect){ 0, 0, r.w, rows });
	for (int i = 0; i < n && i < rows * columns - (n > rows * columns); i++)
		draw_match(&p, 1 + i / rows * (widest + 2), i % rows, columns == 1 ? r.w - 2 : widest,
			prompt_match(i), columns == 1);
	if (n > rows * columns)
		view_put(&p, 1 + (columns - 1) * (widest + 2), rows - 1, INK_DIM, "%s %d more",
			glyph(p.c, GLYPH_ELLIPSIS), n - rows * columns + 1);
}

static const char asleep[] = "the views have the keys · ^O to type here";

static void draw_prompt(struct app *a)
{
	struct pen p = pen_ink(a, a->layout.prompt, INK_TEXT);

	if (a->prompt_hidden || draw_message_over(a))
		return;
	prompt_draw(&p, a->mode->label,
		a->focus >= 0    ? asleep
		: a->mode->empty ? a->mode->empty(a)
						 : NULL,
		a->focus < 0);
	draw_matches(a);
}

static void draw(struct app *a)
{
	struct layout_request ask = { .w = a->canvas.w,
		.h = a->canvas.h,
		.zoom = app_zoom(a),
		.scrubber = a->mode->scrubber || a->past,
		.lesson = app_timeline(a)->lesson.text,
		.empty = view_unreported(app_timeline(a)),
		.views = views };
	char points[400];

	ask.prompt_lines =
		prompt_lines(ask.w > 24 ? ask.w - 2 : ask.w, a->mode->label, a->canvas.ascii);
	ask.look = view_lesson_look(app_timeline(a), points, sizeof points, &ask.look_all);
	layout_make(&a->layout, &ask);
	/* no place beside the others, and shown alone no longer */
	if (a->focus >= 0 && a->layout.view[a->focus].h < 1)
		a->focus = a->back >= 0 && a->layout.view[a->back].h > 0 ? a->back : FOCUS_PROMPT;
	canvas_clear(&a->canvas);
	draw_status(a, a->layout.status);
	draw_views(a, &ask, points);
	if (a->mode->scrub && a->layout.scrubber.h > 0) {
		struct pen p = pen_of(&a->canvas, a->layout.scrubber);

		a->mode->scrub(a, &p);
	}
	draw_rule(a, a->layout.rule); /* over the end of it, too */
	draw_prompt(a);
	draw_hints(a, a->layout.hints);
	palette_draw(&a->palette, &a->canvas);
	popup_draw(&a->popup, &a->canvas);
}

/* A click is on what the first drawing finds there; the second shows what it chose, in a view that
 * has the keys now. */
void app_draw(struct app *a)
{
	const bool clicked = a->state.click.on;
	int view;

	draw(a);
	if (!clicked)
		return;
	view = app_view_at(a, a->state.click.x, a->state.click.y);
	a->state.click.on = false;
	if (view != a->focus)
		app_focus(a, view);
	if (a->mode->moved)
		a->mode->moved(a);
	draw(a);
}

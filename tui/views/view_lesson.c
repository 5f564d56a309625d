/* The lesson that is read (sessions/lesson): its text up to where the reader stands, with what was
 * predicted and measured. */

#include "sessions/lesson/lesson.h"
#include "tui/views/view_util.h"

/* The text as one long sheet, of which the pen shows the lines from `top` on. */
struct sheet {
	struct pen *p; /* NULL: only measured */
	int w, x, y, top;
	bool live; /* somebody can type: not in a replay */
	const struct timeline *t;
	int32_t newest; /* the first part that the reader has not seen, and its line */
	int newest_y;
};

static bool shown(const struct sheet *s)
{
	return s->p && s->y >= s->top && s->y - s->top + 1 < s->p->r.h;
}

static void put(struct sheet *s, enum ink ink, uint8_t attr, const char *text, size_t n)
{
	if (shown(s)) {
		s->p->ink = (uint8_t)ink;
		s->p->attr = attr;
		pen_text(s->p, s->x, s->y - s->top + 1, text, (long)n);
		s->p->ink = INK_TEXT;
		s->p->attr = 0;
	}
	s->x += text_width(text, n, s->p && s->p->c->ascii);
}

static void new_line(struct sheet *s, int x)
{
	s->y++;
	s->x = x;
}

/* A word in the styles that are on; its style bytes turn them. */
static void put_word(struct sheet *s, enum ink ink, unsigned *styles, const char *word, size_t n)
{
	while (n) {
		size_t run = 0;

		if ((unsigned char)*word <= LESSON_SLANTED) {
			*styles ^= 1u << *word;
			word++, n--;
			continue;
		}
		while (run < n && (unsigned char)word[run] > LESSON_SLANTED)
			run++;
		put(s, *styles & (1u << LESSON_MONO | 1u << LESSON_STRONG) ? INK_BRIGHT : ink,
			*styles & 1u << LESSON_STRONG    ? ATTR_BOLD
			: *styles & 1u << LESSON_SLANTED ? ATTR_UNDERLINE
											 : 0,
			word, run);
		word += run, n -= run;
	}
}

static int word_width(const struct sheet *s, const char *word, size_t n)
{
	int w = 0;

	for (size_t i = 0, run; i < n; i += run + 1) {
		for (run = 0; i + run < n && (unsigned char)word[i + run] > LESSON_SLANTED;)
			run++;
		w += text_width(word + i, run, s->p && s->p->c->ascii);
	}
	return w;
}

/* Wraps between words; a line of the text's own ends a line. Ends on the last line. */
static void flow(struct sheet *s, int indent, enum ink ink, const char *text)
{
	unsigned styles = 0;

	for (size_t n; *text; text += n) {
		n = strcspn(text, " \n");
		if (s->x > indent && s->x + word_width(s, text, n) > s->w)
			new_line(s, indent);
		put_word(s, ink, &styles, text, n);
		if (text[n] == '\n')
			new_line(s, indent);
		else if (text[n] == ' ' && s->x > indent && s->x < s->w)
			s->x++;
		n += text[n] != '\0';
	}
}

static void paragraph(
	struct sheet *s, int indent, enum ink ink, const char *before, const char *text)
{
	s->x = indent;
	put(s, ink == INK_TEXT ? INK_DIM : ink, 0, before, strlen(before));
	flow(s, s->x, ink, text ? text : "");
	new_line(s, 0);
}

/* ---- parts ---- */

static void item(struct sheet *s, const struct lesson_part *p)
{
	paragraph(
		s, 2 * p->level, INK_TEXT, p->number ? view_form("%d. ", p->number).text : "• ", p->text);
}

/* What the answer may be: said before it is given. */
static void choices(struct sheet *s, const struct lesson_part *p)
{
	char line[400];

	lesson_form(p, line, sizeof line);
	paragraph(s, 2, p->n_choices ? INK_TEXT : INK_DIM, "", line);
}

static void verdict(struct sheet *s, const struct tl_answer *a)
{
	bool right = a->verdict == EV_ANSWER_right, judged = right || a->verdict == EV_ANSWER_wrong;
	char line[300] = "";

	if (a->predicted)
		snprintf(line, sizeof line, "you said %s", a->predicted);
	if (a->found && a->verdict != EV_ANSWER_failed)
		text_append(line, sizeof line, ", ", "measured %s", a->found);
	if (a->verdict == EV_ANSWER_failed)
		snprintf(line, sizeof line, "not measured: %s", a->found ? a->found : "");
	if (judged)
		paragraph(s, 2, right ? INK_ACCEPTED : INK_REJECTED, right ? "✓ " : "✗ ", line);
	else if (*line)
		paragraph(s, 2, a->verdict == EV_ANSWER_failed ? INK_REJECTED : INK_DIM, "", line);
}

static void check_line(struct sheet *s, const struct lesson_part *p, const struct tl_answer *a)
{
	bool holds = a && a->verdict == EV_ANSWER_right;

	if (!a)
		return;
	paragraph(s, 0, holds ? INK_ACCEPTED : INK_REJECTED, holds ? "✓ " : "✗ ", p->text);
	if (!holds && a->found)
		paragraph(s, 2, INK_DIM, "the query gave ", a->found);
}

/* What the reader may do now. */
static void hint(struct sheet *s, const char *text)
{
	if (s->live)
		paragraph(s, 0, INK_DIM, "", text);
}

/* at: the reader stands here. */
static void part(struct sheet *s, const struct lesson_part *p, int32_t i, bool at)
{
	const struct tl_answer *a = timeline_answer(s->t, i);

	if (s->y && (p->kind != LESSON_ITEM || p[-1].kind != LESSON_ITEM))
		new_line(s, 0);
	switch (p->kind) {
	case LESSON_HEADING: paragraph(s, 0, INK_BRIGHT, "", p->text); break;
	case LESSON_PROSE: paragraph(s, 0, INK_TEXT, "", p->text); break;
	case LESSON_ITEM: item(s, p); break;
	case LESSON_CODE: paragraph(s, 2, INK_BRIGHT, "", p->text); break;
	case LESSON_MODEL: paragraph(s, 0, INK_DIM, "model ", p->text); break;
	case LESSON_START: paragraph(s, 0, INK_DIM, "begun with --", p->text); break;
	case LESSON_PAGE: at ? hint(s, "Enter goes on") : (void)s->y--; break;
	case LESSON_DO:
		paragraph(s, 0, INK_BRIGHT, "▸ ", p->text);
		if (at)
			hint(
				s, s->t->lesson.typing ? "these lines are being typed" : "Enter types these lines");
		break;
	case LESSON_LOOK:
		paragraph(s, 0, INK_DIM,
			"view: ", view_by_id(p->view) < 0 ? p->view : views[view_by_id(p->view)]->name);
		break;
	case LESSON_PREDICT:
		paragraph(s, 0, INK_BRIGHT, "? ", p->text);
		choices(s, p);
		if (a)
			verdict(s, a);
		if (at)
			hint(s, "type what you expect; Enter twice leaves it out");
		break;
	case LESSON_CHECK: check_line(s, p, a); break;
	}
}

/* The ranks of the session, as options. */
static struct engine_options ranks_of(const struct timeline *t)
{
	const char *prefill = timeline_setting(t, "prefill-ranks");
	const struct tl_split split = timeline_split(t);
	struct engine_options o = ENGINE_DEFAULTS;

	o.tensor_parallel = split.tensor;
	o.pipeline_parallel = split.pipeline;
	o.sequence_parallel = split.sequence;
	o.prefill_ranks = prefill ? atoi(prefill) : 0;
	return o;
}

/* What Enter begins, and what comes before that in the list, of another model. */
static void what_next(struct sheet *s, const struct engine_options *now)
{
	const char *name = s->t->lesson.name;
	char next[64] = "", any[64];

	if (lesson_next(name, s->t->model_path, now, next, sizeof next))
		hint(s, view_form("Enter: the next lesson, %s", next).text);
	else
		*next = '\0';
	if (!lesson_next(name, NULL, NULL, any, sizeof any) || !strcmp(any, next))
		return;
	hint(s, view_form("%s is next, with a model or options of its own: cutaway lesson %s", any, any)
				.text);
}

/* How it went, and where it goes on. */
static void the_end(struct sheet *s, const struct lesson *l)
{
	const struct engine_options now = ranks_of(s->t);
	int asked = 0, predicted = 0, right = 0, stated = 0, holds = 0;

	for (int32_t i = 0; i < l->n; i++) {
		const struct tl_answer *a = timeline_answer(s->t, i);
		bool good = a && a->verdict == EV_ANSWER_right;

		asked += l->part[i].kind == LESSON_PREDICT;
		predicted += l->part[i].kind == LESSON_PREDICT && a && a->predicted;
		right += l->part[i].kind == LESSON_PREDICT && good;
		stated += l->part[i].kind == LESSON_CHECK;
		holds += l->part[i].kind == LESSON_CHECK && good;
	}
	new_line(s, 0);
	paragraph(s, 0, INK_BRIGHT, "",
		view_form(
			"The end: %d of %d questions predicted, %d of them right; %d of %d statements hold "
			"here.",
			predicted, asked, right, holds, stated)
			.text);
	if (s->t->lesson.name && s->live)
		what_next(s, &now);
	hint(s, "/lesson: all of them · /lesson off: back to the chat");
}

static int sheet_draw(struct sheet *s, const struct lesson *l)
{
	const struct tl_lesson *now = &s->t->lesson;

	for (int32_t i = 0; i < l->n && i <= now->part; i++) {
		if (i == s->newest)
			s->newest_y = s->y ? s->y + 1 : 0; /* below the blank line */
		part(s, &l->part[i], i, i == now->part);
	}
	if (now->part >= l->n)
		the_end(s, l);
	return s->y;
}

/* ---- what it points at ---- */

int view_lesson_look(const struct timeline *t, char *text, size_t cap, bool *all)
{
	struct err ignored = { 0 };
	struct lesson *l = NULL;
	int view = -1;

	*text = '\0';
	*all = false;
	if (!t->lesson.text ||
		lesson_parse(&l, "lesson", t->lesson.text, strlen(t->lesson.text), &ignored))
		return -1;
	for (int32_t i = 0; i < l->n && i <= t->lesson.part; i++) {
		if (l->part[i].kind != LESSON_LOOK)
			continue;
		if (view_by_id(l->part[i].view) >= 0)
			view = view_by_id(l->part[i].view);
		*all = l->part[i].all;
		snprintf(text, cap, "%s", l->part[i].text ? l->part[i].text : "");
	}
	lesson_free(l);
	return view;
}

/* Where the words stand in a row of cells; -1: nowhere. *w: columns. */
static int find_words(const struct cell *row, int columns, const char *words, size_t n, int *w)
{
	for (int x = 0; x < columns; x++) {
		size_t at = 0;
		int end = x;

		while (at < n && end < columns && *row[x].text) {
			size_t size = strlen(row[end].text);

			if (size > n - at || memcmp(row[end].text, words + at, size) != 0)
				break;
			at += size;
			end++;
		}
		*w = end - x;
		if (at == n)
			return x;
	}
	return -1;
}

void view_lesson_point(struct pen *p, const char *text)
{
	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		for (int y = 0; n && y < p->r.h; y++) {
			const struct cell *row =
				p->c->cell + (size_t)(p->r.y + y) * (size_t)p->c->w + (size_t)p->r.x;
			int w, x = find_words(row, p->r.w, text, n, &w);

			if (x >= 0)
				pen_restyle(p, (struct rect){ x, y, w, 1 }, ATTR_BOLD | ATTR_UNDERLINE);
		}
	}
}

/* ---- the view ---- */

/* The last part before part i at which the reader stood; -1: none. */
static int32_t stop_before(const struct lesson *l, int32_t i)
{
	enum lesson_kind kind;

	do
		kind = --i < 0 ? LESSON_PAGE : l->part[i].kind;
	while (kind != LESSON_PAGE && kind != LESSON_DO && kind != LESSON_PREDICT);
	return i;
}

/* The first part that came, or was answered, when the reader went on to part `at`. */
static int32_t newest_part(const struct lesson *l, int64_t at)
{
	int32_t i = stop_before(l, (int32_t)within(at, 0, l->n)), asked = i;

	if (i < 0 || l->part[i].kind == LESSON_PAGE)
		return i + 1;
	if (l->part[i].kind == LESSON_DO)
		while ((asked = stop_before(l, asked)) >= 0 && l->part[asked].kind == LESSON_PREDICT)
			i = asked;
	return i;
}

/* Lines above the first that is shown. The cursor counts those below the last one. */
static int place(struct sheet *s, const struct lesson *l, int rows, int64_t *below)
{
	int most = 0;

	s->newest = newest_part(l, s->t->lesson.part);
	if (sheet_draw(s, l) > rows)
		most = s->y - rows;
	if (*below == VIEW_LESSON_NEWEST)
		*below = s->newest_y < most ? most - s->newest_y : 0;
	*below = at_most(*below, most);
	return most - (int)*below;
}

static void draw_sheet(
	struct pen *p, const struct timeline *t, const struct lesson *l, struct view_state *state)
{
	int64_t *below = &state->cursor[VIEW_LESSON];
	struct sheet measured = { .w = p->r.w - 1, .live = state->waiting, .t = t };
	int top = place(&measured, l, p->r.h - 1, below);
	struct pen in = *p;
	struct sheet s = measured;

	s.p = &in, s.x = s.y = 0, s.top = top;
	view_head(p, "lesson", "%s%s",
		top ? view_form("%d line%s above · ", top, plural(top)).text : "",
		t->lesson.name ? t->lesson.name : "");
	in.r.h -= *below > 0;
	sheet_draw(&s, l);
	if (*below > 0)
		view_put(p, 0, p->r.h - 1, INK_DIM, "%d more line%s%s", (int)*below + 1, plural(*below + 1),
			s.live ? ": Enter" : "");
}

static void draw(struct pen *p, const struct timeline *t, struct view_state *s)
{
	struct lesson *l = NULL;
	struct err e = { 0 };

	if (!t->lesson.text) {
		pen_head(p, "lesson", "");
		view_nothing(p, "no lesson is read: `/lesson` lists them");
		return;
	}
	if (lesson_parse(&l, "lesson", t->lesson.text, strlen(t->lesson.text), &e)) {
		pen_head(p, "lesson", t->lesson.name ? t->lesson.name : "");
		pen_wrap(p, 0, 1, p->r.w, p->r.h - 1, e.text);
		return;
	}
	draw_sheet(p, t, l, s);
	lesson_free(l);
}

static bool key(int key, const struct timeline *t, struct view_state *s)
{
	(void)t;
	return view_scroll(key, &s->cursor[VIEW_LESSON], 10, 100000);
}

static const struct hint hints[] = { { "↑↓", "scroll" }, { NULL, NULL } };

const struct view view_lesson = {
	VIEW(LESSON, lesson, "lesson", 20, 5, 20),
	.draw = draw,
	.key = key,
	.hints = hints,
};

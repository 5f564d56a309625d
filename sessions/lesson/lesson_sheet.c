/* See lesson.h: what a teacher has in hand while a class reads a lesson. */
#include "base/text.h"
#include "sessions/lesson/lesson.h"
#include "sessions/lesson/lesson_answers.h"

enum { TEXT_W = 78, INDENT = 10 };

const struct listing_column lesson_sheet_columns[] = { { "lesson", NULL, 0 }, { "title", NULL, 0 },
	{ "topic", NULL, 0 }, { "minutes", NULL, 0 }, { "model", NULL, 0 }, { "start", NULL, 0 },
	{ "page", NULL, 0 }, { "part", NULL, 0 }, { "text", NULL, 0 }, { "form", NULL, 0 },
	{ "answer", NULL, 0 }, { 0 } };

struct sheet {
	const struct lesson *l;
	const char *name;
	struct answers answers;
	struct lesson_found model, run_s; /* which it was run with, and how long */
	int words, questions, minutes;
	struct listing *rows; /* or NULL: lines for people */
	FILE *out;
};

/* ---- the lesson as a whole ---- */

static void count(struct sheet *s)
{
	double seconds = s->run_s.known ? s->run_s.value : 0;

	s->words = lesson_words(s->l);
	s->questions = lesson_count(s->l, LESSON_PREDICT);
	s->minutes = (int)ceil((double)s->words / LESSON_WORDS_A_MINUTE + s->questions + seconds / 60);
}

/* From the lesson's beginning to its last answer; nobody reads in a test. */
static int measure(struct sheet *s, const char *record, struct err *e)
{
	int64_t left_ns = LESSON_ASK_NS;

	return lesson_ask(record,
			   "SELECT ((SELECT max(t_ns) FROM answer) - (SELECT min(t_ns) FROM lesson)) / 1e9",
			   &left_ns, &s->run_s, e) ||
				   lesson_ask(record, "SELECT model_name FROM session", &left_ns, &s->model, e) ||
				   answers_read(&s->answers, record, e)
			   ? -1
			   : 0;
}

/* ---- lines ---- */

/* Lines as they are, long ones cut between words; the first one stands behind `mark`. */
static void put(FILE *out, const char *mark, const char *text)
{
	for (size_t next = 0; *text; text += next, mark = "") {
		size_t n = text_line(text, TEXT_W, false, &next);

		fprintf(out, "  %-*s%.*s\n", INDENT - 2, mark, (int)n, text);
		next = next ? next : strlen(text);
	}
}

static void put_head(const struct sheet *s, const char *title)
{
	fprintf(s->out, "%s: %s\n%s; about %d minutes: %d words at %d a minute, %d question%s at one",
		s->name, title, lesson_topic(s->name), s->minutes, s->words, LESSON_WORDS_A_MINUTE,
		s->questions, plural(s->questions));
	if (s->run_s.known)
		fprintf(s->out, ", runs of %.1f s here", s->run_s.value);
	fprintf(s->out, "\nneeds %s%s%s", s->l->model ? s->l->model : "any model",
		s->l->start ? ", " : "", s->l->start ? s->l->start : "");
	fprintf(s->out, "; answers are of %s\n\npage 1\n", s->model.text);
}

/* ---- parts ---- */

static const char *word_of(enum lesson_kind kind)
{
	switch (kind) {
	case LESSON_DO: return "types";
	case LESSON_LOOK: return "shows";
	case LESSON_PREDICT: return "asks";
	case LESSON_CHECK: return "states";
	default: return NULL;
	}
}

/* NULL: it asks nothing, or nothing was measured. Of what failed: why, which a line that is typed
 * may have, too. */
static const char *answer_of(const struct sheet *s, int32_t part)
{
	for (int32_t i = 0; i < s->answers.n; i++) {
		const struct answer *a = &s->answers.at[i];

		if (a->part == part && a->ask == EV_ASK_check && a->verdict != EV_ANSWER_failed)
			return a->verdict == EV_ANSWER_right ? "holds" : "does not hold";
		if (a->part == part && a->found)
			return a->found;
	}
	return NULL;
}

static void put_part(const struct sheet *s, int32_t part)
{
	const struct lesson_part *p = &s->l->part[part];
	const char *answer = answer_of(s, part);
	char form[400];

	put(s->out, word_of(p->kind), p->kind == LESSON_LOOK ? p->view : p->text);
	if (p->kind == LESSON_PREDICT) {
		lesson_form(p, form, sizeof form);
		put(s->out, "", form);
	}
	if (answer || p->kind == LESSON_PREDICT || p->kind == LESSON_CHECK)
		put(s->out, "  ->", answer ? answer : "not measured");
}

static void list_part(const struct sheet *s, int page, int32_t part, const char *title)
{
	const struct lesson_part *p = &s->l->part[part];
	char form[400];

	lesson_form(p, form, sizeof form);
	listing_text(s->rows, s->name);
	listing_text(s->rows, title);
	listing_text(s->rows, lesson_topic(s->name));
	listing_int(s->rows, s->minutes);
	listing_text(s->rows, s->l->model);
	listing_text(s->rows, s->l->start);
	listing_int(s->rows, page);
	listing_text(s->rows, word_of(p->kind));
	listing_text(s->rows, p->kind == LESSON_LOOK ? p->view : p->text);
	listing_text(s->rows, p->kind == LESSON_PREDICT ? form : NULL);
	listing_text(s->rows, answer_of(s, part));
}

static void parts(const struct sheet *s)
{
	const char *title = s->l->title ? s->l->title : "";
	int page = 1;

	if (!s->rows)
		put_head(s, title);
	for (int32_t i = 0; i < s->l->n; i++) {
		page += s->l->part[i].kind == LESSON_PAGE;
		if (s->rows && word_of(s->l->part[i].kind))
			list_part(s, page, i, title);
		else if (word_of(s->l->part[i].kind))
			put_part(s, i);
		else if (!s->rows && s->l->part[i].kind == LESSON_PAGE)
			fprintf(s->out, "\npage %d\n", page);
	}
}

int lesson_sheet(
	const char *name, const char *record, struct listing *rows, FILE *out, struct err *e)
{
	struct lesson *l = lesson_open(name, e);
	struct sheet s = { .l = l, .name = name, .rows = rows, .out = out };
	int rc = l ? measure(&s, record, e) : -1;

	if (!rc) {
		count(&s);
		parts(&s);
	}
	answers_free(&s.answers);
	lesson_free(l);
	return rc;
}

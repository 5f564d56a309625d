/* Part of the timeline: the lesson that is read, and its answers. */
#include "fold/timeline_fold.h"

enum { MOST_TEXT = 1 << 20, MOST_ANSWERS = 4096 };

static void forget(struct tl_lesson *l)
{
	for (int32_t i = 0; i < l->n_answers; i++) {
		free(l->answer[i].predicted);
		free(l->answer[i].found);
	}
	free(l->answer);
	free(l->name);
	free(l->text);
	memset(l, 0, sizeof *l);
}

bool tl_fold_lesson(struct timeline *t, const struct event *ev)
{
	const struct ev_lesson *e = &ev->u.lesson;
	struct tl_lesson *l = &t->lesson;

	if (!is_index(e->action, EV_N_lesson_action) || e->text.size > MOST_TEXT)
		return false;
	if (e->action != EV_LESSON_go_on)
		forget(l);
	if (e->action == EV_LESSON_begin) {
		l->name = tl_text(t, e->name);
		l->text = tl_text(t, e->text);
	}
	/* The reader's place is told once more when Enter types what stands there. */
	l->typing = e->action == EV_LESSON_go_on && e->part == l->part;
	l->part = e->action == EV_LESSON_begin ? -1 : e->part;
	return true;
}

const struct tl_answer *timeline_answer(const struct timeline *t, int64_t part)
{
	const struct tl_lesson *l = &t->lesson;

	for (int32_t i = 0; i < l->n_answers; i++)
		if (l->answer[i].part == part)
			return &l->answer[i];
	return NULL;
}

static struct tl_answer *answer_of(struct timeline *t, int64_t part)
{
	struct tl_lesson *l = &t->lesson;
	const struct tl_answer *known = timeline_answer(t, part);
	struct tl_answer *a;

	if (known)
		return &l->answer[known - l->answer];
	a = tl_add(t, &l->answer, &l->n_answers, &l->cap_answers, sizeof *a);
	if (a)
		a->part = part;
	return a;
}

bool tl_fold_answer(struct timeline *t, const struct event *ev)
{
	const struct ev_answer *e = &ev->u.answer;
	struct tl_answer *a;

	if (!is_index(e->ask, EV_N_ask) || !is_index(e->verdict, EV_N_answer_verdict) ||
		!t->lesson.text || t->lesson.n_answers == MOST_ANSWERS)
		return false;
	if (!(a = answer_of(t, e->part)))
		return true;
	free(a->predicted);
	free(a->found);
	a->ask = (uint8_t)e->ask;
	a->verdict = (uint8_t)e->verdict;
	a->predicted = tl_text(t, e->predicted);
	a->found = tl_text(t, e->found);
	return true;
}

/* The lesson that the chat runs: where the reader stands, and what is typed for them. Thread: the
 * UI's. */
#ifndef CUTAWAY_TUI_CHAT_LESSON_H
#define CUTAWAY_TUI_CHAT_LESSON_H

#include <stdbool.h>

#include "sessions/lesson/lesson.h"
#include "tui/chat/chat_kept.h"

struct app;

struct chat_lesson {
	struct lesson *l; /* NULL: none */
	char name[64];
	int32_t part;    /* where the reader stands; l->n: at the end */
	int64_t shown;   /* where the reader stood when the text was last placed */
	int64_t left_ns; /* for the queries of this stop */
	int32_t skips;   /* the question, plus 1, that one more empty line leaves out */
	struct chat_kept kept;
	int64_t before;      /* the request that the conversation ended with before it; 0: none */
	const char *next;    /* the next line to type; NULL: none is typed now */
	int64_t reported_ns; /* time of the newest error that was seen while lines were typed */
};

/* /lesson NAME: begins it. "": lists them; "off": closes it. */
int chat_lesson(struct app *a, const char *name, struct err *e);
/* Takes a line that is the lesson's: an empty one goes on, and one that answers a question. */
bool chat_lesson_line(struct app *a, const char *line);
/* After every wait: types the next line, and asks the log when all of it was answered. */
void chat_lesson_work(struct app *a);
/* Lines are being typed: the loop must look again soon. */
bool chat_lesson_busy(const struct app *a);
void chat_lesson_close(struct chat_lesson *k);

#endif

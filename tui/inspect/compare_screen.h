/* Two configurations side by side while they run: the answers of a prompt in two columns, the first
 * token that differs marked, the table so far below. Drawing and keys only. What it shows is a
 * fold that the engines' thread feeds; it is read under the lock. Thread: the UI's. */
#ifndef CUTAWAY_TUI_COMPARE_SCREEN_H
#define CUTAWAY_TUI_COMPARE_SCREEN_H

#include <pthread.h>
#include <stdatomic.h>

#include "sessions/compare/compare.h"
#include "tui/app/popup.h"
#include "tui/inspect/text_column.h"

struct compare_screen {
	const struct compare *c;
	pthread_mutex_t *lock; /* of c */
	atomic_bool *over;     /* nothing is added to c any more */
	int n_prompts, repeat; /* that will be answered, and how often */
	int back;              /* prompts back from the newest */
	struct text_column column[2];
	struct compare_row row[COMPARE_ROWS];
	int n_rows;
	int64_t n_ended;    /* answers and scores that the rows are of */
	struct popup popup; /* help */
};

int compare_screen_draw(void *screen, struct canvas *c, struct err *e);
/* False: the user quits. */
bool compare_screen_key(void *screen, int code, int w, int h);
void compare_screen_free(struct compare_screen *s);

#endif

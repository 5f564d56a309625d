/* Turns that wait: entered while an answer runs, and not submitted yet. Every line that was typed
 * is in the prompt's history already (the up key), whatever becomes of its turn. Thread: the UI's.
 */
#ifndef CUTAWAY_TUI_WAITING_H
#define CUTAWAY_TUI_WAITING_H

#include "tui/app/app.h"

/* Copies the line; when VIEW_WAITING wait, it is said, and the line is in the history alone. */
void waiting_push(struct app *a, struct view_waiting *w, const char *line);
/* The oldest, malloc'd; NULL: none waits. */
char *waiting_take(struct view_waiting *w);
/* Puts the newest back into the prompt; false: none waits. */
bool waiting_take_back(struct view_waiting *w);
/* Returns how many there were. */
int waiting_forget(struct view_waiting *w);
/* Forgets them and says so, and whether an answer was stopped with them (Ctrl-C). */
void waiting_stop(struct app *a, struct view_waiting *w, bool stopped, bool recorded);

#endif

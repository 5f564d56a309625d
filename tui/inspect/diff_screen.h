/* Two recordings side by side on one screen: the answers in columns, the first token that differs
 * marked, the cause below. Drawing and keys only; diff_run.c has the terminal. Thread: the UI's. */
#ifndef CUTAWAY_TUI_DIFF_SCREEN_H
#define CUTAWAY_TUI_DIFF_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "sessions/diff/diff.h"
#include "tui/term/canvas.h"
#include "tui/app/popup.h"
#include "tui/inspect/text_column.h"

struct diff_screen {
	struct diff *d;
	int pair, hunk; /* shown; hunk -1: the pair has none */
	struct text_column column[2];
	bool laid;          /* the columns are laid out for this pair */
	struct popup popup; /* help */
};

void diff_screen_init(struct diff_screen *s, struct diff *d); /* at the first difference */
void diff_screen_free(struct diff_screen *s);
/* code: that of a struct term_key. False: the user quits. */
bool diff_screen_key(struct diff_screen *s, int code, int w, int h);
int diff_screen_draw(struct diff_screen *s, struct canvas *c, struct err *e);

#endif

/* The loop of a screen of its own beside the chat's and the replay's: keys, signals, the terminal's
 * size, and frames, after a key or when its time is over. It waits in one place. Thread: the
 * UI's. */
#ifndef CUTAWAY_TUI_SCREEN_LOOP_H
#define CUTAWAY_TUI_SCREEN_LOOP_H

#include "base/err.h"
#include "tui/app/tui.h"
#include "tui/term/canvas.h"

struct screen {
	int (*draw)(void *arg, struct canvas *c, struct err *e);
	/* code: that of a struct term_key. False: the user quits. */
	bool (*key)(void *arg, int code, int w, int h);
	/* milliseconds after which it is drawn anew; -1: never. NULL: never */
	int (*wait_ms)(void *arg);
	void *arg;
};

/* Blocks the signals that the loop reads, for a caller that starts threads before it. */
void screen_block_signals(void);
/* Until the user quits; the terminal is restored. */
int screen_loop(const struct screen *s, const struct tui_options *o, struct err *e);

#endif

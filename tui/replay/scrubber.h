/* The line of the whole session with its marks, and the step where one stands: in a replay, and in
 * a chat that looks back. Thread: the UI's. */
#ifndef CUTAWAY_TUI_SCRUBBER_H
#define CUTAWAY_TUI_SCRUBBER_H

#include "tui/term/canvas.h"
#include "tui/replay/player.h"

/* Two rows; in a third, if there is one, what the marks mean and `right`. */
void scrubber_draw(struct pen *p, const struct player *player, const char *right);

#endif

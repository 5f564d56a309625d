/* A timeline bar of the whole session with its marks and the step shown: in a replay, and in a chat
 * that shows an earlier step. Thread: the UI's. */
#pragma once

#include "tui/term/canvas.h"
#include "tui/app/player.h"

/* Two rows; in a third, if there is one, a legend of the marks, and `right`. */
void scrubber_draw(struct pen *p, const struct player *player, const char *right);

/* Which turns the context has no room for any more. Thread: the UI's. */
#ifndef CUTAWAY_TUI_CHAT_LEFT_H
#define CUTAWAY_TUI_CHAT_LEFT_H

#include <stdbool.h>

#include "fold/timeline.h"

/* Requests from … end - 1 of the timeline, as far as they are shown (view_shown), are of turns of
 * this conversation that its newest prompt left out. */
struct chat_left {
	int32_t from, end;
};
struct chat_left chat_left(const struct timeline *t, const bool *shown);

#endif

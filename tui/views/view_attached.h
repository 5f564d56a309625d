/* What the views show of a session whose answers are another server's. Thread: the UI's. */
#ifndef CUTAWAY_TUI_VIEW_ATTACHED_H
#define CUTAWAY_TUI_VIEW_ATTACHED_H

#include "tui/views/view.h"

/* Draws a view, or, where the server of the session tells nothing of what it shows, that. */
void view_draw(int view, struct pen *p, const struct timeline *t, struct view_state *s);
/* Views of which such a server tells nothing: bit i for view i. */
uint64_t view_unreported(const struct timeline *t);
/* The server's slots and queue, with the head of the view "batch". Returns the line after them. */
int view_attached_slots(struct pen *p, const struct timeline *t);
/* Its KV cache and prefix cache as sums, with the head of the view "KV pages". */
void view_attached_cache(struct pen *p, const struct timeline *t);

#endif

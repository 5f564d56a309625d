/* Parts of the prefix cache view: see view_prefix_table.c. Thread: the UI's. */
#ifndef CUTAWAY_TUI_VIEW_PREFIX_H
#define CUTAWAY_TUI_VIEW_PREFIX_H

#include "tui/views/views.h"

/* The pins that live, the newest last, on at most so many rows from y on; p NULL: nothing is drawn.
 * Returns how many. */
int view_put_pins(struct pen *p, int y, int rows, const struct timeline *t);
/* The table of all lookups, newest last; cursor[VIEW_PREFIX] is its scroll. */
void view_put_lookups(struct pen *p, const struct timeline *t, struct view_state *s);

#endif

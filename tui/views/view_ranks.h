/* Parts of the view "ranks". Thread: the UI's; no state. */
#ifndef CUTAWAY_TUI_VIEW_RANKS_H
#define CUTAWAY_TUI_VIEW_RANKS_H

#include "tui/views/view.h"

/* Whether any rank told what it did when. */
bool view_ranks_have_lanes(const struct timeline *t);
/* Lines that n of them take, each `rows` high, with legend and axis. */
int view_ranks_lanes_lines(int n, int rows);
/* n ranks from `first` on, from line y on. */
void view_ranks_lanes(struct pen *p, int y, const struct timeline *t, int first, int n, int rows);

/* Prompts that prefill ranks computed, in place of all the rest. */
void view_ranks_prompts(struct pen *p, const struct timeline *t, struct view_state *s);

#endif

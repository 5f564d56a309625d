/* What the files of the view "batch" share. Thread: the UI's; no state. */
#ifndef CUTAWAY_TUI_VIEW_BATCH_H
#define CUTAWAY_TUI_VIEW_BATCH_H

#include "tui/views/view.h"

/* The requests of the busy period of the chosen one over time, from row y to the end of the pen; x:
 * width of their labels. */
void view_batch_gantt(
	struct pen *p, const struct timeline *t, const struct tl_request *chosen, int x, int y);

#endif

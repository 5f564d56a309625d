/* The table of requests and each of them over time, which the views "requests" and "batch" show.
 * Thread: the UI's; no state. */
#ifndef CUTAWAY_TUI_VIEW_REQUESTS_H
#define CUTAWAY_TUI_VIEW_REQUESTS_H

#include "tui/views/view_util.h"

enum { VIEW_TABLE_HEAD = 2 };

/* Columns of the labels at the left of both. */
int view_requests_indent(const struct timeline *t);
/* What a request does or how it ended, in a word or two. */
struct view_text view_requests_state(const struct timeline *t, const struct tl_request *r);
/* From row y on: the table, and where the view fills the screen and there is room, the time. */
void view_requests_draw(struct pen *p, const struct timeline *t, struct view_state *s, int y);
/* Keys that choose a request. */
bool view_requests_key(int key, const struct timeline *t, struct view_state *s);
/* The requests of the busy period of the chosen one over time, from row y to the end of the pen; x:
 * width of their labels. */
void view_requests_gantt(
	struct pen *p, const struct timeline *t, const struct tl_request *chosen, int x, int y);

#endif

/* The views there are. Thread: the UI's. */
#ifndef CUTAWAY_TUI_VIEWS_H
#define CUTAWAY_TUI_VIEWS_H

#include "tui/view.h"

/* Place in views[] and in the arrays of struct view_state; the key is one more. */
enum view_index {
	VIEW_CHAT, VIEW_NEXT, VIEW_PAGES, VIEW_BATCH, VIEW_SPECULATION, VIEW_PREFIX, VIEW_ATTENTION,
	VIEW_TIME, VIEW_SAMPLER, VIEW_WATCH, VIEW_TREE, VIEW_LENS, VIEW_DRAFTERS, VIEW_SEARCH, VIEW_N
};

_Static_assert((int)VIEW_N <= (int)LAYOUT_VIEWS, "struct view_state and struct layout have no room for another view");

extern const struct view view_chat, view_next, view_pages, view_batch, view_speculation, view_prefix,
	view_attention, view_time, view_sampler, view_watch, view_tree, view_lens, view_drafters, view_search;

/* view_window.c: the newest window of a request (0: of any), from line y on. Returns the line behind it, y if there is none. */
int view_window_draw(struct pen *p, int y, const struct timeline *t, int64_t request);

/* view_search.c: text of the answer that leads in a search. Returns its length. */
int view_search_leading(const struct timeline *t, const struct tl_search *s, char *text, size_t cap);

#endif

/* The map of the pool of KV pages. See view_pages_map.c. Thread: the UI's. */
#ifndef CUTAWAY_TUI_VIEW_PAGES_MAP_H
#define CUTAWAY_TUI_VIEW_PAGES_MAP_H

#include "tui/views/views.h"

/* cursor[VIEW_PAGES]: PAGES_ROW times the pages per row of the last drawing, plus which pages it
 * left out. */
enum { PAGES_ROW = 4 };

bool page_is_free(const struct tl_page *p);
/* The i-th newest event of the page's history, from 0; NULL: not kept. */
const struct tl_page_event *page_history(const struct tl_page *p, int i);

/* Draws the map over the whole pen, with the page `shown` marked (-1: none). cursor[VIEW_PAGES] and
 * scroll[VIEW_PAGES] are its own. Returns the rows used. */
int pages_map_draw(struct pen *p, const struct timeline *t, struct view_state *s, int32_t shown);
/* The page `by` pages on from `at` (-1: before the first) in the map that was drawn last; it ends
 * where the map does. */
int64_t pages_map_on(const struct timeline *t, const struct view_state *s, int64_t at, int64_t by);

#endif

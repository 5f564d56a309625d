/* What a lesson does to the screen besides its own view. Thread: the UI's. */
#ifndef CUTAWAY_TUI_VIEW_LESSON_H
#define CUTAWAY_TUI_VIEW_LESSON_H

#include "tui/views/view.h"

/* A cursor that asks for what is new from its beginning, where the end would not show all of it. */
enum { VIEW_LESSON_NEWEST = 1 << 20 };

/* The view that it looks at, the texts in it that it points at, one a line, and whether it wants
 * the whole run in it. -1: none. */
int view_lesson_look(const struct timeline *t, char *text, size_t cap, bool *all);
/* Underlines these texts where they stand in the pen's rectangle. */
void view_lesson_point(struct pen *p, const char *text);

#endif
